"""The loss of generalized IoU."""

from ._losses import Pairs, reduced


def generalized_box_iou_loss(boxes1, boxes2, reduction="none", eps=1e-7):
    """1 - generalized IoU of each pair of boxes [..., 4], which also pulls boxes together that do not overlap
    (Rezatofighi et al. 2019). reduction: "none", "mean" or "sum"."""
    pairs = Pairs(boxes1, boxes2, eps)
    around = pairs.around().prod(-1)
    return reduced(1 - pairs.iou + (around - pairs.union) / (around + eps), reduction, "generalized_box_iou_loss")
