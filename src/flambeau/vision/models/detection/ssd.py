"""SSD   (Liu et al. 2016): one stage, with default boxes of many shapes on maps of six sizes."""

import functools

import flambeau
from flambeau import nn
from flambeau.nn import functional as F

from ..vgg import VGG16_Weights, vgg16
from ._builders import Backbone, detector, published
from ._dense import DenseDetector, flattened, suppressed
from ._utils import BoxCoder, SSDMatcher, _topk_min, retrieve_out_channels
from .anchor_utils import DefaultBoxGenerator
from .retinanet import match_all
from .transform import GeneralizedRCNNTransform

__all__ = ["SSD300_VGG16_Weights", "ssd300_vgg16"]

SSD300_VGG16_Weights = published("SSD300_VGG16_Weights", __name__)


def _xavier_init(conv):
    for layer in conv.modules():
        if isinstance(layer, nn.Conv2d):
            nn.init.xavier_uniform_(layer.weight)
            if layer.bias is not None:
                nn.init.zeros_(layer.bias)


class SSDScoringHead(nn.Module):
    """A module for each map, and its output as num_columns numbers for each default box."""

    def __init__(self, module_list, num_columns):
        super().__init__()
        self.module_list, self.num_columns = module_list, num_columns

    def forward(self, x):
        """[n, boxes, num_columns] of all maps."""
        return flambeau.cat([flattened(module(m), self.num_columns)
                             for module, m in zip(self.module_list, x, strict=True)], 1)


def _convs(in_channels, widths):
    modules = nn.ModuleList(nn.Conv2d(channels, width, kernel_size=3, padding=1)
                            for channels, width in zip(in_channels, widths, strict=True))
    _xavier_init(modules)
    return modules


class SSDClassificationHead(SSDScoringHead):
    """Logits of the classes."""

    def __init__(self, in_channels, num_anchors, num_classes):
        super().__init__(_convs(in_channels, [num_classes * n for n in num_anchors]), num_classes)


class SSDRegressionHead(SSDScoringHead):
    """Where the object lies."""

    def __init__(self, in_channels, num_anchors):
        super().__init__(_convs(in_channels, [4 * n for n in num_anchors]), 4)


class SSDHead(nn.Module):
    """Classes and boxes of all default boxes."""

    def __init__(self, in_channels, num_anchors, num_classes):
        super().__init__()
        self.classification_head = SSDClassificationHead(in_channels, num_anchors, num_classes)
        self.regression_head = SSDRegressionHead(in_channels, num_anchors)

    def forward(self, x):
        return {"bbox_regression": self.regression_head(x), "cls_logits": self.classification_head(x)}


class SSD(DenseDetector):
    """SSD on a backbone with one map for each entry of the anchor generator, for images of `size` (width, height).

    num_classes: with the background, class 0. iou_thresh: an overlap from which a default box shows an object.
    positive_fraction: the share of boxes with objects in the loss of the classes; the others are the hardest. The
    other arguments are those of RetinaNet.
    """

    def __init__(self, backbone, anchor_generator, size, num_classes, image_mean=None, image_std=None, head=None,
                 score_thresh=0.01, nms_thresh=0.45, detections_per_img=200, iou_thresh=0.5, topk_candidates=400,
                 positive_fraction=0.25, **kwargs):
        super().__init__()
        self.backbone, self.anchor_generator = backbone, anchor_generator
        self.box_coder = BoxCoder(weights=(10.0, 10.0, 5.0, 5.0))
        if head is None:
            channels = getattr(backbone, "out_channels", None) or retrieve_out_channels(backbone, size)
            per_place = anchor_generator.num_anchors_per_location()
            channels = [channels] * len(per_place) if isinstance(channels, int) else channels
            if len(channels) != len(per_place):
                raise ValueError(f"SSD: the backbone gives {len(channels)} maps and anchor_generator has "
                                 f"{len(per_place)} entries")
            head = SSDHead(channels, per_place, num_classes)
        self.head = head
        self.proposal_matcher = SSDMatcher(iou_thresh)
        self.transform = GeneralizedRCNNTransform(
            min(size), max(size), image_mean or [0.485, 0.456, 0.406], image_std or [0.229, 0.224, 0.225],
            size_divisible=1, fixed_size=size, **kwargs)
        self.score_thresh, self.nms_thresh = score_thresh, nms_thresh
        self.detections_per_img, self.topk_candidates = detections_per_img, topk_candidates
        self.neg_to_pos_ratio = (1.0 - positive_fraction) / positive_fraction

    def compute_loss(self, targets, head_outputs, anchors, matched_idxs):
        """Of the boxes that show objects both losses; of the others the class's, where it is largest."""
        box_loss, labels, count = [], [], 0
        logits = head_outputs["cls_logits"]
        for target, offsets, given, matched in zip(targets, head_outputs["bbox_regression"], anchors, matched_idxs,
                                                   strict=True):
            shown = (matched >= 0).nonzero().squeeze(1)
            count += len(shown)
            wanted = self.box_coder.encode_single(target["boxes"][matched[shown]], given[shown])
            box_loss.append(F.smooth_l1_loss(offsets[shown], wanted, reduction="sum"))
            label = flambeau.zeros((len(offsets),), dtype=target["labels"].dtype, device=logits.device)
            label[shown] = target["labels"][matched[shown]]
            labels.append(label)
        labels, count = flambeau.stack(labels), max(1, count)
        loss = F.cross_entropy(logits.flatten(0, 1), labels.flatten(), reduction="none").reshape(labels.shape)
        shown = labels > 0
        wanted = self.neg_to_pos_ratio * shown.sum(1, keepdim=True)
        rank = loss.masked_fill(shown, -flambeau.inf).sort(1, descending=True).indices.sort(1).indices
        return {"bbox_regression": sum(box_loss) / count,
                "classification": (loss[shown].sum() + loss[rank < wanted].sum()) / count}

    def losses(self, targets, outputs, anchors, _):
        return self.compute_loss(targets, outputs, anchors, match_all(self.proposal_matcher, targets, anchors))

    def detect(self, outputs, anchors, sizes, _):
        return self.postprocess_detections(outputs, anchors, sizes)

    def postprocess_detections(self, head_outputs, image_anchors, image_shapes):
        """The detections of each image: of every class but the background the best boxes."""
        found = []
        for offsets, scores, given, size in zip(head_outputs["bbox_regression"],
                                                head_outputs["cls_logits"].softmax(-1), image_anchors, image_shapes,
                                                strict=True):
            boxes, parts = self.box_coder.decode_single(offsets, given), []
            for label in range(1, scores.shape[1]):
                score = scores[:, label]
                kept = (score > self.score_thresh).nonzero().squeeze(1)
                score, order = score[kept].topk(_topk_min(kept, self.topk_candidates, 0))
                parts.append((boxes[kept[order]], score, flambeau.full_like(order, label)))
            found.append(suppressed(parts, size, self.nms_thresh, self.detections_per_img))
        return found


def _narrowing(channels, hidden, out, **conv):
    """Half of the channels, then a convolution that makes the map smaller."""
    return nn.Sequential(nn.Conv2d(channels, hidden, kernel_size=1), nn.ReLU(inplace=True),
                         nn.Conv2d(hidden, out, **conv), nn.ReLU(inplace=True))


class SSDFeatureExtractorVGG(nn.Module):
    """The maps of SSD from VGG-16: the last before its fourth pooling, its end with the two large layers as
    convolutions, and further convolutions down to one pixel. highres: one more, for 512 pixels."""

    def __init__(self, backbone, highres):
        super().__init__()
        pools = [k for k, layer in enumerate(backbone) if isinstance(layer, nn.MaxPool2d)]
        third, fourth = pools[2], pools[3]
        backbone[third].ceil_mode = True  # 300 pixels: 38 places, not 37
        self.scale_weight = nn.Parameter(flambeau.ones(512) * 20)
        self.features = nn.Sequential(*backbone[:fourth])
        small = {"kernel_size": 3}
        extra = nn.ModuleList([_narrowing(1024, 256, 512, kernel_size=3, padding=1, stride=2),
                               _narrowing(512, 128, 256, kernel_size=3, padding=1, stride=2),
                               _narrowing(256, 128, 256, **small), _narrowing(256, 128, 256, **small)])
        if highres:
            extra.append(_narrowing(256, 128, 256, kernel_size=4))
        _xavier_init(extra)
        large = nn.Sequential(nn.MaxPool2d(kernel_size=3, stride=1, padding=1, ceil_mode=False),
                              nn.Conv2d(512, 1024, kernel_size=3, padding=6, dilation=6), nn.ReLU(inplace=True),
                              nn.Conv2d(1024, 1024, kernel_size=1), nn.ReLU(inplace=True))
        _xavier_init(large)
        extra.insert(0, nn.Sequential(*backbone[fourth:-1], large))
        self.extra = extra

    def forward(self, x):
        """{number: map}, largest first; the first has channels of a learned length."""
        x = self.features(x)
        maps = [self.scale_weight.reshape(1, -1, 1, 1) * F.normalize(x)]
        for block in self.extra:
            x = block(x)
            maps.append(x)
        return {str(k): m for k, m in enumerate(maps)}


def _vgg_extractor(backbone, highres, trainable_layers):
    """SSDFeatureExtractorVGG of a VGG whose last stages are trained."""
    features = backbone.features
    stages = [0, *(k for k, layer in enumerate(features) if isinstance(layer, nn.MaxPool2d))][:-1]
    first = len(features) if trainable_layers == 0 else stages[len(stages) - trainable_layers]
    for layer in features[:first]:
        for parameter in layer.parameters():
            parameter.requires_grad_(False)
    return SSDFeatureExtractorVGG(features, highres)


_VGG = Backbone(VGG16_Weights, "IMAGENET1K_FEATURES", 5, 4)
_STEPS = functools.partial(DefaultBoxGenerator, [[2], [2, 3], [2, 3], [2, 3], [2], [2]],
                           scales=[0.07, 0.15, 0.33, 0.51, 0.69, 0.87, 1.05], steps=[8, 16, 32, 64, 100, 300])


@detector(SSD300_VGG16_Weights, _VGG)
def ssd300_vgg16(weights, _, layers, num_classes, progress, **kwargs):
    """SSD on VGG-16 for images of 300 pixels   (Liu et al. 2016). kwargs: those of SSD."""
    backbone = _vgg_extractor(vgg16(weights=weights, progress=progress), False, layers)
    caffe = {"image_mean": [0.48235, 0.45882, 0.40784], "image_std": [1.0 / 255] * 3}  # that of the first weights
    return SSD(backbone, _STEPS(), (300, 300), num_classes, **(caffe | kwargs))
