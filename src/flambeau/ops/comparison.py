"""Comparisons, tests of single numbers, logic and bits."""

from .._shown import shown
from .arithmetic import zero
from .kinds import OPS, composite, elementwise, primitive

#: of what is written in place, as 0 or 1, over numbers: they do not matter any more
_FLAT = {"self": lambda g: zero(g), "other": lambda g: zero(g)}


def _compare(name, alias, ref, sense, cuda):
    return elementwise(f"{name}(Tensor self, Tensor other) -> Tensor", promote="compare", aliases=alias, ref=ref,
                       samples="pairs_numbers", doc=f"True where self {sense} other, element by element.",
                       d=_FLAT, cuda=cuda)


eq = _compare("eq", (), "numpy.equal", "equals", cuda="self == other")
ne = _compare("ne", ("not_equal",), "numpy.not_equal", "differs from", cuda="self != other")
lt = _compare("lt", ("less",), "numpy.less", "is below", cuda="self < other")
le = _compare("le", ("less_equal",), "numpy.less_equal", "is at most", cuda="self <= other")
gt = _compare("gt", ("greater",), "numpy.greater", "is above", cuda="other < self")
ge = _compare("ge", ("greater_equal",), "numpy.greater_equal", "is at least", cuda="other <= self")


def _test(name, sense, inplace=False, out=False, *, cuda):
    return elementwise(f"{name}(Tensor self) -> Tensor", promote="compare", inplace=inplace, out=out,
                       ref=f"numpy.{name}", samples="reals", doc=f"True where an element is {sense}.",
                       cuda=cuda)


isnan = _test("isnan", "not a number", cuda="is_nan(self)")
isinf = _test("isinf", "an infinity", cuda="is_infinite(self)")
isfinite = _test("isfinite", "neither infinite nor NaN", cuda="is_finite(self)")
isposinf = _test("isposinf", "plus infinity", out=True, cuda="is_infinite(self) && T(0) < self")
isneginf = _test("isneginf", "minus infinity", out=True, cuda="is_infinite(self) && self < T(0)")
signbit = _test("signbit", "negative, minus zero included", out=True, cuda="has_sign(self)")


@composite("isreal(Tensor self) -> Tensor", ref="numpy.isreal", samples="reals")
def isreal(self):
    """True where the imaginary part is zero."""
    return self.imag == 0 if self.is_complex() else self.isnan() | True


@composite("isclose(Tensor self, Tensor other, float rtol=1e-05, float atol=1e-08, bool equal_nan=False) -> Tensor",
           ref="numpy.isclose", samples="pairs")
def isclose(self, other, rtol=1e-05, atol=1e-08, equal_nan=False):
    """True where |self - other| <= atol + rtol * |other|; equal infinities are close."""
    if self.dtype != other.dtype:
        raise RuntimeError(f"{self.dtype} did not match {other.dtype}")
    if rtol < 0 or atol < 0:
        raise RuntimeError(f"isclose: rtol and atol must be at least 0, but got {shown(rtol)} and {shown(atol)}")
    close = self == other
    if equal_nan and (self.is_floating_point() or self.is_complex()):
        close = close | (self.isnan() & other.isnan())
    if rtol == 0 and atol == 0:
        return close
    if not (self.is_floating_point() or self.is_complex()):
        self, other = self * 1.0, other * 1.0
    distance = (self - other).abs()
    return close | (distance.isfinite() & (distance <= atol + (other * rtol).abs()))


@composite("allclose(Tensor self, Tensor other, float rtol=1e-05, float atol=1e-08, bool equal_nan=False) -> any",
           skip="isclose and all: the result is a bool")
def allclose(self, other, rtol=1e-05, atol=1e-08, equal_nan=False):
    """Whether all elements are close: |self - other| <= atol + rtol * |other|.

    >>> flambeau.allclose(flambeau.tensor([1.]), flambeau.tensor([1. + 1e-7]))
    True
    """
    return bool(isclose(self, other, rtol, atol, equal_nan).all().item())


_same = primitive("_same(Tensor self, Tensor other) -> Tensor", namespace=None,
                  skip="the kernel of equal, reached through it", doc="Whether shapes and elements are equal.")


@composite("equal(Tensor self, Tensor other) -> any", skip="eq and all: the result is a bool")
def equal(self, other):
    """Whether both have the same shape and the same elements; those of two dtypes are compared in their common one.

    >>> flambeau.equal(flambeau.tensor([1, 2]), flambeau.tensor([1., 2.]))
    True
    """
    return _same(self, other).item()


def _logic(name, arguments, ref, samples, sense, cuda):
    return elementwise(f"{name}({arguments}) -> Tensor", promote="logical", numbers="none", ref=ref,
                       samples=samples, cuda=cuda, d={k: d for k, d in _FLAT.items() if k in arguments},
                       doc=f"True where {sense}; a number counts as true unless it is zero.")


logical_and = _logic("logical_and", "Tensor self, Tensor other", "numpy.logical_and", "pairs", "both are true",
                     cuda="self && other")
logical_or = _logic("logical_or", "Tensor self, Tensor other", "numpy.logical_or", "pairs", "either is true",
                    cuda="self || other")
logical_xor = _logic("logical_xor", "Tensor self, Tensor other", "numpy.logical_xor", "pairs", "exactly one is true",
                     cuda="self != other")
logical_not = _logic("logical_not", "Tensor self", "numpy.logical_not", "reals", "the element is not true",
                     cuda="!self")


def _bits(name, ref, samples, sense, method, cuda):
    return elementwise(f"{name}(Tensor self, Tensor other) -> Tensor", numbers="one", ref=ref, samples=samples,
                       cuda=cuda, doc=f"{sense} of integers or bools, element by element (Python's {method}).")


bitwise_and = _bits("bitwise_and", "numpy.bitwise_and", "integer_pairs", "The bits both have", "&", cuda="self & other")
bitwise_or = _bits("bitwise_or", "numpy.bitwise_or", "integer_pairs", "The bits either has", "|", cuda="self | other")
bitwise_xor = _bits("bitwise_xor", "numpy.bitwise_xor", "integer_pairs", "The bits exactly one has", "^",
                    cuda="self ^ other")
bitwise_left_shift = _bits("bitwise_left_shift", "numpy.left_shift", "shift_pairs", "Left shift", "<<",
                           cuda="shift_left(self, other)")
bitwise_right_shift = _bits("bitwise_right_shift", "numpy.right_shift", "shift_pairs", "Arithmetic right shift", ">>",
                            cuda="shift_right(self, other)")
bitwise_not = elementwise("bitwise_not(Tensor self) -> Tensor", ref="numpy.bitwise_not", samples="integers",
                          skip={"special_values": "integers only"},
                          doc="All bits of integers flipped; of bools the negation (Python's ~).",
                          cuda="flip_bits(self)")


_among = primitive("_among(Tensor self, Tensor few, bool invert) -> Tensor", namespace=None, samples="among",
                   doc="Which elements are among a few numbers, or are not: each is compared with each.")

#: as many pairs of numbers are compared one by one before isin sorts
_FEW_PAIRS = 1024


@composite("isin(any elements, any test_elements, *, bool assume_unique=False, bool invert=False) -> Tensor",
           method=False, out=True, skip="the second argument is a set: numpy.isin in test_pointwise")
def isin(elements, test_elements, assume_unique=False, invert=False):
    """True where an element is one of test_elements; invert: where it is none of them.

    >>> flambeau.isin(flambeau.tensor([1, 2, 3]), flambeau.tensor([2, 5]))
    tensor([False,  True, False])
    """
    if not hasattr(elements, "dtype"):
        return (test_elements == elements).any() != invert
    if not hasattr(test_elements, "dtype"):
        return (elements == test_elements) != invert
    count = test_elements.numel()
    if count == 0:
        return elements.new_full(elements.shape, invert, dtype=(elements == elements).dtype)
    if count * elements.numel() <= _FEW_PAIRS:
        return _among(elements, test_elements, invert)
    known = test_elements.flatten().sort()[0]
    place = OPS["searchsorted"](known, elements.to(known.dtype) if elements.dtype != known.dtype else elements)
    return (known.take(place.clamp(max=count - 1)) == elements) != invert
