"""What is in each proposed box: a class, the box itself, a mask, keypoints   (Girshick 2015; He et al. 2017)."""

import flambeau
from flambeau import nn
from flambeau.nn import functional as F
from flambeau.vision.ops import batched_nms, box_iou, clip_boxes_to_image, remove_small_boxes

from ...._shown import shown
from ._keypoints import heatmaps_to_keypoints as heatmaps_to_keypoints
from ._keypoints import keypointrcnn_inference as keypointrcnn_inference
from ._keypoints import keypointrcnn_loss as keypointrcnn_loss
from ._keypoints import keypoints_to_heatmap as keypoints_to_heatmap
from ._masks import expand_boxes as expand_boxes
from ._masks import expand_masks as expand_masks
from ._masks import maskrcnn_inference as maskrcnn_inference
from ._masks import maskrcnn_loss as maskrcnn_loss
from ._masks import paste_mask_in_image as paste_mask_in_image
from ._masks import paste_masks_in_image as paste_masks_in_image
from ._masks import project_masks_on_boxes as project_masks_on_boxes
from ._utils import BalancedPositiveNegativeSampler, BoxCoder, Matcher


def fastrcnn_loss(class_logits, box_regression, labels, regression_targets):
    """(loss of the classes, loss of the boxes): of boxes only where there is an object, of its class's offsets."""
    labels, targets = flambeau.cat(labels), flambeau.cat(regression_targets)
    shown = (labels > 0).nonzero().squeeze(1)
    offsets = box_regression.reshape(len(labels), -1, 4)[shown, labels[shown]]
    box_loss = F.smooth_l1_loss(offsets, targets[shown], beta=1 / 9, reduction="sum") / labels.numel()
    return F.cross_entropy(class_logits, labels), box_loss


def _take(parts, indices):
    """Of each image's tensor, what its indices name."""
    return [part[k] for part, k in zip(parts, indices, strict=True)]


class RoIHeads(nn.Module):
    """Pools each proposed box, and says what is in it. Masks and keypoints where their three parts are given.

    fg_iou_thresh, bg_iou_thresh, batch_size_per_image, positive_fraction: which boxes the loss is taken of, as in
    RegionProposalNetwork. bbox_reg_weights: of the BoxCoder. score_thresh, nms_thresh, detections_per_img: which
    detections are given, and how many at most.
    """

    def __init__(self, box_roi_pool, box_head, box_predictor, fg_iou_thresh, bg_iou_thresh, batch_size_per_image,
                 positive_fraction, bbox_reg_weights, score_thresh, nms_thresh, detections_per_img, mask_roi_pool=None,
                 mask_head=None, mask_predictor=None, keypoint_roi_pool=None, keypoint_head=None,
                 keypoint_predictor=None):
        super().__init__()
        self.box_similarity = box_iou
        self.proposal_matcher = Matcher(fg_iou_thresh, bg_iou_thresh, allow_low_quality_matches=False)
        self.fg_bg_sampler = BalancedPositiveNegativeSampler(batch_size_per_image, positive_fraction)
        self.box_coder = BoxCoder((10.0, 10.0, 5.0, 5.0) if bbox_reg_weights is None else bbox_reg_weights)
        self.box_roi_pool, self.box_head, self.box_predictor = box_roi_pool, box_head, box_predictor
        self.score_thresh, self.nms_thresh, self.detections_per_img = score_thresh, nms_thresh, detections_per_img
        self.mask_roi_pool, self.mask_head, self.mask_predictor = mask_roi_pool, mask_head, mask_predictor
        self.keypoint_roi_pool, self.keypoint_head = keypoint_roi_pool, keypoint_head
        self.keypoint_predictor = keypoint_predictor

    def has_mask(self):
        """Whether it finds masks."""
        return None not in (self.mask_roi_pool, self.mask_head, self.mask_predictor)

    def has_keypoint(self):
        """Whether it finds keypoints."""
        return None not in (self.keypoint_roi_pool, self.keypoint_head, self.keypoint_predictor)

    # --- training -----------------------------------------------------------------------------------------------------

    def assign_targets_to_proposals(self, proposals, gt_boxes, gt_labels):
        """Per image the object of each box (0 where there is none) and its label: 0 background, -1 neither."""
        matched, labels = [], []
        for given, boxes, names in zip(proposals, gt_boxes, gt_labels, strict=True):
            if boxes.numel() == 0:
                nothing = flambeau.zeros((len(given),), dtype=flambeau.int64, device=given.device)
                matched.append(nothing)
                labels.append(nothing)
                continue
            found = self.proposal_matcher(self.box_similarity(boxes, given))
            matched.append(found.clamp(min=0))
            label = names[matched[-1]].to(flambeau.int64)
            label = label.masked_fill(found == Matcher.BELOW_LOW_THRESHOLD, 0)
            labels.append(label.masked_fill(found == Matcher.BETWEEN_THRESHOLDS, -1))
        return matched, labels

    def subsample(self, labels):
        """Per image the indices of the boxes that are drawn for the loss."""
        return [(positive | negative).nonzero().squeeze(1)
                for positive, negative in zip(*self.fg_bg_sampler(labels), strict=True)]

    def add_gt_proposals(self, proposals, gt_boxes):
        """The proposals with the true boxes after them."""
        return [flambeau.cat([given, boxes]) for given, boxes in zip(proposals, gt_boxes, strict=True)]

    def check_targets(self, targets):
        """Targets must have what the losses compare with."""
        if targets is None:
            raise AssertionError("RoIHeads: targets are needed in training mode")
        for name in ["boxes", "labels"] + ["masks"] * self.has_mask():
            if not all(name in target for target in targets):
                raise AssertionError(f"RoIHeads: every target needs {shown(name)}; it is a dict with "
                                     f"{', '.join(map(repr, targets[0]))} here")

    def select_training_samples(self, proposals, targets):
        """(boxes, matched objects, labels, offsets to learn) of those that are drawn, one tensor per image each."""
        self.check_targets(targets)
        kind = proposals[0].dtype
        truth = [target["boxes"].to(kind) for target in targets]
        proposals = self.add_gt_proposals(proposals, truth)
        matched, labels = self.assign_targets_to_proposals(proposals, truth, [t["labels"] for t in targets])
        drawn = self.subsample(labels)
        proposals, matched, labels = _take(proposals, drawn), _take(matched, drawn), _take(labels, drawn)
        truth = [boxes if boxes.numel() else boxes.new_zeros((1, 4)) for boxes in truth]
        return proposals, matched, labels, self.box_coder.encode(_take(truth, matched), proposals)

    # --- inference ----------------------------------------------------------------------------------------------------

    def postprocess_detections(self, class_logits, box_regression, proposals, image_shapes):
        """(boxes, scores, labels) of what is found, one tensor per image each, best first."""
        per_image = [len(boxes) for boxes in proposals]
        boxes = self.box_coder.decode(box_regression, proposals).split(per_image)
        scores = class_logits.softmax(-1).split(per_image)
        found = [self._best(*given) for given in zip(boxes, scores, image_shapes, strict=True)]
        return tuple(map(list, zip(*found, strict=True)))

    def _best(self, boxes, scores, size):
        """Of one image: every class but the background may find each box."""
        classes = scores.shape[1]
        labels = flambeau.arange(classes, device=scores.device).expand_as(scores)[:, 1:].reshape(-1)
        boxes = clip_boxes_to_image(boxes, size)[:, 1:].reshape(-1, 4)
        scores = scores[:, 1:].reshape(-1)
        kept = (scores > self.score_thresh).nonzero().squeeze(1)
        boxes, scores, labels = boxes[kept], scores[kept], labels[kept]
        kept = remove_small_boxes(boxes, 1e-2)
        boxes, scores, labels = boxes[kept], scores[kept], labels[kept]
        kept = batched_nms(boxes, scores, labels, self.nms_thresh)[:self.detections_per_img]
        return boxes[kept], scores[kept], labels[kept]

    # --- both ---------------------------------------------------------------------------------------------------------

    def _boxes(self, features, proposals, image_shapes, labels, offsets):
        logits, regression = self.box_predictor(self.box_head(self.box_roi_pool(features, proposals, image_shapes)))
        if labels is not None:
            loss, box_loss = fastrcnn_loss(logits, regression, labels, offsets)
            return [], {"loss_classifier": loss, "loss_box_reg": box_loss}
        boxes, scores, names = self.postprocess_detections(logits, regression, proposals, image_shapes)
        return [{"boxes": b, "labels": n, "scores": s} for b, n, s in zip(boxes, names, scores, strict=True)], {}

    def _masks(self, features, boxes, image_shapes, result, matched, targets):
        logits = self.mask_predictor(self.mask_head(self.mask_roi_pool(features, boxes, image_shapes)))
        if matched is not None:
            return {"loss_mask": maskrcnn_loss(logits, boxes, [t["masks"] for t in targets],
                                               [t["labels"] for t in targets], matched)}
        for found, masks in zip(result, maskrcnn_inference(logits, [r["labels"] for r in result]), strict=True):
            found["masks"] = masks
        return {}

    def _keypoints(self, features, boxes, image_shapes, result, matched, targets):
        pooled = self.keypoint_roi_pool(features, boxes, image_shapes)
        logits = self.keypoint_predictor(self.keypoint_head(pooled))
        if matched is not None:
            return {"loss_keypoint": keypointrcnn_loss(logits, boxes, [t["keypoints"] for t in targets], matched)}
        for found, points, scores in zip(result, *keypointrcnn_inference(logits, boxes), strict=True):
            found["keypoints"], found["keypoints_scores"] = points, scores
        return {}

    def _check_dtypes(self, targets):
        for target in targets:
            if not target["boxes"].is_floating_point():
                raise TypeError(f"detection: boxes of targets must be floating point, got {target['boxes'].dtype}")
            if target["labels"].dtype != flambeau.int64:
                raise TypeError(f"detection: labels of targets must be int64, got {target['labels'].dtype}")
            if self.has_keypoint() and target["keypoints"].dtype != flambeau.float32:
                raise TypeError(f"detection: keypoints of targets must be float32, got {target['keypoints'].dtype}")

    def forward(self, features, proposals, image_shapes, targets=None):
        """(detections per image, losses): the first in inference, the second in training."""
        if targets is not None:
            self._check_dtypes(targets)
        labels = offsets = matched = None
        if self.training:
            proposals, matched, labels, offsets = self.select_training_samples(proposals, targets)
        result, losses = self._boxes(features, proposals, image_shapes, labels, offsets)
        if self.has_mask() or self.has_keypoint():
            if self.training:
                shown = [(label > 0).nonzero().squeeze(1) for label in labels]
                boxes, matched = _take(proposals, shown), _take(matched, shown)
            else:
                boxes = [found["boxes"] for found in result]
            for wanted, part in ((self.has_mask(), self._masks), (self.has_keypoint(), self._keypoints)):
                if wanted:
                    losses |= part(features, boxes, image_shapes, result, matched, targets)
        return result, losses
