"""SqueezeNet (Iandola et al. 2016): fire modules, which squeeze to few channels before they expand."""

import functools

import flambeau
from flambeau import nn
from flambeau._shown import shown

from ._api import builder, weights_enum

__all__ = ["SqueezeNet", "SqueezeNet1_0_Weights", "SqueezeNet1_1_Weights", "squeezenet1_0", "squeezenet1_1"]

_enum = functools.partial(weights_enum, module=__name__)
SqueezeNet1_0_Weights, SqueezeNet1_1_Weights = _enum("SqueezeNet1_0_Weights"), _enum("SqueezeNet1_1_Weights")
#: version -> channels and kernel of the first convolution, then fire modules by squeezed channels; None: a pooling
_VERSIONS = {"1_0": (96, 7, (None, 16, 16, 32, None, 32, 48, 48, 64, None, 64)),
             "1_1": (64, 3, (None, 16, 16, None, 32, 32, None, 48, 48, 64, 64))}


class Fire(nn.Module):
    """1x1 convolution to few channels, then 1x1 and 3x3 convolutions side by side."""

    def __init__(self, inplanes, squeeze_planes, expand1x1_planes, expand3x3_planes):
        super().__init__()
        self.inplanes = inplanes
        for name, sizes in (("squeeze", (inplanes, squeeze_planes, 1)),
                            ("expand1x1", (squeeze_planes, expand1x1_planes, 1)),
                            ("expand3x3", (squeeze_planes, expand3x3_planes, 3))):
            self.add_module(name, nn.Conv2d(*sizes, padding=sizes[2] // 2))
            self.add_module(f"{name}_activation", nn.ReLU(inplace=True))

    def forward(self, x):
        x = self.squeeze_activation(self.squeeze(x))
        sides = [self.expand1x1_activation(self.expand1x1(x)), self.expand3x3_activation(self.expand3x3(x))]
        return flambeau.cat(sides, 1)


def _features(version):
    channels, kernel, fires = _VERSIONS[version]
    yield from (nn.Conv2d(3, channels, kernel, 2), nn.ReLU(inplace=True))
    for squeezed in fires:
        if squeezed is None:
            yield nn.MaxPool2d(3, 2, ceil_mode=True)
        else:
            yield Fire(channels, squeezed, 4 * squeezed, 4 * squeezed)
            channels = 8 * squeezed


class SqueezeNet(nn.Module):
    """version: "1_0", the paper's, or "1_1", with 2.4 times less computation."""

    def __init__(self, version="1_0", num_classes=1000, dropout=0.5):
        super().__init__()
        if version not in _VERSIONS:
            raise ValueError(f"SqueezeNet: version is {' or '.join(map(repr, _VERSIONS))}; got {shown(version)}")
        self.num_classes = num_classes
        self.features = nn.Sequential(*_features(version))
        last = nn.Conv2d(512, num_classes, 1)
        self.classifier = nn.Sequential(nn.Dropout(dropout), last, nn.ReLU(inplace=True), nn.AdaptiveAvgPool2d((1, 1)))
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.normal_(module.weight, std=0.01) if module is last else nn.init.kaiming_uniform_(module.weight)
                nn.init.zeros_(module.bias)

    def forward(self, x):
        return flambeau.flatten(self.classifier(self.features(x)), 1)


@builder(SqueezeNet1_0_Weights)
def squeezenet1_0(**kwargs):
    """SqueezeNet of the paper."""
    return SqueezeNet("1_0", **kwargs)


@builder(SqueezeNet1_1_Weights)
def squeezenet1_1(**kwargs):
    """SqueezeNet 1.1, as accurate with 2.4 times less computation."""
    return SqueezeNet("1_1", **kwargs)
