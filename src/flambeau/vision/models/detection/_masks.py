"""Masks of objects: compared with the truth within each box, and pasted from there into the image."""

import flambeau
from flambeau.nn import functional as F
from flambeau.vision.ops import roi_align


def maskrcnn_inference(x, labels):
    """Per image the probabilities [n, 1, M, M] of each box's mask, from logits [all boxes, classes, M, M]."""
    every = flambeau.cat(labels)
    rows = flambeau.arange(len(x), device=x.device)
    return x.sigmoid()[rows, every][:, None].split([len(part) for part in labels])


def project_masks_on_boxes(gt_masks, boxes, matched_idxs, M):
    """The masks [n, M, M] of the matched objects, as each box sees them."""
    regions = flambeau.cat([matched_idxs[:, None].to(boxes), boxes], 1)
    return roi_align(gt_masks[:, None].to(regions), regions, (M, M), 1.0)[:, 0]


def maskrcnn_loss(mask_logits, proposals, gt_masks, gt_labels, mask_matched_idxs):
    """How far the logits of the true class are from the masks; the other classes' do not count."""
    size = mask_logits.shape[-1]
    labels = flambeau.cat([given[k] for given, k in zip(gt_labels, mask_matched_idxs, strict=True)])
    targets = flambeau.cat([project_masks_on_boxes(m, p, k, size) for m, p, k in
                            zip(gt_masks, proposals, mask_matched_idxs, strict=True)])
    if targets.numel() == 0:
        return mask_logits.sum() * 0
    rows = flambeau.arange(len(labels), device=labels.device)
    return F.binary_cross_entropy_with_logits(mask_logits[rows, labels], targets)


def expand_boxes(boxes, scale):
    """The boxes with both sides times scale, around the same centres."""
    centre = (boxes[:, :2] + boxes[:, 2:]) * 0.5
    half = (boxes[:, 2:] - boxes[:, :2]) * 0.5 * scale
    return flambeau.cat([centre - half, centre + half], 1)


def expand_masks(mask, padding):
    """The masks with a border of zeros, and how much larger that makes them."""
    size = mask.shape[-1]
    return F.pad(mask, (padding,) * 4), float(size + 2 * padding) / size


def paste_mask_in_image(mask, box, im_h, im_w):
    """A mask [M, M] stretched over its box (whole pixels, both ends included) in an image of zeros [im_h, im_w]."""
    left, top, right, bottom = (int(v) for v in box)
    size = max(bottom - top + 1, 1), max(right - left + 1, 1)
    mask = F.interpolate(mask[None, None], size=size, mode="bilinear", align_corners=False)[0, 0]
    image = mask.new_zeros((im_h, im_w))
    rows, columns = (max(top, 0), min(bottom + 1, im_h)), (max(left, 0), min(right + 1, im_w))
    if rows[0] < rows[1] and columns[0] < columns[1]:
        image[rows[0]:rows[1], columns[0]:columns[1]] = \
            mask[rows[0] - top:rows[1] - top, columns[0] - left:columns[1] - left]
    return image


def paste_masks_in_image(masks, boxes, img_shape, padding=1):
    """Masks [n, 1, M, M] in images [n, 1, height, width], each stretched over its box."""
    height, width = img_shape
    masks, scale = expand_masks(masks, padding)
    boxes = expand_boxes(boxes, scale).to(flambeau.int64).tolist()
    if not boxes:
        return masks.new_empty((0, 1, height, width))
    pasted = [paste_mask_in_image(m[0], b, height, width) for m, b in zip(masks, boxes, strict=True)]
    return flambeau.stack(pasted)[:, None]
