"""Loops that dtypes other than float32 have of their own: odd sizes, NaN, strides, numbers beside tensors, threads."""

import math

import numpy
import pytest

import flambeau

SIZES = [0, 1, 7, 16, 33, 1000, 40_001]
SPECIAL = [math.nan, math.inf, -math.inf, 0.0, -0.0, 1.5, -2.5, 1e-40, 3e38, -7.0]


@pytest.fixture
def threads():
    """Runs a function with one thread and with two; both results are the same."""
    before = flambeau.get_num_threads()

    def both(f):
        found = []
        for n in (1, 2):
            flambeau.set_num_threads(n)
            found.append(f())
        assert flambeau.equal(found[0], found[1])
        return found[0]

    yield both
    flambeau.set_num_threads(before)


def numbers(n, dtype, shift=0):
    x = flambeau.rand(n) * 6 - 3
    x[:min(n, len(SPECIAL))] = flambeau.tensor((SPECIAL[shift:] + SPECIAL[:shift])[:n])
    return x.to(dtype)


def same(a, b):
    flambeau.testing.assert_close(a, b, rtol=0, atol=0, equal_nan=True)


UNARY = ("square", "reciprocal", "sqrt", "rsqrt", "floor", "ceil", "trunc", "frac", "deg2rad", "rad2deg", "nan_to_num",
         "signbit")
BINARY = ("div", "maximum", "minimum", "rsub", "copysign", "pow")


@pytest.mark.parametrize("dtype", [flambeau.bfloat16, flambeau.float16])
@pytest.mark.parametrize("name", UNARY)
@pytest.mark.parametrize("n", SIZES)
def test_a_half_is_computed_in_float32(name, dtype, n):
    f, x = getattr(flambeau, name), numbers(n, dtype)
    expected = f(x.float())
    if name == "nan_to_num":  # its limits are the dtype's
        limits = flambeau.finfo(dtype)
        expected = flambeau.nan_to_num(x.float(), 0.0, limits.max, limits.min)
    expected = expected if expected.dtype is flambeau.bool else expected.to(dtype)
    same(f(x), expected)
    wide = flambeau.stack((x, x), 1)
    same(f(wide[:, 0]), expected)


@pytest.mark.parametrize("dtype", [flambeau.bfloat16, flambeau.float16])
@pytest.mark.parametrize("name", BINARY)
@pytest.mark.parametrize("n", SIZES)
def test_two_halves_are_computed_in_float32(name, dtype, n):
    f, x, y = getattr(flambeau, name), numbers(n, dtype), numbers(n, dtype, 3)
    expected = f(x.float(), y.float()).to(dtype)
    same(f(x, y).isnan(), expected.isnan())
    same(f(x, y).nan_to_num(), expected.nan_to_num())
    same(f(flambeau.stack((x, x), 1)[:, 0], y).nan_to_num(), expected.nan_to_num())
    for number in (3, 0.1, 2, 0.5, -1.5) if name not in ("maximum", "minimum") else ():  # keeps its float32 value
        same(f(x, number).nan_to_num(), f(x.float(), number).to(dtype).nan_to_num())
    same((2.5 / x).nan_to_num(), (2.5 / x.float()).to(dtype).nan_to_num())
    same((2.5 ** x).nan_to_num(), (2.5 ** x.float()).to(dtype).nan_to_num())


@pytest.mark.parametrize("mode", ["floor", "trunc"])
@pytest.mark.parametrize("n", [1, 255, 257, 5000])
def test_rounded_quotients_of_bfloat16(mode, n):
    x, y = (flambeau.rand(n) * 60 - 30).bfloat16(), (flambeau.rand(n) * 6 + 0.5).bfloat16()
    for b in (y, 0.7):
        wide = b.float() if isinstance(b, flambeau.Tensor) else b
        same(flambeau.div(x, b, rounding_mode=mode), flambeau.div(x.float(), wide, rounding_mode=mode).bfloat16())


@pytest.mark.parametrize("n", [5, 300])
def test_ternary_loops_of_bfloat16(n):
    a, b, c = (flambeau.rand(n, 3).bfloat16() + 0.1 for _ in range(3))
    same(flambeau.addcmul(a, b, c, value=0.3), flambeau.addcmul(a.float(), b.float(), c.float(), value=0.3).bfloat16())
    same(flambeau.addcdiv(a, b.T.contiguous().T, c),
         flambeau.addcdiv(a.float(), b.float(), c.float()).bfloat16())


@pytest.mark.parametrize("dtype", [flambeau.bfloat16, flambeau.float16])
@pytest.mark.parametrize("shape", [(1, 1, 1), (3, 5, 7), (130, 90, 110), (96, 256, 200)])
@pytest.mark.parametrize("beta, alpha", [(1, 1), (0.5, 2), (0, 1), (1, 0), (0, 0.25), (-1, 1)])
def test_a_scaled_product_of_halves_is_rounded_once(dtype, shape, beta, alpha, threads):
    m, k, n = shape
    a, b, c = (flambeau.rand(*s).sub(0.5).to(dtype) for s in ((m, k), (k, n), (m, n)))
    for added in (c, c[0], c[:, :1]):
        found = threads(lambda added=added: flambeau.addmm(added, a, b, beta=beta, alpha=alpha))
        expected = (beta * added.double() + alpha * (a.double() @ b.double())).to(dtype)
        flambeau.testing.assert_close(found, expected, rtol=2e-2 if dtype is flambeau.bfloat16 else 3e-3, atol=1e-2)
    found = flambeau.addmm(c, a[:, :0], b[:0], beta=beta, alpha=alpha)
    flambeau.testing.assert_close(found, (beta * c.double()).to(dtype))


def test_batches_of_scaled_products_of_bfloat16(threads):
    a, b, c = (flambeau.rand(6, *s).sub(0.5).bfloat16() for s in ((64, 96), (96, 80), (64, 80)))
    found = threads(lambda: flambeau.baddbmm(c, a, b, beta=0.5, alpha=2))
    expected = 0.5 * c.double() + 2 * (a.double() @ b.double())
    flambeau.testing.assert_close(found, expected.bfloat16(), rtol=2e-2, atol=1e-2)
    c.fill_(math.nan)
    assert flambeau.baddbmm(c, a, b, beta=0).isfinite().all()
    a.fill_(math.nan)
    assert flambeau.addmm(c[0].nan_to_num(0.5), a[0], b[0], alpha=0).isfinite().all()
    assert flambeau.addmm(c[0].nan_to_num(0.5), a[0].t().contiguous().t(), b[0], alpha=0).isfinite().all()


@pytest.mark.parametrize("dtype", ["int64", "uint64", "int32", "uint8"])
@pytest.mark.parametrize("shape", [(1, 1, 1), (1, 300, 200), (200, 300, 1), (3, 5, 2), (17, 33, 41), (130, 260, 75)])
def test_products_of_integers_wrap_as_numpys(dtype, shape, threads):
    random = numpy.random.default_rng(0)
    bounds = numpy.iinfo(dtype)
    m, k, n = shape
    a, b = (random.integers(bounds.min, bounds.max, s, dtype=dtype, endpoint=True) for s in ((m, k), (k, n)))
    with numpy.errstate(over="ignore"):
        expected = flambeau.from_numpy(a @ b)
    x, y = flambeau.from_numpy(a), flambeau.from_numpy(b)
    same(threads(lambda: x @ y), expected)
    same(x.T.contiguous().T @ y, expected)
    same(x @ y.T.contiguous().T, expected)
    same(flambeau.stack((x, x)) @ y, flambeau.stack((expected, expected)))
    if dtype == "int64":
        added = flambeau.arange(n)
        same(flambeau.addmm(added, x, y, beta=3, alpha=-2), 3 * added - 2 * expected)
        same(flambeau.dot(x.flatten(), x.flatten()), (x * x).sum())


@pytest.mark.parametrize("dtype", [flambeau.complex64, flambeau.complex128])
@pytest.mark.parametrize("shape", [(2, 3, 4), (40, 30, 20), (70, 130, 90), (5, 3000, 7), (97, 256, 129)])
def test_products_of_complex_numbers(dtype, shape, threads):
    m, k, n = shape
    a, b, c = flambeau.randn(m, k, dtype=dtype), flambeau.randn(k, n, dtype=dtype), flambeau.randn(m, n, dtype=dtype)
    expected = flambeau.from_numpy(a.to(flambeau.complex128).numpy() @ b.to(flambeau.complex128).numpy())
    close = {"rtol": 1e-4, "atol": 1e-3} if dtype is flambeau.complex64 else {"rtol": 1e-10, "atol": 1e-10}

    def check(found, wanted):
        flambeau.testing.assert_close(found.to(flambeau.complex128), wanted, **close)

    check(threads(lambda: a @ b), expected)
    check(a.T.contiguous().T @ b, expected)
    check(a @ b.T.contiguous().T, expected)
    check(a @ b.conj(), flambeau.from_numpy(a.numpy() @ b.numpy().conj()).to(flambeau.complex128))
    check(flambeau.addmm(c, a, b, beta=0.5j, alpha=2 - 1j), 0.5j * c.to(flambeau.complex128) + (2 - 1j) * expected)
    check(flambeau.addmm(c[0], a, b), c[0].to(flambeau.complex128) + expected)


@pytest.mark.parametrize("dtype", [flambeau.float64, flambeau.complex64, flambeau.complex128, flambeau.float32])
@pytest.mark.parametrize("n", [0, 1, 5, 4096, 32_768, 50_001])
def test_a_long_running_sum(dtype, n, threads):
    x = flambeau.randn(n, dtype=dtype)
    wide = flambeau.complex128 if dtype.is_complex else flambeau.float64
    expected = flambeau.from_numpy(numpy.cumsum(x.to(wide).numpy()))
    found = threads(lambda: x.cumsum(0))
    flambeau.testing.assert_close(found.to(wide), expected, rtol=1e-5, atol=1e-4)
    if dtype is flambeau.float64:
        same(found, expected)  # one number after the other
    if n > 40_000:
        x[40_000] = math.nan
        found = x.cumsum(0)
        assert found[:40_000].isfinite().all() and found[40_000:].isnan().all()


@pytest.mark.parametrize("dtype", [flambeau.complex64, flambeau.complex128, flambeau.bfloat16, flambeau.float16,
                                   flambeau.int32, flambeau.uint8, flambeau.bool])
def test_scatter_add_of_other_dtypes(dtype, threads):
    x = (flambeau.rand(40, 300) * 5).to(dtype)
    j = flambeau.randint(0, 300, (40, 300))
    found = threads(lambda: x.scatter_add(1, j, x))
    expected = x.float() if dtype in (flambeau.bfloat16, flambeau.float16) else x.clone()
    for row in range(0, 40, 13):
        for k in range(300):
            expected[row, j[row, k]] += x[row, k]
        same(found[row], expected[row].to(dtype))


def test_complex_convolutions_and_gradients():
    x = flambeau.randn(2, 4, 9, 8, dtype=flambeau.complex128, requires_grad=True)
    w = flambeau.randn(6, 2, 3, 3, dtype=flambeau.complex128, requires_grad=True)
    b = flambeau.randn(6, dtype=flambeau.complex128, requires_grad=True)

    def f(x, w, b):
        return flambeau.nn.functional.conv2d(x, w, b, stride=2, padding=1, groups=2)

    parts = [flambeau.nn.functional.conv2d(u, v, stride=2, padding=1, groups=2)
             for u in (x.real, x.imag) for v in (w.real, w.imag)]
    expected = flambeau.complex(parts[0] - parts[3], parts[1] + parts[2]) + b.view(1, 6, 1, 1)
    flambeau.testing.assert_close(f(x, w, b), expected)
    assert flambeau.autograd.gradcheck(f, (x, w, b))


def test_random_words_do_not_depend_on_where_they_are_asked_for():
    flambeau.manual_seed(5)
    whole = flambeau.rand(5000)
    flambeau.manual_seed(5)
    first = flambeau.rand(700)
    state = flambeau.get_rng_state()
    rest = flambeau.rand(4300)
    same(flambeau.cat((first, rest)), whole)
    flambeau.set_rng_state(state)
    same(flambeau.rand(4300), rest)


def test_numbers_beside_halves_are_rounded_as_the_operation_asks():
    x = flambeau.tensor([1.37, 0.1, 2.5], dtype=flambeau.bfloat16)
    assert x.eq(1.37).tolist() == [True, False, False] and (x == 0.1).tolist() == [False, True, False]
    assert (x > 0.1).tolist() == [True, False, True] and (x <= 0.1).tolist() == [False, True, False]
    scale = flambeau.tensor(0.337)
    for found in (x * scale, x * 0.337, x.clone().mul_(scale)):
        assert flambeau.equal(found, (x.float() * 0.337).bfloat16())
    assert flambeau.equal(x / scale, (x.float() / 0.337).bfloat16())
    assert flambeau.equal(x + scale, x + scale.bfloat16())


def test_a_weight_of_lerp_without_dimensions_is_a_number():
    for dtype in (flambeau.float32, flambeau.bfloat16):
        start, end = flambeau.zeros(3, dtype=dtype), flambeau.ones(3, dtype=dtype)
        for weight in (flambeau.tensor(0.25, dtype=flambeau.float64), flambeau.tensor(1), flambeau.tensor(0.25)):
            assert flambeau.equal(flambeau.lerp(start, end, weight), flambeau.lerp(start, end, weight.item()))


OUTSIDE = [("uint8", -1.5), ("uint8", 255.5), ("int8", -128.5), ("int32", 3e9), ("int64", math.inf),
           ("int16", math.nan)]  # fmt: skip


@pytest.mark.parametrize(("dtype", "value"), OUTSIDE)
def test_numbers_that_integers_cannot_hold_are_refused(dtype, value):
    kind = getattr(flambeau, dtype)
    for write in (lambda: flambeau.tensor([value], dtype=kind), lambda: flambeau.full((2,), value, dtype=kind),
                  lambda: flambeau.zeros(2, dtype=kind).fill_(value)):
        with pytest.raises(RuntimeError, match=f"outside the range of {dtype}"):
            write()
    with pytest.raises(RuntimeError, match=f"outside the range of {dtype}"):
        flambeau.zeros(2, dtype=kind)[0] = value


def test_halves_take_what_is_too_large_as_infinite_where_it_is_assigned():
    x = flambeau.zeros(3, dtype=flambeau.float16)
    x[0] = -1e10
    x[flambeau.tensor([False, False, True])] = 70000
    assert x.tolist() == [-math.inf, 0, math.inf]
    with pytest.raises(RuntimeError, match="outside the range of float16"):
        x.fill_(70000)
