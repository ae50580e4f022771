"""Functions of elements: those of two operands promote by the standard, take a number on either side, and have its
names."""

import flambeau

from ._promotion import in_common

#: the standard's name -> the operator's. All: shapes play no part in promotion, and one operand may be a number.
OF_TWO = {
    "add": "add", "atan2": "atan2", "bitwise_and": "bitwise_and", "bitwise_left_shift": "bitwise_left_shift",
    "bitwise_or": "bitwise_or", "bitwise_right_shift": "bitwise_right_shift", "bitwise_xor": "bitwise_xor",
    "copysign": "copysign", "divide": "div", "equal": "eq", "greater": "gt", "greater_equal": "ge", "hypot": "hypot",
    "less": "lt", "less_equal": "le", "logaddexp": "logaddexp", "logical_and": "logical_and",
    "logical_or": "logical_or", "logical_xor": "logical_xor", "maximum": "maximum", "minimum": "minimum",
    "multiply": "mul", "nextafter": "nextafter", "not_equal": "ne", "pow": "pow", "subtract": "sub",
}


def _of_two(name, operator):
    def function(x1, x2, /):
        return operator(*in_common(x1, x2))

    function.__name__ = function.__qualname__ = name
    function.__doc__ = (f"`flambeau.{operator.name}` of operands in their common dtype by the standard; one may be a "
                        "number.")
    return function


globals().update({name: _of_two(name, getattr(flambeau, operator)) for name, operator in OF_TWO.items()})


def floor_divide(x1, x2, /):
    """As the floor of x1 / x2 where one of them is infinite: PyTorch, like Python, says NaN, or -1 for 0 from below.

    >>> from flambeau import array_api as xp
    >>> xp.floor_divide(xp.asarray([xp.inf, 7.0]), 2)
    tensor([inf, 3.])
    """
    x1, x2 = in_common(x1, x2)
    quotient = flambeau.floor_divide(x1, x2)
    if not x1.is_floating_point():
        return quotient
    return flambeau.where(x1.isinf() | x2.isinf(), (x1 / x2).floor(), quotient)


def remainder(x1, x2, /):
    """Has the sign of `x2` where it is zero too, as in Python; PyTorch keeps the sign of `x1` there."""
    x1, x2 = in_common(x1, x2)
    rest = flambeau.remainder(x1, x2)
    return flambeau.where(rest == 0, rest.copysign(x2), rest) if x1.is_floating_point() else rest


def clip(x, /, min=None, max=None):
    """Keeps the dtype of `x`, where PyTorch promotes it together with bounds that are tensors.

    >>> from flambeau import array_api as xp
    >>> xp.clip(xp.asarray([1, 5], dtype=xp.int8), max=xp.asarray(3)).dtype
    torch.int8
    """
    bounds = [b.to(x.dtype) if isinstance(b, flambeau.Tensor) else b for b in (min, max)]
    return x.clone() if min is None and max is None else flambeau.clamp(x, *bounds).to(x.dtype)


def sign(x, /):
    """NaN of NaN, where PyTorch says 0; of a complex number x / |x|, which PyTorch calls sgn."""
    if x.is_floating_point():
        return flambeau.where(x.isnan(), x, flambeau.sign(x))
    return flambeau.sgn(x) if x.is_complex() else flambeau.sign(x)


def round(x, /):
    """Of a complex number both parts, which PyTorch refuses."""
    return flambeau.complex(flambeau.round(x.real), flambeau.round(x.imag)) if x.is_complex() else flambeau.round(x)


def tanh(x, /):
    """Of a complex number at infinity the imaginary part is 0 with its own sign; PyTorch's and C's alternates."""
    y = flambeau.tanh(x)
    if not x.is_complex():
        return y
    at_infinity = flambeau.complex(y.real, flambeau.zeros_like(y.real).copysign(x.imag))
    return flambeau.where(x.real.isinf() & x.imag.isfinite(), at_infinity, y)
