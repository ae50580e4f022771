"""EfficientNet v1 and v2 (Tan and Le 2019, 2021): width, depth and resolution grow together."""

import copy
import functools
import math

import flambeau
from flambeau import nn
from flambeau._shown import shown

from ..ops.misc import Conv2dNormActivation, SqueezeExcitation
from ..ops.stochastic_depth import StochasticDepth
from ._api import builder, weights_enum
from ._utils import _make_divisible, he_fan_out, init

_enum = functools.partial(weights_enum, module=__name__)
EfficientNet_B0_Weights, EfficientNet_B1_Weights = _enum("EfficientNet_B0_Weights"), _enum("EfficientNet_B1_Weights")
EfficientNet_B2_Weights, EfficientNet_B3_Weights = _enum("EfficientNet_B2_Weights"), _enum("EfficientNet_B3_Weights")
EfficientNet_B4_Weights, EfficientNet_B5_Weights = _enum("EfficientNet_B4_Weights"), _enum("EfficientNet_B5_Weights")
EfficientNet_B6_Weights, EfficientNet_B7_Weights = _enum("EfficientNet_B6_Weights"), _enum("EfficientNet_B7_Weights")
EfficientNet_V2_S_Weights, EfficientNet_V2_M_Weights = (_enum("EfficientNet_V2_S_Weights"),
                                                        _enum("EfficientNet_V2_M_Weights"))
EfficientNet_V2_L_Weights = _enum("EfficientNet_V2_L_Weights")

__all__ = ["EfficientNet", "EfficientNet_B0_Weights", "EfficientNet_B1_Weights", "EfficientNet_B2_Weights",
           "EfficientNet_B3_Weights", "EfficientNet_B4_Weights", "EfficientNet_B5_Weights", "EfficientNet_B6_Weights",
           "EfficientNet_B7_Weights", "EfficientNet_V2_L_Weights", "EfficientNet_V2_M_Weights",
           "EfficientNet_V2_S_Weights", "efficientnet_b0", "efficientnet_b1", "efficientnet_b2", "efficientnet_b3",
           "efficientnet_b4", "efficientnet_b5", "efficientnet_b6", "efficientnet_b7", "efficientnet_v2_l",
           "efficientnet_v2_m", "efficientnet_v2_s"]

#: the stages of v1: expansion, kernel, stride, channels before and after, blocks
_V1 = ((1, 3, 1, 32, 16, 1), (6, 3, 2, 16, 24, 2), (6, 5, 2, 24, 40, 2), (6, 3, 2, 40, 80, 3), (6, 5, 1, 80, 112, 3),
       (6, 5, 2, 112, 192, 4), (6, 3, 1, 192, 320, 1))
#: of v2: those whose first convolutions are one, and the others
_V2 = {"s": (((1, 3, 1, 24, 24, 2), (4, 3, 2, 24, 48, 4), (4, 3, 2, 48, 64, 4)),
             ((4, 3, 2, 64, 128, 6), (6, 3, 1, 128, 160, 9), (6, 3, 2, 160, 256, 15))),
       "m": (((1, 3, 1, 24, 24, 3), (4, 3, 2, 24, 48, 5), (4, 3, 2, 48, 80, 5)),
             ((4, 3, 2, 80, 160, 7), (6, 3, 1, 160, 176, 14), (6, 3, 2, 176, 304, 18), (6, 3, 1, 304, 512, 5))),
       "l": (((1, 3, 1, 32, 32, 4), (4, 3, 2, 32, 64, 7), (4, 3, 2, 64, 96, 7)),
             ((4, 3, 2, 96, 192, 10), (6, 3, 1, 192, 224, 19), (6, 3, 2, 224, 384, 25), (6, 3, 1, 384, 640, 7)))}


class _MBConvConfig:
    """What the blocks of one stage are made of."""

    def __init__(self, expand_ratio, kernel, stride, input_channels, out_channels, num_layers, block):
        self.expand_ratio, self.kernel, self.stride, self.num_layers = expand_ratio, kernel, stride, num_layers
        self.input_channels, self.out_channels, self.block = input_channels, out_channels, block

    @staticmethod
    def adjust_channels(channels, width_mult, min_value=None):
        """The channels at this width, rounded to a multiple of 8."""
        return _make_divisible(channels * width_mult, 8, min_value)

    @property
    def expanded_channels(self):
        return self.adjust_channels(self.input_channels, self.expand_ratio)

    def __repr__(self):
        return f"{type(self).__name__}({', '.join(f'{k}={v}' for k, v in vars(self).items())})"


class MBConvConfig(_MBConvConfig):
    """Of MBConv blocks; width_mult and depth_mult scale channels and numbers of blocks."""

    def __init__(self, expand_ratio, kernel, stride, input_channels, out_channels, num_layers, width_mult=1.0,
                 depth_mult=1.0, block=None):
        channels = (self.adjust_channels(width, width_mult) for width in (input_channels, out_channels))
        super().__init__(expand_ratio, kernel, stride, *channels, self.adjust_depth(num_layers, depth_mult),
                         block or MBConv)

    @staticmethod
    def adjust_depth(num_layers, depth_mult):
        """The number of blocks at this depth."""
        return math.ceil(num_layers * depth_mult)


class FusedMBConvConfig(_MBConvConfig):
    """Of FusedMBConv blocks."""

    def __init__(self, expand_ratio, kernel, stride, input_channels, out_channels, num_layers, block=None):
        super().__init__(expand_ratio, kernel, stride, input_channels, out_channels, num_layers, block or FusedMBConv)


class _Block(nn.Module):
    """The layers in `block`, and a shortcut around them where the shapes agree."""

    def _use(self, cnf, stochastic_depth_prob, layers):
        if cnf.stride not in (1, 2):
            raise ValueError(f"{type(self).__name__}: stride is 1 or 2, got {shown(cnf.stride)}")
        self.use_res_connect = cnf.stride == 1 and cnf.input_channels == cnf.out_channels
        self.block = nn.Sequential(*layers)
        self.stochastic_depth = StochasticDepth(stochastic_depth_prob, "row")
        self.out_channels = cnf.out_channels

    def forward(self, input):
        result = self.block(input)
        if self.use_res_connect:
            result = self.stochastic_depth(result)
            result += input
        return result


class MBConv(_Block):
    """1x1 to more channels, k x k per channel, a gate, 1x1 back."""

    def __init__(self, cnf, stochastic_depth_prob, norm_layer, se_layer=SqueezeExcitation):
        super().__init__()
        few, wide = cnf.input_channels, cnf.expanded_channels
        conv = functools.partial(Conv2dNormActivation, norm_layer=norm_layer, activation_layer=nn.SiLU)
        layers = [conv(few, wide, kernel_size=1)] if wide != few else []
        layers += [conv(wide, wide, cnf.kernel, cnf.stride, groups=wide),
                   se_layer(wide, max(1, few // 4), activation=functools.partial(nn.SiLU, inplace=True)),
                   conv(wide, cnf.out_channels, kernel_size=1, activation_layer=None)]
        self._use(cnf, stochastic_depth_prob, layers)


class FusedMBConv(_Block):
    """k x k to more channels, 1x1 back; without more channels one convolution."""

    def __init__(self, cnf, stochastic_depth_prob, norm_layer):
        super().__init__()
        few, wide = cnf.input_channels, cnf.expanded_channels
        conv = functools.partial(Conv2dNormActivation, norm_layer=norm_layer, activation_layer=nn.SiLU)
        if wide != few:
            layers = [conv(few, wide, cnf.kernel, cnf.stride),
                      conv(wide, cnf.out_channels, kernel_size=1, activation_layer=None)]
        else:
            layers = [conv(few, cnf.out_channels, cnf.kernel, cnf.stride)]
        self._use(cnf, stochastic_depth_prob, layers)


def _stages(setting, norm_layer, most_dropped):
    """The stages; the chance of leaving a block out grows from 0 towards `most_dropped`."""
    total, done = sum(stage.num_layers for stage in setting), 0
    for stage in setting:
        blocks = []
        for k in range(stage.num_layers):
            one = copy.copy(stage)
            if k:
                one.input_channels, one.stride = one.out_channels, 1
            blocks.append(one.block(one, most_dropped * float(done) / total, norm_layer))
            done += 1
        yield nn.Sequential(*blocks)


class EfficientNet(nn.Module):
    """inverted_residual_setting: a configuration per stage. last_channel: before the classifier, None: four times."""

    def __init__(self, inverted_residual_setting, dropout, stochastic_depth_prob=0.2, num_classes=1000,
                 norm_layer=None, last_channel=None):
        super().__init__()
        setting = inverted_residual_setting
        if not setting:
            raise ValueError(f"EfficientNet: inverted_residual_setting needs a stage; got {shown(setting)}")
        if not all(isinstance(stage, _MBConvConfig) for stage in setting):
            raise TypeError("EfficientNet: inverted_residual_setting is a list of MBConvConfig and FusedMBConvConfig; "
                            f"got {shown(setting)}")
        norm, last = norm_layer or nn.BatchNorm2d, last_channel or 4 * setting[-1].out_channels
        conv = functools.partial(Conv2dNormActivation, norm_layer=norm, activation_layer=nn.SiLU)
        self.features = nn.Sequential(conv(3, setting[0].input_channels, stride=2),
                                      *_stages(setting, norm, stochastic_depth_prob),
                                      conv(setting[-1].out_channels, last, kernel_size=1))
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.classifier = nn.Sequential(nn.Dropout(dropout, inplace=True), nn.Linear(last, num_classes))
        init(self, he_fan_out, lambda weight: nn.init.uniform_(weight, -weight.shape[0] ** -0.5,
                                                               weight.shape[0] ** -0.5))

    def forward(self, x):
        return self.classifier(flambeau.flatten(self.avgpool(self.features(x)), 1))


def _v1(width_mult, depth_mult, dropout, kwargs, **norm):
    """A network of the first paper; `norm`: settings of its norms."""
    if norm:
        kwargs.setdefault("norm_layer", functools.partial(nn.BatchNorm2d, **norm))
    dropout = kwargs.pop("dropout", dropout)
    return EfficientNet([MBConvConfig(*stage, width_mult, depth_mult) for stage in _V1], dropout, **kwargs)


def _v2(size, dropout, kwargs):
    """A network of the second paper."""
    kwargs.setdefault("norm_layer", functools.partial(nn.BatchNorm2d, eps=1e-3))
    fused, others = _V2[size]
    stages = [FusedMBConvConfig(*stage) for stage in fused] + [MBConvConfig(*stage) for stage in others]
    return EfficientNet(stages, kwargs.pop("dropout", dropout), last_channel=1280, **kwargs)


@builder(EfficientNet_B0_Weights)
def efficientnet_b0(**kwargs):
    """EfficientNet B0, for 224 pixels."""
    return _v1(1.0, 1.0, 0.2, kwargs)


@builder(EfficientNet_B1_Weights)
def efficientnet_b1(**kwargs):
    """EfficientNet B1, for 240 pixels."""
    return _v1(1.0, 1.1, 0.2, kwargs)


@builder(EfficientNet_B2_Weights)
def efficientnet_b2(**kwargs):
    """EfficientNet B2, for 288 pixels."""
    return _v1(1.1, 1.2, 0.3, kwargs)


@builder(EfficientNet_B3_Weights)
def efficientnet_b3(**kwargs):
    """EfficientNet B3, for 300 pixels."""
    return _v1(1.2, 1.4, 0.3, kwargs)


@builder(EfficientNet_B4_Weights)
def efficientnet_b4(**kwargs):
    """EfficientNet B4, for 380 pixels."""
    return _v1(1.4, 1.8, 0.4, kwargs)


@builder(EfficientNet_B5_Weights)
def efficientnet_b5(**kwargs):
    """EfficientNet B5, for 456 pixels."""
    return _v1(1.6, 2.2, 0.4, kwargs, eps=0.001, momentum=0.01)


@builder(EfficientNet_B6_Weights)
def efficientnet_b6(**kwargs):
    """EfficientNet B6, for 528 pixels."""
    return _v1(1.8, 2.6, 0.5, kwargs, eps=0.001, momentum=0.01)


@builder(EfficientNet_B7_Weights)
def efficientnet_b7(**kwargs):
    """EfficientNet B7, for 600 pixels."""
    return _v1(2.0, 3.1, 0.5, kwargs, eps=0.001, momentum=0.01)


@builder(EfficientNet_V2_S_Weights)
def efficientnet_v2_s(**kwargs):
    """EfficientNet v2, small."""
    return _v2("s", 0.2, kwargs)


@builder(EfficientNet_V2_M_Weights)
def efficientnet_v2_m(**kwargs):
    """EfficientNet v2, medium."""
    return _v2("m", 0.3, kwargs)


@builder(EfficientNet_V2_L_Weights)
def efficientnet_v2_l(**kwargs):
    """EfficientNet v2, large."""
    return _v2("l", 0.4, kwargs)
