"""Inception v3 (Szegedy et al. 2015): convolutions factored into smaller ones, side by side."""

from collections import namedtuple

import flambeau
from flambeau import nn
from flambeau.nn import functional as F

from . import _inception
from ._api import builder, fill, weights_enum
from ._inception import BasicConv2d

__all__ = ["Inception3", "InceptionOutputs", "Inception_V3_Weights", "_InceptionOutputs", "inception_v3"]

Inception_V3_Weights = weights_enum("Inception_V3_Weights", __name__)
InceptionOutputs = namedtuple("InceptionOutputs", ["logits", "aux_logits"])
_InceptionOutputs = InceptionOutputs


class _Mixed(nn.Module):
    """Branches side by side, each a chain of convolutions, and a pooling before the last one.

    branches: a list per branch of (name, channels, kernel, stride); a list in place of the last one stands for
    convolutions that all see what came before. pool: "avg", which keeps the size, before the last branch, or "max",
    which halves it, without one.
    """

    def __init__(self, in_channels, conv_block, branches, pool):
        super().__init__()
        self._conv, self._pool = conv_block or BasicConv2d, pool
        self._branches = [self._chain(in_channels, branch) for branch in branches]

    def _chain(self, channels, branch):
        """The branch's names; makes its convolutions."""
        names = []
        for step in branch:
            several = step if isinstance(step, list) else [step]
            names.append([self._one(channels, *each) for each in several])
            channels = several[0][1]
        return names

    def _one(self, channels, name, width, kernel=1, stride=1):
        size = kernel if isinstance(kernel, tuple) else (kernel, kernel)
        padding = tuple(k // 2 for k in size) if stride == 1 else 0
        convolution = self._conv(channels, width, kernel_size=kernel, stride=stride, padding=padding)
        self.add_module(f"branch{name}", convolution)
        return f"branch{name}"

    def _run(self, names, x):
        for several in names:
            found = [getattr(self, name)(x) for name in several]
            x = found[0] if len(found) == 1 else flambeau.cat(found, 1)
        return x

    def _forward(self, x):
        """The results of all branches."""
        whole = self._branches if self._pool == "max" else self._branches[:-1]
        results = [self._run(names, x) for names in whole]
        if self._pool == "max":
            return [*results, F.max_pool2d(x, 3, stride=2)]
        return [*results, self._run(self._branches[-1], F.avg_pool2d(x, kernel_size=3, stride=1, padding=1))]

    def forward(self, x):
        return flambeau.cat(self._forward(x), 1)


class InceptionA(_Mixed):
    """Figure 5 of the paper: the 5x5 branch has a twin of two 3x3."""

    def __init__(self, in_channels, pool_features, conv_block=None):
        super().__init__(in_channels, conv_block, [
            [("1x1", 64)], [("5x5_1", 48), ("5x5_2", 64, 5)],
            [("3x3dbl_1", 64), ("3x3dbl_2", 96, 3), ("3x3dbl_3", 96, 3)], [("_pool", pool_features)]], "avg")


class InceptionB(_Mixed):
    """From 35x35 to 17x17."""

    def __init__(self, in_channels, conv_block=None):
        super().__init__(in_channels, conv_block, [
            [("3x3", 384, 3, 2)], [("3x3dbl_1", 64), ("3x3dbl_2", 96, 3), ("3x3dbl_3", 96, 3, 2)]], "max")


class InceptionC(_Mixed):
    """Figure 6: 7x7 as 1x7 and 7x1."""

    def __init__(self, in_channels, channels_7x7, conv_block=None):
        c, row, column = channels_7x7, (1, 7), (7, 1)
        super().__init__(in_channels, conv_block, [
            [("1x1", 192)], [("7x7_1", c), ("7x7_2", c, row), ("7x7_3", 192, column)],
            [("7x7dbl_1", c), ("7x7dbl_2", c, column), ("7x7dbl_3", c, row), ("7x7dbl_4", c, column),
             ("7x7dbl_5", 192, row)], [("_pool", 192)]], "avg")


class InceptionD(_Mixed):
    """From 17x17 to 8x8."""

    def __init__(self, in_channels, conv_block=None):
        super().__init__(in_channels, conv_block, [
            [("3x3_1", 192), ("3x3_2", 320, 3, 2)],
            [("7x7x3_1", 192), ("7x7x3_2", 192, (1, 7)), ("7x7x3_3", 192, (7, 1)), ("7x7x3_4", 192, 3, 2)]], "max")


class InceptionE(_Mixed):
    """Figure 7: 3x3 as 1x3 and 3x1 side by side."""

    def __init__(self, in_channels, conv_block=None):
        super().__init__(in_channels, conv_block, [
            [("1x1", 320)], [("3x3_1", 384), [("3x3_2a", 384, (1, 3)), ("3x3_2b", 384, (3, 1))]],
            [("3x3dbl_1", 448), ("3x3dbl_2", 384, 3), [("3x3dbl_3a", 384, (1, 3)), ("3x3dbl_3b", 384, (3, 1))]],
            [("_pool", 192)]], "avg")


class InceptionAux(nn.Module):
    """A classifier in the middle of the network, used while training."""

    def __init__(self, in_channels, num_classes, conv_block=None):
        super().__init__()
        conv = conv_block or BasicConv2d
        self.conv0, self.conv1 = conv(in_channels, 128, kernel_size=1), conv(128, 768, kernel_size=5)
        self.fc = nn.Linear(768, num_classes)
        self.fc.stddev = 0.001

    def forward(self, x):
        x = self.conv1(self.conv0(F.avg_pool2d(x, kernel_size=5, stride=3)))
        return self.fc(flambeau.flatten(F.adaptive_avg_pool2d(x, (1, 1)), 1))


#: name, which of the blocks, its arguments
_STEM = (("Conv2d_1a_3x3", (3, 32), {"kernel_size": 3, "stride": 2}), ("Conv2d_2a_3x3", (32, 32), {"kernel_size": 3}),
         ("Conv2d_2b_3x3", (32, 64), {"kernel_size": 3, "padding": 1}), ("maxpool1", None, None),
         ("Conv2d_3b_1x1", (64, 80), {"kernel_size": 1}), ("Conv2d_4a_3x3", (80, 192), {"kernel_size": 3}),
         ("maxpool2", None, None))
_MIXED = (("5b", 0, (192, 32)), ("5c", 0, (256, 64)), ("5d", 0, (288, 64)), ("6a", 1, (288,)), ("6b", 2, (768, 128)),
          ("6c", 2, (768, 160)), ("6d", 2, (768, 160)), ("6e", 2, (768, 192)), ("7a", 3, (768,)), ("7b", 4, (1280,)),
          ("7c", 4, (2048,)))


class Inception3(_inception.Normalized):
    """While training it gives (logits, aux_logits), if aux_logits; else the logits. Images of 75 x 75 and more.

    init_weights: None is True. inception_blocks: what replaces BasicConv2d, InceptionA to InceptionE and InceptionAux.
    """

    def __init__(self, num_classes=1000, aux_logits=True, transform_input=False, inception_blocks=None,
                 init_weights=None, dropout=0.5):
        super().__init__()
        conv, *mixed, auxiliary = inception_blocks or (BasicConv2d, InceptionA, InceptionB, InceptionC, InceptionD,
                                                       InceptionE, InceptionAux)
        self.aux_logits, self.transform_input = aux_logits, transform_input
        for name, sizes, options in _STEM:
            self.add_module(name, nn.MaxPool2d(3, 2) if sizes is None else conv(*sizes, **options))
        for name, kind, sizes in _MIXED:
            self.add_module(f"Mixed_{name}", mixed[kind](*sizes))
            if name == "6e":
                self.AuxLogits = auxiliary(768, num_classes) if aux_logits else None
        self.avgpool = nn.AdaptiveAvgPool2d((1, 1))
        self.dropout = nn.Dropout(dropout)
        self.fc = nn.Linear(2048, num_classes)
        if init_weights is None or init_weights:
            _inception.truncated_init(self, 0.1)

    def _forward(self, x):
        """(logits, aux_logits), the latter None where it is not wanted."""
        for name, *_ in _STEM:
            x = getattr(self, name)(x)
        aux = None
        for name, *_ in _MIXED:
            x = getattr(self, f"Mixed_{name}")(x)
            if name == "6e" and self.AuxLogits is not None and self.training:
                aux = self.AuxLogits(x)
        return self.fc(flambeau.flatten(self.dropout(self.avgpool(x)), 1)), aux

    def eager_outputs(self, x, aux):
        """What forward gives of these."""
        return InceptionOutputs(x, aux) if self.training and self.aux_logits else x

    def forward(self, x):
        return self.eager_outputs(*self._forward(self._transform_input(x)))


def _weighted(weights, kwargs):
    kept = kwargs.pop("aux_logits", True)
    kwargs.setdefault("transform_input", True)
    model = fill(Inception3(aux_logits=True, init_weights=False, **kwargs), *weights)
    return model if kept else _inception.without_auxiliaries(model, "AuxLogits")


@builder(Inception_V3_Weights, loading=_weighted)
def inception_v3(**kwargs):
    """Inception v3."""
    return Inception3(**kwargs)
