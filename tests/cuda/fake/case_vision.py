"""Pictures, boxes and points on the device: transforms give there what they give on the CPU."""

import pytest

import flambeau as fb
from flambeau.vision import ops, tv_tensors, utils
from flambeau.vision.models.detection.anchor_utils import AnchorGenerator
from flambeau.vision.models.detection.image_list import ImageList
from flambeau.vision.transforms import functional as F
from flambeau.vision.transforms.v2 import functional as V

pytestmark = pytest.mark.usefixtures("own_kernels")

START, END = [[0, 0], [10, 0], [10, 8], [0, 8]], [[1, 1], [9, 0], [10, 8], [0, 7]]
MOVED = {
    "rotated": lambda x: V.rotate(x, 20.0),
    "affine": lambda x: V.affine(x, 10.0, [1, 2], 1.2, [5.0, 3.0]),
    "perspective": lambda x: V.perspective(x, START, END),
    "elastic": lambda x: V.elastic(x, fb.full((1, 9, 11, 2), 0.05, device=x.device)),
    "resized": lambda x: V.resize(x, [5, 6]),
    "padded": lambda x: V.pad(x, [1, 2]),
    "cropped": lambda x: V.crop(x, 1, 1, 5, 5),
    "flipped": V.horizontal_flip,
}
SEEN = {
    "blurred": lambda x: F.gaussian_blur(x, [3, 5]),
    "sharper": lambda x: F.adjust_sharpness(x, 2.0),
    "normalized": lambda x: F.normalize(x / 255.0, [0.5, 0.4, 0.3], [0.2, 0.1, 0.2]),
    "filled": lambda x: F.rotate(x, 20.0, fill=[1.0, 2.0, 3.0]),
    "mirrored": lambda x: F.pad(x, [1, 2], padding_mode="symmetric"),
    "frames": lambda x: V.uniform_temporal_subsample(x.unsqueeze(0), 1),
    "a grid": lambda x: utils.make_grid(x.expand(3, *x.shape) / 255.0),
    "a flow": lambda x: utils.flow_to_image(x[:2] / 255.0),
}


def _same(found, expected):
    found, expected = (t.as_subclass(fb.Tensor) for t in (found, expected))
    near = 1e-3 if expected.is_floating_point() else 1
    assert found.is_cuda and fb.allclose(found.cpu().double(), expected.double(), rtol=1e-3, atol=near)


def _picture():
    fb.manual_seed(1)
    return fb.randint(0, 256, (3, 9, 11), dtype=fb.uint8)


@pytest.mark.parametrize("name", (*MOVED, *SEEN))
def test_pictures(name):
    x, change = _picture(), (MOVED | SEEN)[name]
    _same(change(x.cuda()), change(x))


@pytest.mark.parametrize("name", MOVED)
def test_boxes_and_points(name):
    boxes = fb.tensor([[1.0, 1, 5, 6], [2, 2, 8, 7]])
    for make in (lambda t: tv_tensors.BoundingBoxes(t, format="XYXY", canvas_size=(9, 11)),
                 lambda t: tv_tensors.KeyPoints(t[:, :2], canvas_size=(9, 11))):
        _same(MOVED[name](make(boxes.cuda())), MOVED[name](make(boxes)))


def test_detection():
    boxes, x = fb.tensor([[1.0, 1, 5, 6], [2, 2, 8, 7]]), _picture().float()[None]
    for call in (lambda on: ops.roi_align(on(x), [on(boxes)], 3), lambda on: ops.box_iou(on(boxes), on(boxes)),
                 lambda on: ops.nms(on(boxes), on(fb.tensor([0.3, 0.9])), 0.5),
                 lambda on: AnchorGenerator(((4,),))(ImageList(on(x), [(9, 11)]), [on(x)[:, :, :3, :3]])[0]):
        _same(call(lambda t: t.cuda()), call(lambda t: t))
