"""LR-ASPP (Howard et al. 2019): the light segmentation head of MobileNet v3."""

from flambeau import nn

from .. import mobilenetv3
from .._api import builder, weights_enum
from ._utils import mobilenet_parts, norm_relu, resized

__all__ = ["LRASPP", "LRASPP_MobileNet_V3_Large_Weights", "lraspp_mobilenet_v3_large"]

LRASPP_MobileNet_V3_Large_Weights = weights_enum("LRASPP_MobileNet_V3_Large_Weights", __name__)


class LRASPPHead(nn.Module):
    """Scores of the last result, gated by its mean, added to those of an earlier one of higher resolution."""

    def __init__(self, low_channels, high_channels, num_classes, inter_channels):
        super().__init__()
        self.cbr = nn.Sequential(nn.Conv2d(high_channels, inter_channels, 1, bias=False),
                                 *norm_relu(inter_channels, inplace=True))
        self.scale = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Conv2d(high_channels, inter_channels, 1, bias=False),
                                   nn.Sigmoid())
        self.low_classifier = nn.Conv2d(low_channels, num_classes, 1)
        self.high_classifier = nn.Conv2d(inter_channels, num_classes, 1)

    def forward(self, input):
        low, high = input["low"], input["high"]
        gated = self.cbr(high) * self.scale(high)
        gated = resized(gated, low.shape[-2:])
        return self.low_classifier(low) + self.high_classifier(gated)


class LRASPP(nn.Module):
    """backbone: gives {"low": …, "high": …}. The result is {"out": scores per pixel}."""

    def __init__(self, backbone, low_channels, high_channels, num_classes, inter_channels=128):
        super().__init__()
        self.backbone = backbone
        self.classifier = LRASPPHead(low_channels, high_channels, num_classes, inter_channels)

    def forward(self, input):
        scores = self.classifier(self.backbone(input))
        return {"out": resized(scores, input.shape[-2:])}


@builder(LRASPP_MobileNet_V3_Large_Weights, backbone=mobilenetv3.MobileNet_V3_Large_Weights)
def lraspp_mobilenet_v3_large(*, num_classes=None, weights_backbone, progress):
    """LR-ASPP on MobileNet v3, large; 21 classes if num_classes is None."""
    backbone, high, low = mobilenet_parts(mobilenetv3.mobilenet_v3_large, "low", weights_backbone, progress, "high")
    return LRASPP(backbone, low, high, 21 if num_classes is None else num_classes)
