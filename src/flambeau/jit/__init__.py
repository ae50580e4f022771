"""TorchScript's names: scripting and tracing give the function or module itself, which says so once."""

import contextlib
import types
import typing
from builtins import isinstance as _isinstance

import flambeau

from .. import _C
from .._absent import refusal, refused_class, say_once
from .._shown import shown
from ..futures import Future as Future

Final = typing.Final
_AS_IT_IS = "jit: there is no TorchScript; what is scripted or traced runs as it is, with the same results"
_NO_ARCHIVE = ("programs are not stored as TorchScript; save a module's state_dict() or the module itself "
               "(flambeau.save)")
ScriptFunction = refused_class("jit.ScriptFunction", "nothing is scripted: functions stay what they are")
RecursiveScriptModule = refused_class("jit.RecursiveScriptModule", "nothing is scripted: modules stay what they are",
                                      "cpp_module")
CompilationUnit = refused_class("jit.CompilationUnit", "there is no TorchScript source to compile")
Error = RuntimeError


def _itself(obj, name):
    if not callable(obj):
        raise TypeError(f"{name}: expected a function, class or Module, got {shown(obj)}")
    say_once(_AS_IT_IS, depth=2)
    return obj


def script(obj, optimize=None, _frames_up=0, _rcb=None, example_inputs=None):
    """`obj` itself; a UserWarning says once that it is not compiled.

    >>> import flambeau, warnings
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore")
    ...     double = flambeau.jit.script(lambda x: x * 2)
    >>> double(flambeau.ones(1))
    tensor([2.])
    """
    return _itself(obj, "jit.script")


def trace(func, example_inputs=None, optimize=None, check_trace=True, check_inputs=None, check_tolerance=1e-5,
          strict=True, _force_outplace=False, _module_class=None, _compilation_unit=None, example_kwarg_inputs=None,
          _store_inputs=True):
    """`func` itself, after one call with the example inputs: a mistake in them shows here, as it does in PyTorch."""
    _itself(func, "jit.trace")
    if example_kwarg_inputs is not None:
        func(**example_kwarg_inputs)
    elif example_inputs is not None:
        func(*([example_inputs] if _isinstance(example_inputs, _C.Tensor) else example_inputs))
    return func


def trace_module(mod, inputs, optimize=None, check_trace=True, check_inputs=None, check_tolerance=1e-5, strict=True,
                 _force_outplace=False, _module_class=None, _compilation_unit=None, example_inputs_is_kwarg=False,
                 _store_inputs=True):
    """`mod` itself, after one call of each method that `inputs` names, with the inputs given for it."""
    _itself(mod, "jit.trace_module")
    for method, given in inputs.items():
        if example_inputs_is_kwarg:
            getattr(mod, method)(**given)
        else:
            getattr(mod, method)(*([given] if _isinstance(given, _C.Tensor) else given))
    return mod


def _unchanged(fn):
    return fn


def ignore(drop=False, **kwargs):
    """Keeps a method out of scripts: there are none, so it is returned as it is. Also called as `ignore(drop=True)`."""
    return drop if callable(drop) else _unchanged


def unused(fn):
    """Keeps a method out of scripts: there are none, so it is returned as it is."""
    return fn


export = script_method = script_if_tracing = _script_if_tracing = _overload = _overload_method = unused


def interface(obj):
    """Marks a class whose methods scripts may call: there are none, so it is returned as it is."""
    return obj


def is_scripting():
    """Whether TorchScript runs this: never."""
    return False


def is_tracing():
    """Whether a trace records this: never."""
    return False


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
    if origin not in (list, dict, tuple):
        raise RuntimeError("jit.isinstance: expected a type, or a List, Dict, Tuple, Optional or Union of types, got "
                           f"{shown(target_type)}")
    return _isinstance(obj, origin) and _parts_fit(obj, origin, parts)


def _parts_fit(obj, origin, parts):
    if origin is dict:
        return all(isinstance(key, parts[0]) and isinstance(value, parts[1]) for key, value in obj.items())
    if origin is tuple and not (len(parts) == 2 and parts[1] is ...):
        return len(obj) == len(parts) and all(map(isinstance, obj, parts))
    return all(isinstance(item, parts[0]) for item in obj)


def fork(func, *args, **kwargs):
    """A Future of `func(*args, **kwargs)`, which runs at once, as it does in PyTorch outside of scripts."""
    future = Future()
    future.set_result(func(*args, **kwargs))
    return future


def wait(future):
    """The result of `fork`."""
    return future.wait()


def freeze(mod, preserved_attrs=None, optimize_numerics=True):
    """`mod` itself, which must be in eval mode: there is no script whose attributes could become constants."""
    if mod.training:
        raise RuntimeError("jit.freeze: expected a module in eval mode, got one in training mode; call eval() first")
    return _itself(mod, "jit.freeze")


def optimize_for_inference(mod, other_methods=None):
    """`mod` itself: there is no script to optimise."""
    return _itself(mod, "jit.optimize_for_inference")


def set_fusion_strategy(strategy):
    """How scripts are fused: nothing is scripted, so there was no strategy before, which is returned."""
    return []


def enable_onednn_fusion(enabled):
    """Fuses scripts by oneDNN: there are none."""
    if enabled:
        say_once(_AS_IT_IS)


def onednn_fusion_enabled():
    """Whether scripts are fused by oneDNN: never."""
    return False


class strict_fusion(contextlib.nullcontext):
    """Context in which scripts must be fused: there are none, and nothing changes."""


class Attribute(typing.NamedTuple):
    """A value of a module and the type it has in scripts."""

    value: typing.Any
    type: typing.Any


save = refusal("jit.save(m, f, _extra_files)", _NO_ARCHIVE)
load = refusal("jit.load(f, map_location, _extra_files, _restore_shapes)",
               "TorchScript archives hold a program, which is not run here; load its weights where they are "
               "stored, or save them from PyTorch with torch.save(module.state_dict(), …)")
export_opnames = refusal("jit.export_opnames(m)", _NO_ARCHIVE)


class ScriptModule(flambeau.nn.Module):
    """A module whose methods may be marked as script_method; they run as they are."""
