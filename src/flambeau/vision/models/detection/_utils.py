"""What detectors share: boxes as offsets from reference boxes, matching of boxes to objects, drawing of samples."""

import math

import flambeau
from flambeau.nn import functional as F
from flambeau.vision.ops import complete_box_iou_loss, distance_box_iou_loss, generalized_box_iou_loss
from flambeau.vision.ops.misc import FrozenBatchNorm2d

from ...._shown import shown


class BalancedPositiveNegativeSampler:
    """Draws batch_size_per_image of an image's boxes, of them up to positive_fraction that show an object."""

    def __init__(self, batch_size_per_image, positive_fraction):
        self.batch_size_per_image, self.positive_fraction = batch_size_per_image, positive_fraction

    def __call__(self, matched_idxs):
        """Per image, two masks of what is drawn: of labels of 1 and more, and of labels 0. Others do not count."""
        drawn = [self._of_image(labels) for labels in matched_idxs]
        return [positive for positive, _ in drawn], [negative for _, negative in drawn]

    def _of_image(self, labels):
        positive, negative = (labels >= 1).nonzero().squeeze(1), (labels == 0).nonzero().squeeze(1)
        wanted = min(int(self.batch_size_per_image * self.positive_fraction), len(positive))
        masks = []
        for members, count in ((positive, wanted), (negative, min(self.batch_size_per_image - wanted, len(negative)))):
            mask = flambeau.zeros_like(labels, dtype=flambeau.uint8)
            mask[members[flambeau.randperm(len(members), device=members.device)[:count]]] = 1
            masks.append(mask)
        return masks


def _centres(boxes):
    """x, y, width and height of each box, as columns."""
    x1, y1, x2, y2 = boxes.unsqueeze(-1).unbind(-2)
    width, height = x2 - x1, y2 - y1
    return x1 + 0.5 * width, y1 + 0.5 * height, width, height


def encode_boxes(reference_boxes, proposals, weights):
    """Where each reference box lies, seen from its proposal: the centre in units of the sides, the sides by logarithm;
    each of the four numbers times its weight."""
    px, py, pw, ph = _centres(proposals)
    x, y, w, h = _centres(reference_boxes)
    parts = ((x - px) / pw, (y - py) / ph, (w / pw).log(), (h / ph).log())
    return flambeau.cat([weight * part for weight, part in zip(weights, parts, strict=True)], 1)


class BoxCoder:
    """Boxes as offsets from proposals, and back   (Girshick et al. 2014).

    weights: what the four numbers are multiplied by. bbox_xform_clip: the most that a logarithm of a side may be.
    """

    def __init__(self, weights, bbox_xform_clip=math.log(1000.0 / 16)):
        self.weights, self.bbox_xform_clip = weights, bbox_xform_clip

    def encode(self, reference_boxes, proposals):
        """The offsets of all images' boxes, one tensor per image."""
        sizes = [len(boxes) for boxes in reference_boxes]
        return self.encode_single(flambeau.cat(reference_boxes), flambeau.cat(proposals)).split(sizes)

    def encode_single(self, reference_boxes, proposals):
        """The offsets [n, 4] of boxes from proposals."""
        weights = flambeau.tensor(self.weights, dtype=reference_boxes.dtype, device=reference_boxes.device)
        return encode_boxes(reference_boxes, proposals, weights.unbind(0))

    def decode(self, rel_codes, boxes):
        """The boxes [n, k, 4] at offsets [n, 4 k] from the proposals of all images."""
        count = sum(len(b) for b in boxes)
        found = self.decode_single(rel_codes.reshape(count, -1) if count else rel_codes, flambeau.cat(boxes))
        return found.reshape(count, -1, 4) if count else found

    def decode_single(self, rel_codes, boxes):
        """The boxes [n, 4 k] at offsets [n, 4 k] from proposals [n, 4]."""
        px, py, width, height = _centres(boxes.to(rel_codes.dtype))
        dx, dy, dw, dh = (rel_codes[:, k::4] / self.weights[k] for k in range(4))
        x, y = dx * width + px, dy * height + py
        w, h = (d.clamp(max=self.bbox_xform_clip).exp() * side for d, side in ((dw, width), (dh, height)))
        half_w, half_h = 0.5 * w, 0.5 * h
        return flambeau.stack([x - half_w, y - half_h, x + half_w, y + half_h], 2).flatten(1)


class BoxLinearCoder:
    """Boxes as distances of their four sides from the centres of proposals   (Tian et al. 2019).

    normalize_by_size: in units of the proposals' sides.
    """

    def __init__(self, normalize_by_size=True):
        self.normalize_by_size = normalize_by_size

    def _centres(self, boxes):
        centre = (boxes[..., :2] + boxes[..., 2:]) * 0.5
        sides = boxes[..., 2:] - boxes[..., :2]
        return centre, flambeau.cat([sides, sides], -1) if self.normalize_by_size else None

    def encode(self, reference_boxes, proposals):
        """The distances (left, top, right, bottom) of boxes from the proposals' centres."""
        centre, sides = self._centres(proposals.to(reference_boxes.dtype))
        found = flambeau.cat([centre - reference_boxes[..., :2], reference_boxes[..., 2:] - centre], -1)
        return found if sides is None else found / sides

    def decode(self, rel_codes, boxes):
        """The boxes at these distances."""
        centre, sides = self._centres(boxes.to(rel_codes.dtype))
        far = rel_codes if sides is None else rel_codes * sides
        return flambeau.cat([centre - far[..., :2], centre + far[..., 2:]], -1)


class Matcher:
    """Which object each box shows: the one that it overlaps most, if by enough.

    high_threshold: from here on it is that object. low_threshold: below, it is background (-1); between the two it
    counts neither way (-2). allow_low_quality_matches: each object also keeps the boxes that overlap it best.
    """

    BELOW_LOW_THRESHOLD = -1
    BETWEEN_THRESHOLDS = -2

    def __init__(self, high_threshold, low_threshold, allow_low_quality_matches=False):
        if low_threshold > high_threshold:
            raise ValueError(f"Matcher: low_threshold={low_threshold} lies above high_threshold={high_threshold}")
        self.high_threshold, self.low_threshold = high_threshold, low_threshold
        self.allow_low_quality_matches = allow_low_quality_matches

    def __call__(self, match_quality_matrix):
        """The object of each box [m], from the overlaps [n objects, m boxes]."""
        if match_quality_matrix.numel() == 0:
            what = "objects" if match_quality_matrix.shape[0] == 0 else "boxes"
            raise ValueError(f"Matcher: no {what} of the image are given, so there is nothing to match")
        best, matches = match_quality_matrix.max(0)
        found = matches.masked_fill(best < self.high_threshold, self.BETWEEN_THRESHOLDS)
        found = found.masked_fill(best < self.low_threshold, self.BELOW_LOW_THRESHOLD)
        if self.allow_low_quality_matches:
            self.set_low_quality_matches_(found, matches, match_quality_matrix)
        return found

    def set_low_quality_matches_(self, matches, all_matches, match_quality_matrix):
        """Gives the boxes that overlap an object best of all their match back, in place."""
        best = match_quality_matrix.max(1, keepdim=True).values
        boxes = (match_quality_matrix == best).any(0)
        matches[boxes] = all_matches[boxes]


class SSDMatcher(Matcher):
    """A Matcher with one threshold where every object also gets the box that overlaps it most   (Liu et al. 2016)."""

    def __init__(self, threshold):
        super().__init__(threshold, threshold, allow_low_quality_matches=False)

    def __call__(self, match_quality_matrix):
        matches = super().__call__(match_quality_matrix)
        best = match_quality_matrix.max(1).indices
        matches[best] = flambeau.arange(len(best), dtype=flambeau.int64, device=best.device)
        return matches


def overwrite_eps(model, eps):
    """Sets the eps of every FrozenBatchNorm2d: some published weights were trained with another one."""
    for module in model.modules():
        if isinstance(module, FrozenBatchNorm2d):
            module.eps = eps


def retrieve_out_channels(model, size):
    """How many channels each of the model's feature maps has, found by a picture of size (width, height)."""
    training = model.training
    model.eval()
    with flambeau.no_grad():
        device = next(model.parameters()).device
        maps = model(flambeau.zeros((1, 3, size[1], size[0]), device=device))
    model.train(training)
    return [x.shape[1] for x in ([maps] if isinstance(maps, flambeau.Tensor) else maps.values())]


def _topk_min(input, orig_kval, axis):
    """orig_kval, or as many as there are along the axis."""
    return min(orig_kval, input.shape[axis])


def _box_loss(type, box_coder, anchors_per_image, matched_gt_boxes_per_image, bbox_regression_per_image, cnf=None):
    """The loss of an image's boxes: "l1" and "smooth_l1" compare offsets, "ciou", "diou" and "giou" boxes.

    cnf: settings of the loss, `beta` or `eps`.
    """
    cnf = cnf or {}
    if type in ("l1", "smooth_l1"):
        target = box_coder.encode_single(matched_gt_boxes_per_image, anchors_per_image)
        if type == "l1":
            return F.l1_loss(bbox_regression_per_image, target, reduction="sum")
        return F.smooth_l1_loss(bbox_regression_per_image, target, reduction="sum", beta=cnf.get("beta", 1.0))
    losses = {"ciou": complete_box_iou_loss, "diou": distance_box_iou_loss, "giou": generalized_box_iou_loss}
    if type not in losses:
        raise ValueError(f"the loss of boxes is one of l1, smooth_l1, {', '.join(losses)}; got {shown(type)}")
    boxes = box_coder.decode_single(bbox_regression_per_image, anchors_per_image)
    return losses[type](boxes, matched_gt_boxes_per_image, reduction="sum", eps=cnf.get("eps", 1e-7))
