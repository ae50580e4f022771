"""RegNet (Radosavovic et al. 2020): stage widths from a line of three parameters, quantised."""

import functools
import math
from collections import OrderedDict

from flambeau import nn
from flambeau._shown import shown

from ..ops.misc import Conv2dNormActivation, SqueezeExcitation
from ._api import builder, weights_enum
from ._utils import _make_divisible, init

_NAMES = tuple(f"Y_{size}" for size in ("400MF", "800MF", "1_6GF", "3_2GF", "8GF", "16GF", "32GF", "128GF"))
_enum = functools.partial(weights_enum, module=__name__)
(RegNet_Y_400MF_Weights, RegNet_Y_800MF_Weights, RegNet_Y_1_6GF_Weights, RegNet_Y_3_2GF_Weights, RegNet_Y_8GF_Weights,
 RegNet_Y_16GF_Weights, RegNet_Y_32GF_Weights, RegNet_Y_128GF_Weights) = (
    _enum(f"RegNet_{name}_Weights") for name in _NAMES)
(RegNet_X_400MF_Weights, RegNet_X_800MF_Weights, RegNet_X_1_6GF_Weights, RegNet_X_3_2GF_Weights, RegNet_X_8GF_Weights,
 RegNet_X_16GF_Weights, RegNet_X_32GF_Weights) = (
    _enum(f"RegNet_X_{name[2:]}_Weights") for name in _NAMES[:-1])

__all__ = ["RegNet", "RegNet_X_1_6GF_Weights", "RegNet_X_3_2GF_Weights", "RegNet_X_8GF_Weights",
           "RegNet_X_16GF_Weights", "RegNet_X_32GF_Weights", "RegNet_X_400MF_Weights", "RegNet_X_800MF_Weights",
           "RegNet_Y_1_6GF_Weights", "RegNet_Y_3_2GF_Weights", "RegNet_Y_8GF_Weights", "RegNet_Y_16GF_Weights",
           "RegNet_Y_32GF_Weights", "RegNet_Y_128GF_Weights", "RegNet_Y_400MF_Weights", "RegNet_Y_800MF_Weights",
           "regnet_x_1_6gf", "regnet_x_3_2gf", "regnet_x_8gf", "regnet_x_16gf", "regnet_x_32gf", "regnet_x_400mf",
           "regnet_x_800mf", "regnet_y_1_6gf", "regnet_y_3_2gf", "regnet_y_8gf", "regnet_y_16gf", "regnet_y_32gf",
           "regnet_y_128gf", "regnet_y_400mf", "regnet_y_800mf"]


class SimpleStemIN(Conv2dNormActivation):
    """A 3x3 convolution with stride 2."""

    def __init__(self, width_in, width_out, norm_layer, activation_layer):
        super().__init__(width_in, width_out, stride=2, norm_layer=norm_layer, activation_layer=activation_layer)


class BottleneckTransform(nn.Sequential):
    """1x1, 3x3 with groups, a gate (se), 1x1."""

    def __init__(self, width_in, width_out, stride, norm_layer, activation_layer, group_width, bottleneck_multiplier,
                 se_ratio):
        inner = round(width_out * bottleneck_multiplier)
        conv = functools.partial(Conv2dNormActivation, norm_layer=norm_layer, activation_layer=activation_layer)
        layers = OrderedDict(a=conv(width_in, inner, 1), b=conv(inner, inner, 3, stride, groups=inner // group_width))
        if se_ratio:
            layers["se"] = SqueezeExcitation(inner, round(se_ratio * width_in), activation=activation_layer)
        layers["c"] = conv(inner, width_out, 1, activation_layer=None)
        super().__init__(layers)


class ResBottleneckBlock(nn.Module):
    """activation(shortcut + bottleneck); the shortcut is a 1x1 convolution where the shapes differ."""

    def __init__(self, width_in, width_out, stride, norm_layer, activation_layer, group_width=1,
                 bottleneck_multiplier=1.0, se_ratio=None):
        super().__init__()
        changes = width_in != width_out or stride != 1
        self.proj = Conv2dNormActivation(width_in, width_out, 1, stride, norm_layer=norm_layer,
                                         activation_layer=None) if changes else None
        self.f = BottleneckTransform(width_in, width_out, stride, norm_layer, activation_layer, group_width,
                                     bottleneck_multiplier, se_ratio)
        self.activation = activation_layer(inplace=True)

    def forward(self, x):
        shortcut = x if self.proj is None else self.proj(x)
        return self.activation(shortcut + self.f(x))


class AnyStage(nn.Sequential):
    """Blocks of one width; the first one changes it."""

    def __init__(self, width_in, width_out, stride, depth, block_constructor, norm_layer, activation_layer,
                 group_width, bottleneck_multiplier, se_ratio=None, stage_index=0):
        super().__init__()
        for k in range(depth):
            sizes = (width_out, width_out, 1) if k else (width_in, width_out, stride)
            block = block_constructor(*sizes, norm_layer, activation_layer, group_width, bottleneck_multiplier,
                                      se_ratio)
            self.add_module(f"block{stage_index}-{k}", block)


class BlockParams:
    """Depths, widths, group widths, bottleneck multipliers and strides per stage, and the gate's ratio."""

    def __init__(self, depths, widths, group_widths, bottleneck_multipliers, strides, se_ratio=None):
        self.depths, self.widths, self.group_widths = depths, widths, group_widths
        self.bottleneck_multipliers, self.strides, self.se_ratio = bottleneck_multipliers, strides, se_ratio

    @classmethod
    def from_init_params(cls, depth, w_0, w_a, w_m, group_width, bottleneck_multiplier=1.0, se_ratio=None):
        """Section 3.3 of the paper: block k has width w_0 + w_a k, rounded to w_0 w_m^n and then to a multiple of 8."""
        if w_a < 0 or w_0 <= 0 or w_m <= 1 or w_0 % 8:
            raise ValueError("BlockParams: expected w_a >= 0, w_m > 1 and w_0 a positive multiple of 8; got w_a="
                             f"{shown(w_a)}, w_m={shown(w_m)}, w_0={shown(w_0)}")
        steps = (round(math.log((w_0 + w_a * k) / w_0) / math.log(w_m)) for k in range(depth))
        of_blocks = [round(w_0 * w_m ** step / 8) * 8 for step in steps]
        widths = sorted(set(of_blocks))
        n = len(widths)
        widths, groups = cls._adjust_widths_groups_compatibilty(widths, [bottleneck_multiplier] * n, [group_width] * n)
        return cls([of_blocks.count(width) for width in sorted(set(of_blocks))], widths, groups,
                   [bottleneck_multiplier] * n, [2] * n, se_ratio)

    @staticmethod
    def _adjust_widths_groups_compatibilty(stage_widths, bottleneck_ratios, group_widths):
        """Widths rounded so that groups divide them, and groups no wider than what they divide."""
        inner = [int(width * ratio) for width, ratio in zip(stage_widths, bottleneck_ratios, strict=True)]
        groups = [min(group, width) for group, width in zip(group_widths, inner, strict=True)]
        rounded = [_make_divisible(width, group) for width, group in zip(inner, groups, strict=True)]
        return [int(width / ratio) for width, ratio in zip(rounded, bottleneck_ratios, strict=True)], groups

    def _get_expanded_params(self):
        """(width, stride, depth, group width, bottleneck multiplier) per stage."""
        return zip(self.widths, self.strides, self.depths, self.group_widths, self.bottleneck_multipliers, strict=True)


class RegNet(nn.Module):
    """A stem, stages as block_params says, one linear layer."""

    def __init__(self, block_params, num_classes=1000, stem_width=32, stem_type=None, block_type=None, norm_layer=None,
                 activation=None):
        super().__init__()
        norm, act = norm_layer or nn.BatchNorm2d, activation or nn.ReLU
        self.stem = (stem_type or SimpleStemIN)(3, stem_width, norm, act)
        stages, channels = OrderedDict(), stem_width
        for k, (width, stride, depth, group, ratio) in enumerate(block_params._get_expanded_params(), 1):
            stages[f"block{k}"] = AnyStage(channels, width, stride, depth, block_type or ResBottleneckBlock, norm, act,
                                           group, ratio, block_params.se_ratio, k)
            channels = width
        self.trunk_output = nn.Sequential(stages)
        self.avgpool = nn.AdaptiveAvgPool2d((1, 1))
        self.fc = nn.Linear(channels, num_classes)
        init(self, lambda weight: nn.init.normal_(weight, std=math.sqrt(2 / (weight[0, 0].numel() * weight.shape[0]))),
             functools.partial(nn.init.normal_, std=0.01), biases=False)

    def forward(self, x):
        return self.fc(self.avgpool(self.trunk_output(self.stem(x))).flatten(start_dim=1))


def _regnet(kwargs, *line, se_ratio=None):
    """line: depth, w_0, w_a, w_m, group width."""
    kwargs.setdefault("norm_layer", functools.partial(nn.BatchNorm2d, eps=1e-05, momentum=0.1))
    return RegNet(BlockParams.from_init_params(*line, se_ratio=se_ratio), **kwargs)


@builder(RegNet_Y_400MF_Weights)
def regnet_y_400mf(**kwargs):
    """RegNet Y with 400 million multiply-adds, with gates."""
    return _regnet(kwargs, 16, 48, 27.89, 2.09, 8, se_ratio=0.25)


@builder(RegNet_Y_800MF_Weights)
def regnet_y_800mf(**kwargs):
    """RegNet Y with 800 million multiply-adds, with gates."""
    return _regnet(kwargs, 14, 56, 38.84, 2.4, 16, se_ratio=0.25)


@builder(RegNet_Y_1_6GF_Weights)
def regnet_y_1_6gf(**kwargs):
    """RegNet Y with 1.6 billion multiply-adds, with gates."""
    return _regnet(kwargs, 27, 48, 20.71, 2.65, 24, se_ratio=0.25)


@builder(RegNet_Y_3_2GF_Weights)
def regnet_y_3_2gf(**kwargs):
    """RegNet Y with 3.2 billion multiply-adds, with gates."""
    return _regnet(kwargs, 21, 80, 42.63, 2.66, 24, se_ratio=0.25)


@builder(RegNet_Y_8GF_Weights)
def regnet_y_8gf(**kwargs):
    """RegNet Y with 8 billion multiply-adds, with gates."""
    return _regnet(kwargs, 17, 192, 76.82, 2.19, 56, se_ratio=0.25)


@builder(RegNet_Y_16GF_Weights)
def regnet_y_16gf(**kwargs):
    """RegNet Y with 16 billion multiply-adds, with gates."""
    return _regnet(kwargs, 18, 200, 106.23, 2.48, 112, se_ratio=0.25)


@builder(RegNet_Y_32GF_Weights)
def regnet_y_32gf(**kwargs):
    """RegNet Y with 32 billion multiply-adds, with gates."""
    return _regnet(kwargs, 20, 232, 115.89, 2.53, 232, se_ratio=0.25)


@builder(RegNet_Y_128GF_Weights)
def regnet_y_128gf(**kwargs):
    """RegNet Y with 128 billion multiply-adds, with gates."""
    return _regnet(kwargs, 27, 456, 160.83, 2.52, 264, se_ratio=0.25)


@builder(RegNet_X_400MF_Weights)
def regnet_x_400mf(**kwargs):
    """RegNet X with 400 million multiply-adds."""
    return _regnet(kwargs, 22, 24, 24.48, 2.54, 16)


@builder(RegNet_X_800MF_Weights)
def regnet_x_800mf(**kwargs):
    """RegNet X with 800 million multiply-adds."""
    return _regnet(kwargs, 16, 56, 35.73, 2.28, 16)


@builder(RegNet_X_1_6GF_Weights)
def regnet_x_1_6gf(**kwargs):
    """RegNet X with 1.6 billion multiply-adds."""
    return _regnet(kwargs, 18, 80, 34.01, 2.25, 24)


@builder(RegNet_X_3_2GF_Weights)
def regnet_x_3_2gf(**kwargs):
    """RegNet X with 3.2 billion multiply-adds."""
    return _regnet(kwargs, 25, 88, 26.31, 2.25, 48)


@builder(RegNet_X_8GF_Weights)
def regnet_x_8gf(**kwargs):
    """RegNet X with 8 billion multiply-adds."""
    return _regnet(kwargs, 23, 80, 49.56, 2.88, 120)


@builder(RegNet_X_16GF_Weights)
def regnet_x_16gf(**kwargs):
    """RegNet X with 16 billion multiply-adds."""
    return _regnet(kwargs, 22, 216, 55.59, 2.1, 128)


@builder(RegNet_X_32GF_Weights)
def regnet_x_32gf(**kwargs):
    """RegNet X with 32 billion multiply-adds."""
    return _regnet(kwargs, 23, 320, 69.86, 2.0, 168)
