"""Memory stays flat: graphs, hooks, saved results and failed calls leave nothing behind."""

import gc
import weakref

import pytest

import flambeau


def allocated():
    gc.collect()
    return flambeau.memory.stats()["allocated"]


def train_step(w, x):
    loss = ((x @ w).tanh() ** 2).mean()
    loss.backward()
    with flambeau.no_grad():
        w -= 0.1 * w.grad
    w.grad = None


def hooked(w, x):
    y = x @ w
    y.register_hook(lambda g: g * 1)
    y.retain_grad()
    y.exp().sum().backward()
    w.grad = None


def failed(w, x):
    for call in (lambda: x @ x, lambda: flambeau.cat([x, w]), lambda: x.view(7, 9), lambda: x.sum(5),
                 lambda: x.add(object()), lambda: x[999]):
        with pytest.raises((RuntimeError, IndexError, TypeError)):
            call()


def double(w, x):
    (g,) = flambeau.autograd.grad((x @ w).exp().sum(), w, create_graph=True)
    g.sum().backward()
    w.grad = None


def abandoned(w, x):
    y = (x @ w).softmax(-1)
    y.note = y  # a cycle through an attribute
    del y


def views(w, x):
    y = x @ w
    y[0].mul_(2)
    y.t()[1].add_(1)
    y.sum().backward()
    w.grad = None


@pytest.mark.parametrize("step", [train_step, hooked, failed, double, abandoned, views], ids=lambda f: f.__name__)
def test_memory_is_flat(step):
    w = flambeau.rand(64, 48, requires_grad=True)
    x = flambeau.rand(16, 64)
    for _ in range(3):
        step(w, x)
    before = allocated()
    for _ in range(30):
        step(w, x)
    assert allocated() == before


def test_graph_is_freed_with_its_last_tensor():
    x = flambeau.ones(3, requires_grad=True)
    y = x.exp()
    watched = weakref.ref(y)
    z = y * 2
    del y
    gc.collect()
    z.sum().backward()
    del z
    gc.collect()
    assert watched() is None


def test_tensor_keeps_attributes_and_weak_references():
    x = flambeau.ones(3)
    x.name_of_mine = [1, 2]
    ref = weakref.ref(x)
    assert ref() is x and x.name_of_mine == [1, 2]
    del x
    assert ref() is None
