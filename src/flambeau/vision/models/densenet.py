"""DenseNet (Huang et al. 2016): every layer of a block sees the results of all earlier ones."""

import functools

import flambeau
from flambeau import nn
from flambeau.nn import functional as F
from flambeau.utils import checkpoint

from ._api import builder, weights_enum
from ._utils import init

__all__ = ["DenseNet", "DenseNet121_Weights", "DenseNet161_Weights", "DenseNet169_Weights", "DenseNet201_Weights",
           "densenet121", "densenet161", "densenet169", "densenet201"]

_enum = functools.partial(weights_enum, module=__name__)
DenseNet121_Weights, DenseNet161_Weights = _enum("DenseNet121_Weights"), _enum("DenseNet161_Weights")
DenseNet169_Weights, DenseNet201_Weights = _enum("DenseNet169_Weights"), _enum("DenseNet201_Weights")


def _norm_relu_conv(module, k, in_channels, out_channels, kernel_size):
    """norm, relu and convolution number k as children of the module."""
    module.add_module(f"norm{k}", nn.BatchNorm2d(in_channels))
    module.add_module(f"relu{k}", nn.ReLU(inplace=True))
    convolution = nn.Conv2d(in_channels, out_channels, kernel_size, padding=kernel_size // 2, bias=False)
    module.add_module(f"conv{k}", convolution)


class _DenseLayer(nn.Module):
    """From all earlier results `growth_rate` new channels, by a 1x1 and a 3x3 convolution."""

    def __init__(self, num_input_features, growth_rate, bn_size, drop_rate, memory_efficient=False):
        super().__init__()
        _norm_relu_conv(self, 1, num_input_features, bn_size * growth_rate, 1)
        _norm_relu_conv(self, 2, bn_size * growth_rate, growth_rate, 3)
        self.drop_rate, self.memory_efficient = float(drop_rate), memory_efficient

    def bn_function(self, inputs):
        """The 1x1 convolution of everything so far."""
        return self.conv1(self.relu1(self.norm1(flambeau.cat(inputs, 1))))

    def _recomputed(self, inputs):
        return checkpoint.checkpoint(lambda *parts: self.bn_function(parts), *inputs, use_reentrant=False)

    def forward(self, input):
        inputs = [input] if isinstance(input, flambeau.Tensor) else input
        again = self.memory_efficient and any(x.requires_grad for x in inputs)
        narrow = self._recomputed(inputs) if again else self.bn_function(inputs)
        new = self.conv2(self.relu2(self.norm2(narrow)))
        return F.dropout(new, p=self.drop_rate, training=self.training) if self.drop_rate > 0 else new

    def _load_from_state_dict(self, state_dict, prefix, *rest):
        for key in [key for key in state_dict if key.startswith(prefix)]:
            kind, dot, name = key.removeprefix(prefix).partition(".")
            if kind in ("norm", "conv") and dot:  # norm.1.weight, as the published files have it
                state_dict[prefix + kind + name] = state_dict.pop(key)
        super()._load_from_state_dict(state_dict, prefix, *rest)


class _DenseBlock(nn.ModuleDict):
    """Layers that hand on all results."""

    _version = 2

    def __init__(self, num_layers, num_input_features, bn_size, growth_rate, drop_rate, memory_efficient=False):
        super().__init__({f"denselayer{k + 1}": _DenseLayer(num_input_features + k * growth_rate, growth_rate, bn_size,
                                                            drop_rate, memory_efficient) for k in range(num_layers)})

    def forward(self, init_features):
        results = [init_features]
        for layer in self.values():
            results.append(layer(results))
        return flambeau.cat(results, 1)


class _Transition(nn.Sequential):
    """Between blocks: fewer channels, half the size."""

    def __init__(self, num_input_features, num_output_features):
        super().__init__()
        self.norm = nn.BatchNorm2d(num_input_features)
        self.relu = nn.ReLU(inplace=True)
        self.conv = nn.Conv2d(num_input_features, num_output_features, 1, bias=False)
        self.pool = nn.AvgPool2d(2)


class DenseNet(nn.Module):
    """block_config: layers per block. bn_size: channels between the two convolutions of a layer, in growth rates.

    memory_efficient: the 1x1 convolutions are computed again in the backward pass instead of being kept.
    """

    def __init__(self, growth_rate=32, block_config=(6, 12, 24, 16), num_init_features=64, bn_size=4, drop_rate=0,
                 num_classes=1000, memory_efficient=False):
        super().__init__()
        features = nn.Sequential()
        features.add_module("conv0", nn.Conv2d(3, num_init_features, 7, 2, 3, bias=False))
        features.add_module("norm0", nn.BatchNorm2d(num_init_features))
        features.add_module("relu0", nn.ReLU(inplace=True))
        features.add_module("pool0", nn.MaxPool2d(3, 2, 1))
        channels = num_init_features
        for k, depth in enumerate(block_config, 1):
            features.add_module(f"denseblock{k}", _DenseBlock(depth, channels, bn_size, growth_rate, drop_rate,
                                                              memory_efficient))
            channels += depth * growth_rate
            if k < len(block_config):
                features.add_module(f"transition{k}", _Transition(channels, channels // 2))
                channels //= 2
        features.add_module("norm5", nn.BatchNorm2d(channels))
        self.features = features
        self.classifier = nn.Linear(channels, num_classes)
        init(self, nn.init.kaiming_normal_)
        nn.init.zeros_(self.classifier.bias)

    def forward(self, x):
        features = F.relu(self.features(x), inplace=True)
        return self.classifier(flambeau.flatten(F.adaptive_avg_pool2d(features, (1, 1)), 1))


@builder(DenseNet121_Weights)
def densenet121(**kwargs):
    """DenseNet-121."""
    return DenseNet(32, (6, 12, 24, 16), 64, **kwargs)


@builder(DenseNet161_Weights)
def densenet161(**kwargs):
    """DenseNet-161, with 48 new channels per layer."""
    return DenseNet(48, (6, 12, 36, 24), 96, **kwargs)


@builder(DenseNet169_Weights)
def densenet169(**kwargs):
    """DenseNet-169."""
    return DenseNet(32, (6, 12, 32, 32), 64, **kwargs)


@builder(DenseNet201_Weights)
def densenet201(**kwargs):
    """DenseNet-201."""
    return DenseNet(32, (6, 12, 48, 32), 64, **kwargs)
