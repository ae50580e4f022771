"""Arithmetic: sums, products, quotients, powers of numbers, extrema, rounding."""

from .kinds import composite, elementwise, view
from .masks import where

# Products and quotients with a conjugate: what derivatives of complex functions are made of, at no cost for reals.
mul_conj = elementwise(
    "_mul_conj(Tensor self, Tensor other) -> Tensor", namespace=None, inplace=False, out=False,
    d={"self": lambda g, other: g * other, "other": lambda g, self: mul_conj(self, g)},
    samples="pairs", doc="self times the conjugate of other.", cuda="self * conjugate(other)")
div_conj = elementwise(
    "_div_conj(Tensor self, Tensor other) -> Tensor", promote="int_to_float", namespace=None, inplace=False, out=False,
    d={"self": lambda g, other: g / other,
       "other": lambda g, other, result: -div_conj(mul_conj(result, g), other)},
    samples="nonzero_pairs", doc="self over the conjugate of other.", cuda="self / conjugate(other)")
zero = elementwise(
    "_zero(Tensor self) -> Tensor", namespace=None, inplace=False, out=False, d={"self": lambda g: zero(g)},
    samples="reals", doc="Zeros of the shape and dtype of self: the gradient of a step function.", cuda="T(0)")

conj = view(
    "conj(Tensor self) -> Tensor", d={"self": lambda g: g.conj()}, ref="numpy.conj", samples="reals",
    doc="The complex conjugate, as a view that is computed where it is used; a real tensor is its own.\n\n"
        ">>> flambeau.conj(flambeau.tensor([1 + 2j]))\ntensor([1.-2.j])")
neg_view = view(
    "_neg_view(Tensor self) -> Tensor", d={"self": lambda g: neg(g)}, ref="numpy.negative", samples="reals",
    doc="The negative, as a view that is computed where it is used.")
_conjugated = elementwise(
    "_conj_physical(Tensor self) -> Tensor", inplace=False, out=True, d={"self": lambda g: g.conj()},
    ref="numpy.conj", samples="reals", cuda="conjugate(self)", doc="The complex conjugate in new memory.")

@composite("conj_physical(Tensor self) -> Tensor", inplace=True, out=True, ref="numpy.conj", samples="reals")
def conj_physical(self):
    """The complex conjugate in new memory; a real tensor itself."""
    return _conjugated(self) if self.is_complex() else self


@composite("resolve_conj(Tensor self) -> Tensor", samples="reals")
def resolve_conj(self):
    """The values in memory that holds them: a copy of a conjugate that was not computed yet, else self.

    >>> flambeau.tensor([1 + 2j]).conj().resolve_conj().is_conj()
    False
    """
    return _conjugated(self.conj()) if self.is_conj() else self


@composite("resolve_neg(Tensor self) -> Tensor", samples="reals")
def resolve_neg(self):
    """The values in memory that holds them: a copy of a negative that was not computed yet, else self.

    >>> flambeau.tensor([1 + 2j]).conj().imag.resolve_neg()
    tensor([-2.])
    """
    return self._neg_view().neg() if self.is_neg() else self


def _times(g, number):
    """g times the conjugate of a Python number."""
    return g if number == 1 else g * number.conjugate()


add = elementwise(
    "add(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor", numbers="any", older=("self alpha other",),
    d={"self": lambda g: g, "other": lambda g, alpha: g if alpha == 1 else _times(g, alpha)},
    ref="numpy.add", samples="pairs_numbers",
    doc="self + alpha * other, element by element, broadcasting.\n\n"
        ">>> flambeau.add(flambeau.tensor([1, 2]), 10)\ntensor([11, 12])", cuda="self + alpha * other")
sub = elementwise(
    "sub(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor", numbers="any", aliases=("subtract",),
    older=("self alpha other",),
    d={"self": lambda g: g, "other": lambda g, alpha: -g if alpha == 1 else _times(g, -alpha)},
    ref="numpy.subtract", samples="pairs_numbers", doc="self - alpha * other, element by element, broadcasting.",
    cuda="self - alpha * other")
rsub = elementwise(
    "rsub(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor", node="RsubBackward1", inplace=False, out=False,
    d={"self": lambda g, alpha: _times(g, -alpha), "other": lambda g: g},
    samples="pairs_numbers", doc="other - alpha * self, element by element.", cuda="other - alpha * self")
mul = elementwise(
    "mul(Tensor self, Tensor other) -> Tensor", numbers="any", aliases=("multiply",),
    d={"self": lambda g, other: mul_conj(g, other), "other": lambda g, self: mul_conj(g, self)},
    ref="numpy.multiply", samples="pairs_numbers",
    doc="The product, element by element, broadcasting.\n\n"
        ">>> flambeau.mul(flambeau.tensor([1., 2.]), flambeau.tensor([[3.], [4.]]))\n"
        "tensor([[3., 6.],\n        [4., 8.]])", cuda="self * other")
div = elementwise(
    "div(Tensor self, Tensor other, *, str? rounding_mode=None) -> Tensor", numbers="any", promote="int_to_float",
    aliases=("divide", "true_divide"),
    d={"self": lambda g, other, rounding_mode: zero(g) if rounding_mode else div_conj(g, other),
       "other": lambda g, self, other, rounding_mode:
           zero(g) if rounding_mode else -mul_conj(g, self / other / other)},
    ref="numpy.divide", samples="nonzero_pairs",
    doc="The quotient; integers give floating numbers. rounding_mode 'trunc' or 'floor' rounds it and keeps "
        "integers.\n\n>>> flambeau.div(flambeau.tensor([7, -7]), 2, rounding_mode='floor')\ntensor([ 3, -4])",
    cuda="quotient<rounding_mode>(self, other)")
floor_divide = elementwise(
    "floor_divide(Tensor self, Tensor other) -> Tensor", numbers="any",
    d={"self": lambda g: zero(g), "other": lambda g: zero(g)},
    ref="numpy.floor_divide", samples="far_pairs", doc="The quotient rounded down, as Python's //.",
    cuda="floor_div(self, other)")
remainder = elementwise(
    "remainder(Tensor self, Tensor other) -> Tensor", numbers="one",
    d={"self": lambda g: g, "other": lambda g, self, other: -g * div(self, other, rounding_mode="floor")},
    ref="numpy.remainder", samples="far_pairs", doc="The remainder with the divisor's sign, as Python's %.",
    cuda="floor_mod(self, other)")
fmod = elementwise(
    "fmod(Tensor self, Tensor other) -> Tensor",
    d={"self": lambda g: g, "other": lambda g, self, other: -g * div(self, other, rounding_mode="trunc")},
    ref="numpy.fmod", samples="far_pairs", doc="The remainder with the dividend's sign, as C's fmod.",
    cuda="trunc_mod(self, other)")
neg = elementwise(
    "neg(Tensor self) -> Tensor", aliases=("negative",), d={"self": lambda g: -g}, ref="numpy.negative",
    samples="reals",
    doc="The negative of each element.", cuda="-self")
reciprocal = elementwise(
    "reciprocal(Tensor self) -> Tensor", promote="int_to_float",
    d={"self": lambda g, result: -mul_conj(g, result * result)}, ref="numpy.reciprocal",
    samples=("reals", 0.5, 2.0), doc="One over each element.", cuda="T(1) / self")
square = elementwise(
    "square(Tensor self) -> Tensor",
    node="PowBackward0", d={"self": lambda g, self: mul_conj(g * 2, self)}, ref="numpy.square",
    samples="reals", doc="Each element times itself.", cuda="self * self")
abs = elementwise(
    "abs(Tensor self) -> Tensor", promote="complex_to_real", aliases=("absolute",),
    d={"self": lambda g, self: g * self.sgn()}, ref="numpy.absolute", samples=("reals", 0.2, 2.0),
    doc="The absolute value; of complex numbers the modulus.", cuda="absolute(self)")
sign = elementwise(
    "sign(Tensor self) -> Tensor", d={"self": lambda g: zero(g)}, ref="numpy.sign", samples=("reals", 0.2, 2.0),
    skip={"special_values": "NaN has sign 0, as in PyTorch"},
    doc="-1, 0 or 1 by the sign of each element.", cuda="sign(self)")


def _sgn_rule(g, self, result):
    """Of a complex number only the part of g across its direction remains, over its modulus."""
    if not self.is_complex():
        return g.new_zeros(()).expand(g.shape)
    across = g - result * mul_conj(g, result).real
    return where(self == 0, 0, across / self.abs())


sgn = elementwise(
    "sgn(Tensor self) -> Tensor", d={"self": _sgn_rule}, samples=("reals", 0.2, 2.0),
    doc="The sign of each element; of complex numbers z / |z|.", cuda="sign(self)")


@composite("positive(Tensor self) -> Tensor", ref="numpy.positive", samples="reals")
def positive(self):
    """self, unchanged; bool tensors are refused."""
    if str(self.dtype).endswith("bool"):
        raise RuntimeError("+x of a boolean tensor is not defined; convert it by x.int() first")
    return self


# --- extrema ----------------------------------------------------------------------------------------------------------

def _share(g, beaten, tied):
    """g where the operand is the result, half of it at a tie."""
    return where(beaten, 0, where(tied, g / 2, g))


maximum = elementwise(
    "maximum(Tensor self, Tensor other) -> Tensor", numbers="none",
    d={"self": lambda g, self, other: _share(g, self < other, self == other),
       "other": lambda g, self, other: _share(g, other < self, self == other)},
    ref="numpy.maximum", samples="pairs", doc="The larger of two elements; NaN if either is.",
    cuda="larger(self, other)")
minimum = elementwise(
    "minimum(Tensor self, Tensor other) -> Tensor", numbers="none",
    d={"self": lambda g, self, other: _share(g, self > other, self == other),
       "other": lambda g, self, other: _share(g, other > self, self == other)},
    ref="numpy.minimum", samples="pairs", doc="The smaller of two elements; NaN if either is.",
    cuda="smaller(self, other)")
fmax = elementwise(
    "fmax(Tensor self, Tensor other) -> Tensor", numbers="none",
    d={"self": lambda g, self, other: where((self >= other) | other.isnan(), g, 0),
       "other": lambda g, self, other: where((self >= other) | other.isnan(), 0, g)},
    ref="numpy.fmax", samples="pairs", doc="The larger of two elements; the other one if one is NaN.",
    cuda="larger_number(self, other)")
fmin = elementwise(
    "fmin(Tensor self, Tensor other) -> Tensor", numbers="none",
    d={"self": lambda g, self, other: where((self <= other) | other.isnan(), g, 0),
       "other": lambda g, self, other: where((self <= other) | other.isnan(), 0, g)},
    ref="numpy.fmin", samples="pairs", doc="The smaller of two elements; the other one if one is NaN.",
    cuda="smaller_number(self, other)")


def _clamp_self(g, self, min, max):
    """NaN lies between no bounds, and nothing between bounds of NaN."""
    if min is not None:
        g = where(self >= min, g, 0)
    return g if max is None else where(self <= max, g, 0)


def _clamp_min(g, self, min, max):
    kept = self < min if max is None else (self < min) & (min < max)
    return where(kept, g, 0)


def _clamp_max(g, self, min, max):
    kept = self > max if min is None else (self > max) | (max < min)
    return where(kept, g, 0)


clamp = elementwise(
    "clamp(Tensor self, Tensor? min=None, Tensor? max=None) -> Tensor", node="ClampBackward1", aliases=("clip",),
    d={"self": _clamp_self, "min": _clamp_min, "max": _clamp_max},
    ref="numpy.clip", samples="clamp", doc="Each element moved into [min, max]; bounds are numbers or tensors.\n\n"
    ">>> flambeau.clamp(flambeau.tensor([-3., 0.5, 3.]), -1, 1)\ntensor([-1.0000,  0.5000,  1.0000])",
    cuda="at_most(at_least(self, min), max)")


@composite("clamp_min(Tensor self, any min) -> Tensor",
           node="ClampMinBackward0", inplace=True, out=True, samples="pairs")
def clamp_min(self, min):
    """Each element moved up to at least min."""
    return clamp(self, min)


@composite("clamp_max(Tensor self, any max) -> Tensor",
           node="ClampMaxBackward0", inplace=True, out=True, samples="pairs")
def clamp_max(self, max):
    """Each element moved down to at most max."""
    return clamp(self, None, max)


# --- rounding and pieces of numbers -----------------------------------------------------------------------------------

floor = elementwise("floor(Tensor self) -> Tensor", d={"self": lambda g: zero(g)}, ref="numpy.floor",
                    samples=("reals", 0.2, 0.8), doc="The largest whole number not above each element.",
                    cuda="floor_(self)")
ceil = elementwise("ceil(Tensor self) -> Tensor", d={"self": lambda g: zero(g)}, ref="numpy.ceil",
                   samples=("reals", 0.2, 0.8), doc="The smallest whole number not below each element.",
                   cuda="ceil_(self)")
trunc = elementwise("trunc(Tensor self) -> Tensor", aliases=("fix",), d={"self": lambda g: zero(g)}, ref="numpy.trunc",
                    samples=("reals", 0.2, 0.8), doc="Each element without its fraction.", cuda="trunc_(self)")
round = elementwise("round(Tensor self, *, int decimals=0) -> Tensor", aliases=("special.round",),
                    d={"self": lambda g: zero(g)}, ref="numpy.round", samples=("reals", 0.6, 1.4),
                    doc="The nearest whole number, ties to the even one; or the nearest with `decimals` digits.",
                    cuda="round_to(self, decimals)")
frac = elementwise("frac(Tensor self) -> Tensor", d={"self": lambda g: g}, samples=("reals", 0.2, 0.8),
                   doc="The fraction of each element, with its sign.", cuda="self - trunc(self)")
copysign = elementwise(
    "copysign(Tensor self, Tensor other) -> Tensor", promote="int_to_float",
    d={"self": lambda g, self, result: g * where(self == 0, 0, result / self), "other": lambda g: zero(g)},
    ref="numpy.copysign", samples="nonzero_pairs", doc="The size of self with the sign of other.",
    cuda="copysign(self, other)")
nextafter = elementwise("nextafter(Tensor self, Tensor other) -> Tensor", numbers="none", ref="numpy.nextafter",
                        samples="pairs", d={"self": lambda g, self, other: where(self == other, 0, g),
                           "other": lambda g: zero(g)}, skip={"gradcheck": "a step of the last digit"},
                        doc="The next floating number from self towards other.", cuda="nextafter(self, other)")
heaviside = elementwise("heaviside(Tensor self, Tensor values) -> Tensor", numbers="none", ref="numpy.heaviside",
                        samples="pairs",
                        d={"self": lambda g: zero(g), "values": lambda g, self: where(self != 0, 0, g)},
                        doc="0 below zero, 1 above, `values` at zero.", cuda="self == T(0) ? values : T(T(0) < self)")
nan_to_num = elementwise(
    "nan_to_num(Tensor self, float? nan=None, float? posinf=None, float? neginf=None) -> Tensor",
    d={"self": lambda g, self: where(self.isfinite(), g, 0)}, ref="numpy.nan_to_num", samples="reals",
    doc="NaN and infinities replaced: by 0 and the dtype's largest and smallest numbers unless told otherwise.",
    skip={"special_values": "the replacements depend on the dtype"}, cuda="finite_or<S>(self, nan, posinf, neginf)")

# --- three operands ---------------------------------------------------------------------------------------------------

addcmul = elementwise(
    "addcmul(Tensor self, Tensor tensor1, Tensor tensor2, *, Scalar value=1) -> Tensor",
    older=("self value tensor1 tensor2",),
    d={"self": lambda g: g, "tensor1": lambda g, tensor2, value: mul_conj(_times(g, value), tensor2),
       "tensor2": lambda g, tensor1, value: mul_conj(_times(g, value), tensor1)},
    samples="addc", doc="self + value * tensor1 * tensor2, element by element.",
    cuda="self + value * tensor1 * tensor2")
addcdiv = elementwise(
    "addcdiv(Tensor self, Tensor tensor1, Tensor tensor2, *, Scalar value=1) -> Tensor",
    older=("self value tensor1 tensor2",),
    d={"self": lambda g: g, "tensor1": lambda g, tensor2, value: div_conj(_times(g, value), tensor2),
       "tensor2": lambda g, tensor1, tensor2, value: -mul_conj(_times(g, value), tensor1 / tensor2 / tensor2)},
    samples="addc", doc="self + value * tensor1 / tensor2, element by element.",
    cuda="self + value * tensor1 / tensor2")
lerp = elementwise(
    "lerp(Tensor self, Tensor end, Tensor weight) -> Tensor",
    d={"self": lambda g, weight: mul_conj(g, 1 - weight), "end": lambda g, weight: mul_conj(g, weight),
       "weight": lambda g, self, end: mul_conj(g, end - self)},
    samples="lerp", skip={"promotion": "operands of one dtype"},
    doc="self + weight * (end - self): the point at `weight` between two.", cuda="lerp_(self, end, weight)")

deg2rad = elementwise("deg2rad(Tensor self) -> Tensor", promote="int_to_float", samples="reals", ref="numpy.deg2rad",
                      d={"self": lambda g: g * 0.017453292519943295}, doc="Degrees to radians, element by element.",
                      cuda="self * T(0.017453292519943295769)")
rad2deg = elementwise("rad2deg(Tensor self) -> Tensor", promote="int_to_float", samples="reals", ref="numpy.rad2deg",
                      d={"self": lambda g: g * 57.29577951308232}, doc="Radians to degrees, element by element.",
                      cuda="self * T(57.295779513082320877)")
gcd = elementwise("gcd(Tensor self, Tensor other) -> Tensor", numbers="none", ref="numpy.gcd", samples="integer_pairs",
                  doc="The greatest common divisor of integers.", cuda="gcd(self, other)")
lcm = elementwise("lcm(Tensor self, Tensor other) -> Tensor", numbers="none", ref="numpy.lcm", samples="integer_pairs",
                  doc="The least common multiple of integers.", cuda="lcm(self, other)")
