"""The loss of distance IoU."""

from ._losses import Pairs, reduced


def distance_box_iou_loss(boxes1, boxes2, reduction="none", eps=1e-7):
    """1 - IoU of each pair of boxes [..., 4], plus a penalty for distant centres   (Zheng et al. 2020).
    reduction: "none", "mean" or "sum"."""
    pairs = Pairs(boxes1, boxes2, eps)
    return reduced(1 - pairs.iou + pairs.distance(), reduction, "distance_box_iou_loss")
