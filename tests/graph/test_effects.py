"""Calls that do more than computing results, inside a program: running statistics are moved, random numbers drawn."""

import copy
import io
import pickle

import numpy
import pytest

import flambeau
from flambeau import _C, nn
from flambeau.nn import functional as F


def statistics():
    flambeau.manual_seed(0)
    return flambeau.randn(16, 8) + 3, flambeau.zeros(8), flambeau.ones(8)


def norm(x, mean, var):
    return F.batch_norm(x, mean, var, training=True)


def written_to_a_file(t):
    file = io.BytesIO()
    flambeau.save(t, file)
    return flambeau.load(io.BytesIO(file.getvalue()))


def nobody_wants_the_result(x, mean, var):
    norm(x, mean, var)
    return x + 1


def the_same_twice(x, mean, var):
    return norm(x, mean, var), norm(x, mean, var)


def read_before_and_after(x, mean, var):
    before = mean * 2
    norm(x, mean, var)
    return before, mean * 2, var[2:] + 1


def kept_before(x, mean, var):
    kept = flambeau.where(x[0] > 0, mean, mean), mean.neg().neg(), mean.double().float(), mean.clone()
    norm(x, mean, var)
    return [k * 1 for k in kept]


def fused_around(x, mean, var):
    y = (x * mean).sin()
    z = norm(x, mean, var)
    return y + z * mean, (y * mean).cos()


def written_afterwards(x, mean, var):
    y = norm(x, mean, var)
    mean.mul_(2)
    mean[1:].copy_(var[1:])
    return y, mean + 0


def statistics_of_its_own(x, mean, var):
    mean, var = mean * 1, var * 1
    y = norm(x, mean, var)
    return y, mean, var


def in_evaluation(x, mean, var):
    return F.batch_norm(x, mean, var) + mean


@pytest.mark.parametrize("backend", [None, lambda gm, inputs: gm.forward])
@pytest.mark.parametrize("fn", [nobody_wants_the_result, the_same_twice, read_before_and_after, kept_before,
                                fused_around, written_afterwards, statistics_of_its_own, in_evaluation])
def test_running_statistics(fn, backend):
    def outcome(run):
        x, mean, var = statistics()
        return str((run(x, mean, var), mean, var))
    compiled = flambeau.compile(fn, **({"backend": backend} if backend else {}))
    for _ in range(2):
        assert outcome(compiled) == outcome(fn)


READS = {
    "item": lambda m: m[0].item(), "float": lambda m: float(m[0]), "bool": lambda m: bool(m[1]),
    "int": lambda m: int(m[0] * 0 + 1), "complex": lambda m: complex(m[0]), "tolist": lambda m: m.tolist(),
    "repr": repr,
    "format": lambda m: f"{m[0]:.4f}", "iter": lambda m: [float(x) for x in m], "numpy": lambda m: m.numpy().copy(),
    "array": numpy.array, "deepcopy": copy.deepcopy, "pickle": lambda m: pickle.loads(pickle.dumps(m)),
    "tensor": lambda m: flambeau.tensor([m[0], m[1]]), "copy_": lambda m: flambeau.zeros(8).copy_(m),
    "out": lambda m: flambeau.add(m, 1, out=flambeau.zeros(8)), "contains": lambda m: 0.0 in m,
    "data": lambda m: m.data.tolist(), "storage": lambda m: list(m.untyped_storage()), "save": written_to_a_file,
    "memoryview": lambda m: bytes(memoryview(m)), "dlpack": lambda m: numpy.from_dlpack(m).copy(), "max": max,
    "equal": lambda m: flambeau.equal(m, flambeau.zeros(8)), "nonzero": lambda m: m.nonzero(),
    "mask": lambda m: flambeau.arange(8.0)[m > 0.3], "unique": flambeau.unique, "numpy function": numpy.sin,
    "set_": lambda m: flambeau.empty(0).set_(m).tolist(), "view": lambda m: m.view(flambeau.int32).tolist(),
}


@pytest.mark.parametrize("write", [norm, lambda x, mean, var: mean.mul_(2).add_(x[0])])
@pytest.mark.parametrize("name", READS)
def test_whoever_reads_sees_memory_as_it_is_by_then(name, write):
    def fn(x, mean, var):
        write(x, mean, var)
        return READS[name](mean)
    assert str(flambeau.compile(fn)(*statistics())) == str(fn(*statistics()))


def test_a_module_in_training_moves_its_statistics_in_one_program():
    def step(model, x):
        model(x)
        return model(x).sum()
    models = nn.BatchNorm1d(8), nn.BatchNorm1d(8)
    compiled = flambeau.compile(step)
    for k in range(4):
        x = flambeau.randn(16, 8) + k
        before = _C.graph_counts()
        compiled(models[0], x), step(models[1], x)
        if k:
            assert _C.graph_counts()["programs"] == before["programs"] + 1
    for name, tensor in models[1].state_dict().items():
        assert flambeau.equal(models[0].state_dict()[name], tensor), name


def draws_of_all_kinds():
    a = flambeau.rand(3)
    b = flambeau.empty(3).normal_()  # at once
    c = F.dropout(flambeau.ones(40)), F.dropout(flambeau.ones(40))
    flambeau.randn(5)  # nobody wants it
    return a, b, *c, flambeau.randperm(6), flambeau.bernoulli(flambeau.full((9,), 0.5)), flambeau.randint(9, (4,))


def seeded_inside():
    a = flambeau.rand(2)
    flambeau.manual_seed(3)
    b = flambeau.rand(2)
    state = flambeau.get_rng_state()
    c = flambeau.rand(2)
    flambeau.set_rng_state(state)
    return a, b, c, flambeau.rand(2)


def forked():
    a = flambeau.rand(2)
    with flambeau.random.fork_rng():
        b = flambeau.rand(2)
    return a, b, flambeau.rand(2)


def generator_of_its_own():
    g = flambeau.Generator().manual_seed(1)
    a, b = flambeau.rand(2), flambeau.rand(2, generator=g)
    return a, b, flambeau.rand(2), flambeau.rand(2, generator=g)


def asked_in_between():
    a = flambeau.rand(3)
    return (a, flambeau.rand(3)) if a.sum() > 1 else (flambeau.rand(3), a)


@pytest.mark.parametrize("fn", [draws_of_all_kinds, seeded_inside, forked, generator_of_its_own, asked_in_between])
def test_draws_come_in_their_order(fn):
    def outcome(run):
        flambeau.manual_seed(11)
        return str((run(), flambeau.rand(2)))
    compiled = flambeau.compile(fn)
    for _ in range(3):
        assert outcome(compiled) == outcome(fn)


def test_each_call_draws_anew():
    drop = flambeau.compile(lambda x: F.dropout(x) + flambeau.rand(()))
    x = flambeau.ones(100)
    assert not flambeau.equal(drop(x), drop(x))


def test_a_training_step_with_dropout_is_one_program():
    flambeau.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 40), nn.BatchNorm1d(40), nn.ReLU(), nn.Dropout(0.5), nn.Linear(40, 1))
    optimizer = flambeau.optim.SGD(model.parameters(), 0.01)
    x, y = flambeau.randn(32, 8), flambeau.randn(32, 1)

    def step():
        optimizer.zero_grad()
        loss = F.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        return loss
    start = {k: v.clone() for k, v in model.state_dict().items()}

    def curve(run):
        model.load_state_dict(start)
        flambeau.manual_seed(5)
        return [float(run()) for _ in range(5)], {k: v.clone() for k, v in model.state_dict().items()}
    compiled = flambeau.compile(step)
    (found, reached), (expected, wanted) = curve(compiled), curve(step)
    assert found == expected and all(flambeau.equal(reached[k], wanted[k]) for k in wanted)
    before = _C.graph_counts()["programs"]
    compiled()
    assert _C.graph_counts()["programs"] == before + 1


def test_an_operator_of_ones_own_that_writes():
    library = flambeau.library

    @library.custom_op("effects::count", mutates_args=("total",))
    def count(x: flambeau.Tensor, total: flambeau.Tensor) -> flambeau.Tensor:
        total.add_(x.sum())
        return x + total

    @count.register_fake
    def _(x, total):
        return flambeau.empty_like(x)

    def fn(x, total):
        before = total * 1
        y = count(x, total)
        count(x, total)
        return before, y, total * 1
    x, totals = flambeau.arange(3.0), (flambeau.zeros(()), flambeau.zeros(()))
    assert str(flambeau.compile(fn)(x, totals[0])) == str(fn(x, totals[1])) and flambeau.equal(*totals)
