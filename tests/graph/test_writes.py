"""Writes to memory from outside are part of a program: what they leave behind, in which order, in how many steps."""

import numpy
import pytest

import flambeau
from flambeau import _C, nn, optim
from flambeau.compiler.passes.writes import forward_writes

from .test_passes import graph_of, names


def inputs():
    flambeau.manual_seed(0)
    return flambeau.randn(3, 4), flambeau.randn(3, 4), flambeau.randn(4, 3).t()


def whole(x, y, t):
    x.add_(y)
    t.copy_(x)
    y.fill_(2)


def partial(x, y, t):
    x[:, 1:3] = y[:, :2]
    x[0] += 1
    t[:2].mul_(x[1:])
    y[:, ::2].zero_()


def without_an_elementwise_operator(x, y, t):
    x.index_copy_(0, flambeau.tensor([2]), y[:1])
    x.index_add_(1, flambeau.tensor([0, 0, 1, 3]), y)
    y.scatter_(1, flambeau.tensor([[0], [1], [2]]), 5.0)
    t.tril_()
    t.cumsum_(0)
    x.masked_fill_(y > 0, -1)


def drawn(x, y, t):
    x.normal_()
    y[1:].uniform_(-1, 1)
    flambeau.nn.init.trunc_normal_(t)
    x.bernoulli_(0.5)


def read_before_and_after(x, y, t):
    before, view = x * 2, x[1:]
    x.mul_(y)
    between = view + 1
    x.sub_(between.sum())
    return before, between, view * 2, x.t() @ y


def the_value_before_is_read_later(x, y, t):
    """x * 2 is written before x itself is read for the last time in the same group."""
    doubled = x * 2
    kept = (doubled - 1) * x
    x.copy_(doubled)
    return kept, (doubled + 3) * y


def one_value_in_two_places(x, y, t):
    z = (x + 1) * y
    x.copy_(z)
    y.copy_(z)
    t.copy_(z)
    return z


def over_and_over(x, y, t):
    for _ in range(5):
        x.mul_(0.5).add_(y)
        y.neg_()


def converted(x, y, t):
    x.copy_(y.double() * 2)
    whole = flambeau.arange(3)
    whole.add_(2)
    x[:, 0] = whole
    t += whole.view(3, 1)


def along_rows(x, y, t):
    x.sub_(x.mean(-1, keepdim=True)).div_(x.std(-1, keepdim=True) + 1)
    t.copy_(x.softmax(-1))


def through_data(x, y, t):
    before = x._version
    x.data.add_(1)
    y.detach().mul_(x)
    return x._version - before, y._version


def with_out(x, y, t):
    flambeau.add(x, 1, out=y)
    flambeau.matmul(x, y.t(), out=t[:, :3])


def parts_of_values(x, y, t):
    out = flambeau.empty_like(x)
    out[..., ::2] = x[..., ::2] * y[..., 1::2]
    out[..., 1::2] = x[..., ::2].double()
    kept = out * 1
    out[1:].zero_()
    out[0].add_(1).mul_(y[1])
    square = flambeau.zeros(4, 4)
    square.diagonal().fill_(2)
    square.t()[1:, 2] += 1
    square[:, 3].copy_(square[:, 2])
    square[1:] = square[:-1]
    return out, kept, square, square.flatten()[::5]


def parts_of_what_is_still_read(x, y, t):
    z = x + 1
    w = z * 2
    z[0] = 5
    v = z.t()
    v[1].sub_(w[:, 0])
    return w, z, v


FUNCTIONS = [parts_of_values, parts_of_what_is_still_read, whole, partial, without_an_elementwise_operator, drawn,
             read_before_and_after, the_value_before_is_read_later, one_value_in_two_places, over_and_over, converted,
             along_rows, through_data, with_out]


@pytest.mark.parametrize("backend", [None, lambda gm, inputs: gm.forward], ids=["ours", "custom"])
@pytest.mark.parametrize("fn", FUNCTIONS)
def test_memory_and_results_are_those_of_eager_calls(fn, backend):
    def outcome(run):
        tensors = inputs()
        return str((run(*tensors), tensors, [t._version for t in tensors]))
    compiled = flambeau.compile(fn, **({"backend": backend} if backend else {}))
    for _ in range(2):
        assert outcome(compiled) == outcome(fn)


def steps_of(fn, *tensors):
    """[names of a step's operators] of a call."""
    return [step.names for step in flambeau.compile(fn).report(*tensors).steps]


def test_a_value_is_written_where_it_goes_as_it_is_computed():
    def descend(p, g, m):
        m.mul_(0.9).add_(g)
        p.sub_(m * 0.01)
    assert steps_of(descend, *inputs()) == [["mul", "add", "copy_", "mul", "sub", "copy_"]]


def test_a_part_is_written_where_the_value_lies():
    def rotate(x, c, s):
        out = flambeau.empty_like(x)
        out[..., ::2] = x[..., ::2] * c - x[..., 1::2] * s
        out[..., 1::2] = x[..., ::2] * s + x[..., 1::2] * c
        return out
    x, c, s = flambeau.randn(2, 8), flambeau.randn(4), flambeau.randn(4)
    assert [names[0] for names in steps_of(rotate, x, c, s)] == ["empty_like", "mul", "_with_part", "mul", "_with_part"]
    assert flambeau.equal(flambeau.compile(rotate, fullgraph=True)(x, c, s), rotate(x, c, s))


def test_the_graph_before_and_after():
    def fn(p):
        p.mul_(2)
        p.add_(1)
        return p.sum()
    graph = graph_of(fn, flambeau.ones(2, 2))
    assert names(graph) == ["mul", "copy_", "add", "copy_", "sum"]
    forward_writes(graph)
    assert names(graph) == ["mul", "add", "copy_", "sum"]


def test_a_write_that_somebody_sees_stays():
    def fn(p):
        p.mul_(2)
        seen = p[:1] * 1
        p.add_(1)
        return seen
    graph = graph_of(fn, flambeau.ones(2, 2))
    forward_writes(graph)
    assert names(graph).count("copy_") == 2


def test_a_step_of_ones_own_is_one_program():
    def step(model, moments, x):
        model(x).square().mean().backward()
        with flambeau.no_grad():
            nn.utils.clip_grad_norm_(model.parameters(), 1.0, foreach=False)
            for p, m in zip(model.parameters(), moments, strict=True):
                m.mul_(0.9).add_(p.grad)
                p -= 0.1 * m
                p.grad = None
    flambeau.manual_seed(0)
    models = [nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2)) for _ in range(2)]
    models[1].load_state_dict(models[0].state_dict())
    moments = [[flambeau.zeros_like(p) for p in model.parameters()] for model in models]
    compiled = flambeau.compile(step)
    for _ in range(3):
        x = flambeau.randn(5, 4)
        before = _C.graph_counts()
        compiled(models[0], moments[0], x)
        assert _C.graph_counts()["programs"] == before["programs"] + 1
        step(models[1], moments[1], x)
    for a, b in zip(models[0].parameters(), models[1].parameters(), strict=True):
        assert flambeau.allclose(a, b, atol=1e-7)


def test_an_exception_leaves_what_was_written_before_it():
    def fn(x):
        x.add_(1)
        raise KeyError
    x = flambeau.zeros(2)
    with pytest.raises(KeyError):
        flambeau.compile(fn)(x)
    assert x.tolist() == [1, 1]


def test_memory_that_numpy_knows_is_written_at_once():
    x = flambeau.zeros(2)
    array = x.numpy()

    def fn():
        x.add_(1)
        return array.copy()
    assert flambeau.compile(fn)().tolist() == [1, 1]
    y = flambeau.from_numpy(numpy.zeros(2))
    assert flambeau.compile(lambda: (y.add_(1), float(y.numpy()[0])))()[1] == 1


@pytest.mark.parametrize("fn", [lambda x: x[1:].add_(x[:-1]), lambda x: x.t().add_(x),
                                lambda x: x.expand(2, 3, 3).add_(1),
                                lambda x: (x * 1).t().add_(x), lambda x: x.add_(flambeau.ones(2, 3, 3)),
                                lambda x: x.add_(1j), lambda x: flambeau.from_numpy(x.numpy()[1:]).add_(x[:-1])])
def test_what_eager_calls_refuse_is_refused(fn):
    def outcome(run):
        x = flambeau.arange(9.0).view(3, 3)
        try:
            return str((run(x), x))
        except Exception as error:
            return type(error), str(error), str(x)
    assert outcome(flambeau.compile(fn)) == outcome(fn)


def test_one_argument_in_two_layouts():
    """A value that is laid out anew for one argument is still there for the other."""
    def fn(x):
        y = x[:1] + 1
        return y @ y.t()
    x = flambeau.randn(4, 3).t()
    x.mul_(2)
    doubled = flambeau.compile(lambda x: (x[:1].mul_(2), fn(x))[1])
    assert flambeau.equal(doubled(x.clone()), fn(flambeau.cat([x[:1] * 2, x[1:]])))


OPTIMIZERS = {"SGD": lambda p: optim.SGD(p, 0.1), "momentum": lambda p: optim.SGD(p, 0.1, 0.9, nesterov=True),
              "Adam": optim.Adam, "AdamW": lambda p: optim.AdamW(p, amsgrad=True), "RMSprop": optim.RMSprop,
              "Adagrad": optim.Adagrad, "Adadelta": optim.Adadelta, "NAdam": optim.NAdam}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_a_training_step_is_one_program(name):
    def step(model, optimizer, x):
        optimizer.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        nn.utils.clip_grad_value_(model.parameters(), 0.1)
        optimizer.step()
        return loss
    runs = []
    for _ in range(2):
        flambeau.manual_seed(0)
        model = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Tanh(), nn.Dropout(), nn.Linear(8, 2))
        model[0].bias.requires_grad_(False)
        runs.append((model, OPTIMIZERS[name](model.parameters())))
    compiled = flambeau.compile(step)
    for k in range(5):
        x = flambeau.randn(6, 4)
        flambeau.manual_seed(k)
        before = _C.graph_counts()
        loss = compiled(*runs[0], x)
        programs = _C.graph_counts()["programs"] - before["programs"]
        assert programs == 1 or name == "NAdam"  # whose law is written in Python and asks for its counts
        flambeau.manual_seed(k)
        assert flambeau.equal(loss, step(*runs[1], x))
        for _, optimizer in runs:
            optimizer.param_groups[0]["lr"] *= 0.5
    for a, b in zip(runs[0][0].state_dict().values(), runs[1][0].state_dict().values(), strict=True):
        assert flambeau.equal(a, b)
    assert str(runs[0][1].state_dict()) == str(runs[1][1].state_dict())
    assert [p._version for p in runs[0][0].parameters()] == [p._version for p in runs[1][0].parameters()]


def test_an_optimizer_refuses_in_a_program_what_it_refuses_outside():
    p = nn.Parameter(flambeau.ones(3))
    optimizer = optim.SGD([p], 0.1, momentum=0.9)
    p.grad = flambeau.ones(3)
    optimizer.step()
    optimizer.state[p]["momentum_buffer"] = flambeau.ones(2)
    with pytest.raises(RuntimeError, match=r"state of parameter 0 is float32 \[2\]"):
        flambeau.compile(optimizer.step)()
    assert p.tolist() == pytest.approx([0.9] * 3)
