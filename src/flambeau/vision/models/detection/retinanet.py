"""RetinaNet   (Lin et al. 2017): one stage, with a loss that easy examples do not drown."""

import functools
import math

import flambeau
from flambeau import nn
from flambeau.vision.ops import box_iou, sigmoid_focal_loss
from flambeau.vision.ops.feature_pyramid_network import LastLevelP6P7
from flambeau.vision.ops.misc import Conv2dNormActivation

from .._utils import normal_convs
from ..resnet import resnet50
from ._builders import RESNET, RESNET_V2, detector, published
from ._dense import DenseDetector, best_of_level, flattened, suppressed
from ._targets import older, rename
from ._utils import BoxCoder, Matcher, _box_loss
from .anchor_utils import AnchorGenerator
from .backbone_utils import _resnet_fpn_extractor
from .faster_rcnn import resnet_pyramid
from .transform import GeneralizedRCNNTransform

__all__ = ["RetinaNet", "RetinaNet_ResNet50_FPN_V2_Weights", "RetinaNet_ResNet50_FPN_Weights", "retinanet_resnet50_fpn",
           "retinanet_resnet50_fpn_v2"]

RetinaNet_ResNet50_FPN_Weights = published("RetinaNet_ResNet50_FPN_Weights", __name__)
RetinaNet_ResNet50_FPN_V2_Weights = published("RetinaNet_ResNet50_FPN_V2_Weights", __name__)


def _default_anchorgen():
    """Three sizes per octave and three ratios, for each of five maps."""
    sizes = tuple((x, int(x * 2 ** (1 / 3)), int(x * 2 ** (2 / 3))) for x in (32, 64, 128, 256, 512))
    return AnchorGenerator(sizes, ((0.5, 1.0, 2.0),) * len(sizes))


class _Tower(nn.Module):
    """Four convolutions that keep the channels; older weights name them by their place among the activations."""

    _version = 2

    def __init__(self, in_channels, norm_layer):
        super().__init__()
        self.conv = nn.Sequential(*(Conv2dNormActivation(in_channels, in_channels, norm_layer=norm_layer)
                                    for _ in range(4)))

    def _load_from_state_dict(self, state_dict, prefix, local_metadata, *rest):
        if older(local_metadata):
            rename(state_dict, prefix, {f"conv.{2 * k}.{kind}": f"conv.{k}.0.{kind}"
                                        for k in range(4) for kind in ("weight", "bias")})
        super()._load_from_state_dict(state_dict, prefix, local_metadata, *rest)


class RetinaNetClassificationHead(_Tower):
    """For each anchor a logit for each class; at first all of them say prior_probability."""

    def __init__(self, in_channels, num_anchors, num_classes, prior_probability=0.01, norm_layer=None):
        super().__init__(in_channels, norm_layer)
        normal_convs(self.conv)
        self.cls_logits = nn.Conv2d(in_channels, num_anchors * num_classes, 3, stride=1, padding=1)
        nn.init.normal_(self.cls_logits.weight, std=0.01)
        nn.init.constant_(self.cls_logits.bias, -math.log((1 - prior_probability) / prior_probability))
        self.num_classes, self.num_anchors = num_classes, num_anchors
        self.BETWEEN_THRESHOLDS = Matcher.BETWEEN_THRESHOLDS

    def compute_loss(self, targets, head_outputs, matched_idxs):
        """The focal loss of all anchors but those that count neither way, per image over its matched anchors."""
        losses = []
        for target, logits, matched in zip(targets, head_outputs["cls_logits"], matched_idxs, strict=True):
            shown = matched >= 0
            truth = flambeau.zeros_like(logits)
            truth[shown, target["labels"][matched[shown]]] = 1.0
            valid = matched != self.BETWEEN_THRESHOLDS
            loss = sigmoid_focal_loss(logits[valid], truth[valid], reduction="sum")
            losses.append(loss / max(1, int(shown.sum())))
        return sum(losses) / len(targets)

    def forward(self, x):
        """[n, anchors, classes] of all maps."""
        return flambeau.cat([flattened(self.cls_logits(self.conv(m)), self.num_classes) for m in x], 1)


class RetinaNetRegressionHead(_Tower):
    """For each anchor where the object lies."""

    def __init__(self, in_channels, num_anchors, norm_layer=None):
        super().__init__(in_channels, norm_layer)
        self.bbox_reg = nn.Conv2d(in_channels, num_anchors * 4, 3, stride=1, padding=1)
        nn.init.normal_(self.bbox_reg.weight, std=0.01)
        nn.init.zeros_(self.bbox_reg.bias)
        normal_convs(self.conv)
        self.box_coder = BoxCoder(weights=(1.0, 1.0, 1.0, 1.0))
        self._loss_type = "l1"

    def compute_loss(self, targets, head_outputs, anchors, matched_idxs):
        """How far the boxes of matched anchors are off, per image over their number."""
        losses = []
        for target, offsets, given, matched in zip(targets, head_outputs["bbox_regression"], anchors, matched_idxs,
                                                   strict=True):
            shown = (matched >= 0).nonzero().squeeze(1)
            loss = _box_loss(self._loss_type, self.box_coder, given[shown], target["boxes"][matched[shown]],
                             offsets[shown])
            losses.append(loss / max(1, len(shown)))
        return sum(losses) / max(1, len(targets))

    def forward(self, x):
        """[n, anchors, 4] of all maps."""
        return flambeau.cat([flattened(self.bbox_reg(self.conv(m)), 4) for m in x], 1)


class RetinaNetHead(nn.Module):
    """Classes and boxes of all anchors."""

    def __init__(self, in_channels, num_anchors, num_classes, norm_layer=None):
        super().__init__()
        self.classification_head = RetinaNetClassificationHead(in_channels, num_anchors, num_classes,
                                                               norm_layer=norm_layer)
        self.regression_head = RetinaNetRegressionHead(in_channels, num_anchors, norm_layer=norm_layer)

    def compute_loss(self, targets, head_outputs, anchors, matched_idxs):
        """Both losses."""
        return {"classification": self.classification_head.compute_loss(targets, head_outputs, matched_idxs),
                "bbox_regression": self.regression_head.compute_loss(targets, head_outputs, anchors, matched_idxs)}

    def forward(self, x):
        return {"cls_logits": self.classification_head(x), "bbox_regression": self.regression_head(x)}


class RetinaNet(DenseDetector):
    """RetinaNet on a backbone that gives maps of `out_channels` each.

    num_classes: with the background, which has a number but is never found. score_thresh, nms_thresh,
    detections_per_img, topk_candidates: which detections are given, how many at most, and how many are looked at per
    map. fg_iou_thresh, bg_iou_thresh: of the Matcher, unless proposal_matcher is one.
    """

    def __init__(self, backbone, num_classes, min_size=800, max_size=1333, image_mean=None, image_std=None,
                 anchor_generator=None, head=None, proposal_matcher=None, score_thresh=0.05, nms_thresh=0.5,
                 detections_per_img=300, fg_iou_thresh=0.5, bg_iou_thresh=0.4, topk_candidates=1000, **kwargs):
        super().__init__()
        if not hasattr(backbone, "out_channels"):
            raise ValueError("RetinaNet: the backbone needs an attribute out_channels, the channels of its maps")
        self.backbone = backbone
        self.anchor_generator = anchor_generator if anchor_generator is not None else _default_anchorgen()
        per_place = self.anchor_generator.num_anchors_per_location()[0]
        self.head = head if head is not None else RetinaNetHead(backbone.out_channels, per_place, num_classes)
        self.proposal_matcher = proposal_matcher if proposal_matcher is not None else \
            Matcher(fg_iou_thresh, bg_iou_thresh, allow_low_quality_matches=True)
        self.box_coder = BoxCoder(weights=(1.0, 1.0, 1.0, 1.0))
        self.transform = GeneralizedRCNNTransform(min_size, max_size, image_mean or [0.485, 0.456, 0.406],
                                                  image_std or [0.229, 0.224, 0.225], **kwargs)
        self.score_thresh, self.nms_thresh = score_thresh, nms_thresh
        self.detections_per_img, self.topk_candidates = detections_per_img, topk_candidates

    def compute_loss(self, targets, head_outputs, anchors):
        """The losses, with the anchors matched to the objects first."""
        matched = match_all(self.proposal_matcher, targets, anchors)
        return self.head.compute_loss(targets, head_outputs, anchors, matched)

    def losses(self, targets, outputs, anchors, _):
        return self.compute_loss(targets, outputs, anchors)

    def postprocess_detections(self, head_outputs, anchors, image_shapes):
        """The detections of each image, from the head's outputs and the anchors, map by map."""
        found = []
        for k, (given, size) in enumerate(zip(anchors, image_shapes, strict=True)):
            parts = []
            for offsets, logits, boxes in zip(head_outputs["bbox_regression"], head_outputs["cls_logits"], given,
                                              strict=True):
                scores, which, labels = best_of_level(logits[k].sigmoid(), self.score_thresh, self.topk_candidates)
                parts.append((self.box_coder.decode_single(offsets[k][which], boxes[which]), scores, labels))
            found.append(suppressed(parts, size, self.nms_thresh, self.detections_per_img))
        return found


def match_all(matcher, targets, anchors):
    """Per image the object of each anchor; -1 where there is none."""
    found = []
    for target, given in zip(targets, anchors, strict=True):
        if target["boxes"].numel() == 0:
            found.append(flambeau.full((len(given),), -1, dtype=flambeau.int64, device=given.device))
        else:
            found.append(matcher(box_iou(target["boxes"], given)))
    return found


@detector(RetinaNet_ResNet50_FPN_Weights, RESNET, eps=0.0)
def retinanet_resnet50_fpn(weights, trained, layers, num_classes, progress, **kwargs):
    """RetinaNet on a pyramid of ResNet-50   (Lin et al. 2017). kwargs: those of RetinaNet."""
    backbone = resnet_pyramid(weights, trained, layers, progress, extra=(256, 256))
    return RetinaNet(backbone, num_classes, **kwargs)


@detector(RetinaNet_ResNet50_FPN_V2_Weights, RESNET_V2)
def retinanet_resnet50_fpn_v2(weights, _, layers, num_classes, progress, **kwargs):
    """RetinaNet with normalised heads and a loss of boxes by generalized IoU   (Zhang et al. 2020)."""
    backbone = _resnet_fpn_extractor(resnet50(weights=weights, progress=progress), layers, returned_layers=[2, 3, 4],
                                     extra_blocks=LastLevelP6P7(2048, 256))
    anchors = _default_anchorgen()
    head = RetinaNetHead(backbone.out_channels, anchors.num_anchors_per_location()[0], num_classes,
                         norm_layer=functools.partial(nn.GroupNorm, 32))
    head.regression_head._loss_type = "giou"
    return RetinaNet(backbone, num_classes, anchor_generator=anchors, head=head, **kwargs)
