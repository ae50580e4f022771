"""Residual networks for videos (Tran et al. 2018): convolutions in space and time, R3D, MC3 and R(2+1)D."""

import functools

from flambeau import nn

from .._api import builder, weights_enum
from .._utils import he_fan_out, init

__all__ = ["MC3_18_Weights", "R2Plus1D_18_Weights", "R3D_18_Weights", "VideoResNet", "mc3_18", "r2plus1d_18",
           "r3d_18"]

R3D_18_Weights = weights_enum("R3D_18_Weights", __name__)
MC3_18_Weights = weights_enum("MC3_18_Weights", __name__)
R2Plus1D_18_Weights = weights_enum("R2Plus1D_18_Weights", __name__)
_conv = functools.partial(nn.Conv3d, bias=False)


class Conv3DSimple(nn.Conv3d):
    """3x3x3."""

    def __init__(self, in_planes, out_planes, midplanes=None, stride=1, padding=1):
        super().__init__(in_planes, out_planes, 3, stride, padding, bias=False)

    @staticmethod
    def get_downsample_stride(stride):
        """The stride of the shortcut beside it."""
        return stride, stride, stride


class Conv2Plus1D(nn.Sequential):
    """1x3x3 to `midplanes` channels, then 3x1x1."""

    def __init__(self, in_planes, out_planes, midplanes, stride=1, padding=1):
        super().__init__(_conv(in_planes, midplanes, (1, 3, 3), (1, stride, stride), (0, padding, padding)),
                         nn.BatchNorm3d(midplanes), nn.ReLU(inplace=True),
                         _conv(midplanes, out_planes, (3, 1, 1), (stride, 1, 1), (padding, 0, 0)))

    @staticmethod
    def get_downsample_stride(stride):
        """The stride of the shortcut beside it."""
        return stride, stride, stride


class Conv3DNoTemporal(nn.Conv3d):
    """1x3x3: every frame by itself."""

    def __init__(self, in_planes, out_planes, midplanes=None, stride=1, padding=1):
        super().__init__(in_planes, out_planes, (1, 3, 3), (1, stride, stride), (0, padding, padding), bias=False)

    @staticmethod
    def get_downsample_stride(stride):
        """The stride of the shortcut beside it."""
        return 1, stride, stride


def _middle(inplanes, planes):
    """Channels between the parts of a Conv2Plus1D, so that it has as many parameters as a 3x3x3 convolution."""
    return (inplanes * planes * 27) // (inplanes * 9 + 3 * planes)


def _with_norm(convolution, width, relu=True):
    return nn.Sequential(convolution, nn.BatchNorm3d(width), *([nn.ReLU(inplace=True)] if relu else []))


class _Residual(nn.Module):
    """relu(branch(x) + shortcut(x)); the branch is conv1, conv2 …"""

    def forward(self, x):
        out = self.conv2(self.conv1(x))
        out = self.conv3(out) if hasattr(self, "conv3") else out
        shortcut = x if self.downsample is None else self.downsample(x)
        return self.relu(out + shortcut)


class BasicBlock(_Residual):
    """Two convolutions of conv_builder."""

    expansion = 1

    def __init__(self, inplanes, planes, conv_builder, stride=1, downsample=None):
        super().__init__()
        middle = _middle(inplanes, planes)
        self.conv1 = _with_norm(conv_builder(inplanes, planes, middle, stride), planes)
        self.conv2 = _with_norm(conv_builder(planes, planes, middle), planes, relu=False)
        self.relu, self.downsample, self.stride = nn.ReLU(inplace=True), downsample, stride


class Bottleneck(_Residual):
    """1x1x1, one of conv_builder, 1x1x1 to four times as many channels."""

    expansion = 4

    def __init__(self, inplanes, planes, conv_builder, stride=1, downsample=None):
        super().__init__()
        self.conv1 = _with_norm(_conv(inplanes, planes, 1), planes)
        self.conv2 = _with_norm(conv_builder(planes, planes, _middle(inplanes, planes), stride), planes)
        self.conv3 = _with_norm(_conv(planes, planes * 4, 1), planes * 4, relu=False)
        self.relu, self.downsample, self.stride = nn.ReLU(inplace=True), downsample, stride


class BasicStem(nn.Sequential):
    """3x7x7, stride 2 in space."""

    def __init__(self):
        super().__init__(*_with_norm(_conv(3, 64, (3, 7, 7), (1, 2, 2), (1, 3, 3)), 64))


class R2Plus1dStem(nn.Sequential):
    """1x7x7, stride 2 in space, then 3x1x1."""

    def __init__(self):
        super().__init__(*_with_norm(_conv(3, 45, (1, 7, 7), (1, 2, 2), (0, 3, 3)), 45),
                         *_with_norm(_conv(45, 64, (3, 1, 1), 1, (1, 0, 0)), 64))


class VideoResNet(nn.Module):
    """Videos are (batch, 3, frames, height, width). conv_makers: the kind of convolution of each of the four stages."""

    def __init__(self, block, conv_makers, layers, stem, num_classes=400, zero_init_residual=False):
        super().__init__()
        self.inplanes = 64
        self.stem = stem()
        for k, (maker, depth) in enumerate(zip(conv_makers, layers, strict=True)):
            self.add_module(f"layer{k + 1}", self._make_layer(block, maker, 64 << k, depth, 2 if k else 1))
        self.avgpool = nn.AdaptiveAvgPool3d((1, 1, 1))
        self.fc = nn.Linear(512 * block.expansion, num_classes)
        init(self, he_fan_out, functools.partial(nn.init.normal_, std=0.01))
        if zero_init_residual:
            for module in self.modules():
                if isinstance(module, Bottleneck):
                    nn.init.zeros_(module.conv3[1].weight)

    def _make_layer(self, block, conv_builder, planes, blocks, stride=1):
        width, shortcut = planes * block.expansion, None
        if stride != 1 or self.inplanes != width:
            shortcut = _with_norm(_conv(self.inplanes, width, 1, conv_builder.get_downsample_stride(stride)), width,
                                  relu=False)
        first = block(self.inplanes, planes, conv_builder, stride, shortcut)
        self.inplanes = width
        return nn.Sequential(first, *(block(width, planes, conv_builder) for _ in range(blocks - 1)))

    def forward(self, x):
        x = self.layer4(self.layer3(self.layer2(self.layer1(self.stem(x)))))
        return self.fc(self.avgpool(x).flatten(1))


@builder(R3D_18_Weights)
def r3d_18(**kwargs):
    """ResNet-18 with 3x3x3 convolutions."""
    return VideoResNet(BasicBlock, [Conv3DSimple] * 4, [2, 2, 2, 2], BasicStem, **kwargs)


@builder(MC3_18_Weights)
def mc3_18(**kwargs):
    """ResNet-18 whose last three stages look at every frame by itself."""
    return VideoResNet(BasicBlock, [Conv3DSimple] + [Conv3DNoTemporal] * 3, [2, 2, 2, 2], BasicStem, **kwargs)


@builder(R2Plus1D_18_Weights)
def r2plus1d_18(**kwargs):
    """ResNet-18 with convolutions in space and then in time."""
    return VideoResNet(BasicBlock, [Conv2Plus1D] * 4, [2, 2, 2, 2], R2Plus1dStem, **kwargs)
