"""Fully convolutional networks (Long et al. 2015) on dilated ResNets."""

from flambeau import nn

from .. import resnet
from .._api import builder, weights_enum
from ._utils import _SimpleSegmentationModel, norm_relu, resnet_parts, with_auxiliary

__all__ = ["FCN", "FCN_ResNet50_Weights", "FCN_ResNet101_Weights", "fcn_resnet50", "fcn_resnet101"]

FCN_ResNet50_Weights = weights_enum("FCN_ResNet50_Weights", __name__)
FCN_ResNet101_Weights = weights_enum("FCN_ResNet101_Weights", __name__)


class FCN(_SimpleSegmentationModel):
    """A backbone and an FCNHead."""


class FCNHead(nn.Sequential):
    """A 3x3 convolution to a quarter of the channels, then the scores."""

    def __init__(self, in_channels, channels):
        inner = in_channels // 4
        super().__init__(nn.Conv2d(in_channels, inner, 3, padding=1, bias=False),
                         *norm_relu(inner, nn.Dropout(0.1), nn.Conv2d(inner, channels, 1)))


def _fcn(make, num_classes, aux_loss, weights_backbone, progress):
    backbone, channels, earlier = resnet_parts(make, aux_loss, weights_backbone, progress)
    classes = 21 if num_classes is None else num_classes
    auxiliary = FCNHead(earlier, classes) if aux_loss else None
    return FCN(backbone, FCNHead(channels, classes), auxiliary)


@builder(FCN_ResNet50_Weights, weighted=with_auxiliary, backbone=resnet.ResNet50_Weights)
def fcn_resnet50(*, num_classes=None, aux_loss=None, weights_backbone, progress):
    """A fully convolutional network on ResNet-50; 21 classes if num_classes is None.

    >>> model = flambeau.vision.models.segmentation.fcn_resnet50(weights_backbone=None, num_classes=5).eval()
    >>> model(flambeau.rand(1, 3, 48, 64))["out"].shape
    torch.Size([1, 5, 48, 64])
    """
    return _fcn(resnet.resnet50, num_classes, aux_loss, weights_backbone, progress)


@builder(FCN_ResNet101_Weights, weighted=with_auxiliary, backbone=resnet.ResNet101_Weights)
def fcn_resnet101(*, num_classes=None, aux_loss=None, weights_backbone, progress):
    """A fully convolutional network on ResNet-101; 21 classes if num_classes is None."""
    return _fcn(resnet.resnet101, num_classes, aux_loss, weights_backbone, progress)
