"""state_dict and load_state_dict: what they hold, what they refuse, versions, extra state, hooks."""

import gc
from collections import OrderedDict

import pytest

import flambeau
from flambeau import nn


def model():
    return nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3))


KEYS = ["0.weight", "0.bias", "1.weight", "1.bias", "1.running_mean", "1.running_var", "1.num_batches_tracked"]


def test_round_trip():
    a, b = model(), model()
    state = a.state_dict()
    assert list(state) == KEYS and isinstance(state, OrderedDict)
    assert state._metadata == {"": {"version": 1}, "0": {"version": 1}, "1": {"version": 2}}
    result = b.load_state_dict(state)
    assert repr(result) == "<All keys matched successfully>" and result.missing_keys == []
    assert all(flambeau.equal(v, state[k]) for k, v in b.state_dict().items())


def test_values_share_memory_and_are_detached():
    net = model()
    state = net.state_dict()
    assert not state["0.weight"].requires_grad
    state["0.bias"].fill_(5)
    assert net[0].bias.tolist() == [5, 5, 5]
    assert net.state_dict(keep_vars=True)["0.weight"] is net[0].weight


def test_prefix_and_destination():
    target = OrderedDict(kept=1)
    assert model().state_dict(destination=target, prefix="net.") is target
    assert list(target)[:2] == ["kept", "net.0.weight"]


def test_strict_errors_name_all_keys():
    state = model().state_dict()
    del state["0.bias"]
    state["1.extra"] = flambeau.ones(1)
    state["other.weight"] = flambeau.ones(1)
    with pytest.raises(RuntimeError) as caught:
        model().load_state_dict(state)
    assert str(caught.value) == (
        "load_state_dict: Sequential does not take this state:\n\t"
        'Missing key(s) in state_dict: "0.bias". \n\t'
        'Unexpected key(s) in state_dict: "other.weight", "1.extra". '
    )
    result = model().load_state_dict(state, strict=False)
    assert result.missing_keys == ["0.bias"] and result.unexpected_keys == ["other.weight", "1.extra"]
    assert repr(result).startswith("_IncompatibleKeys(missing_keys=['0.bias']")


def test_wrong_shapes_and_values():
    state = model().state_dict()
    state["0.weight"] = flambeau.ones(4, 2)
    with pytest.raises(RuntimeError, match=r"0\.weight: the state has shape \[4, 2\], the model \[3, 2\]"):
        model().load_state_dict(state, strict=False)
    state["0.weight"] = [1, 2]
    with pytest.raises(RuntimeError, match=r"0\.weight: the state holds a list where a Tensor"):
        model().load_state_dict(state)
    with pytest.raises(TypeError, match="expected a mapping of names to tensors"):
        model().load_state_dict([1])


def test_assign():
    layer = nn.Linear(2, 1)
    given = flambeau.ones(1, 2, dtype=flambeau.float64)
    layer.load_state_dict({"weight": given, "bias": flambeau.zeros(1)}, assign=True)
    assert layer.weight.data_ptr() == given.data_ptr() and layer.weight.dtype == flambeau.float64
    assert isinstance(layer.weight, nn.Parameter) and layer.weight.requires_grad
    empty = nn.Linear(2, 1, device="meta")
    empty.load_state_dict(nn.Linear(2, 1).state_dict(), assign=True)
    assert empty.weight.device.type == "cpu"


def test_loading_converts_the_dtype():
    layer = nn.Linear(2, 1)
    layer.load_state_dict({"weight": flambeau.ones(1, 2, dtype=flambeau.float64), "bias": flambeau.zeros(1)})
    assert layer.weight.dtype == flambeau.float32 and layer.weight.tolist() == [[1, 1]]


def test_scalars_saved_with_one_dimension():
    net = nn.Module()
    net.scale = nn.Parameter(flambeau.tensor(1.0))
    net.load_state_dict({"scale": flambeau.tensor([3.0])})
    assert net.scale.item() == 3


def test_extra_state():
    class Counter(nn.Module):
        def __init__(self):
            super().__init__()
            self.count = 0

        def get_extra_state(self):
            return {"count": self.count}

        def set_extra_state(self, state):
            self.count = state["count"]

    net = nn.Sequential(Counter())
    net[0].count = 4
    state = net.state_dict()
    assert state == {"0._extra_state": {"count": 4}}
    other = nn.Sequential(Counter())
    other.load_state_dict(state)
    assert other[0].count == 4
    with pytest.raises(RuntimeError, match=r"Missing key.*_extra_state"):
        other.load_state_dict({})
    with pytest.raises(RuntimeError, match=r"Unexpected key.*_extra_state"):
        nn.Sequential(nn.ReLU()).load_state_dict(state)


def test_old_versions_can_be_read():
    class Renamed(nn.Linear):
        _version = 2

        def _load_from_state_dict(self, state_dict, prefix, local_metadata, *rest):
            if local_metadata.get("version", 1) < 2:
                state_dict[prefix + "weight"] = state_dict.pop(prefix + "w")
            super()._load_from_state_dict(state_dict, prefix, local_metadata, *rest)

    state = OrderedDict(w=flambeau.ones(1, 1), bias=flambeau.zeros(1))
    Renamed(1, 1).load_state_dict(state)
    assert "w" in state  # the caller's dict stays as it was


def test_hooks():
    net, log = nn.Sequential(nn.Linear(1, 1)), []
    net.register_state_dict_pre_hook(lambda m, prefix, keep_vars: log.append("before saving"))
    net.register_state_dict_post_hook(lambda m, state, prefix, meta: state.update(extra=1))
    net[0].register_load_state_dict_pre_hook(lambda m, state, prefix, *rest: log.append((type(m).__name__, prefix)))
    net.register_load_state_dict_post_hook(lambda m, keys: keys.unexpected_keys.clear())
    state = net.state_dict()
    assert state["extra"] == 1
    assert net.load_state_dict(state).unexpected_keys == []
    assert log == ["before saving", ("Linear", "0.")]
    net._register_state_dict_hook(lambda m, state, prefix, meta: {"replaced": True})
    assert net.state_dict() == {"replaced": True}
    net.register_load_state_dict_post_hook(lambda m, keys: 3)
    with pytest.raises(RuntimeError, match="load_state_dict post-hook: change the lists of"):
        net.load_state_dict(state)


def test_switches_of_conversion():
    future = flambeau.__future__
    m = nn.Linear(2, 2)
    weight = m.weight
    m.double()
    assert m.weight is weight
    future.set_overwrite_module_params_on_conversion(True)
    try:
        m.float()
        assert m.weight is not weight and weight.dtype == flambeau.float64
    finally:
        future.set_overwrite_module_params_on_conversion(False)
    weight = m.weight
    future.set_swap_module_params_on_conversion(True)
    try:
        m.load_state_dict({"weight": flambeau.ones(2, 2).double(), "bias": flambeau.zeros(2)}, assign=True)
        assert m.weight is weight and weight.dtype == flambeau.float64 and weight.requires_grad
        m.to_empty(device="meta")
        assert m.weight is weight and weight.is_meta
    finally:
        future.set_swap_module_params_on_conversion(False)


def test_prefixes_of_wrapped_models():
    m = nn.DataParallel(nn.Sequential(nn.Linear(2, 2)))
    state = m.state_dict()
    nn.modules.utils.consume_prefix_in_state_dict_if_present(state, "module.")
    assert list(state) == ["0.weight", "0.bias"] and list(state._metadata) == ["", "0"]
    m.module.load_state_dict(state)


def test_loading_leaves_no_cycle_that_keeps_the_tensors():
    layer = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    state = layer.state_dict()
    gc.collect()
    layer.load_state_dict(state)
    assert gc.collect() == 0


def test_loading_values_into_the_meta_device_warns():
    module = nn.Linear(2, 2, device="meta")
    with pytest.warns(UserWarning, match="is on the meta device.*assign=True"):
        module.load_state_dict(nn.Linear(2, 2).state_dict())
    module.load_state_dict(nn.Linear(2, 2).state_dict(), assign=True)
    module.load_state_dict(module.state_dict())


def test_arguments_by_position_warn():
    found = OrderedDict()
    with pytest.warns(FutureWarning, match="by name"):
        assert nn.Linear(2, 2).state_dict(found, "a.") is found
    assert list(found) == ["a.weight", "a.bias"]
