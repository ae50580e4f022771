"""Nodes with very many inputs and results: no counter of the graph is narrow."""

import pytest

import flambeau
from flambeau.autograd import Function, grad


@pytest.mark.parametrize("n", [65_535, 65_536, 65_537, 131_072 + 3])
def test_cat_of_many(n):
    x = flambeau.tensor([1.0, 2.0], requires_grad=True)
    y = flambeau.cat([x] * n)
    assert y.requires_grad and len(y.grad_fn.next_functions) == n
    (y * y).sum().backward()
    assert x.grad.tolist() == [2 * n, 4 * n]


def test_stack_of_many_different():
    leaves = [flambeau.tensor(float(k), requires_grad=True) for k in range(70_000)]
    flambeau.stack(leaves).sum().backward()
    assert all(x.grad.item() == 1 for x in leaves)


def test_split_into_many():
    x = flambeau.ones(70_000, requires_grad=True)
    parts = x.unbind()
    (parts[0] * 2 + parts[65_535] * 3 + parts[65_536] * 4 + parts[69_999] * 5).backward()
    assert [x.grad[k].item() for k in (0, 1, 65_535, 65_536, 69_999)] == [2, 0, 3, 4, 5]
    assert parts[69_999].output_nr == 69_999


def test_function_of_many():
    class Spread(Function):
        @staticmethod
        def forward(ctx, *xs):
            return tuple(x * 2 for x in xs)

        @staticmethod
        def backward(ctx, *gs):
            return tuple(g * 2 for g in gs)

    leaves = [flambeau.tensor(1.0, requires_grad=True) for _ in range(300)]
    results = Spread.apply(*leaves)
    (results[0] + 5 * results[299]).backward()
    assert [leaves[k].grad.item() for k in (0, 1, 299)] == [2, 0, 10]


def test_only_the_wanted_of_many():
    """Beyond 64 edges, too, a gradient that is not wanted is not handed on."""
    x, w = flambeau.ones(2, requires_grad=True), flambeau.ones(2, requires_grad=True)
    y = flambeau.cat([x] * 100 + [w] * 100)
    (g,) = grad(y.sum(), w)
    assert g.tolist() == [100, 100] and x.grad is None


def test_versions_are_wide():
    """A count of writes that comes round to the same 32 bits is not taken for no write at all."""
    x = flambeau.ones(2, requires_grad=True)
    w = flambeau.ones(2)
    y = x * w
    flambeau._C.bump_version(w, 2**32)
    with pytest.raises(RuntimeError, match="changed in place"):
        y.sum().backward()
    assert w._version == 2**32


def test_view_versions_are_wide():
    base = flambeau.ones(2, 2, requires_grad=True) * 1
    v = base[0]
    flambeau._C.bump_version(base, 2**32 - 1)
    base.mul_(2)
    assert v.grad_fn.name() == "AsStridedBackward0"
