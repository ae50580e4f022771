"""VGG (Simonyan and Zisserman 2014): stacks of 3x3 convolutions, with batch normalisation or without."""

import functools
import itertools

import flambeau
from flambeau import nn

from ._api import builder, weights_enum
from ._utils import he_fan_out, init

_enum = functools.partial(weights_enum, module=__name__)
VGG11_Weights, VGG11_BN_Weights = _enum("VGG11_Weights"), _enum("VGG11_BN_Weights")
VGG13_Weights, VGG13_BN_Weights = _enum("VGG13_Weights"), _enum("VGG13_BN_Weights")
VGG16_Weights, VGG16_BN_Weights = _enum("VGG16_Weights"), _enum("VGG16_BN_Weights")
VGG19_Weights, VGG19_BN_Weights = _enum("VGG19_Weights"), _enum("VGG19_BN_Weights")

__all__ = ["VGG", "VGG11_BN_Weights", "VGG11_Weights", "VGG13_BN_Weights", "VGG13_Weights", "VGG16_BN_Weights",
           "VGG16_Weights", "VGG19_BN_Weights", "VGG19_Weights", "vgg11", "vgg11_bn", "vgg13", "vgg13_bn", "vgg16",
           "vgg16_bn", "vgg19", "vgg19_bn"]

_WIDTHS = (64, 128, 256, 512, 512)
#: how many convolutions of each width, by the number of weighted layers
_DEPTHS = {11: (1, 1, 2, 2, 2), 13: (2, 2, 2, 2, 2), 16: (2, 2, 3, 3, 3), 19: (2, 2, 4, 4, 4)}


class VGG(nn.Module):
    """Features (see make_layers) and three linear layers."""

    def __init__(self, features, num_classes=1000, init_weights=True, dropout=0.5):
        super().__init__()
        self.features = features
        self.avgpool = nn.AdaptiveAvgPool2d(7)
        widths = (512 * 7 * 7, 4096, 4096)
        hidden = [layer for a, b in itertools.pairwise(widths)
                  for layer in (nn.Linear(a, b), nn.ReLU(inplace=True), nn.Dropout(dropout))]
        self.classifier = nn.Sequential(*hidden, nn.Linear(widths[-1], num_classes))
        if init_weights:
            init(self, he_fan_out, functools.partial(nn.init.normal_, std=0.01))

    def forward(self, x):
        return self.classifier(flambeau.flatten(self.avgpool(self.features(x)), 1))


def make_layers(cfg, batch_norm=False):
    """The features of a list of widths of convolutions, with "M" for a pooling."""
    layers, channels = [], 3
    for width in cfg:
        if width == "M":
            layers.append(nn.MaxPool2d(2))
            continue
        norm = [nn.BatchNorm2d(width)] if batch_norm else []
        layers += [nn.Conv2d(channels, width, 3, padding=1), *norm, nn.ReLU(inplace=True)]
        channels = width
    return nn.Sequential(*layers)


def _vgg(depth, batch_norm, kwargs):
    widths = [entry for width, n in zip(_WIDTHS, _DEPTHS[depth], strict=True) for entry in (*[width] * n, "M")]
    return VGG(make_layers(widths, batch_norm), **kwargs)


def _vgg_builder(kind):
    return builder(kind, weighted=lambda weights: {"init_weights": False})


@_vgg_builder(VGG11_Weights)
def vgg11(**kwargs):
    """VGG of 11 layers."""
    return _vgg(11, False, kwargs)


@_vgg_builder(VGG11_BN_Weights)
def vgg11_bn(**kwargs):
    """VGG of 11 layers, with batch normalisation."""
    return _vgg(11, True, kwargs)


@_vgg_builder(VGG13_Weights)
def vgg13(**kwargs):
    """VGG of 13 layers."""
    return _vgg(13, False, kwargs)


@_vgg_builder(VGG13_BN_Weights)
def vgg13_bn(**kwargs):
    """VGG of 13 layers, with batch normalisation."""
    return _vgg(13, True, kwargs)


@_vgg_builder(VGG16_Weights)
def vgg16(**kwargs):
    """VGG of 16 layers."""
    return _vgg(16, False, kwargs)


@_vgg_builder(VGG16_BN_Weights)
def vgg16_bn(**kwargs):
    """VGG of 16 layers, with batch normalisation."""
    return _vgg(16, True, kwargs)


@_vgg_builder(VGG19_Weights)
def vgg19(**kwargs):
    """VGG of 19 layers."""
    return _vgg(19, False, kwargs)


@_vgg_builder(VGG19_BN_Weights)
def vgg19_bn(**kwargs):
    """VGG of 19 layers, with batch normalisation."""
    return _vgg(19, True, kwargs)
