"""Hooks of modules: where they are kept, how they are registered, and the call that runs them.

A module without hooks has none of the tables below; each is made when it is first asked for.
"""

import warnings
import weakref
from collections import OrderedDict
from types import MappingProxyType

from ... import _C, Tensor, is_grad_enabled
from ..._shown import shown
from ...autograd import Function
from ...utils.hooks import RemovableHandle

#: hooks of all modules, by the name of the module's own table
GLOBAL = {
    name: OrderedDict()
    for name in (
        "_forward_pre_hooks", "_forward_hooks", "_forward_hooks_with_kwargs", "_forward_hooks_always_called",
        "_backward_hooks", "_backward_pre_hooks",
    )
}  # fmt: skip
REGISTRATION = {kind: OrderedDict() for kind in ("buffer", "module", "parameter")}


def _refresh_switch():
    _C.set_global_module_hooks(any(GLOBAL.values()))


class _GlobalHandle(RemovableHandle):
    def remove(self):
        super().remove()
        _refresh_switch()


def _add(hooks, hook, *, prepend=False, marks=(), handle_type=RemovableHandle):
    handle = handle_type(hooks, extra=marks)
    hooks[handle.id] = hook
    for table in marks:
        table[handle.id] = True
    if prepend:
        for table in (hooks, *marks):
            table.move_to_end(handle.id, last=False)
    return handle


def _add_global(name, hook, marks=()):
    handle = _add(GLOBAL[name], hook, marks=[GLOBAL[mark] for mark in marks], handle_type=_GlobalHandle)
    _refresh_switch()
    return handle


def register_module_forward_pre_hook(hook):
    """hook(module, args) before the forward of every module. Returns a RemovableHandle."""
    return _add_global("_forward_pre_hooks", hook)


def register_module_forward_hook(hook, *, with_kwargs=False, always_call=False):
    """hook(module, args, output) after the forward of every module. Returns a RemovableHandle."""
    marks = ["_forward_hooks_with_kwargs"] * with_kwargs + ["_forward_hooks_always_called"] * always_call
    return _add_global("_forward_hooks", hook, marks)


def register_module_full_backward_pre_hook(hook):
    """hook(module, grad_output) before the backward of every module. Returns a RemovableHandle."""
    return _add_global("_backward_pre_hooks", hook)


def register_module_full_backward_hook(hook):
    """hook(module, grad_input, grad_output) after the backward of every module. Returns a RemovableHandle."""
    return _add_global("_backward_hooks", hook)


register_module_backward_hook = register_module_full_backward_hook


def register_module_buffer_registration_hook(hook):
    """hook(module, name, buffer) when any module registers a buffer; a result other than None replaces it."""
    return _add(REGISTRATION["buffer"], hook)


def register_module_module_registration_hook(hook):
    """hook(module, name, submodule) when any module registers a submodule; a result other than None replaces it."""
    return _add(REGISTRATION["module"], hook)


def register_module_parameter_registration_hook(hook):
    """hook(module, name, parameter) when any module registers a parameter; a result other than None replaces it."""
    return _add(REGISTRATION["parameter"], hook)


class _Table:
    """An OrderedDict attribute of a module, made when it is first asked for (a set for `factory=set`)."""

    def __init__(self, factory=OrderedDict):
        self.factory = factory

    def __set_name__(self, owner, name):
        self.name = name

    def __get__(self, module, owner=None):
        if module is None:
            return self
        if "_modules" not in module.__dict__:
            raise AttributeError(f"'{type(module).__name__}' object has no attribute '{self.name}': begin __init__ "
                                 "with super().__init__()")
        return module.__dict__.setdefault(self.name, self.factory())


_NONE = MappingProxyType({})


def kept(module, name):
    """The module's table of that name as it is, without making it: for reading."""
    return module.__dict__.get(name, _NONE)


class HookMethods:
    """The part of Module that registers and runs hooks."""

    __slots__ = ()

    _forward_pre_hooks = _Table()
    _forward_pre_hooks_with_kwargs = _Table()
    _forward_hooks = _Table()
    _forward_hooks_with_kwargs = _Table()
    _forward_hooks_always_called = _Table()
    _backward_hooks = _Table()
    _backward_pre_hooks = _Table()
    _state_dict_hooks = _Table()
    _state_dict_pre_hooks = _Table()
    _load_state_dict_pre_hooks = _Table()
    _load_state_dict_post_hooks = _Table()
    _non_persistent_buffers_set = _Table(set)
    _is_full_backward_hook = None

    def register_forward_pre_hook(self, hook, *, prepend=False, with_kwargs=False):
        """Run hook(module, args) before forward; a result other than None replaces the arguments.

        With `with_kwargs`, hook(module, args, kwargs), and a replacement is a tuple (args, kwargs).
        Returns a handle whose `remove()` takes the hook away.
        """
        marks = [self._forward_pre_hooks_with_kwargs] if with_kwargs else []
        return _add(self._forward_pre_hooks, hook, prepend=prepend, marks=marks)

    def register_forward_hook(self, hook, *, prepend=False, with_kwargs=False, always_call=False):
        """Run hook(module, args, output) after forward; a result other than None replaces the output.

        With `with_kwargs`, hook(module, args, kwargs, output). With `always_call` it runs also when forward raises.

        >>> import flambeau
        >>> layer, seen = flambeau.nn.Identity(), []
        >>> handle = layer.register_forward_hook(lambda module, args, output: seen.append(output.shape))
        >>> _ = layer(flambeau.ones(2, 3))
        >>> seen
        [torch.Size([2, 3])]
        >>> handle.remove()
        """
        marks = [self._forward_hooks_with_kwargs] if with_kwargs else []
        if always_call:
            marks.append(self._forward_hooks_always_called)
        return _add(self._forward_hooks, hook, prepend=prepend, marks=marks)

    def register_full_backward_pre_hook(self, hook, prepend=False):
        """Run hook(module, grad_output) when the gradients of the outputs are there; may return new ones."""
        return _add(self._backward_pre_hooks, hook, prepend=prepend)

    def register_full_backward_hook(self, hook, prepend=False):
        """Run hook(module, grad_input, grad_output) when the gradients of the inputs are there; may return new ones."""
        self._is_full_backward_hook = True
        return _add(self._backward_hooks, hook, prepend=prepend)

    def register_backward_hook(self, hook):
        """The old name of register_full_backward_hook, with its behaviour."""
        return self.register_full_backward_hook(hook)

    def register_state_dict_pre_hook(self, hook):
        """Run hook(module, prefix, keep_vars) before state_dict collects."""
        return _add(self._state_dict_pre_hooks, hook)

    def register_state_dict_post_hook(self, hook):
        """Run hook(module, state_dict, prefix, local_metadata) after state_dict; it changes the dict in place."""
        hook._from_public_api = True
        return _add(self._state_dict_hooks, hook)

    def _register_state_dict_hook(self, hook):
        if getattr(hook, "_from_public_api", False):
            raise RuntimeError("this hook was registered with register_state_dict_post_hook: use that")
        return _add(self._state_dict_hooks, hook)

    def register_load_state_dict_pre_hook(self, hook):
        """Run hook(module, state_dict, prefix, local_metadata, strict, missing, unexpected, errors) before loading."""
        return _add(self._load_state_dict_pre_hooks, _WithModule(hook, self))

    def _register_load_state_dict_pre_hook(self, hook, with_module=False):
        return _add(self._load_state_dict_pre_hooks, _WithModule(hook, self if with_module else None))

    def register_load_state_dict_post_hook(self, hook):
        """Run hook(module, incompatible_keys) after loading; it may change the two lists in place."""
        return _add(self._load_state_dict_post_hooks, hook)

    def _own_call_hooked(self, *args, **kwargs):
        """The call of a module that has hooks, or while hooks of all modules are registered."""
        done = set()
        result = None
        try:
            args, kwargs = self._own_run_pre_hooks(args, kwargs)
            gate = None
            before = [*GLOBAL["_backward_pre_hooks"].values(), *kept(self, "_backward_pre_hooks").values()]
            after = [*GLOBAL["_backward_hooks"].values(), *kept(self, "_backward_hooks").values()]
            if before or after:
                gate = _BackwardGate(self, before, after)
                args = gate.enter(args)
            result = self.forward(*args, **kwargs)
            for key, hook, with_kwargs, _ in self._own_after_hooks():
                done.add(key)
                replaced = hook(self, args, kwargs, result) if with_kwargs else hook(self, args, result)
                if replaced is not None:
                    result = replaced
            return result if gate is None else gate.leave(result)
        except Exception:
            self._own_run_always_hooks(args, kwargs, result, done)
            raise

    def _own_run_pre_hooks(self, args, kwargs):
        with_kwargs = kept(self, "_forward_pre_hooks_with_kwargs")
        for key, hook in (*GLOBAL["_forward_pre_hooks"].items(), *kept(self, "_forward_pre_hooks").items()):
            if key in with_kwargs:
                replaced = hook(self, args, kwargs)
                if replaced is None:
                    continue
                if not (isinstance(replaced, tuple) and len(replaced) == 2):
                    raise RuntimeError(
                        "forward pre-hook with with_kwargs=True: return None or the pair (args, kwargs), got "
                        f"{shown(replaced)}"
                    )
                args, kwargs = replaced
            else:
                replaced = hook(self, args)
                if replaced is not None:
                    args = replaced if isinstance(replaced, tuple) else (replaced,)
        return args, kwargs

    def _own_after_hooks(self):
        rows = []
        for tables in (GLOBAL, {name: kept(self, name) for name in GLOBAL}):
            with_kwargs, always = tables["_forward_hooks_with_kwargs"], tables["_forward_hooks_always_called"]
            rows += [(key, hook, key in with_kwargs, key in always) for key, hook in tables["_forward_hooks"].items()]
        return rows

    def _own_run_always_hooks(self, args, kwargs, result, done):
        for key, hook, with_kwargs, always in self._own_after_hooks():
            if not always or key in done:
                continue
            try:
                replaced = hook(self, args, kwargs, result) if with_kwargs else hook(self, args, result)
                if replaced is not None:
                    result = replaced
            except Exception as error:  # the error on its way out must not be replaced
                warnings.warn(
                    "forward hook with always_call=True failed after an earlier error, which is the one raised: "
                    f"{error}",
                    stacklevel=2,
                )


class _WithModule:
    """A hook that is called with its module first, when it was registered so; deep copies follow the copied module."""

    def __init__(self, hook, module):
        self.hook, self.module = hook, None if module is None else weakref.ref(module)

    def __call__(self, *args):
        return self.hook(*args) if self.module is None else self.hook(self.module(), *args)

    def __deepcopy__(self, memo):
        module = None if self.module is None else self.module()
        return _WithModule(self.hook, memo.get(id(module), module))

    def __reduce__(self):
        return _WithModule, (self.hook, None if self.module is None else self.module())


class _BackwardGate:
    """Two identity functions around a module's forward: gradients pass the outer one first, then the inner one.

    Hooks see one entry per positional argument or result; it is None for what is not a tensor.
    """

    def __init__(self, module, before, after):
        self.module, self.before, self.after = module, before, after
        self.grad_output = None
        self.inputs_wanted = False
        self.input_count = 0

    def enter(self, args):
        self.input_count = len(args)
        self.inputs_wanted = _wanted(args)
        return _pass(self._received_input, args, fill=True) if self.inputs_wanted else args

    def leave(self, result):
        if isinstance(result, Tensor):
            return _pass(self._received_output, (result,))[0] if _wanted((result,)) else result
        if isinstance(result, dict):
            values = tuple(result.values())
            if not _wanted(values):
                return result
            return type(result)(zip(result, _pass(self._received_output, values), strict=True))
        if not isinstance(result, (tuple, list)) or not _wanted(result):
            return result
        values = _pass(self._received_output, result)
        return type(result)(*values) if hasattr(result, "_fields") else type(result)(values)

    def _received_output(self, grads):
        for hook in self.before:
            grads = _replaced(hook(self.module, grads), grads, "backward pre hook")
        self.grad_output = grads
        if not self.inputs_wanted:
            for hook in self.after:
                given = hook(self.module, (None,) * self.input_count, grads)
                if given is not None and not (isinstance(given, tuple) and all(g is None for g in given)):
                    raise RuntimeError(
                        "module backward hook: no input of this module requires grad, so there is no gradient to "
                        "replace; return None"
                    )
        return grads

    def _received_input(self, grads):
        if self.grad_output is None:  # no result's gradient came before: that of the gate itself, or of no result
            return grads
        grad_output, self.grad_output = self.grad_output, None
        for hook in self.after:
            grads = _replaced(hook(self.module, grads, grad_output), grads, "backward hook")
        return grads


def _wanted(values):
    return is_grad_enabled() and any(isinstance(v, Tensor) and v.requires_grad for v in values)


def _replaced(given, grads, what):
    if given is None:
        return grads
    given = given if isinstance(given, tuple) else (given,)
    if len(given) != len(grads):
        raise RuntimeError(f"{what}: expected {len(grads)} gradients from the hook, got {len(given)}")
    return given


def _pass(received, values, fill=False):
    """`values` with the tensors sent through one identity function whose backward calls received(grads).

    With `fill` a gradient that never came is zeros.
    """
    places = [k for k, v in enumerate(values) if isinstance(v, Tensor)]

    def spread(grads):
        full = [None] * len(values)
        for k, g in zip(places, grads, strict=True):
            full[k] = g
        full = received(tuple(full))
        return tuple(full[k] for k in places)

    result = list(values)
    for k, tensor in zip(places, _Identity.apply(spread, fill, *(values[k] for k in places)), strict=True):
        result[k] = tensor
    return tuple(result)


class _Identity(Function):
    @staticmethod
    def forward(ctx, received, fill, *tensors):
        ctx.received = received
        ctx.set_materialize_grads(fill)
        results = tuple(t.view_as(t) for t in tensors)
        ctx.mark_non_differentiable(*(r for r, t in zip(results, tensors, strict=True) if not t.requires_grad))
        return results

    @staticmethod
    def backward(ctx, *grads):
        return None, None, *ctx.received(grads)
