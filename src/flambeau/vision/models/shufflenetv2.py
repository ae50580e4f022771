"""ShuffleNet v2 (Ma et al. 2018): half of the channels pass, the others are convolved, and then they are shuffled."""

import functools

import flambeau
from flambeau import nn
from flambeau._shown import shown

from ._api import builder, weights_enum

__all__ = ["ShuffleNetV2", "ShuffleNet_V2_X0_5_Weights", "ShuffleNet_V2_X1_0_Weights", "ShuffleNet_V2_X1_5_Weights",
           "ShuffleNet_V2_X2_0_Weights", "shufflenet_v2_x0_5", "shufflenet_v2_x1_0", "shufflenet_v2_x1_5",
           "shufflenet_v2_x2_0"]

_enum = functools.partial(weights_enum, module=__name__)
ShuffleNet_V2_X0_5_Weights, ShuffleNet_V2_X1_0_Weights = (_enum("ShuffleNet_V2_X0_5_Weights"),
                                                          _enum("ShuffleNet_V2_X1_0_Weights"))
ShuffleNet_V2_X1_5_Weights, ShuffleNet_V2_X2_0_Weights = (_enum("ShuffleNet_V2_X1_5_Weights"),
                                                          _enum("ShuffleNet_V2_X2_0_Weights"))
_REPEATS = (4, 8, 4)


def channel_shuffle(x, groups):
    """Channels of `groups` blocks in turn: block 0's first, block 1's first, …"""
    batch, channels, height, width = x.size()
    each = channels // groups
    apart = flambeau.transpose(x.view(batch, groups, each, height, width), 1, 2)
    return apart.contiguous().view(batch, channels, height, width)


def _conv_norm(channels, width, kernel=1, stride=1, depthwise=False, relu=True):
    """The layers of one convolution."""
    convolution = nn.Conv2d(channels, width, kernel, stride, kernel // 2, groups=channels if depthwise else 1,
                            bias=False)
    return [convolution, nn.BatchNorm2d(width), *([nn.ReLU(inplace=True)] if relu else [])]


class InvertedResidual(nn.Module):
    """With stride 1 one half passes unchanged; with stride 2 both branches see everything."""

    def __init__(self, inp, oup, stride):
        super().__init__()
        half = oup // 2
        if stride not in (1, 2, 3):
            raise ValueError(f"InvertedResidual: stride is 1, 2 or 3, got {shown(stride)}")
        if stride == 1 and inp != 2 * half:
            raise ValueError(f"InvertedResidual: with stride 1 the channels stay, and are even; got {shown(inp)} to "
                             f"{shown(oup)}")
        self.stride = stride
        self.branch1 = nn.Sequential() if stride == 1 else nn.Sequential(
            *_conv_norm(inp, inp, 3, stride, depthwise=True, relu=False), *_conv_norm(inp, half))
        self.branch2 = nn.Sequential(*_conv_norm(half if stride == 1 else inp, half),
                                     *_conv_norm(half, half, 3, stride, depthwise=True, relu=False),
                                     *_conv_norm(half, half))

    def forward(self, x):
        if self.stride == 1:
            halves = x.chunk(2, dim=1)
            parts = (halves[0], self.branch2(halves[1]))
        else:
            parts = (self.branch1(x), self.branch2(x))
        return channel_shuffle(flambeau.cat(parts, dim=1), 2)


class ShuffleNetV2(nn.Module):
    """stages_repeats: blocks of the three stages. stages_out_channels: of the first layer, these and the last one."""

    def __init__(self, stages_repeats, stages_out_channels, num_classes=1000, inverted_residual=InvertedResidual):
        super().__init__()
        if len(stages_repeats) != 3 or len(stages_out_channels) != 5:
            raise ValueError("ShuffleNetV2: expected 3 numbers of blocks and 5 of channels; got "
                             f"{shown(stages_repeats)} and {shown(stages_out_channels)}")
        first, *widths, last = stages_out_channels
        self.conv1 = nn.Sequential(*_conv_norm(3, first, 3, 2))
        self.maxpool = nn.MaxPool2d(3, 2, 1)
        channels = first
        for k, (depth, width) in enumerate(zip(stages_repeats, widths, strict=True), 2):
            blocks = [inverted_residual(width if j else channels, width, 1 if j else 2) for j in range(depth)]
            self.add_module(f"stage{k}", nn.Sequential(*blocks))
            channels = width
        self.conv5 = nn.Sequential(*_conv_norm(channels, last))
        self.fc = nn.Linear(last, num_classes)

    def forward(self, x):
        x = self.stage4(self.stage3(self.stage2(self.maxpool(self.conv1(x)))))
        return self.fc(self.conv5(x).mean([2, 3]))


@builder(ShuffleNet_V2_X0_5_Weights)
def shufflenet_v2_x0_5(**kwargs):
    """ShuffleNet v2 with half the channels."""
    return ShuffleNetV2(_REPEATS, [24, 48, 96, 192, 1024], **kwargs)


@builder(ShuffleNet_V2_X1_0_Weights)
def shufflenet_v2_x1_0(**kwargs):
    """ShuffleNet v2."""
    return ShuffleNetV2(_REPEATS, [24, 116, 232, 464, 1024], **kwargs)


@builder(ShuffleNet_V2_X1_5_Weights)
def shufflenet_v2_x1_5(**kwargs):
    """ShuffleNet v2 with 1.5 times the channels."""
    return ShuffleNetV2(_REPEATS, [24, 176, 352, 704, 1024], **kwargs)


@builder(ShuffleNet_V2_X2_0_Weights)
def shufflenet_v2_x2_0(**kwargs):
    """ShuffleNet v2 with twice the channels."""
    return ShuffleNetV2(_REPEATS, [24, 244, 488, 976, 2048], **kwargs)
