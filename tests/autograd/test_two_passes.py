"""Two threads over one graph: passes that keep it, passes that free it, and one that lets go of it."""

import gc
import threading
import weakref

import pytest

import flambeau
from flambeau.autograd import Function, grad

ROUNDS = 60

pytestmark = pytest.mark.usefixtures("frequent_switches")


def at_once(*calls):
    """Runs the calls in threads that start together -> what each returned or raised."""
    barrier, found = threading.Barrier(len(calls)), [None] * len(calls)

    def work(k, call):
        barrier.wait()
        try:
            found[k] = call()
        except Exception as error:
            found[k] = error
    threads = [threading.Thread(target=work, args=(k, call)) for k, call in enumerate(calls)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    return found


class Square(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return 2 * x * g


def operators(x):
    y = x
    for _ in range(20):
        y = flambeau.where(x > 0, y * x, y / (x * x + 1))
        y = flambeau.addcmul(y, x, y.sin()) * 0.5
    return y.sum()


def large(x):
    """Kernels that give the interpreter's lock back."""
    y = x.repeat(60_000)
    return (y * y.sin() * y).sum()


def functions(x):
    y = x
    for _ in range(20):
        y = Square.apply(y) * x
    return y.sum()


def written(x):
    y = x * 1
    for k in range(12):
        y[k % 3:].mul_(x[: len(x) - k % 3])
    return (y * y).sum()


def packed(x):
    with flambeau.autograd.graph.saved_tensors_hooks(lambda t: t.clone(), lambda t: t):
        return operators(x)


def checkpointed(x):
    return flambeau.utils.checkpoint.checkpoint(operators, x, use_reentrant=False)


GRAPHS = [operators, large, functions, written, packed, checkpointed]


def is_refusal(error):
    return isinstance(error, RuntimeError) and "retain_graph=True" in str(error)


@pytest.mark.parametrize("graph", GRAPHS, ids=lambda f: f.__name__)
def test_passes_that_free_one_graph(graph):
    """Each pass has the whole gradient, or says that the graph was freed; never anything in between."""
    x = flambeau.linspace(0.5, 1, 8, dtype=flambeau.float64).requires_grad_()
    (expected,) = grad(graph(x), x)
    rounds = ROUNDS // 6 if graph is large else ROUNDS
    for _ in range(rounds):
        loss = graph(x)
        found = at_once(*[lambda loss=loss: grad(loss, x)[0]] * 3)
        right = [g for g in found if isinstance(g, flambeau.Tensor)]
        assert all(is_refusal(e) for e in found if not isinstance(e, flambeau.Tensor)), found
        for g in right:
            flambeau.testing.assert_close(g, expected)


@pytest.mark.parametrize("graph", GRAPHS, ids=lambda f: f.__name__)
def test_passes_that_keep_one_graph(graph):
    x = flambeau.linspace(0.5, 1, 8, dtype=flambeau.float64).requires_grad_()
    (expected,) = grad(graph(x), x)
    loss = graph(x)
    for _ in range(ROUNDS // 6):
        for g in at_once(*[lambda: grad(loss, x, retain_graph=True)[0]] * 3):
            assert isinstance(g, flambeau.Tensor), g
            flambeau.testing.assert_close(g, expected)


@pytest.mark.parametrize("graph", GRAPHS, ids=lambda f: f.__name__)
def test_pass_beside_deletion(graph):
    """The graph goes while a pass is in it: the pass keeps what it needs."""
    x = flambeau.linspace(0.5, 1, 8, dtype=flambeau.float64).requires_grad_()
    (expected,) = grad(graph(x), x)
    for _ in range(ROUNDS // 6):
        losses = [graph(x)]

        def drop(losses=losses):
            losses.clear()
            gc.collect()
        first, _ = at_once(lambda losses=losses: grad(losses[0], x)[0] if losses else None, drop)
        assert isinstance(first, (flambeau.Tensor, IndexError, type(None))), first
        if isinstance(first, flambeau.Tensor):
            flambeau.testing.assert_close(first, expected)


def test_passes_add_to_one_leaf():
    """Both sums arrive in `.grad`."""
    x = flambeau.ones(8, dtype=flambeau.float64, requires_grad=True)
    for _ in range(ROUNDS):
        x.grad = None
        at_once(*[lambda: operators(x).backward()] * 3)
        (one,) = grad(operators(x), x)
        flambeau.testing.assert_close(x.grad, 3 * one)


def test_hook_that_frees_the_graph():
    """A pass inside a hook of another pass may free what the outer one still needs."""
    x = flambeau.ones(3, dtype=flambeau.float64, requires_grad=True)
    y = x.sin()
    z = y * y.cos()
    loss = z.sum()
    z.register_hook(lambda g: (grad(loss, x) if len(inside) < 1 and not inside.append(1) else None, None)[1])
    inside = []
    with pytest.raises(RuntimeError, match="retain_graph=True"):
        loss.backward()


def test_rule_that_frees_its_own_node():
    """Between two rules of one node, another pass frees it: the second rule says so instead of seeing nothing."""
    x, w = (flambeau.ones(3, dtype=flambeau.float64, requires_grad=True) for _ in range(2))

    def unpack(t):
        if inside and inside.pop():
            grad(loss, (x, w))
        return t
    inside = []
    with flambeau.autograd.graph.saved_tensors_hooks(lambda t: t, unpack):
        loss = (x * w).sum()
    inside.append(True)
    with pytest.raises(RuntimeError, match="retain_graph=True"):
        loss.backward()


def test_freed_write_says_so():
    """The node inside a write through a view refuses a second pass as every other does."""
    x = flambeau.ones(2, 3, dtype=flambeau.float64, requires_grad=True)
    w = flambeau.ones(3, dtype=flambeau.float64, requires_grad=True)
    y = x * 1
    y[0].mul_(w)
    y.sum().backward()
    with pytest.raises(RuntimeError, match="retain_graph=True"):
        y.sum().backward()


def test_release_runs_python():
    """What a freed graph drops may run Python that asks the graph again."""
    x = flambeau.ones(3, requires_grad=True)
    t = x.detach() + 1
    y = x * t
    node, seen = y.grad_fn, []
    watch = weakref.ref(t, lambda _: seen.append(node._released))
    del t
    y.sum().backward()
    assert seen == [True] and watch() is None
    with pytest.raises(RuntimeError, match="retain_graph=True"):
        print(node._saved_other)
