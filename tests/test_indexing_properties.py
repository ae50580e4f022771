"""x[key] and x[key] = y against NumPy, for keys drawn at random from everything both know."""

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import flambeau

SHAPES = st.lists(st.integers(0, 4), min_size=1, max_size=4).map(tuple)


@st.composite
def basic(draw, n, integers):
    """One item for a dimension of size n: an integer in range, or a slice (also with a negative step)."""
    if integers and n and draw(st.booleans()):
        return draw(st.integers(-n, n - 1))
    bound = st.none() | st.integers(-n - 2, n + 2)
    return slice(draw(bound), draw(bound), draw(st.sampled_from([None, 1, 2, 3, -1, -2])))


@st.composite
def keys(draw, shape, advanced):
    """A key for that shape, as a tuple NumPy takes. Beside arrays NumPy counts an integer as one more array, PyTorch as
    the choice of a part: there are no integers then."""
    key, d, pieces = [], 0, draw(st.integers(0, len(shape)))
    picks = draw(st.lists(st.integers(1, 3), min_size=1, max_size=2).map(tuple)) if advanced else None
    ellipsis_at = None if advanced else draw(st.none() | st.integers(0, pieces))
    while d < pieces:
        if ellipsis_at == d:
            key.append(Ellipsis)
            d = d + draw(st.integers(0, 1))
            ellipsis_at = None
            continue
        n = shape[d]
        kind = draw(st.sampled_from(["basic", "basic", "none", "index", "mask", "list"])) if advanced else \
            draw(st.sampled_from(["basic", "basic", "none"]))
        if kind == "none":
            key.append(None)
            if len(key) > 6:
                break
            continue
        if kind == "index" and n:
            key.append(draw(st.lists(st.integers(-n, n - 1), min_size=int(np.prod(picks)), max_size=int(np.prod(picks)))
                            .map(lambda v: np.array(v, dtype=np.int64).reshape(picks))))
        elif kind == "list" and n and len(picks) == 1:
            key.append([draw(st.integers(-n, n - 1))])
        elif kind == "mask" and not any(isinstance(k, (np.ndarray, list)) for k in key):
            key.append(draw(st.lists(st.booleans(), min_size=n, max_size=n).map(lambda v: np.array(v, dtype=bool))))
        else:
            key.append(draw(basic(n, not advanced)))
        d += 1
    if advanced and draw(st.booleans()):
        key.append(Ellipsis)
    return tuple(key)


def ours(key):
    return tuple(flambeau.tensor(k) if isinstance(k, np.ndarray) else k for k in key)


@st.composite
def cases(draw, advanced):
    shape = draw(SHAPES)
    return shape, draw(keys(shape, advanced))


def reference(shape, key):
    """The array, and what NumPy makes of the key; keys NumPy refuses are no cases."""
    array = np.arange(float(np.prod(shape))).reshape(shape)
    try:
        return array, array[key]
    except IndexError:
        assume(False)


@settings(max_examples=150, deadline=None)
@given(cases(advanced=False))
def test_views(case):
    shape, key = case
    array, expected = reference(shape, key)
    x = flambeau.tensor(array)
    found = x[ours(key)]
    assert found.shape == expected.shape and np.array_equal(found.numpy(), expected)
    if isinstance(expected, np.ndarray) and expected.size:
        assert found.untyped_storage().data_ptr() == x.untyped_storage().data_ptr()


@settings(max_examples=150, deadline=None)
@given(cases(advanced=True))
def test_values(case):
    shape, key = case
    array, expected = reference(shape, key)
    found = flambeau.tensor(array)[ours(key)]
    assert found.shape == np.shape(expected) and np.array_equal(found.numpy(), expected)


@settings(max_examples=150, deadline=None)
@given(cases(advanced=True), st.booleans())
def test_assignment(case, number):
    shape, key = case
    array, part = reference(shape, key)
    values = -1.0 if number else -np.arange(1.0, np.size(part) + 1).reshape(np.shape(part))
    # of a place written twice NumPy keeps the last value: only that which does not depend on the order is a case
    where = np.arange(array.size).reshape(shape)[key]
    assume(number or np.unique(where).size == np.size(where))
    x = flambeau.tensor(array)
    x[ours(key)] = values if number else flambeau.tensor(values)
    array[key] = values
    assert np.array_equal(x.numpy(), array)


@settings(max_examples=40, deadline=None)
@given(cases(advanced=True))
def test_gradients(case):
    shape, key = case
    array, part = reference(shape, key)
    x = flambeau.tensor(array, requires_grad=True)
    weights = flambeau.tensor(np.cos(np.arange(float(np.size(part)))).reshape(np.shape(part)))
    (x[ours(key)] * weights).sum().backward()
    expected = np.zeros(shape)
    np.add.at(expected, key, weights.numpy())
    assert np.allclose(x.grad.numpy(), expected)


@settings(max_examples=40, deadline=None)
@given(cases(advanced=True))
def test_gradients_of_assignment(case):
    shape, key = case
    array, part = reference(shape, key)
    where = np.arange(array.size).reshape(shape)[key]
    assume(np.unique(where).size == np.size(where))
    x = flambeau.tensor(array, requires_grad=True)
    v = flambeau.tensor(np.array(part, dtype=float), requires_grad=True)
    y = x * 1
    y[ours(key)] = v
    weights = flambeau.tensor(np.cos(np.arange(float(array.size))).reshape(shape))
    (y * weights).sum().backward()
    grad = weights.numpy().copy()
    assert np.allclose(v.grad.numpy(), grad[key])
    grad[key] = 0
    assert np.allclose(x.grad.numpy(), grad)


# --- named cases ----------------------------------------------------------------------------------------------------

X = flambeau.arange(12).reshape(3, 4)


@pytest.mark.parametrize("key, expected", [
    ((slice(None, None, -1), 0), [8, 4, 0]), (range(2), [[0, 1, 2, 3], [4, 5, 6, 7]]),
    ([True, False, True], [[0, 1, 2, 3], [8, 9, 10, 11]]),
    (flambeau.tensor(1), [4, 5, 6, 7]), (np.int64(1), [4, 5, 6, 7]), (np.array([0, 2])[:1], [[0, 1, 2, 3]]),
    ((flambeau.tensor(1), flambeau.tensor(2)), 6), (True, [X.tolist()]), (([0, 2], [1, 3]), [1, 11]),
    (X > 9, [10, 11]), ((..., -1), [3, 7, 11]), ((slice(0, 0), [0]), []),
])
def test_forms(key, expected):
    assert X[key].tolist() == expected


@pytest.mark.parametrize("key, error", [
    (3, IndexError), (1.5, IndexError), ("a", TypeError), ((1, 2, 3), IndexError), ([0, 5], IndexError),
    (flambeau.tensor([1.5]), IndexError), (flambeau.tensor([True, False]), IndexError),
    (slice(None, None, 0), ValueError),
    (([0, 1], [0, 1, 2]), IndexError), ({}, IndexError), (1j, IndexError), ((X > 0).t(), IndexError),
])
def test_refused_keys(key, error):
    with pytest.raises(error):
        X[key]
    with pytest.raises(error):
        X.clone()[key] = 1


def test_one_number_for_a_mask_may_be_of_another_dtype():
    y = flambeau.arange(4.0)
    y[y > 1] = flambeau.tensor(7)
    assert y.tolist() == [0, 1, 7, 7]
    with pytest.raises(RuntimeError, match="must have the tensor's dtype"):
        y[y > 1] = flambeau.tensor([7, 8])


def test_repeated_places():
    y = flambeau.zeros(3)
    places = flambeau.tensor([0, 0, 2])
    y.index_put_((places,), flambeau.ones(3), accumulate=True)
    assert y.tolist() == [2, 0, 1]
    y[places] += 1
    assert y.tolist() == [3, 0, 2]
    y.put_(places, flambeau.ones(3), accumulate=True)
    assert y.tolist() == [5, 0, 3]


def test_a_mask_of_bytes_says_that_it_is_a_mask():
    x = flambeau.arange(3)
    with pytest.warns(UserWarning, match="uint8 is a mask"):
        assert x[flambeau.tensor([1, 0, 1], dtype=flambeau.uint8)].tolist() == [0, 2]


def test_indices_of_take_along_dim_and_tensor_split_are_int64():
    x = flambeau.ones(4)
    for call in (lambda: flambeau.take_along_dim(x, flambeau.tensor([0], dtype=flambeau.int32), 0),
                 lambda: x.tensor_split(flambeau.tensor(1.5)), lambda: x.tensor_split(flambeau.tensor([[1]]))):
        with pytest.raises(RuntimeError, match="int64"):
            call()
