"""fully_shard: training equals that of one process, and each rank keeps its part of the parameters only."""

import copy
import gc

import pytest

import flambeau
import flambeau.distributed as dist
from flambeau import nn, optim
from flambeau.distributed.fsdp import (
    CPUOffloadPolicy,
    FSDPModule,
    MixedPrecisionPolicy,
    _group,
    fully_shard,
    register_fsdp_forward_method,
)
from flambeau.distributed.tensor import DTensor, Replicate, Shard
from flambeau.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from flambeau.utils.checkpoint import checkpoint

from .pool import Ranks

F64 = flambeau.float64
_meshes = {}


def mesh_of(*shape):
    if shape not in _meshes:
        _meshes[shape] = dist.init_device_mesh("cpu", shape, mesh_dim_names=("dp", "tp")[:len(shape)])
    return _meshes[shape]


class Block(nn.Module):
    def __init__(self, width, checkpointed=False):
        super().__init__()
        self.up, self.norm, self.down = nn.Linear(width, 7), nn.LayerNorm(7), nn.Linear(7, width)
        self.checkpointed = checkpointed

    def inner(self, x):
        return self.down(self.norm(self.up(x).tanh()))

    def forward(self, x):
        return x + (checkpoint(self.inner, x, use_reentrant=False) if self.checkpointed else self.inner(x))


class Net(nn.Module):
    def __init__(self, checkpointed=False):
        super().__init__()
        self.first, self.last = nn.Linear(4, 9), nn.Linear(9, 3)
        self.blocks = nn.ModuleList([Block(9, checkpointed) for _ in range(3)])
        self.unused = nn.Linear(2, 2)

    def forward(self, x):
        x = self.first(x)
        for block in self.blocks:
            x = block(x)
        return self.last(x)

    def score(self, x):
        return self(x).square().mean()


def net(checkpointed=False, dtype=F64):
    flambeau.manual_seed(0)
    return Net(checkpointed).to(dtype)


def spread(model, **options):
    for block in model.blocks:
        fully_shard(block, **options)
    return fully_shard(model, **options)


def batch(step, rank, dtype=F64):
    return flambeau.randn(5, 4, dtype=F64, generator=flambeau.Generator().manual_seed(10 * step + rank)).to(dtype)


def distance(mine, theirs):
    return max((p.full_tensor().to(q.dtype) - q).abs().max().item() for p, q in zip(mine, theirs, strict=True))


def train(mine, theirs, steps=2, micro=1, ranks=None, clip=True):
    """Both for some steps; returns how far they are apart, in parameters and in gradient norms."""
    me, size = dist.get_rank() if ranks is None else ranks[0], dist.get_world_size() if ranks is None else ranks[1]
    stepper, other = (optim.AdamW(m.parameters(), lr=0.01) for m in (mine, theirs))
    far = 0
    for step in range(steps):
        stepper.zero_grad()
        other.zero_grad()
        for k in range(micro):
            if micro > 1:
                mine.set_requires_gradient_sync(k == micro - 1)
            xs = [batch(step * micro + k, r) for r in range(size)]
            (mine(xs[me]).square().mean() / micro).backward()
            (theirs(flambeau.cat(xs)).square().mean() / micro).backward()
        if clip:
            norm, same = (nn.utils.clip_grad_norm_(m.parameters(), 0.5) for m in (mine, theirs))
            far = max(far, (norm.full_tensor() - same).abs().item())
        stepper.step()
        other.step()
    assert mine.unused.weight.grad is None and not stepper.state[mine.unused.weight]
    return max(far, distance(mine.parameters(), theirs.parameters()))


def check_sizes():
    mine, theirs = spread(net()), net()
    far = train(mine, theirs)
    assert all(isinstance(p, DTensor) and p.placements == (Shard(0),) for p in mine.parameters())
    return far, sum(p.to_local().numel() for p in mine.parameters()), sum(p.numel() for p in theirs.parameters())


@pytest.mark.parametrize("size", [1, 3])
def test_equals_one_process(size):
    ranks = Ranks(size)
    try:
        found = ranks.run(check_sizes)
    finally:
        ranks.end()
    assert max(far for far, _, _ in found) < 1e-12
    assert sum(held for _, held, _ in found) == found[0][2]


OPTIONS = {"kept": {"reshard_after_forward": False}, "again": {"reshard_after_forward": True},
           "by two": {"reshard_after_forward": 2}, "by two, halves": {
               "reshard_after_forward": 2, "shard_placement_fn": lambda p: Shard(p.ndim - 1)},
           "offloaded": {"offload_policy": CPUOffloadPolicy()}, "second dimension": {
               "shard_placement_fn": lambda p: Shard(1) if p.ndim > 1 else None}}


def check_options(name):
    mine = spread(net(), **OPTIONS[name])
    far = train(mine, net())
    if name == "second dimension":
        assert mine.first.weight.placements == (Shard(1),) and mine.first.weight.to_local().shape == (9, 1)
    return far


def check_neighbours():
    """Between forward and backward two ranks have a block, and backward asks nobody else."""
    mine, sizes = spread(net(), reshard_after_forward=2), []
    gather = _group.collectives.all_gather_into_tensor

    def counted(rows, sent, group, **options):
        sizes.append(group.size())
        return gather(rows, sent, group, **options)

    whole = sum(p.numel() for p in mine.blocks[0].parameters()) * F64.itemsize
    _group.collectives.all_gather_into_tensor = counted
    try:
        loss = mine(batch(0, 0)).square().mean()
        assert sizes == [4] * 4 and all(isinstance(p, DTensor) for p in mine.parameters())
        held = [block._fsdp_state.group._kept.numel() for block in mine.blocks]
        assert all(whole / 2 <= each < whole * 0.6 for each in held)
        loss.backward()
        assert sizes == [4] * 4 + [2] * 4 and all(block._fsdp_state.group._kept is None for block in mine.blocks)
        mine(batch(0, 0))
        with flambeau.no_grad():
            for p in mine.parameters():
                p.add_(1)
        first = mine(batch(0, 0))  # what was kept is of no use after a step
    finally:
        _group.collectives.all_gather_into_tensor = gather
    theirs = net()
    with flambeau.no_grad():
        for p in theirs.parameters():
            p.add_(1)
    return (first - theirs(batch(0, 0))).abs().max().item()


def test_few_ranks_keep_whole_parameters(ranks):
    assert max(ranks.run(check_neighbours)) < 1e-12


@pytest.mark.parametrize("name", OPTIONS)
def test_options(ranks, name):
    assert max(ranks.run(check_options, name)) < 1e-12


def check_ways_to_train():
    far = [train(spread(net()), net(), micro=2)]
    far.append(train(spread(net(checkpointed=True)), net()))
    mine = spread(net())  # named prefetches, and parameters that stay whole between backwards
    mine.set_modules_to_forward_prefetch([mine.blocks[0]])
    mine.blocks[0].set_modules_to_forward_prefetch([mine.blocks[1], mine.blocks[2]])
    mine.blocks[2].set_modules_to_backward_prefetch([mine.blocks[1], mine.blocks[0]])
    far.append(train(mine, net()))
    mine, theirs = net(), net()
    assert len(fully_shard([mine.first, mine.blocks[0]])) == 2  # together
    far.append(train(fully_shard(mine), theirs))
    mine, theirs = spread(net()), net()
    for m in (mine, theirs):
        m.blocks[1].requires_grad_(False)
    far.append(train(mine, theirs))
    mine, theirs = net(), net()  # one block three times
    for m in (mine, theirs):
        m.blocks = nn.ModuleList([m.blocks[0]] * 3)
    fully_shard(mine.blocks[0])
    far.append(train(fully_shard(mine), theirs))
    mine = spread(net())
    mine.set_gradient_divide_factor(4)
    mine.set_force_sum_reduction_for_comms(True)
    far.append(train(mine, net()))
    return max(far)


def test_ways_to_train(ranks):
    assert max(ranks.run(check_ways_to_train)) < 1e-12


def ranks_of(value):
    """What all ranks have."""
    found = [None] * dist.get_world_size()
    dist.all_gather_object(found, value)
    return found


def check_failed_backward():
    """An error in backward, on all ranks; afterwards training goes on as if it had not been."""
    mine = spread(net())

    def fail(grad):
        raise ArithmeticError("not this time")

    handle = mine.blocks[1].register_forward_hook(lambda m, x, y: y.register_hook(fail) and None)
    out = mine(batch(0, 0))
    handle.remove()
    with pytest.raises(ArithmeticError):
        out.sum().backward()
    for part in (mine, *mine.blocks):
        part.reshard()  # train() makes an optimizer
    return train(mine, net())


def test_an_error_in_backward(ranks):
    assert max(ranks.run(check_failed_backward)) < 1e-12


def check_two_dimensions():
    mesh = mesh_of(2, 2)
    mine = spread(net(), mesh=mesh)
    far = [train(mine, net())]
    assert mine.first.weight.placements == (Replicate(), Shard(0)) and mine.first.weight.to_local().shape[0] < 6
    mine, theirs = spread(net(), mesh=mesh), net()
    mine.set_requires_all_reduce(False)
    mine(batch(0, dist.get_rank())).sum().backward()
    assert mine.first.weight.grad is None
    mine.set_requires_all_reduce(True)
    mine(batch(1, dist.get_rank())).sum().backward()
    for k in range(2):
        (theirs(flambeau.cat([batch(k, r) for r in range(4)])).sum() / 4).backward()
    far.append((mine.first.weight.grad.full_tensor() - theirs.first.weight.grad).abs().max().item())
    mine, theirs = net(), net()  # tensor parallel inside
    for block in mine.blocks:
        parallelize_module(block, mesh["tp"], {"up": ColwiseParallel(output_layouts=Replicate()),
                                               "down": RowwiseParallel(input_layouts=Replicate())})
        fully_shard(block, mesh=mesh["dp"])
    fully_shard(mine, mesh=mesh["dp"])
    weight = mine.blocks[0].up.weight
    assert weight.device_mesh.mesh_dim_names == ("dp", "tp")
    assert sum(ranks_of(weight.to_local().shape[0])) == 7
    far.append(train(mine, theirs, ranks=(mesh.get_coordinate()[0], 2), clip=False))
    return max(far)


def test_two_dimensions(ranks):
    assert max(ranks.run(check_two_dimensions)) < 1e-12


def check_precision():
    policy = MixedPrecisionPolicy(param_dtype=flambeau.bfloat16, reduce_dtype=flambeau.float32,
                                  output_dtype=flambeau.float32)
    mine, theirs = net(dtype=flambeau.float32), net(dtype=flambeau.bfloat16)
    for block in mine.blocks:
        fully_shard(block, mp_policy=MixedPrecisionPolicy(flambeau.bfloat16, flambeau.float32))
    fully_shard(mine, mp_policy=policy)
    seen = []
    mine.blocks[0].up.register_forward_hook(lambda m, x, y: seen.extend([m.weight.dtype, x[0].dtype, y.dtype]))
    out = mine(batch(0, 0, flambeau.float32))
    expected = theirs(batch(0, 0, flambeau.bfloat16))
    assert out.dtype is flambeau.float32 and set(seen) == {flambeau.bfloat16}
    assert flambeau.equal(out, expected.float())
    out.sum().backward()
    expected.float().sum().backward()
    assert mine.first.weight.grad.dtype is flambeau.float32
    assert mine.first.weight.dtype is flambeau.float32
    return (mine.first.weight.grad.full_tensor() - theirs.first.weight.grad).abs().max().item()


def test_mixed_precision(ranks):
    assert max(ranks.run(check_precision)) < 1e-2


def check_states():
    mine, theirs = spread(net()), net()
    mine(batch(0, 0))
    state = mine.state_dict()
    assert state.keys() == theirs.state_dict().keys()
    assert all(isinstance(v, DTensor) for v in state.values())
    assert all(flambeau.equal(v.full_tensor(), q) for v, q in zip(state.values(), theirs.state_dict().values()))
    flambeau.manual_seed(5)
    other = spread(Net().double())
    other.load_state_dict(state)
    assert distance(other.parameters(), theirs.parameters()) == 0
    stepper, twin = (optim.AdamW(m.parameters(), lr=0.01) for m in (mine, other))
    mine(batch(0, 0)).sum().backward()
    stepper.step()
    twin.load_state_dict(copy.deepcopy(stepper.state_dict()))
    other.load_state_dict(mine.state_dict())
    for m, opt in ((mine, stepper), (other, twin)):
        opt.zero_grad()
        m(batch(1, 0)).sum().backward()
        opt.step()
    assert distance(mine.parameters(), [p.full_tensor() for p in other.parameters()]) == 0
    with flambeau.device("meta"):
        empty = Net().double()
    spread(empty).to_empty(device="cpu")
    for part in empty.modules():
        if hasattr(part, "reset_parameters"):
            part.reset_parameters()
    empty.load_state_dict(theirs_as(empty, theirs))
    assert (empty(batch(0, 0)) - theirs(batch(0, 0))).abs().max() == 0


def theirs_as(model, plain):
    return {key: value._own_spread(whole) for (key, value), whole in zip(model.state_dict().items(),
                                                                        plain.state_dict().values())}


def test_states(ranks):
    ranks.run(check_states)


def check_memory():
    """Four large layers: never more than two of them are whole."""
    flambeau.manual_seed(0)
    size = 256
    model = nn.Sequential(*[nn.Sequential(nn.Linear(size, size, bias=False), nn.Tanh()) for _ in range(4)])
    for layer in model:
        fully_shard(layer)
    fully_shard(model)
    gc.collect()
    flambeau.memory.reset_peak()
    layer, before = 4 * size * size, flambeau.memory.stats()["allocated"]
    loss = model(flambeau.ones(1, size)).sum()
    kept = flambeau.memory.stats()["allocated"] - before
    forward = flambeau.memory.stats()["peak"] - before
    loss.backward()
    after = flambeau.memory.stats()["allocated"] - before
    return kept / layer, forward / layer, after / layer


def test_memory_is_sharded(ranks):
    for kept, forward, after in ranks.run(check_memory):
        assert kept < 0.3 and forward < 2.5 and 0.9 < after < 1.3  # after: gradients, a quarter of each layer


def check_methods():
    mine, theirs = spread(net()), net()
    assert isinstance(mine, Net) and isinstance(mine, FSDPModule) and type(mine).__name__ == "FSDPNet"
    assert type(mine.blocks[0]) is type(mine.blocks[1]) and not isinstance(mine.first, FSDPModule)
    mine(batch(0, 0)).sum().backward()
    register_fsdp_forward_method(mine.blocks[0], "inner")
    x = flambeau.ones(1, 9, dtype=F64)
    assert flambeau.equal(mine.blocks[0].inner(x), theirs.blocks[0].inner(x))
    assert isinstance(mine.blocks[0].up.weight, DTensor)
    handle = mine.unshard(async_op=True)
    handle.wait()
    assert flambeau.equal(mine.first.weight, theirs.first.weight)
    mine.reshard()
    with flambeau.no_grad():
        mine(batch(0, 0))
    assert isinstance(mine.first.weight, DTensor)
    tied = net()
    tied.last.weight = tied.blocks[0].norm.weight
    for call, error, text in [
            (lambda: fully_shard(mine), AssertionError, "before"),
            (lambda: copy.deepcopy(mine), RuntimeError, "state_dict"),
            (lambda: flambeau.save(mine.state_dict(), "/dev/null"), TypeError, "full_tensor"),
            (lambda: fully_shard(net().blocks), ValueError, "with a forward"),
            (lambda: fully_shard(net(), mesh=4), ValueError, "DeviceMesh"),
            (lambda: fully_shard(net(), dp_mesh_dims=3), NotImplementedError, "give the data parallel dimensions"),
            (lambda: fully_shard(net(), reshard_after_forward=3), ValueError, "must divide the 4 ranks"),
            (lambda: fully_shard(net(), reshard_after_forward=2.0), TypeError, "a number of ranks"),
            (lambda: fully_shard(net()).set_reshard_after_forward(2), ValueError, "an argument of fully_shard"),
            (lambda: spread(tied), ValueError, "is also norm.weight"),
            (lambda: mine.set_modules_to_forward_prefetch([nn.Linear(1, 1)]), ValueError, "applied to"),
            (lambda: fully_shard(nn.PReLU(), shard_placement_fn=lambda p: 0), ValueError, "Shard")]:
        with pytest.raises(error, match=text):
            call()


def test_methods(ranks):
    ranks.run(check_methods)
