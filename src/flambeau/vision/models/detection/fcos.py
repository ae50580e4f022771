"""FCOS   (Tian et al. 2019): every place within an object says where the object's sides are, and how central it is."""

import math

import flambeau
from flambeau import nn
from flambeau.nn import functional as F
from flambeau.vision.ops import generalized_box_iou_loss, sigmoid_focal_loss

from .._utils import normal_convs
from ._builders import RESNET, detector, published
from ._dense import DenseDetector, best_of_level, flattened, suppressed, tower
from ._utils import BoxLinearCoder
from .anchor_utils import AnchorGenerator
from .faster_rcnn import resnet_pyramid
from .transform import GeneralizedRCNNTransform

__all__ = ["FCOS", "FCOS_ResNet50_FPN_Weights", "fcos_resnet50_fpn"]

FCOS_ResNet50_FPN_Weights = published("FCOS_ResNet50_FPN_Weights", __name__)


def _blocks(norm_layer):
    """A convolution that keeps the channels, its norm, ReLU."""
    def block(channels):
        norm = nn.GroupNorm(32, channels) if norm_layer is None else norm_layer(channels)
        return nn.Conv2d(channels, channels, 3, stride=1, padding=1), norm, nn.ReLU()
    return block


class FCOSClassificationHead(nn.Module):
    """For each place a logit for each class; at first all of them say prior_probability."""

    def __init__(self, in_channels, num_anchors, num_classes, num_convs=4, prior_probability=0.01, norm_layer=None):
        super().__init__()
        self.num_classes, self.num_anchors = num_classes, num_anchors
        self.conv = tower(in_channels, num_convs, _blocks(norm_layer))
        normal_convs(self.conv)
        self.cls_logits = nn.Conv2d(in_channels, num_anchors * num_classes, 3, stride=1, padding=1)
        nn.init.normal_(self.cls_logits.weight, std=0.01)
        nn.init.constant_(self.cls_logits.bias, -math.log((1 - prior_probability) / prior_probability))

    def forward(self, x):
        """[n, places, classes] of all maps."""
        return flambeau.cat([flattened(self.cls_logits(self.conv(m)), self.num_classes) for m in x], 1)


class FCOSRegressionHead(nn.Module):
    """For each place the distances of the object's sides, and how central the place is in it."""

    def __init__(self, in_channels, num_anchors, num_convs=4, norm_layer=None):
        super().__init__()
        self.conv = tower(in_channels, num_convs, _blocks(norm_layer))
        self.bbox_reg = nn.Conv2d(in_channels, num_anchors * 4, 3, stride=1, padding=1)
        self.bbox_ctrness = nn.Conv2d(in_channels, num_anchors, 3, stride=1, padding=1)
        for layer in (self.bbox_reg, self.bbox_ctrness):
            normal_convs(layer)
        normal_convs(self.conv)

    def forward(self, x):
        """(distances [n, places, 4], logits [n, places, 1]) of all maps."""
        hidden = [self.conv(m) for m in x]
        return (flambeau.cat([flattened(F.relu(self.bbox_reg(h)), 4) for h in hidden], 1),
                flambeau.cat([flattened(self.bbox_ctrness(h), 1) for h in hidden], 1))


class FCOSHead(nn.Module):
    """Classes, boxes and centreness of all places."""

    def __init__(self, in_channels, num_anchors, num_classes, num_convs=4):
        super().__init__()
        self.box_coder = BoxLinearCoder(normalize_by_size=True)
        self.classification_head = FCOSClassificationHead(in_channels, num_anchors, num_classes, num_convs)
        self.regression_head = FCOSRegressionHead(in_channels, num_anchors, num_convs)

    def compute_loss(self, targets, head_outputs, anchors, matched_idxs):
        """The three losses, over the number of places within objects."""
        labels, boxes = [], []
        for target, matched in zip(targets, matched_idxs, strict=True):
            if len(target["labels"]):
                label, box = target["labels"][matched.clamp(min=0)], target["boxes"][matched.clamp(min=0)]
            else:
                label, box = matched.new_zeros((len(matched),)), target["boxes"].new_zeros((len(matched), 4))
            labels.append(label.masked_fill(matched < 0, -1))
            boxes.append(box)
        labels, boxes, anchors = flambeau.stack(labels), flambeau.stack(boxes), flambeau.stack(anchors)
        shown = labels >= 0
        count = max(1, int(shown.sum()))
        logits = head_outputs["cls_logits"]
        truth = flambeau.zeros_like(logits)
        truth[shown, labels[shown]] = 1.0
        found = self.box_coder.decode(head_outputs["bbox_regression"], anchors)
        central = _centreness(self.box_coder.encode(boxes, anchors)[shown])
        guess = head_outputs["bbox_ctrness"].squeeze(-1)[shown]
        losses = {
            "classification": sigmoid_focal_loss(logits, truth, reduction="sum"),
            "bbox_regression": generalized_box_iou_loss(found[shown], boxes[shown], reduction="sum"),
            "bbox_ctrness": F.binary_cross_entropy_with_logits(guess, central, reduction="sum"),
        }
        return {name: loss / count for name, loss in losses.items()}

    def forward(self, x):
        regression, central = self.regression_head(x)
        return {"cls_logits": self.classification_head(x), "bbox_regression": regression, "bbox_ctrness": central}


def _centreness(distances):
    """One in the middle, zero at the sides: the root of the product of nearer by farther side of both axes."""
    if len(distances) == 0:
        return distances.new_zeros((0,))
    pairs = [distances[:, k::2] for k in (0, 1)]
    return (pairs[0].amin(-1) / pairs[0].amax(-1) * (pairs[1].amin(-1) / pairs[1].amax(-1))).sqrt()


class FCOS(DenseDetector):
    """FCOS on a backbone that gives maps of `out_channels` each; one "anchor" per place, as large as its stride.

    center_sampling_radius: in strides, how far from an object's centre a place may be that learns it. The other
    arguments are those of RetinaNet.
    """

    def __init__(self, backbone, num_classes, min_size=800, max_size=1333, image_mean=None, image_std=None,
                 anchor_generator=None, head=None, center_sampling_radius=1.5, score_thresh=0.2, nms_thresh=0.6,
                 detections_per_img=100, topk_candidates=1000, **kwargs):
        super().__init__()
        if not hasattr(backbone, "out_channels"):
            raise ValueError("FCOS: the backbone needs an attribute out_channels, the channels of its maps")
        self.backbone = backbone
        if anchor_generator is None:
            anchor_generator = AnchorGenerator(((8,), (16,), (32,), (64,), (128,)), ((1.0,),) * 5)
        self.anchor_generator = anchor_generator
        per_place = anchor_generator.num_anchors_per_location()[0]
        if per_place != 1:
            raise ValueError(f"FCOS: there is one anchor per place, and this anchor_generator has {per_place}")
        self.head = head if head is not None else FCOSHead(backbone.out_channels, per_place, num_classes)
        self.box_coder = BoxLinearCoder(normalize_by_size=True)
        self.transform = GeneralizedRCNNTransform(min_size, max_size, image_mean or [0.485, 0.456, 0.406],
                                                  image_std or [0.229, 0.224, 0.225], **kwargs)
        self.center_sampling_radius = center_sampling_radius
        self.score_thresh, self.nms_thresh = score_thresh, nms_thresh
        self.detections_per_img, self.topk_candidates = detections_per_img, topk_candidates

    def _match(self, boxes, anchors, per_level):
        """The object of each place: of those it is central in and whose size fits its map, the smallest."""
        centres = (boxes[:, :2] + boxes[:, 2:]) / 2
        places, sides = (anchors[:, :2] + anchors[:, 2:]) / 2, anchors[:, 2] - anchors[:, 0]
        near = (places[:, None] - centres).abs().amax(2) < self.center_sampling_radius * sides[:, None]
        distances = flambeau.cat([places[:, None] - boxes[:, :2], boxes[:, 2:] - places[:, None]], 2)
        inside = distances.amin(2) > 0
        low, high = sides * 4, sides * 8
        low[:per_level[0]], high[-per_level[-1]:] = 0, flambeau.inf
        far = distances.amax(2)
        fits = (far > low[:, None]) & (far < high[:, None])
        areas = (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])
        best, matched = ((near & inside & fits).float() * (1e8 - areas)).max(1)
        return matched.masked_fill(best < 1e-5, -1)

    def compute_loss(self, targets, head_outputs, anchors, num_anchors_per_level):
        """The losses, with the places matched to the objects first."""
        matched = [self._match(target["boxes"], given, num_anchors_per_level) if target["boxes"].numel() else
                   flambeau.full((len(given),), -1, dtype=flambeau.int64, device=given.device)
                   for target, given in zip(targets, anchors, strict=True)]
        return self.head.compute_loss(targets, head_outputs, anchors, matched)

    losses = compute_loss

    def postprocess_detections(self, head_outputs, anchors, image_shapes):
        """The detections of each image, from the head's outputs and the anchors, map by map."""
        found = []
        for k, (given, size) in enumerate(zip(anchors, image_shapes, strict=True)):
            parts = []
            for distances, logits, central, boxes in zip(*(head_outputs[name] for name in (
                    "bbox_regression", "cls_logits", "bbox_ctrness")), given, strict=True):
                scores = (logits[k].sigmoid() * central[k].sigmoid()).sqrt()
                scores, which, labels = best_of_level(scores, self.score_thresh, self.topk_candidates)
                parts.append((self.box_coder.decode(distances[k][which], boxes[which]), scores, labels))
            found.append(suppressed(parts, size, self.nms_thresh, self.detections_per_img))
        return found


@detector(FCOS_ResNet50_FPN_Weights, RESNET)
def fcos_resnet50_fpn(weights, trained, layers, num_classes, progress, **kwargs):
    """FCOS on a pyramid of ResNet-50   (Tian et al. 2019). kwargs: those of FCOS."""
    backbone = resnet_pyramid(weights, trained, layers, progress, extra=(256, 256))
    return FCOS(backbone, num_classes, **kwargs)
