"""S3D (Xie et al. 2018): Inception for videos, with convolutions in space and then in time."""

import functools

import flambeau
from flambeau import nn

from ...ops.misc import Conv3dNormActivation
from .._api import builder, weights_enum
from ..googlenet import _INCEPTIONS

__all__ = ["S3D", "S3D_Weights", "s3d"]

S3D_Weights = weights_enum("S3D_Weights", __name__)


class TemporalSeparableConv(nn.Sequential):
    """1 x k x k, then k x 1 x 1."""

    def __init__(self, in_planes, out_planes, kernel_size, stride, padding, norm_layer):
        k, s, p = kernel_size, stride, padding
        conv = functools.partial(Conv3dNormActivation, bias=False, norm_layer=norm_layer)
        super().__init__(conv(in_planes, out_planes, (1, k, k), (1, s, s), (0, p, p)),
                         conv(out_planes, out_planes, (k, 1, 1), (s, 1, 1), (p, 0, 0)))


class SepInceptionBlock3D(nn.Module):
    """1x1x1; twice 1x1x1 then a separable convolution; pooling then 1x1x1: side by side."""

    def __init__(self, in_planes, b0_out, b1_mid, b1_out, b2_mid, b2_out, b3_out, norm_layer):
        super().__init__()
        conv = functools.partial(Conv3dNormActivation, in_planes, kernel_size=1, norm_layer=norm_layer)
        self.branch0 = conv(b0_out)
        self.branch1, self.branch2 = (
            nn.Sequential(conv(few), TemporalSeparableConv(few, many, 3, 1, 1, norm_layer))
            for few, many in ((b1_mid, b1_out), (b2_mid, b2_out)))
        self.branch3 = nn.Sequential(nn.MaxPool3d((3, 3, 3), 1, 1), conv(b3_out))

    def forward(self, x):
        return flambeau.cat([branch(x) for branch in (self.branch0, self.branch1, self.branch2, self.branch3)], 1)


def _features(norm):
    """The blocks have the channels of GoogLeNet."""
    def smaller():
        return nn.MaxPool3d((1, 3, 3), (1, 2, 2), (0, 1, 1))

    yield from (TemporalSeparableConv(3, 64, 7, 2, 3, norm), smaller(),
                Conv3dNormActivation(64, 64, 1, norm_layer=norm), TemporalSeparableConv(64, 192, 3, 1, 1, norm),
                smaller())
    channels = 192
    for name, widths in _INCEPTIONS.items():
        yield SepInceptionBlock3D(channels, *widths, norm)
        channels = widths[0] + widths[2] + widths[4] + widths[5]
        if name == "3b":
            yield nn.MaxPool3d((3, 3, 3), (2, 2, 2), (1, 1, 1))
        if name == "4e":
            yield nn.MaxPool3d((2, 2, 2), (2, 2, 2))


class S3D(nn.Module):
    """Videos are (batch, 3, frames, height, width), of at least 14 frames of 224 x 224."""

    def __init__(self, num_classes=400, dropout=0.2, norm_layer=None):
        super().__init__()
        norm = norm_layer or functools.partial(nn.BatchNorm3d, eps=0.001, momentum=0.001)
        self.features = nn.Sequential(*_features(norm))
        self.avgpool = nn.AvgPool3d((2, 7, 7), 1)
        self.classifier = nn.Sequential(nn.Dropout(dropout), nn.Conv3d(1024, num_classes, 1))

    def forward(self, x):
        return flambeau.mean(self.classifier(self.avgpool(self.features(x))), dim=(2, 3, 4))


@builder(S3D_Weights)
def s3d(**kwargs):
    """S3D."""
    return S3D(**kwargs)
