"""Pointwise operators in named cases: promotion, layouts of results, in-place and out= rules, integer division."""

import math
import operator

import numpy as np
import pytest

import flambeau
from flambeau.autograd import gradcheck

nan, inf = math.nan, math.inf


def t(values, dtype=None):
    return flambeau.tensor(values, dtype=dtype)


# --- promotion --------------------------------------------------------------------------------------------------------

@pytest.mark.parametrize(("left", "right", "result"), [
    (t([1], flambeau.int32), 2, flambeau.int32),                                  # a number never widens its category
    (t([1], flambeau.int32), 2.0, flambeau.float32),                              # but raises it
    (t([1], flambeau.uint8), True, flambeau.uint8),
    (t([True]), 1, flambeau.int64),
    (t([1.0], flambeau.float16), 1.5, flambeau.float16),
    (t([1.0], flambeau.float16), t(1.5, flambeau.float64), flambeau.float16),     # nor does a 0-d tensor
    (t([1], flambeau.int32), t(1.5, flambeau.float64), flambeau.float64),
    (t([1.0]), t([1.0], flambeau.float64), flambeau.float64),
    (t([1.0], flambeau.float16), t([1.0], flambeau.bfloat16), flambeau.float32),
    (t([1], flambeau.uint8), t([1], flambeau.int8), flambeau.int16),
    (t([1.0], flambeau.float64), 1j, flambeau.complex128),
    (t([1 + 1j]), t([1.0], flambeau.float64), flambeau.complex128),
])
def test_promotion(left, right, result):
    assert (left + right).dtype == result
    assert (right + left).dtype == result


def test_integers_become_default_floats_where_the_result_is_not_whole():
    x = t([1, 4])
    assert (x / 2).dtype == flambeau.float32
    assert flambeau.sqrt(x).tolist() == [1.0, 2.0]
    assert flambeau.div(x, 3, rounding_mode="floor").dtype == flambeau.int64
    assert flambeau.angle(t([1, -1])).dtype == flambeau.float32


@pytest.mark.parametrize("unsigned, signed, both", [
    ("uint8", "int8", "int16"), ("uint16", "int8", "int32"), ("uint16", "int16", "int32"), ("uint16", "int32", "int32"),
    ("uint32", "int32", "int64"), ("uint32", "int8", "int64"), ("uint32", "int64", "int64"),
])
def test_a_signed_type_holds_both_of_a_signed_and_an_unsigned_operand(unsigned, signed, both):
    most, least = flambeau.iinfo(getattr(flambeau, unsigned)).max, flambeau.iinfo(getattr(flambeau, signed)).min
    left, right = t([most], getattr(flambeau, unsigned)), t([least], getattr(flambeau, signed))
    assert (left + right).dtype == (right + left).dtype == getattr(flambeau, both)
    assert flambeau.maximum(left, right).item() == most and flambeau.minimum(right, left).item() == least


def test_no_type_holds_the_values_of_uint64_and_of_a_signed_type():
    with pytest.raises(RuntimeError, match="have no common dtype"):
        t([1], flambeau.uint64) + t([1], flambeau.int32)


def test_expm1_of_infinite_and_signed_complex_numbers():
    """The limits of exp(z) - 1, which C99 gives exp itself; PyTorch has NaN for all of them."""
    inf, nan = math.inf, math.nan
    z = t([complex(-inf, inf), complex(-inf, nan), complex(inf, inf), complex(inf, nan), complex(-0.0, 0.0)],
          flambeau.complex128)
    low, lower, high, higher, zero = flambeau.expm1(z).tolist()
    assert low == lower == -1
    assert high.real == higher.real == inf and math.isnan(high.imag) and math.isnan(higher.imag)
    assert zero == 0 and math.copysign(1, zero.real) == 1


# --- layout of results ------------------------------------------------------------------------------------------------

def test_results_keep_the_operands_order_of_dimensions():
    x = flambeau.arange(120.0).reshape(2, 4, 5, 3).permute(0, 3, 1, 2)  # channels last
    y = flambeau.arange(120.0).reshape(2, 3, 4, 5)
    assert (x + x).stride() == x.stride()
    assert x.exp().stride() == x.stride()
    assert (x + y).stride() == x.stride()
    assert (y + x).stride() == y.stride()
    assert (x * flambeau.ones(1, 3, 1, 1)).stride() == x.stride()
    assert (y.transpose(1, 2) + 1).stride() == y.transpose(1, 2).stride()


@pytest.mark.parametrize("rows", [2, 40, 300])
@pytest.mark.parametrize("columns", [3, 17, 600])
def test_every_access_pattern_of_two_operands(rows, columns):
    rng = np.random.default_rng(rows * columns)
    a, b = rng.standard_normal((rows, columns)), rng.standard_normal((columns, rows))
    x, y = flambeau.from_numpy(a), flambeau.from_numpy(b)
    np.testing.assert_array_equal((x + y.t()).numpy(), a + b.T)
    np.testing.assert_array_equal((x[::2, 1:] * x[::2, :-1]).numpy(), a[::2, 1:] * a[::2, :-1])
    np.testing.assert_array_equal((x + x[:1]).numpy(), a + a[:1])
    np.testing.assert_array_equal((x[:, :1] - x).numpy(), a[:, :1] - a)
    np.testing.assert_array_equal((x + y[:, 0]).numpy(), a + b[:, 0])
    np.testing.assert_array_equal((x.float() + y.t()).numpy(), a.astype(np.float32) + b.T)
    np.testing.assert_array_equal(flambeau.where(x > 0, x, y.t()).numpy(), np.where(a > 0, a, b.T))
    np.testing.assert_array_equal(flambeau.where(x[:, :1] > 0, x, 0.0).numpy(), np.where(a[:, :1] > 0, a, 0))
    np.testing.assert_array_equal(x.masked_fill(x[0] > 0, -1).numpy(), np.where(a[0] > 0, -1, a))
    np.testing.assert_array_equal(x.clamp(y.t(), 1.0).numpy(), np.minimum(np.maximum(a, b.T), 1))
    np.testing.assert_allclose(flambeau.addcmul(x, y.t(), x[:1]).numpy(), a + b.T * a[:1], atol=1e-14)


@pytest.mark.parametrize("channels", [2, 3, 16, 85, 128, 255, 300])
@pytest.mark.parametrize("threads", [1, 2, 3])
def test_operands_that_repeat_along_short_rows(channels, threads):
    """A vector per channel beside an image whose channels lie together, and one per place in a row."""
    rng = np.random.default_rng(channels)
    a, m, c = (rng.standard_normal(shape) for shape in ((40, 700 // channels, channels), (channels,), (channels,)))
    w = rng.standard_normal((a.shape[1], 1))
    x, mean, factor, wide = map(flambeau.from_numpy, (a, m, c, w))
    before = flambeau.get_num_threads()
    flambeau.set_num_threads(threads)
    try:
        for n in (1, 2):  # few elements, and enough for several threads
            image = x.repeat(3 * n, 1, 1).permute(2, 0, 1)
            seen = np.tile(a, (3 * n, 1, 1)).transpose(2, 0, 1)
            per_channel = mean.view(-1, 1, 1), m[:, None, None]
            np.testing.assert_array_equal((image - per_channel[0]).numpy(), seen - per_channel[1])
            np.testing.assert_array_equal((per_channel[0] / image).numpy(), per_channel[1] / seen)
            np.testing.assert_array_equal((image.float() - per_channel[0]).numpy(),
                                          seen.astype(np.float32) - per_channel[1])
            np.testing.assert_array_equal((image + wide[:, 0]).numpy(), seen + w[:, 0])
            np.testing.assert_array_equal(flambeau.where(per_channel[0] > 0, image, per_channel[0]).numpy(),
                                          np.where(per_channel[1] > 0, seen, per_channel[1]))
            np.testing.assert_allclose(
                flambeau.addcmul(image, factor.view(-1, 1, 1), wide[:, 0]).numpy(),
                seen + c[:, None, None] * w[:, 0], atol=1e-14)
            assert flambeau.equal(image.clone().sub_(per_channel[0]), image - per_channel[0])
            whole = (100 * image).to(flambeau.uint8)
            np.testing.assert_array_equal((whole * per_channel[0]).numpy(), whole.numpy() * per_channel[1])
    finally:
        flambeau.set_num_threads(before)


def test_large_work_is_cut_over_threads_without_changing_numbers():
    x = flambeau.arange(200_001.0) / 1000
    whole = flambeau.sin(x)
    threads = flambeau.get_num_threads()
    try:
        flambeau.set_num_threads(1)
        assert flambeau.equal(flambeau.sin(x), whole)
    finally:
        flambeau.set_num_threads(threads)


# --- in place and out= ------------------------------------------------------------------------------------------------

def test_in_place_keeps_dtype_and_shape():
    x = t([1, 2])
    with pytest.raises(RuntimeError, match="the result is float"):
        x.add_(1.5)
    with pytest.raises(RuntimeError, match="cannot grow to"):
        x.add_(flambeau.ones(3, 2, dtype=flambeau.int64))
    half = flambeau.ones(3, dtype=flambeau.float16)
    assert half.mul_(t([2.0, 3.0, 4.0])).dtype == flambeau.float16
    assert x.lt_(2).tolist() == [1, 0]


def test_out_is_resized_and_converted():
    out = flambeau.empty(0, dtype=flambeau.float64)
    assert flambeau.add(t([1.0, 2.0]), 1, out=out) is out
    assert out.tolist() == [2.0, 3.0]
    view = flambeau.zeros(2, 3).t()
    flambeau.mul(flambeau.ones(3, 2), 2, out=view)
    assert view.tolist() == [[2.0, 2.0]] * 3
    with pytest.raises(RuntimeError, match="cannot hold"):
        flambeau.div(t([1]), t([2]), out=flambeau.empty(1, dtype=flambeau.int64))


def test_writing_over_what_is_read():
    x = flambeau.arange(6.0)
    with pytest.raises(RuntimeError, match="shares memory with an input"):
        x[1:].add_(x[:-1])
    with pytest.raises(RuntimeError, match="written to share memory"):
        flambeau.zeros(1).expand(3).add_(1)
    assert x[::2].add_(x[1::2]).tolist() == [1.0, 5.0, 9.0]    # interleaved, no element shared
    square = flambeau.arange(9.0).reshape(3, 3)
    with pytest.raises(RuntimeError, match=r"shares? memory"):
        square.add_(square.t())
    array = np.arange(5.0)
    one, other = flambeau.from_numpy(array), flambeau.from_numpy(array)  # two tensors that know nothing of each other
    one[1:].copy_(other[:-1])
    assert array.tolist() == [0, 0, 1, 2, 3]
    with pytest.raises(RuntimeError, match="shares memory with an input"):
        one[1:].add_(other[:-1])


def test_functional_inplace_flag():
    functional = flambeau.nn.functional
    for name in ("relu", "elu", "selu", "celu", "leaky_relu", "hardtanh", "hardswish", "silu", "mish", "relu6"):
        x = t([-1.0, 0.5, 8.0])
        expected = getattr(functional, name)(x)
        assert getattr(functional, name)(x, inplace=True) is x, name
        assert x.tolist() == expected.tolist(), name


# --- whole numbers ----------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("divide", [lambda a, b: a // b, lambda a, b: a % b, flambeau.fmod,
                                    lambda a, b: flambeau.div(a, b, rounding_mode="trunc")])
def test_division_of_integers_by_zero_is_an_error(divide):
    with pytest.raises(RuntimeError, match="ZeroDivisionError"):
        divide(t([1, 2]), t([1, 0]))
    with pytest.raises(RuntimeError, match="ZeroDivisionError"):  # raised in one of several threads
        divide(flambeau.ones(300_000, dtype=flambeau.int64), 0)


def test_rounding_of_quotients():
    x, y = t([7, -7, 7, -7]), t([2, 2, -2, -2])
    assert (x // y).tolist() == [3, -4, -4, 3]
    assert (x % y).tolist() == [1, 1, -1, -1]
    assert flambeau.fmod(x, y).tolist() == [1, -1, 1, -1]
    assert flambeau.div(x, y, rounding_mode="trunc").tolist() == [3, -3, -3, 3]
    for whole, real in ((x, x.double()), (y, y.double())):
        assert (real // y.double()).tolist() == (whole // y).tolist()
        assert (real % y.double()).tolist() == (whole % y).tolist()
    assert flambeau.div(t(1e30), t(3.0), rounding_mode="floor").item() == pytest.approx(1e30 / 3)
    assert flambeau.fmod(t(1e30, flambeau.float64), 7.0).item() == math.fmod(1e30, 7.0)
    assert (t([5.0, -5.0, inf]) % t([inf, inf, 2.0])).tolist()[0] == 5.0


def test_integer_arithmetic_wraps():
    smallest = -2**63
    assert (t([2**63 - 1]) + 1).tolist() == [smallest]
    assert (t([smallest]) // -1).tolist() == [smallest]
    assert (t([smallest]) % -1).tolist() == [0]
    assert (-t([-128], flambeau.int8)).tolist() == [-128]
    assert (t([200], flambeau.uint8) * 2).tolist() == [144]
    assert (t([3]) ** 41).tolist() == [(3**41 + 2**63) % 2**64 - 2**63]
    assert (t([1, -1, 2]) ** t([-1, -1, -1])).tolist() == [1, -1, 0]
    with pytest.raises(RuntimeError, match="is no integer"):
        t([2]) ** -1


def test_shifts_beyond_the_width():
    assert (t([1, -1]) << 70).tolist() == [0, 0]
    assert (t([1, -1]) >> 70).tolist() == [0, -1]
    assert (t([1], flambeau.int8) << 7).tolist() == [-128]


# --- refusals ---------------------------------------------------------------------------------------------------------

@pytest.mark.parametrize(("call", "message"), [
    (lambda: t([True]) - t([True]), "not defined between booleans"),
    (lambda: -t([True]), "not defined for booleans"),
    (lambda: flambeau.add(t([1]), 1, alpha=1.5), "alpha must be an integer"),
    (lambda: flambeau.div(t([1.0]), 2, rounding_mode="round"), "rounding_mode"),
    (lambda: flambeau.nn.functional.gelu(t([1.0]), approximate="fast"), "approximate"),
    (lambda: t([1.0]).clamp(), "neither min nor max"),
    (lambda: t([1j]) < t([1j]), "not implemented"),
    (lambda: t([1.0]) & t([1.0]), "not implemented"),
    (lambda: flambeau.ones(2, 3) + flambeau.ones(4, 3), "do not broadcast: dimension 0 has sizes 2 and 4"),
    (lambda: flambeau.where(t([1, 0]), 1.0, 2.0), "bool"),
    (lambda: flambeau.zeros(2).masked_fill(t([True, False]), flambeau.ones(2)), "without dimensions"),
])
def test_refusals(call, message):
    with pytest.raises(RuntimeError, match=message):
        call()


# --- values at the edges ----------------------------------------------------------------------------------------------

@pytest.mark.parametrize("dtype", [flambeau.float32, flambeau.float64])
def test_powers_that_ieee_names(dtype):
    base = t([0.0, -0.0, 0.0, inf, -inf, -inf, -1.0, 1.0, nan, -8.0, -2.0, -2.0, 2.0, -0.0, -inf], dtype)
    power = t([0.0, -3.0, -2.0, -1.0, 3.0, -3.0, inf, nan, 0.0, 1 / 3, 3.0, 2.0, -inf, 3.0, 2.5], dtype)
    with np.errstate(all="ignore"):
        expected = np.power(base.numpy(), power.numpy())
    found = (base ** power).numpy()
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    np.testing.assert_array_equal(np.signbit(found)[~np.isnan(expected)], np.signbit(expected)[~np.isnan(expected)])


@pytest.mark.parametrize("name", ["exp", "expm1", "log", "log1p", "log2", "sin", "cos", "tan", "tanh", "sinh", "cosh",
                                  "arcsin", "arccos", "arctan", "arcsinh", "arccosh", "arctanh", "exp2", "log10"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_elementary_functions_to_a_few_units_of_the_last_place(name, dtype):
    rng = np.random.default_rng(0)
    span = {"exp": 87, "expm1": 80, "exp2": 120, "sinh": 80, "cosh": 80}.get(name, 30.0)
    x = np.concatenate([rng.uniform(-span, span, 3000), rng.uniform(-1, 1, 3000), rng.uniform(-1e-3, 1e-3, 500),
                        [1e5, -3e5, 1e9, 0.0, -0.0, inf, -inf, nan]]).astype(dtype)
    with np.errstate(all="ignore"):
        expected = getattr(np, name)(x.astype(np.longdouble)).astype(dtype)
        found = getattr(flambeau, name)(flambeau.from_numpy(x)).numpy()
        np.testing.assert_allclose(found, expected, rtol=4 * np.finfo(dtype).eps, atol=np.finfo(dtype).tiny)


@pytest.mark.parametrize("name", ["exp", "exp2", "special.bessel_j0", "special.bessel_j1"])
@pytest.mark.parametrize("dtype", [flambeau.float32, flambeau.float64])
def test_numbers_far_from_zero_do_not_change_their_neighbours(name, dtype):
    function = operator.attrgetter(name)(flambeau)
    x = flambeau.linspace(-5, 5, 1500, dtype=dtype)
    near = function(x)
    for place, far in ((3, 95.5), (700, -110.0), (701, inf), (1499, -1030.25), (1400, nan)):
        x[place] = far
        found = function(x)
        assert flambeau.equal(found[place:place + 1].nan_to_num(7), function(x[place:place + 1]).nan_to_num(7))
        near[place] = found[place]
        assert flambeau.equal(found.nan_to_num(7), near.nan_to_num(7))


def test_extrema_and_nan():
    x, y = t([nan, 1.0, 1.0]), t([1.0, nan, 2.0])
    assert str(flambeau.maximum(x, y).tolist()) == "[nan, nan, 2.0]"
    assert flambeau.fmax(x, y).tolist() == [1.0, 1.0, 2.0]
    assert str(t([nan, 3.0]).clamp(0, 1).tolist()) == "[nan, 1.0]"
    assert t([5.0]).clamp(2, 1).tolist() == [1.0]  # the upper bound wins
    assert str(flambeau.relu(t([nan, -1.0])).tolist()) == "[nan, 0.0]"


def test_halves_compute_in_float32_and_round_once():
    x = t([1.0, 2.0, 3.0], flambeau.bfloat16)
    assert (x / 3).tolist() == (x.float() / 3).bfloat16().tolist()
    assert flambeau.nan_to_num(t([inf], flambeau.float16)).tolist() == [65504.0]


def test_gradients_at_ties_and_bounds():
    x = t([1.0, 2.0], None).requires_grad_()
    flambeau.maximum(x, t([1.0, 5.0])).sum().backward()
    assert x.grad.tolist() == [0.5, 0.0]
    y = t([-1.0, 0.0, 1.0, 2.0]).requires_grad_()
    y.clamp(0, 1).sum().backward()
    assert y.grad.tolist() == [0.0, 1.0, 1.0, 0.0]
    z = t([-1.0, 0.0, 2.0]).requires_grad_()
    flambeau.relu(z).sum().backward()
    assert z.grad.tolist() == [0.0, 0.0, 1.0]
    w = t([0.0, 2.0]).requires_grad_()
    (w ** 0).sum().backward()
    assert w.grad.tolist() == [0.0, 0.0]


# --- copies -----------------------------------------------------------------------------------------------------------

DTYPES = [flambeau.bool, flambeau.uint8, flambeau.int8, flambeau.int16, flambeau.int32, flambeau.int64,
          flambeau.float16,
          flambeau.bfloat16, flambeau.float32, flambeau.float64, flambeau.complex64, flambeau.complex128]


@pytest.mark.parametrize("source", DTYPES, ids=str)
@pytest.mark.parametrize("target", DTYPES, ids=str)
def test_conversions(source, target):
    x = t([0, 1, 2, 3, 100, 0, 7] * 3, flambeau.int64).to(source)
    plain = x.to(flambeau.complex128).tolist()
    found = x.to(target).to(flambeau.complex128).tolist()
    assert found == ([complex(v != 0) for v in plain] if target == flambeau.bool else plain)
    assert x[::3].to(target).to(flambeau.complex128).tolist() == found[::3]


@pytest.mark.parametrize("shape", [(3, 5), (64, 64), (33, 130), (7, 31, 18)])
def test_transposed_copies(shape):
    a = np.arange(np.prod(shape)).reshape(shape)
    for dtype in (np.int8, np.int16, np.float32, np.float64, np.complex128):
        x = flambeau.from_numpy(a.astype(dtype))
        np.testing.assert_array_equal(x.transpose(0, -1).contiguous().numpy(), a.astype(dtype).swapaxes(0, -1))


def test_copies_between_overlapping_views_read_first():
    x = flambeau.arange(5)
    x[1:] = x[:-1]
    assert x.tolist() == [0, 0, 1, 2, 3]


def test_isin():
    a, b = np.array([[1, 5, 2], [7, 2, 9]]), np.array([2, 9, 4])
    x, y = flambeau.from_numpy(a), flambeau.from_numpy(b)
    assert flambeau.isin(x, y).tolist() == np.isin(a, b).tolist()
    assert flambeau.isin(x, y, invert=True).tolist() == np.isin(a, b, invert=True).tolist()
    assert flambeau.isin(x, 2).tolist() == (a == 2).tolist()
    assert flambeau.isin(9, y).item() is True
    assert flambeau.isin(x, y[:0]).tolist() == [[False] * 3] * 2


def test_special_namespace():
    scipy_special = pytest.importorskip("scipy.special")
    x = np.linspace(0.1, 4, 20)
    for name in ("psi", "gammaln", "erfcx", "ndtr", "log_ndtr", "i0e", "i1", "entr", "expit"):
        found = getattr(flambeau.special, name)(flambeau.from_numpy(x)).numpy()
        np.testing.assert_allclose(found, getattr(scipy_special, name)(x), rtol=1e-10, atol=1e-12)
    for n in (0, 1, 2, 3, 5):
        found = flambeau.special.polygamma(n, flambeau.from_numpy(x)).numpy()
        np.testing.assert_allclose(found, scipy_special.polygamma(n, x), rtol=1e-10)
    found = flambeau.mvlgamma(flambeau.from_numpy(x + 2), 3).numpy()
    np.testing.assert_allclose(found, [scipy_special.multigammaln(v + 2, 3) for v in x], rtol=1e-10)


HUGE = 2**63


@pytest.mark.parametrize("dtype", [flambeau.float32, flambeau.float64, flambeau.complex64], ids=str)
def test_integers_of_64_bits_keep_their_sign(dtype):
    x = t([1, 2], dtype=dtype)
    for found, expected in [(x + HUGE, x + float(HUGE)), (HUGE - x, float(HUGE) - x), (x * HUGE, x * float(HUGE)),
                            (x / HUGE, x / float(HUGE)), (x.clone().fill_(HUGE), flambeau.full_like(x, float(HUGE))),
                            (flambeau.full((2,), HUGE, dtype=dtype), flambeau.full_like(x, float(HUGE))),
                            (flambeau.where(x != 1, x, HUGE), t([float(HUGE), 2], dtype=dtype)),
                            (flambeau.add(x, x, alpha=HUGE), x + x * float(HUGE)),
                            (t([3, 4]) / HUGE, t([3, 4]) / 2.0**63)]:
        assert flambeau.equal(found, expected), (found, expected)


def test_huge_integers_order():
    x = t([1.0, 2.0])
    assert (x < HUGE).all() and not (x >= HUGE).any() and not (x == HUGE).any()
    assert x.clamp(max=HUGE).tolist() == [1, 2] and (x % HUGE).tolist() == [1, 2] and (x // HUGE).tolist() == [0, 0]
    assert flambeau.arange(0.0, HUGE, 2**62).tolist() == [0, 2.0**62]
    assert flambeau.linspace(0, HUGE, 2).tolist() == [0, 2.0**63]


def test_huge_integers_beside_integers_wrap_where_arithmetic_is_modular_and_are_refused_elsewhere():
    x = t([1, 2])
    assert (x + HUGE).tolist() == [1 - HUGE, 2 - HUGE] and (x * 0x9E3779B97F4A7C15)[0] == 0x9E3779B97F4A7C15 - 2**64
    u = x.to(flambeau.uint64)
    assert (u + HUGE).tolist() == (u | HUGE).tolist() == [HUGE + 1, HUGE + 2] and (u < HUGE).all()
    for call in (lambda: x.clone().fill_(HUGE), lambda: x.clamp(max=HUGE), lambda: flambeau.where(x == 1, x, HUGE),
                 lambda: x < HUGE, lambda: x % HUGE, lambda: x // HUGE, lambda: flambeau.full((2,), HUGE),
                 lambda: x.masked_fill(x == 1, HUGE), lambda: (x == 1) + HUGE, lambda: flambeau.arange(HUGE, HUGE + 2)):
        with pytest.raises(RuntimeError, match=r"does not fit|outside the range"):
            call()


@pytest.mark.parametrize("dtype", [flambeau.bool, flambeau.int64], ids=str)
def test_rrelu_draws_floating_point_slopes_only(dtype):
    with pytest.raises(NotImplementedError, match="rrelu: not implemented for"):
        flambeau.rrelu(flambeau.ones(3, dtype=dtype), training=True)


@pytest.mark.parametrize("dtype", [flambeau.float32, flambeau.float64, flambeau.float16, flambeau.bfloat16])
def test_angle_of_real_numbers_is_pi_below_zero_only(dtype):
    found = flambeau.angle(t([-0.0, 0.0, -1.0, 1.0, -inf], dtype)).tolist()
    pi = flambeau.tensor(math.pi, dtype=dtype).item()
    assert found == [0, 0, pi, 0, pi]


def test_logit_with_bounds_the_wrong_way_round():
    x = flambeau.tensor([0.1, 0.4, 0.8, -1.0, 2.0, nan], requires_grad=True)
    y = x.logit(eps=0.7)
    log = math.log(7 / 3)
    assert y[:-1].tolist() == pytest.approx([log, log, -log, log, -log]) and y[-1].isnan()
    y[:-1].sum().backward()
    assert x.grad[:-1].tolist() == [0] * 5


@pytest.mark.parametrize("dtype", [flambeau.float16, flambeau.bfloat16])
def test_halves_in_registers_are_float32_rounded_once(dtype):
    special = flambeau.tensor([0.0, -0.0, 1.0, -1.0, float("nan"), float("inf"), -float("inf"), 6e-8, -6e-8, 6e4])
    for n in (1, 7, 8, 9, 16, 31, 1000):
        a, b = flambeau.randn(n).to(dtype), flambeau.randn(n).to(dtype)
        a[:10], b[-10:] = special[:min(n, 10)].to(dtype), special[:min(n, 10)].to(dtype)
        for f in (lambda x, y: x + y, lambda x, y: x - y, lambda x, y: x * y, lambda x, y: x + y[0],
                  lambda x, y: x[0] * y, lambda x, y: x.sub(y, alpha=2), lambda x, y: x.relu(), lambda x, y: -x,
                  lambda x, y: x.abs(), lambda x, y: x * 1.7, lambda x, y: 0.3 * y, lambda x, y: 1.1 - x,
                  lambda x, y: x + True, lambda x, y: x.sub(0.1, alpha=3), lambda x, y: x * 70000):
            found, right = f(a, b).float(), f(a.float(), b.float()).to(dtype).float()
            assert flambeau.equal(found.nan_to_num(7), right.nan_to_num(7))
            assert flambeau.equal(found.signbit() | found.isnan(), right.signbit() | right.isnan())


def test_rows_in_their_place():
    """Rows that the loop reads where they are: parts of rows, operands that repeat, numbers beside three operands."""
    x = flambeau.arange(2 * 600 * 64.0).reshape(2, 600, 64) / 1000
    part, other, row, column = x[..., :32], x[..., 32:], x[0, 0, :32], x[..., :1]
    a, b = part.numpy(), other.numpy()
    for found, expected in ((part + other, a + b), (part * row, a * row.numpy()), (part - column, a - column.numpy()),
                            (other.lerp(part, 0.5), (a + b) / 2), (part.addcmul(other, row, value=2),
                                                                   a + 2 * b * row.numpy())):
        np.testing.assert_allclose(found.numpy(), expected, rtol=1e-6)
    out = flambeau.zeros(2, 600, 64)
    flambeau.mul(part, 2, out=out[..., 32:])
    np.testing.assert_array_equal(out.numpy(), np.concatenate([a * 0, a * 2], -1))
    wide, short = flambeau.arange(12.0).reshape(4, 3), flambeau.arange(3.0)
    assert wide.lerp(short, 0.5).tolist() == ((wide + short) / 2).tolist()


@pytest.mark.parametrize("base", (-2.0, 2.0, -1))
def test_complex_powers_of_real_numbers_have_gradients(base):
    exponent = flambeau.tensor([1 + 2j, -0.5j, 2], dtype=flambeau.complex128, requires_grad=True)
    assert gradcheck(lambda e: flambeau.pow(base, e), (exponent,))
    base = flambeau.tensor(float(base), dtype=flambeau.float64, requires_grad=True)
    assert gradcheck(flambeau.pow, (base, exponent))


def test_clamp_of_bools():
    x, low = flambeau.tensor([True, False, False]), flambeau.tensor([False, True, False])
    assert flambeau.clamp(x, low).tolist() == flambeau.clamp_min(x, low).tolist() == [True, True, False]
    assert flambeau.clamp(x, max=low).tolist() == flambeau.clamp_max(x, low).tolist() == [False, False, False]
    assert x.clamp(min=True).dtype is flambeau.bool
    assert x.clamp(0, 1).dtype is flambeau.int64


def test_a_tensor_that_requires_grad_is_no_number():
    """Its gradient would be lost without a word."""
    x, w = flambeau.ones(2), flambeau.tensor(2.0, requires_grad=True)
    for call in (lambda: x.addcmul(x, x, value=w), lambda: flambeau.full((2,), w), lambda: flambeau.isclose(x, x, w)):
        with pytest.raises(TypeError, match="requires grad cannot be a number"):
            call()
        with flambeau.no_grad():
            call()


@pytest.mark.parametrize("name", ["addcmul", "addcdiv"])
def test_a_complex_value_needs_complex_tensors(name):
    x = flambeau.ones(2)
    with pytest.raises(RuntimeError, match="must be real"):
        getattr(flambeau, name)(x, x, x, value=1j)
    assert getattr(flambeau, name)(x + 0j, x, x, value=1j).tolist() == [1 + 1j, 1 + 1j]


@pytest.mark.parametrize(("function", "slope"), [
    (lambda x: 3 ** x, 3 ** 1.7 * math.log(3)),
    (lambda x: flambeau.xlogy(x, 3), math.log(3)),
    (lambda x: flambeau.special.xlog1py(x, 3), math.log(4)),
    (lambda x: flambeau.tensor(3) ** x, 3 ** 1.7 * math.log(3)),
    (lambda x: x ** True, 1.0),
])
def test_gradients_beside_whole_numbers_have_all_digits(function, slope):
    x = t(1.7, flambeau.float64).requires_grad_()
    grad, = flambeau.autograd.grad(function(x), x)
    assert abs(grad.item() - slope) < 1e-14 * slope


def test_nan_lies_between_no_bounds():
    for low, high in ((-1, 1), (-1, None), (None, 1), (t([nan, -1.0, -1.0]), None), (-1, t([nan, 1.0, 1.0]))):
        x = t([0.5, nan, 0.5]).requires_grad_()
        of_bounds = isinstance(low, flambeau.Tensor) or isinstance(high, flambeau.Tensor)
        grad, = flambeau.autograd.grad(x.clamp(low, high).sum(), x)
        assert grad.tolist() == [0.0 if of_bounds else 1.0, 0.0, 1.0]


def test_logit_has_a_slope_between_0_and_1_only():
    x = t([-0.5, 0.25, 1.5]).requires_grad_()
    grad, = flambeau.autograd.grad(flambeau.logit(x).sum(), x)
    assert math.isnan(grad[0])
    assert abs(grad[1] - 1 / (0.25 * 0.75)) < 1e-5
    assert math.isnan(grad[2])


@pytest.mark.parametrize("name", ["relu", "relu6", "hardtanh", "leaky_relu", "hardshrink", "softshrink", "rrelu"])
def test_the_second_derivative_of_what_is_piecewise_linear_is_0(name):
    x = t([-7.0, -0.2, 0.3, 7.0]).requires_grad_()
    slope, = flambeau.autograd.grad(getattr(flambeau.nn.functional, name)(x).sum(), x, create_graph=True)
    assert flambeau.autograd.grad(slope.sum(), x)[0].tolist() == [0.0] * 4
