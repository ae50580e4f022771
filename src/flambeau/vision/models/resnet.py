"""Residual networks: ResNet (He et al. 2015), ResNeXt (Xie et al. 2016), Wide ResNet (Zagoruyko, Komodakis 2016)."""

import functools

import flambeau
from flambeau import nn
from flambeau._shown import shown

from ._api import builder, weights_enum
from ._utils import he_fan_out, init

_enum = functools.partial(weights_enum, module=__name__)
ResNet18_Weights, ResNet34_Weights = _enum("ResNet18_Weights"), _enum("ResNet34_Weights")
ResNet50_Weights, ResNet101_Weights = _enum("ResNet50_Weights"), _enum("ResNet101_Weights")
ResNet152_Weights, ResNeXt50_32X4D_Weights = _enum("ResNet152_Weights"), _enum("ResNeXt50_32X4D_Weights")
ResNeXt101_32X8D_Weights, ResNeXt101_64X4D_Weights = (_enum("ResNeXt101_32X8D_Weights"),
                                                      _enum("ResNeXt101_64X4D_Weights"))
Wide_ResNet50_2_Weights, Wide_ResNet101_2_Weights = (_enum("Wide_ResNet50_2_Weights"),
                                                     _enum("Wide_ResNet101_2_Weights"))

__all__ = ["ResNeXt50_32X4D_Weights", "ResNeXt101_32X8D_Weights", "ResNeXt101_64X4D_Weights", "ResNet",
           "ResNet18_Weights", "ResNet34_Weights", "ResNet50_Weights", "ResNet101_Weights", "ResNet152_Weights",
           "Wide_ResNet50_2_Weights", "Wide_ResNet101_2_Weights", "resnet18", "resnet34", "resnet50", "resnet101",
           "resnet152", "resnext50_32x4d", "resnext101_32x8d", "resnext101_64x4d", "wide_resnet50_2",
           "wide_resnet101_2"]

_DEPTHS = {18: (2, 2, 2, 2), 34: (3, 4, 6, 3), 50: (3, 4, 6, 3), 101: (3, 4, 23, 3), 152: (3, 8, 36, 3)}


def conv3x3(in_planes, out_planes, stride=1, groups=1, dilation=1):
    """A 3x3 convolution that keeps the size at stride 1, without bias."""
    return nn.Conv2d(in_planes, out_planes, 3, stride, padding=dilation, dilation=dilation, groups=groups, bias=False)


def conv1x1(in_planes, out_planes, stride=1):
    """A 1x1 convolution without bias."""
    return nn.Conv2d(in_planes, out_planes, 1, stride, bias=False)


class _Residual(nn.Module):
    """relu(branch(x) + shortcut(x)): convolutions of the branch are conv1, conv2 …, each with its norm bn1, bn2 …"""

    def _branch(self, norm_layer, *convolutions):
        self.depth = len(convolutions)
        for k, convolution in enumerate(convolutions, 1):
            self.add_module(f"conv{k}", convolution)
            self.add_module(f"bn{k}", norm_layer(convolution.out_channels))
        self.relu = nn.ReLU(inplace=True)

    def forward(self, x):
        out = x
        for k in range(1, self.depth + 1):
            out = getattr(self, f"bn{k}")(getattr(self, f"conv{k}")(out))
            if k < self.depth:
                out = self.relu(out)
        out += x if self.downsample is None else self.downsample(x)
        return self.relu(out)


class BasicBlock(_Residual):
    """Two 3x3 convolutions."""

    expansion = 1

    def __init__(self, inplanes, planes, stride=1, downsample=None, groups=1, base_width=64, dilation=1,
                 norm_layer=None):
        super().__init__()
        if (groups, base_width) != (1, 64):
            raise ValueError(f"BasicBlock: groups are for Bottleneck; expected groups=1 and base_width=64, got "
                             f"{shown(groups)} and {shown(base_width)}")
        if dilation > 1:
            raise NotImplementedError(f"BasicBlock: dilation is for Bottleneck; expected 1, got {shown(dilation)}")
        self._branch(norm_layer or nn.BatchNorm2d, conv3x3(inplanes, planes, stride), conv3x3(planes, planes))
        self.downsample, self.stride = downsample, stride


class Bottleneck(_Residual):
    """1x1, 3x3 and 1x1 convolutions, the last to four times as many channels; the middle one has stride and groups."""

    expansion = 4

    def __init__(self, inplanes, planes, stride=1, downsample=None, groups=1, base_width=64, dilation=1,
                 norm_layer=None):
        super().__init__()
        width = int(planes * (base_width / 64)) * groups
        self._branch(norm_layer or nn.BatchNorm2d, conv1x1(inplanes, width),
                     conv3x3(width, width, stride, groups, dilation), conv1x1(width, planes * self.expansion))
        self.downsample, self.stride = downsample, stride


class ResNet(nn.Module):
    """A 7x7 convolution, then four stages of `layers` blocks, the last three with stride 2 or with dilation instead.

    replace_stride_with_dilation: for stages 2, 3 and 4, whether they keep the size and dilate.
    """

    def __init__(self, block, layers, num_classes=1000, zero_init_residual=False, groups=1, width_per_group=64,
                 replace_stride_with_dilation=None, norm_layer=None):
        super().__init__()
        dilate = replace_stride_with_dilation or [False] * 3
        if len(dilate) != 3:
            raise ValueError(f"ResNet: replace_stride_with_dilation has a truth value for each of the stages 2, 3 and "
                             f"4; got {shown(replace_stride_with_dilation)}")
        self._norm_layer = norm_layer or nn.BatchNorm2d
        self.inplanes, self.dilation, self.groups, self.base_width = 64, 1, groups, width_per_group
        self.conv1 = nn.Conv2d(3, 64, 7, 2, 3, bias=False)
        self.bn1, self.relu = self._norm_layer(64), nn.ReLU(inplace=True)
        self.maxpool = nn.MaxPool2d(3, 2, 1)
        for k, (depth, dilated) in enumerate(zip(layers, [False, *dilate], strict=True)):
            stage = self._make_layer(block, 64 << k, depth, 2 if k else 1, dilated)
            self.add_module(f"layer{k + 1}", stage)
        self.avgpool = nn.AdaptiveAvgPool2d((1, 1))
        self.fc = nn.Linear(512 * block.expansion, num_classes)
        init(self, he_fan_out)
        if zero_init_residual:
            self._zero_last_norms()

    def _zero_last_norms(self):
        """Every branch begins as zero, so that a block begins as its shortcut."""
        for module in self.modules():
            if isinstance(module, _Residual):
                nn.init.zeros_(getattr(module, f"bn{module.depth}").weight)

    def _make_layer(self, block, planes, blocks, stride=1, dilate=False):
        """One stage; the first block may change the size, the others do not."""
        before, width = self.dilation, planes * block.expansion
        if dilate:
            self.dilation, stride = self.dilation * stride, 1
        shortcut = None
        if stride != 1 or self.inplanes != width:
            shortcut = nn.Sequential(conv1x1(self.inplanes, width, stride), self._norm_layer(width))
        common = {"groups": self.groups, "base_width": self.base_width, "norm_layer": self._norm_layer}
        first = block(self.inplanes, planes, stride, shortcut, dilation=before, **common)
        self.inplanes = width
        return nn.Sequential(first, *(block(width, planes, dilation=self.dilation, **common)
                                      for _ in range(blocks - 1)))

    def forward(self, x):
        x = self.maxpool(self.relu(self.bn1(self.conv1(x))))
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return self.fc(flambeau.flatten(self.avgpool(x), 1))


@builder(ResNet18_Weights)
def resnet18(**kwargs):
    """ResNet-18.

    >>> model = flambeau.vision.models.resnet18(num_classes=10)
    >>> model(flambeau.rand(2, 3, 64, 64)).shape
    torch.Size([2, 10])
    """
    return ResNet(BasicBlock, _DEPTHS[18], **kwargs)


@builder(ResNet34_Weights)
def resnet34(**kwargs):
    """ResNet-34."""
    return ResNet(BasicBlock, _DEPTHS[34], **kwargs)


@builder(ResNet50_Weights)
def resnet50(**kwargs):
    """ResNet-50; its strides are in the 3x3 convolutions (version 1.5)."""
    return ResNet(Bottleneck, _DEPTHS[50], **kwargs)


@builder(ResNet101_Weights)
def resnet101(**kwargs):
    """ResNet-101."""
    return ResNet(Bottleneck, _DEPTHS[101], **kwargs)


@builder(ResNet152_Weights)
def resnet152(**kwargs):
    """ResNet-152."""
    return ResNet(Bottleneck, _DEPTHS[152], **kwargs)


@builder(ResNeXt50_32X4D_Weights, groups=32, width_per_group=4)
def resnext50_32x4d(**kwargs):
    """ResNeXt-50 with 32 groups of 4 channels."""
    return ResNet(Bottleneck, _DEPTHS[50], **kwargs)


@builder(ResNeXt101_32X8D_Weights, groups=32, width_per_group=8)
def resnext101_32x8d(**kwargs):
    """ResNeXt-101 with 32 groups of 8 channels."""
    return ResNet(Bottleneck, _DEPTHS[101], **kwargs)


@builder(ResNeXt101_64X4D_Weights, groups=64, width_per_group=4)
def resnext101_64x4d(**kwargs):
    """ResNeXt-101 with 64 groups of 4 channels."""
    return ResNet(Bottleneck, _DEPTHS[101], **kwargs)


@builder(Wide_ResNet50_2_Weights, width_per_group=128)
def wide_resnet50_2(**kwargs):
    """ResNet-50 with twice as many channels in the 3x3 convolutions."""
    return ResNet(Bottleneck, _DEPTHS[50], **kwargs)


@builder(Wide_ResNet101_2_Weights, width_per_group=128)
def wide_resnet101_2(**kwargs):
    """ResNet-101 with twice as many channels in the 3x3 convolutions."""
    return ResNet(Bottleneck, _DEPTHS[101], **kwargs)
