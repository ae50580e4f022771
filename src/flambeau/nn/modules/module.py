"""Module: a tree of parameters, buffers and submodules that is called like a function.

Attribute lookup and the call itself are native (`_C.ModuleBase`); hooks, state dicts and conversion stand in their own
files.
"""

from typing import TypeVar

from ... import _C, Tensor
from ..._graph import CapturedForward
from ..._shown import clipped, shown
from ..parameter import Buffer, Parameter
from ._convert import ConvertMethods, type_name
from ._hooks import GLOBAL, REGISTRATION, HookMethods
from ._hooks import register_module_backward_hook as register_module_backward_hook
from ._hooks import register_module_buffer_registration_hook as register_module_buffer_registration_hook
from ._hooks import register_module_forward_hook as register_module_forward_hook
from ._hooks import register_module_forward_pre_hook as register_module_forward_pre_hook
from ._hooks import register_module_full_backward_hook as register_module_full_backward_hook
from ._hooks import register_module_full_backward_pre_hook as register_module_full_backward_pre_hook
from ._hooks import register_module_module_registration_hook as register_module_module_registration_hook
from ._hooks import register_module_parameter_registration_hook as register_module_parameter_registration_hook
from ._state import StateMethods

# hooks of all modules, under the names by which packages look whether there are any
_global_forward_pre_hooks, _global_forward_hooks = GLOBAL["_forward_pre_hooks"], GLOBAL["_forward_hooks"]
_global_forward_hooks_with_kwargs = GLOBAL["_forward_hooks_with_kwargs"]
_global_forward_hooks_always_called = GLOBAL["_forward_hooks_always_called"]
_global_parameter_registration_hooks = REGISTRATION["parameter"]
_global_buffer_registration_hooks, _global_module_registration_hooks = REGISTRATION["buffer"], REGISTRATION["module"]
_global_backward_pre_hooks, _global_backward_hooks = GLOBAL["_backward_pre_hooks"], GLOBAL["_backward_hooks"]


class _CallSignature:
    """What `inspect.signature(module)` reads, since the call is native: it takes anything. It says nothing of the
    class, which has the signature of its __init__, nor of modules whose class has a __call__ of its own."""

    def __get__(self, instance, owner):
        if instance is None or owner.__call__ is not _C.ModuleBase.__call__:
            return None
        from inspect import Parameter as Argument  # not at the top: `import flambeau` has no use for it
        from inspect import Signature
        return Signature([Argument("args", Argument.VAR_POSITIONAL), Argument("kwargs", Argument.VAR_KEYWORD)])


class Module(ConvertMethods, StateMethods, HookMethods, _C.ModuleBase):
    """Base class of all layers and networks: assign parameters and submodules as attributes, define `forward`.

    An error raised inside `forward` is given the path of the module it came from.

    >>> import flambeau
    >>> class Net(flambeau.nn.Module):
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.hidden = flambeau.nn.Linear(4, 8)
    ...     def forward(self, x):
    ...         return self.hidden(x).relu()
    >>> Net()(flambeau.zeros(2, 4)).shape
    torch.Size([2, 8])
    """

    T_destination = TypeVar("T_destination", bound=dict)  # what annotations call the type of a state dict
    dump_patches = False
    call_super_init = False
    training: bool  # said as an annotation too: `typing.get_type_hints` refuses objects whose class has none
    __signature__ = _CallSignature()

    def __init__(self, *args, **kwargs):
        if not self.call_super_init and (args or kwargs):
            name, got = type(self).__name__, f"{len(args)} positional" if args else f"keyword {next(iter(kwargs))!r}"
            raise TypeError(f"{name}.__init__() got unexpected arguments: Module.__init__ takes none, got {got}")
        state = self.__dict__
        state["training"] = True
        state["_parameters"], state["_buffers"], state["_modules"] = {}, {}, {}
        if self.call_super_init:
            super().__init__(*args, **kwargs)

    def forward(self, *args, **kwargs):
        """What calling the module computes; every subclass defines it."""
        raise NotImplementedError(f"{type(self).__name__}: a module says what it computes in a method `forward`, which "
                                  "is missing here")

    # the name by which wrappers reach the call under their own __call__
    _call_impl = _C.ModuleBase.__call__

    def _own_locate(self, error):
        """Write into `error`'s notes which module it came from; called at each module the error passes."""
        seen = error.__dict__.get("_in_module")
        if seen is None:
            place, path = f"({type(self).__name__}({clipped(_one_line(self.extra_repr()))}))", ""
            note = None
        else:
            child, path, place, note = seen
            if child is self:
                return
            name = next((n for n, m in self.named_modules() if m is child), f"<{type(child).__name__}>")
            path = f"{name}.{path}" if path else name
        notes = getattr(error, "__notes__", [])
        if note in notes:
            notes.remove(note)
        note = f"  in: {path} {place}" if path else f"  in: {place[1:-1]}"
        error._in_module = (self, path, place, note)
        error.add_note(note)
        for hint in [n for n in notes if n.startswith("  hint: ")]:  # the hint comes last
            notes.remove(hint)
            error.add_note(hint)

    # ---- registration ----------------------------------------------------------------------------------------------

    def _own_assign(self, name, value):
        """The rest of `self.name = value`: whatever the native part does not know to be a plain value."""
        state = self.__dict__
        for kind, table_name, is_kind in _KINDS:
            if not is_kind(value):
                continue
            if table_name not in state:
                raise AttributeError(f"cannot assign {kind} before Module.__init__() call: begin __init__ with "
                                     "super().__init__()")
            for other in (state, *(state[t] for _, t, _ in _KINDS if t != table_name)):
                other.pop(name, None)
            if kind == "parameter":
                return self.register_parameter(name, value)
            if kind == "buffer":
                apart = {} if value.persistent else {"persistent": False}  # classes may replace it without `persistent`
                return self.register_buffer(name, value, **apart)
            state[table_name][name] = _run_registration("module", self, name, value)
            return None
        for kind, table_name, _ in _KINDS:
            table = state.get(table_name)
            if table is None or name not in table:
                continue
            if value is None:
                table[name] = None
            elif kind == "buffer" and isinstance(value, Tensor):
                table[name] = _run_registration("buffer", self, name, value)
            else:
                raise TypeError(
                    f"cannot assign '{type_name(value)}' as {_WORD[kind]} {shown(name)} "
                    f"({_EXPECTED[kind]} or None expected)"
                )
            return None
        return object.__setattr__(self, name, value)

    def _own_check_name(self, kind, name, table):
        if table not in self.__dict__:
            raise AttributeError(f"cannot assign {kind} before Module.__init__() call: begin __init__ with "
                                     "super().__init__()")
        if not isinstance(name, str):
            raise TypeError(f"{kind} names must be strings, got {type_name(name)}")
        if "." in name:
            raise KeyError(f"{kind} name can't contain '.', got: {clipped(name)}")
        if name == "":
            raise KeyError(f"{kind} name can't be an empty string")
        if hasattr(self, name) and name not in self.__dict__[table]:
            raise KeyError(f"attribute {shown(name)} already exists")

    def register_parameter(self, name, param):
        """Add a Parameter (or None, to reserve the name) under `name`."""
        self._own_check_name("parameter", name, "_parameters")
        if param is not None and not isinstance(param, Parameter):
            raise TypeError(
                f"parameter {shown(name)} must be a flambeau.nn.Parameter or None, got {type_name(param)}"
            )
        if param is not None and param.grad_fn is not None:
            raise ValueError(
                f"parameter {shown(name)} must be a leaf, and was computed by {param.grad_fn.name()}; register what "
                "is trained, and compute this value in forward()"
            )
        self._parameters[name] = param if param is None else _run_registration("parameter", self, name, param)

    def register_buffer(self, name, tensor, persistent=True):
        """Add a tensor that is state but not a parameter; `persistent=False` keeps it out of state_dict."""
        self._own_check_name("buffer", name, "_buffers")
        if tensor is not None and not isinstance(tensor, Tensor):
            raise TypeError(
                f"buffer {shown(name)} must be a flambeau.Tensor or None, got {type_name(tensor)}"
            )
        self._buffers[name] = _run_registration("buffer", self, name, tensor)
        if not persistent:
            self._non_persistent_buffers_set.add(name)
        elif "_non_persistent_buffers_set" in self.__dict__:
            self._non_persistent_buffers_set.discard(name)

    def add_module(self, name, module):
        """Add a submodule (or None) under `name`."""
        if module is not None and not isinstance(module, Module):
            raise TypeError(f"{type_name(module)} is not a Module subclass")
        self._own_check_name("module", name, "_modules")
        self._modules[name] = _run_registration("module", self, name, module)

    def register_module(self, name, module):
        """The same as add_module."""
        self.add_module(name, module)

    # ---- by dotted name --------------------------------------------------------------------------------------------

    def get_submodule(self, target):
        """The submodule with the dotted name `target`; the module itself for ""."""
        module = self
        for name in target.split(".") if target else ():
            if not hasattr(module, name):
                raise AttributeError(f"{type(module).__name__} has no attribute `{name}`")
            module = getattr(module, name)
            if not isinstance(module, Module):
                raise AttributeError(f"set_submodule: {shown(name)} is an attribute and no Module")
        return module

    def set_submodule(self, target, module, strict=False):
        """Put `module` at the dotted name `target`; with `strict` only where a submodule already is."""
        if target == "":
            raise ValueError("set_submodule: target is empty; give the module's path, such as 'layers.0'")
        if not isinstance(module, Module):
            raise ValueError(f"set_submodule: expected a Module, got {type(module).__name__}")
        path, _, name = target.rpartition(".")
        parent = self.get_submodule(path)
        if strict and not hasattr(parent, name):
            raise AttributeError(f"{type(parent).__name__} has no attribute `{name}`")
        if hasattr(parent, name) and not isinstance(getattr(parent, name), Module):
            raise AttributeError(f"set_submodule: {shown(name)} is an attribute and no Module")
        setattr(parent, name, module)

    def _own_get_tensor(self, target, table, what):
        path, _, name = target.rpartition(".")
        owner = self.get_submodule(path)
        if not hasattr(owner, name):
            raise AttributeError(f"{type(owner).__name__} has no attribute `{name}`")
        if name not in getattr(owner, table):
            raise AttributeError(f"`{name}` is not {what}")
        return getattr(owner, name)

    def get_parameter(self, target):
        """The parameter with the dotted name `target`."""
        return self._own_get_tensor(target, "_parameters", "an nn.Parameter")

    def get_buffer(self, target):
        """The buffer with the dotted name `target`."""
        return self._own_get_tensor(target, "_buffers", "a buffer")

    # ---- walking the tree ------------------------------------------------------------------------------------------

    def named_modules(self, memo=None, prefix="", remove_duplicate=True):
        """(dotted name, module) of this module and everything under it, parents first, each module once."""
        memo = set() if memo is None else memo
        if self in memo:
            return
        if remove_duplicate:
            memo.add(self)
        yield prefix, self
        for name, module in self._modules.items():
            if module is not None:
                inner = f"{prefix}.{name}" if prefix else name
                yield from module.named_modules(memo, inner, remove_duplicate)

    def modules(self, remove_duplicate=True):
        """This module and everything under it, parents first, each once (unless remove_duplicate=False)."""
        for _, module in self.named_modules(remove_duplicate=remove_duplicate):
            yield module

    def named_children(self):
        """(name, module) of the direct submodules, each once."""
        memo = set()
        for name, module in self._modules.items():
            if module is not None and module not in memo:
                memo.add(module)
                yield name, module

    def children(self):
        """The direct submodules, each once."""
        for _, module in self.named_children():
            yield module

    def _named_members(self, get_members_fn, prefix="", recurse=True, remove_duplicate=True):
        memo = set()
        modules = self.named_modules(prefix=prefix, remove_duplicate=remove_duplicate) if recurse else [(prefix, self)]
        for path, module in modules:
            for name, value in get_members_fn(module):
                if value is None or id(value) in memo:
                    continue
                if remove_duplicate:
                    memo.add(id(value))
                yield (f"{path}.{name}" if path else name), value

    def named_parameters(self, prefix="", recurse=True, remove_duplicate=True):
        """(dotted name, parameter), in the order of registration; a shared parameter once.

        >>> import flambeau
        >>> [name for name, _ in flambeau.nn.Sequential(flambeau.nn.Linear(2, 3)).named_parameters()]
        ['0.weight', '0.bias']
        """
        yield from self._named_members(lambda m: m._parameters.items(), prefix, recurse, remove_duplicate)

    def parameters(self, recurse=True):
        """All parameters, for an optimizer."""
        for _, param in self.named_parameters(recurse=recurse):
            yield param

    def named_buffers(self, prefix="", recurse=True, remove_duplicate=True):
        """(dotted name, buffer) in the order of registration."""
        yield from self._named_members(lambda m: m._buffers.items(), prefix, recurse, remove_duplicate)

    def buffers(self, recurse=True):
        """All buffers."""
        for _, buffer in self.named_buffers(recurse=recurse):
            yield buffer

    # ---- changing everything ---------------------------------------------------------------------------------------

    def apply(self, fn):
        """Call fn(module) for every submodule, children first, then for this one; returns self."""
        for module in self.children():
            module.apply(fn)
        fn(self)
        return self

    def train(self, mode=True):
        """Set training mode (dropout, batch norm …) in the whole tree; returns self."""
        if not isinstance(mode, bool):
            raise ValueError(f"train: mode must be a bool, got {shown(mode)}")
        self.training = mode
        for module in self.children():
            module.train(mode)
        return self

    def eval(self):
        """Set evaluation mode; the same as train(False)."""
        return self.train(False)

    def requires_grad_(self, requires_grad=True):
        """Let all parameters want gradients, or freeze them; returns self."""
        for param in self.parameters():
            param.requires_grad_(requires_grad)
        return self

    def zero_grad(self, set_to_none=True):
        """Drop the gradients of all parameters, or set them to zero."""
        for param in self.parameters():
            if param.grad is None:
                continue
            if set_to_none:
                param.grad = None
            else:
                if param.grad.grad_fn is not None:
                    param.grad.detach_()
                else:
                    param.grad.requires_grad_(False)
                param.grad.zero_()

    def compile(self, *args, **kwargs):
        """Compiles the module in place: its forward is captured as flambeau.compile says, with the same arguments.

        >>> import flambeau
        >>> layer = flambeau.nn.Linear(2, 2)
        >>> layer.compile()
        >>> layer(flambeau.ones(1, 2)).shape
        torch.Size([1, 2])
        """
        CapturedForward.put(self, *args, **kwargs)

    # ---- showing, copying ------------------------------------------------------------------------------------------

    def _get_name(self):
        return type(self).__name__

    def extra_repr(self):
        """What stands between the brackets of the repr; subclasses override it."""
        return ""

    def __repr__(self):
        extra = self.extra_repr()
        extra_lines = extra.split("\n") if extra else []
        child_lines = [f"({name}): {_indent(repr(module))}" for name, module in self._modules.items()]
        if not child_lines and len(extra_lines) <= 1:
            return f"{self._get_name()}({extra})"
        return self._get_name() + "(\n  " + "\n  ".join(extra_lines + child_lines) + "\n)"

    def __dir__(self):
        names = [*dir(type(self)), *self.__dict__, *self._parameters, *self._modules, *self._buffers]
        return sorted(name for name in names if not name[0].isdigit())

    def __getstate__(self):
        return self.__dict__.copy()

    def __setstate__(self, state):
        self.__dict__.update(state)

    def _replicate_for_data_parallel(self):
        """A copy with tables of its own, whose parameters are left to whoever fills them in."""
        replica = type(self).__new__(type(self))
        vars(replica).update(vars(self), _parameters={}, _buffers=self._buffers.copy(), _modules=self._modules.copy(),
                             _is_replica=True)
        return replica


#: what is registered when it is assigned: kind, the table it goes to, the test of a value
_KINDS = (
    ("parameter", "_parameters", lambda value: isinstance(value, Parameter)),
    ("module", "_modules", lambda value: isinstance(value, Module)),
    ("buffer", "_buffers", lambda value: isinstance(value, Buffer)),
)
_WORD = {"parameter": "parameter", "module": "child module", "buffer": "buffer"}
_EXPECTED = {"parameter": "torch.nn.Parameter", "module": "torch.nn.Module", "buffer": "torch.Tensor"}


def _run_registration(kind, module, name, value):
    for hook in REGISTRATION[kind].values():
        replaced = hook(module, name, value)
        if replaced is not None:
            value = replaced
    return value


def _one_line(text):
    return " ".join(text.split())


def _indent(text):
    return text.replace("\n", "\n  ")
