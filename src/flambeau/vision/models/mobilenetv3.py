"""MobileNet v3 (Howard et al. 2019): inverted residuals with gates and hard swish, found by search."""

import functools

import flambeau
from flambeau import nn
from flambeau._shown import shown

from ..ops.misc import Conv2dNormActivation
from ..ops.misc import SqueezeExcitation as _Gate
from ._api import builder, weights_enum
from ._utils import _make_divisible, he_fan_out, init

__all__ = ["MobileNetV3", "MobileNet_V3_Large_Weights", "MobileNet_V3_Small_Weights", "mobilenet_v3_large",
           "mobilenet_v3_small"]

_enum = functools.partial(weights_enum, module=__name__)
MobileNet_V3_Large_Weights, MobileNet_V3_Small_Weights = (_enum("MobileNet_V3_Large_Weights"),
                                                          _enum("MobileNet_V3_Small_Weights"))
SqueezeExcitation = functools.partial(_Gate, scale_activation=nn.Hardsigmoid)
#: tables 1 and 2 of the paper: kernel, expanded channels, channels, gate?, activation, stride
_LARGE = ((3, 16, 16, False, "RE", 1), (3, 64, 24, False, "RE", 2), (3, 72, 24, False, "RE", 1),
          (5, 72, 40, True, "RE", 2), (5, 120, 40, True, "RE", 1), (5, 120, 40, True, "RE", 1),
          (3, 240, 80, False, "HS", 2), (3, 200, 80, False, "HS", 1), (3, 184, 80, False, "HS", 1),
          (3, 184, 80, False, "HS", 1), (3, 480, 112, True, "HS", 1), (3, 672, 112, True, "HS", 1),
          (5, 672, 160, True, "HS", 2), (5, 960, 160, True, "HS", 1), (5, 960, 160, True, "HS", 1))
_SMALL = ((3, 16, 16, True, "RE", 2), (3, 72, 24, False, "RE", 2), (3, 88, 24, False, "RE", 1),
          (5, 96, 40, True, "HS", 2), (5, 240, 40, True, "HS", 1), (5, 240, 40, True, "HS", 1),
          (5, 120, 48, True, "HS", 1), (5, 144, 48, True, "HS", 1), (5, 288, 96, True, "HS", 2),
          (5, 576, 96, True, "HS", 1), (5, 576, 96, True, "HS", 1))
#: the table and the width before the classifier
_ARCHITECTURES = {"mobilenet_v3_large": (_LARGE, 1280), "mobilenet_v3_small": (_SMALL, 1024)}


class InvertedResidualConfig:
    """What one block is made of; channels are multiplied by width_mult and rounded to multiples of 8."""

    def __init__(self, input_channels, kernel, expanded_channels, out_channels, use_se, activation, stride, dilation,
                 width_mult):
        widths = (input_channels, expanded_channels, out_channels)
        self.input_channels, self.expanded_channels, self.out_channels = (
            self.adjust_channels(width, width_mult) for width in widths)
        self.kernel, self.stride, self.dilation = kernel, stride, dilation
        self.use_se, self.use_hs = use_se, activation == "HS"

    @staticmethod
    def adjust_channels(channels, width_mult):
        """The channels at this width."""
        return _make_divisible(channels * width_mult, 8)


class InvertedResidual(nn.Module):
    """1x1 to more channels, k x k per channel, the gate, 1x1 back; with a shortcut where the shapes agree."""

    def __init__(self, cnf, norm_layer, se_layer=SqueezeExcitation):
        super().__init__()
        if cnf.stride not in (1, 2):
            raise ValueError(f"InvertedResidual: stride is 1 or 2, got {shown(cnf.stride)}")
        few, wide, stride = cnf.input_channels, cnf.expanded_channels, 1 if cnf.dilation > 1 else cnf.stride
        conv = functools.partial(Conv2dNormActivation, norm_layer=norm_layer,
                                 activation_layer=nn.Hardswish if cnf.use_hs else nn.ReLU)
        layers = [conv(few, wide, kernel_size=1)] if wide != few else []
        layers.append(conv(wide, wide, cnf.kernel, stride=stride, dilation=cnf.dilation, groups=wide))
        if cnf.use_se:
            layers.append(se_layer(wide, _make_divisible(wide // 4, 8)))
        layers.append(conv(wide, cnf.out_channels, kernel_size=1, activation_layer=None))
        self.block = nn.Sequential(*layers)
        self.use_res_connect = cnf.stride == 1 and few == cnf.out_channels
        self.out_channels, self._is_cn = cnf.out_channels, cnf.stride > 1

    def forward(self, input):
        result = self.block(input)
        if self.use_res_connect:
            result += input
        return result


class MobileNetV3(nn.Module):
    """inverted_residual_setting: an InvertedResidualConfig per block. last_channel: the classifier's hidden width."""

    def __init__(self, inverted_residual_setting, last_channel, num_classes=1000, block=None, norm_layer=None,
                 dropout=0.2):
        super().__init__()
        setting = inverted_residual_setting
        if not setting:
            raise ValueError(f"MobileNetV3: inverted_residual_setting needs a block; got {shown(setting)}")
        if not all(isinstance(each, InvertedResidualConfig) for each in setting):
            raise TypeError("MobileNetV3: inverted_residual_setting is a list of InvertedResidualConfig; got "
                            f"{shown(setting)}")
        norm = norm_layer or functools.partial(nn.BatchNorm2d, eps=0.001, momentum=0.01)
        conv = functools.partial(Conv2dNormActivation, norm_layer=norm, activation_layer=nn.Hardswish)
        narrow, wide = setting[-1].out_channels, 6 * setting[-1].out_channels
        self.features = nn.Sequential(conv(3, setting[0].input_channels, stride=2),
                                      *((block or InvertedResidual)(each, norm) for each in setting),
                                      conv(narrow, wide, kernel_size=1))
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.classifier = nn.Sequential(nn.Linear(wide, last_channel), nn.Hardswish(inplace=True),
                                        nn.Dropout(dropout, inplace=True), nn.Linear(last_channel, num_classes))
        init(self, he_fan_out, functools.partial(nn.init.normal_, std=0.01))

    def forward(self, x):
        return self.classifier(flambeau.flatten(self.avgpool(self.features(x)), 1))


def _mobilenet_v3_conf(arch, width_mult=1.0, reduced_tail=False, dilated=False):
    """(the blocks, the classifier's hidden width) of a name.

    reduced_tail: half the channels from the last stride on. dilated: there dilation 2 instead of the stride.
    """
    if arch not in _ARCHITECTURES:
        raise ValueError(f"MobileNet v3: expected {' or '.join(_ARCHITECTURES)}, got {shown(arch)}")
    table, hidden = _ARCHITECTURES[arch]
    last = max(k for k, row in enumerate(table) if row[-1] == 2)
    shrink, spread = 2 if reduced_tail else 1, 2 if dilated else 1
    blocks, channels = [], 16
    for k, (kernel, expanded, width, *rest) in enumerate(table):
        expanded, width = expanded // shrink if k > last else expanded, width // shrink if k >= last else width
        blocks.append(InvertedResidualConfig(channels, kernel, expanded, width, *rest, spread if k >= last else 1,
                                             width_mult))
        channels = width
    return blocks, InvertedResidualConfig.adjust_channels(hidden // shrink, width_mult)


def _mobilenet_v3(arch, kwargs):
    options = {key: kwargs.pop(key) for key in ("width_mult", "reduced_tail", "dilated") if key in kwargs}
    return MobileNetV3(*_mobilenet_v3_conf(arch, **options), **kwargs)


@builder(MobileNet_V3_Large_Weights)
def mobilenet_v3_large(**kwargs):
    """MobileNet v3, the large one; also takes width_mult, reduced_tail and dilated."""
    return _mobilenet_v3("mobilenet_v3_large", kwargs)


@builder(MobileNet_V3_Small_Weights)
def mobilenet_v3_small(**kwargs):
    """MobileNet v3, the small one; also takes width_mult, reduced_tail and dilated."""
    return _mobilenet_v3("mobilenet_v3_small", kwargs)
