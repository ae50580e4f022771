"""Special functions: Bessel, Airy, incomplete gamma and zeta functions, orthogonal polynomials, distributions."""

import math

from .kinds import elementwise
from .masks import where
from .transcendental import _TWO_OVER_ROOT_PI, _function

i0 = _function("i0", lambda g, self: g * i1(self), "scipy.special.i0", doc="The modified Bessel function of order 0.",
               aliases=("special.i0",), cuda="modified_i<0>(self)")


def _special(name, rule, doc, samples="reals", ref="", argument="self", **facts):
    """A function of one number, public in flambeau.special only. No rule: no gradient, as in PyTorch."""
    return elementwise(f"special_{name}(Tensor {argument}) -> Tensor", promote="int_to_float", namespace=None,
                       inplace=False, aliases=(f"special.{name}",), d=rule and {argument: rule},
                       ref=f"scipy.special.{name}" if ref == "" else ref, samples=samples, doc=doc, **facts)


i0e = _special("i0e", lambda g, self, result: g * (i1e(self) - self.sgn() * result),
               "exp(-|x|) i0(x), which stays small.", cuda="scaled_i<0>(self)")
i1 = _special("i1", lambda g, self, result: g * (self.i0() - where(self == 0, 0.5, result / self)),
              "The modified Bessel function of order 1.", ("reals", 0.3, 3.0), cuda="modified_i<1>(self)")
i1e = _special("i1e", lambda g, self, result:
               g * (i0e(self) - result * self.sgn() - where(self == 0, 0.5, result / self)),
               "exp(-|x|) i1(x), which stays small.", ("reals", 0.3, 3.0), cuda="scaled_i<1>(self)")
ndtr = _special("ndtr", lambda g, self: g * ((self * self * -0.5).exp() * (0.25 * math.sqrt(2) * _TWO_OVER_ROOT_PI)),
                "The cumulative distribution function of the standard normal distribution.",
                cuda="T(0.5) * erfc(-self * T(0.70710678118654752440))")
ndtri = _special("ndtri", lambda g, result: g * ((result * result * 0.5).exp() * math.sqrt(2 * math.pi)),
                 "The inverse of ndtr.", ("reals", 0.05, 0.95), cuda="ndtri_(self)")
log_ndtr = _special("log_ndtr", lambda g, self, result:
                    g * ((self * self * -0.5 - result).exp() / math.sqrt(2 * math.pi)),
                    "log(ndtr(x)), exact far below 0.", cuda="log_ndtr_(self)")
erfcx = _special("erfcx", lambda g, self, result: g * (2 * self * result - _TWO_OVER_ROOT_PI),
                 "exp(x**2) times erfc(x), which does not underflow.", cuda="erfcx_(self)")
entr = _special("entr", lambda g, self: g * (-self.log() - 1), "-x log(x), the entropy of a probability.",
                ("reals", 0.2, 2.0),
                cuda="is_nan(self) ? self : T(0) < self ? -self * log(self) : self == T(0) ? T(0) : -infinity<T>()")

# --- Bessel and Airy functions ----------------------------------------------------------------------------------------

_POSITIVE = ("reals", 0.3, 6.0)
_NO_SLOPE = dict.fromkeys(("gradcheck", "gradgradcheck", "float32_gradient"), "no derivative, as in PyTorch")
_EDGES = {"special_values": "SciPy answers infinities and negative numbers otherwise"}


def _without_slope(name, doc, samples, ref, argument="self", *, cuda):
    return _special(name, None, doc, samples, ref, argument, skip=_NO_SLOPE | _EDGES, cuda=cuda)


bessel_j0 = _without_slope("bessel_j0", "The Bessel function of the first kind, order 0.", ("reals", -8.0, 8.0),
                           "scipy.special.j0", cuda="bessel_j0(self)")
bessel_j1 = _without_slope("bessel_j1", "The Bessel function of the first kind, order 1.", ("reals", -8.0, 8.0),
                           "scipy.special.j1", cuda="bessel_j1(self)")
bessel_y0 = _without_slope("bessel_y0", "The Bessel function of the second kind, order 0.", _POSITIVE,
                           "scipy.special.y0", cuda="bessel_y0(self)")
bessel_y1 = _without_slope("bessel_y1", "The Bessel function of the second kind, order 1.", _POSITIVE,
                           "scipy.special.y1", cuda="bessel_y1(self)")
modified_bessel_i0 = _without_slope("modified_bessel_i0", "The modified Bessel function of the first kind, order 0.",
                                    "reals", "scipy.special.i0", cuda="modified_i<0>(self)")
modified_bessel_i1 = _without_slope("modified_bessel_i1", "The modified Bessel function of the first kind, order 1.",
                                    "reals", "scipy.special.i1", cuda="modified_i<1>(self)")
modified_bessel_k0 = _without_slope("modified_bessel_k0", "The modified Bessel function of the second kind, order 0.",
                                    _POSITIVE, "scipy.special.k0", cuda="modified_k<0, false>(self)")
modified_bessel_k1 = _without_slope("modified_bessel_k1", "The modified Bessel function of the second kind, order 1.",
                                    _POSITIVE, "scipy.special.k1", cuda="modified_k<1, false>(self)")
scaled_modified_bessel_k0 = _without_slope("scaled_modified_bessel_k0",
                                           "exp(x) times modified_bessel_k0(x), which does not underflow.", _POSITIVE,
                                           "scipy.special.k0e", "x", cuda="modified_k<0, true>(x)")
scaled_modified_bessel_k1 = _without_slope("scaled_modified_bessel_k1",
                                           "exp(x) times modified_bessel_k1(x), which does not underflow.", _POSITIVE,
                                           "scipy.special.k1e", "x", cuda="modified_k<1, true>(x)")
spherical_bessel_j0 = _without_slope("spherical_bessel_j0", "sin(x) / x, and 1 at 0.", ("reals", -8.0, 8.0),
                                     None, "x", cuda="spherical_j0(x)")
airy_ai = _without_slope("airy_ai", "The Airy function Ai.", ("reals", -8.0, 8.0),
                         None, "x", cuda="airy(x)")

# --- orthogonal polynomials -------------------------------------------------------------------------------------------


def _polynomial(name, text, cuda):
    return elementwise(f"special_{name}(Tensor x, Tensor n) -> Tensor", promote="int_to_float", namespace=None,
                       inplace=False, aliases=(f"special.{name}",), samples="degrees",
                       doc=f"The {text} of degree n at x; the degree is a tensor or a number.",
                       skip=_NO_SLOPE, cuda=cuda)


chebyshev_polynomial_t = _polynomial("chebyshev_polynomial_t", "Chebyshev polynomial of the first kind",
                                     cuda="chebyshev<Kind::T>(x, n)")
chebyshev_polynomial_u = _polynomial("chebyshev_polynomial_u", "Chebyshev polynomial of the second kind",
                                     cuda="chebyshev<Kind::U>(x, n)")
chebyshev_polynomial_v = _polynomial("chebyshev_polynomial_v", "Chebyshev polynomial of the third kind",
                                     cuda="chebyshev<Kind::V>(x, n)")
chebyshev_polynomial_w = _polynomial("chebyshev_polynomial_w", "Chebyshev polynomial of the fourth kind",
                                     cuda="chebyshev<Kind::W>(x, n)")
shifted_chebyshev_polynomial_t = _polynomial("shifted_chebyshev_polynomial_t",
                                             "Chebyshev polynomial of the first kind for [0, 1]",
                                             cuda="chebyshev<Kind::T>(2 * double(x) - 1, n)")
shifted_chebyshev_polynomial_u = _polynomial("shifted_chebyshev_polynomial_u",
                                             "Chebyshev polynomial of the second kind for [0, 1]",
                                             cuda="chebyshev<Kind::U>(2 * double(x) - 1, n)")
shifted_chebyshev_polynomial_v = _polynomial("shifted_chebyshev_polynomial_v",
                                             "Chebyshev polynomial of the third kind for [0, 1]",
                                             cuda="chebyshev<Kind::V>(2 * double(x) - 1, n)")
shifted_chebyshev_polynomial_w = _polynomial("shifted_chebyshev_polynomial_w",
                                             "Chebyshev polynomial of the fourth kind for [0, 1]",
                                             cuda="chebyshev<Kind::W>(2 * double(x) - 1, n)")
hermite_polynomial_h = _polynomial("hermite_polynomial_h", "Hermite polynomial (physicists' form)",
                                   cuda="hermite(x, n, 2, sizeof(T) == 4 ? 128 : 512)")
hermite_polynomial_he = _polynomial("hermite_polynomial_he", "Hermite polynomial (probabilists' form)",
                                    cuda="hermite(x, n, 1, sizeof(T) == 4 ? 128 : 512)")
laguerre_polynomial_l = _polynomial("laguerre_polynomial_l", "Laguerre polynomial", cuda="laguerre(x, n)")
legendre_polynomial_p = _polynomial("legendre_polynomial_p", "Legendre polynomial", cuda="legendre(x, n)")

# --- zeta and incomplete gamma functions ------------------------------------------------------------------------------


def _no_derivative(what):
    def rule(g):
        raise NotImplementedError(f"the derivative for '{what}' is not implemented.")
    return rule


zeta = elementwise(
    "special_zeta(Tensor self, Tensor other) -> Tensor", promote="int_to_float", namespace=None, inplace=False,
    aliases=("special.zeta",),
    d={"self": _no_derivative("zeta"), "other": lambda g, self, other: g * -self * zeta(self + 1, other)},
    ref="scipy.special.zeta", samples=("second_slopes", 1.2, 4.0, 0.5, 4.0),
    doc="Hurwitz' zeta function: the sum over k >= 0 of (other + k)**-self.",
    skip={"special_values": "SciPy answers poles otherwise"}, cuda="zeta_(self, other)")


def _gamma_slope(g, self, other):
    return g * ((self - 1) * other.log() - other - self.lgamma()).exp()


_GAMMA_EDGES = {"special_values": "SciPy answers the edges otherwise"}
igamma = elementwise(
    "igamma(Tensor self, Tensor other) -> Tensor", aliases=("special.gammainc",),
    d={"self": _no_derivative("igamma: self"), "other": _gamma_slope}, ref="scipy.special.gammainc",
    samples=("second_slopes", 0.3, 4.0), skip=_GAMMA_EDGES,
    doc="The regularised lower incomplete gamma function P(self, other).\n\n"
        ">>> flambeau.igamma(flambeau.tensor([1.]), flambeau.tensor([2.]))\ntensor([0.8647])",
    cuda="incomplete_gamma<false>(self, other)")
igammac = elementwise(
    "igammac(Tensor self, Tensor other) -> Tensor", aliases=("special.gammaincc",),
    d={"self": _no_derivative("igammac: self"), "other": lambda g, self, other: -_gamma_slope(g, self, other)},
    ref="scipy.special.gammaincc", samples=("second_slopes", 0.3, 4.0), skip=_GAMMA_EDGES,
    doc="The regularised upper incomplete gamma function Q(self, other) = 1 - P.\n\n"
        ">>> flambeau.igammac(flambeau.tensor([1.]), flambeau.tensor([2.]))\ntensor([0.1353])",
    cuda="incomplete_gamma<true>(self, other)")
