"""distributed.checkpoint.state_dict: one name for a parameter in every wrapper; states go from one to another."""

import pytest

import flambeau
import flambeau.distributed as dist
import flambeau.distributed.checkpoint as dcp
from flambeau import nn, optim
from flambeau.distributed.checkpoint.state_dict import (
    StateDictOptions,
    get_model_state_dict,
    get_optimizer_state_dict,
    get_state_dict,
    set_model_state_dict,
    set_state_dict,
)
from flambeau.distributed.fsdp import FullyShardedDataParallel
from flambeau.distributed.fsdp.wrap import ModuleWrapPolicy
from flambeau.distributed.tensor import DTensor
from flambeau.nn.parallel import DistributedDataParallel

from .test_fully_shard import Block, batch, net, spread

WRAPPERS = {
    "plain": lambda m: m,
    "data parallel": lambda m: DistributedDataParallel(m, find_unused_parameters=True),
    "fully_shard": spread,
    "fsdp": lambda m: FullyShardedDataParallel(m, auto_wrap_policy=ModuleWrapPolicy({Block})),
}
FULL = StateDictOptions(full_state_dict=True)


def made(name, seed, unused=True):
    flambeau.manual_seed(seed)
    model = net()
    if not unused:
        del model.unused
    for p in model.parameters():
        p.data.uniform_(-1, 1)
    model = WRAPPERS[name](model)
    return model, optim.AdamW(model.parameters(), lr=0.01 * seed)


def step(model, optimizer):
    optimizer.zero_grad()
    model(batch(0, 0)).square().mean().backward()
    optimizer.step()


def whole(model, optimizer):
    return get_state_dict(model, optimizer, options=FULL)


def same(one, other, far=1e-12):
    (model, state), (model2, state2) = one, other
    assert model.keys() == model2.keys() and state["state"].keys() == state2["state"].keys()
    for key in model:
        assert (model[key] - model2[key]).abs().max() < far, key
    for name, values in state["state"].items():
        assert all((value - state2["state"][name][key]).abs().max() < far for key, value in values.items()), name
    assert [g["lr"] for g in state["param_groups"]] == [g["lr"] for g in state2["param_groups"]]


def check_pair(source, target, kind):
    options = {"whole": FULL, "first rank": StateDictOptions(full_state_dict=True, cpu_offload=True),
               "flat": StateDictOptions(full_state_dict=True, flatten_optimizer_state_dict=True),
               "spread": StateDictOptions()}[kind]
    a, b = made(source, 1), made(target, 2)
    step(*a)
    model, state = get_state_dict(*a, options=options)
    if kind == "first rank":
        assert bool(model) == bool(state) == (dist.get_rank() == 0)
        options = StateDictOptions(full_state_dict=True, broadcast_from_rank0=True)
    elif kind == "spread":
        spread_out = source in ("fsdp", "fully_shard")
        assert isinstance(model["blocks.0.up.weight"], DTensor) == spread_out
    result = set_state_dict(*b, model_state_dict=model, optim_state_dict=state, options=options)
    assert not result.missing_keys and not result.unexpected_keys
    same(whole(*a), whole(*b))
    step(*a)
    step(*b)
    same(whole(*a), whole(*b))


PAIRS = [("plain", "fsdp", "whole"), ("fsdp", "fully_shard", "spread"), ("fully_shard", "data parallel", "first rank"),
         ("data parallel", "plain", "flat"), ("fully_shard", "fsdp", "flat"), ("data parallel", "fully_shard", "whole")]


def check_pairs():
    for pair in PAIRS:
        check_pair(*pair)


def test_states_go_from_one_wrapper_to_another(ranks):
    ranks.run(check_pairs)


def check_folder(place):
    """A folder written by one wrapper, read by another."""
    a, b = made("fully_shard", 1, unused=False), made("fsdp", 2, unused=False)
    step(*a)
    model, state = get_state_dict(*a)
    dcp.save({"model": model, "optimizer": state}, checkpoint_id=place)
    model, state = get_state_dict(*b)
    held = {"model": model, "optimizer": state}
    dcp.load(held, checkpoint_id=place)
    set_state_dict(*b, model_state_dict=held["model"], optim_state_dict=held["optimizer"])
    same(whole(*a), whole(*b))


def test_folders(ranks, tmp_path):
    ranks.run(check_folder, str(tmp_path / "saved"))


def test_options():
    model = nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 1))
    model[0].requires_grad_(False)
    names = ["0.weight", "0.bias", "1.weight", "1.bias"]
    assert list(get_model_state_dict(model)) == names
    trained = StateDictOptions(ignore_frozen_params=True)
    assert list(get_model_state_dict(model, options=trained)) == names[2:]
    assert not set_model_state_dict(model, get_model_state_dict(model, options=trained), options=trained).missing_keys
    short = StateDictOptions(keep_submodule_prefixes=False)
    assert list(get_model_state_dict(model, submodules={model[1]}, options=short)) == ["weight", "bias"]
    assert list(get_model_state_dict(model, submodules={model[1]})) == names[2:]
    optimizers = [optim.SGD([p], lr=0.1, momentum=0.9) for p in model[1].parameters()]
    state = get_optimizer_state_dict(model, optimizers)
    assert [g["params"] for g in state["param_groups"]] == [["1.weight"], ["1.bias"]] and len(state["state"]) == 2
    before = model[1].weight.clone()
    get_optimizer_state_dict(model, optim.AdamW(model.parameters(), weight_decay=0.5))
    assert flambeau.equal(before, model[1].weight) and model[1].weight.grad is None
    with pytest.raises(RuntimeError, match="weight"):
        set_model_state_dict(model, {})
    assert set_model_state_dict(model, {}, options=StateDictOptions(strict=False)).missing_keys == names
    for call, error, text in [(lambda: get_model_state_dict(3), TypeError, "Module"),
                              (lambda: get_optimizer_state_dict(model, [3]), TypeError, "optimizers"),
                              (lambda: get_model_state_dict(model, options=StateDictOptions(broadcast_from_rank0=True)),
                               ValueError, "full_state_dict"),
                              (lambda: get_optimizer_state_dict(model, optim.SGD(nn.Linear(1, 1).parameters())),
                               ValueError, "not one of")]:
        with pytest.raises(error, match=text):
            call()
