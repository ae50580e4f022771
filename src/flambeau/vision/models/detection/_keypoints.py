"""Keypoints of objects, each as the place of the maximum of a map over its box   (He et al. 2017)."""

import flambeau
from flambeau.nn import functional as F


def keypoints_to_heatmap(keypoints, rois, heatmap_size):
    """The cell of each keypoint [n, k, 3] (x, y, visibility) in a map over its box, and whether it has one."""
    start, end = rois[:, None, :2], rois[:, None, 2:]
    places = keypoints[..., :2]
    cells = ((places - start) * (heatmap_size / (end - start))).floor().long()
    cells = cells.masked_fill(places == end, heatmap_size - 1)  # the far edge belongs to the last cell
    inside = ((cells >= 0) & (cells < heatmap_size)).all(-1)
    valid = (inside & (keypoints[..., 2] > 0)).long()
    return (cells[..., 1] * heatmap_size + cells[..., 0]) * valid, valid


def keypointrcnn_loss(keypoint_logits, proposals, gt_keypoints, keypoint_matched_idxs):
    """Cross-entropy of the cells of the maps [n, k, M, M], of those keypoints that are seen in their box."""
    n, k, size, width = keypoint_logits.shape
    if size != width:
        raise ValueError(f"keypointrcnn_loss: maps must be square, got {size}x{width}")
    found = [keypoints_to_heatmap(points[matched], boxes, size) for boxes, points, matched in
             zip(proposals, gt_keypoints, keypoint_matched_idxs, strict=True)]
    cells, valid = (flambeau.cat([pair[j].reshape(-1) for pair in found]) for j in (0, 1))
    valid = valid.nonzero().squeeze(1)
    if cells.numel() == 0 or len(valid) == 0:
        return keypoint_logits.sum() * 0
    return F.cross_entropy(keypoint_logits.reshape(n * k, size * size)[valid], cells[valid])


def heatmaps_to_keypoints(maps, rois):
    """(keypoints [n, k, 3], scores [n, k]): the maximum of each map [n, k, M, M], enlarged to its box by cubes."""
    start = rois[:, :2]
    sides = (rois[:, 2:] - start).clamp(min=1)
    cells = sides.ceil()
    found = maps.new_zeros((len(rois), maps.shape[1], 3))
    scores = maps.new_zeros((len(rois), maps.shape[1]))
    for k in range(len(rois)):
        width, height = (int(v) for v in cells[k])
        grown = F.interpolate(maps[k][:, None], size=(height, width), mode="bicubic", align_corners=False)[:, 0]
        flat = grown.reshape(len(grown), -1)
        best = flat.argmax(1)
        place = flambeau.stack([best % width, best // width], 1)
        found[k, :, :2] = (place.to(maps.dtype) + 0.5) * (sides[k] / cells[k]) + start[k]
        found[k, :, 2] = 1
        scores[k] = flat.gather(1, best[:, None])[:, 0]
    return found, scores


def keypointrcnn_inference(x, boxes):
    """Per image the keypoints and their scores, from maps of all boxes."""
    parts = x.split([len(b) for b in boxes])
    found = [heatmaps_to_keypoints(maps, b) for maps, b in zip(parts, boxes, strict=True)]
    return [points for points, _ in found], [scores for _, scores in found]
