"""DeepLab v3 (Chen et al. 2017): dilated convolutions of several rates side by side."""

import flambeau
from flambeau import nn

from .. import mobilenetv3, resnet
from .._api import builder, weights_enum
from ._utils import _SimpleSegmentationModel, mobilenet_parts, norm_relu, resized, resnet_parts, with_auxiliary
from .fcn import FCNHead

__all__ = ["DeepLabV3", "DeepLabV3_MobileNet_V3_Large_Weights", "DeepLabV3_ResNet50_Weights",
           "DeepLabV3_ResNet101_Weights", "deeplabv3_mobilenet_v3_large", "deeplabv3_resnet50", "deeplabv3_resnet101"]

DeepLabV3_ResNet50_Weights = weights_enum("DeepLabV3_ResNet50_Weights", __name__)
DeepLabV3_ResNet101_Weights = weights_enum("DeepLabV3_ResNet101_Weights", __name__)
DeepLabV3_MobileNet_V3_Large_Weights = weights_enum("DeepLabV3_MobileNet_V3_Large_Weights", __name__)


class DeepLabV3(_SimpleSegmentationModel):
    """A backbone and a DeepLabHead."""


class ASPPConv(nn.Sequential):
    """A 3x3 convolution with this dilation."""

    def __init__(self, in_channels, out_channels, dilation):
        super().__init__(nn.Conv2d(in_channels, out_channels, 3, padding=dilation, dilation=dilation, bias=False),
                         *norm_relu(out_channels))


class ASPPPooling(nn.Sequential):
    """The mean of the picture, everywhere."""

    def __init__(self, in_channels, out_channels):
        super().__init__(nn.AdaptiveAvgPool2d(1), nn.Conv2d(in_channels, out_channels, 1, bias=False),
                         *norm_relu(out_channels))

    def forward(self, x):
        size = x.shape[-2:]
        return resized(super().forward(x), size)


class ASPP(nn.Module):
    """A 1x1 convolution, dilated ones and the pooling side by side, then a 1x1 convolution of all."""

    def __init__(self, in_channels, atrous_rates, out_channels=256):
        super().__init__()
        first = nn.Sequential(nn.Conv2d(in_channels, out_channels, 1, bias=False), *norm_relu(out_channels))
        dilated = [ASPPConv(in_channels, out_channels, rate) for rate in atrous_rates]
        self.convs = nn.ModuleList([first, *dilated, ASPPPooling(in_channels, out_channels)])
        self.project = nn.Sequential(nn.Conv2d(len(self.convs) * out_channels, out_channels, 1, bias=False),
                                     *norm_relu(out_channels, nn.Dropout(0.5)))

    def forward(self, x):
        return self.project(flambeau.cat([branch(x) for branch in self.convs], dim=1))


class DeepLabHead(nn.Sequential):
    """ASPP, a 3x3 convolution, the scores."""

    def __init__(self, in_channels, num_classes, atrous_rates=(12, 24, 36)):
        super().__init__(ASPP(in_channels, atrous_rates), nn.Conv2d(256, 256, 3, padding=1, bias=False),
                         *norm_relu(256, nn.Conv2d(256, num_classes, 1)))


def _deeplabv3(parts, num_classes, aux_loss):
    backbone, channels, earlier = parts
    classes = 21 if num_classes is None else num_classes
    auxiliary = FCNHead(earlier, classes) if aux_loss else None
    return DeepLabV3(backbone, DeepLabHead(channels, classes), auxiliary)


@builder(DeepLabV3_ResNet50_Weights, weighted=with_auxiliary, backbone=resnet.ResNet50_Weights)
def deeplabv3_resnet50(*, num_classes=None, aux_loss=None, weights_backbone, progress):
    """DeepLab v3 on ResNet-50; 21 classes if num_classes is None."""
    return _deeplabv3(resnet_parts(resnet.resnet50, aux_loss, weights_backbone, progress), num_classes, aux_loss)


@builder(DeepLabV3_ResNet101_Weights, weighted=with_auxiliary, backbone=resnet.ResNet101_Weights)
def deeplabv3_resnet101(*, num_classes=None, aux_loss=None, weights_backbone, progress):
    """DeepLab v3 on ResNet-101; 21 classes if num_classes is None."""
    return _deeplabv3(resnet_parts(resnet.resnet101, aux_loss, weights_backbone, progress), num_classes, aux_loss)


@builder(DeepLabV3_MobileNet_V3_Large_Weights, weighted=with_auxiliary, backbone=mobilenetv3.MobileNet_V3_Large_Weights)
def deeplabv3_mobilenet_v3_large(*, num_classes=None, aux_loss=None, weights_backbone, progress):
    """DeepLab v3 on MobileNet v3, large; 21 classes if num_classes is None."""
    parts = mobilenet_parts(mobilenetv3.mobilenet_v3_large, "aux" if aux_loss else None, weights_backbone, progress)
    return _deeplabv3(parts, num_classes, aux_loss)
