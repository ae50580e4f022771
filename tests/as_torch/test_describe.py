"""What a name is, in the process of a program: members of modules and classes, parameters, refusals."""

import inspect

import pytest

import flambeau
from flambeau._absent import refusal, refusals
from flambeau.as_torch._doctor import described


@pytest.fixture(scope="module")
def found():
    return described([
        "torch.nn.Linear", "torch.nn.Linear.forward", "torch.pi.x.y", "torch.nothing", "torch.nn.x.y", "torch.int3",
        "torch.distributed.get_backend_impl", "torch.distributed.all_reduce",
        "torch.nn.modules.instancenorm",
        "torch.Tensor.requires_grad", "torch.fx.nothing", "torchtext.data"])


def test_kinds_and_parameters(found):
    assert found["torch.nn.Linear"]["kind"] == "class"
    assert [name for name, _ in found["torch.nn.Linear"]["parameters"]] == [
        "in_features", "out_features", "bias", "device", "dtype"]
    assert [name for name, _ in found["torch.nn.Linear.forward"]["parameters"]] == ["self", "input"]
    assert found["torch.nn.modules.instancenorm"]["kind"] == found["torch.Tensor.requires_grad"]["kind"] == "value"


def test_a_name_is_followed_into_modules_and_classes_only(found):
    assert found["torch.pi.x.y"]["kind"] == "value" and found["torch.pi.x.y"]["rest"] == ["x", "y"]
    for name in ("torch.nothing", "torch.nn.x.y", "torch.fx.nothing"):
        assert found[name] is None
    assert found["torchtext.data"]["kind"].startswith("ModuleNotFoundError: ")


def test_refusals_say_why(found):
    assert found["torch.distributed.all_reduce"]["refused"] is None
    assert "not available" in found["torch.distributed.get_backend_impl"]["refused"]
    assert "no tensors" in found["torch.int3"]["refused"] and found["torch.nn.Linear"]["refused"] is None
    assert [name for name, _ in found["torch.distributed.all_reduce"]["parameters"]] == [
        "tensor", "op", "group", "async_op"]


def test_refusals_of_one_namespace():
    made = refusals("space", "there is none; use another", "plain named(a, b, *rest, **more) Kind(x) KindError")
    assert list(made) == ["plain", "named", "Kind", "KindError"]
    assert str(inspect.signature(made["named"])) == "(a, b, *rest, **more)"
    assert str(inspect.signature(made["Kind"])) == "(x)" and issubclass(made["KindError"], Exception)
    for name in made:
        with pytest.raises(NotImplementedError, match=f"space.{name}: there is none; use another"):
            made[name](1, 2)
    like = refusal("one", "no", like=lambda a, *, b: None)
    assert str(inspect.signature(like)) == "(a, *, b)"
    with pytest.raises(NotImplementedError, match="one: no"):
        like()


@pytest.mark.parametrize("name", ["cuda", "xpu", "mps", "mtia"])
def test_devices_that_are_not_here(name):
    space = getattr(flambeau, name)
    assert space.is_available() is False and space.device_count() == 0
    space.manual_seed(3)
    space.empty_cache()
    with pytest.raises(NotImplementedError, match=name if name != "cuda" else "without CUDA"):
        space.synchronize()
    if hasattr(space, "device"):
        with space.device(None), space.stream(None):
            assert space.memory_allocated() == 0 and space.memory_stats() == {}
        with pytest.raises(RuntimeError, match="no such device"):
            space.device(0)
        assert space.get_rng_state_all() == [] and space.set_rng_state_all([]) is None
        with pytest.raises(RuntimeError, match="1 states"):
            space.set_rng_state_all([flambeau.zeros(1)])


def test_values_of_distributed(monkeypatch):
    dist = flambeau.distributed
    assert dist.is_available() and not dist.is_initialized() and dist.group.WORLD is None
    assert dist.ReduceOp.SUM == dist.ReduceOp.RedOpType.SUM == 0 and dist.ReduceOp.PREMUL_SUM == 8
    assert dist.Backend("GLOO") == dist.Backend.GLOO == dist.get_default_backend_for_device(flambeau.device("cpu"))
    assert dist.get_default_backend_for_device("cuda:1") == "nccl" and dist.get_debug_level() is dist.DebugLevel.OFF
    assert dist.is_gloo_available() and not dist.is_nccl_available() and dist.supports_complex(dist.ReduceOp.SUM)
    with pytest.raises(ValueError, match="abacus"):
        dist.get_default_backend_for_device("abacus")
    with pytest.raises(ValueError, match="got int"):
        dist.Backend(3)
    for name in ("get_rank", "get_world_size", "get_backend", "barrier"):
        with pytest.raises(ValueError, match=f"{name}: there is no group"):
            getattr(dist, name)()
    monkeypatch.delenv("LOCAL_RANK", raising=False)
    assert dist.get_node_local_rank(2) == 2
    with pytest.raises(RuntimeError, match="LOCAL_RANK"):
        dist.get_node_local_rank()
    monkeypatch.setenv("LOCAL_RANK", "5")
    assert dist.get_node_local_rank() == 5
