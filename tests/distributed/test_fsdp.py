"""FullyShardedDataParallel: strategies, wrapping policies, state dicts in every form, and whole parameters."""

import copy
import functools

import pytest

import flambeau
import flambeau.distributed as dist
import flambeau.distributed.checkpoint as dcp
from flambeau import nn, optim
from flambeau.distributed.algorithms._checkpoint.checkpoint_wrapper import (
    CheckpointImpl,
    apply_activation_checkpointing,
    checkpoint_wrapper,
    offload_wrapper,
)
from flambeau.distributed.fsdp import (
    BackwardPrefetch,
    CPUOffload,
    FullOptimStateDictConfig,
    FullStateDictConfig,
    FullyShardedDataParallel,
    MixedPrecision,
    ShardingStrategy,
    StateDictType,
)
from flambeau.distributed.fsdp.sharded_grad_scaler import ShardedGradScaler
from flambeau.distributed.fsdp.wrap import (
    CustomPolicy,
    ModuleWrapPolicy,
    always_wrap_policy,
    enable_wrap,
    lambda_auto_wrap_policy,
    size_based_auto_wrap_policy,
    transformer_auto_wrap_policy,
    wrap,
)
from flambeau.distributed.tensor import DTensor
from flambeau.distributed.utils import _sync_module_states
from flambeau.nn.parallel import DistributedDataParallel

from .test_fully_shard import Block, Net, batch, net

F64 = flambeau.float64
POLICIES = {
    "classes": ModuleWrapPolicy({Block}),
    "function": CustomPolicy(lambda m: {"forward_prefetch": True} if isinstance(m, Block) else False),
    "layers": functools.partial(transformer_auto_wrap_policy, transformer_layer_cls={Block}),
    "sizes": functools.partial(size_based_auto_wrap_policy, min_num_params=60),
    "lambda": functools.partial(lambda_auto_wrap_policy, lambda_fn=lambda m: isinstance(m, nn.Linear)),
}
OPTIONS = {
    "plain": {}, "classes": {}, "function": {}, "layers": {}, "sizes": {}, "lambda": {},
    "SHARD_GRAD_OP": {"sharding_strategy": ShardingStrategy.SHARD_GRAD_OP, "auto_wrap_policy": POLICIES["classes"]},
    "NO_SHARD": {"sharding_strategy": ShardingStrategy.NO_SHARD, "auto_wrap_policy": POLICIES["classes"]},
    "HYBRID_SHARD": {"sharding_strategy": ShardingStrategy.HYBRID_SHARD, "auto_wrap_policy": POLICIES["classes"]},
    "prefetch": {"forward_prefetch": True, "backward_prefetch": BackwardPrefetch.BACKWARD_POST,
                 "auto_wrap_policy": POLICIES["classes"], "use_orig_params": True, "limit_all_gathers": False},
    "others": {"backward_prefetch": None, "cpu_offload": CPUOffload(True), "device_id": flambeau.device("cpu"),
               "sync_module_states": True, "auto_wrap_policy": POLICIES["classes"]},
}


def wrapped(name="classes", model=None):
    options = {**({"auto_wrap_policy": POLICIES[name]} if name in POLICIES else {}), **OPTIONS[name]}
    return FullyShardedDataParallel(net() if model is None else model, **options)


def whole(model):
    with FullyShardedDataParallel.summon_full_params(model, writeback=False):
        return {name: p.detach().clone() for name, p in model.named_parameters()}


def distance(model, expected):
    found = whole(model)
    assert found.keys() == dict(expected.named_parameters()).keys()
    return max((found[name] - q).abs().max().item() for name, q in expected.named_parameters())


def train(mine, theirs, stepper, other, steps=3, first=0, micro=1):
    me, far = dist.get_rank(), 0
    for step in range(first, first + steps):
        stepper.zero_grad()
        other.zero_grad()
        for k in range(micro):
            xs = [batch(step * micro + k, r) for r in range(dist.get_world_size())]
            with mine.no_sync() if k < micro - 1 else flambeau.enable_grad():
                mine(xs[me]).square().mean().backward()
            theirs(flambeau.cat(xs)).square().mean().backward()
        norm, same = mine.clip_grad_norm_(0.5), nn.utils.clip_grad_norm_(theirs.parameters(), 0.5)
        far = max(far, (norm - same).abs().item())
        stepper.step()
        other.step()
    return max(far, distance(mine, theirs))


def check_options(name):
    model = net()
    if name == "others" and dist.get_rank():
        for p in model.parameters():
            p.data.zero_()
    mine, theirs = wrapped(name, model), net()
    steppers = [optim.AdamW(m.parameters(), lr=0.01) for m in (mine, theirs)]
    held = sum(p.to_local().numel() for p in mine.parameters())
    return train(mine, theirs, *steppers, micro=2 if name == "classes" else 1), held, len(
        FullyShardedDataParallel.fsdp_modules(mine))


@pytest.mark.parametrize("name", OPTIONS)
def test_equals_one_process(ranks, name):
    found = ranks.run(check_options, name)
    assert max(far for far, _, _ in found) < 1e-12
    count = sum(p.numel() for p in net().parameters())
    assert sum(held for _, held, _ in found) == count * (4 if name == "NO_SHARD" else 1)
    assert found[0][2] == {"plain": 1, "lambda": 10, "sizes": 7}.get(name, 4)


# --- state dicts ------------------------------------------------------------------------------------------------------

KINDS = {"full": (StateDictType.FULL_STATE_DICT, None, None),
         "first rank": (StateDictType.FULL_STATE_DICT, FullStateDictConfig(True, True),
                        FullOptimStateDictConfig(rank0_only=True)),
         "sharded": (StateDictType.SHARDED_STATE_DICT, None, None),
         "local": (StateDictType.LOCAL_STATE_DICT, None, None)}


def check_states(kind):
    mine, theirs = wrapped(), net()
    steppers = [optim.AdamW(m.parameters(), lr=0.01) for m in (mine, theirs)]
    train(mine, theirs, *steppers, steps=1)
    with FullyShardedDataParallel.state_dict_type(mine, *KINDS[kind]):
        state = copy.deepcopy(mine.state_dict())
        states = copy.deepcopy(FullyShardedDataParallel.optim_state_dict(mine, steppers[0]))
    first = kind != "first rank" or dist.get_rank() == 0
    assert list(state) == (list(theirs.state_dict()) if first else [])
    value, same = state.get("blocks.1.up.weight"), theirs.blocks[1].up.weight
    if kind == "full" or (kind == "first rank" and first):
        assert (value - same).abs().max() < 1e-12 and not isinstance(value, DTensor)
        moment = states["state"]["blocks.1.up.weight"]["exp_avg"]
        assert (moment - steppers[1].state[same]["exp_avg"]).abs().max() < 1e-12
    elif first:
        assert isinstance(value, DTensor) == (kind == "sharded") and value.shape[0] == (7 if kind == "sharded" else (
            2 if dist.get_rank() < 3 else 1))
    if kind == "first rank":
        held = [state]
        dist.broadcast_object_list(held, src=0)
        state = held[0]
    model = Net().double()
    for p in model.parameters():
        p.data.zero_()
    other = wrapped(model=model)
    stepper = optim.AdamW(other.parameters(), lr=0.5)
    with FullyShardedDataParallel.state_dict_type(other, *KINDS[kind]):
        other.load_state_dict(state)
        FullyShardedDataParallel.optim_state_dict_to_load(other, stepper, states, load_directly=True)
    return train(other, theirs, stepper, steppers[1], first=1)


@pytest.mark.parametrize("kind", KINDS)
def test_states_go_on_in_another_model(ranks, kind):
    assert max(ranks.run(check_states, kind)) < 1e-12


def check_states_from_a_checkpoint(place, planner):
    mine, theirs = wrapped(), net()
    steppers = [optim.AdamW(m.parameters(), lr=0.01) for m in (mine, theirs)]
    train(mine, theirs, *steppers, steps=1)
    with FullyShardedDataParallel.state_dict_type(mine, StateDictType.SHARDED_STATE_DICT):
        states = FullyShardedDataParallel.optim_state_dict(mine, steppers[0])
        dcp.save({"model": mine.state_dict(), "optimizer": states}, checkpoint_id=place)
    other = wrapped()
    stepper = optim.AdamW(other.parameters(), lr=0.5)
    with FullyShardedDataParallel.state_dict_type(other, StateDictType.SHARDED_STATE_DICT):
        state = {"model": other.state_dict()}
        dcp.load(state, checkpoint_id=place)
        other.load_state_dict(state["model"])
        reader = dcp.FileSystemReader(place)
        found = dcp.load_sharded_optimizer_state_dict(state["model"], "optimizer", reader,
                                                      dcp.DefaultLoadPlanner() if planner else None)
        moment = found["optimizer"]["state"]["blocks.1.up.weight"]["exp_avg"]
        assert list(found) == ["optimizer"] and isinstance(moment, DTensor)
        assert moment.to_local().shape == state["model"]["blocks.1.up.weight"].to_local().shape
        FullyShardedDataParallel.optim_state_dict_to_load(other, stepper, found["optimizer"], load_directly=True)
    return train(other, theirs, stepper, steppers[1], first=1)


@pytest.mark.parametrize("planner", [False, True])
def test_states_go_on_from_a_checkpoint(ranks, tmp_path, planner):
    assert max(ranks.run(check_states_from_a_checkpoint, str(tmp_path), planner)) < 1e-12


def check_older_names():
    mine, theirs, me = wrapped(), net(), dist.get_rank()
    steppers = [optim.AdamW(m.parameters(), lr=0.01) for m in (mine, theirs)]
    train(mine, theirs, *steppers, steps=1)
    kind = FullyShardedDataParallel
    full = kind.full_optim_state_dict(mine, steppers[0])
    assert bool(full) == (me == 0)
    other = wrapped()
    stepper = optim.AdamW(other.parameters(), lr=0.01)
    stepper.load_state_dict(kind.scatter_full_optim_state_dict(full, other, optim=stepper))
    moments = [opt.state[m.module.first.weight]["exp_avg"].full_tensor() for m, opt in ((mine, steppers[0]),
                                                                                        (other, stepper))]
    assert flambeau.equal(*moments)
    named = kind.sharded_optim_state_dict(mine, steppers[0])
    assert isinstance(named["state"]["first.weight"]["exp_avg"], DTensor)
    numbered = kind.rekey_optim_state_dict(named, dist.fsdp.OptimStateKeyType.PARAM_ID, mine, optim=steppers[0])
    assert numbered["param_groups"][0]["params"] == list(range(len(list(theirs.parameters()))))
    plain = optim.AdamW(theirs.parameters())
    whole_state = kind.full_optim_state_dict(mine, steppers[0], rank0_only=False)
    plain.load_state_dict(kind.rekey_optim_state_dict(whole_state, dist.fsdp.OptimStateKeyType.PARAM_ID, theirs))
    assert (plain.state[theirs.first.weight]["exp_avg"] - moments[0]).abs().max() == 0


def test_older_names(ranks):
    ranks.run(check_older_names)


# --- the rest ---------------------------------------------------------------------------------------------------------

def check_whole():
    mine = wrapped()
    mine(batch(0, 0)).sum().backward()
    with FullyShardedDataParallel.summon_full_params(mine, with_grads=True):
        names = dict(mine.named_parameters())
        assert "blocks.0.up.weight" in names and names["blocks.0.up.weight"].shape == (7, 9)
        assert names["first.weight"].grad.shape == (9, 4)
        names["first.weight"].data.fill_(3)
    assert (mine.module.first.weight.to_local() == 3).all() and isinstance(mine.first.weight, DTensor)
    mine.apply(lambda m: nn.init.ones_(m.weight) if isinstance(m, nn.Linear) else None)
    assert all((p == 1).all() for name, p in whole(mine).items() if name.endswith("up.weight"))
    assert mine.check_is_root() and len(FullyShardedDataParallel.fsdp_modules(mine, root_only=True)) == 1
    with enable_wrap(wrapper_cls=FullyShardedDataParallel, sharding_strategy=ShardingStrategy.NO_SHARD):
        assert wrap(nn.Linear(1, 1)).sharding_strategy is ShardingStrategy.NO_SHARD
    with flambeau.device("meta"):
        empty = Net()
    made = FullyShardedDataParallel(empty, auto_wrap_policy=always_wrap_policy, sync_module_states=True)
    assert whole(made)["blocks.2.down.weight"].abs().sum() > 0


def check_precision():
    mixed = MixedPrecision(flambeau.bfloat16, flambeau.float32)
    mine = FullyShardedDataParallel(net(dtype=flambeau.float32), mixed_precision=mixed)
    theirs = net(dtype=flambeau.bfloat16)
    x = batch(0, 0, flambeau.float32)
    assert flambeau.equal(mine(x), theirs(x.bfloat16()))
    mine(x).sum().backward()
    assert mine.first.weight.grad.dtype is flambeau.float32


    bn = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Linear(4, 1))
    bn = FullyShardedDataParallel(bn, mixed_precision=mixed, auto_wrap_policy=ModuleWrapPolicy({nn.Linear}))
    seen = []
    bn.module[1].module.register_forward_hook(lambda m, x, y: seen.append((m.weight.dtype, y.dtype)))
    bn(x).sum().backward()
    assert seen == [(flambeau.float32, flambeau.bfloat16)] and isinstance(bn.module[1], FullyShardedDataParallel)
    assert bn.module[0].module.weight.grad is not None


def check_scaler():
    mine = wrapped("classes", net(dtype=flambeau.float32))
    stepper, scaler = optim.SGD(mine.parameters(), lr=0.1), ShardedGradScaler("cpu", init_scale=4.0)
    before = whole(mine)
    for bad in (True, False):
        stepper.zero_grad()
        loss = mine(batch(0, dist.get_rank(), flambeau.float32)).sum()
        scaler.scale(loss * (float("inf") if bad and dist.get_rank() == 2 else 1)).backward()
        scaler.step(stepper)
        scaler.update()
        changed = any(not flambeau.equal(p, before[name]) for name, p in whole(mine).items())
        assert changed is not bad and scaler.get_scale() == 2


def check_mesh_of_copies():
    mine, theirs = net(), net()
    for p in mine.parameters() if dist.get_rank() else ():
        p.data.zero_()
    _sync_module_states(mine, dist.group.WORLD, 200, 0, {"unused.bias"})
    same = [flambeau.equal(p, q) for p, q in zip(mine.parameters(), theirs.parameters())]
    assert all(same[:-1]) and same[-1] is (dist.get_rank() == 0)
    mesh = dist.init_device_mesh("cpu", (4,))
    mine, theirs = DistributedDataParallel(net(), device_mesh=mesh, find_unused_parameters=True), net()
    mine(batch(0, dist.get_rank())).sum().backward()
    sum(theirs(batch(0, r)).sum() / 4 for r in range(4)).backward()
    assert (mine.module.first.weight.grad - theirs.first.weight.grad).abs().max() < 1e-12


def check_hooks():
    def halved(group, gradients, part):
        dist.reduce_scatter_tensor(part, gradients, group=group)
        part /= 2

    mine, theirs = wrapped("plain"), net()
    mine.register_comm_hook(dist.group.WORLD, halved)
    mine(batch(0, 0)).sum().backward()
    theirs(batch(0, 0)).sum().backward()
    assert (mine.first.weight.grad.full_tensor() - 2 * theirs.first.weight.grad).abs().max() < 1e-12


def check_checkpointing():
    far = []
    for wrapper in (checkpoint_wrapper, functools.partial(checkpoint_wrapper, checkpoint_impl=CheckpointImpl.REENTRANT),
                    offload_wrapper):
        model, theirs = net(), net()
        apply_activation_checkpointing(model, wrapper, check_fn=lambda m: isinstance(m, Block))
        assert list(model.state_dict()) == list(theirs.state_dict())
        assert next(name for name, _ in model.named_parameters()) == "first.weight"
        model.load_state_dict(theirs.state_dict())
        mine = FullyShardedDataParallel(model, auto_wrap_policy=ModuleWrapPolicy({Block}))
        assert list(mine.state_dict()) == list(theirs.state_dict())
        x = batch(0, 0)
        assert (mine(x) - theirs(x)).abs().max() == 0
        mine(x).sum().backward()
        theirs(x).sum().backward()
        far.append((mine.blocks[0]._checkpoint_wrapped_module.module.up.weight.grad.full_tensor()
                    - theirs.blocks[0].up.weight.grad).abs().max().item())
    return max(far)


def refused():
    mine = wrapped()
    for call, error, text in [
            (lambda: FullyShardedDataParallel(net(), device_id="meta"), NotImplementedError, "device_id"),
            (lambda: FullyShardedDataParallel(net(), cpu_offload=True), TypeError, "CPUOffload"),
            (lambda: FullyShardedDataParallel(net(), auto_wrap_policy=3), ValueError, "fsdp.wrap"),
            (lambda: FullyShardedDataParallel(net(), mixed_precision=MixedPrecision(keep_low_precision_grads=True)),
             NotImplementedError, "keep_low_precision_grads"),
            (lambda: mine.set_state_dict_type(mine, StateDictType.SHARDED_STATE_DICT, FullStateDictConfig()),
             RuntimeError, "ShardedStateDictConfig"),
            (lambda: FullyShardedDataParallel.optim_state_dict(mine, optim.SGD(net().parameters())), ValueError,
             "not one of the model's"),
            (lambda: DistributedDataParallel(mine), RuntimeError, "fully_shard"),
            (lambda: dist.all_reduce(mine.module.first.weight), TypeError, "DTensor")]:
        with pytest.raises(error, match=text):
            call()


@pytest.mark.parametrize("check", [check_whole, check_precision, check_scaler, check_hooks, check_mesh_of_copies,
                                   refused])
def test_more(ranks, check):
    ranks.run(check)


def test_checkpointing(ranks):
    assert max(ranks.run(check_checkpointing)) < 1e-12
