"""Layers that are computed together: a Sequential with a class of its own for each pair or triple."""

from flambeau import nn


def _kind(module):
    return nn.utils.parametrize.type_before_parametrizations(module)


class _FusedModule(nn.Sequential):
    """A Sequential of layers of the classes `_PARTS`, in that order."""

    _PARTS = ()

    def __init__(self, *layers):
        kinds = [_kind(layer) for layer in layers]
        if kinds != list(self._PARTS):
            raise AssertionError(f"{type(self).__name__}: expected {_names(self._PARTS)} in this order, got "
                                 f"{_names(kinds)}")
        super().__init__(*layers)


def _names(kinds):
    return ", ".join(kind.__name__ for kind in kinds)


class ConvReLU1d(_FusedModule):
    """A Conv1d and the ReLU after it."""

    _PARTS = (nn.Conv1d, nn.ReLU)

    def __init__(self, conv, relu):
        super().__init__(conv, relu)


class ConvReLU2d(_FusedModule):
    """A Conv2d and the ReLU after it.

    >>> import flambeau
    >>> nn = flambeau.nn
    >>> flambeau.ao.nn.intrinsic.ConvReLU2d(nn.Conv2d(1, 2, 3), nn.ReLU())
    ConvReLU2d(
      (0): Conv2d(1, 2, kernel_size=(3, 3), stride=(1, 1))
      (1): ReLU()
    )
    """

    _PARTS = (nn.Conv2d, nn.ReLU)

    def __init__(self, conv, relu):
        super().__init__(conv, relu)


class ConvReLU3d(_FusedModule):
    """A Conv3d and the ReLU after it."""

    _PARTS = (nn.Conv3d, nn.ReLU)

    def __init__(self, conv, relu):
        super().__init__(conv, relu)


class LinearReLU(_FusedModule):
    """A Linear layer and the ReLU after it."""

    _PARTS = (nn.Linear, nn.ReLU)

    def __init__(self, linear, relu):
        super().__init__(linear, relu)


class ConvBn1d(_FusedModule):
    """A Conv1d and the BatchNorm1d after it."""

    _PARTS = (nn.Conv1d, nn.BatchNorm1d)

    def __init__(self, conv, bn):
        super().__init__(conv, bn)


class ConvBn2d(_FusedModule):
    """A Conv2d and the BatchNorm2d after it."""

    _PARTS = (nn.Conv2d, nn.BatchNorm2d)

    def __init__(self, conv, bn):
        super().__init__(conv, bn)


class ConvBn3d(_FusedModule):
    """A Conv3d and the BatchNorm3d after it."""

    _PARTS = (nn.Conv3d, nn.BatchNorm3d)

    def __init__(self, conv, bn):
        super().__init__(conv, bn)


class ConvBnReLU1d(_FusedModule):
    """A Conv1d, the BatchNorm1d and the ReLU after it."""

    _PARTS = (nn.Conv1d, nn.BatchNorm1d, nn.ReLU)

    def __init__(self, conv, bn, relu):
        super().__init__(conv, bn, relu)


class ConvBnReLU2d(_FusedModule):
    """A Conv2d, the BatchNorm2d and the ReLU after it."""

    _PARTS = (nn.Conv2d, nn.BatchNorm2d, nn.ReLU)

    def __init__(self, conv, bn, relu):
        super().__init__(conv, bn, relu)


class ConvBnReLU3d(_FusedModule):
    """A Conv3d, the BatchNorm3d and the ReLU after it."""

    _PARTS = (nn.Conv3d, nn.BatchNorm3d, nn.ReLU)

    def __init__(self, conv, bn, relu):
        super().__init__(conv, bn, relu)


class BNReLU2d(_FusedModule):
    """A BatchNorm2d and the ReLU after it."""

    _PARTS = (nn.BatchNorm2d, nn.ReLU)

    def __init__(self, batch_norm, relu):
        super().__init__(batch_norm, relu)


class BNReLU3d(_FusedModule):
    """A BatchNorm3d and the ReLU after it."""

    _PARTS = (nn.BatchNorm3d, nn.ReLU)

    def __init__(self, batch_norm, relu):
        super().__init__(batch_norm, relu)


class LinearBn1d(_FusedModule):
    """A Linear layer and the BatchNorm1d after it."""

    _PARTS = (nn.Linear, nn.BatchNorm1d)

    def __init__(self, linear, bn):
        super().__init__(linear, bn)


class LinearLeakyReLU(_FusedModule):
    """A Linear layer and the LeakyReLU after it."""

    _PARTS = (nn.Linear, nn.LeakyReLU)

    def __init__(self, linear, leaky_relu):
        super().__init__(linear, leaky_relu)


class LinearTanh(_FusedModule):
    """A Linear layer and the Tanh after it."""

    _PARTS = (nn.Linear, nn.Tanh)

    def __init__(self, linear, tanh):
        super().__init__(linear, tanh)


class ConvAdd2d(_FusedModule):
    """A Conv2d and the sum with another tensor after it: forward(x1, x2) = add(conv(x1), x2)."""

    def __init__(self, conv, add):
        nn.Sequential.__init__(self, conv)
        self.add = add

    def forward(self, x1, x2):
        return self.add(self[0](x1), x2)


class ConvAddReLU2d(_FusedModule):
    """A Conv2d, the sum with another tensor and the ReLU after it: forward(x1, x2) = relu(add(conv(x1), x2))."""

    def __init__(self, conv, add, relu):
        nn.Sequential.__init__(self, conv)
        self.add, self.relu = add, relu

    def forward(self, x1, x2):
        return self.relu(self.add(self[0](x1), x2))
