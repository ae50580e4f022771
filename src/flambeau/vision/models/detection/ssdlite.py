"""SSDlite   (Sandler et al. 2018; Howard et al. 2019): SSD of separable convolutions on MobileNet v3."""

import functools

from flambeau import nn
from flambeau.vision.ops.misc import Conv2dNormActivation

from ..mobilenetv3 import MobileNet_V3_Large_Weights, mobilenet_v3_large
from ._builders import Backbone, detector, published
from ._utils import retrieve_out_channels
from .anchor_utils import DefaultBoxGenerator
from .backbone_utils import freeze_before, stages_of
from .ssd import SSD, SSDScoringHead

__all__ = ["SSDLite320_MobileNet_V3_Large_Weights", "ssdlite320_mobilenet_v3_large"]

SSDLite320_MobileNet_V3_Large_Weights = published("SSDLite320_MobileNet_V3_Large_Weights", __name__)


def _prediction_block(in_channels, out_channels, kernel_size, norm_layer):
    """A convolution per channel, then one of single pixels."""
    return nn.Sequential(Conv2dNormActivation(in_channels, in_channels, kernel_size=kernel_size, groups=in_channels,
                                              norm_layer=norm_layer, activation_layer=nn.ReLU6),
                         nn.Conv2d(in_channels, out_channels, 1))


def _extra_block(in_channels, out_channels, norm_layer):
    """Half the channels, every second pixel of each, and the channels wanted."""
    hidden = out_channels // 2
    block = functools.partial(Conv2dNormActivation, norm_layer=norm_layer, activation_layer=nn.ReLU6)
    return nn.Sequential(block(in_channels, hidden, kernel_size=1),
                         block(hidden, hidden, kernel_size=3, stride=2, groups=hidden),
                         block(hidden, out_channels, kernel_size=1))


def _normal_init(conv):
    for layer in conv.modules():
        if isinstance(layer, nn.Conv2d):
            nn.init.normal_(layer.weight, mean=0.0, std=0.03)
            if layer.bias is not None:
                nn.init.zeros_(layer.bias)


def _blocks(in_channels, widths, norm_layer):
    modules = nn.ModuleList(_prediction_block(channels, width, 3, norm_layer)
                            for channels, width in zip(in_channels, widths, strict=True))
    _normal_init(modules)
    return modules


class SSDLiteClassificationHead(SSDScoringHead):
    """Logits of the classes."""

    def __init__(self, in_channels, num_anchors, num_classes, norm_layer):
        super().__init__(_blocks(in_channels, [num_classes * n for n in num_anchors], norm_layer), num_classes)


class SSDLiteRegressionHead(SSDScoringHead):
    """Where the object lies."""

    def __init__(self, in_channels, num_anchors, norm_layer):
        super().__init__(_blocks(in_channels, [4 * n for n in num_anchors], norm_layer), 4)


class SSDLiteHead(nn.Module):
    """Classes and boxes of all default boxes."""

    def __init__(self, in_channels, num_anchors, num_classes, norm_layer):
        super().__init__()
        self.classification_head = SSDLiteClassificationHead(in_channels, num_anchors, num_classes, norm_layer)
        self.regression_head = SSDLiteRegressionHead(in_channels, num_anchors, norm_layer)

    def forward(self, x):
        return {"bbox_regression": self.regression_head(x), "cls_logits": self.classification_head(x)}


class SSDLiteFeatureExtractorMobileNet(nn.Module):
    """The maps of SSDlite: the widened map within block c4_pos, the last map, and four that shrink further."""

    def __init__(self, backbone, c4_pos, norm_layer, width_mult=1.0, min_depth=16):
        super().__init__()
        if backbone[c4_pos].use_res_connect:
            raise ValueError(f"SSDLiteFeatureExtractorMobileNet: block {c4_pos} has a shortcut, so its widened map "
                             "cannot be taken out; give that of a stride")
        block = backbone[c4_pos].block
        self.features = nn.Sequential(nn.Sequential(*backbone[:c4_pos], block[0]),
                                      nn.Sequential(block[1:], *backbone[c4_pos + 1:]))
        channels, extra = backbone[-1].out_channels, nn.ModuleList()
        for wanted in (512, 256, 256, 128):
            wanted = max(min_depth, int(wanted * width_mult))
            extra.append(_extra_block(channels, wanted, norm_layer))
            channels = wanted
        _normal_init(extra)
        self.extra = extra

    def forward(self, x):
        """{number: map}, largest first."""
        maps = []
        for block in (*self.features, *self.extra):
            x = block(x)
            maps.append(x)
        return {str(k): m for k, m in enumerate(maps)}


def _mobilenet_extractor(backbone, trainable_layers, norm_layer):
    """SSDLiteFeatureExtractorMobileNet of a MobileNet whose last stages are trained."""
    features = backbone.features
    stages = stages_of(features)
    freeze_before(features, stages, trainable_layers)
    return SSDLiteFeatureExtractorMobileNet(features, stages[-2], norm_layer)


_MOBILENET = Backbone(MobileNet_V3_Large_Weights, "IMAGENET1K_V1", 6, 6)


@detector(SSDLite320_MobileNet_V3_Large_Weights, _MOBILENET)
def ssdlite320_mobilenet_v3_large(weights, _, layers, num_classes, progress, norm_layer=None, **kwargs):
    """SSDlite on MobileNet v3 for images of 320 pixels   (Howard et al. 2019). kwargs: those of SSD."""
    if norm_layer is None:
        norm_layer = functools.partial(nn.BatchNorm2d, eps=0.001, momentum=0.03)
    network = mobilenet_v3_large(weights=weights, progress=progress, norm_layer=norm_layer,
                                 reduced_tail=weights is None)  # published weights of the backbone alone have all of it
    if weights is None:
        _normal_init(network)
    backbone = _mobilenet_extractor(network, layers, norm_layer)
    size = (320, 320)
    anchors = DefaultBoxGenerator([[2, 3] for _ in range(6)], min_ratio=0.2, max_ratio=0.95)
    channels = retrieve_out_channels(backbone, size)
    head = SSDLiteHead(channels, anchors.num_anchors_per_location(), num_classes, norm_layer)
    settings = {"score_thresh": 0.001, "nms_thresh": 0.55, "detections_per_img": 300, "topk_candidates": 300,
                "image_mean": [0.5] * 3, "image_std": [0.5] * 3}
    return SSD(backbone, anchors, size, num_classes, head=head, **(settings | kwargs))
