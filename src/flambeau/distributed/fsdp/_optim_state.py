"""State dicts of optimizers whose parameters are spread: by names of parameters, whole, as DTensors, or as parts."""

from ..._shown import shown
from .. import _groups, _objects
from .._values import OptimStateKeyType, StateDictType
from ..tensor import DTensor

_WRAPPERS = ("_fsdp_wrapped_module.", "_checkpoint_wrapped_module.", "module._orig_mod.")


def clean(name):
    """A parameter's name without those of wrappers."""
    for part in _WRAPPERS:
        name = name.replace(part, "")
    return name


def names_of(model):
    """{id of parameter: its name}."""
    return {id(p): clean(name) for name, p in model.named_parameters()}


def shown_as(value, kind):
    """A tensor as a state dict of this kind has it."""
    if not isinstance(value, DTensor) or kind == StateDictType.SHARDED_STATE_DICT:
        return value
    return (value.full_tensor() if kind == StateDictType.FULL_STATE_DICT else value.to_local()).detach()


def fitted(value, param):
    """A tensor of a state dict as it is kept beside a parameter: spread as the parameter is."""
    if not isinstance(param, DTensor) or not hasattr(value, "ndim"):
        return value.full_tensor() if isinstance(value, DTensor) else value
    if isinstance(value, DTensor):
        if value.device_mesh != param.device_mesh:
            return param._own_spread(value.full_tensor()) if value.ndim else value.full_tensor()
        return value._own_like(param) if value.shape == param.shape else value
    if value.ndim and value.shape == param.shape:
        return param._own_spread(value)
    if value.ndim and value.shape == param._local_tensor.shape:
        return DTensor(value.detach().clone(), param._spec.with_placements(param.placements), requires_grad=False) \
            if value.dtype is param.dtype else value
    return value


def by_names(model, optim, state_dict, kind, rank0_only, group):
    """{"state": {name: …}, "param_groups": […]}."""
    names = names_of(model)
    params = [p for each in optim.param_groups for p in each["params"]]
    keys = [names.get(id(p)) for p in params]
    if None in keys:
        raise ValueError(f"optim_state_dict: the optimizer has a parameter {list(params[keys.index(None)].shape)} that "
                         "is not one of the model's; make the optimizer of model.parameters() after wrapping")
    given = optim.state_dict() if state_dict is None else state_dict
    state = {}
    for index, name in enumerate(keys):
        if index in given["state"]:
            state[name] = {key: shown_as(value, kind) for key, value in given["state"][index].items()}
    groups = [{**{key: value for key, value in each.items() if key != "params"},
               "params": [keys[k] for k in each["params"]]} for each in given["param_groups"]]
    if kind == StateDictType.FULL_STATE_DICT and rank0_only and _groups.member(group, "optim_state_dict").rank():
        return {}
    return {"state": state, "param_groups": groups}


def by_numbers(model, optim, state_dict):
    """The same for `optimizer.load_state_dict`: parameters by number, tensors spread as the parameters are."""
    names = names_of(model)
    groups = optim.param_groups if optim is not None else [{"params": list(model.parameters())}]
    params = [p for each in groups for p in each["params"]]
    numbers = {names[id(p)]: k for k, p in enumerate(params)}
    state = {}
    for name, values in state_dict["state"].items():
        at = numbers.get(clean(name) if isinstance(name, str) else name, name)
        if not isinstance(at, int):
            raise KeyError(f"optim_state_dict_to_load: the model has no parameter {shown(name)}")
        state[at] = {key: fitted(value, params[at]) for key, value in values.items()}
    found = []
    for each in state_dict["param_groups"]:
        keys = [numbers.get(clean(name) if isinstance(name, str) else name, name) for name in each["params"]]
        found.append({**{key: value for key, value in each.items() if key != "params"}, "params": keys})
    return {"state": state, "param_groups": found}


def from_first(state_dict, group):
    """The state dict of the first rank, on all."""
    group = _groups.member(group, "optim_state_dict_to_load")
    held = [state_dict if group.rank() == 0 else None]
    _objects.broadcast_object_list(held, group=group, group_src=0)
    return held[0]


def rekeyed(state_dict, key_type, model, optim):
    """With names in place of numbers, or the other way."""
    names = names_of(model)
    groups = optim.param_groups if optim is not None else [{"params": list(model.parameters())}]
    keys = [names[id(p)] for each in groups for p in each["params"]]
    change = dict(enumerate(keys)) if key_type == OptimStateKeyType.PARAM_NAME else {
        name: k for k, name in enumerate(keys)}
    return {"state": {change.get(key, key): value for key, value in state_dict["state"].items()},
            "param_groups": [{**each, "params": [change.get(key, key) for key in each["params"]]}
                             for each in state_dict["param_groups"]]}
