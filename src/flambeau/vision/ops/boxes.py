"""Boxes: areas, overlaps, suppression, clipping, and those around masks. A box is [x1, y1, x2, y2] unless `fmt` says
otherwise."""

import flambeau
from flambeau._shown import shown

from ._formats import ROTATED, box_convert
from ._rotated import rotated_overlaps

__all__ = ["batched_nms", "box_area", "box_convert", "box_iou", "clip_boxes_to_image", "complete_box_iou",
           "distance_box_iou", "generalized_box_iou", "masks_to_boxes", "nms", "remove_small_boxes"]


def nms(boxes, scores, iou_threshold):
    """Indices of the boxes that stay, best first: each overlaps every better one that stays by at most iou_threshold.

    >>> boxes = flambeau.tensor([[0., 0., 10., 10.], [1., 0., 11., 10.], [20., 20., 30., 30.]])
    >>> flambeau.vision.ops.nms(boxes, flambeau.tensor([0.8, 0.9, 0.5]), 0.5)
    tensor([1, 2])
    """
    return flambeau.ops.torchvision.nms(boxes, scores, iou_threshold)


def batched_nms(boxes, scores, idxs, iou_threshold):
    """`nms` within each group of equal `idxs` (classes, levels …): boxes of different groups never meet."""
    kept = []
    for group in idxs.unique().tolist():
        members = (idxs == group).nonzero().squeeze(1)
        kept.append(members[nms(boxes[members], scores[members], iou_threshold)])
    if not kept:
        return flambeau.empty(0, dtype=flambeau.int64, device=boxes.device)
    kept = flambeau.cat(kept).sort().values
    return kept[scores[kept].sort(descending=True, stable=True).indices]


def remove_small_boxes(boxes, min_size):
    """Indices of the boxes whose sides are both at least min_size."""
    sides = boxes[:, 2:] - boxes[:, :2]
    return (sides >= min_size).all(1).nonzero().squeeze(1)


def clip_boxes_to_image(boxes, size):
    """The boxes [..., 4] with every corner moved into an image of size (height, width)."""
    height, width = size
    x, y = boxes[..., 0::2].clamp(min=0, max=width), boxes[..., 1::2].clamp(min=0, max=height)
    return flambeau.stack([x, y], -1).reshape(boxes.shape)


def _wide(t):
    """In a dtype that holds products of what stands in `t`: at least float32 or int32."""
    if t.is_floating_point():
        return t if t.dtype in (flambeau.float32, flambeau.float64) else t.float()
    return t if t.dtype in (flambeau.int32, flambeau.int64) else t.int()


def box_area(boxes, fmt="xyxy"):
    """The area of each box [N, 4], in format "xyxy", "xywh" or "cxcywh"."""
    boxes = _wide(boxes)
    if fmt == "xyxy":
        sides = boxes[..., 2:] - boxes[..., :2]
    elif fmt in ("xywh", "cxcywh"):
        sides = boxes[..., 2:]
    else:
        raise ValueError(f"box_area: fmt must be 'xyxy', 'xywh' or 'cxcywh', got {shown(fmt)}")
    return sides[..., 0] * sides[..., 1]


def _overlap_and_union(boxes1, boxes2, fmt="xyxy"):
    """Areas of the intersection and the union of every pair, [N, M] each."""
    areas = box_area(boxes1, fmt)[:, None] + box_area(boxes2, fmt)
    if fmt != "xyxy":
        boxes1, boxes2 = box_convert(boxes1, fmt, "xyxy"), box_convert(boxes2, fmt, "xyxy")
    corner = flambeau.minimum(boxes1[:, None, 2:], boxes2[:, 2:])
    sides = _wide(corner - flambeau.maximum(boxes1[:, None, :2], boxes2[:, :2])).clamp(min=0)
    overlap = sides[..., 0] * sides[..., 1]
    return overlap, areas - overlap


def box_iou(boxes1, boxes2, fmt="xyxy"):
    """Intersection over union of every pair of boxes [N, 4] and [M, 4]: a tensor [N, M].

    Rotated boxes ("xywhr", "cxcywhr" with 5 numbers, "xyxyxyxy" with 8) overlap as the quadrilaterals that they are.

    >>> a = flambeau.tensor([[0., 0., 2., 2.]])
    >>> flambeau.vision.ops.box_iou(a, a + 1)
    tensor([[0.1429]])
    """
    if fmt in ROTATED:
        overlap, union = rotated_overlaps(box_convert(_wide(boxes1), fmt, "xyxyxyxy"),
                                          box_convert(_wide(boxes2), fmt, "xyxyxyxy"))
    elif fmt in ("xyxy", "xywh", "cxcywh"):
        overlap, union = _overlap_and_union(boxes1, boxes2, fmt)
    else:
        raise ValueError(f"box_iou: fmt must be one of 'xyxy', 'xywh', 'cxcywh', {', '.join(map(repr, ROTATED))}, got "
                         f"{shown(fmt)}")
    return overlap / union


def _around(boxes1, boxes2):
    """Width and height of the smallest box around both, for every pair."""
    low = flambeau.minimum(boxes1[:, None, :2], boxes2[:, :2])
    high = flambeau.maximum(boxes1[:, None, 2:], boxes2[:, 2:])
    return _wide(high - low).clamp(min=0)


def generalized_box_iou(boxes1, boxes2):
    """IoU minus the share of the box around both that neither fills, for every pair   (Rezatofighi et al. 2019)."""
    overlap, union = _overlap_and_union(boxes1, boxes2)
    around = _around(boxes1, boxes2)
    area = around[..., 0] * around[..., 1]
    return overlap / union - (area - union) / area


def _distance_and_iou(boxes1, boxes2, eps):
    """IoU minus the squared distance of the centres over the squared diagonal around both; and the IoU."""
    iou = box_iou(boxes1, boxes2)
    diagonal = (_around(boxes1, boxes2) ** 2).sum(-1) + eps
    centres = [(b[:, :2] + b[:, 2:]) / 2 for b in (boxes1, boxes2)]
    distance = (_wide(centres[0][:, None] - centres[1]) ** 2).sum(-1)
    return iou - distance / diagonal, iou


def distance_box_iou(boxes1, boxes2, eps=1e-7):
    """IoU minus a penalty for distant centres, for every pair   (Zheng et al. 2020)."""
    return _distance_and_iou(_wide(boxes1), _wide(boxes2), eps)[0]


def complete_box_iou(boxes1, boxes2, eps=1e-7):
    """distance_box_iou minus a penalty for different aspect ratios, for every pair   (Zheng et al. 2020)."""
    boxes1, boxes2 = _wide(boxes1), _wide(boxes2)
    diou, iou = _distance_and_iou(boxes1, boxes2, eps)
    angles = [((b[:, 2] - b[:, 0]) / (b[:, 3] - b[:, 1])).atan() for b in (boxes1, boxes2)]
    return diou - aspect_penalty(angles[0][:, None], angles[1], iou, eps)


def aspect_penalty(angle1, angle2, iou, eps):
    """alpha v, with v the squared difference of the aspects' angles and alpha its weight, through which no gradient
    goes."""
    v = 4 / flambeau.pi ** 2 * (angle1 - angle2) ** 2
    with flambeau.no_grad():
        alpha = v / (1 - iou + v + eps)
    return alpha * v


def masks_to_boxes(masks):
    """The smallest box around each mask [N, height, width]; zeros for an empty one. Corners are pixels of the mask.

    >>> mask = flambeau.zeros(1, 4, 4)
    >>> mask[0, 1:3, 2] = 1
    >>> flambeau.vision.ops.masks_to_boxes(mask)
    tensor([[2., 1., 2., 2.]])
    """
    set_ = masks != 0
    found = []
    for dim in (1, 2):  # seen along one axis: where the other begins and ends
        line = set_.any(dim).float() if masks.numel() else masks.new_zeros(len(masks), 1, dtype=flambeau.float32)
        first = line.argmax(1)
        found.append((first, (line.shape[1] - 1 - line.flip(1).argmax(1)).where(line.any(1), first)))
    (x1, x2), (y1, y2) = found
    return flambeau.stack([x1, y1, x2, y2], 1).float()
