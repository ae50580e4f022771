"""Detectors of one stage: every place of every map says at once whether it shows something, and where."""

import flambeau
from flambeau import nn
from flambeau.vision.ops import batched_nms, clip_boxes_to_image

from ._targets import check_boxes, check_targets, image_sizes
from ._utils import _topk_min


class DenseDetector(nn.Module):
    """A backbone and a head on all its maps; `transform` before and after, as in GeneralizedRCNN.

    A subclass has losses(targets, outputs, anchors, per_level), where per_level is how many anchors each map has, and
    postprocess_detections(outputs, anchors, sizes), of lists by map.
    """

    def eager_outputs(self, losses, detections):
        """The losses in training, the detections otherwise."""
        return losses if self.training else detections

    def forward(self, images, targets=None):
        if self.training:
            check_targets(images, targets)
        original = image_sizes(images)
        images, targets = self.transform(images, targets)
        if targets is not None:
            check_boxes(targets)
        features = self.backbone(images.tensors)
        features = list(features.values()) if isinstance(features, dict) else [features]
        outputs = self.head(features)
        anchors = self.anchor_generator(images, features)
        per_level = [x.shape[2] * x.shape[3] for x in features]
        each = anchors[0].shape[0] // sum(per_level)
        per_level = [n * each for n in per_level]
        if self.training:
            return self.eager_outputs(self.losses(targets, outputs, anchors, per_level), [])
        found = self.detect(outputs, anchors, images.image_sizes, per_level)
        return self.eager_outputs({}, self.transform.postprocess(found, images.image_sizes, original))

    def detect(self, outputs, anchors, sizes, per_level):
        split = {name: list(x.split(per_level, 1)) for name, x in outputs.items()}
        return self.postprocess_detections(split, [list(a.split(per_level)) for a in anchors], sizes)


def flattened(x, width):
    """A map [n, a width, h, w] as [n, h w a, width]: a row for each anchor."""
    n, _, h, w = x.shape
    return x.reshape(n, -1, width, h, w).permute(0, 3, 4, 1, 2).reshape(n, -1, width)


def tower(in_channels, count, block):
    """Blocks one after the other."""
    return nn.Sequential(*(layer for _ in range(count) for layer in block(in_channels)))


def best_of_level(scores, threshold, most):
    """(scores, anchors, labels) of the best pairs of anchor and class [n, classes] above the threshold."""
    classes = scores.shape[-1]
    scores = scores.flatten()
    kept = (scores > threshold).nonzero().squeeze(1)
    scores, order = scores[kept].topk(_topk_min(kept, most, 0))
    kept = kept[order]
    return scores, kept // classes, kept % classes


def suppressed(parts, size, threshold, most):
    """One image's detections of all levels, (boxes, scores, labels) each: clipped, without those that overlap."""
    boxes, scores, labels = (flambeau.cat(t) for t in zip(*parts, strict=True))
    boxes = clip_boxes_to_image(boxes, size)
    kept = batched_nms(boxes, scores, labels, threshold)[:most]
    return {"boxes": boxes[kept], "scores": scores[kept], "labels": labels[kept]}
