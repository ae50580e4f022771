"""Detectors of two stages: boxes are proposed, then looked into."""

from flambeau import nn

from ._targets import check_boxes, check_targets, image_sizes


class GeneralizedRCNN(nn.Module):
    """A backbone, proposals of boxes, and heads that look into them; `transform` before and after.

    Called with images (a list of [channels, height, width], 0 to 1) it gives a list of detections; in training mode it
    takes targets, too, and gives a dict of losses.
    """

    def __init__(self, backbone, rpn, roi_heads, transform):
        super().__init__()
        self.transform, self.backbone, self.rpn, self.roi_heads = transform, backbone, rpn, roi_heads

    def eager_outputs(self, losses, detections):
        """The losses in training, the detections otherwise."""
        return losses if self.training else detections

    def forward(self, images, targets=None):
        if self.training:
            check_targets(images, targets)
        sizes = image_sizes(images)
        images, targets = self.transform(images, targets)
        if targets is not None:
            check_boxes(targets)
        features = self.backbone(images.tensors)
        if not isinstance(features, dict):
            features = {"0": features}
        proposals, losses = self.rpn(images, features, targets)
        found, more = self.roi_heads(features, proposals, images.image_sizes, targets)
        found = self.transform.postprocess(found, images.image_sizes, sizes)
        return self.eager_outputs(more | losses, found)
