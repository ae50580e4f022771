"""Arguments whose own methods change what is being read: the list they stand in, or the tensor they index."""

import contextlib
import gc
import warnings

import pytest

import flambeau as fb
from flambeau.nn import functional as F


class Empties:
    """A number that, asked for its value, empties the list it stands in."""

    def __init__(self, where, value):
        self.where, self.value = where, value

    def _number(self):
        self.where.clear()
        gc.collect()
        [object() for _ in range(100)]  # new objects where the old ones were
        return self.value

    def __index__(self):
        return int(self._number())

    def __float__(self):
        return float(self._number())


def emptying(*numbers):
    items = []
    items += [Empties(items, numbers[0]), *numbers[1:]]
    return items


def several(*numbers):
    """Each item empties the list."""
    items = []
    items += [Empties(items, n) for n in numbers]
    return items


@pytest.mark.parametrize("make", (emptying, several))
def test_lists_of_numbers(make):
    big = 2**40
    x = fb.ones(2, 3, 4)
    assert x.permute(make(2, 0, 1)).shape == (4, 2, 3)
    assert x.sum(make(0, 2)).shape == (3,)
    assert fb.empty(make(big, 3), device="meta").shape == (big, 3)
    assert fb.ones(1).expand(make(big, 3, 1)).shape == (big, 3, 1)
    assert x.reshape(make(4, 6)).shape == (4, 6)
    assert x.repeat(make(1, 2, 1)).shape == (2, 6, 4)
    assert x.flip(make(0, 1)).equal(x)
    assert F.pad(x, make(1, 0)).shape == (2, 3, 5)
    assert x.as_strided(make(2, 2), make(3, 1)).shape == (2, 2)
    assert fb.roll(x, make(1, 2), make(0, 1)).equal(x)
    assert F.max_pool2d(x, make(2, 2)).shape == (2, 1, 2)
    assert [part.shape[0] for part in fb.split(fb.ones(7), make(3, 4))] == [3, 4]


def test_lists_of_data():
    for items in (emptying(1, 2.0, 3.0), several(1, 2, 3)):
        with contextlib.suppress(IndexError, ValueError, RuntimeError, TypeError):  # the list is shorter than it was
            fb.tensor(items)


def test_results_named_in_a_list():
    out = [fb.empty(3), fb.empty(3, dtype=fb.int64)]
    x = fb.ones(2, 2)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("always")
            warnings.showwarning = lambda *a, **k: (out.clear(), gc.collect())
            fb.max(x, 0, out=tuple(out))
            out[:] = [fb.empty(3), fb.empty(3, dtype=fb.int64)]
            fb.max(x, 0, out=out)
    except (RuntimeError, TypeError):
        pass


class Replaces:
    """An index that gives the tensor it indexes other memory."""

    def __init__(self, x, value):
        self.x, self.value = x, value

    def __index__(self):
        self.x.set_(fb.zeros(0)) if hasattr(self.x, "set_") else setattr(self.x, "data", fb.zeros(0))
        gc.collect()
        return self.value


def test_an_index_that_replaces_the_memory():
    for key in (lambda r: (r, 1), lambda r: (slice(r, None), 1), lambda r: r, lambda r: ([1, 2], r),
                lambda r: (..., r)):
        x = fb.arange(4000.0).reshape(40, 100)
        x = x.clone()
        with pytest.raises((IndexError, RuntimeError)):
            x[key(Replaces(x, 39))]
        x = fb.zeros(40, 100)
        with pytest.raises((IndexError, RuntimeError)):
            x[key(Replaces(x, 39))] = 1


def test_bounds_of_slices_have_their_say():
    class Three:
        def __index__(self):
            return 3
    x = fb.arange(10)
    assert x[Three():].tolist() == [3, 4, 5, 6, 7, 8, 9]
    assert x[:Three()].tolist() == [0, 1, 2]
    assert x[::Three()].tolist() == [0, 3, 6, 9]
    assert x[fb.tensor(3):].tolist() == [3, 4, 5, 6, 7, 8, 9]
    assert x[None, Three()].tolist() == [3]
