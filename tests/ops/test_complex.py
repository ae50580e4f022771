"""Complex functions: accurate to their type, what the C library gives at the edges, sums and products of any length."""

import numpy as np
import pytest

import flambeau

NAMES = {"exp": np.exp, "exp2": lambda z: np.exp(z * np.log(np.longdouble(2))), "expm1": np.expm1, "log": np.log,
         "log2": lambda z: np.log(z) / np.log(np.longdouble(2)),
         "log10": lambda z: np.log(z) / np.log(np.longdouble(10)),
         "log1p": np.log1p, "sqrt": np.sqrt, "rsqrt": lambda z: 1 / np.sqrt(z), "sin": np.sin, "cos": np.cos,
         "tan": np.tan, "sinh": np.sinh, "cosh": np.cosh, "tanh": np.tanh, "abs": np.abs, "angle": np.angle,
         "sgn": lambda z: z / np.abs(z), "reciprocal": lambda z: 1 / z, "square": lambda z: z * z,
         "sigmoid": lambda z: 1 / (1 + np.exp(-z)), "sinc": lambda z: np.sin(PI * z) / (PI * z)}
PI = np.longdouble("3.14159265358979323846264338327950288")
DTYPES = [np.complex64, np.complex128]


def numbers(dtype):
    """Of all sizes that no function takes beyond its range, near the unit circle, on the axes."""
    rng = np.random.default_rng(0)
    size, angle = 10 ** rng.uniform(-3, 1, 900), rng.uniform(-np.pi, np.pi, 900)
    z = np.concatenate([size * np.exp(1j * angle), np.exp(1j * angle), rng.normal(size=50) + 0j,
                        1j * rng.normal(size=50)])
    return z.astype(dtype)


def apart(found, expected):
    """The largest error in units of the last place of the larger part."""
    eps = np.finfo(found.dtype).eps
    return (np.abs(found - expected) / np.abs(expected)).max() / eps


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", NAMES)
def test_accurate(name, dtype):
    z = numbers(dtype)
    expected = NAMES[name](z.astype(np.clongdouble))
    found = getattr(flambeau, name)(flambeau.from_numpy(z)).numpy()
    good = np.isfinite(found) & (np.abs(expected) > 0)
    assert good.sum() > 1500
    rounded_before = {"exp2": 30, "sinc": 2000}  # z ln 2 and pi z are numbers of the type
    assert apart(found[good], expected[good]) < (2 if dtype is np.complex64 else rounded_before.get(name, 6))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", ["exp", "expm1", "log", "sqrt", "sin", "cos", "tan", "sinh", "cosh", "tanh", "abs"])
def test_edges_are_the_c_librarys(name, dtype):
    parts = [0.0, -0.0, 1.0, -2.0, np.inf, -np.inf, np.nan, 1e30, -1e30, 1e-42, 800.0, -800.0]
    z = np.array([complex(x, y) for x in parts for y in parts], dtype)
    with np.errstate(all="ignore"):
        expected = getattr(np, name)(z)
    found = getattr(flambeau, name)(flambeau.from_numpy(z)).numpy()
    one = np.concatenate([getattr(flambeau, name)(flambeau.from_numpy(z[k:k + 1])).numpy() for k in range(len(z))])
    for made in (found, one):  # among other edges, and alone: then what can be is computed without the C library
        for part in ("real", "imag"):
            a, b = getattr(made, part), getattr(expected, part)
            plain = np.isfinite(expected) if name in ("expm1", "tan", "tanh") else np.ones(len(z), bool)
            np.testing.assert_allclose(a[plain], b[plain], rtol=1e-5 if dtype is np.complex64 else 1e-13,
                                       atol=1e-44, err_msg=name)


def test_quotients_of_extreme_numbers():
    z = flambeau.tensor([1e300 + 1e300j, 1e-300 + 1e-300j, 1 + 2j], dtype=flambeau.complex128)
    assert flambeau.allclose(z / z, flambeau.ones_like(z), rtol=1e-15)
    assert ((1 + 0j) / flambeau.tensor([0j]))[0].real.item() == float("inf")
    assert (flambeau.tensor([4j], dtype=flambeau.complex64) / 2j).tolist() == [2]


@pytest.mark.parametrize("dtype", DTYPES)
def test_powers(dtype):
    z = numbers(dtype)
    x = flambeau.from_numpy(z)
    wide = z.astype(np.clongdouble)
    for k, expected in ((2, wide ** 2), (3, wide * wide * wide), (-1, 1 / wide), (0.5, np.sqrt(wide)), (1, wide),
                        (1.5 + 1j, np.exp((1.5 + 1j) * np.log(wide)))):
        assert apart((x ** k).numpy(), expected) < (3 if dtype is np.complex64 else 60), k
    assert (flambeau.tensor([0j, 2 + 0j, 0j]) ** flambeau.tensor([0j, 3 + 0j, 2 + 0j])).tolist() == [1, 8, 0]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", [0, 1, 2, 3, 5, 8, 17, 40, 1025, 5000])
def test_sums_products_dots(n, dtype):
    rng = np.random.default_rng(n)
    z, w = (np.exp(1j * rng.uniform(0, 6, (3, n))).astype(dtype) for _ in "ab")
    x, y = flambeau.from_numpy(z), flambeau.from_numpy(w)
    close = 3e-6 * max(n, 1) if dtype is np.complex64 else 3e-15 * max(n, 1)
    for found, expected in ((x.sum(1), z.sum(1)), (x.sum(0), z.sum(0)), (x.t().sum(0), z.sum(1)), (x.sum(), z.sum()),
                            (x.prod(1), z.prod(1)), (x.prod(0), z.prod(0)), (x[0].dot(y[0]), z[0] @ w[0]),
                            (flambeau.vdot(x[0], y[0]), np.vdot(z[0], w[0])),
                            (x[0].dot(y[0].conj()), np.vdot(w[0], z[0])),
                            (x[0].conj().dot(y[0].conj()), (z[0] @ w[0]).conj()), (x[:, ::2].sum(1), z[:, ::2].sum(1))):
        np.testing.assert_allclose(found.numpy(), expected, atol=close)


def test_polar_selections_and_parts():
    rng = np.random.default_rng(0)
    r, t = rng.uniform(0, 3, 700), rng.uniform(-9, 9, 700)
    z = flambeau.polar(flambeau.from_numpy(r), flambeau.from_numpy(t))
    np.testing.assert_allclose(z.numpy(), r * np.exp(1j * t), rtol=1e-14)
    far = flambeau.polar(flambeau.tensor([1.0, 2.0]), flambeau.tensor([1e9, float("nan")]))
    assert far[0].real.item() == pytest.approx(np.cos(np.float32(1e9)), abs=1e-6) and far[1].isnan().item()
    z = z.to(flambeau.complex64)
    mask = flambeau.from_numpy(r > 1)
    assert flambeau.equal(flambeau.where(mask, z, -z), z * flambeau.where(mask, 1, -1))
    assert flambeau.equal(z.masked_fill(mask, 0), z * ~mask)
    assert flambeau.equal(flambeau.complex(z.imag, z.real), (z * -1j).conj())
    assert flambeau.equal(z.conj().resolve_conj(), flambeau.complex(z.real, -z.imag))
    assert not z.conj().imag.resolve_neg().is_neg() and flambeau.equal(z.conj().imag.resolve_neg(), -z.imag)


@pytest.mark.parametrize("dtype", [flambeau.complex64, flambeau.complex128])
@pytest.mark.parametrize("name", ["abs", "sgn", "sqrt", "rsqrt", "exp", "exp2", "expm1", "log", "log1p", "sin", "tan",
                                  "sinh", "tanh", "sigmoid", "pow"])
def test_infinities_among_others_change_nothing_of_them(name, dtype):
    """What lies outside of a formula's range is computed by itself, in place too."""
    function = (lambda z: z.pow(0.5 + 2j)) if name == "pow" else getattr(flambeau, name)
    z, odd = flambeau.randn(600, dtype=dtype), [7, 300, 599]
    mixed = z.clone()
    mixed[odd] = flambeau.tensor([complex("inf+nanj"), complex(1e30, -1e30), complex("nan+0j")], dtype=dtype)
    rest = flambeau.ones(600, dtype=flambeau.bool).index_fill(0, flambeau.tensor(odd), False)
    found = function(mixed)
    assert flambeau.equal(found[rest], function(z)[rest])
    assert flambeau.equal(found[odd].nan_to_num(7), flambeau.cat([function(mixed[k:k + 1]) for k in odd]).nan_to_num(7))
    if name not in ("abs", "pow"):
        assert flambeau.equal(getattr(mixed, f"{name}_")().nan_to_num(7), found.nan_to_num(7))
