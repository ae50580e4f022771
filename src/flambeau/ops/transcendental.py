"""Roots, powers, exponentials, logarithms, trigonometric and hyperbolic functions, error and gamma functions."""

import math

from .._C import bool as bool_dtype
from .._C import complex128, float64, result_type
from .._shown import shown
from .arithmetic import div_conj, mul_conj, zero
from .kinds import OPS, composite, differentiated, elementwise, primitive
from .masks import where


def _function(name, rule, ref, samples="reals", doc="", **facts):
    """A function of one number, in the default floating dtype for integers."""
    return elementwise(f"{name}(Tensor self) -> Tensor", promote="int_to_float", d={"self": rule}, ref=ref,
                       samples=samples, doc=doc, **facts)

# --- exponentials and logarithms --------------------------------------------------------------------------------------

exp = _function("exp", lambda g, result: mul_conj(g, result), "numpy.exp",
                doc="e to the power of each element.\n\n>>> flambeau.exp(flambeau.tensor([0., 1.]))\n"
                    "tensor([1.0000, 2.7183])", cuda="exp(self)")
exp2 = _function("exp2", lambda g, result: mul_conj(g, result * math.log(2)), "numpy.exp2",
                 doc="2 to the power of each element.", aliases=("special.exp2",), cuda="exp2(self)")
expm1 = _function("expm1", lambda g, result: mul_conj(g, result + 1), "numpy.expm1", doc="exp(x) - 1, exact near 0.",
                  aliases=("special.expm1",), cuda="expm1(self)")
log = _function("log", lambda g, self: div_conj(g, self), "numpy.log", ("reals", 0.2, 3.0), "The natural logarithm.",
                cuda="log(self)")
log2 = _function("log2", lambda g, self: div_conj(g, self * math.log(2)), "numpy.log2", ("reals", 0.2, 3.0),
                 "The logarithm to base 2.", cuda="log2(self)")
log10 = _function("log10", lambda g, self: div_conj(g, self * math.log(10)), "numpy.log10", ("reals", 0.2, 3.0),
                  "The logarithm to base 10.", cuda="log10(self)")
log1p = _function("log1p", lambda g, self: div_conj(g, self + 1), "numpy.log1p", ("reals", -0.5, 2.0),
                  "log(1 + x), exact near 0.", aliases=("special.log1p",), cuda="log1p(self)")
logaddexp = elementwise(
    "logaddexp(Tensor self, Tensor other) -> Tensor", numbers="none",
    d={"self": lambda g, self, other: div_conj(g, (other - self).exp() + 1),
       "other": lambda g, self, other: div_conj(g, (self - other).exp() + 1)},
    ref="numpy.logaddexp", samples="pairs", doc="log(exp(self) + exp(other)) without overflow.",
    cuda="logaddexp_(self, other)")
logaddexp2 = elementwise(
    "logaddexp2(Tensor self, Tensor other) -> Tensor", numbers="none",
    d={"self": lambda g, self, other: g / ((other - self).exp2() + 1),
       "other": lambda g, self, other: g / ((self - other).exp2() + 1)},
    ref="numpy.logaddexp2", samples="pairs", doc="log2(2**self + 2**other) without overflow.",
    cuda="logaddexp2_(self, other)")
xlogy = elementwise(
    "xlogy(Tensor self, Tensor other) -> Tensor", numbers="one", promote="int_to_float", aliases=("special.xlogy",),
    d={"self": lambda g, self, other: where((self == 0) & (other <= 0), 0.0, g * _in(g, other).log()),
       "other": lambda g, self, other: g * (self / other)},
    samples="positive_pairs", doc="self * log(other), and 0 where self is 0.",
    cuda="is_nan(other) ? other : self == T(0) ? T(0) : self * log(other)")
xlog1py = elementwise(
    "special_xlog1py(Tensor self, Tensor other) -> Tensor", numbers="one", promote="int_to_float", namespace=None,
    inplace=False,
    aliases=("special.xlog1py",),
    d={"self": lambda g, self, other: where((self == 0) & (other <= -1), 0.0, g * _in(g, other).log1p()),
       "other": lambda g, self, other: g * (self / (other + 1))},
    samples="positive_pairs", doc="self * log1p(other), and 0 where self is 0.",
    cuda="is_nan(other) ? other : self == T(0) ? T(0) : self * log1p(other)")


def _in(g, x):
    """A whole number in the dtype of the gradient: functions of it have as many digits as that."""
    return x if x.is_floating_point() or x.is_complex() else x.to(g.dtype)

# --- powers and roots -------------------------------------------------------------------------------------------------

def _pow_self(g, self, exponent):
    if not hasattr(exponent, "dtype"):
        return zero(g) if exponent == 0 else mul_conj(g, exponent * self ** (exponent - 1))
    if exponent.dtype is bool_dtype:
        return where(exponent, g, 0)
    return where(exponent == 0, 0.0, mul_conj(g, exponent * self ** (exponent - 1)))


def _pow_exponent(g, self, exponent, result):
    """At base 0 the power does not depend on a positive exponent."""
    if hasattr(self, "dtype"):
        flat = (self == 0) if exponent.is_complex() else (self == 0) & (exponent >= 0)
        # in the complex numbers the logarithm exists below zero too
        base = self.to(result.dtype) if result.is_complex() else _in(g, self)
        return where(flat, 0.0, mul_conj(g, result * base.log()))
    if self == 0:
        return where(exponent >= 0, 0.0, mul_conj(g, result * -math.inf))
    base = math.log(self) if not isinstance(self, complex) and self > 0 else (exponent * 0 + self).log()
    return mul_conj(g, result * base)


pow = elementwise(
    "pow(Tensor self, Tensor exponent) -> Tensor", numbers="one", d={"self": _pow_self, "exponent": _pow_exponent},
    ref="numpy.power", samples=("pairs_numbers", 0.3, 2.0), doc="self to the power of exponent, element by element.\n\n"
    ">>> flambeau.pow(flambeau.tensor([1., 2., 3.]), 2)\ntensor([1., 4., 9.])", cuda="power(self, exponent)")


@composite("float_power(any self, any exponent) -> Tensor", out=True, samples="positive_pairs")
def float_power(self, exponent):
    """self ** exponent computed in float64 (complex128 for complex numbers)."""
    base, power = hasattr(self, "dtype"), hasattr(exponent, "dtype")
    wide = complex128 if (base and self.is_complex()) or (power and exponent.is_complex()) else float64
    return pow(self.to(wide) if base else self, exponent.to(wide) if power else exponent)


@composite("float_power_(Tensor self, any exponent) -> Tensor", namespace=None, method=True, skip="tested by name")
def float_power_(self, exponent):
    """float_power into self, which must be of that dtype already.

    >>> flambeau.tensor([3.], dtype=flambeau.float64).float_power_(2)
    tensor([9.], dtype=torch.float64)
    """
    complex_ = self.is_complex() or getattr(exponent, "is_complex", lambda: type(exponent).__name__ == "complex")()
    wanted = complex128 if complex_ else float64
    if self.dtype is not wanted:
        raise RuntimeError(f"float_power_: the result is {wanted}, which a tensor of {self.dtype} cannot hold; use "
                           "float_power")
    widen = exponent.to(wanted) if hasattr(exponent, "dtype") else exponent
    return self.copy_(pow(self.clone() if differentiated(self) else self, widen))


sqrt = _function("sqrt", lambda g, result: div_conj(g, 2 * result), "numpy.sqrt", ("reals", 0.2, 3.0),
                 "The square root.", cuda="sqrt(self)")
rsqrt = _function("rsqrt", lambda g, result: mul_conj(g * -0.5, result * result * result), None, ("reals", 0.2, 3.0),
                  "One over the square root.", cuda="rsqrt(self)")
hypot = elementwise(
    "hypot(Tensor self, Tensor other) -> Tensor", numbers="none",
    d={"self": lambda g, self, result: g * (self / result), "other": lambda g, other, result: g * (other / result)},
    ref="numpy.hypot", samples="nonzero_pairs", doc="sqrt(self**2 + other**2): the hypotenuse.",
    cuda="hypot(self, other)")


@composite("ldexp(Tensor self, Tensor other) -> Tensor", inplace=True, out=True, ref="numpy.ldexp",
           samples="integer_pairs")
def ldexp(self, other):
    """self * 2**other, element by element; the power is computed in the dtype of the product."""
    return self * exp2(other.to(result_type(self, other)))

# --- trigonometric and hyperbolic -------------------------------------------------------------------------------------

sin = _function("sin", lambda g, self: mul_conj(g, self.cos()), "numpy.sin", doc="The sine of each element (radians).",
                cuda="sin(self)")
cos = _function("cos", lambda g, self: -mul_conj(g, self.sin()), "numpy.cos",
                doc="The cosine of each element (radians).", cuda="cos(self)")
tan = _function("tan", lambda g, result: mul_conj(g, result * result + 1), "numpy.tan", ("reals", -1.2, 1.2),
                "The tangent of each element (radians).", cuda="tan(self)")
asin = _function("asin", lambda g, self: mul_conj(g, (1 - self * self).rsqrt()), "numpy.arcsin", ("reals", -0.9, 0.9),
                 "The angle in [-pi/2, pi/2] whose sine is the element.", aliases=("arcsin",), cuda="asin(self)")
acos = _function("acos", lambda g, self: -mul_conj(g, (1 - self * self).rsqrt()), "numpy.arccos", ("reals", -0.9, 0.9),
                 "The angle in [0, pi] whose cosine is the element.", aliases=("arccos",), cuda="acos(self)")
atan = _function("atan", lambda g, self: div_conj(g, self * self + 1), "numpy.arctan",
                 doc="The angle in (-pi/2, pi/2) whose tangent is the element.", aliases=("arctan",), cuda="atan(self)")
atan2 = elementwise(
    "atan2(Tensor self, Tensor other) -> Tensor", numbers="none", promote="int_to_float", aliases=("arctan2",),
    d={"self": lambda g, self, other: g * (other / (self * self + other * other)),
       "other": lambda g, self, other: g * (-self / (self * self + other * other))},
    ref="numpy.arctan2", samples="nonzero_pairs", doc="The angle of the point (other, self) in (-pi, pi].",
    cuda="atan2(self, other)")
sinh = _function("sinh", lambda g, self: mul_conj(g, self.cosh()), "numpy.sinh", doc="The hyperbolic sine.",
                 cuda="sinh(self)")
cosh = _function("cosh", lambda g, self: mul_conj(g, self.sinh()), "numpy.cosh", doc="The hyperbolic cosine.",
                 cuda="cosh(self)")
tanh_backward = elementwise(
    "tanh_backward(Tensor grad_output, Tensor output) -> Tensor", namespace=None, inplace=False, out=False,
    d={"grad_output": lambda g, output: tanh_backward(g, output.conj()),
       "output": lambda g, grad_output, output: -2 * mul_conj(mul_conj(grad_output, g), output)},
    samples="pairs",
    doc="grad_output * (1 - output**2): the gradient of tanh.", cuda="grad_output * conjugate(T(1) - output * output)")
tanh = _function("tanh", lambda g, result: tanh_backward(g, result), "numpy.tanh", doc="The hyperbolic tangent.",
                 aliases=("nn.functional.tanh",), cuda="tanh(self)")
asinh = _function("asinh", lambda g, self: mul_conj(g, (self * self + 1).rsqrt()), "numpy.arcsinh",
                  doc="The inverse of sinh.", aliases=("arcsinh",), cuda="asinh(self)")
acosh = _function("acosh", lambda g, self: mul_conj(g, ((self - 1).rsqrt() * (self + 1).rsqrt())), "numpy.arccosh",
                  ("reals", 1.2, 3.0), "The inverse of cosh.", aliases=("arccosh",), cuda="acosh(self)")
atanh = _function("atanh", lambda g, self: div_conj(g, 1 - self * self), "numpy.arctanh", ("reals", -0.8, 0.8),
                  "The inverse of tanh.", aliases=("arctanh",), cuda="atanh(self)")


def _sinc_slope(g, self):
    x = self * math.pi
    return mul_conj(g, where(self == 0, 0, (x * x.cos() - x.sin()) / (self * x)))


sinc = _function("sinc", _sinc_slope, "numpy.sinc", ("reals", 0.2, 2.0), "sin(pi x) / (pi x), and 1 at 0.",
                 aliases=("special.sinc",), cuda="sinc_(self)")

# --- complex numbers from their parts ---------------------------------------------------------------------------------

angle = elementwise(
    "angle(Tensor self) -> Tensor", promote="complex_to_real", inplace=False,
    d={"self": lambda g, self: where(self == 0, 0, div_conj(g * 1j, self)) if self.is_complex() else zero(g)},
    ref="numpy.angle", samples=("reals", 0.2, 2.0), doc="The angle of complex numbers; 0 or pi of real ones.",
    skip={"special_values": "of -0.0 it is 0, as in PyTorch; NumPy says pi"}, cuda="angle_(self)")
complex = elementwise(
    "complex(Tensor real, Tensor imag) -> Tensor", numbers="none", inplace=False, method=False,
    d={"real": lambda g: g.real, "imag": lambda g: g.imag}, samples="pairs",
    doc="Complex numbers from real and imaginary parts of one floating dtype.", cuda="Complex<T>(real, imag)")
polar = elementwise(
    "polar(Tensor abs, Tensor angle) -> Tensor", autocast="float32", numbers="none", inplace=False, method=False,
    d={"abs": lambda g, angle: mul_conj(g, polar(angle * 0 + 1, angle)).real,
       "angle": lambda g, result: mul_conj(g, result * 1j).real},
    samples="pairs", doc="Complex numbers from modulus and angle.",
    cuda="Complex<T>(abs * cos(angle), abs * sin(angle))")

# --- error and gamma functions ----------------------------------------------------------------------------------------

_TWO_OVER_ROOT_PI = 2 / math.sqrt(math.pi)

erf = _function("erf", lambda g, self: g * ((-self * self).exp() * _TWO_OVER_ROOT_PI), "scipy.special.erf",
                doc="The error function.", aliases=("special.erf",), cuda="erf(self)")
erfc = _function("erfc", lambda g, self: g * ((-self * self).exp() * -_TWO_OVER_ROOT_PI), "scipy.special.erfc",
                 doc="1 - erf(x), exact for large x.", aliases=("special.erfc",), cuda="erfc(self)")
erfinv = _function("erfinv", lambda g, result: g * ((result * result).exp() / _TWO_OVER_ROOT_PI),
                   "scipy.special.erfinv",
                   ("reals", -0.9, 0.9), "The inverse of erf.", aliases=("special.erfinv",), cuda="erfinv(self)")
lgamma = _function("lgamma", lambda g, self: g * self.digamma(), "scipy.special.gammaln", ("reals", 0.3, 4.0),
                   "The logarithm of |gamma(x)|.", aliases=("special.gammaln",),
                   skip={"special_values": "SciPy answers poles otherwise"}, cuda="lgamma(self)")
_polygamma = elementwise(
    "_polygamma(Tensor self, int n) -> Tensor", promote="int_to_float", namespace=None, inplace=False, out=False,
    d={"self": lambda g, self, n: g * _polygamma(self, n + 1)}, samples=("order", 1, 2),
    doc="The n-th derivative of digamma.", cuda="polygamma_(self, n)")
digamma = _function("digamma", lambda g, self: g * _polygamma(self, 1), "scipy.special.digamma", ("reals", 0.3, 4.0),
                    "The derivative of lgamma.", aliases=("special.digamma", "special.psi"), cuda="digamma_(self)")


@composite("polygamma(int n, Tensor self) -> Tensor", aliases=("special.polygamma",), method=False, out=True,
           skip={"samples": "the order comes first", "layouts": "the order comes first"}, samples="polygamma")
def polygamma(n, self):
    """The n-th derivative of digamma at each element."""
    if n < 0:
        raise RuntimeError(f"polygamma: n must not be negative, got {n}")
    return _polygamma(self, n)


@composite("mvlgamma(Tensor self, int p) -> Tensor", inplace=True, out=True, samples=("scalar_second", 1),
           skip={"samples": "x must exceed (p - 1) / 2"})
def mvlgamma(self, p):
    """The logarithm of the multivariate gamma function of dimension p."""
    p = int(p)
    if p < 1:
        raise RuntimeError(f"mvlgamma: p must be at least 1, got {shown(p)}")
    x = self if self.is_floating_point() else self * 1.0
    halves = OPS["arange"](p, dtype=x.dtype, device=x.device) / 2
    return (x.unsqueeze(-1) - halves).lgamma().sum(-1) + p * (p - 1) / 4 * math.log(math.pi)


frexp = primitive("frexp(Tensor self) -> (Tensor mantissa, Tensor exponent)", out=True, samples="reals",
                  d={"self": lambda g0, result1: g0 / exp2(result1.to(g0.dtype))},
                  doc="""Mantissas in [1/2, 1) and the powers of two that make self of them.

    >>> flambeau.frexp(flambeau.tensor([3.])).mantissa
    tensor([0.7500])
    """)
