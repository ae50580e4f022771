"""MobileNet v2 (Sandler et al. 2018): inverted residuals, wide in the middle and linear at the ends."""

import functools

import flambeau
from flambeau import nn
from flambeau._shown import shown
from flambeau.nn import functional as F

from ..ops.misc import Conv2dNormActivation
from ._api import builder, weights_enum
from ._utils import _make_divisible, he_fan_out, init

__all__ = ["MobileNetV2", "MobileNet_V2_Weights", "mobilenet_v2"]

MobileNet_V2_Weights = weights_enum("MobileNet_V2_Weights", __name__)
#: table 2 of the paper: expansion, channels, blocks, stride of the first block
_SETTING = ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1))


class InvertedResidual(nn.Module):
    """1x1 to expand_ratio times as many channels, 3x3 per channel, 1x1 back, without an activation."""

    def __init__(self, inp, oup, stride, expand_ratio, norm_layer=None):
        super().__init__()
        if stride not in (1, 2):
            raise ValueError(f"InvertedResidual: stride is 1 or 2, got {shown(stride)}")
        norm = norm_layer or nn.BatchNorm2d
        conv = functools.partial(Conv2dNormActivation, norm_layer=norm, activation_layer=nn.ReLU6)
        wide = round(inp * expand_ratio)
        widen = [conv(inp, wide, kernel_size=1)] if expand_ratio != 1 else []
        self.conv = nn.Sequential(*widen, conv(wide, wide, stride=stride, groups=wide),
                                  nn.Conv2d(wide, oup, 1, bias=False), norm(oup))
        self.stride, self.out_channels = stride, oup
        self.use_res_connect, self._is_cn = stride == 1 and inp == oup, stride > 1

    def forward(self, x):
        return x + self.conv(x) if self.use_res_connect else self.conv(x)


class MobileNetV2(nn.Module):
    """width_mult: channels relative to the paper's, rounded to multiples of round_nearest.

    inverted_residual_setting: (expansion, channels, blocks, stride) per stage.
    """

    def __init__(self, num_classes=1000, width_mult=1.0, inverted_residual_setting=None, round_nearest=8, block=None,
                 norm_layer=None, dropout=0.2):
        super().__init__()
        setting = _SETTING if inverted_residual_setting is None else inverted_residual_setting
        if not setting or any(len(stage) != 4 for stage in setting):
            raise ValueError("MobileNetV2: inverted_residual_setting has (expansion, channels, blocks, stride) for "
                             f"each stage; got {shown(inverted_residual_setting)}")
        block, norm = block or InvertedResidual, norm_layer or nn.BatchNorm2d
        conv = functools.partial(Conv2dNormActivation, norm_layer=norm, activation_layer=nn.ReLU6)
        self.last_channel = _make_divisible(1280 * max(1.0, width_mult), round_nearest)
        channels = _make_divisible(32 * width_mult, round_nearest)
        features = [conv(3, channels, stride=2)]
        for expansion, width, depth, stride in setting:
            for k in range(depth):
                wider = _make_divisible(width * width_mult, round_nearest)
                features.append(block(channels, wider, 1 if k else stride, expansion, norm_layer=norm))
                channels = wider
        self.features = nn.Sequential(*features, conv(channels, self.last_channel, kernel_size=1))
        self.classifier = nn.Sequential(nn.Dropout(dropout), nn.Linear(self.last_channel, num_classes))
        init(self, he_fan_out, functools.partial(nn.init.normal_, std=0.01))

    def forward(self, x):
        pooled = F.adaptive_avg_pool2d(self.features(x), (1, 1))
        return self.classifier(flambeau.flatten(pooled, 1))


@builder(MobileNet_V2_Weights)
def mobilenet_v2(**kwargs):
    """MobileNet v2."""
    return MobileNetV2(**kwargs)
