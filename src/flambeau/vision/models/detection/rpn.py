"""Region proposals: boxes that may show an object, whatever it is   (Ren et al. 2015)."""

import flambeau
from flambeau import nn
from flambeau.nn import functional as F
from flambeau.vision.ops import batched_nms, box_iou, clip_boxes_to_image, remove_small_boxes
from flambeau.vision.ops.misc import Conv2dNormActivation

from .._utils import normal_convs
from ._targets import older, rename
from ._utils import BalancedPositiveNegativeSampler, BoxCoder, Matcher
from .anchor_utils import AnchorGenerator as AnchorGenerator  # programs look for it here, too


class RPNHead(nn.Module):
    """For each anchor of each map, whether it shows an object, and where the object lies."""

    _version = 2

    def __init__(self, in_channels, num_anchors, conv_depth=1):
        super().__init__()
        self.conv = nn.Sequential(*(Conv2dNormActivation(in_channels, in_channels, kernel_size=3, norm_layer=None)
                                    for _ in range(conv_depth)))
        self.cls_logits = nn.Conv2d(in_channels, num_anchors, 1)
        self.bbox_pred = nn.Conv2d(in_channels, num_anchors * 4, 1)
        normal_convs(self)

    def _load_from_state_dict(self, state_dict, prefix, local_metadata, *rest):
        if older(local_metadata):
            rename(state_dict, prefix, {f"conv.{kind}": f"conv.0.0.{kind}" for kind in ("weight", "bias")})
        super()._load_from_state_dict(state_dict, prefix, local_metadata, *rest)

    def forward(self, x):
        """(logits, offsets): one tensor for each map."""
        hidden = [self.conv(feature) for feature in x]
        return [self.cls_logits(h) for h in hidden], [self.bbox_pred(h) for h in hidden]


def permute_and_flatten(layer, N, A, C, H, W):
    """[N, A C, H, W] as [N, H W A, C]: a row for each anchor."""
    return layer.reshape(N, A, C, H, W).permute(0, 3, 4, 1, 2).reshape(N, -1, C)


def concat_box_prediction_layers(box_cls, box_regression):
    """All maps' logits and offsets, a row for each anchor of each image."""
    logits, offsets = [], []
    for cls, regression in zip(box_cls, box_regression, strict=True):
        n, _, h, w = cls.shape
        anchors = regression.shape[1] // 4
        logits.append(permute_and_flatten(cls, n, anchors, cls.shape[1] // anchors, h, w))
        offsets.append(permute_and_flatten(regression, n, anchors, 4, h, w))
    return flambeau.cat(logits, 1).flatten(0, -2), flambeau.cat(offsets, 1).reshape(-1, 4)


class RegionProposalNetwork(nn.Module):
    """The boxes of each image that most probably show something, and in training the losses of saying so.

    fg_iou_thresh, bg_iou_thresh: an anchor that overlaps an object by the first shows it, by less than the second is
    background. batch_size_per_image, positive_fraction: how many anchors are drawn for the loss, and the share of those
    that show objects. pre_nms_top_n, post_nms_top_n: {"training": …, "testing": …}, how many of the best boxes per map
    are looked at, and how many remain per image. nms_thresh, score_thresh: the overlap and the score of those.
    """

    def __init__(self, anchor_generator, head, fg_iou_thresh, bg_iou_thresh, batch_size_per_image, positive_fraction,
                 pre_nms_top_n, post_nms_top_n, nms_thresh, score_thresh=0.0):
        super().__init__()
        self.anchor_generator, self.head = anchor_generator, head
        self.box_coder = BoxCoder(weights=(1.0, 1.0, 1.0, 1.0))
        self.box_similarity = box_iou
        self.proposal_matcher = Matcher(fg_iou_thresh, bg_iou_thresh, allow_low_quality_matches=True)
        self.fg_bg_sampler = BalancedPositiveNegativeSampler(batch_size_per_image, positive_fraction)
        self._pre_nms_top_n, self._post_nms_top_n = pre_nms_top_n, post_nms_top_n
        self.nms_thresh, self.score_thresh, self.min_size = nms_thresh, score_thresh, 1e-3

    def pre_nms_top_n(self):
        """How many of the best boxes per map are looked at."""
        return self._pre_nms_top_n["training" if self.training else "testing"]

    def post_nms_top_n(self):
        """How many boxes remain per image."""
        return self._post_nms_top_n["training" if self.training else "testing"]

    def assign_targets_to_anchors(self, anchors, targets):
        """Per image the anchors' labels (1 object, 0 background, -1 neither) and the boxes they should give."""
        labels, boxes = [], []
        for given, target in zip(anchors, targets, strict=True):
            truth = target["boxes"]
            if truth.numel() == 0:
                labels.append(flambeau.zeros((len(given),), dtype=flambeau.float32, device=given.device))
                boxes.append(flambeau.zeros(given.shape, dtype=flambeau.float32, device=given.device))
                continue
            matches = self.proposal_matcher(self.box_similarity(truth, given))
            label = (matches >= 0).float()
            labels.append(label.masked_fill(matches == Matcher.BETWEEN_THRESHOLDS, -1.0))
            boxes.append(truth[matches.clamp(min=0)])
        return labels, boxes

    def _get_top_n_idx(self, objectness, num_anchors_per_level):
        """The best anchors of each map."""
        found, start = [], 0
        for part in objectness.split(num_anchors_per_level, 1):
            found.append(part.topk(min(self.pre_nms_top_n(), part.shape[1]), dim=1).indices + start)
            start += part.shape[1]
        return flambeau.cat(found, 1)

    def filter_proposals(self, proposals, objectness, image_shapes, num_anchors_per_level):
        """Per image the boxes that remain and their scores, best first."""
        count = len(proposals)
        objectness = objectness.detach().reshape(count, -1)
        levels = flambeau.cat([flambeau.full((n,), k, dtype=flambeau.int64, device=proposals.device)
                               for k, n in enumerate(num_anchors_per_level)]).expand_as(objectness)
        best = self._get_top_n_idx(objectness, num_anchors_per_level)
        rows = flambeau.arange(count, device=proposals.device)[:, None]
        scores, levels, proposals = objectness[rows, best].sigmoid(), levels[rows, best], proposals[rows, best]
        found_boxes, found_scores = [], []
        for boxes, score, level, size in zip(proposals, scores, levels, image_shapes, strict=True):
            boxes = clip_boxes_to_image(boxes, size)
            kept = remove_small_boxes(boxes, self.min_size)
            kept = kept[score[kept] >= self.score_thresh]
            boxes, score, level = boxes[kept], score[kept], level[kept]
            kept = batched_nms(boxes, score, level, self.nms_thresh)[:self.post_nms_top_n()]
            found_boxes.append(boxes[kept])
            found_scores.append(score[kept])
        return found_boxes, found_scores

    def compute_loss(self, objectness, pred_bbox_deltas, labels, regression_targets):
        """(loss of object or not, loss of the boxes), of anchors that are drawn."""
        positive, negative = self.fg_bg_sampler(labels)
        positive, negative = (flambeau.cat(masks).nonzero().squeeze(1) for masks in (positive, negative))
        drawn = flambeau.cat([positive, negative])
        labels, targets = flambeau.cat(labels), flambeau.cat(regression_targets)
        box_loss = F.smooth_l1_loss(pred_bbox_deltas[positive], targets[positive], beta=1 / 9,
                                    reduction="sum") / drawn.numel()
        return F.binary_cross_entropy_with_logits(objectness.flatten()[drawn], labels[drawn]), box_loss

    def forward(self, images, features, targets=None):
        """(boxes per image, losses): features are the maps by name; the losses are empty outside of training."""
        features = list(features.values())
        objectness, offsets = self.head(features)
        anchors = self.anchor_generator(images, features)
        per_level = [x.shape[1] * x.shape[2] * x.shape[3] for x in objectness]
        objectness, offsets = concat_box_prediction_layers(objectness, offsets)
        proposals = self.box_coder.decode(offsets.detach(), anchors).reshape(len(anchors), -1, 4)
        boxes, _ = self.filter_proposals(proposals, objectness, images.image_sizes, per_level)
        losses = {}
        if self.training:
            if targets is None:
                raise ValueError("RegionProposalNetwork: targets are needed in training mode")
            labels, matched = self.assign_targets_to_anchors(anchors, targets)
            loss, box_loss = self.compute_loss(objectness, offsets, labels, self.box_coder.encode(matched, anchors))
            losses = {"loss_objectness": loss, "loss_rpn_box_reg": box_loss}
        return boxes, losses
