"""The loss of complete IoU."""

from ._losses import Pairs, reduced
from .boxes import aspect_penalty


def complete_box_iou_loss(boxes1, boxes2, reduction="none", eps=1e-7):
    """`distance_box_iou_loss` plus a penalty for different aspect ratios   (Zheng et al. 2020)."""
    pairs = Pairs(boxes1, boxes2, eps)
    angles = [(s[..., 0] / s[..., 1]).atan() for s in pairs.sides]
    loss = 1 - pairs.iou + pairs.distance() + aspect_penalty(*angles, pairs.iou, eps)
    return reduced(loss, reduction, "complete_box_iou_loss")
