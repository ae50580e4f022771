"""TorchScript: programs of operators without Python, made of functions and modules, read from files and written.

    trace   one run of a module, as the operators that it called      (_tracing.py, _writing.py)
    script  a function or module by its source                        (_scripting.py)
    save, load   files, the same as PyTorch's                         (_archive.py)

A program is text (_program.py), compiled to Python that reaches nothing but operators (_compile.py, _operators.py).
"""

import contextlib
import copy
import functools
import importlib
import types
import typing
from builtins import isinstance as _isinstance

import flambeau

from .. import _C
from .._absent import refusal, say_once
from .._graph.inside import is_scripting as is_scripting
from .._places import is_ours
from .._shown import shown
from ..futures import Future as Future
from ._containers import ScriptDict, ScriptList
from ._errors import Error as Error
from ._errors import guarded
from ._modules import Attribute as Attribute
from ._modules import Method, Scripted, ScriptPart
from ._modules import RecursiveScriptModule as RecursiveScriptModule
from ._modules import ScriptFunction as ScriptFunction
from ._modules import ScriptMethod as ScriptMethod
from ._modules import ScriptModule as ScriptModule
from ._modules import TopLevelTracedModule as TopLevelTracedModule
from ._state import OVERLOADED, keeping
from ._state import TracerWarning as TracerWarning
from ._state import TracingCheckError as TracingCheckError
from ._state import is_tracing as is_tracing
from ._state import optimized_execution as optimized_execution
from ._state import set_fusion_strategy as set_fusion_strategy

#: names that are made of graphs and files, and the modules that they come from when they are first asked for
_LATER = {"load": "_archive.load", "save": "_archive.save", "trace": "_tracing.trace",
          "trace_module": "_tracing.trace_module", "CompilationUnit": "_program.CompilationUnit",
          "_scripted_module": "_scripting.scripted_module", "_scripted_function": "_scripting.scripted_function",
          "_get_trace_graph": "_traced_graph.get_trace_graph", "_graph_of": "_lowering.graph_of",
          "_schema_of": "_lowering.schema_of", "_taken_by": "_accepted.taken_by", "freeze": "_freezing.freeze",
          "import_ir_module": "_archive.import_ir_module",
          "import_ir_module_from_buffer": "_archive.import_ir_module_from_buffer"}
Final = typing.Final


def script(obj, optimize=None, _frames_up=0, _rcb=None, example_inputs=None):
    """A function or module with a program of TorchScript: it runs as the Python that it is, with the same results.

    The program is written from the source when it is asked for: by `code`, and by `save`, whose file needs nothing of
    that source. What has no form in TorchScript is a NotImplementedError then, which says where it stands.

    A Module comes back as a copy that shares its tensors, of a class that also is a ScriptModule; a class as it is, and
    so does an object of a class of one's own.
    A list or dict comes back as a copy whose items have one type. Modules that define `__prepare_scriptable__()` are
    replaced by what it gives.

    >>> import flambeau
    >>> @flambeau.jit.script
    ... def double(x):
    ...     return x * 2
    >>> double(flambeau.ones(1))
    tensor([2.])
    """
    if type(obj) in _CONTAINERS:
        return _CONTAINERS[type(obj)](obj)
    if not callable(obj) and type(obj).__flags__ & _HEAP and not is_ours(type(obj).__module__):
        return obj
    if not callable(obj):
        raise TypeError(f"jit.script: expected a function, class or Module, got {shown(obj)}")
    if _isinstance(obj, (ScriptModule, ScriptFunction, type)):
        return obj
    if _isinstance(obj, flambeau.nn.Module):
        prepared = _prepared(obj, {})
        if _isinstance(prepared, flambeau.nn.Module):
            _checked("check_module", prepared)
        return _scripted(prepared)
    if not _isinstance(obj, types.FunctionType):
        return obj
    _checked("check", obj)
    return ScriptFunction(obj)


def _checked(way, obj):
    """Raises where a function or module of one's own shows a mistake before it runs."""
    home = type(obj).__module__ if _isinstance(obj, flambeau.nn.Module) else obj.__module__
    if way == "check_module" or not is_ours(home or ""):
        later = importlib.import_module
        getattr(later(f"{__name__}._checks"), way)(obj, later(f"{__name__}._scripting").Script())


_CONTAINERS = {list: ScriptList, dict: ScriptDict}
_HEAP = 1 << 9  # of type.__flags__: classes that a program made


def _prepared(module, known):
    """The module with the stand-ins of those that say they have one; itself where none says so."""
    if id(module) in known:
        return known[id(module)][1]
    if "_modules" not in vars(module):
        raise RuntimeError(f"jit.script: {type(module).__name__}.__init__ has not called super().__init__()")
    stand_in = module.__prepare_scriptable__() if hasattr(module, "__prepare_scriptable__") else module
    known[id(module)] = module, stand_in  # with the module: its id must stay its own
    if not _isinstance(stand_in, flambeau.nn.Module):
        return stand_in
    children = {name: _prepared(child, known) for name, child in stand_in._modules.items() if child is not None}
    changed = {name: child for name, child in children.items() if child is not stand_in._modules[name]}
    if changed:
        stand_in = copy.copy(stand_in)
        stand_in._modules = {**stand_in._modules, **changed}
        known[id(module)] = module, stand_in
    return stand_in


def _scripted(module):
    found = _copied(module, {})
    found.__class__ = _class_of(type(module), Scripted)
    for name, value in vars(module).items():
        if _isinstance(value, Attribute):
            setattr(found, name, value)
    return found


def _class_of(kind, base):
    """The class that scripted modules of a class have: themselves (`base` is Scripted), and inside others."""
    if (kind, base) not in _CLASSES:
        names = {"__module__": kind.__module__, "_scripted_class": kind}
        if base is Scripted:
            exported = (name for name in dir(kind) if getattr(getattr(kind, name, None), "_jit_export", False))
            names.update((name, Method(getattr(kind, name))) for name in exported
                         if _isinstance(getattr(kind, name), types.FunctionType))
            if kind.forward is not flambeau.nn.Module.forward:
                names["forward"] = Method(guarded(kind.forward, _accepting(kind.forward)))
        _CLASSES[kind, base] = type(kind.__name__, (base,) if issubclass(base, kind) else (kind, base), names)
    return _CLASSES[kind, base]


_CLASSES = {}


def _accepting(method):
    """What looks at the arguments of a method that Python calls; its types are read when it is called first."""
    found = []

    def accept(args, kwargs):
        if not found:
            found.append(flambeau.jit._taken_by(method, True))
        return found[0](args, kwargs)

    return accept


def _copied(module, known):
    """A module that shares the tensors of another, with such modules inside: it is trained or evaluated by itself. What
    has a program already stays."""
    if id(module) not in known:
        made = known[id(module)] = copy.copy(module)
        for name, table in vars(module).items():
            if name in _TABLES or name.startswith(_HOOKS):
                vars(made)[name] = copy.copy(table)
        for name, child in module._modules.items():
            is_finished = child is None or _isinstance(child, ScriptModule)
            made._modules[name] = child if is_finished else _part(child, known)
    return known[id(module)]


def _part(child, known):
    made = _copied(child, known)
    if not _isinstance(made, ScriptModule):
        made.__class__ = _class_of(type(made), ScriptPart)
    return made


_TABLES = frozenset(("_parameters", "_buffers", "_modules"))
_HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")


def _marked(name):
    def mark(fn):
        for each in [fn.fget, fn.fset] if _isinstance(fn, property) else [fn]:
            with contextlib.suppress(AttributeError, TypeError):  # what takes no marks has no program, either
                setattr(each, name, True)
        return fn

    return mark


def ignore(drop=False, **kwargs):
    """Leaves a method out of programs: there it raises, in Python it runs as ever. Also called as `ignore(drop=True)`.
    """
    return unused(drop) if callable(drop) else unused


def unused(fn):
    """Leaves a method out of programs: there it raises. It runs as ever in Python."""
    return _marked("_jit_unused")(fn)


def export(fn):
    """Makes a method part of its module's program, although `forward` does not call it."""
    return _marked("_jit_export")(fn)


def script_method(fn):
    """Marks a method of a ScriptModule; it runs as it is."""
    return export(fn)


def _overload(fn):
    """Marks one of several signatures of the function of the same name that follows, which takes any of them."""
    OVERLOADED.setdefault(fn.__module__, set()).add(fn.__qualname__)
    return fn


_overload_method = _overload


def script_if_tracing(fn):
    """`fn`, which is scripted where a trace calls it: its branches and loops become part of the program.

    >>> import flambeau
    >>> @flambeau.jit.script_if_tracing
    ... def folded(x: flambeau.Tensor) -> flambeau.Tensor:
    ...     return x if bool(x.sum() > 0) else -x
    >>> flambeau.jit.trace(folded, flambeau.ones(2))(flambeau.tensor([-1.0, -2.0]))
    tensor([1., 2.])
    """
    scripted = ScriptFunction(fn)

    @functools.wraps(fn)
    def call(*args, **kwargs):
        return fn(*args, **kwargs) if keeping.get() is None else scripted(*args, **kwargs)

    return call


_script_if_tracing = script_if_tracing


def interface(obj):
    """Marks a class as an interface: of modules where it is a Module. Scripts may name it as a type.

    >>> import flambeau
    >>> @flambeau.jit.interface
    ... class Step(flambeau.nn.Module):
    ...     def forward(self, input: flambeau.Tensor) -> flambeau.Tensor:
    ...         pass
    """
    return _marked("_jit_interface")(obj)


def annotate(the_type, the_value):
    """`the_value`: its type is a note for compilers."""
    return the_value


def isinstance(obj, target_type):
    """Whether `obj` is of the type, whose parts are looked at too: `List[int]`, `Optional[Tensor]`, `Dict[str, int]`.

    >>> import flambeau
    >>> from typing import List
    >>> flambeau.jit.isinstance([1, 2], List[int]), flambeau.jit.isinstance(["1"], List[int])
    (True, False)
    """
    if type(target_type) is tuple:
        return any(isinstance(obj, kind) for kind in target_type)
    origin, parts = typing.get_origin(target_type), typing.get_args(target_type)
    if origin is None and _isinstance(target_type, type):
        return _isinstance(obj, target_type)
    if origin in (typing.Union, types.UnionType):
        return any(isinstance(obj, kind) for kind in parts)
    if target_type in _BARE:
        raise RuntimeError(f"jit.isinstance: {shown(target_type)} does not say what it is of; write List[int] or such")
    if origin not in (list, dict, tuple):
        raise RuntimeError("jit.isinstance: expected a type, or a List, Dict, Tuple, Optional or Union of types, got "
                           f"{shown(target_type)}")
    return _isinstance(obj, origin) and _parts_fit(obj, origin, parts)


_BARE = (typing.List, typing.Dict, typing.Tuple, typing.Optional, typing.Union)  # noqa: UP006


def _parts_fit(obj, origin, parts):
    if origin is dict:
        return all(isinstance(key, parts[0]) and isinstance(value, parts[1]) for key, value in obj.items())
    if origin is tuple and not (len(parts) == 2 and parts[1] is ...):
        return len(obj) == len(parts) and all(map(isinstance, obj, parts))
    return all(isinstance(item, parts[0]) for item in obj)


def _unwrap_optional(x):
    """`x`, which may not be None: AssertionError if it is. Compilers know then that it is a value."""
    assert x is not None, "jit._unwrap_optional: expected a value, got None"
    return x


def fork(func, *args, **kwargs):
    """A Future of `func(*args, **kwargs)`, which runs at once, as it does in PyTorch outside of scripts."""
    future = Future()
    future.set_result(func(*args, **kwargs))
    return future


def wait(future):
    """The result of `fork`."""
    if not _isinstance(future, Future):
        raise RuntimeError(f"jit.wait: expected the Future that fork gives, got {shown(future)}")
    return future.wait()


_fork, _wait = fork, wait


def optimize_for_inference(mod, other_methods=None):
    """`mod` in eval mode and frozen; `other_methods` are those that the result keeps besides `forward`.

    A module that is frozen already is returned as it is. `flambeau.compile` plans its operators.
    """
    if not _isinstance(mod, ScriptModule):
        raise RuntimeError("jit.optimize_for_inference: expected a ScriptModule, got "
                           f"{shown(type(mod).__name__)}; make one of it by jit.script or jit.trace")
    if _isinstance(mod, RecursiveScriptModule) and mod._program.is_frozen:
        return mod
    return importlib.import_module(f"{__name__}._freezing").freeze(mod.eval(), other_methods)


def enable_onednn_fusion(enabled):
    """Fuses programs by oneDNN, which is not done here."""
    if enabled:
        say_once("jit.enable_onednn_fusion: programs run operator by operator; flambeau.compile fuses them")


def onednn_fusion_enabled():
    """Whether programs are fused by oneDNN: never."""
    return False


class strict_fusion(contextlib.nullcontext):
    """Context in which programs would have to be fused: nothing changes."""


@contextlib.contextmanager
def fuser(name):
    """Context in which programs would be fused in this way ("fuser0" to "fuser3", "off"): they run step by step."""
    if name not in ("fuser0", "fuser1", "fuser2", "fuser3", "off"):
        raise RuntimeError(f"jit.fuser: expected 'fuser0', 'fuser1', 'fuser2', 'fuser3' or 'off', got {shown(name)}")
    yield


export_opnames = refusal("jit.export_opnames(m)", "programs for small devices are not written; jit.save writes others")


def __getattr__(name):
    if name not in _LATER:
        raise AttributeError(f"module '{__name__}' has no attribute {shown(name)}")
    module, _, attribute = _LATER[name].partition(".")
    found = globals()[name] = getattr(importlib.import_module(f"{__name__}.{module}"), attribute)
    return found


def __dir__():
    return sorted({*globals(), *(name for name in _LATER if not name.startswith("_"))})
