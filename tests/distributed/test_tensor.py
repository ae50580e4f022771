"""DTensor: however a tensor is spread, programs give what they give on the whole tensor, and so do their gradients."""

import copy
import itertools
import pickle
import random

import pytest

import flambeau
import flambeau.distributed as dist
from flambeau import nn, optim
from flambeau.distributed.device_mesh import DeviceMesh
from flambeau.distributed.tensor import (
    DTensor,
    Partial,
    Replicate,
    Shard,
    distribute_module,
    distribute_tensor,
    full,
    ones,
    rand,
    randn,
    zeros,
)
from flambeau.distributed.tensor._utils import compute_local_shape_and_global_offset
from flambeau.distributed.tensor.experimental import implicit_replication, local_map
from flambeau.nn import functional as F

from .tensor_cases import CASES

F64 = flambeau.float64
_meshes = {}


def mesh_of(*shape):
    """One mesh of each shape for all tests of a process."""
    if shape not in _meshes:
        _meshes[shape] = dist.init_device_mesh("cpu", shape)
    return _meshes[shape]


def numbers(shape, seed=1):
    return flambeau.randn(shape, dtype=F64, generator=flambeau.Generator().manual_seed(seed))


def spreads(mesh, ndim):
    return list(itertools.product([Replicate(), *map(Shard, range(ndim))], repeat=mesh.ndim))


def check_redistribution(sizes):
    mesh = mesh_of(*sizes)
    for shape in [(5, 3), (1, 7), (2, 3, 5)][:4 - mesh.ndim]:
        x = numbers(shape)
        for a in spreads(mesh, len(shape)):
            d = distribute_tensor(x, mesh, a)
            size, offset = compute_local_shape_and_global_offset(shape, mesh, a)
            part = x
            for dim, (n, at) in enumerate(zip(size, offset)):
                part = part.narrow(dim, at, n)
            assert flambeau.equal(d.to_local(), part)
            for b in [*spreads(mesh, len(shape)), (Partial(),) * mesh.ndim, (Partial("max"),) * mesh.ndim]:
                e = d.redistribute(placements=b, async_op=True)
                assert e.placements == b and flambeau.equal(e.full_tensor(), x), (a, b)
                if not b[0].is_partial():
                    assert tuple(e.to_local().shape) == compute_local_shape_and_global_offset(shape, mesh, b)[0]


def check_case(name, sizes):
    mesh, (function, shapes) = mesh_of(*sizes), CASES[name]
    values = [numbers(shape, k) for k, shape in enumerate(shapes)]
    leaves = [x.clone().requires_grad_() for x in values]
    expected = function(*leaves)
    weight = numbers(expected.shape, 9)
    (expected * weight).sum().backward()
    ways = [spreads(mesh, len(shape)) for shape in shapes]
    for placements in random.Random(name).choices(list(itertools.product(*ways)), k=3):
        parts = [distribute_tensor(x, mesh, p).requires_grad_() for x, p in zip(values, placements)]
        found = function(*parts)
        assert isinstance(found, DTensor) and found.shape == expected.shape
        assert (found.full_tensor() - expected).abs().max() < 1e-12, placements
        (found * distribute_tensor(weight, mesh, None)).sum().backward()
        for part, leaf in zip(parts, leaves):
            assert (part.grad.full_tensor() - leaf.grad).abs().max() < 1e-12, placements


def check_all(sizes):
    for name in CASES:
        check_case(name, sizes)


@pytest.mark.parametrize("sizes", [(4,), (2, 2)])
def test_every_way_to_spread_a_tensor(ranks, sizes):
    ranks.run(check_redistribution, sizes)


@pytest.mark.parametrize("sizes", [(4,), (2, 2)])
def test_operators_and_gradients(ranks, sizes):
    ranks.run(check_all, sizes)


# --- from parts, and back ---------------------------------------------------------------------------------------------

def check_parts():
    mesh, me = mesh_of(4), dist.get_rank()
    part = flambeau.full((2,), me + 1.0, requires_grad=True)
    whole = DTensor.from_local(part, mesh, [Shard(0)])
    assert whole.shape == (8,) and whole.full_tensor().tolist() == [1, 1, 2, 2, 3, 3, 4, 4]
    (whole * flambeau.tensor(2.0)).sum().backward()
    assert part.grad.tolist() == [2, 2]
    total = DTensor.from_local(part, mesh, [Partial()])
    assert total.full_tensor().tolist() == [10, 10]
    total.square().sum().backward()
    assert part.grad.tolist() == [22, 22]  # d (sum of parts)^2 = 2 * 10 for each
    leaf = distribute_tensor(flambeau.arange(8.0), mesh, [Shard(0)]).requires_grad_()
    (leaf.to_local() * (me + 1)).sum().backward()
    assert leaf.grad.full_tensor().tolist() == [1, 1, 2, 2, 3, 3, 4, 4] and leaf.grad.placements == (Shard(0),)
    leaf = distribute_tensor(flambeau.ones(3), mesh, [Replicate()]).requires_grad_()
    (leaf.to_local(grad_placements=[Partial()]) * (me + 1)).sum().backward()
    assert leaf.grad.full_tensor().tolist() == [10, 10, 10]
    uneven = DTensor.from_local(flambeau.ones(1 if me < 3 else 0), mesh, [Shard(0)], shape=(3,), stride=(1,))
    assert uneven.full_tensor().tolist() == [1, 1, 1]
    checked = DTensor.from_local(flambeau.full((2,), float(me)), mesh, run_check=True)
    assert checked.placements == (Replicate(),) and checked.to_local().tolist() == [0, 0]
    half = whole.detach().redistribute(placements=[Replicate()], forward_dtype=flambeau.bfloat16)
    assert half.dtype is flambeau.bfloat16


def check_making():
    mesh, me = mesh_of(4), dist.get_rank()
    assert zeros(5, 2, device_mesh=mesh, placements=[Shard(0)]).to_local().shape == [(2, 2), (2, 2), (1, 2), (0, 2)][me]
    assert ones((3,), device_mesh=mesh, dtype=F64).full_tensor().dtype is F64
    assert full((2, 2), 7, device_mesh=mesh, placements=[Shard(1)]).full_tensor().tolist() == [[7, 7], [7, 7]]
    for make, plain in ((rand, flambeau.rand), (randn, flambeau.randn)):
        flambeau.manual_seed(3)
        found = make(6, 5, device_mesh=mesh, placements=[Shard(0)])
        flambeau.manual_seed(3)
        assert flambeau.equal(found.full_tensor(), plain(6, 5))
    x = randn(6, 5, device_mesh=mesh, placements=[Shard(0)])
    for draw in (lambda t: F.dropout(t, 0.5), flambeau.rand_like, nn.init.kaiming_uniform_):
        flambeau.manual_seed(4)
        found = draw(x).full_tensor()
        flambeau.manual_seed(4)
        assert flambeau.equal(found, draw(x.full_tensor()))
    assert x.sum().item() == pytest.approx(x.full_tensor().sum().item(), rel=1e-5)
    other = copy.deepcopy(x)
    other.zero_()
    assert other.sum() == 0 and x.abs().sum() > 0 and "Shard(dim=0)" in repr(x)


def check_part_of_the_ranks():
    """A mesh of two of the four: the others have nothing, and take no part."""
    mesh, me = DeviceMesh("cpu", [1, 3]), dist.get_rank()
    x = distribute_tensor(flambeau.arange(6.0).view(3, 2), mesh, [Shard(0)])
    y = (x @ x.t()).relu().sum(0).redistribute(placements=[Replicate()])
    r = randn(4, device_mesh=mesh, placements=[Shard(0)])
    assert y.shape == (3,) and y.to_local().tolist() == ([9, 39, 69] if me in (1, 3) else [])
    assert (x.to_local().shape[0], r.to_local().numel()) == {0: (0, 0), 1: (2, 2), 2: (0, 0), 3: (1, 2)}[me]
    assert x.softmax(0).mean().shape == ()


def refused():
    mesh = mesh_of(4)
    x = distribute_tensor(flambeau.ones(4, 2), mesh, [Shard(0)])
    total = x.sum()
    for call, error, text in [
            (lambda: x + flambeau.ones(4, 2), RuntimeError, r"plain tensor \[4, 2\] beside a DTensor"),
            (lambda: x[1:3].zero_(), RuntimeError, "writing to it would be lost"),
            (lambda: total.sqrt_(), RuntimeError, "Replicate"),
            (lambda: x.index_add_(0, distribute_tensor(flambeau.tensor([0]), mesh, None), x[:1]), NotImplementedError,
             "no rule"),
            (lambda: x.redistribute(placements=[Shard(2)]), IndexError, "Shard|dimension|range"),
            (lambda: x.redistribute(placements=[Shard(0), Shard(1)]), ValueError, "1 dimensions"),
            (lambda: distribute_tensor(flambeau.ones(2), mesh, ["S"]), TypeError, "Shard, Replicate or Partial"),
            (lambda: distribute_tensor(flambeau.tensor(1.0), mesh, [Shard(0)]), ValueError, "without dimensions"),
            (lambda: pickle.dumps(x), NotImplementedError, "checkpoint"),
            (lambda: Partial("median"), ValueError, "reduce_op")]:
        with pytest.raises(error, match=text):
            call()
    with implicit_replication():
        assert (x + flambeau.ones(4, 2)).full_tensor().sum() == 16


def test_parts(ranks):
    ranks.run(check_parts)


def test_making(ranks):
    ranks.run(check_making)


def test_part_of_the_ranks(ranks):
    ranks.run(check_part_of_the_ranks)


def test_refusals(ranks):
    ranks.run(refused)


def check_local_map():
    mesh, w = mesh_of(4), numbers((3, 5), 2)
    x = distribute_tensor(numbers((8, 3)), mesh, [Shard(0)]).requires_grad_()
    rows = local_map(lambda a, b, scale: (a @ b * scale, len(a)), out_placements=([Shard(0)], None),
                     in_placements=([Shard(0)], [Replicate()], None))
    product, count = rows(x, distribute_tensor(w, mesh, [Replicate()]), 2.0)
    assert product.placements == (Shard(0),) and count == 2
    assert (product.full_tensor() - numbers((8, 3)) @ w * 2).abs().max() < 1e-12
    product.sum().backward()
    assert (x.grad.full_tensor() - (w.sum(1) * 2).expand(8, 3)).abs().max() < 1e-12

    @local_map(out_placements=[Partial()], in_placements=([Shard(1)],), redistribute_inputs=True)
    def total(part):
        return part.sum()
    assert (total(x).full_tensor() - numbers((8, 3)).sum()).abs() < 1e-12
    assert local_map(lambda a: a + 1, out_placements=[Shard(0)])(flambeau.ones(2)).tolist() == [2, 2]
    for call, text in [
            (lambda: local_map(lambda a: a, [Shard(1)], ([Shard(1)],))(x), "redistribute_inputs=True"),
            (lambda: local_map(lambda a: a, [Shard(0)], (None,))(x), "say how it is spread"),
            (lambda: local_map(lambda a: (a, a), [Shard(0)])(x), "out_placements are for 1 values, and there are 2")]:
        with pytest.raises(ValueError, match=text):
            call()


def test_functions_of_parts(ranks):
    ranks.run(check_local_map)


# --- training ---------------------------------------------------------------------------------------------------------

def net():
    flambeau.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 9), nn.Tanh(), nn.LayerNorm(9), nn.Dropout(0.3), nn.Linear(9, 3)).double()


def cut(name, module, mesh):
    if isinstance(module, nn.Linear):
        for key, p in list(module._parameters.items()):
            module.register_parameter(key, nn.Parameter(distribute_tensor(p.detach(), mesh, [Shard(0)])))


OPTIMIZERS = {"SGD": {"lr": 0.05, "momentum": 0.9, "nesterov": True}, "AdamW": {"lr": 0.05, "amsgrad": True},
              "Adagrad": {"lr": 0.05}, "RAdam": {"lr": 0.05}, "Adafactor": {"lr": 0.05}}


def check_training(name):
    mesh, kind = mesh_of(4), getattr(optim, name)
    model, expected = distribute_module(net(), mesh, cut), net()
    assert model[2].weight.placements == (Replicate(),)
    mine, theirs = (kind(m.parameters(), **OPTIMIZERS[name]) for m in (model, expected))
    for step in range(3):
        x, t = numbers((6, 4), step), flambeau.arange(6) % 3
        spread = distribute_tensor(x, mesh, [Shard(0)]), distribute_tensor(t, mesh, [Shard(0)])
        for m, opt, (a, b) in ((model, mine, spread), (expected, theirs, (x, t))):
            flambeau.manual_seed(step)
            opt.zero_grad()
            F.cross_entropy(m(a), b).backward()
        norm, same = (nn.utils.clip_grad_norm_(m.parameters(), 0.5) for m in (model, expected))
        assert abs(norm.full_tensor() - same) < 1e-12
        mine.step()
        theirs.step()
    for p, q in zip(model.parameters(), expected.parameters()):
        assert (p.full_tensor() - q).abs().max() < 1e-12
    state = mine.state[model[0].weight]
    assert name == "Adafactor" or all(x.placements == (Shard(0),) for x in state.values() if x.ndim == 2)


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_training_equals_one_process(ranks, name):
    ranks.run(check_training, name)
