"""Whole modules in files: what PyTorch's modules keep besides their parameters, and what ours keep instead."""

from collections import OrderedDict

import flambeau

from .._shown import clipped
from .extent import PickleError

_TABLES = {"_parameters": "Parameter", "_buffers": "Tensor", "_modules": "Module"}
#: PyTorch keeps these in every module; ours makes them when they are first used
_HOOKS = ("_backward_pre_hooks", "_backward_hooks", "_forward_hooks", "_forward_hooks_with_kwargs",
          "_forward_hooks_always_called", "_forward_pre_hooks", "_forward_pre_hooks_with_kwargs", "_state_dict_hooks",
          "_state_dict_pre_hooks", "_load_state_dict_pre_hooks", "_load_state_dict_post_hooks",
          "_non_persistent_buffers_set")


def from_torch(module, state):
    """The attributes that a module has here, of those in a file."""
    if not isinstance(state, dict):
        raise PickleError(f"attributes of a {type(module).__name__} that are no dict")
    state = {name: value for name, value in state.items()
             if not (name in _HOOKS and isinstance(value, (dict, set)) and not value)}
    nn = flambeau.nn
    if isinstance(module, nn.modules.conv._ConvNd) and "_reversed_padding_repeated_twice" in state:
        state["_edges"] = tuple(state.pop("_reversed_padding_repeated_twice"))
    if isinstance(module, nn.RNNBase) and "_all_weights" in state:
        state["_names"] = state.pop("_all_weights")
        for name in ("_flat_weights", "_flat_weights_names", "_flat_weight_refs"):
            state.pop(name, None)
    if isinstance(module, nn.MultiheadAttention):
        for name in ("bias_k", "bias_v"):  # there they are attributes where they are absent
            if name in state and state[name] is None and isinstance(state.get("_parameters"), dict):
                state["_parameters"].setdefault(name, state.pop(name))
    return state


def to_torch(module, state):
    """The attributes that PyTorch's module of the class needs, of ours."""
    state = dict(state)
    nn = flambeau.nn
    if "_edges" in state and isinstance(module, nn.modules.conv._ConvNd):
        state["_reversed_padding_repeated_twice"] = state.pop("_edges")
    if "_names" in state and isinstance(module, nn.RNNBase):
        state["_all_weights"] = names = state.pop("_names")
        state["_flat_weights_names"] = flat = [name for layer in names for name in layer]
        state["_flat_weights"] = [module._parameters.get(name) for name in flat]
    if isinstance(module, nn.TransformerEncoderLayer) and "activation" in state:
        gelu, relu = nn.functional.gelu, nn.functional.relu
        state["activation_relu_or_gelu"] = {relu: 1, gelu: 2}.get(state["activation"], 0)
    if isinstance(module, nn.MultiheadAttention):  # there they are attributes where they are absent
        tables = state["_parameters"] = dict(state["_parameters"])
        for name in ("bias_k", "bias_v"):
            if name in tables and tables[name] is None:
                state[name] = tables.pop(name)
    for name in ("_backward_hooks", "_forward_hooks", "_forward_pre_hooks"):
        state.setdefault(name, OrderedDict())
    state.setdefault("_is_full_backward_hook", None)
    state.setdefault("_non_persistent_buffers_set", set())
    return state


def check(module):
    """The tables that every use of a module relies on."""
    state, kinds = module.__dict__, {"Parameter": flambeau.nn.Parameter, "Tensor": flambeau.Tensor,
                                     "Module": flambeau.nn.Module}
    for table, kind in _TABLES.items():
        found = state.get(table)
        if not isinstance(found, dict):
            raise PickleError(f"a {clipped(type(module).__qualname__, 100)} without {table}")
        for name, value in found.items():
            if type(name) is not str or not (value is None or isinstance(value, kinds[kind])):
                raise PickleError(f"a {clipped(type(module).__qualname__, 100)} whose {table} hold something else "
                                  f"than a {kind}")
    if type(state.get("training")) is not bool:
        raise PickleError(f"a {clipped(type(module).__qualname__, 100)} that is neither in training nor not")
