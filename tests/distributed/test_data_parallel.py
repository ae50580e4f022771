"""DistributedDataParallel, SyncBatchNorm and hooks on 2 ranks equal training in one process on both batches."""

import pytest

import flambeau
import flambeau.distributed as dist
from flambeau import nn
from flambeau.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook
from flambeau.nn.parallel import DistributedDataParallel
from flambeau.nn.parallel._reducer import assigned

from .pool import Ranks

STEPS, ROWS = 4, 6


@pytest.fixture(scope="module")
def two():
    made = Ranks(2)
    yield made
    made.end()


class Net(nn.Module):
    """Shared weights, a buffer, a normalization, and a part that may be left out."""

    def __init__(self, norm=nn.LayerNorm):
        super().__init__()
        self.first, self.second, self.norm = nn.Linear(5, 7), nn.Linear(7, 7), norm(7)
        self.last, self.spare = nn.Linear(7, 3), nn.Linear(7, 3)
        self.register_buffer("scale", flambeau.ones(1))

    def forward(self, x, spare=False):
        x = self.norm(self.first(x).tanh() * self.scale)
        x = self.second(self.second(x)).relu()
        return (self.spare if spare else self.last)(x)


def net(seed=0, norm=nn.LayerNorm, dtype=flambeau.float64):
    flambeau.manual_seed(seed)
    return Net(norm).to(dtype)


def batch(step, rank, rows=ROWS):
    generator = flambeau.Generator().manual_seed(100 * step + rank)
    return flambeau.randn(rows, 5, dtype=flambeau.float64, generator=generator)


def loss_of(y):
    return y.square().mean()


def trained(model, batches, spare=lambda step: False, **options):
    optimizer = flambeau.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for step, parts in enumerate(batches):
        optimizer.zero_grad(**options)
        loss_of(model(parts, spare(step)) if spare(step) else model(parts)).backward()
        optimizer.step()
    return [p.detach().clone() for p in model.parameters()]


def alone(norm=nn.LayerNorm, ranks=2, spare=lambda step: False):
    return trained(net(norm=norm), [flambeau.cat([batch(s, r) for r in range(ranks)]) for s in range(STEPS)], spare)


def distance(xs, ys):
    return max((x - y).abs().max().item() for x, y in zip(xs, ys, strict=True))


# --- in the ranks -----------------------------------------------------------------------------------------------------

OPTIONS = {
    "plain": {}, "views": {"gradient_as_bucket_view": True}, "small buckets": {"bucket_cap_mb": 1e-4},
    "one bucket": {"bucket_cap_mb": 100}, "static": {"static_graph": True}, "list": {"bucket_cap_mb_list": [1e-4, 1]},
    "static views": {"static_graph": True, "gradient_as_bucket_view": True, "bucket_cap_mb": 1e-4},
    "unused": {"find_unused_parameters": True}, "unused small": {"find_unused_parameters": True, "bucket_cap_mb": 1e-4},
}


def check_equal(name, set_to_none):
    options = OPTIONS[name]
    model = net(seed=dist.get_rank())  # other numbers: rank 0's count
    if "static" not in name and "unused" not in name:
        del model.spare
    model = DistributedDataParallel(model, **options)
    found = trained(model, [batch(s, dist.get_rank()) for s in range(STEPS)], set_to_none=set_to_none)
    expected = net()
    if "static" not in name and "unused" not in name:
        del expected.spare
    expected = trained(expected, [flambeau.cat([batch(s, r) for r in range(2)]) for s in range(STEPS)])
    return distance(found, expected)


def check_exchange_begins_early():
    """In every step, also while the graph of the step before is alive, as it is in `loss = …; loss.backward()`."""
    model = DistributedDataParallel(nn.Sequential(*[nn.Linear(4, 4) for _ in range(4)]), bucket_cap_mb=1e-6)
    seen, exchange = [], model.reducer._exchange
    model.reducer._exchange = lambda bucket: (seen.append(model.module[0].weight.grad is None), exchange(bucket))
    for _ in range(3):
        model.zero_grad()
        loss = model(flambeau.ones(2, 4)).sum()
        loss.backward()
    return seen


def check_whose_memory():
    """Gradients are exchanged where they are, also those that somebody else holds; views of a bucket where one asks."""
    model, x = DistributedDataParallel(nn.Linear(4, 2)), flambeau.ones(3, 4) * (dist.get_rank() + 1)
    weight, bias = model.module.weight, model.module.bias
    model(x).sum().backward()
    first, held = weight.grad, bias.grad.clone()
    bias.grad = held
    assert first._base is None
    model(x).sum().backward()
    assert bias.grad is held and weight.grad is first and (held == 6).all() and (first == 9).all()
    model.zero_grad()
    model(x).sum().backward()
    assert weight.grad.data_ptr() != first.data_ptr() and (first == 9).all() and (weight.grad == 4.5).all()
    model.register_comm_hook(None, default_hooks.allreduce_hook)  # which sees a bucket as one tensor
    model.zero_grad()
    model(x).sum().backward()
    assert weight.grad._base is not None and (weight.grad == 4.5).all()


def check_layouts():
    """Gradients that are not dense, or have a graph of their own, are exchanged as copies."""
    model, me = DistributedDataParallel(nn.Linear(4, 2)), dist.get_rank()
    weight, bias = model.module.weight, model.module.bias
    kept = weight.grad = flambeau.zeros(4, 2).mT
    model(flambeau.ones(3, 4) * (me + 1)).square().sum().backward(create_graph=True)
    expected = nn.Linear(4, 2)
    expected.load_state_dict(model.module.state_dict())
    for r in range(2):
        (expected(flambeau.ones(3, 4) * (r + 1)).square().sum() / 2).backward()
    assert not kept.is_contiguous()
    return distance([weight.grad.detach(), bias.grad.detach()], [expected.weight.grad, expected.bias.grad])


def check_unused():
    """The ranks leave out different parts in each step: gradients are the mean with zeros for those."""
    me, find = dist.get_rank(), True
    model = DistributedDataParallel(net(), find_unused_parameters=find, bucket_cap_mb=1e-4)
    far = 0
    for step in range(STEPS):
        model.zero_grad()
        loss_of(model(batch(step, me), spare=(step + me) % 2 == 0 and step < 3)).backward()
        parts = []
        for r in range(2):
            other = net()
            loss_of(other(batch(step, r), spare=(step + r) % 2 == 0 and step < 3)).backward()
            parts.append([p.grad for p in other.parameters()])
        for p, a, b in zip(model.parameters(), *parts):
            if a is None and b is None:
                assert p.grad is None
                continue
            mean = sum(x for x in (a, b) if x is not None) / 2
            far = max(far, (p.grad - mean).abs().max().item())
    return far


def check_forgotten():
    model = DistributedDataParallel(net())
    loss_of(model(batch(0, 0))).backward()
    try:
        model(batch(1, 0))
    except RuntimeError as error:
        return str(error)


def check_no_sync():
    model = DistributedDataParallel(_without_spare())
    with model.no_sync():
        for step in range(2):
            loss_of(model(batch(step, dist.get_rank()))).backward()
        own = [p.grad.clone() for p in model.parameters()]
    loss_of(model(batch(2, dist.get_rank()))).backward()
    expected = _without_spare()
    for step in range(3):
        for r in range(2):
            (loss_of(expected(batch(step, r))) / 2).backward()
    local = _without_spare()
    for step in range(2):
        loss_of(local(batch(step, dist.get_rank()))).backward()
    return (distance([p.grad for p in model.parameters()], [p.grad for p in expected.parameters()]),
            distance(own, [p.grad for p in local.parameters()]))


def _without_spare(**options):
    made = net(**options)
    del made.spare
    return made


def check_accumulated_backwards():
    """Two losses of one forward, of which each reaches a part of the parameters."""
    class Two(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Linear(5, 2).double(), nn.Linear(5, 2).double()

        def forward(self, x):
            return self.a(x), self.b(x)

    flambeau.manual_seed(3)
    model = DistributedDataParallel(Two(), gradient_as_bucket_view=True)
    y, z = model(batch(0, dist.get_rank()))
    loss_of(y).backward()
    loss_of(z).backward()
    flambeau.manual_seed(3)
    expected = Two()
    for r in range(2):
        y, z = expected(batch(0, r))
        ((loss_of(y) + loss_of(z)) / 2).backward()
    return distance([p.grad for p in model.parameters()], [p.grad for p in expected.parameters()])


def check_join(divide_by_all):
    """Rank 1 has two batches more."""
    me, steps = dist.get_rank(), 3
    model = DistributedDataParallel(_without_spare())
    expected, count = _without_spare(), 0
    optimizer, other = flambeau.optim.SGD(model.parameters(), 0.1), flambeau.optim.SGD(expected.parameters(), 0.1)
    with model.join(divide_by_initial_world_size=divide_by_all):
        for step in range(steps + 2 * me):
            optimizer.zero_grad()
            loss_of(model(batch(step, me))).backward()
            optimizer.step()
            count += 1
    for step in range(steps + 2):
        other.zero_grad()
        active = [r for r in range(2) if step < steps + 2 * r]
        for r in active:
            (loss_of(expected(batch(step, r))) / (2 if divide_by_all else len(active))).backward()
        other.step()
    return count, distance(model.parameters(), expected.parameters())


def check_early_termination():
    model = DistributedDataParallel(_without_spare())
    try:
        with model.join(throw_on_early_termination=True):
            for step in range(2 + dist.get_rank()):
                loss_of(model(batch(step, 0))).backward()
    except RuntimeError as error:
        return str(error)


def check_sync_norm(momentum):
    norm = lambda n: nn.BatchNorm1d(n, momentum=momentum)
    me = dist.get_rank()
    model = nn.SyncBatchNorm.convert_sync_batchnorm(_without_spare(norm=norm))
    assert type(model.norm) is nn.SyncBatchNorm
    model = DistributedDataParallel(model)
    found = trained(model, [batch(s, me, ROWS + 2 * me) * (1 + 4 * me) for s in range(STEPS)])
    weights = [(ROWS + 2 * r) for r in range(2)]
    expected = _without_spare(norm=norm)
    optimizer = flambeau.optim.SGD(expected.parameters(), lr=0.1, momentum=0.9)
    for step in range(STEPS):
        optimizer.zero_grad()
        y = expected(flambeau.cat([batch(step, r, ROWS + 2 * r) * (1 + 4 * r) for r in range(2)]))
        (sum(loss_of(part) for part in y.split(weights)) / 2).backward()
        optimizer.step()
    stats = distance([model.module.norm.running_mean, model.module.norm.running_var],
                     [expected.norm.running_mean, expected.norm.running_var])
    model.eval()
    return distance(found, expected.parameters()), stats, model.module.norm.num_batches_tracked.item()


def check_buffers():
    model = _without_spare()
    model = DistributedDataParallel(model)
    model.module.scale.fill_(5.0 + dist.get_rank())
    model(batch(0, 0))
    return model.module.scale.item()


def check_hook(name):
    model = _without_spare()
    hooks = {
        "mean": (None, default_hooks.allreduce_hook), "bf16": (None, default_hooks.bf16_compress_hook),
        "fp16": (None, default_hooks.fp16_compress_hook),
        "bf16 wrapped": (None, default_hooks.bf16_compress_wrapper(default_hooks.allreduce_hook)),
        "power": (powerSGD_hook.PowerSGDState(None, 7, 2, min_compression_rate=0.1), powerSGD_hook.powerSGD_hook),
        "power rank 1": (powerSGD_hook.PowerSGDState(None, 1, 2), powerSGD_hook.powerSGD_hook),
        "batched": (powerSGD_hook.PowerSGDState(None, 30, 2), powerSGD_hook.batched_powerSGD_hook),
    }
    model = DistributedDataParallel(model, bucket_cap_mb=100)
    model.register_comm_hook(*hooks[name])
    found = trained(model, [batch(s, dist.get_rank()) for s in range(STEPS)])
    expected = trained(_without_spare(), [flambeau.cat([batch(s, r) for r in range(2)]) for s in range(STEPS)])
    state = hooks[name][0]
    every = [None] * 2
    dist.all_gather_object(every, [p.tolist() for p in found])
    return distance(found, expected), every[0] == every[1], state and state.compression_stats()[0]


def check_power_learns():
    """With errors fed back, rank 1 trains a linear model as well as whole gradients do."""
    flambeau.manual_seed(1)
    target = flambeau.randn(12, 10)
    model = DistributedDataParallel(nn.Linear(12, 10, bias=False))
    model.register_comm_hook(powerSGD_hook.PowerSGDState(None, 1, 2), powerSGD_hook.powerSGD_hook)
    optimizer = flambeau.optim.SGD(model.parameters(), lr=0.3)
    for step in range(400):
        x = flambeau.randn(32, 12, generator=flambeau.Generator().manual_seed(2 * step + dist.get_rank()))
        optimizer.zero_grad()
        loss = (model(x) - x @ target).square().mean()
        loss.backward()
        optimizer.step()
    return loss.item()


def check_other_modules():
    try:
        DistributedDataParallel(nn.Linear(3, 2 + dist.get_rank()))
    except RuntimeError as error:
        return str(error)


# --- here -------------------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("set_to_none", [True, False])
@pytest.mark.parametrize("name", OPTIONS)
def test_equals_one_process(two, name, set_to_none):
    assert max(two.run(check_equal, name, set_to_none)) < 1e-12


def test_unused_parameters(two):
    assert max(two.run(check_unused)) < 1e-12
    for text in two.run(check_forgotten):
        assert "no gradient to spare.weight, spare.bias" in text and "find_unused_parameters=True" in text


def test_gradients_of_several_backwards(two):
    assert max(max(found) for found in two.run(check_no_sync)) < 1e-12
    assert max(two.run(check_accumulated_backwards)) < 1e-12


@pytest.mark.parametrize("divide_by_all", [True, False])
def test_unequal_numbers_of_batches(two, divide_by_all):
    (first, far), (second, other) = two.run(check_join, divide_by_all)
    assert (first, second) == (3, 5) and max(far, other) < 1e-12


def test_early_termination(two):
    first, second = two.run(check_early_termination)
    assert "rank 0 has no more batches" in first and "another rank has no more batches" in second


@pytest.mark.parametrize("momentum", [0.1, None])
def test_sync_batch_norm(two, momentum):
    for far, stats, count in two.run(check_sync_norm, momentum):
        assert far < 1e-12 and stats < 1e-12 and count == STEPS


def test_buffers_are_those_of_rank_0(two):
    assert two.run(check_buffers) == [5.0, 5.0]


@pytest.mark.parametrize("name, near, rate", [
    ("mean", 1e-12, None), ("bf16", 0.05, None), ("fp16", 0.005, None), ("bf16 wrapped", 0.05, None),
    ("power", 1e-12, None), ("power rank 1", 0.5, 1.3), ("batched", 1e-12, None)])
def test_hooks(two, name, near, rate):
    for far, same, found in two.run(check_hook, name):
        assert far < near and same and (far > 1e-7 or near < 1e-7) and (rate is None or found > rate)


def test_low_rank_gradients_learn(two):
    assert max(two.run(check_power_learns)) < 0.5


def test_other_parameters_are_told(two):
    for text in two.run(check_other_modules):
        assert "has other parameters than this one" in text and "weight" in text


def test_buckets():
    ps = [nn.Parameter(flambeau.zeros(n, dtype=d)) for n, d in
          [(10, flambeau.float32), (100, flambeau.float32), (5, flambeau.float64), (5, flambeau.float32)]]
    assert [[p.numel() for p in part] for part in assigned(ps, [1, 1000])] == [[5], [5], [100, 10]]
    assert [[p.numel() for p in part] for part in assigned(ps[:2], [1, 1])] == [[100], [10]]


def test_wrong_use():
    with pytest.raises(ValueError, match="DistributedDataParallel: there is no group"):
        DistributedDataParallel(nn.Linear(2, 2))
    dist.init_process_group(store=dist.HashStore(), rank=0, world_size=1)
    try:
        with pytest.raises(ValueError, match=r"module is on cpu.*\[0\].*leave device_ids"):
            DistributedDataParallel(nn.Linear(2, 2), device_ids=[0])
        with pytest.raises(RuntimeError, match="no parameter of the module requires a gradient"):
            DistributedDataParallel(nn.ReLU())
        with pytest.raises(TypeError, match="mixed_precision must be"):
            DistributedDataParallel(nn.Linear(2, 2), mixed_precision=1)
        net = nn.Linear(2, 2)
        with pytest.raises(ValueError, match="given together"):
            DistributedDataParallel(net, delay_all_reduce_named_params=[("weight", net.weight)])
        with pytest.warns(UserWarning, match="newer name of broadcast_buffers"):
            model = DistributedDataParallel(net, broadcast_buffers=True, forward_sync_buffers=False)
        assert model.broadcast_buffers is model.forward_sync_buffers is False
        model = DistributedDataParallel(nn.Linear(2, 2))
        assert list(model.state_dict()) == ["module.weight", "module.bias"]
        model.register_comm_hook(None, default_hooks.allreduce_hook)
        with pytest.raises(RuntimeError, match="there is a hook already"):
            model.register_comm_hook(None, default_hooks.allreduce_hook)
    finally:
        dist.destroy_process_group()


def test_gradients_are_exchanged_while_backward_goes_on_in_every_step(two):
    for seen in two.run(check_exchange_begins_early):
        assert len(seen) == 3 * 8 and sum(seen) >= 3 * 6


def test_gradients_that_others_hold_are_written_to(two):
    two.run(check_whose_memory)


def test_gradients_that_are_copied(two):
    assert max(two.run(check_layouts)) < 1e-6
