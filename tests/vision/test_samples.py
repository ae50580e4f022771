"""What belongs to a picture follows it: tensors that say what they are, and transforms (v2) of samples."""

import copy
import pickle

import pytest

import flambeau
from flambeau.vision import tv_tensors
from flambeau.vision.transforms import v2
from flambeau.vision.transforms.v2 import functional as F


@pytest.fixture
def sample():
    boxes = flambeau.tensor([[1.0, 2, 5, 6], [0, 0, 1, 1], [8, 8, 10, 10]])
    return {"image": tv_tensors.Image(flambeau.arange(300).view(3, 10, 10).to(flambeau.uint8)),
            "boxes": tv_tensors.BoundingBoxes(boxes, format="XYXY", canvas_size=(10, 10)),
            "masks": tv_tensors.Mask(flambeau.ones(3, 10, 10, dtype=flambeau.uint8)),
            "points": tv_tensors.KeyPoints([[1.0, 2.0]], canvas_size=(10, 10)),
            "labels": flambeau.tensor([3, 4, 5])}


def test_results_are_plain_tensors_unless_asked_for(sample):
    image, boxes = sample["image"], sample["boxes"]
    assert type(image + 1) is type(boxes[0]) is flambeau.Tensor
    assert type(image.clone()) is tv_tensors.Image and type(boxes.to(flambeau.float64)) is tv_tensors.BoundingBoxes
    assert boxes.to(flambeau.float64).format is tv_tensors.BoundingBoxFormat.XYXY
    with tv_tensors.set_return_type("TVTensor"):
        assert type(image + 1) is tv_tensors.Image and (boxes + 1).canvas_size == (10, 10)
    assert type(image + 1) is flambeau.Tensor


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x)), lambda x: x.clone(),
                                    lambda x: tv_tensors.wrap(flambeau.Tensor.as_subclass(x, flambeau.Tensor), like=x)])
def test_copies_say_the_same(sample, copied):
    boxes = copied(sample["boxes"])
    assert type(boxes) is tv_tensors.BoundingBoxes and boxes.equal(sample["boxes"])
    assert boxes.format is tv_tensors.BoundingBoxFormat.XYXY
    assert (boxes.canvas_size, boxes.clamping_mode) == ((10, 10), "soft")


@pytest.mark.parametrize("change", [
    v2.RandomHorizontalFlip(1.0), v2.RandomVerticalFlip(1.0), v2.Pad([1, 2, 3, 4]), v2.Resize([20, 30]),
    v2.CenterCrop([6, 14]), v2.RandomRotation((90, 90), expand=True)])
def test_everything_follows_the_picture(sample, change):
    """A mask that is 1 in a box stays so, and the canvas has the picture's size."""
    masks = flambeau.zeros(3, 10, 10, dtype=flambeau.uint8)
    masks[0, 2:6, 1:5] = 1
    out = change({**sample, "masks": tv_tensors.Mask(masks)})
    assert tuple(out["boxes"].canvas_size) == tuple(out["points"].canvas_size) == tuple(out["image"].shape[-2:])
    rows, columns = out["masks"][0].nonzero().unbind(1)
    x1, y1, x2, y2 = out["boxes"][0].tolist()
    assert (columns.min(), rows.min(), columns.max() + 1, rows.max() + 1) == pytest.approx((x1, y1, x2, y2), abs=0.51)
    assert out["labels"] is sample["labels"]


def test_a_sample_keeps_its_form(sample):
    out = v2.RandomCrop(5)([sample, ("name", 3)])
    assert isinstance(out, list) and out[1] == ("name", 3) and list(out[0]) == list(sample)
    image, label = v2.RandomCrop(5)(flambeau.zeros(3, 8, 8), flambeau.zeros(3, 8, 8))
    assert image.shape == (3, 5, 5) and label.shape == (3, 8, 8)  # only the first plain tensor is a picture


@pytest.mark.parametrize("old", ["XYXY", "XYWH", "CXCYWH"])
@pytest.mark.parametrize("new", ["XYXY", "XYWH", "CXCYWH"])
def test_formats_go_both_ways(sample, old, new):
    boxes = F.convert_bounding_box_format(sample["boxes"], new_format=old)
    there = F.convert_bounding_box_format(boxes, new_format=new)
    assert there.format.name == new
    assert F.convert_bounding_box_format(there, new_format=old).equal(boxes)


@pytest.mark.parametrize("name", ["XYWHR", "CXCYWHR", "XYXYXYXY"])
def test_turned_boxes_go_both_ways(name):
    boxes = tv_tensors.BoundingBoxes([[5.0, 6, 35, 44, 20]], format="XYWHR", canvas_size=(200, 200))
    there = F.convert_bounding_box_format(boxes, new_format=name)
    assert F.convert_bounding_box_format(there, new_format="XYWHR").allclose(boxes, atol=1e-4)
    flipped = F.horizontal_flip(F.horizontal_flip(there))
    assert flipped.allclose(there, atol=1e-4)
    loose = tv_tensors.wrap(there, like=there, clamping_mode=None)
    back = F.rotate(F.rotate(loose, 25), -25)
    assert F.convert_bounding_box_format(back, new_format="XYWHR").allclose(boxes, atol=1e-3)


def test_small_boxes_go_with_their_labels_and_masks(sample):
    out = v2.SanitizeBoundingBoxes(min_size=2)(sample)
    assert out["boxes"].tolist() == [[1, 2, 5, 6], [8, 8, 10, 10]]
    assert out["labels"].tolist() == [3, 5] and out["masks"].shape == (2, 10, 10)


def test_batches_are_mixed_with_their_labels():
    flambeau.manual_seed(3)
    images, labels = flambeau.rand(4, 3, 8, 8), flambeau.arange(4)
    for mix in (v2.MixUp(num_classes=4), v2.CutMix(num_classes=4)):
        mixed, weights = mix(images, labels)
        assert mixed.shape == images.shape and weights.sum(1).allclose(flambeau.ones(4))
        part = weights[1, 1]
        expected = images[1].mean() * part + images[0].mean() * (1 - part)
        assert isinstance(mix, v2.CutMix) or mixed[1].mean().item() == pytest.approx(expected.item(), abs=1e-5)


def test_ones_own_kind_has_its_own_kernel():
    class Depth(tv_tensors.TVTensor):
        pass

    @F.register_kernel("horizontal_flip", Depth)
    def flip(depth):
        return tv_tensors.wrap(depth.flip(-1) * 2, like=depth)

    depth = flambeau.tensor([[1.0, 2.0]]).as_subclass(Depth)
    assert F.horizontal_flip(depth).tolist() == [[4.0, 2.0]]
    with pytest.raises(ValueError, match="has a kernel for Depth already"):
        F.register_kernel(F.horizontal_flip, Depth)
    with pytest.raises(ValueError, match="subclass it"):
        F.register_kernel(F.horizontal_flip, tv_tensors.Image)


@pytest.mark.parametrize(("call", "error", "says"), [
    (lambda s: v2.RandomIoUCrop()(s["image"]), TypeError, "BoundingBoxes"),
    (lambda s: F.adjust_brightness(s["boxes"], 2.0), TypeError, "takes tensors"),
    (lambda s: F.convert_bounding_box_format(s["boxes"], new_format="XYXW"), ValueError, "'XYXW'"),
    (lambda s: v2.SanitizeBoundingBoxes(labels_getter="names")(s), KeyError, "names"),
    (lambda s: v2.MixUp(num_classes=3)(s["image"][None], s["labels"][:1]), ValueError, "floats"),
    (lambda s: v2.TrivialAugmentWide()(s), TypeError, "cannot follow"),
    (lambda s: v2.RandomResizedCrop(5)({"image": s["image"], "mask": tv_tensors.Mask(flambeau.zeros(4, 4))}),
     ValueError, "several sizes"),
    (lambda s: tv_tensors.BoundingBoxes([[1, 2, 3, 4]], format="XYWHR", canvas_size=(9, 9)), ValueError, "floats"),
    (lambda s: F.pad(s["boxes"], 2, padding_mode="edge"), ValueError, "twice"),
    (lambda s: v2.Transform()(s), NotImplementedError, "Transform.transform is missing"),
])
def test_errors_name_what_came(sample, call, error, says):
    with pytest.raises(error, match=says):
        call(sample)


# (cx, cy, width, height, angle), how it is clamped -> what torchvision makes of it on a canvas of 80 x 100
CLAMPED = [
    ([50, 40, 20, 10, 30], "soft", [50, 40, 20, 10, 30]), ([95, 40, 20, 10, 0], "soft", [92.5, 40, 15, 10, 0]),
    ([95, 40, 20, 10, 30], "soft", [94.42, 40.335, 18.66, 10, 30]),
    ([95, 40, 20, 10, 60], "soft", [95, 40, 20, 10, 60]),
    ([50, 82, 20, 10, 30], "soft", [51.928, 80, 14.66, 8.464, 30]), ([-20, 40, 20, 10, 30], "soft", [0, 80, 0, 0, 0]),
    ([98, 78, 20, 10, 30], "soft", [95.353, 78.219, 15.196, 7.732, 30]),
    ([95, 40, 20, 10, 30], "hard", [91.92, 38.892, 15.774, 5, 30]),
    ([95, 40, 20, 10, 100], "hard", [94.17, 37.719, 15.219, 9.157, 100]),
    ([3, 40, 20, 10, 60], "hard", [6.165, 38.173, 13.67, 6.345, 60]),
    ([95, 40, 20, 10, 30], None, [95, 40, 20, 10, 30])]


@pytest.mark.parametrize("box, mode, wanted", CLAMPED)
def test_boxes_at_an_angle_are_cut_off(box, mode, wanted):
    boxes = tv_tensors.BoundingBoxes([[float(v) for v in box]], format="CXCYWHR", canvas_size=(80, 100),
                                     clamping_mode=mode)
    found = v2.functional.clamp_bounding_boxes(boxes)
    assert found[0].tolist() == pytest.approx(wanted, abs=2e-3)
    corners = v2.functional.clamp_bounding_boxes(
        v2.functional.convert_bounding_box_format(boxes, new_format="XYXYXYXY"))
    again = v2.functional.convert_bounding_box_format(corners, new_format="CXCYWHR")
    assert again[0, :4].tolist() == pytest.approx(wanted[:4], abs=2e-3)


def test_boxes_at_an_angle_are_tilted_and_bent():
    boxes = tv_tensors.BoundingBoxes([[40.0, 40.0, 20.0, 10.0, 30.0]], format="CXCYWHR", canvas_size=(80, 100))
    ramp = flambeau.zeros(1, 80, 100, 2)
    ramp[..., 0] = flambeau.arange(100.0) / 500
    assert v2.functional.elastic(boxes, ramp)[0].tolist() == pytest.approx([36, 40, 20, 10, 30], abs=1e-3)
    start, end = [[0, 0], [99, 0], [99, 79], [0, 79]], [[5, 3], [90, 8], [93, 70], [4, 75]]
    free = tv_tensors.BoundingBoxes([[30.0, 40.0, 20.0, 10.0, 30.0]], format="CXCYWHR", canvas_size=(80, 100),
                                    clamping_mode=None)
    assert v2.functional.perspective(free, start, end)[0].tolist() == pytest.approx([33.51, 38.6, 18.87, 9, 27.95],
                                                                                    abs=0.006)
    assert v2.functional.resize(free, [50, 60])[0].tolist() == pytest.approx([18, 25, 12.35, 6.18, 31.02], abs=0.006)


def test_boxes_without_history_stay_boxes():
    boxes = tv_tensors.BoundingBoxes(flambeau.ones(2, 4), format="XYXY", canvas_size=(9, 11))
    detached = boxes.requires_grad_().detach()
    assert type(detached) is tv_tensors.BoundingBoxes and detached.canvas_size == (9, 11)
    assert not detached.requires_grad and detached.cpu().format == boxes.format
