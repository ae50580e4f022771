"""Calls of torchvision.ops and utils on random numbers, made by either library; as a program, torchvision's side.

A case is a function of (torch, ops or utils, draw) and gives tensors. `draw` gives the same numbers to both.
"""

import sys
import zlib

import numpy as np

CASES = {}


def case(function):
    CASES[function.__name__] = "ops", function
    return function


def picture(function):
    CASES[function.__name__] = "utils", function
    return function


class Draw:
    """Random numbers that depend on the case alone."""

    def __init__(self, torch, name):
        self.torch, self.random = torch, np.random.default_rng(zlib.crc32(name.encode()))

    def normal(self, *shape, scale=1.0, dtype=np.float32):
        return self.torch.from_numpy((self.random.standard_normal(shape) * scale).astype(dtype))

    def uniform(self, *shape, low=0.0, high=1.0, dtype=np.float32):
        return self.torch.from_numpy(self.random.uniform(low, high, shape).astype(dtype))

    def boxes(self, n, width=100.0, height=80.0, dtype=np.float32):
        corner = self.random.uniform(0, 0.8, (n, 2)) * [width, height]
        sides = self.random.uniform(0.02, 0.5, (n, 2)) * [width, height]
        return self.torch.from_numpy(np.concatenate([corner, corner + sides], 1).astype(dtype))

    def regions(self, n, images, **size):
        image = self.random.integers(0, images, (n, 1)).astype(np.float32)
        return self.torch.cat([self.torch.from_numpy(image), self.boxes(n, **size)], 1)


def with_gradients(torch, function, *inputs):
    """The result, and the gradients of its sum weighted by cosines."""
    inputs = [t.requires_grad_() for t in inputs]
    result = function(*inputs)
    weight = torch.cos(torch.arange(result.numel(), dtype=result.dtype)).reshape(result.shape)
    return [result.detach(), *torch.autograd.grad(result, inputs, weight)]


@case
def nms(torch, ops, draw):
    boxes, scores = draw.boxes(2000), draw.uniform(2000)
    return [ops.nms(boxes, scores, t) for t in (0.0, 0.3, 0.5, 0.9)]


@case
def batched_nms(torch, ops, draw):
    boxes, scores = draw.boxes(3000), draw.uniform(3000)
    groups = draw.uniform(3000, high=20).long()
    return [ops.batched_nms(boxes, scores, groups, t) for t in (0.3, 0.7)]


@case
def clip_and_remove(torch, ops, draw):
    boxes = draw.normal(200, 4, scale=100)
    return [ops.clip_boxes_to_image(boxes, (60, 90)), ops.remove_small_boxes(boxes, 5.0)]


@case
def box_convert(torch, ops, draw):
    upright, turned = draw.boxes(50), torch.cat([draw.boxes(50), draw.uniform(50, 1, low=-180, high=180)], 1)
    found = []
    for formats, boxes in ((("xyxy", "xywh", "cxcywh"), upright), (("xywhr", "cxcywhr", "xyxyxyxy"), turned)):
        for one in formats:
            given = ops.box_convert(boxes, formats[0], one)
            found += [ops.box_convert(given, one, other) for other in formats]
    return found


@case
def box_iou(torch, ops, draw):
    a, b = draw.boxes(40), draw.boxes(30)
    found = [ops.box_area(a, fmt) for fmt in ("xyxy", "xywh", "cxcywh")]
    found += [ops.box_iou(a, b, fmt) for fmt in ("xyxy", "xywh", "cxcywh")]
    return [*found, ops.box_iou(a.long(), b.long()), ops.box_area(a.half()), ops.box_area(a.to(torch.int16))]


@case
def rotated_box_iou(torch, ops, draw):
    a, b = (torch.cat([draw.boxes(n), draw.uniform(n, 1, low=-180, high=180)], 1) for n in (30, 20))
    found = [ops.box_iou(a, b, "xywhr"), ops.box_iou(a, b, "cxcywhr")]
    corners = [ops.box_convert(x, "cxcywhr", "xyxyxyxy") for x in (a, b)]
    return [*found, ops.box_iou(*corners, "xyxyxyxy")]


@case
def iou_kinds(torch, ops, draw):
    a, b = draw.boxes(40), draw.boxes(30)
    found = []
    for kind in (ops.generalized_box_iou, ops.distance_box_iou, ops.complete_box_iou):
        found += with_gradients(torch, kind, a.clone(), b.clone())
    return found


@case
def masks_to_boxes(torch, ops, draw):
    masks = draw.uniform(20, 30, 40) > 0.995
    masks[3] = False
    return [ops.masks_to_boxes(masks)]


@case
def losses_of_boxes(torch, ops, draw):
    a, b = draw.boxes(40), draw.boxes(40)
    found = []
    for kind in (ops.generalized_box_iou_loss, ops.distance_box_iou_loss, ops.complete_box_iou_loss):
        for reduction in ("none", "mean", "sum"):
            found += with_gradients(torch, lambda p, q, k=kind, r=reduction: k(p, q, r), a.clone(), b.clone())
    return found


@case
def sigmoid_focal_loss(torch, ops, draw):
    logits, targets = draw.normal(30, 4, scale=3), (draw.uniform(30, 4) > 0.6).float()
    settings = ({}, {"alpha": -1, "gamma": 3.5}, {"alpha": 0.6, "reduction": "mean"}, {"reduction": "sum"})
    return [t for s in settings for t in
            with_gradients(torch, lambda x, s=s: ops.sigmoid_focal_loss(x, targets, **s), logits.clone())]


def pooled(torch, draw, channels, *functions):
    x, regions = draw.normal(2, channels, 20, 25), draw.regions(30, 2)
    regions[0, 1:] = torch.tensor([-30.0, -20.0, 200.0, 300.0])
    return [t for f in functions for t in with_gradients(torch, lambda x, f=f: f(x, regions), x.clone())]


@case
def roi_align(torch, ops, draw):
    return pooled(torch, draw, 6, *(lambda x, r, k=k, a=a: ops.roi_align(x, r, (3, 5), 0.25, k, a)
                                    for k in (-1, 2) for a in (False, True)))


@case
def roi_pool(torch, ops, draw):
    return pooled(torch, draw, 6, lambda x, r: ops.roi_pool(x, r, (3, 5), 0.25))


@case
def ps_roi_align(torch, ops, draw):
    return pooled(torch, draw, 30, *(lambda x, r, k=k: ops.ps_roi_align(x, r, (3, 5), 0.25, k) for k in (-1, 2)))


@case
def ps_roi_pool(torch, ops, draw):
    """The values alone: torchvision's gradient fails its own library's gradcheck, where ours passes."""
    return pooled(torch, draw, 30, lambda x, r: ops.ps_roi_pool(x, r, (3, 5), 0.25))[:1]


@case
def deform_conv2d(torch, ops, draw):
    found = []
    for groups, offsets, masked in ((1, 1, True), (2, 4, False), (4, 2, True)):
        x, weight, bias = draw.normal(2, 8, 12, 11), draw.normal(8, 8 // groups, 3, 2), draw.normal(8)
        offset, mask = draw.normal(2, 12 * offsets, 6, 11, scale=2), draw.uniform(2, 6 * offsets, 6, 11)
        found += with_gradients(torch, lambda x, o, w, b, *m: ops.deform_conv2d(
            x, o, w, b, stride=(2, 1), padding=(1, 1), dilation=(1, 2), mask=m[0] if m else None),
            x, offset, weight, bias, *([mask] if masked else []))
    return found


@case
def drop_block(torch, ops, draw):
    found = []
    for f, shape in ((ops.drop_block2d, (2, 3, 12, 13)), (ops.drop_block3d, (2, 2, 6, 7, 8))):
        for size in (3, 5):
            torch.manual_seed(5)
            found += with_gradients(torch, lambda x, f=f, s=size: f(x, 0.3, s), draw.normal(*shape))
    return found


@case
def layers(torch, ops, draw):
    """Initial values of seed 0, and results of layers."""
    torch.manual_seed(0)
    pyramid = ops.FeaturePyramidNetwork([4, 8, 16], 8, ops.feature_pyramid_network.LastLevelP6P7(8, 8))
    deform = ops.DeformConv2d(4, 6, (3, 2), padding=1)
    found = [v for m in (pyramid, deform) for v in m.state_dict().values()]
    maps = {"a": draw.normal(2, 4, 21, 30), "b": draw.normal(2, 8, 11, 15), "c": draw.normal(2, 16, 6, 8)}
    levels = pyramid(maps)
    found += [*levels.values(), deform(draw.normal(1, 4, 9, 9), draw.normal(1, 12, 9, 10))]
    pooler = ops.MultiScaleRoIAlign(["a", "b", "p6"], (3, 2), 2, canonical_scale=60)
    return [*found, pooler(levels, [draw.boxes(9), draw.boxes(7)], [(84, 120), (80, 110)])]


# --- pictures ---------------------------------------------------------------------------------------------------------

LABELS = ["a", "bb", "Car 3", None, "x", "gy"]


def images(torch, draw):
    """Bytes, the same in grey, and numbers from 0 to 1."""
    pixels = draw.uniform(3, 60, 80, high=256).to(torch.uint8)
    return pixels, pixels[:1], draw.uniform(3, 60, 80), draw.uniform(3, 60, 80, dtype=np.float64)


@picture
def make_grid(torch, utils, draw):
    x = draw.uniform(5, 3, 12, 13)
    settings = ({}, {"nrow": 2, "padding": 1, "normalize": True}, {"nrow": 4, "padding": 0, "pad_value": 0.5},
                {"nrow": 3, "normalize": True, "value_range": (0.2, 0.7), "pad_value": 0.3},
                {"normalize": True, "scale_each": True})
    found = [utils.make_grid(x, **s) for s in settings]
    return [*found, *(utils.make_grid(y) for y in (x[:, :1], x[:, :2], x[0], x[0, 0], [x[0], x[1]], x[:1]))]


@picture
def draw_bounding_boxes(torch, utils, draw):
    pixels, grey, numbers, doubles = images(torch, draw)
    boxes = draw.boxes(6, 60, 40)
    colors = ["red", "blue", "#00ff00", (1, 2, 3), "white", "pink"]
    settings = ({}, {"colors": "red", "width": 3}, {"colors": colors, "fill": True, "width": 2}, {"labels": LABELS},
                {"labels": LABELS, "fill_labels": True, "colors": "green"},
                {"labels": LABELS, "fill_labels": True, "label_colors": "yellow", "label_background_colors": colors})
    found = [utils.draw_bounding_boxes(pixels, boxes, **s) for s in settings]
    return [*found, *(utils.draw_bounding_boxes(x, boxes, labels=LABELS) for x in (grey, numbers, doubles))]


@picture
def draw_segmentation_masks(torch, utils, draw):
    pixels, _, numbers, doubles = images(torch, draw)
    masks = draw.uniform(4, 60, 80) > 0.6
    settings = ({}, {"alpha": 0.3, "colors": "red"}, {"alpha": 0.5, "colors": ["red", "blue", "#00ff00", (1, 2, 3)]})
    return [utils.draw_segmentation_masks(x, masks, **s) for x in (pixels, numbers, doubles) for s in settings]


@picture
def draw_keypoints(torch, utils, draw):
    pixels, _, numbers, doubles = images(torch, draw)
    points, seen = draw.uniform(3, 5, 2, low=5, high=55), draw.uniform(3, 5) > 0.3
    settings = ({}, {"connectivity": [(0, 1), (2, 4)], "colors": "red", "radius": 3, "width": 2},
                {"connectivity": [(0, 1), (2, 4)], "colors": (4, 5, 6), "visibility": seen})
    return [utils.draw_keypoints(x, points, **s) for x in (pixels, numbers, doubles) for s in settings]


@picture
def flow_to_image(torch, utils, draw):
    flow = draw.normal(2, 2, 20, 30)
    return [utils.flow_to_image(x) for x in (flow, flow[0], flow * 0)]


def run(torch, vision):
    """{case and number: array} of every case."""
    return {f"{name} {k}": t.detach().numpy() for name, (part, f) in CASES.items()
            for k, t in enumerate(f(torch, getattr(vision, part), Draw(torch, name)))}


if __name__ == "__main__":
    import torch
    import torchvision

    np.savez(sys.argv[1], **run(torch, torchvision))
