"""Functions of numerical analysis and copies of views, against NumPy and by their laws."""

import numpy as np
import pytest

import flambeau
from flambeau.ops import view_copies

f64 = flambeau.float64


def t(x):
    return flambeau.from_numpy(np.asarray(x))


def test_frexp():
    x = np.array([0.0, -0.0, 1.0, -3.5, 1e-40, 1e300, np.inf])
    for dtype in (np.float32, np.float64):
        with np.errstate(over="ignore"):
            y = x.astype(dtype)
        found = flambeau.frexp(t(y))
        m, e = np.frexp(y)
        np.testing.assert_array_equal(found.mantissa.numpy(), m)
        np.testing.assert_array_equal(found.exponent.numpy()[:-1], e[:-1])
    assert type(found).__name__ == "frexp" and found.exponent.dtype == flambeau.int32
    with pytest.raises(RuntimeError, match="expected floating-point numbers"):
        flambeau.frexp(flambeau.tensor([1]))


@pytest.mark.parametrize("order", [1, 2])
def test_gradient(order):
    x = np.random.default_rng(0).normal(size=(4, 5))
    for spacing, numpys in ((None, []), (2.0, [2.0, 2.0]), ([2.0, 3.0], [2.0, 3.0])):
        found = flambeau.gradient(t(x), spacing=spacing, edge_order=order)
        for a, b in zip(found, np.gradient(x, *numpys, edge_order=order), strict=True):
            np.testing.assert_allclose(a.numpy(), b)
    at = [np.array([0.0, 1.0, 3.0, 3.5]), np.array([0.0, 2.0, 3.0, 5.0, 9.0])]
    found = flambeau.gradient(t(x), spacing=[t(a) for a in at], edge_order=order)
    for a, b in zip(found, np.gradient(x, *at, edge_order=order), strict=True):
        np.testing.assert_allclose(a.numpy(), b)


def test_gradient_refuses():
    x = flambeau.zeros(3, 4)
    for arguments in ({"edge_order": 3}, {"dim": (0, 0)}, {"spacing": [1.0, 2.0], "dim": 0}):
        with pytest.raises(RuntimeError):
            flambeau.gradient(x, **arguments)
    with pytest.raises(RuntimeError, match="every dimension needs at least"):
        flambeau.gradient(x[:1])


def test_histogram():
    x = np.random.default_rng(1).normal(size=(20, 5))
    w = np.random.default_rng(2).random((20, 5))
    edges = np.array([-1.0, 0.0, 0.5, 2.0])
    for bins, limits, density in ((7, None, False), (4, (-1.0, 1.0), True), (edges, None, True)):
        mine = t(bins) if isinstance(bins, np.ndarray) else bins
        found = flambeau.histogram(t(x), mine, range=limits, weight=t(w), density=density)
        hist, edges = np.histogram(x, bins, limits, density=density, weights=w)
        np.testing.assert_allclose(found.hist.numpy(), hist)
        np.testing.assert_allclose(found.bin_edges.numpy(), edges)


def test_histogramdd():
    x = np.random.default_rng(1).normal(size=(50, 2))
    found = flambeau.histogramdd(t(x), [3, 4], density=True)
    hist, edges = np.histogramdd(x, [3, 4], density=True)
    np.testing.assert_allclose(found.hist.numpy(), hist)
    for a, b in zip(found.bin_edges, edges, strict=True):
        np.testing.assert_allclose(a.numpy(), b)


def test_histogram_refuses():
    x = flambeau.tensor([1.0, 2.0])
    for arguments in ({"bins": 0}, {"bins": 2, "range": (2.0, 1.0)}, {"bins": flambeau.tensor([1, 2])},
                      {"bins": 2, "weight": flambeau.ones(3)}):
        with pytest.raises(RuntimeError):
            flambeau.histogram(x, **arguments)
    with pytest.raises(NotImplementedError):
        flambeau.histogram(flambeau.tensor([1, 2]), 2)


def test_renorm():
    x = np.random.default_rng(1).normal(size=(4, 5, 2))
    norms = np.sqrt((x**2).sum((0, 2), keepdims=True))
    np.testing.assert_allclose(flambeau.renorm(t(x), 2, 1, 1.5).numpy(), x * np.minimum(1, 1.5 / (norms + 1e-7)), 1e-6)
    y = t(x).requires_grad_()
    z = y * 2
    z.renorm_(2, 1, 1.5).sum().backward()
    w = t(x).requires_grad_()
    (w * 2).renorm(2, 1, 1.5).sum().backward()
    assert flambeau.equal(y.grad, w.grad)


def test_segment_reduce():
    x = flambeau.arange(12.0, dtype=f64).reshape(3, 4).requires_grad_()
    lengths = flambeau.tensor([1, 0, 2])
    assert flambeau.segment_reduce(x, "sum", lengths=lengths)[2].tolist() == [12, 14, 16, 18]
    assert flambeau.segment_reduce(x, "mean", offsets=flambeau.tensor([0, 1, 3]))[1].tolist() == [6, 7, 8, 9]
    found = flambeau.segment_reduce(x, "max", lengths=flambeau.tensor([[1, 3], [2, 2], [0, 4]]), axis=1, initial=1.0)
    assert found.tolist() == [[1, 3], [5, 7], [1, 11]]
    assert flambeau.segment_reduce(x, "mean", lengths=lengths)[1].isnan().all()
    for kind in ("sum", "mean", "max", "min", "prod"):
        assert flambeau.autograd.gradcheck(
            lambda v, kind=kind: flambeau.segment_reduce(v + 1, kind, lengths=flambeau.tensor([1, 2])), (x,))
    with pytest.raises(RuntimeError, match="pass lengths or offsets"):
        flambeau.segment_reduce(x, "sum")


def test_nonzero_static():
    x = flambeau.tensor([[0, 1], [2, 0]])
    assert flambeau.nonzero_static(x, size=3).tolist() == [[0, 1], [1, 0], [-1, -1]]
    assert x.nonzero_static(size=1).tolist() == [[0, 1]]


def test_sum_to_size_and_fill_diagonal():
    x = flambeau.arange(12.0).reshape(3, 4)
    assert x.sum_to_size(4).tolist() == [12, 15, 18, 21]
    assert x.sum_to_size(3, 1).tolist() == [[6], [22], [38]]
    with pytest.raises(RuntimeError, match="cannot be expanded"):
        x.sum_to_size(5)
    expected = np.zeros((7, 3))
    np.fill_diagonal(expected, 2, wrap=True)
    assert flambeau.zeros(7, 3).fill_diagonal_(2, wrap=True).tolist() == expected.tolist()
    assert flambeau.zeros(2, 2, 2).fill_diagonal_(1).sum().item() == 2
    y = flambeau.ones(3, 3, requires_grad=True)
    (y * 2).fill_diagonal_(0).sum().backward()
    assert y.grad.tolist() == (2 * (1 - np.eye(3))).tolist()


def test_hash_tensor():
    """The values are PyTorch's."""
    assert flambeau.hash_tensor(flambeau.tensor([1.0, 2.0, 3.0])).item() == 4609434218613702656
    assert flambeau.hash_tensor(flambeau.tensor([-1], dtype=flambeau.int8)).item() == 2**64 - 1
    x = flambeau.arange(12.0).reshape(3, 4)
    assert x.hash_tensor(0).tolist() == [13510798882111488, 4595360469778169856, 4628574517030027264,
                                         4625759767262920704]
    assert x.hash_tensor((0, 1), keepdim=True).tolist() == [[4609434218613702656]]


def test_conv_tbc():
    x, w, b = flambeau.randn(5, 2, 3), flambeau.randn(3, 3, 4), flambeau.randn(4)
    expected = flambeau.nn.functional.conv1d(x.permute(1, 2, 0), w.permute(2, 1, 0), b, padding=1).permute(2, 0, 1)
    assert flambeau.allclose(flambeau.conv_tbc(x, w, b, 1), expected)


def test_copies_are_fresh_and_contiguous():
    x = flambeau.arange(6.0).reshape(2, 3)
    for name in sorted(n for n in vars(view_copies) if n.endswith("_copy")):
        assert hasattr(flambeau, name), name
    for made in (flambeau.transpose_copy(x, 0, 1), flambeau.expand_copy(x[:1], (2, 3)), flambeau.detach_copy(x),
                 flambeau.view_copy(x, (3, 2)), *flambeau.split_copy(x, 1, 1)):
        assert made.is_contiguous() and made.data_ptr() != x.data_ptr()
    out = [flambeau.empty(0), flambeau.empty(0)]
    assert flambeau.unbind_copy(x, out=out) is None
    assert out[1].tolist() == [3, 4, 5]


def test_complex_log_sums():
    x = np.random.default_rng(0).normal(size=(3, 4)) + 1j * np.random.default_rng(1).normal(size=(3, 4))
    np.testing.assert_allclose(t(x).logsumexp(1).numpy(), np.log(np.exp(x).sum(1)))
    np.testing.assert_allclose(t(x).logsumexp((0, 1), True).numpy(), np.log(np.exp(x).sum(keepdims=True)))
    np.testing.assert_allclose(t(x).logcumsumexp(0).numpy(), np.log(np.exp(x).cumsum(0)))
    np.testing.assert_allclose(flambeau.logaddexp(t(x), t(x[:1])).numpy(), np.log(np.exp(x) + np.exp(x[:1])))
    y = t(x).requires_grad_()
    for f in (lambda v: v.logsumexp(1), lambda v: v.logcumsumexp(0), lambda v: flambeau.logaddexp(v, 2 * v)):
        assert flambeau.autograd.gradcheck(f, (y,))


def test_float_power_in_place():
    x = flambeau.tensor([3.0], dtype=f64)
    assert x.float_power_(2).tolist() == [9.0]
    with pytest.raises(RuntimeError, match=r"the result is torch\.float"):
        flambeau.tensor([3.0]).float_power_(2)


def test_numbers_alone_are_refused():
    for f in (flambeau.pow, flambeau.eq, flambeau.special.zeta, flambeau.igamma):  # sums and products take them
        with pytest.raises(TypeError):
            f(2, 3)


def test_composites_in_place_keep_what_their_rules_need():
    x = flambeau.tensor([2.5, 3.0], dtype=f64, requires_grad=True)
    (x * 1).mvlgamma_(2).sum().backward()
    first, x.grad = x.grad, None
    x.mvlgamma(2).sum().backward()
    assert flambeau.equal(first, x.grad)


def test_named_results_are_public_types():
    x = flambeau.tensor([[3.0, 1.0], [2.0, 4.0]])
    for name, made in (("max", x.max(1)), ("sort", x.sort()), ("frexp", x.frexp()), ("mode", x.mode()),
                       ("histogram", x.histogram(2)), ("aminmax", x.aminmax()), ("cummax", x.cummax(0))):
        assert type(made) is getattr(flambeau.return_types, name)
    assert type(flambeau.var_mean(x)) is tuple
    assert x[0, 0].is_nonzero()
    with pytest.raises(RuntimeError):
        flambeau.tensor([2]).polygamma_(1)


@pytest.mark.parametrize("first, second, wanted", [
    ("float16", "float32", "float32"), ("float64", "float16", "float64"), ("int64", "int8", "float32"),
    ("float32", "complex64", "complex64"), ("bool", "bfloat16", "bfloat16")])
def test_ldexp_computes_in_the_dtype_of_both(first, second, wanted):
    a, b = (flambeau.ones(2, dtype=getattr(flambeau, d)) for d in (first, second))
    assert flambeau.ldexp(a, b).dtype is getattr(flambeau, wanted)
    assert flambeau.ldexp(a, b).tolist() == [2, 2]


def test_numbers_of_integers_may_be_tensors_without_losing_digits():
    x = flambeau.tensor([3.], dtype=flambeau.float64)
    assert flambeau.equal(flambeau.mvlgamma(x, flambeau.tensor(3)), flambeau.mvlgamma(x, 3))


def test_histograms_and_hashes_of_tensors_without_elements():
    assert flambeau.histogramdd(flambeau.zeros(5, 0), []).hist.item() == 0
    assert flambeau.zeros(0, 3).hash_tensor(-1).shape == (0,)


def test_trapezoids_of_halves_over_integer_positions_stay_halves():
    y, x = flambeau.ones(2, 3).half(), flambeau.tensor([[1, 2, 3], [1, 2, 4]])
    assert flambeau.trapezoid(y, x).dtype is flambeau.float16 and flambeau.trapezoid(y, x).tolist() == [2, 3]


@pytest.mark.parametrize("given", [{"offsets": flambeau.tensor([1, 3, 6])},
                                   {"lengths": flambeau.tensor([1, 5]), "unsafe": True}])
@pytest.mark.parametrize(("reduce", "of"), [("sum", "sum"), ("mean", "mean"), ("max", "amax"), ("prod", "prod")])
def test_segments_that_do_not_reach_over_all(reduce, of, given):
    x = flambeau.arange(1.0, 9.0, requires_grad=True)
    parts = [x[1:3], x[3:6]] if "offsets" in given else [x[:1], x[1:6]]
    expected = flambeau.stack([getattr(part, of)(0) for part in parts])
    found = flambeau.segment_reduce(x, reduce, **given)
    assert flambeau.allclose(found, expected)
    for mine, theirs in zip(flambeau.autograd.grad(found.sum(), x), flambeau.autograd.grad(expected.sum(), x)):
        assert flambeau.allclose(mine, theirs)


def test_positions_of_trapezoids_broadcast_from_their_last_dimension():
    y, x = flambeau.ones(2, 3, 4), flambeau.arange(12.0).reshape(3, 4)
    assert flambeau.trapezoid(y, x, dim=1).tolist() == [[8.0] * 4] * 2
    assert flambeau.cumulative_trapezoid(y, x, dim=2)[0].tolist() == [[1.0, 2.0, 3.0]] * 3
