"""ZeroRedundancyOptimizer: the same numbers as the optimizer in one process, with the state shared out."""

from copy import deepcopy

import pytest

import flambeau
import flambeau.distributed as dist
from flambeau import nn, optim
from flambeau.distributed.algorithms.join import Join
from flambeau.distributed.optim import ZeroRedundancyOptimizer
from flambeau.nn.parallel import DistributedDataParallel

from .pool import Ranks

CLASSES = {"sgd": (optim.SGD, {"lr": 0.1, "momentum": 0.9}), "adam": (optim.Adam, {"lr": 0.01}),
           "adamw": (optim.AdamW, {"lr": 0.01, "weight_decay": 0.1})}


@pytest.fixture(scope="module")
def three():
    made = Ranks(3)
    yield made
    made.end()


def net():
    flambeau.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 9), nn.Tanh(), nn.Linear(9, 2)).double()


def batch(step, rank):
    generator = flambeau.Generator().manual_seed(10 * step + rank)
    return flambeau.randn(5, 4, dtype=flambeau.float64, generator=generator)


def groups(model):
    return [{"params": list(model[0].parameters()), "lr": 0.02}, {"params": list(model[2].parameters())}]


def distance(xs, ys):
    return max((x - y).abs().max().item() for x, y in zip(xs, ys, strict=True))


def check_steps(name, views):
    kind, settings = CLASSES[name]
    model, expected, me = DistributedDataParallel(net()), net(), dist.get_rank()
    optimizer = ZeroRedundancyOptimizer(groups(model.module), kind, parameters_as_bucket_view=views, **settings)
    other = kind(groups(expected), **settings)
    schedule, same = (optim.lr_scheduler.StepLR(each, 2, 0.5) for each in (optimizer, other))
    for step in range(5):
        for each, model_, x in ((optimizer, model, batch(step, me)),
                                (other, expected, flambeau.cat([batch(step, r) for r in range(3)]))):
            each.zero_grad()
            model_(x).square().mean().backward()
            each.step()
        schedule.step()
        same.step()
        if step == 2:
            optimizer = check_saved(optimizer, other, model, kind, settings, views)
            schedule.optimizer = optimizer
    held = sum(x.numel() for state in optimizer.optim.state.values() for x in state.values() if x.ndim)
    return distance(model.parameters(), expected.parameters()), held


def check_saved(optimizer, other, model, kind, settings, views):
    """The state is that of one process, and another optimizer goes on with it."""
    with pytest.raises(RuntimeError, match="consolidate_state_dict"):
        optimizer.state_dict()
    optimizer.consolidate_state_dict(to=1)
    if dist.get_rank() == 1:
        mine, theirs = optimizer.state_dict(), other.state_dict()
        assert mine["state"].keys() == theirs["state"].keys()
        for key, state in theirs["state"].items():
            for part, value in state.items():
                assert value is None or (mine["state"][key][part] - value).abs().max() < 1e-12
        assert [group["params"] for group in mine["param_groups"]] == [[0, 1], [2, 3]]
    else:
        with pytest.raises(RuntimeError, match="rank 1 has the whole state"):
            optimizer.state_dict()
    fresh = ZeroRedundancyOptimizer(groups(model.module), kind, parameters_as_bucket_view=views, **settings)
    fresh.load_state_dict(deepcopy(other.state_dict()))
    return fresh


def check_join():
    me = dist.get_rank()
    model, expected = DistributedDataParallel(net()), net()
    optimizer = ZeroRedundancyOptimizer(model.parameters(), optim.Adam, lr=0.01)
    other = optim.Adam(expected.parameters(), lr=0.01)
    with Join([model, optimizer]):
        for step in range(3 + me):
            optimizer.zero_grad()
            model(batch(step, me)).square().mean().backward()
            optimizer.step()
    for step in range(5):
        other.zero_grad()
        for r in range(3):
            if step < 3 + r:
                (expected(batch(step, r)).square().mean() / 3).backward()
        other.step()
    return distance(model.parameters(), expected.parameters())


@pytest.mark.parametrize("views", [False, True])
@pytest.mark.parametrize("name", CLASSES)
def test_equals_one_process(three, name, views):
    found = three.run(check_steps, name, views)
    assert max(far for far, _ in found) < 1e-12
    whole = sum(p.numel() for p in net().parameters()) * (1 if name == "sgd" else 2)
    held = [count for _, count in found]
    assert sum(held) == whole and max(held) < whole


def test_unequal_numbers_of_batches(three):
    assert max(three.run(check_join)) < 1e-12


def test_refusals():
    with pytest.raises(NotImplementedError, match="overlap_with_ddp"):
        ZeroRedundancyOptimizer([], optim.SGD, overlap_with_ddp=True)
