"""Operators as modules, so that what comes out of them can be observed before a model is quantized."""

import flambeau
from flambeau import nn

from ....._absent import STATIC, refused_class


class FloatFunctional(nn.Module):
    """Sums, products and joins in floats, whose results pass through `activation_post_process`.

    >>> import flambeau
    >>> join = flambeau.ao.nn.quantized.FloatFunctional()
    >>> join.add(flambeau.ones(2), flambeau.ones(2))
    tensor([2., 2.])
    """

    def __init__(self):
        super().__init__()
        self.activation_post_process = nn.Identity()

    def forward(self, x):
        """RuntimeError: it has no single operation, one of its methods must be called."""
        raise RuntimeError("FloatFunctional: call one of its methods (add, mul, cat, add_relu, matmul, add_scalar, "
                           "mul_scalar), not the module itself")

    def add(self, x, y):
        """x + y."""
        return self.activation_post_process(flambeau.add(x, y))

    def add_scalar(self, x, y):
        """x + y for a number y; the result is not observed, since its range follows from that of x."""
        return flambeau.add(x, y)

    def mul(self, x, y):
        """x * y."""
        return self.activation_post_process(flambeau.mul(x, y))

    def mul_scalar(self, x, y):
        """x * y for a number y; the result is not observed, since its range follows from that of x."""
        return flambeau.mul(x, y)

    def cat(self, x, dim=0):
        """The tensors joined along a dimension."""
        return self.activation_post_process(flambeau.cat(x, dim=dim))

    def add_relu(self, x, y):
        """relu(x + y)."""
        return self.activation_post_process(nn.functional.relu(flambeau.add(x, y)))

    def matmul(self, x, y):
        """The matrix product."""
        return self.activation_post_process(flambeau.matmul(x, y))


class FXFloatFunctional(FloatFunctional):
    """FloatFunctional without observing, for graphs that have observers of their own."""

    def __init__(self):
        super().__init__()
        del self.activation_post_process

    @staticmethod
    def activation_post_process(x):
        """The result as it is."""
        return x


QFunctional = refused_class("ao.nn.quantized.QFunctional", STATIC)
