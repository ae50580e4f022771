"""State dicts of models and optimizers by the names that parameters have in the model alone, however it is wrapped."""

import contextlib
from dataclasses import dataclass, field

import flambeau

from ..._shown import shown
from ...nn import Module
from ...nn.parallel import DistributedDataParallel
from ...optim import Optimizer
from .. import _collectives as collectives
from .. import _groups, _objects
from .._values import StateDictType
from ..fsdp import FullyShardedDataParallel
from ..fsdp._optim_state import fitted
from ..tensor import DTensor

_WRAPPERS = ("_fsdp_wrapped_module", "_checkpoint_wrapped_module", "_orig_mod")


@dataclass
class StateDictOptions:
    """What get_ and set_ functions do.

    full_state_dict: whole tensors instead of DTensors; with cpu_offload the first rank alone gets them.
    ignore_frozen_params: without parameters that want no gradient. broadcast_from_rank0: the first rank's whole tensors
    are loaded by all. flatten_optimizer_state_dict: one level, "state.NAME.KEY" and "param_groups.NAME.KEY".

    >>> from flambeau.distributed.checkpoint.state_dict import StateDictOptions
    >>> StateDictOptions(full_state_dict=True).strict
    True
    """

    full_state_dict: bool = False
    cpu_offload: bool = False
    ignore_frozen_params: bool = False
    keep_submodule_prefixes: bool = True
    strict: bool = True
    broadcast_from_rank0: bool = False
    flatten_optimizer_state_dict: bool = False
    dsd_fqn_modifiers: str = "_fqn_modifiers"


@dataclass
class _View:
    """A model, its names, and what is asked for."""

    model: Module
    options: StateDictOptions
    submodules: tuple = ()
    state: dict = field(default_factory=dict)

    def __post_init__(self):
        if self.options.broadcast_from_rank0 and not self.options.full_state_dict:
            raise ValueError("StateDictOptions: broadcast_from_rank0=True is for whole tensors; set "
                             "full_state_dict=True as well")
        if self.options.dsd_fqn_modifiers != "_fqn_modifiers":
            raise NotImplementedError("StateDictOptions: dsd_fqn_modifiers is not available; leave it out")
        with self.sharded():
            self.state = self.model.state_dict()
        self.names = {key: self._name(key) for key in self.state}
        self.frozen = {self._name(key) for key, p in self.model.named_parameters() if not p.requires_grad}
        self.prefixes = [self._name(key) + "." for key, part in self.model.named_modules() if part in self.submodules]

    def _name(self, key):
        """The name without those of wrappers."""
        kept, at = [], self.model
        for part in key.split("."):
            if part not in _WRAPPERS and not (part == "module" and isinstance(at, DistributedDataParallel)):
                kept.append(part)
            at = getattr(at, part, None)
        return ".".join(kept)

    @contextlib.contextmanager
    def sharded(self):
        """Inside, FullyShardedDataParallel gives and takes DTensors."""
        if not FullyShardedDataParallel.fsdp_modules(self.model):
            yield
            return
        with FullyShardedDataParallel.state_dict_type(self.model, StateDictType.SHARDED_STATE_DICT):
            yield

    def outer(self, name):
        """The name to show: None where it was not asked for."""
        if self.options.ignore_frozen_params and name in self.frozen:
            return None
        if not self.prefixes:
            return name
        prefix = next((p for p in self.prefixes if name.startswith(p)), None)
        if prefix is None:
            return None
        return name if self.options.keep_submodule_prefixes else name[len(prefix):]

    def parameters(self):
        """{id of parameter: its name}."""
        return {id(p): self._name(key) for key, p in self.model.named_parameters()}

    def shown(self, value):
        """A value as it was asked for."""
        if isinstance(value, DTensor) and self.options.full_state_dict:
            value = value.full_tensor()
        return value.detach() if isinstance(value, flambeau.Tensor) else value

    @property
    def given_here(self):
        """Whether this rank gets anything."""
        return not (self.options.full_state_dict and self.options.cpu_offload) or _rank() == 0


def _rank():
    return _groups.get_rank() if _groups.is_initialized() else 0


def _view(model, options, submodules=None):
    if not isinstance(model, Module):
        raise TypeError(f"checkpoint.state_dict: expected a Module, got {shown(model)}")
    return _View(model, options or StateDictOptions(), tuple(submodules or ()))


def _listed(optimizers):
    found = (optimizers,) if isinstance(optimizers, Optimizer) else tuple(optimizers)
    for each in found:
        if not isinstance(each, Optimizer):
            raise TypeError(f"checkpoint.state_dict: expected optimizers, got {shown(each)}")
    return found


# --- asking -----------------------------------------------------------------------------------------------------------

def get_model_state_dict(model, *, submodules=None, options=None):
    """The model's state by the names that it has without wrappers; spread tensors are DTensors unless asked otherwise.

    >>> import flambeau
    >>> from flambeau.distributed.checkpoint.state_dict import get_model_state_dict
    >>> list(get_model_state_dict(flambeau.nn.Linear(2, 1)))
    ['weight', 'bias']
    """
    view = _view(model, options, submodules)
    found = {}
    for key, value in view.state.items():
        name = view.outer(view.names[key])
        if name is not None:
            value = view.shown(value)  # all ranks make the same exchanges
            if view.given_here:
                found[name] = value
    return found


def get_optimizer_state_dict(model, optimizers, *, submodules=None, options=None):
    """The state of one optimizer, or of several together, by names of parameters.

    An optimizer that has not made a step gets its state before, so that a checkpoint can be loaded into it.

    >>> import flambeau
    >>> from flambeau.distributed.checkpoint.state_dict import get_optimizer_state_dict
    >>> layer = flambeau.nn.Linear(2, 1)
    >>> state = get_optimizer_state_dict(layer, flambeau.optim.Adam(layer.parameters()))
    >>> sorted(state["state"]["bias"]), state["param_groups"][0]["params"]
    (['exp_avg', 'exp_avg_sq', 'step'], ['weight', 'bias'])
    """
    view = _view(model, options, submodules)
    found = {"state": {}, "param_groups": []}
    for optimizer in _listed(optimizers):
        _init_optim_state(optimizer)
        _add(view, optimizer, found)
    if not view.given_here:
        return {}
    return _flat(found) if view.options.flatten_optimizer_state_dict else found


def _init_optim_state(optimizer):
    """State for all parameters, as before a first step: a step of zero gradients with a rate of zero makes it."""
    params = [p for group in optimizer.param_groups for p in group["params"] if p.requires_grad]
    if optimizer.state or any(p.grad is not None for p in params) or not params or isinstance(
            optimizer, flambeau.optim.LBFGS):
        return
    rates = [group["lr"] for group in optimizer.param_groups]
    for p in params:
        p.grad = flambeau.zeros_like(p)
    for group in optimizer.param_groups:
        group["lr"] = flambeau.zeros_like(group["lr"]) if isinstance(group["lr"], flambeau.Tensor) else 0.0
    optimizer.step()
    for group, rate in zip(optimizer.param_groups, rates):
        group["lr"] = rate
    for p in params:
        p.grad = None
        if isinstance(optimizer.state[p].get("step"), flambeau.Tensor):
            optimizer.state[p]["step"].zero_()


def _add(view, optimizer, found):
    names = view.parameters()
    for group in optimizer.param_groups:
        kept = []
        for p in group["params"]:
            if id(p) not in names:
                raise ValueError(f"get_optimizer_state_dict: the optimizer has a parameter {list(p.shape)} that is not "
                                 "one of the model's; make it of model.parameters() after wrapping")
            name = view.outer(names[id(p)])
            if name is None:
                continue
            kept.append(name)
            if p in optimizer.state:
                found["state"][name] = {key: view.shown(value) for key, value in optimizer.state[p].items()}
        found["param_groups"].append({**{key: value for key, value in group.items() if key != "params"},
                                      "params": kept})


def _flat(state):
    found = {f"state.{name}.{key}": value for name, values in state["state"].items() for key, value in values.items()}
    for group in state["param_groups"]:
        for name in group["params"]:
            found.update({f"param_groups.{name}.{key}": value for key, value in group.items() if key != "params"})
    return found


def _deep(flat, view, optimizers):
    """A flat state as a nested one, by the names and groups of the optimizers."""
    names, state, groups = view.parameters(), {}, []
    for optimizer in optimizers:
        for group in optimizer.param_groups:
            params = [view.outer(names[id(p)]) for p in group["params"]]
            params = [name for name in params if name is not None]
            options = {}
            for name in params:
                own = {key[len(f"state.{name}."):]: value for key, value in flat.items()
                       if key.startswith(f"state.{name}.")}
                if own:
                    state[name] = own
                prefix = f"param_groups.{name}."
                options.update({key[len(prefix):]: value for key, value in flat.items() if key.startswith(prefix)})
            groups.append({**options, "params": params})
    return {"state": state, "param_groups": groups}


def get_state_dict(model, optimizers, *, submodules=None, options=None):
    """(get_model_state_dict, get_optimizer_state_dict)."""
    return (get_model_state_dict(model, submodules=submodules, options=options),
            get_optimizer_state_dict(model, optimizers, submodules=submodules, options=options))


# --- setting ----------------------------------------------------------------------------------------------------------

def _from_first(state):
    """The first rank's dict, with tensors sent one by one."""
    def described(value):
        return ("tensor", tuple(value.shape), value.dtype) if isinstance(value, flambeau.Tensor) else ("value", value)

    first = _rank() == 0
    held = [_nested(described, state) if first else None]
    _objects.broadcast_object_list(held, src=0)
    each = iter(list(_tensors(state)) if first else [])

    def received(about):
        if about[0] == "value":
            return about[1]
        tensor = next(each).detach().contiguous().clone() if first else flambeau.empty(about[1], dtype=about[2])
        collectives.broadcast(tensor, src=0)
        return tensor

    return _nested(received, held[0])


def _nested(change, value):
    """The same nest of dicts with change(value) at its ends; groups are lists of dicts."""
    if isinstance(value, dict):
        return {key: _nested(change, each) for key, each in value.items()}
    if isinstance(value, list) and value and isinstance(value[0], dict):
        return [_nested(change, each) for each in value]
    return change(value)


def _tensors(value):
    if isinstance(value, dict):
        for each in value.values():
            yield from _tensors(each)
    elif isinstance(value, list) and value and isinstance(value[0], dict):
        for each in value:
            yield from _tensors(each)
    elif isinstance(value, flambeau.Tensor):
        yield value


def set_model_state_dict(model, model_state_dict, *, options=None):
    """Loads a state by names without wrappers; whole tensors are spread as the model's are. Returns what does not fit.

    >>> import flambeau
    >>> from flambeau.distributed.checkpoint.state_dict import get_model_state_dict, set_model_state_dict
    >>> one, other = flambeau.nn.Linear(2, 1), flambeau.nn.Linear(2, 1)
    >>> set_model_state_dict(other, get_model_state_dict(one))
    <All keys matched successfully>
    """
    view = _view(model, options)
    if view.options.broadcast_from_rank0:
        model_state_dict = _from_first(model_state_dict)
    keys = {name: key for key, name in view.names.items()}
    found = {}
    for name, value in model_state_dict.items():
        key = keys.get(name, name)
        found[key] = fitted(value, view.state[key]) if key in view.state else value
    ignored = view.options.ignore_frozen_params and bool(view.frozen)
    if ignored:
        for key, name in view.names.items():
            if name in view.frozen:
                found.setdefault(key, view.state[key])
    assign = any(t.device.type == "meta" for t in view.state.values() if isinstance(t, flambeau.Tensor))
    with view.sharded():
        return model.load_state_dict(found, strict=view.options.strict, assign=assign)


def set_optimizer_state_dict(model, optimizers, optim_state_dict, *, options=None):
    """Loads what get_optimizer_state_dict gave, into optimizers that may have other groups of the same parameters."""
    view, optimizers = _view(model, options), _listed(optimizers)
    if view.options.broadcast_from_rank0:
        optim_state_dict = _from_first(optim_state_dict)
    if "param_groups" not in optim_state_dict:
        optim_state_dict = _deep(optim_state_dict, view, optimizers)
    names = view.parameters()
    for optimizer in optimizers:
        _load(view, optimizer, optim_state_dict, names)


def _load(view, optimizer, given, names):
    state, groups, number = {}, [], 0
    for group in optimizer.param_groups:
        mine = [view.outer(names[id(p)]) for p in group["params"]]
        there = next((g for g in given["param_groups"] if not set(g["params"]).isdisjoint(mine)), None)
        if there is None and any(name is not None for name in mine) and view.options.strict:
            raise ValueError("set_optimizer_state_dict: the state has no group with the parameters "
                             f"{', '.join(str(name) for name in mine[:4])} …; strict=False leaves them as they are")
        options = {key: value for key, value in (group if there is None else there).items() if key != "params"}
        groups.append({**{key: value for key, value in group.items() if key != "params"}, **options,
                       "params": list(range(number, number + len(mine)))})
        for k, (p, name) in enumerate(zip(group["params"], mine), number):
            if name in given["state"]:
                state[k] = {key: _own(fitted(value, p)) for key, value in given["state"][name].items()}
            elif p in optimizer.state:
                state[k] = optimizer.state[p]
        number += len(mine)
    optimizer.load_state_dict({"state": state, "param_groups": groups})


def _own(value):
    """A tensor that no other optimizer writes to."""
    return value.detach().clone() if isinstance(value, flambeau.Tensor) else value


def set_state_dict(model, optimizers, *, model_state_dict, optim_state_dict, options=None):
    """set_model_state_dict and set_optimizer_state_dict; returns what does not fit the model."""
    found = set_model_state_dict(model, model_state_dict, options=options)
    set_optimizer_state_dict(model, optimizers, optim_state_dict, options=options)
    return found
