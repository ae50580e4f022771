"""x[...] and x[...] = y against NumPy, their gradients, and what goes wrong with bad indices."""

import itertools

import numpy as np
import pytest

import flambeau
from flambeau import tensor

X = np.arange(60.0).reshape(3, 4, 5)
RNG = np.random.RandomState(0)
MASK2, MASK3, MASK45 = RNG.rand(3, 4) > 0.5, RNG.rand(3, 4, 5) > 0.5, RNG.rand(4, 5) > 0.5
A = np.array
KEYS = [
    0, -1, np.int64(1), slice(1, 3), slice(None, None, 2), slice(None, None, -1), slice(3, 0, -2), slice(5, 10), None,
    ..., True, False, (), (0, slice(None), 1), (..., 2), (0, ..., 1), (None, 0, None, slice(2, 0)), (0, 0, 0),
    (slice(None), slice(None, None, -2), slice(4, None)), [0, 2], range(2), A([0, 2]), A([[0, 1], [2, 0]]), A([-1, -2]),
    A([True, False, True]), MASK2, MASK3, (MASK2, slice(0, 2)), (slice(None), MASK45), (slice(None), A([0, 1])),
    (A([0, 2]), slice(None), A([1, 3])), (0, A([0, 1]), slice(1, 3)), (A([0, 2]), None, A([1, 1])),
    (A([0]), A([[1], [2]]), A([3, 4])), (slice(0, 2), [0, 1], [2, 3]), (..., A([0, 1])), (A([0, 1]), ..., A([0, 1])),
    (slice(None), None, A([1])), (slice(None), A([0, 1]), slice(None, None, -1)), A([], dtype=np.int64),
    (slice(None, None, -1), A([0, 3]), A([1, 1])), (A(True), 0),
]


def ours(key):
    """The key with tensors for arrays."""
    if isinstance(key, tuple):
        return tuple(ours(k) for k in key)
    return tensor(key) if isinstance(key, np.ndarray) and key.dtype != object else key


@pytest.mark.parametrize("key", KEYS, ids=str)
def test_reading_and_writing_agree_with_numpy(key):
    for form in (ours(key), key):  # tensors, and NumPy arrays themselves
        x = tensor(X)
        assert x[form].shape == X[key].shape
        assert np.array_equal(x[form].numpy(), X[key])
    expected, x = X.copy(), tensor(X)
    value = np.asarray(RNG.rand(*X[key].shape))
    expected[key], x[ours(key)] = value, tensor(value)
    assert np.array_equal(x.numpy(), expected)
    expected[key], x[ours(key)] = 7, 7
    assert np.array_equal(x.numpy(), expected)
    if value.ndim:
        expected[key], x[ours(key)] = value[..., :1], tensor(value[..., :1])  # broadcast
        assert np.array_equal(x.numpy(), expected)


@pytest.mark.parametrize("key", KEYS, ids=str)
def test_gradients_of_reading_and_writing(key):
    weight = np.asarray(RNG.rand(*X[key].shape))
    x = tensor(X, requires_grad=True)
    (x[ours(key)] * tensor(weight)).sum().backward()
    expected = np.zeros_like(X)
    np.add.at(expected, key, weight)
    np.testing.assert_allclose(x.grad.numpy(), expected)

    x, value = tensor(X, requires_grad=True), tensor(weight, requires_grad=True)
    y = x * 2
    y[ours(key)] = value * 3
    (y * y).sum().backward()
    after, share = X * 2, 8 * X
    after[key], share[key] = weight * 3, 0
    np.testing.assert_allclose(y.detach().numpy(), after)
    np.testing.assert_allclose(x.grad.numpy(), share)
    np.testing.assert_allclose(value.grad.numpy(), 6 * after[key])


def test_basic_indices_are_views_and_tensors_are_copies():
    x = flambeau.zeros(3, 4)
    x[0][1] = 1
    x[:, 2][1:] = 2
    x[[0, 1]][0] = 9
    assert x.tolist() == [[0, 1, 0, 0], [0, 0, 2, 0], [0, 0, 2, 0]]
    assert x[tensor(1)]._base is x
    assert x[...] is not x and x[()]._base is x


def test_repeated_indices_accumulate_gradients():
    x = tensor([1.0, 2.0], requires_grad=True)
    x[tensor([0, 0, 1, 0])].sum().backward()
    assert x.grad.tolist() == [3, 1]


def test_in_place_through_a_reversed_view():
    x = flambeau.arange(6.0, requires_grad=True)
    y = x * 1
    y[::-2] = y[::2] * tensor([1.0, 2.0, 3.0])
    y.sum().backward()
    assert x.grad.tolist() == [2, 0, 3, 0, 4, 0]


def test_a_list_of_indices_stands_for_a_tuple():
    x = flambeau.arange(6).view(2, 3)
    assert x[[tensor([0]), tensor([1])]].tolist() == [1]
    assert x[[[0, 1], [1, 2]]].tolist() == [1, 5]


@pytest.mark.parametrize("key, error, text", [
    (0.5, IndexError, "is indexed by"), ("a", TypeError, "is indexed by"), ({}, IndexError, "is indexed by"),
    ((0, 0, 0, 0), IndexError, "more indices than the tensor.s 3 dimensions"), (2**70, IndexError, "int"),
    (5, IndexError, "index 5 is outside dimension 0 of size 3"),
    (-4, IndexError, "index -4 is outside dimension 0 of size 3"),
    ((0, 4), IndexError, "index 4 is outside dimension 0 of size 4"),
    (slice(None, None, 0), ValueError, "step cannot be zero"),
    (tensor([0.5]), IndexError, "must hold integers or booleans"), ([0.5], IndexError, "must hold integers"),
    (tensor([[True, False]]), IndexError, "mask"), (([0, 1], [0, 1, 2]), IndexError, "do not broadcast"),
    (tensor([7]), IndexError, "index 7 is outside dimension 0 of size 3"),
    ((slice(None), tensor([-5])), IndexError, "index -5 is outside dimension 1 of size 4"),
])
def test_bad_indices(key, error, text):
    x = tensor(X)
    with pytest.raises(error, match=text):
        x[key]
    with pytest.raises(error):
        x[key] = 0
    assert np.array_equal(x.numpy(), X)


@pytest.mark.parametrize("key, value, error", [
    (0, tensor([1.0, 2.0]), RuntimeError), (tensor([0]), tensor([1]), RuntimeError), (0, "a", TypeError),
    (tensor([0, 1]), flambeau.ones(3, 4, 5, dtype=flambeau.float64), RuntimeError), (0, {}, TypeError),
])
def test_bad_values(key, value, error):
    with pytest.raises(error):
        tensor(X)[key] = value


def test_zero_dimensions():
    x = tensor(3.0)
    assert x[None].shape == (1,) and x[...].item() == 3 and x[True].tolist() == [3]
    for key in (0, slice(None)):
        with pytest.raises(IndexError):
            x[key]
    x[...] = 4
    assert x.item() == 4


def test_deleting_is_refused():
    with pytest.raises(TypeError, match="cannot be deleted"):
        del tensor(X)[0]


@pytest.mark.parametrize("call", [
    lambda i: tensor(X).gather(0, i.view(1, 1, 1)), lambda i: tensor(X).index_select(0, i),
    lambda i: flambeau.zeros(3).scatter(0, i, 1.0), lambda i: flambeau.zeros(3).scatter_add(0, i, flambeau.ones(1)),
    lambda i: flambeau.zeros(3).index_add(0, i, flambeau.ones(1)), lambda i: tensor(X)[:, :, 0].take(i * 10),
    lambda i: flambeau.zeros(3).index_copy(0, i, flambeau.ones(1)), lambda i: flambeau.zeros(3).index_fill(0, i, 1),
    lambda i: flambeau.zeros(3).put(i, flambeau.ones(1)), lambda i: flambeau.zeros(3).index_put((i,), tensor(1.0)),
    lambda i: flambeau.nn.functional.embedding(i, flambeau.ones(3, 2)),
    lambda i: flambeau.zeros(3).scatter_reduce(0, i, flambeau.ones(1), "amax"),
])
@pytest.mark.parametrize("index", [5, -7, 2**62])
def test_indices_out_of_range_name_index_and_size(call, index):
    with pytest.raises((IndexError, RuntimeError), match=r"is outside (dimension|a tensor of)"):
        call(tensor([index]))


def test_scatter_add_keeps_the_order_of_additions():
    before, made = flambeau.get_num_threads(), []
    values, places = tensor(RNG.rand(20000).astype("f")), tensor(RNG.randint(0, 7, 20000))
    try:
        for threads in (1, 2):
            flambeau.set_num_threads(threads)
            made.append([flambeau.zeros(7).scatter_add(0, places, values),
                         flambeau.zeros(7).index_put((places,), values, accumulate=True),
                         flambeau.zeros(7).index_add(0, places, values)])
    finally:
        flambeau.set_num_threads(before)
    for one, two in zip(*made):
        assert (one == two).all()
    expected = np.zeros(7, "f")
    np.add.at(expected, places.numpy(), values.numpy())
    assert all(np.array_equal(x.numpy(), expected) for x in made[0])


def test_embedding_options():
    weight = tensor([[1.0, 2.0], [3.0, 4.0], [30.0, 40.0]], requires_grad=True)
    used = tensor([1, 1, 0])
    flambeau.nn.functional.embedding(used, weight, padding_idx=0).sum().backward()
    assert weight.grad.tolist() == [[0, 0], [2, 2], [0, 0]]
    weight.grad = None
    flambeau.nn.functional.embedding(used, weight, scale_grad_by_freq=True).sum().backward()
    assert weight.grad.tolist() == [[1, 1], [1, 1], [0, 0]]
    rows = flambeau.nn.functional.embedding(used, weight, scale_grad_by_freq=True)
    first, = flambeau.autograd.grad((rows ** 2).sum(), weight, create_graph=True)
    assert flambeau.autograd.grad(first.sum(), weight)[0].tolist() == [[2, 2], [2, 2], [0, 0]]
    short = weight.detach().clone()
    flambeau.nn.functional.embedding(used, short, max_norm=1.0)
    np.testing.assert_allclose(short.norm(dim=1).tolist(), [1, 1, 50], rtol=1e-5)


def turned(t):
    """Same values, the dimensions in memory the other way round."""
    return t.permute(*reversed(range(t.ndim))).contiguous().permute(*reversed(range(t.ndim)))


def test_copies_that_are_written_into_are_laid_out_as_the_tensor():
    x, at = flambeau.rand(4, 6).t(), flambeau.tensor([1, 2])
    assert x.index_put((at,), x[at]).stride() == x.index_fill(0, at, 1).stride() == (1, 6)
    assert x.index_add(0, at, x[at]).stride() == (4, 1)


@pytest.mark.parametrize("dim", [0, 1, 2])
@pytest.mark.parametrize("dtype", ["float32", "int64", "int8", "complex128"])
def test_large_index_along_each_dimension(dim, dtype):
    """Sizes that several threads share, with repeated numbers: of two writes the last one counts."""
    rng = np.random.RandomState(1)
    shape = (40, 50, 60)
    x = rng.randint(-9, 9, shape).astype(dtype)
    at = rng.randint(-shape[dim], shape[dim], 500)
    key, key_t = [slice(None)] * 3, [slice(None)] * 3
    key[dim], key_t[dim] = at, tensor(at)
    np.testing.assert_array_equal(tensor(x)[tuple(key_t)].numpy(), x[tuple(key)])
    values = rng.randint(-9, 9, x[tuple(key)].shape).astype(dtype)
    for value, laid in itertools.product((values, values[:1], 3), (lambda t: t, turned)):
        want, have = x.copy(), laid(tensor(x.copy()))
        want[tuple(key)] = value
        have[tuple(key_t)] = value if isinstance(value, int) else laid(tensor(value))
        np.testing.assert_array_equal(have.numpy(), want)
    numbers = rng.randint(0, shape[dim], values.shape)
    places = list(np.indices(values.shape))
    places[dim] = numbers
    np.testing.assert_array_equal(
        tensor(x).gather(dim, tensor(numbers)).numpy(), x[tuple(places)])
    want = x.copy()
    np.add.at(want, tuple(places), values)
    np.testing.assert_array_equal(
        tensor(x).scatter_add(dim, tensor(numbers), tensor(values)).numpy(), want)
    kept = tensor(x.copy())
    numbers.flat[-1] = shape[dim]
    with pytest.raises(RuntimeError, match="is outside dimension"):
        kept.scatter_add_(dim, tensor(numbers), tensor(values))
    np.testing.assert_array_equal(kept.numpy(), x)  # nothing was written


@pytest.mark.parametrize("value", [flambeau.tensor(1.5), flambeau.tensor([1.5], dtype=flambeau.float64)])
def test_a_mask_is_filled_with_one_number_of_any_real_dtype(value):
    x, mask = flambeau.tensor([1, 2, 3]), flambeau.tensor([True, False, True])
    x[mask] = value
    assert x.tolist() == [1, 2, 1]
    rows = flambeau.zeros(2, 3, dtype=flambeau.int8)
    rows[:, mask] = value
    assert rows.tolist() == [[1, 0, 1], [1, 0, 1]]
    with pytest.raises(RuntimeError, match="dtype int64"):
        x[flambeau.tensor([0])] = value  # places, not a mask
    with pytest.raises(RuntimeError, match="dtype int64"):
        x.index_put_((mask,), value, accumulate=True)
    with pytest.raises(RuntimeError, match="dtype int64"):
        x[mask] = value.to(flambeau.complex64)
    with pytest.raises(RuntimeError, match="dtype int64"):
        x[mask] = flambeau.tensor([1.5, 2.5])


def test_what_an_index_raises_comes_through():
    class Raises:
        def __index__(self):
            raise KeyError("mine")

    x = flambeau.ones(2, 3)
    for key in (Raises(), slice(Raises(), None), (slice(None), slice(None, Raises()))):
        with pytest.raises(KeyError, match="mine"):
            _ = x[key]


@pytest.mark.parametrize("how", ["amax", "amin", "prod"])
def test_scatter_reduce_keeps_nan_from_either_side(how):
    generator = flambeau.Generator().manual_seed(0)
    x, y = flambeau.rand(9, 12, generator=generator), flambeau.rand(9, 12, generator=generator)
    j = flambeau.randint(0, 12, (9, 12), generator=generator)
    x[2, 7] = y[3, 4] = float("nan")
    join = {"amax": flambeau.maximum, "amin": flambeau.minimum, "prod": flambeau.mul}[how]
    expected = x.clone()
    for row in range(9):
        for k in range(12):
            expected[row, j[row, k]] = join(expected[row, j[row, k]], y[row, k])
    assert flambeau.allclose(x.scatter_reduce(1, j, y, how), expected, equal_nan=True)


@pytest.mark.parametrize(("dtype", "twelve_or_thirteen"), [(flambeau.float8_e5m2, 12.0), (flambeau.float8_e4m3fn, 13.0),
                                                          (flambeau.float8_e4m3fnuz, 13.0)], ids=str)
def test_8_bit_floats_are_added_where_indices_say(dtype, twelve_or_thirteen):
    """Each sum is rounded: 3 + 3 + 7 is 12 in e5m2, which has no 13."""
    x = flambeau.arange(8.0).reshape(2, 4).to(dtype)
    places = (flambeau.tensor([0, 0]),)
    found = x.index_put(places, x, accumulate=True)
    assert found.dtype == dtype and found.float().tolist() == [[4, 7, 10, twelve_or_thirteen], [4, 5, 6, 7]]
    strided = x.t().index_put((flambeau.tensor([1, 1]),), x.t()[:2],
                              accumulate=True)
    assert strided[1].float().tolist() == [2, 12 if dtype is flambeau.float8_e5m2 else 14]
    with pytest.raises(NotImplementedError):
        flambeau.zeros(2).to(flambeau.float8_e8m0fnu).index_put(places, flambeau.ones(2).to(flambeau.float8_e8m0fnu),
                                                                accumulate=True)


@pytest.mark.parametrize("dtype", [flambeau.bfloat16, flambeau.float16], ids=str)
@pytest.mark.parametrize("reduce", ["sum", "prod", "amax", "amin"])
def test_few_places_of_many_halves(reduce, dtype):
    """Where few places of a large tensor are written, the others are neither widened nor changed."""
    large = (flambeau.rand(3, 4000) + 0.5).to(dtype)
    index = flambeau.tensor([[7, 3999, 7, 7], [0, 0, 1, 0], [5, 6, 7, 5]])
    source = (flambeau.rand(3, 4) + 0.5).to(dtype)
    expected = large.float().scatter_reduce(1, index, source.float(), reduce).to(dtype)
    assert flambeau.equal(large.scatter_reduce(1, index, source, reduce), expected)
    assert flambeau.equal(large.t().contiguous().scatter_reduce(0, index.t(), source.t(), reduce), expected.t())
    if reduce == "sum":
        assert flambeau.equal(large.scatter_add(1, index, source), expected)
        added = large.float().index_add(1, index[0], source.float()).to(dtype)
        assert flambeau.equal(large.index_add(1, index[0], source), added)
        assert flambeau.equal(large.t().index_add(0, index[0], source.t()), added.t())
        rows, more = flambeau.tensor([2, 0, 2]), large.flip(1)
        added = large.float().index_add(0, rows, more.float()).to(dtype)
        assert flambeau.equal(large.index_add(0, rows, more), added)


@pytest.mark.parametrize("rows", [8, 4000])
@pytest.mark.parametrize("at", [-1, 4000])
def test_an_index_outside_leaves_halves_as_they_were(rows, at):
    x, ones = flambeau.ones(rows, 3).half(), flambeau.ones(2, 3).half()
    for call in (lambda: x.index_add_(0, flambeau.tensor([0, at]), ones),
                 lambda: x.scatter_add_(0, flambeau.tensor([[0, 1, 2], [0, at, 1]]), ones),
                 lambda: x.scatter_reduce_(0, flambeau.tensor([[0, 1, 2], [0, at, 1]]), ones * 3, "amax")):
        with pytest.raises(RuntimeError, match=f"index {at} is outside"):
            call()
        assert (x == 1).all()
    nothing = flambeau.empty(0, dtype=flambeau.int64)
    assert flambeau.equal(x.index_add(0, nothing, ones[:0]), x)


@pytest.mark.parametrize("dtype", [flambeau.bfloat16, flambeau.float16, flambeau.int16, flambeau.bool], ids=str)
@pytest.mark.parametrize("width", [1, 5, 16, 33])
def test_rows_of_other_types_are_added_in_order(width, dtype):
    """Sums of halves are float32 until everything has been added, and then rounded."""
    start, rows = ((flambeau.randn(n, width) * 9).to(dtype) for n in (4, 12))
    index = flambeau.randint(0, 4, (12,))
    expected = start.float() if dtype.is_floating_point else start.clone()
    for k, at in enumerate(index.tolist()):
        expected[at] = expected[at] + rows[k]
    expected = expected.to(dtype)
    assert flambeau.equal(start.index_add(0, index, rows), expected)
    assert flambeau.equal(start.scatter_add(0, index.unsqueeze(1).expand(12, width), rows), expected)
    assert flambeau.equal(start.t().index_add(1, index, rows.t()), expected.t())
    columns = index.expand(width, 12)
    assert flambeau.equal(start.t().contiguous().scatter_add(1, columns, rows.t().contiguous()), expected.t())


def test_one_number_is_copied_with_or_without_a_dimension():
    index, number = flambeau.tensor([0]), flambeau.tensor(3.0, requires_grad=True)
    for x, source in ((flambeau.tensor(1.0), number), (flambeau.tensor(1.0), number.reshape(1)),
                      (flambeau.tensor([1.0]), number)):
        made = x.index_copy(0, index, source)
        assert made.shape == x.shape and made.item() == 3
        made.sum().backward()
    assert number.grad == 3
    assert flambeau.tensor(1.0).index_copy_(0, index[:0], flambeau.empty(0)) == 1
    with pytest.raises(IndexError, match="equally many dimensions"):
        flambeau.ones(2).index_copy(0, flambeau.tensor([0, 1]), number)


def test_unravel_index_computes_in_int64():
    found = flambeau.unravel_index(tensor([100], dtype=flambeau.int8), (3, 200))
    assert [c.tolist() for c in found] == [[0], [100]] and found[0].dtype is flambeau.int64
    for wrong in (tensor([1.]), tensor([True])):
        with pytest.raises(TypeError, match="integers"):
            flambeau.unravel_index(wrong, (3, 2))


@pytest.mark.parametrize("how", ["amax", "amin"])
def test_scatter_reduce_of_nan_has_nan_gradients(how):
    x, y = flambeau.ones(2, requires_grad=True), flambeau.tensor([1.0, float("nan"), 1.0], requires_grad=True)
    x.scatter_reduce(0, flambeau.tensor([0, 0, 1]), y, how).sum().backward()
    assert x.grad[0].isnan() and y.grad[:2].isnan().all() and x.grad[1] == y.grad[2] == 0.5


@pytest.mark.parametrize("shape", [flambeau.tensor([2, 3]), (2, 3.0), 2.0])
def test_sizes_to_unravel_an_index_into_are_ints(shape):
    with pytest.raises(TypeError, match="sequence of ints"):
        flambeau.unravel_index(flambeau.tensor([1]), shape)
