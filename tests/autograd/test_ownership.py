"""Gradients are added in place only where nobody else can see the memory: the storage decides, not the tensor."""

import weakref

import numpy as np
import pytest

import flambeau
from flambeau.autograd import Function, grad


def leaf(*values):
    return flambeau.tensor(values, dtype=flambeau.float64, requires_grad=True)


def function(rule, count=2):
    """A sum of `count` arguments whose gradients are what `rule` makes of the gradient."""
    class Sum(Function):
        @staticmethod
        def forward(ctx, *args):
            return sum(args)

        @staticmethod
        def backward(ctx, g):
            return rule(g)
    return Sum.apply


def through(rule):
    """Gradients of a and b: through `rule`, and along other ways as well, so that they are added to."""
    x, w = leaf(1, 2), leaf(3, 4)
    a, b = x * 1, w * 1
    late = a * 10 + b * 100
    return grad((function(rule)(a, b) + late).sum(), (x, w))


KEPT = {}

#: gradients g, g of the two arguments, sharing memory in different ways
SHARED = {
    "detached": lambda g: (lambda h: (h, h.detach()))(g * 1),
    "views": lambda g: (lambda h: (h.view(2), h[:]))(g * 1),
    "data": lambda g: (lambda h: (h, h.data))(g * 1),
    "alias alone": lambda g: ((g * 1).detach(), g),
    "expanded": lambda g: tuple(g[:1].clone().expand(2) for _ in range(2)),
    "expanded and detached": lambda g: tuple(g[:1].clone().expand(2).detach() for _ in range(2)),
    "rows of one": lambda g: tuple(flambeau.stack([g, g])),
    "chunks": lambda g: flambeau.cat([g, g]).chunk(2),
    "numpy": lambda g: tuple(flambeau.from_numpy(np.ones(2)) for _ in range(2)),
    "kept array": lambda g: (KEPT.update(array=np.ones(2)), (flambeau.from_numpy(KEPT["array"]), g))[1],
    "kept export": lambda g: (KEPT.update(ones=g * 1, array=None), KEPT.update(array=KEPT["ones"].numpy()),
                              (KEPT.pop("ones"), g))[2],
    "kept dlpack": lambda g: (lambda h: (KEPT.update(array=np.from_dlpack(h)), (h, g))[1])(g * 1),
    "kept storage": lambda g: (lambda h: (KEPT.update(array=h.untyped_storage()), (h, g))[1])(g * 1),
}


@pytest.mark.parametrize("rule", SHARED.values(), ids=SHARED)
def test_shared_gradients_are_not_added_into(rule):
    """A custom backward may return tensors over one memory, and keep them."""
    KEPT.clear()
    gx, gw = through(rule)
    assert gx.tolist() == [11, 11] and gw.tolist() == [101, 101]
    if "array" in KEPT:
        kept = KEPT["array"]
        kept = kept if isinstance(kept, np.ndarray) else np.frombuffer(bytes(kept.tolist()))
        assert kept.tolist() == [1, 1]


@pytest.mark.parametrize("rule", SHARED.values(), ids=SHARED)
def test_shared_gradients_are_not_stolen(rule):
    """`.grad` never is memory that somebody else holds: the optimizer writes into it."""
    KEPT.clear()
    x, w = leaf(1, 2), leaf(3, 4)
    function(rule)(x, w).sum().backward()
    x.grad.mul_(5)
    assert x.grad.tolist() == [5, 5] and w.grad.tolist() == [1, 1]
    if isinstance(KEPT.get("array"), np.ndarray):
        assert KEPT["array"].tolist() == [1, 1]


def test_hook_returns_view_of_its_gradient():
    kept = []
    x = leaf(1, 2)
    y = x * 1
    y.register_hook(lambda g: (kept.append(g), g.view(2))[1])
    z = y * 1 + x * 10
    z.sum().backward()
    assert x.grad.tolist() == [11, 11] and kept[0].tolist() == [1, 1]


def test_given_gradient_stays():
    x = leaf(1, 2)
    y = x * 1
    g = flambeau.ones(2, dtype=flambeau.float64)
    flambeau.autograd.backward([y, y, y], [g, g.view(2), g.detach()])
    assert x.grad.tolist() == [3, 3] and g.tolist() == [1, 1]
    leaves = leaf(1, 2)
    leaves.backward(g.detach())
    leaves.backward(g.detach())
    assert leaves.grad.tolist() == [2, 2] and g.tolist() == [1, 1]


def test_retained_gradient_is_a_tensor_of_its_own():
    x = leaf(1, 2)
    y = x * 1
    z = y + 0
    y.retain_grad()
    z.retain_grad()
    g = flambeau.ones(2, dtype=flambeau.float64)
    z.backward(g, retain_graph=True)
    first = y.grad
    y.grad.mul_(7)
    assert z.grad.tolist() == [1, 1] and g.tolist() == [1, 1]
    z.backward(g)
    assert first.tolist() == [7, 7] and y.grad.tolist() == [8, 8]
    assert z.grad.tolist() == [2, 2] and x.grad.tolist() == [2, 2]


def test_accumulates_into_shared_grad():
    """`.grad` that two leaves share gets both sums, as the memory is one."""
    x, w = leaf(1, 2), leaf(3, 4)
    x.grad = flambeau.zeros(2, dtype=flambeau.float64)
    w.grad = x.grad.detach()
    (x * 2 + w * 3).sum().backward()
    assert x.grad.tolist() == w.grad.tolist() == [5, 5]


def test_grad_over_one_element_is_refused():
    """Adding into memory where two elements are one has no right answer."""
    x = leaf(1, 2)
    x.grad = flambeau.zeros(1, dtype=flambeau.float64).expand(2)
    with pytest.raises(RuntimeError, match="clone"):
        (x * 2).sum().backward()


def test_gradient_kept_by_weak_reference_only_is_not_written():
    seen = []
    x = leaf(1, 2)
    y = x * 1
    y.register_hook(lambda g: seen.append((weakref.ref(g), g.tolist())))
    (y * 2 + y * 3).sum().backward()
    assert seen[0][1] == [5, 5] and x.grad.tolist() == [5, 5]
