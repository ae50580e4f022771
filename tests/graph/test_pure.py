"""Functions that are said to be pure: calls like an earlier one run no Python, and give what Python would."""

import gc
import threading

import pytest

import flambeau
from flambeau import _C, nn
from flambeau.nn import functional as F


def pure(fn, how=True):
    return flambeau.compile(fn, options={"pure": how})


class Counted:
    """A function that counts its calls."""

    def __init__(self, fn):
        self.fn, self.calls = fn, 0

    def __call__(self, *args, **kwargs):
        self.calls += 1
        return self.fn(*args, **kwargs)


def again(fn, *calls, times=1):
    """Whether calls of the compiled function give what the function gives, with Python run `times` times."""
    counted = Counted(fn)
    compiled = pure(counted)
    for args in calls:
        assert str(compiled(*args)) == str(fn(*args))
    assert counted.calls == times


def test_results_of_every_form():
    def fn(x, names, scale=2.0):
        y = x * scale
        return {"sum": y.sum(), "parts": [y[1:], (y.t(), None)], "name": names[0], "view": y.view(flambeau.int32)}
    again(fn, *((flambeau.randn(3, 4), ["a", "b"]) for _ in range(4)))
    result = pure(fn)(flambeau.ones(3, 4), ["a"])
    assert list(result) == ["sum", "parts", "name", "view"] and type(result["parts"][1]) is tuple


def test_what_looks_different_is_a_call_of_its_own():
    def fn(x, k):
        return (x * k).sum(-1), x.shape[0] * k
    x = flambeau.randn(4, 4)
    again(fn, (x, 2), (x + 1, 2), (x, 3), (x, 2.0), (x, True), (x.t(), 2), (x[1:], 2), (x.double(), 2),
          (x[:, None], 2), (x.t() + 0, 2), times=8)
    counted = Counted(fn)
    compiled = pure(counted)
    with flambeau.no_grad():
        compiled(x, 2)
    with flambeau.inference_mode():
        compiled(x, 2)
    with flambeau.autocast("cpu"):
        compiled(x, 2)
    assert compiled(x, 2)[1] == 8 and counted.calls == 4


def test_arguments_that_share_memory():
    def fn(x, y):
        x.add_(1)
        return y * 2
    a, b = flambeau.zeros(3), flambeau.zeros(3)
    compiled = pure(fn)
    assert compiled(a, b).tolist() == [0, 0, 0] == compiled(a, b).tolist()
    assert compiled(a, a).tolist() == [6, 6, 6]
    assert compiled(b, b).tolist() == [2, 2, 2]
    assert compiled(b, a).tolist() == [6, 6, 6] and b.tolist() == [2, 2, 2]


def test_arguments_that_share_memory_unseen():
    def fn(x, y):
        x.add_(1)
        return y * 2
    compiled = pure(fn)
    a, b, c = flambeau.zeros(3), flambeau.zeros(3), flambeau.ones(3)
    assert compiled(a, a.data).tolist() == [2, 2, 2] and compiled(b, c.data).tolist() == [2, 2, 2]
    assert b.tolist() == [1, 1, 1] == c.tolist()


def test_signs_of_zeros():
    compiled = pure(lambda x, k: 1 / (x * k))
    assert [compiled(flambeau.ones(1), k).item() for k in (0.0, 0.0, -0.0)] == [float("inf")] * 2 + [-float("inf")]


def test_constants():
    again(lambda x: x * flambeau.tensor([1.0, 2.0]) + flambeau.arange(2), *((flambeau.randn(2),) for _ in range(3)))


def test_a_parameter_may_be_an_argument_too():
    weight = flambeau.ones(3)

    def fn(x):
        return x * weight
    compiled = pure(fn)
    assert compiled(flambeau.full((3,), 2.0)).tolist() == [2, 2, 2]
    weight.mul_(3)
    assert compiled(flambeau.full((3,), 2.0)).tolist() == [6, 6, 6] and compiled(weight).tolist() == [9, 9, 9]


def test_memory_is_written_and_counted():
    cache = flambeau.zeros(2, 5)

    def fn(x, at):
        cache[:, at] = x
        return cache.sum()
    compiled = pure(fn)
    for k in range(6):
        before = cache._version
        assert float(compiled(flambeau.full((2,), float(k)), k % 2)) == float(cache.sum())
        assert cache._version == before + 1
    assert cache[:, :2].tolist() == [[4, 5], [4, 5]]


def test_results_are_new_each_time():
    compiled = pure(lambda x: x + 1)
    x = flambeau.zeros(3)
    first, second = compiled(x), compiled(x)
    first.fill_(7)
    third = compiled(first)
    assert second.tolist() == [1, 1, 1] and third.tolist() == [8, 8, 8]
    assert len({t.data_ptr() for t in (x, first, second, third)}) == 4


def test_draws_go_on():
    compiled = pure(lambda x: F.dropout(x, 0.5))
    flambeau.manual_seed(0)
    found = [compiled(flambeau.ones(50)) for _ in range(3)]
    flambeau.manual_seed(0)
    assert str(found) == str([F.dropout(flambeau.ones(50), 0.5) for _ in range(3)])


def local_sum(x):
    total = flambeau.tensor([0.0, 0.0])
    total += x
    return total * 2


SIDE = []
KEPT = {}


IMPURE = {
    "argument": lambda x: x, "argument too": lambda x: (x + 1, x),
    "kept elsewhere": lambda x: KEPT.update(y=x + 1) or x * 2,
    "value": lambda x: x + float(x.sum()), "value of an argument": lambda x: x + float(x[1]),
    "list": lambda x: x + x.tolist()[1], "numpy": lambda x: x + int(x.numpy()[1]),
    "seed": lambda x: (flambeau.manual_seed(3), x + flambeau.rand(2))[1], "shape by value": flambeau.nonzero,
    "object": lambda x: object(), "local memory": local_sum, "nothing": lambda x: SIDE.append(1),
    "gradient": lambda x: F.linear(x, nn.Parameter(flambeau.ones(2, 2)))}


@pytest.mark.parametrize("fn", IMPURE.values(), ids=IMPURE)
def test_what_cannot_be_done_again_is_called(fn):
    counted = Counted(fn)
    compiled = pure(counted)
    for k in range(3):
        x = flambeau.tensor([1.0, k])
        if fn(x).__class__ is not object:
            assert str(compiled(x)) == str(fn(x))
        else:
            compiled(x)
    assert counted.calls == 3


def test_modules():
    net = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Dropout(), nn.Linear(8, 2)).eval()
    compiled = pure(net)
    x = flambeau.randn(3, 4)
    with flambeau.no_grad():
        for _ in range(3):
            assert flambeau.equal(compiled(x), net(x))
        before = _C.graph_counts()["calls"]
        compiled(x)
        assert _C.graph_counts()["calls"] == before  # nothing was captured
        for p in net.parameters():
            p.mul_(2)
        assert flambeau.equal(compiled(x), net(x))
        net.train()
        flambeau.manual_seed(0)
        trained = compiled(x)
        flambeau.manual_seed(0)
        net.eval()
    assert not flambeau.equal(trained, net(x))


def test_a_module_that_is_compiled_in_place_is_in_training_or_not():
    net = nn.Dropout(1.0)
    net.compile(options={"pure": True})
    x = flambeau.ones(3)
    for training in (True, True, False, False, True):
        assert net.train(training)(x * 1).tolist() == [0.0 if training else 1.0] * 3


def test_gradients_are_computed_as_without():
    net = nn.Linear(4, 2)
    compiled = pure(lambda x: net(x).sum())
    for _ in range(2):
        net.zero_grad()
        compiled(flambeau.ones(1, 4)).backward()
        assert net.weight.grad.tolist() == [[1] * 4] * 2


@pytest.mark.parametrize("optimizer", [flambeau.optim.Adam, lambda p: flambeau.optim.SGD(p, 0.1, momentum=0.9)])
def test_a_training_step(optimizer):
    def make():
        flambeau.manual_seed(0)
        net = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 3))
        update = optimizer(net.parameters())

        def step(x, y):
            loss = F.cross_entropy(net(x), y)
            loss.backward()
            update.step()
            update.zero_grad()
            return loss.detach()
        return net, update, Counted(step)
    (plain, plain_update, step), (net, update, counted) = make(), make()
    compiled = pure(counted)
    for k in range(6):
        x, y = flambeau.randn(6, 4), flambeau.tensor([0, 1, 2, k % 3, 0, 1])
        assert flambeau.equal(compiled(x, y), step(x, y)), k
    assert counted.calls == 2  # in the first the optimizer makes its state
    assert str(net.state_dict()) == str(plain.state_dict())
    assert str(update.state_dict()) == str(plain_update.state_dict())
    assert [p._version for p in net.parameters()] == [p._version for p in plain.parameters()]


def test_checked():
    state = [1.0]
    checked = pure(lambda x: x * state[0], "check")
    x = flambeau.ones(2)
    assert checked(x).tolist() == checked(x).tolist() == [1, 1]
    state[0] = 2.0
    with pytest.raises(RuntimeError, match="not pure"):
        checked(x)
    grown = []
    checked = pure(lambda x: (grown.append(1), x if len(grown) < 2 else x.neg())[1] + 1, "check")
    checked(x)
    with pytest.raises(RuntimeError, match="not pure"):
        checked(x)
    with pytest.raises(RuntimeError, match="'pure' must be True, False or 'check'"):
        pure(lambda x: x, "yes")


def test_errors_and_what_comes_after():
    compiled = pure(lambda x, y: x // y)
    x = flambeau.tensor([4])
    assert compiled(x, flambeau.tensor([2])).tolist() == [2]
    with pytest.raises(RuntimeError, match="ZeroDivisionError"):
        compiled(x, flambeau.tensor([0]))
    assert compiled(x, flambeau.tensor([4])).tolist() == [1]


def test_memory_of_arguments_is_let_go():
    compiled = pure(lambda x: x.sum())
    for _ in range(3):
        compiled(flambeau.ones(1 << 18))
    gc.collect()
    before = _C.memory_stats()["allocated"]
    for _ in range(50):
        compiled(flambeau.ones(1 << 18))
    after = _C.memory_stats()["allocated"]
    assert after - before < 1 << 18


def test_calls_from_several_threads():
    compiled = pure(lambda x: (x * 2).exp().sum())
    wrong = []

    def work(k):
        for _ in range(200):
            x = flambeau.full((50_000,), k / 10)
            if not flambeau.equal(compiled(x), (x * 2).exp().sum()):
                wrong.append(k)
    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_inside_other_captures():
    inner = pure(lambda x: x * 2)
    x = flambeau.ones(2)
    inner(x), inner(x)
    assert flambeau.compile(lambda x: inner(x) + 1)(x).tolist() == [3, 3]
    assert flambeau.vmap(inner)(flambeau.ones(2, 2)).tolist() == [[2, 2], [2, 2]]
    assert flambeau.func.grad(lambda x: inner(x).sum())(x).tolist() == [2, 2]
    assert [step.names for step in inner.report(x).steps] == [["mul"]]
