"""What every optimizer shares: parameter groups, per-parameter state, hooks, and PyTorch's state_dict format."""

from collections import OrderedDict, defaultdict
from copy import deepcopy
from functools import wraps
from itertools import chain
from warnings import warn

import flambeau

from .. import _C
from .._shown import shown
from .._tensor.overriding import dispatches, takes_dispatch
from ..utils.hooks import RemovableHandle
from ._for_others import ParamsT as ParamsT
from ._for_others import _default_to_fused_or_foreach as _default_to_fused_or_foreach
from ._for_others import _disable_dynamo_if_unsupported as _disable_dynamo_if_unsupported
from ._for_others import _get_capturable_supported_devices as _get_capturable_supported_devices
from ._for_others import _get_scalar_dtype as _get_scalar_dtype
from ._for_others import _get_value as _get_value
from ._for_others import _group_tensors_by_device_and_dtype as _group_tensors_by_device_and_dtype
from ._for_others import _stack_if_compiling as _stack_if_compiling
from ._for_others import _to_scalar as _to_scalar
from ._for_others import _use_grad_for_differentiable as _use_grad_for_differentiable
from ._for_others import _view_as_real as _view_as_real
from ._recorded import composed_step, recorded_step
from ._spread import is_spread, step_on_parts

#: passed as a default: the group must give a value itself
required = object()

_global_pre_hooks = OrderedDict()
_global_post_hooks = OrderedDict()


def _register(hooks, hook, prepend=False):
    handle = RemovableHandle(hooks)
    hooks[handle.id] = hook
    if prepend:
        hooks.move_to_end(handle.id, last=False)
    return handle


def register_optimizer_step_pre_hook(hook):
    """Calls `hook(optimizer, args, kwargs)` before every step of every optimizer; returns a handle with `remove()`."""
    return _register(_global_pre_hooks, hook)


def register_optimizer_step_post_hook(hook):
    """Calls `hook(optimizer, args, kwargs)` after every step of every optimizer; returns a handle with `remove()`."""
    return _register(_global_post_hooks, hook)


def _with_hooks(step):
    """`step` between the hooks; without hooks only the two truth tests are paid for."""

    @wraps(step)
    def hooked(self, *args, **kwargs):
        if self._own_hooked is None or not (self._own_hooked or _global_pre_hooks or _global_post_hooks):
            return step(self, *args, **kwargs)
        args = (self, *args)  # hooks see the optimizer among the arguments, as PyTorch's do
        for hook in chain(_global_pre_hooks.values(), self._optimizer_step_pre_hooks.values()):
            changed = hook(self, args, kwargs)
            if changed is None:
                continue
            if not (isinstance(changed, tuple) and len(changed) == 2):
                raise RuntimeError(
                    f"{type(self).__name__}.step: a step pre-hook returns None or the pair (args, kwargs), got "
                    f"{shown(changed)}")
            args, kwargs = changed
        result = step(*args, **kwargs)
        for hook in chain(self._optimizer_step_post_hooks.values(), _global_post_hooks.values()):
            hook(self, args, kwargs)
        return result

    hooked.hooked = True
    return hooked


def _check(name, value, good, expected):
    """One constructor argument, refused with its name and what would be accepted."""
    if not good:
        raise ValueError(f"Invalid {name}: {shown(value)} (expected {expected})")


def _check_rate(name, lr, positive=False):
    """A learning rate: a number >= 0, or a tensor that holds one."""
    if isinstance(lr, flambeau.Tensor) and lr.numel() != 1:
        raise ValueError(f"{name}: a learning rate given as a tensor has one element, got shape {list(lr.shape)}")
    _check("learning rate", lr, lr > 0 if positive else lr >= 0, "a number > 0" if positive else "a number >= 0")


def _modes(name, group):
    """Refuses modes that exclude each other.

    Every step is fused already, so `foreach` and `fused` mean the same. `capturable` asks that a step can be recorded
    on a GPU without reading values back; on a CPU any step can, so its numbers are those of `capturable=False`.
    """
    for other in ("foreach", "differentiable"):
        if group.get("fused") and group.get(other):
            raise RuntimeError(f"{name}: {other}=True and fused=True exclude each other; leave fused=None")


class Optimizer:
    """Base class of all optimizers: holds parameter groups and the state kept for each parameter.

    >>> import flambeau
    >>> w = flambeau.ones(2, requires_grad=True)
    >>> opt = flambeau.optim.SGD([w], lr=0.5)
    >>> (w * w).sum().backward()
    >>> opt.step()
    >>> w.tolist()
    [0.0, 0.0]
    """

    _group_tensors_by_device_and_dtype = staticmethod(_group_tensors_by_device_and_dtype)
    _own_hooked = None  # no hooks where a subclass, as those that wrap another optimizer, leaves __init__ out

    def __init_subclass__(cls, **kwargs):
        super().__init_subclass__(**kwargs)
        step = cls.__dict__.get("step")
        if step is not None and not getattr(step, "hooked", False):
            cls.step = _with_hooks(step)

    def __init__(self, params, defaults):
        self.defaults = defaults
        self._own_make_hooks()
        if isinstance(params, flambeau.Tensor):
            raise TypeError("optimizer: params must be an iterable of Tensors or dicts, got a "
                            f"{type(params).__name__}; wrap it in a list")
        self.state = defaultdict(dict)
        self.param_groups = []
        groups = list(params)
        if not groups:
            raise ValueError("optimizer: there are no parameters; was a generator such as model.parameters() used up "
                             "before?")
        for group in groups if isinstance(groups[0], dict) else [{"params": groups}]:
            self.add_param_group(dict(group) if isinstance(group, dict) else group)

    def _own_make_hooks(self):
        self._own_hooked = False
        for name in ("step_pre", "step_post", "state_dict_pre", "state_dict_post",
                     "load_state_dict_pre", "load_state_dict_post"):
            setattr(self, f"_optimizer_{name}_hooks", OrderedDict())

    def _patch_step_function(self):
        """Wrappers of optimizers in packages call this: they leave __init__ out and make their own tables of hooks."""
        self._own_hooked = bool(self._optimizer_step_pre_hooks or self._optimizer_step_post_hooks)

    def __getstate__(self):
        return {"defaults": self.defaults, "state": self.state, "param_groups": self.param_groups}

    def __setstate__(self, state):
        self.__dict__.update(state)
        if "_own_hooked" not in self.__dict__:
            self._own_make_hooks()
        self.defaults.setdefault("differentiable", False)

    def __repr__(self):
        text = [type(self).__name__ + " ("]
        for i, group in enumerate(self.param_groups):
            options = [f"    {key}: {group[key]}" for key in sorted(group) if key != "params"]
            text.append("\n".join(["", f"Parameter Group {i}", *options, ""]))
        return "".join(text) + ")"

    # --- hooks

    def register_step_pre_hook(self, hook):
        """Calls `hook(optimizer, args, kwargs)` before each step; a returned `(args, kwargs)` replaces them."""
        self._own_hooked = True
        return _register(self._optimizer_step_pre_hooks, hook)

    def register_step_post_hook(self, hook):
        """Calls `hook(optimizer, args, kwargs)` after each step."""
        self._own_hooked = True
        return _register(self._optimizer_step_post_hooks, hook)

    def register_state_dict_pre_hook(self, hook, prepend=False):
        """Calls `hook(optimizer)` before `state_dict` collects."""
        return _register(self._optimizer_state_dict_pre_hooks, hook, prepend)

    def register_state_dict_post_hook(self, hook, prepend=False):
        """Calls `hook(optimizer, state_dict)`; a returned dict replaces the result."""
        return _register(self._optimizer_state_dict_post_hooks, hook, prepend)

    def register_load_state_dict_pre_hook(self, hook, prepend=False):
        """Calls `hook(optimizer, state_dict)` before loading; a returned dict is loaded instead."""
        return _register(self._optimizer_load_state_dict_pre_hooks, hook, prepend)

    def register_load_state_dict_post_hook(self, hook, prepend=False):
        """Calls `hook(optimizer)` after loading."""
        return _register(self._optimizer_load_state_dict_post_hooks, hook, prepend)

    # --- parameter groups

    def add_param_group(self, param_group):
        """Adds a dict of `params` and of options that differ from the defaults."""
        if not isinstance(param_group, dict):
            raise TypeError(f"add_param_group: expected a dict, got {type(param_group).__name__}")
        params = param_group["params"]
        if isinstance(params, flambeau.Tensor):
            params = [params]
        elif isinstance(params, set):
            raise TypeError("optimizer: parameters in a set have no fixed order, which the saved state needs; pass a "
                            "list")
        params = list(params)
        names = [entry[0] for entry in params if isinstance(entry, tuple)]
        if names:
            if len(names) != len(params):
                raise ValueError("optimizer: some parameters of the group have names and some have none; name all or "
                                 "none")
            param_group["param_names"] = names
            params = [entry[1] for entry in params]
        param_group["params"] = params
        for param in params:
            if not isinstance(param, flambeau.Tensor):
                raise TypeError(f"optimizer: parameters must be Tensors, got {type(param).__name__}")
            if not (param.is_leaf or param.retains_grad or self.defaults.get("differentiable")):
                raise ValueError(f"optimizer: a parameter of shape {list(param.shape)} was computed from others; pass "
                                 "those leaves, or x.detach().requires_grad_()")
        self._own_fill_defaults(param_group)
        self._own_check_repeats(params, "param_names" in param_group)
        self.param_groups.append(param_group)

    def _own_fill_defaults(self, group):
        for name, default in self.defaults.items():
            if default is required and name not in group:
                raise ValueError(f"optimizer: the parameter group has no {shown(name)}, and there is no default")
            group.setdefault(name, default)
        _modes(type(self).__name__, group)

    def _own_check_repeats(self, params, named):
        if len(set(map(id, params))) != len(params):
            warn("optimizer: a parameter group names a parameter more than once",
                 stacklevel=4)
        for other in self.param_groups:
            if not {id(p) for p in other["params"]}.isdisjoint(map(id, params)):
                raise ValueError("optimizer: a parameter of this group is in another group already")
            if ("param_names" in other) != named:
                raise ValueError(f"optimizer: a group {'with' if named else 'without'} names cannot join groups that "
                                 f"are {'not named' if named else 'named'}")

    # --- state

    def state_dict(self):
        """`{"state": {index: …}, "param_groups": […]}`, the parameters numbered in the order of the groups."""
        for hook in self._optimizer_state_dict_pre_hooks.values():
            hook(self)
        index = {}
        for group in self.param_groups:
            for param in group["params"]:
                index.setdefault(id(param), len(index))
        groups = []
        for group in self.param_groups:
            groups.append({key: value for key, value in group.items() if key != "params"})
            groups[-1]["params"] = [index[id(param)] for param in group["params"]]
        state = {index[id(k)] if isinstance(k, flambeau.Tensor) else k: v for k, v in self.state.items()}
        result = {"state": state, "param_groups": groups}
        for hook in self._optimizer_state_dict_post_hooks.values():
            result = hook(self, result) or result
        return result

    def load_state_dict(self, state_dict):
        """Takes over options and state from `state_dict`.

        Tensors of the state follow their parameter's dtype and device.
        The numbers of groups, and of parameters in each, must be those of this optimizer.
        """
        state_dict = state_dict.copy()
        for hook in self._optimizer_load_state_dict_pre_hooks.values():
            state_dict = hook(self, state_dict) or state_dict
        groups, saved = self.param_groups, deepcopy(state_dict["param_groups"])
        if len(groups) != len(saved):
            raise ValueError(f"load_state_dict: the state has {len(saved)} parameter groups, the optimizer "
                             f"{len(groups)}")
        for i, (group, old) in enumerate(zip(groups, saved)):
            if len(group["params"]) != len(old["params"]):
                raise ValueError(f"load_state_dict: group {i} has {len(old['params'])} parameters in the state and "
                                 f"{len(group['params'])} in the optimizer")
        params = dict(zip(chain.from_iterable(g["params"] for g in saved),
                          chain.from_iterable(g["params"] for g in groups)))
        state = defaultdict(dict)
        for key, value in state_dict["state"].items():
            if key in params:
                state[params[key]] = _cast(params[key], value)
            else:
                state[key] = value
        for group, new in zip(groups, saved):
            new["params"] = group["params"]
            if "param_names" in group and "param_names" not in new:
                new["param_names"] = group["param_names"]
        self.__setstate__({"state": state, "param_groups": saved})
        for hook in self._optimizer_load_state_dict_post_hooks.values():
            hook(self)

    # --- stepping

    def zero_grad(self, set_to_none=True):
        """Forgets the gradients, or with `set_to_none=False` fills them with zeros."""
        for group in self.param_groups:
            if set_to_none:
                for param in group["params"]:
                    param.grad = None
                continue
            for param in group["params"]:
                if param.grad is not None:
                    param.grad = param.grad.detach()  # history would reach into the next backward
                    param.grad.zero_()

    def step(self, closure=None):
        """One update of all parameters; `closure`, if given, computes the loss again and its gradients."""
        raise NotImplementedError(f"{type(self).__name__}.step is not implemented")

    def _own_native_step(self, kind, group, keys, numbers, flags):
        """One fused native update; parameters that meet it for the first time get their state before it."""
        if group["differentiable"]:
            recorded_step(self, group)
            return
        if dispatches(()) and not any(_wraps(param.grad) for param in group["params"]):
            composed_step(self, group["params"], group)  # the mode sees operators
            return
        if any(map(takes_dispatch, {type(param) for param in group["params"]})):
            spread = [param for param in group["params"] if is_spread(param)]
            step_on_parts(self, kind, group, spread, keys, numbers, flags)
            wrappers = [param for param in group["params"] if _computes(param) and not is_spread(param)]
            composed_step(self, wrappers, group)
            group = {**group, "params": [param for param in group["params"] if not _among(param, spread + wrappers)]}
        for params in _by_device(group["params"]) if _C._cuda.opened() else (group["params"],):
            self._own_fused_step(kind, params, group, keys, numbers, flags)

    def _own_fused_step(self, kind, params, group, keys, numbers, flags):
        """The update of parameters of one device."""
        new = _C.optim_step(kind, params, self.state, keys, numbers, flags, None)
        if new is not None:
            wrappers = [param for param in new if _computes(param.grad)]
            apart = [param for param in new if _wraps(param.grad) and not _among(param, wrappers)]
            if apart:
                self._own_check_sparse(group)
            others = wrappers + apart
            fresh = [param for param in new if not _among(param, others) and not _made_dense(self.state[param])]
            for param in fresh:
                self._own_begin(param, self.state[param], group)
            _C.optim_step(kind, params, self.state, keys, numbers, flags, fresh + others)
            composed_step(self, wrappers, group)
            with flambeau.no_grad():
                for param in apart:
                    self._own_sparse_step(param, _coordinates(param.grad), self.state[param], group)

    def _own_check_sparse(self, group):
        """Refuses sparse gradients before anything is done."""
        if type(self)._own_sparse_step is Optimizer._own_sparse_step:
            raise RuntimeError(f"{type(self).__name__}: sparse gradients are not supported; use SparseAdam, Adagrad or "
                               "SGD, or layers with sparse=False")

    def _own_sparse_step(self, param, grad, state, group):
        """One update by a sparse gradient in coordinates."""
        raise NotImplementedError

    def _own_prepare(self, param, state, group):
        """Sees that a parameter's state is there."""
        self._own_begin(param, state, group)

    def _own_begin(self, param, state, group):
        """Fills what is missing in a parameter's state."""
        raise NotImplementedError


def _among(param, params):
    return any(param is other for other in params)


def _computes(param):
    """Whether operators on a parameter are its class's affair, as it has no memory for a fused step."""
    return _wraps(param) and param.layout is flambeau.strided and not param._storage_ptr()


def _wraps(t):
    return isinstance(t, flambeau.Tensor) and takes_dispatch(type(t))


def _made_dense(state):
    """Turns sparse state dense, as a dense gradient needs it; says whether there was any."""
    sparse = [key for key, value in state.items() if _wraps(value)]
    for key in sparse:
        state[key] = state[key].to_dense()
    return bool(sparse)


def _coordinates(grad):
    """A sparse gradient with every place once."""
    if grad.layout is flambeau.strided:
        raise RuntimeError(f"optimizer: a gradient of class {type(grad).__name__} has no memory of its own to step by")
    return grad.to_sparse_coo().coalesce()


def _by_device(params):
    """Lists of the parameters of each device, those of the CPU first."""
    lists = {"cpu": []}
    for param in params:
        lists.setdefault(str(param.device) if param.is_cuda else "cpu", []).append(param)
    return lists.values()


def sparse_like(grad, values):
    """Other values at the places of a sparse gradient."""
    return flambeau.sparse_coo_tensor(grad.indices(), values, grad.shape, is_coalesced=True, check_invariants=False)


def _cast(param, value, key=None):
    """A loaded state value in the dtype and on the device of its parameter; `step` counts stay as they are."""
    if isinstance(value, flambeau.Tensor):
        if key == "step":
            return value
        if param.is_floating_point():
            return value.to(dtype=param.dtype, device=param.device)
        return value.to(device=param.device)
    if isinstance(value, dict):
        return {k: _cast(param, v, k) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(_cast(param, v) for v in value)
    return value


def _loss_of(closure):
    """The value of `closure`, which needs gradients even though a step records none."""
    if closure is None:
        return None
    with flambeau.enable_grad():
        return closure()


def step_count(param, group):
    """A count of steps that begins: on the parameter's CUDA device where a step may be recorded there, else on the
    CPU."""
    there = param.is_cuda and (group.get("capturable") or group.get("fused"))
    return flambeau.tensor(0.0, dtype=flambeau.float32, device=param.device if there else "cpu")


def _counts_to_tensors(optimizer):
    """Checkpoints of old versions kept `step` as a plain number."""
    for state in optimizer.state.values():
        step = state.get("step") if isinstance(state, dict) else None
        if step is not None and not isinstance(step, flambeau.Tensor):
            state["step"] = flambeau.tensor(float(step))
