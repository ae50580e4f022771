"""flambeau.special against SciPy over wide ranges: Bessel functions, polynomials, zeta, incomplete gamma."""

import numpy as np
import pytest

import flambeau

scipy_special = pytest.importorskip("scipy.special")
special = flambeau.special
NAN = float("nan")
WIDE = np.concatenate([np.linspace(-60, 60, 2401), [1e-8, -1e-8, 0.0, 300.0, -300.0, 1e4]])
BESSEL = {
    "bessel_j0": scipy_special.j0, "bessel_j1": scipy_special.j1, "bessel_y0": scipy_special.y0,
    "bessel_y1": scipy_special.y1, "modified_bessel_i0": scipy_special.i0, "modified_bessel_i1": scipy_special.i1,
    "modified_bessel_k0": scipy_special.k0, "modified_bessel_k1": scipy_special.k1,
    "scaled_modified_bessel_k0": scipy_special.k0e, "scaled_modified_bessel_k1": scipy_special.k1e,
    "spherical_bessel_j0": lambda x: np.sinc(x / np.pi), "i0e": scipy_special.i0e, "i1e": scipy_special.i1e,
}


@pytest.mark.parametrize("name", BESSEL)
def test_bessel(name):
    x = WIDE[WIDE > 0] if "_y" in name or "_k" in name else WIDE[np.abs(WIDE) < 400] if "_i" in name else WIDE
    found = getattr(special, name)(flambeau.from_numpy(x)).numpy()
    np.testing.assert_allclose(found, BESSEL[name](x), rtol=3e-13, atol=3e-15)


@pytest.mark.parametrize("dtype, rtol", [(np.float64, 4e-15), (np.float32, 2e-7)])
def test_first_derivative_of_digamma(dtype, rtol):
    near = np.concatenate([np.geomspace(1e-8, 1e8, 999), np.linspace(0.01, 30, 1001)]).astype(dtype)
    mixed = np.concatenate([near[:70], [-0.5, -3.25, np.inf]]).astype(dtype)  # not all of them side by side
    for x in (near, mixed, near[:1]):
        found = special.polygamma(1, flambeau.from_numpy(x)).numpy()
        np.testing.assert_allclose(found, scipy_special.polygamma(1, x.astype(np.float64)), rtol=rtol)
    assert np.isnan(special.polygamma(1, flambeau.tensor([1.0, NAN])).numpy()).tolist() == [False, True]


def test_airy():
    x = np.linspace(-40, 20, 3001)
    np.testing.assert_allclose(special.airy_ai(flambeau.from_numpy(x)).numpy(), scipy_special.airy(x)[0], rtol=1e-12,
                               atol=2e-14)


@pytest.mark.parametrize("name, at_zero", [("bessel_y0", -np.inf), ("bessel_y1", -np.inf),
                                           ("modified_bessel_k0", np.inf), ("modified_bessel_k1", np.inf)])
def test_second_kinds_outside_their_domain(name, at_zero):
    found = getattr(special, name)(flambeau.tensor([0.0, -1.0, float("nan")])).tolist()
    assert found[0] == at_zero and np.isnan(found[1:]).all()


X = np.concatenate([np.linspace(-2.5, 2.5, 101), [-1.0, 0.0, 1.0]])


@pytest.mark.parametrize("name, reference", [
    ("chebyshev_polynomial_t", "chebyt"), ("chebyshev_polynomial_u", "chebyu"), ("hermite_polynomial_h", "hermite"),
    ("hermite_polynomial_he", "hermitenorm"), ("laguerre_polynomial_l", "laguerre"),
    ("legendre_polynomial_p", "legendre"), ("shifted_chebyshev_polynomial_t", "sh_chebyt"),
    ("shifted_chebyshev_polynomial_u", "sh_chebyu")])
def test_polynomials(name, reference):
    n = np.arange(0, 20)
    found = getattr(special, name)(flambeau.from_numpy(X)[:, None], flambeau.from_numpy(n)).numpy()
    expected = getattr(scipy_special, "eval_" + reference)(n, X[:, None])
    np.testing.assert_allclose(found, expected, rtol=1e-8, atol=1e-9)


def test_third_and_fourth_kind():
    """V and W by their trigonometric definition; a shifted polynomial is the plain one of 2 x - 1."""
    angle = np.linspace(0.1, 3.0, 30)
    x = flambeau.from_numpy(np.cos(angle))
    for n in (0, 1, 2, 5, 9, 30):
        v, w = special.chebyshev_polynomial_v(x, n), special.chebyshev_polynomial_w(x, n)
        np.testing.assert_allclose(v.numpy(), np.cos((n + 0.5) * angle) / np.cos(angle / 2), atol=1e-9)
        np.testing.assert_allclose(w.numpy(), np.sin((n + 0.5) * angle) / np.sin(angle / 2), atol=1e-9)
        shifted = special.shifted_chebyshev_polynomial_v((x + 1) / 2, n)
        np.testing.assert_allclose(shifted.numpy(), v.numpy(), atol=1e-8)
        shifted = special.shifted_chebyshev_polynomial_w((x + 1) / 2, n)
        np.testing.assert_allclose(shifted.numpy(), w.numpy(), atol=1e-8)


def test_degrees_below_zero_and_too_high():
    x = flambeau.tensor([0.5, 1.0])
    assert special.legendre_polynomial_p(x, -1).tolist() == [0.0, 0.0]
    assert special.hermite_polynomial_h(x, 129).isnan().all()
    assert special.chebyshev_polynomial_t(0.5, flambeau.tensor([2, 3])).tolist() == [-0.5, -1.0]


def test_zeta():
    s = np.array([1.0, 1.01, 1.5, 2, 3, 7, 20, 100, 0.5])[:, None]
    q = np.array([0.01, 0.1, 0.5, 1, 2, 5, 20, 1000, 1e5])
    found = special.zeta(flambeau.from_numpy(s), flambeau.from_numpy(q)).numpy()
    np.testing.assert_allclose(found[:-1], scipy_special.zeta(s, q)[:-1], rtol=1e-13)
    assert np.isnan(found[-1]).all()
    np.testing.assert_allclose(special.zeta(flambeau.tensor([2.0, 3.0]), -0.5).tolist(), [8.934802, 0.414398],
                               rtol=1e-5)


def test_incomplete_gamma():
    a = np.array([1e-3, 0.1, 0.5, 1, 2, 7, 10, 99, 101, 500, 1e3, 1e4, 1e5, 1e7])
    x = np.concatenate([a, [0.0, 1e-10, 3.0, 30.0]])
    for name in ("gammainc", "gammaincc"):
        found = getattr(special, name)(flambeau.from_numpy(a)[:, None], flambeau.from_numpy(x)).numpy()
        np.testing.assert_allclose(found, getattr(scipy_special, name)(a[:, None], x), rtol=2e-9, atol=1e-12)
    inf = float("inf")
    edges = [(0.0, 0.0), (0.0, 1.0), (1.0, 0.0), (inf, 1.0), (1.0, inf), (inf, inf), (-1.0, 1.0)]
    found = [flambeau.igamma(flambeau.tensor(a), flambeau.tensor(x)).item() for a, x in edges]
    np.testing.assert_equal(found, [np.nan, 1.0, 0.0, 0.0, 1.0, np.nan, np.nan])


def test_no_derivative_by_the_order():
    a, x = flambeau.tensor([1.5], requires_grad=True), flambeau.tensor([2.0], requires_grad=True)
    with pytest.raises(NotImplementedError, match="derivative for 'igamma: self' is not implemented"):
        flambeau.igamma(a, x).backward()


def test_polygamma_as_a_method():
    x = flambeau.tensor([0.5, 2.0], dtype=flambeau.float64)
    expected = scipy_special.polygamma(2, x.numpy())
    np.testing.assert_allclose(x.polygamma(2).numpy(), expected, rtol=1e-12)
    np.testing.assert_allclose(x.polygamma_(2).numpy(), expected, rtol=1e-12)


#: function, reference, inputs, units of the last place of a result of at least 1 (below: of 1)
PRECISE = [
    ("erf", "erf", np.linspace(-6, 6, 100001), 3), ("erfc", "erfc", np.linspace(-6, 25, 100001), 3),
    ("erfinv", "erfinv", np.linspace(-1, 1, 100001)[1:-1], 16),
    ("lgamma", "gammaln", np.linspace(1e-6, 40, 100001), 32),
    ("lgamma", "gammaln", np.linspace(-30.003, -0.003, 9973), 256),
    ("digamma", "digamma", np.linspace(0.01, 40, 100001), 16),
    ("digamma", "digamma", np.linspace(-30.003, -0.003, 9973), 1e6),  # SciPy loses digits near the poles
]


@pytest.mark.parametrize("name, reference, x, ulps", PRECISE)
def test_error_and_gamma_functions_of_doubles(name, reference, x, ulps):
    found, expected = getattr(flambeau, name)(flambeau.from_numpy(x)).numpy(), getattr(scipy_special, reference)(x)
    error = np.abs(found - expected) / np.spacing(np.maximum(np.abs(expected), 1))
    assert error.max() <= ulps, (error.max(), x[error.argmax()])


def test_far_tails():
    y = 1 - 10.0 ** -np.linspace(0.1, 15.9, 200)
    np.testing.assert_allclose(flambeau.erfinv(flambeau.from_numpy(y)).numpy(), scipy_special.erfinv(y), rtol=4e-15)
    p = 10.0 ** -np.linspace(0.1, 300, 2000)
    np.testing.assert_allclose(special.ndtri(flambeau.from_numpy(p)).numpy(), scipy_special.ndtri(p), rtol=3e-15)
    np.testing.assert_equal(flambeau.erfinv(flambeau.tensor([1.0, -1.0, 1.5], dtype=flambeau.float64)).tolist(),
                            [np.inf, -np.inf, np.nan])
    edges = flambeau.tensor([0.0, -0.0, -2.0, float("inf"), -float("inf")], dtype=flambeau.float64)
    np.testing.assert_equal(flambeau.lgamma(edges).tolist(), [np.inf] * 5)
    np.testing.assert_equal(flambeau.digamma(edges[:4]).tolist(), [-np.inf, np.inf, np.nan, np.inf])


def test_powers_of_doubles():
    generator = np.random.default_rng(0)
    x = np.concatenate([generator.uniform(0, 3, 50000), 10 ** generator.uniform(-300, 300, 50000), [5e-324, 2e-310]])
    y = generator.normal(size=len(x)) * 5
    with np.errstate(all="ignore"):
        expected = np.power(x, y)
    normal = (expected > 1e-307) & (expected < np.inf)
    found = flambeau.pow(flambeau.from_numpy(x), flambeau.from_numpy(y)).numpy()
    assert (np.abs(found[normal] - expected[normal]) <= np.spacing(expected[normal])).all()
    np.testing.assert_allclose(found[~normal], expected[~normal], atol=1e-307)


def test_special_powers_of_doubles():
    """Zeros, infinities, signs, whole and odd exponents: as the C library's pow."""
    values = [0.0, -0.0, 1.0, -1.0, 2.0, -2.0, 0.5, -0.5, np.inf, -np.inf, np.nan, 3.0, -3.0, 1e16, 1e-310, -1e308]
    x, y = (a.ravel().copy() for a in np.meshgrid(values, [*values, 5.0, -5.0, 2.0**53 - 1, 2.0**53 + 2]))
    with np.errstate(all="ignore"):
        expected = np.power(x, y)
    found = flambeau.pow(flambeau.from_numpy(x), flambeau.from_numpy(y)).numpy()
    np.testing.assert_array_equal(np.isnan(found), np.isnan(expected))
    np.testing.assert_array_equal(np.signbit(found)[~np.isnan(found)], np.signbit(expected)[~np.isnan(found)])
    np.testing.assert_allclose(found, expected, rtol=2.3e-16)


#: float32 functions, their inputs' range (log: of their sizes), and how many units of the last place they may be off
FLOATS = [("atan", 1e-45, 3e38, 1), ("asin", 1e-45, 1, 1), ("acos", 1e-45, 1, 1), ("tan", 1e-45, 3e4, 1),
          ("log10", 1e-45, 3e38, 1), ("erfc", 1e-45, 10, 1), ("erfinv", 1e-45, 1, 1),
          ("erf", 1e-45, 3e38, 1.1)]  # by AVX-512's table 1, by AVX2's 0.91, without a table 1.05


@pytest.mark.parametrize("name, least, most, ulps", FLOATS)
def test_floats_are_near_doubles(name, least, most, ulps):
    generator = np.random.default_rng(0)
    of_all_sizes = np.exp(generator.uniform(np.log(least), np.log(most), 200000))
    usual, near_one = generator.uniform(0, min(most, 4), 200000), 1 + generator.uniform(-1e-3, 1e-3, 10000)
    x = np.concatenate([of_all_sizes, usual, near_one]).astype(np.float32)
    x = np.concatenate([x, -x]) if name != "log10" else x
    x = x[np.abs(x) <= most]
    found = getattr(flambeau, name)(flambeau.from_numpy(x)).numpy().astype(np.float64)
    expected = getattr(flambeau, name)(flambeau.from_numpy(x.astype(np.float64))).numpy()
    finite = np.isfinite(expected)
    error = np.abs(found[finite] - expected[finite]) / np.spacing(np.abs(expected[finite]).astype(np.float32))
    assert error.max() <= ulps, (error.max(), x[finite][error.argmax()])
    np.testing.assert_array_equal(found[~finite], expected[~finite])


@pytest.mark.parametrize("dtype", [flambeau.float32, flambeau.float64])
@pytest.mark.parametrize("name", ["erf", "erfc", "erfinv", "ndtri"])
def test_a_number_has_one_value_wherever_it_lies(name, dtype):
    """In a whole vector or the rest of a row, beside numbers of tails and alone, through strides."""
    function = getattr(special, name)
    x = flambeau.linspace(-3, 3, 301, dtype=dtype) if name[:3] == "erf" and name != "erfinv" else (
        flambeau.linspace(-1 if name == "erfinv" else 0, 1, 301, dtype=dtype))
    x[::50] = 1 - 2.0 ** -20
    x[7::50] = float("nan")
    expected = function(x)
    alone = flambeau.stack([function(x[k]) for k in range(len(x))])
    for found in (alone, function(flambeau.stack([x, x], 1)[:, 1]),
                  *(function(x[k:]) if k == 0 else flambeau.cat([expected[:k], function(x[k:])]) for k in range(9))):
        assert flambeau.equal(found.isnan(), expected.isnan())
        assert flambeau.equal(found.nan_to_num(5), expected.nan_to_num(5))
    assert function(x[:0]).shape == (0,)


def test_special_floats():
    values = np.array([0.0, -0.0, 1, -1, 2, -2, np.inf, -np.inf, np.nan, 1e-45, -1e-45, 1e-38, 3e38, -3e38], np.float32)
    for name in ("atan", "asin", "acos", "tan", "log10", "erf", "erfc", "erfinv"):
        found = getattr(flambeau, name)(flambeau.from_numpy(values)).numpy()
        expected = getattr(flambeau, name)(flambeau.from_numpy(values.astype(np.float64))).numpy().astype(np.float32)
        np.testing.assert_allclose(found, expected, rtol=2e-7, err_msg=name)
        np.testing.assert_array_equal(np.signbit(found[found == 0]), np.signbit(expected[expected == 0]), err_msg=name)
    y, x = (a.ravel().copy() for a in np.meshgrid(values, values))
    found = flambeau.atan2(flambeau.from_numpy(y), flambeau.from_numpy(x)).numpy()
    expected = np.arctan2(y.astype(np.float64), x.astype(np.float64)).astype(np.float32)
    np.testing.assert_allclose(found, expected, rtol=2e-7)
    np.testing.assert_array_equal(np.signbit(found), np.signbit(expected))


def test_angles_of_floats_of_all_sizes():
    generator = np.random.default_rng(0)
    y, x = (generator.integers(0, 2**32, 400000, np.uint32).view(np.float32) for _ in range(2))
    near = generator.integers(0, 2**23, 400000, np.uint32)  # the exponent and sign of y: quotients near one
    y, x = np.concatenate([y, y]), np.concatenate([x, (y.view(np.uint32) & 0xff800000 | near).view(np.float32)])
    y, x = (a[np.isfinite(y) & np.isfinite(x)] for a in (y, x))
    found = flambeau.atan2(flambeau.from_numpy(y), flambeau.from_numpy(x)).numpy().astype(np.float64)
    expected = np.arctan2(y.astype(np.float64), x.astype(np.float64))
    assert (np.abs(found - expected) <= np.spacing(np.abs(expected).astype(np.float32))).all()


def test_remainders_of_floats_are_exact():
    """Quotients below 2^23 are found in float, below 2^51 in double, others by the C library."""
    generator = np.random.default_rng(0)
    b = np.exp(generator.uniform(-80, 40, 30000)).astype(np.float32)
    for bits in (3, 22.9, 30, 60):
        q = np.floor(2 ** generator.uniform(0, bits, b.size)).astype(np.float32)
        a = np.nextafter((q * b).astype(np.float32), np.float32(0), dtype=np.float32)
        a = a * generator.choice(np.float32([-1, 1]), b.size)
        fmod = flambeau.fmod(flambeau.from_numpy(a), flambeau.from_numpy(b)).numpy()
        np.testing.assert_array_equal(fmod, np.fmod(a, b))
        remainder = flambeau.remainder(flambeau.from_numpy(a), flambeau.from_numpy(b)).numpy()
        np.testing.assert_array_equal(remainder, np.where((fmod != 0) & (fmod < 0), fmod + b, fmod))


@pytest.mark.parametrize("name, reference", [("igamma", "gammainc"), ("igammac", "gammaincc")])
def test_incomplete_gamma_of_floats_is_rounded_once(name, reference):
    generator = np.random.default_rng(0)
    a, x = generator.uniform(0, 12, 20000).astype(np.float32), generator.uniform(0, 14, 20000).astype(np.float32)
    expected = getattr(scipy_special, reference)(a.astype(float), x.astype(float))
    found = getattr(flambeau, name)(flambeau.from_numpy(a), flambeau.from_numpy(x)).numpy()
    assert (np.abs(found - expected) <= 0.51 * np.spacing(np.maximum(expected, 1e-37).astype(np.float32))).all()


def test_hypot_of_doubles_of_all_sizes():
    sizes = np.array([0, 5e-324, 1e-310, 1e-200, 1e-145, 1, 3, 1e150, 1e155, 1e300, 1.2e308, np.inf, np.nan])
    a, b = (x.ravel().copy() for x in np.meshgrid(np.concatenate([sizes, -sizes]), sizes))
    found = flambeau.hypot(flambeau.from_numpy(a), flambeau.from_numpy(b)).numpy()
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(found, np.hypot(a, b), rtol=2.3e-16, atol=0)


@pytest.mark.parametrize(("dtype", "low", "high"), [("float32", -200, 95), ("float64", -1500, 715)])
@pytest.mark.parametrize(("op", "by"), [("exp", np.exp), ("exp2", np.exp2)])
def test_exponentials_over_their_whole_range(dtype, low, high, op, by):
    """Within one unit in the last place, numbers that are not normal included; zero, infinity and NaN at the ends."""
    x = flambeau.linspace(low, high, 100_003, dtype=getattr(flambeau, dtype))
    found = getattr(flambeau, op)(x).numpy()
    with np.errstate(over="ignore", under="ignore"):
        expected = by(x.numpy().astype(np.longdouble)).astype(found.dtype)
    finite = np.isfinite(expected)
    assert (found[~finite] == expected[~finite]).all()
    assert (np.abs(found[finite] - expected[finite]) <= np.spacing(expected[finite])).all()
    ends = getattr(flambeau, op)(flambeau.tensor([-np.inf, -1e30, np.inf, np.nan] * 9, dtype=x.dtype)).numpy()
    assert np.array_equal(ends, np.array([0, 0, np.inf, np.nan] * 9), equal_nan=True)
