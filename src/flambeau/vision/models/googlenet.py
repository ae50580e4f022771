"""GoogLeNet (Szegedy et al. 2014): branches of several kernel sizes side by side."""

from collections import namedtuple

import flambeau
from flambeau import nn
from flambeau.nn import functional as F

from . import _inception
from ._api import builder, fill, weights_enum
from ._inception import BasicConv2d

__all__ = ["GoogLeNet", "GoogLeNetOutputs", "GoogLeNet_Weights", "_GoogLeNetOutputs", "googlenet"]

GoogLeNet_Weights = weights_enum("GoogLeNet_Weights", __name__)
GoogLeNetOutputs = namedtuple("GoogLeNetOutputs", ["logits", "aux_logits2", "aux_logits1"])
_GoogLeNetOutputs = GoogLeNetOutputs
#: table 1 of the paper: channels of the branches 1x1, 3x3 (reduced, full), "5x5" (reduced, full) and of the pooling's
_INCEPTIONS = {"3a": (64, 96, 128, 16, 32, 32), "3b": (128, 128, 192, 32, 96, 64), "4a": (192, 96, 208, 16, 48, 64),
               "4b": (160, 112, 224, 24, 64, 64), "4c": (128, 128, 256, 24, 64, 64), "4d": (112, 144, 288, 32, 64, 64),
               "4e": (256, 160, 320, 32, 128, 128), "5a": (256, 160, 320, 32, 128, 128),
               "5b": (384, 192, 384, 48, 128, 128)}


class Inception(nn.Module):
    """1x1; 1x1 then 3x3; 1x1 then what the paper has as 5x5, here 3x3 as its first weights were made; pool then 1x1."""

    def __init__(self, in_channels, ch1x1, ch3x3red, ch3x3, ch5x5red, ch5x5, pool_proj, conv_block=None):
        super().__init__()
        conv = conv_block or BasicConv2d
        self.branch1 = conv(in_channels, ch1x1, kernel_size=1)
        self.branch2, self.branch3 = (
            nn.Sequential(conv(in_channels, few, kernel_size=1), conv(few, many, kernel_size=3, padding=1))
            for few, many in ((ch3x3red, ch3x3), (ch5x5red, ch5x5)))
        self.branch4 = nn.Sequential(nn.MaxPool2d(3, 1, 1, ceil_mode=True), conv(in_channels, pool_proj, kernel_size=1))

    def forward(self, x):
        return flambeau.cat([branch(x) for branch in (self.branch1, self.branch2, self.branch3, self.branch4)], 1)


class InceptionAux(nn.Module):
    """A classifier in the middle of the network, used while training."""

    def __init__(self, in_channels, num_classes, conv_block=None, dropout=0.7):
        super().__init__()
        self.conv = (conv_block or BasicConv2d)(in_channels, 128, kernel_size=1)
        self.fc1 = nn.Linear(128 * 4 * 4, 1024)
        self.fc2 = nn.Linear(1024, num_classes)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        x = flambeau.flatten(self.conv(F.adaptive_avg_pool2d(x, (4, 4))), 1)
        return self.fc2(self.dropout(F.relu(self.fc1(x), inplace=True)))


class GoogLeNet(_inception.Normalized):
    """While training it gives (logits, aux_logits2, aux_logits1), if aux_logits; else the logits.

    init_weights: None is True. blocks: what replaces BasicConv2d, Inception and InceptionAux.
    """

    def __init__(self, num_classes=1000, aux_logits=True, transform_input=False, init_weights=None, blocks=None,
                 dropout=0.2, dropout_aux=0.7):
        super().__init__()
        conv, inception, auxiliary = blocks or (BasicConv2d, Inception, InceptionAux)
        self.aux_logits, self.transform_input = aux_logits, transform_input
        self.conv1 = conv(3, 64, kernel_size=7, stride=2, padding=3)
        self.maxpool1 = nn.MaxPool2d(3, 2, ceil_mode=True)
        self.conv2 = conv(64, 64, kernel_size=1)
        self.conv3 = conv(64, 192, kernel_size=3, padding=1)
        self.maxpool2 = nn.MaxPool2d(3, 2, ceil_mode=True)
        channels, poolings = 192, {"3b": nn.MaxPool2d(3, 2, ceil_mode=True), "4e": nn.MaxPool2d(2, 2, ceil_mode=True)}
        for name, widths in _INCEPTIONS.items():
            self.add_module(f"inception{name}", inception(channels, *widths))
            channels = widths[0] + widths[2] + widths[4] + widths[5]
            if name in poolings:
                self.add_module(f"maxpool{name[0]}", poolings[name])
        self.aux1 = auxiliary(512, num_classes, dropout=dropout_aux) if aux_logits else None
        self.aux2 = auxiliary(528, num_classes, dropout=dropout_aux) if aux_logits else None
        self.avgpool = nn.AdaptiveAvgPool2d((1, 1))
        self.dropout = nn.Dropout(dropout)
        self.fc = nn.Linear(channels, num_classes)
        if init_weights is None or init_weights:
            _inception.truncated_init(self, 0.01)

    def _forward(self, x):
        """(logits, aux_logits2, aux_logits1), the last two None where they are not wanted."""
        x = self.maxpool2(self.conv3(self.conv2(self.maxpool1(self.conv1(x)))))
        early = late = None
        watched = self.training and self.aux_logits
        for name in _INCEPTIONS:
            x = getattr(self, f"inception{name}")(x)
            early = self.aux1(x) if name == "4a" and watched and self.aux1 is not None else early
            late = self.aux2(x) if name == "4d" and watched and self.aux2 is not None else late
            x = getattr(self, f"maxpool{name[0]}")(x) if name in ("3b", "4e") else x
        return self.fc(self.dropout(flambeau.flatten(self.avgpool(x), 1))), late, early

    def eager_outputs(self, x, aux2, aux1):
        """What forward gives of these."""
        return GoogLeNetOutputs(x, aux2, aux1) if self.training and self.aux_logits else x

    def forward(self, x):
        return self.eager_outputs(*self._forward(self._transform_input(x)))


def _weighted(weights, kwargs):
    """Settings that published weights ask for; then what to do when they are loaded."""
    kept = kwargs.pop("aux_logits", False)
    kwargs.setdefault("transform_input", True)
    model = fill(GoogLeNet(aux_logits=True, init_weights=False, **kwargs), *weights)
    return model if kept else _inception.without_auxiliaries(model, "aux1", "aux2")


@builder(GoogLeNet_Weights, loading=_weighted)
def googlenet(**kwargs):
    """GoogLeNet; with weights, without the auxiliary classifiers unless aux_logits=True."""
    return GoogLeNet(**kwargs)
