"""Operators as modules, so that what comes out of them can be observed before a model is quantized."""

import flambeau
from flambeau import nn

from .utils import ScaledModule, output_scale

_OPS = flambeau.ops.quantized  # as operators, which a tracer sees


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


class QFunctional(ScaledModule):
    """Sums, products and joins of codes, whose results have codes of `scale` and `zero_point`.

    >>> import flambeau
    >>> x = flambeau.quantize_per_tensor(flambeau.ones(2), 0.5, 0, flambeau.quint8)
    >>> flambeau.ao.nn.quantized.QFunctional().add(x, x).int_repr()
    tensor([2, 2], dtype=torch.uint8)
    """

    def __init__(self):
        super().__init__()
        self.activation_post_process = nn.Identity()

    def _get_name(self):
        return "QFunctional"

    def extra_repr(self):
        return f"scale={self.scale}, zero_point={self.zero_point}"

    def forward(self, x):
        """RuntimeError: it has no single operation, one of its methods must be called."""
        raise RuntimeError("QFunctional: call one of its methods (add, mul, cat, add_relu, matmul, add_scalar, "
                           "mul_scalar), not the module itself")

    def _observed(self, operator, *args):
        return self.activation_post_process(operator(*args, scale=self.scale, zero_point=self.zero_point))

    def add(self, x, y):
        """x + y."""
        return self._observed(_OPS.add, x, y)

    def add_scalar(self, x, y):
        """x + y for a number y; the scale follows from that of x."""
        return _OPS.add_scalar(x, y)

    def mul(self, x, y):
        """x * y."""
        return self._observed(_OPS.mul, x, y)

    def mul_scalar(self, x, y):
        """x * y for a number y; the scale follows from that of x."""
        return _OPS.mul_scalar(x, y)

    def cat(self, x, dim=0):
        """The tensors joined along a dimension."""
        return self._observed(_OPS.cat, x, dim)

    def add_relu(self, x, y):
        """relu(x + y)."""
        return self._observed(_OPS.add_relu, x, y)

    def matmul(self, x, y):
        """The matrix product."""
        return self._observed(_OPS.matmul, x, y)

    @classmethod
    def from_float(cls, mod, use_precomputed_fake_quant=False):
        """The module in place of an observed FloatFunctional."""
        if not isinstance(mod, FloatFunctional):
            raise AssertionError(f"QFunctional.from_float: made from a FloatFunctional, got {type(mod).__name__}")
        made = cls()
        made.scale, made.zero_point = output_scale(cls, mod)
        return made
