"""Reductions and scans: NaN, ties, empty input, dtypes, accuracy, strides; the number of threads changes nothing."""

import numpy as np
import pytest

import flambeau
from flambeau.autograd import gradcheck
from flambeau.testing import assert_close

NAN, INF = float("nan"), float("inf")
SHAPES = [(7,), (40, 70), (33, 1500), (1500, 33), (2, 9, 8, 7)]


def array(shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape)


def layouts(a):
    """The same numbers in several memory orders, each with its NumPy twin."""
    x = flambeau.from_numpy(a)
    yield x, a
    if a.ndim == 2:
        yield x.t(), a.T
        yield x[:, ::2], a[:, ::2]
    if a.ndim == 4:
        yield x.permute(0, 2, 3, 1), a.transpose(0, 2, 3, 1)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("name", ["sum", "mean", "amax", "amin", "argmax", "argmin", "var", "any", "all", "cumsum"])
def test_against_numpy_in_every_layout(name, shape):
    for x, a in layouts(array(shape)):
        for dim in range(a.ndim):
            extra = {"ddof": 1} if name == "var" else {}
            expected = getattr(np, name)(a, axis=dim, **extra)
            np.testing.assert_allclose(getattr(x, name)(dim).numpy(), expected, rtol=1e-10, atol=1e-12)
        if name not in ("argmax", "argmin", "cumsum") and a.ndim > 1:
            dims = (0, a.ndim - 1)
            found = getattr(x, name)(dims, keepdim=True)
            expected = getattr(np, name)(a, axis=dims, keepdims=True, **extra)
            np.testing.assert_allclose(found.numpy(), expected, rtol=1e-10)


def test_results_do_not_depend_on_threads():
    x = flambeau.from_numpy(array((300, 1700)).astype(np.float32))
    calls = [lambda: x.sum(), lambda: x.sum(0), lambda: x.sum(1), lambda: x.var(0), lambda: x.logsumexp(0),
             lambda: x.norm(), lambda: x.softmax(0), lambda: x.t().sum(0), lambda: x.cumsum(1), lambda: x.prod(1)]
    before = flambeau.get_num_threads()
    try:
        results = []
        for threads in (1, 2, 3):
            flambeau.set_num_threads(threads)
            results.append([call().numpy().tobytes() for call in calls])
    finally:
        flambeau.set_num_threads(before)
    assert results[0] == results[1] == results[2]


def test_sum_of_many_floats_is_accurate():
    a = array((1 << 20,)).astype(np.float32) + np.float32(1000)
    exact = a.astype(np.float64).sum()
    assert abs(flambeau.from_numpy(a).sum().item() - exact) <= 1e-7 * exact
    tall = flambeau.from_numpy(a.reshape(-1, 4)).sum(0).numpy()
    np.testing.assert_allclose(tall, a.astype(np.float64).reshape(-1, 4).sum(0), rtol=1e-7)


def test_halves_accumulate_in_float32():
    x = flambeau.ones(5000, dtype=flambeau.float16)
    assert x.sum().item() == 5000 and x.sum().dtype == flambeau.float16
    assert x.to(flambeau.bfloat16).mean().item() == 1


def test_integers_sum_in_int64():
    x = flambeau.full((300,), 100, dtype=flambeau.uint8)
    assert x.sum().dtype == flambeau.int64 and x.sum().item() == 30000
    assert (x > 0).sum().item() == 300
    assert x.sum(dtype=flambeau.float32).dtype == flambeau.float32
    assert flambeau.tensor([2 ** 62, 2 ** 62]).sum().item() == -(2 ** 63)  # wraps


def test_nan_wins_and_first_of_equals_is_found():
    x = flambeau.tensor([1.0, NAN, 3.0, NAN])
    assert x.max().isnan() and x.amin().isnan() and x.argmax().item() == 1
    y = flambeau.tensor([[2.0, 5.0, 5.0], [1.0, 1.0, 0.0]])
    assert y.argmax(1).tolist() == [1, 0] and y.max(0).indices.tolist() == [0, 0, 0]
    assert flambeau.tensor([0.0, 7.0] * 900).argmax().item() == 1
    assert flambeau.tensor([1, 3, 3]).cummax(0).indices.tolist() == [0, 1, 2]


@pytest.mark.parametrize("dtype", ["uint8", "int32", "int64", "uint64", "float32", "float64", "bfloat16"])
def test_places_of_extremes_are_found_anywhere_in_a_row(dtype):
    """Rows are searched many elements at once; the first of equal ones counts, in the last few elements too."""
    for width in (1, 7, 31, 129, 300):
        x = flambeau.ones(width, width, dtype=getattr(flambeau, dtype))
        for shift in (0, 5):  # a second one behind the first
            x[flambeau.arange(width), flambeau.arange(width).add(shift).clamp(max=width - 1)] = 3
        assert x.argmax(1).tolist() == x.max(1).indices.tolist() == list(range(width))
        assert x.argmin(1).tolist() == [int(k == 0 and width > 1) for k in range(width)]


def test_gradient_of_extremes():
    x = flambeau.tensor([1.0, 3.0, 3.0], requires_grad=True)
    x.max().backward()
    assert x.grad.tolist() == [0, 0.5, 0.5]
    x.grad = None
    x.max(0).values.backward()
    assert x.grad.tolist() == [0, 1, 0]


def test_empty_input():
    none, rows = flambeau.zeros(0), flambeau.zeros(0, 3)
    assert none.sum().item() == 0 and none.prod().item() == 1 and none.mean().isnan() and none.std().isnan()
    assert rows.sum(0).tolist() == [0, 0, 0] and rows.sum(1).shape == (0,) and not none.any() and none.all()
    assert rows.logsumexp(0).tolist() == [-INF] * 3
    message = ": a tensor without elements has no such value"
    with pytest.raises(RuntimeError, match=message):
        none.max()
    with pytest.raises(IndexError, match=": a tensor without elements has no such value"):
        none.argmax()
    for call in (lambda: rows.max(0), lambda: rows.amax(0), lambda: rows.median(0)):
        with pytest.raises(IndexError, match="dim 0 has size 0, so there is nothing to reduce"):
            call()


def test_bad_arguments():
    x = flambeau.zeros(2, 3)
    with pytest.raises(IndexError, match="is out of range for"):
        x.sum(2)
    with pytest.raises(RuntimeError, match="is given twice"):
        x.sum((0, -2))
    with pytest.raises(RuntimeError, match="the mean of"):
        flambeau.tensor([1, 2]).mean()
    with pytest.raises(RuntimeError, match="complex numbers have no order"):
        x.to(flambeau.complex64).max()


def test_forms_of_variance():
    x = flambeau.from_numpy(array((4, 5)))
    a = x.numpy()
    for found, ddof, axis in ((x.var(), 1, None), (x.var(False), 0, None), (x.var(0, False), 0, 0),
                              (x.var(unbiased=False), 0, None),
                              (x.var(1, correction=2), 2, 1), (x.var(dim=(0, 1)), 1, None)):
        np.testing.assert_allclose(found.numpy(), a.var(axis=axis, ddof=ddof))
    std, mean = flambeau.std_mean(x, 1, keepdim=True)
    np.testing.assert_allclose(std.numpy(), a.std(1, ddof=1, keepdims=True))
    np.testing.assert_allclose(mean.numpy(), a.mean(1, keepdims=True))
    assert flambeau.ones(1).std().isnan()


@pytest.mark.parametrize("p", [0, 0.5, 1, 2, 3, INF, -INF])
def test_norms(p):
    a = array((6, 40))
    for dim in (None, 0, 1):
        expected = np.linalg.norm(a.reshape(-1) if dim is None else a, p, axis=dim)
        np.testing.assert_allclose(flambeau.from_numpy(a).norm(p, dim).numpy(), expected, rtol=1e-10)


def test_gradient_of_products_with_zeros():
    x = flambeau.tensor([[2.0, 0.0, 3.0], [0.0, 0.0, 5.0]], requires_grad=True)
    x.prod(1).sum().backward()
    assert x.grad.tolist() == [[0, 6, 0], [0, 0, 0]]
    y = flambeau.tensor([2.0, 0.0, 3.0], requires_grad=True)
    y.cumprod(0).sum().backward()
    assert y.grad.tolist() == [1, 8, 0]


@pytest.mark.parametrize("interpolation", ["linear", "lower", "higher", "nearest", "midpoint"])
def test_quantiles(interpolation):
    a, q = array((6, 5)), np.array([0.1, 0.5, 0.77])
    found = flambeau.from_numpy(a).quantile(flambeau.from_numpy(q), 1, interpolation=interpolation)
    np.testing.assert_allclose(found.numpy(), np.quantile(a, q, axis=1, method=interpolation))
    holes = np.where(a > 1, np.nan, a)
    found = flambeau.from_numpy(holes).nanquantile(0.4, 0, keepdim=True, interpolation=interpolation)
    np.testing.assert_allclose(found.numpy(), np.nanquantile(holes, 0.4, axis=0, keepdims=True, method=interpolation))


@pytest.mark.parametrize("interpolation", ["linear", "lower", "midpoint"])
def test_gradients_of_quantiles(interpolation):
    x = flambeau.from_numpy(array((4, 5))).requires_grad_()
    q = flambeau.tensor([0.1, 0.6], dtype=flambeau.float64, requires_grad=interpolation == "linear")
    for dim in (0, -1, None):
        for keepdim in (False, True):
            assert gradcheck(lambda x, q, d=dim, k=keepdim: x.quantile(q, d, k, interpolation=interpolation), (x, q))
    holes = x.detach().clone()
    holes[1, 2] = NAN
    holes.requires_grad_()
    holes.nanquantile(0.5, 1).sum().backward()
    assert holes.grad.sum(1).tolist() == [1, 1, 1, 1] and holes.grad[1, 2] == 0


def test_logcumsumexp_is_stable():
    x = flambeau.tensor([1000.0, 1000.0, -INF])
    assert_close(x.logcumsumexp(0), flambeau.tensor([1000.0, 1000.6931, 1000.6931]))
    assert_close(flambeau.cumulative_trapezoid(flambeau.tensor([1.0, 2.0, 4.0])), flambeau.tensor([1.5, 4.5]))


def test_long_sums_are_the_same_on_any_number_of_threads():
    """Long rows are summed in parts of one length, whatever the number of threads."""
    generator = np.random.default_rng(0)
    x = generator.standard_normal((2, 100003)).astype(np.float32)
    n = generator.integers(-2**62, 2**62, 70001)
    before, found = flambeau.get_num_threads(), []
    try:
        for threads in (1, 2, 3):
            flambeau.set_num_threads(threads)
            t = flambeau.from_numpy(x)
            sums = t.cumsum(1), t.bfloat16().cumsum(1).float(), flambeau.from_numpy(n).cumsum(0)
            found.append([a.numpy() for a in sums])
    finally:
        flambeau.set_num_threads(before)
    for others in found[1:]:
        for a, b in zip(found[0], others, strict=True):
            np.testing.assert_array_equal(a, b)
    np.testing.assert_allclose(found[0][0], np.cumsum(x.astype(np.float64), 1), rtol=1e-6, atol=1e-5)
    np.testing.assert_array_equal(found[0][2], np.cumsum(n))
    x[0, 40000], x[0, 60000] = np.inf, -np.inf
    with np.errstate(invalid="ignore"):
        expected = np.cumsum(x[0].astype(np.float64))
    np.testing.assert_allclose(flambeau.from_numpy(x[0].copy()).cumsum(0).numpy(), expected, rtol=1e-6, atol=1e-5)


@pytest.mark.parametrize("dtype", [flambeau.bfloat16, flambeau.float16])
@pytest.mark.parametrize("n", [1, 7, 8, 15, 31, 33, 100, 1000])
def test_sums_of_halves_add_as_those_of_floats(n, dtype):
    x = flambeau.rand(3, n, generator=flambeau.Generator().manual_seed(n)).to(dtype)
    for f in (lambda v: v.sum(), lambda v: v.sum(1), lambda v: v.mean(1), lambda v: v.sum(0), lambda v: v.t().sum()):
        assert flambeau.equal(f(x), f(x.float()).to(dtype))


@pytest.mark.parametrize("shape", [(3, 5), (400, 300), (40, 3), (100000,)])
def test_aminmax_is_amin_and_amax(shape):
    x = flambeau.rand(shape, generator=flambeau.Generator().manual_seed(1)) - 0.5
    for options in ({}, {"dim": 0}, {"dim": -1}):
        low, high = x.aminmax(**options)
        assert flambeau.equal(low, x.amin(**options)) and flambeau.equal(high, x.amax(**options))
    x.view(-1)[5] = float("nan")
    assert all(v.isnan() for v in x.aminmax())


def test_prod_of_floats_leaves_their_range_on_the_way():
    assert flambeau.tensor([1e30] * 20 + [1e-30] * 20).prod().item() == pytest.approx(1, rel=1e-4)
    assert flambeau.tensor([1e-20, 1e-20]).prod().item() == pytest.approx(1e-40, rel=1e-4)
    x = flambeau.linspace(0.5, 1.5, 4099)
    assert x.prod().item() == pytest.approx(float(np.prod(x.double().numpy())), rel=1e-3)


@pytest.mark.parametrize("n", [31, 32, 33, 63, 64, 65, 200, 4095, 4096, 4097, 9000])
def test_prod_keeps_signs_zeros_infinities_and_small_numbers(n):
    x = flambeau.rand(3, n, generator=flambeau.Generator().manual_seed(n)) * 0.02 + 0.99
    x[:, ::3] *= -1
    assert_close(x.prod(1), x.double().prod(1).float(), rtol=1e-4, atol=0)
    x[0, n // 2], x[1, 0], x[2, -1] = 0, INF, NAN
    assert x.prod(1)[0] == 0 and x.prod(1)[1].isinf() and x.prod(1)[2].isnan()
    assert (x.prod(1)[1] < 0) == (x[1].sign().prod() < 0)
    x[0, 1] = INF
    assert x.prod(1)[0].isnan()
    x = flambeau.ones(n)
    x[0], x[n // 2] = 1e-40, 2.5  # no normal number
    assert x.prod().item() == pytest.approx(2.5e-40, rel=1e-4)


@pytest.mark.parametrize("dtype", [flambeau.float32, flambeau.float64, flambeau.bfloat16, flambeau.float16,
                                   flambeau.int64, flambeau.uint8, flambeau.bool, flambeau.complex64], ids=str)
@pytest.mark.parametrize("length", [1, 2, 3, 4, 5, 7, 8, 16, 17])
def test_many_short_rows(length, dtype):
    """Which are turned, and reduced as columns: each result is that of its row alone."""
    x = (flambeau.rand(2, 531, length, generator=flambeau.Generator().manual_seed(length)) * 5 - 2).to(dtype)
    ops = {"sum": {}, "prod": {}, "any": {}, "all": {}}
    if not dtype.is_complex:
        ops |= {"amax": {}, "amin": {}, "argmax": {}, "argmin": {}, "aminmax": {}}
    if dtype.is_floating_point:
        x[0, ::7, 0] = NAN
        ops |= {"mean": {}, "var": {}, "std": {"correction": 0}, "nansum": {}, "logsumexp": {}, "norm": {}}
    for given in (x, x.transpose(0, 1), x[:, 3:], x[..., :max(1, length - 1)]):
        for name, options in ops.items():
            whole = getattr(given, name)(dim=-1, **options)
            for row in ((0, 0), (1, 5), (0, 256), (1, 300), (-1, -1)):
                at = (row[0] % given.shape[0], row[1] % given.shape[1])
                alone = getattr(given[at].clone(), name)(dim=0, **options)
                for w, a in zip(*((v if isinstance(v, tuple) else (v,)) for v in (whole, alone)), strict=True):
                    assert_close(w[at], a, rtol=1e-5 if dtype.itemsize > 2 else None,
                                 atol=1e-5 if dtype.itemsize > 2 else None, equal_nan=True)


@pytest.mark.parametrize("dtype", [flambeau.float32, flambeau.float64, flambeau.bfloat16, flambeau.int64,
                                   flambeau.int16, flambeau.uint8, flambeau.bool, flambeau.complex64], ids=str)
@pytest.mark.parametrize("length, columns", [(2, 3), (15, 2), (16, 7), (17, 8), (33, 12), (40, 31), (5, 33)])
def test_blocks_of_few_columns(length, columns, dtype):
    """Which are turned, several side by side: results are those of rows."""
    x = (flambeau.rand(3, 170, length, columns) * 5 - 2).to(dtype)
    ops = {"sum": {}, "prod": {}, "any": {}, "all": {}}
    if not dtype.is_complex:
        ops |= {"amax": {}, "amin": {}, "argmax": {}, "argmin": {}, "aminmax": {}}
    if dtype.is_floating_point:
        x[0, ::7, 1] = NAN
        ops |= {"mean": {}, "var": {}, "std": {"correction": 0}, "nansum": {}, "norm": {}}
    for given in (x, x[:, 5:], x.transpose(0, 1), x[..., 1:]):
        rows = given.mT.contiguous()
        for name, options in ops.items():
            found, expected = getattr(given, name)(dim=-2, **options), getattr(rows, name)(dim=-1, **options)
            pairs = zip(found, expected, strict=True) if isinstance(found, tuple) else [(found, expected)]
            for f, e in pairs:
                assert_close(f, e, equal_nan=True)


@pytest.mark.parametrize("dtype", [flambeau.bfloat16, flambeau.float16])
@pytest.mark.parametrize("shape", [(33, 17), (1000, 1), (7, 1030), (100, 1024), (5, 3, 70), (16, 3, 64, 31)])
def test_sums_of_halves_along_each_dimension(shape, dtype):
    flambeau.manual_seed(0)
    whole = flambeau.randn(shape).to(dtype)
    for x in (whole, whole.transpose(-1, -2), whole[..., -9:], whole[::2]):
        for dim in range(x.ndim):
            bound = x.double().abs().sum(dim) * flambeau.finfo(dtype).eps + 1e-6
            assert ((x.sum(dim).double() - x.double().sum(dim)).abs() <= bound).all()
            assert ((x.mean(dim).double() - x.double().mean(dim)).abs() <= bound / x.shape[dim]).all()


@pytest.mark.parametrize("width", [5, 8, 32, 100])
def test_extremes_of_columns_keep_nan(width):
    for row in (0, 3, 31, 32, 39):
        x = flambeau.arange(40.0 * width).reshape(40, width)
        x[row, width // 2] = flambeau.nan
        for found, expected in ((x.amax(0), np.amax(x.numpy(), 0)), (x.amin(0), np.amin(x.numpy(), 0))):
            assert np.array_equal(found.numpy(), expected, equal_nan=True)


@pytest.mark.parametrize("dtype", ["uint8", "int8", "int16", "int32", "float16", "bfloat16", "float32"])
def test_extremes_of_narrow_numbers_are_those_of_wide_ones(dtype):
    narrow = flambeau.randint(-100, 100, (70, 600)).to(getattr(flambeau, dtype))
    if narrow.is_floating_point():
        narrow[3, 500] = NAN
    wide = narrow.double()
    index = flambeau.randint(0, 600, (70, 600))
    calls = [lambda x: (x.aminmax().min, x.amax(), x.scatter_reduce(1, index, x, "amax"))]
    for dim in (0, 1):
        calls += [lambda x, dim=dim: (x.amax(dim), x.amin(dim), x.argmax(dim), x.argmin(dim)),
                  lambda x, dim=dim: x.max(dim), lambda x, dim=dim: x.cummax(dim), lambda x, dim=dim: x.cummin(dim)]
    for call in calls:
        for found, expected in zip(call(narrow), call(wide), strict=True):
            assert flambeau.equal(found.double().nan_to_num(1e5), expected.double().nan_to_num(1e5))


@pytest.mark.parametrize("few", [2, 3, 7, 8, 15, 16])
@pytest.mark.parametrize("dtype", ["bfloat16", "float32", "float64"])
def test_few_rows_side_by_side_are_reduced_as_apart(few, dtype):
    x = (flambeau.rand(30, 90, few) - 0.5).to(getattr(flambeau, dtype)).requires_grad_()
    apart = x.detach().mT.contiguous().requires_grad_()
    for f in (lambda x, dim: x.softmax(dim), lambda x, dim: x.log_softmax(dim), lambda x, dim: x.logsumexp(dim),
              lambda x, dim: x.var(dim), lambda x, dim: x.amax(dim), lambda x, dim: x.sum(dim)):
        found, expected = f(x, 1), f(apart, 2)
        expected = expected.mT if expected.ndim == 3 else expected
        assert_close(found, expected)
        g = flambeau.rand(found.shape).to(found.dtype)
        assert_close(flambeau.autograd.grad(found, x, g)[0], flambeau.autograd.grad(expected, apart, g)[0].mT)


def test_the_gradient_of_an_extreme_that_is_nan_goes_to_those_that_are():
    nan = float("nan")
    for name in ("max", "min", "median", "nanmedian"):
        for values, expected in (([1, nan, 3, nan], [0, 0.5, 0, 0.5]), ([nan] * 2, [0.5, 0.5])):
            if name == "nanmedian" and values[0] == 1:
                expected = [1, 0, 0, 0]
            x = flambeau.tensor(values, requires_grad=True)
            getattr(flambeau, name)(x).backward()
            assert x.grad.tolist() == expected


@pytest.mark.parametrize("dtype", [flambeau.float32, flambeau.uint8, flambeau.bool, flambeau.complex64])
@pytest.mark.parametrize("name", ["any", "all"])
def test_truth_over_no_dimensions_is_each_element_s(name, dtype):
    x = flambeau.tensor([[0, 1], [2, 0], [3, 3]]).to(dtype)
    truth, reduce = x != 0, getattr(flambeau, name)
    whole = reduce(x)
    for found in (reduce(x, ()), reduce(x, dim=[], keepdim=True), flambeau.vmap(lambda row: reduce(row, ()))(x)):
        assert found.dtype == whole.dtype and flambeau.equal(found.bool(), truth)
    assert flambeau.equal(reduce(x.t(), ()).bool(), truth.t()) and reduce(x, None).shape == whole.shape == ()
    assert reduce(x.to("meta"), ()).shape == x.shape


def test_quantiles_lie_between_0_and_1():
    x = flambeau.tensor([1.0, 2.0, 4.0])
    for wrong in (1.5, -0.5, flambeau.tensor([0.5, 1.1]), flambeau.tensor(-1.0)):
        for quantile in (flambeau.quantile, flambeau.nanquantile):
            with pytest.raises(RuntimeError, match=r"in \[0, 1\]"):
                quantile(x, wrong)
    with pytest.raises(RuntimeError, match="range must be"):
        flambeau.histogram(x, 4, range=(0.0,))


@pytest.mark.parametrize("order", [1, 2, 3, 0.5, float("inf")])
def test_a_norm_in_a_wider_dtype_is_that_of_wider_numbers(order):
    half = flambeau.randn(7).half().requires_grad_()
    wide = half.detach().double().requires_grad_()
    found, expected = flambeau.linalg.vector_norm(half, order, dtype=flambeau.float64), wide.norm(order)
    found.backward(), expected.backward()
    assert found.dtype is flambeau.float64 and flambeau.allclose(found, expected, rtol=1e-14)
    assert half.grad.dtype is flambeau.float16 and flambeau.equal(half.grad, wide.grad.half())


def test_the_dtype_of_a_norm_may_follow_its_other_arguments():
    x = flambeau.tensor([3.0, 4.0])
    for norm in (x.norm(2, 0, True, flambeau.float64), flambeau.norm(x, 2, 0, True, flambeau.float64)):
        assert norm.dtype == flambeau.float64
