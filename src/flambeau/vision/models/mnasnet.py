"""MNASNet (Tan et al. 2018): inverted residuals found by search for speed on a telephone."""

import functools

from flambeau import nn
from flambeau._shown import shown

from ._api import builder, weights_enum
from ._utils import _make_divisible, he_fan_out, init

__all__ = ["MNASNet", "MNASNet0_5_Weights", "MNASNet0_75_Weights", "MNASNet1_0_Weights", "MNASNet1_3_Weights",
           "mnasnet0_5", "mnasnet0_75", "mnasnet1_0", "mnasnet1_3"]

_enum = functools.partial(weights_enum, module=__name__)
MNASNet0_5_Weights, MNASNet0_75_Weights = _enum("MNASNet0_5_Weights"), _enum("MNASNet0_75_Weights")
MNASNet1_0_Weights, MNASNet1_3_Weights = _enum("MNASNet1_0_Weights"), _enum("MNASNet1_3_Weights")
#: of running averages: TensorFlow's 0.9997, said in PyTorch's way
_MOMENTUM = 1 - 0.9997
_WIDTHS = (32, 16, 24, 40, 80, 96, 192, 320)
#: kernel, stride, expansion, blocks of each stack
_STACKS = ((3, 2, 3, 3), (5, 2, 3, 3), (5, 2, 6, 3), (3, 1, 6, 2), (5, 2, 6, 4), (3, 1, 6, 1))


def _conv_norm(channels, width, kernel, stride=1, depthwise=False, relu=True, momentum=_MOMENTUM):
    """The layers of one convolution."""
    groups = channels if depthwise else 1
    layers = [nn.Conv2d(channels, width, kernel, stride, kernel // 2, groups=groups, bias=False),
              nn.BatchNorm2d(width, momentum=momentum)]
    return [*layers, nn.ReLU(inplace=True)] if relu else layers


class _InvertedResidual(nn.Module):
    """1x1 to more channels, k x k per channel, 1x1 back; with a shortcut where the shapes agree."""

    def __init__(self, in_ch, out_ch, kernel_size, stride, expansion_factor, bn_momentum=0.1):
        super().__init__()
        if stride not in (1, 2) or kernel_size not in (3, 5):
            raise ValueError(f"MNASNet: strides are 1 or 2 and kernels 3 or 5; got {shown(stride)} and "
                             f"{shown(kernel_size)}")
        wide = in_ch * expansion_factor
        self.apply_residual = in_ch == out_ch and stride == 1
        self.layers = nn.Sequential(*_conv_norm(in_ch, wide, 1, momentum=bn_momentum),
                                    *_conv_norm(wide, wide, kernel_size, stride, True, momentum=bn_momentum),
                                    *_conv_norm(wide, out_ch, 1, relu=False, momentum=bn_momentum))

    def forward(self, input):
        return self.layers(input) + input if self.apply_residual else self.layers(input)


def _stem(first, second):
    return [*_conv_norm(3, first, 3, 2), *_conv_norm(first, first, 3, depthwise=True),
            *_conv_norm(first, second, 1, relu=False)]


class MNASNet(nn.Module):
    """alpha: channels relative to the paper's, rounded to multiples of 8."""

    _version = 2

    def __init__(self, alpha, num_classes=1000, dropout=0.2):
        super().__init__()
        if alpha <= 0:
            raise ValueError(f"MNASNet: alpha must be positive, got {shown(alpha)}")
        self.alpha, self.num_classes = alpha, num_classes
        first, second, *widths = (_make_divisible(width * alpha, 8) for width in _WIDTHS)
        layers, channels = _stem(first, second), second
        for width, (kernel, stride, expansion, depth) in zip(widths, _STACKS, strict=True):
            blocks = [_InvertedResidual(width if k else channels, width, kernel, 1 if k else stride, expansion,
                                        _MOMENTUM) for k in range(depth)]
            layers.append(nn.Sequential(*blocks))
            channels = width
        self.layers = nn.Sequential(*layers, *_conv_norm(channels, 1280, 1))
        self.classifier = nn.Sequential(nn.Dropout(dropout, inplace=True), nn.Linear(1280, num_classes))
        init(self, he_fan_out, functools.partial(nn.init.kaiming_uniform_, mode="fan_out", nonlinearity="sigmoid"))

    def forward(self, x):
        return self.classifier(self.layers(x).mean([2, 3]))

    def _load_from_state_dict(self, state_dict, prefix, *rest):
        first = state_dict.get(f"{prefix}layers.0.weight")
        if first is not None and first.shape[0] == _WIDTHS[0] != self.layers[0].out_channels:
            self._use_first_stem()
        super()._load_from_state_dict(state_dict, prefix, *rest)

    def _use_first_stem(self):
        """Version 1, whose weights are still about, did not scale the first layers."""
        for k, layer in enumerate(_stem(32, 16)):
            self.layers[k] = layer
        block = self.layers[8][0].layers
        wide = block[0].out_channels
        for k, layer in enumerate(_conv_norm(16, 16 * 3, 1)[:2]):
            block[k] = layer
        if wide != 16 * 3:
            depthwise = [*_conv_norm(48, 48, 3, 2, True), *_conv_norm(48, block[6].out_channels, 1, relu=False)]
            for k, layer in enumerate(depthwise, 3):
                block[k] = layer
        self._version = 1


@builder(MNASNet0_5_Weights)
def mnasnet0_5(**kwargs):
    """MNASNet with half the channels."""
    return MNASNet(0.5, **kwargs)


@builder(MNASNet0_75_Weights)
def mnasnet0_75(**kwargs):
    """MNASNet with 0.75 of the channels."""
    return MNASNet(0.75, **kwargs)


@builder(MNASNet1_0_Weights)
def mnasnet1_0(**kwargs):
    """MNASNet of the paper."""
    return MNASNet(1.0, **kwargs)


@builder(MNASNet1_3_Weights)
def mnasnet1_3(**kwargs):
    """MNASNet with 1.3 times the channels."""
    return MNASNet(1.3, **kwargs)
