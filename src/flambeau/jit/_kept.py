"""Calls of scripted functions and modules inside a trace: those whose program decides something stay calls of it."""

import ast
import contextlib
import functools
import inspect
import itertools

from .._subclasses.fake import assumed
from .._tensor.overriding import disable_torch_dispatch
from ..export._detach import own
from ..fx.experimental.proxy_tensor import disable_proxy_modes_tracing, get_innermost_proxy_mode
from ..utils import _pytree
from ._modules import Scripted
from ._state import keeping


class ScriptCall:
    """What a Node calls: a scripted function, or (with `module`) the forward of a module inside the traced one."""

    def __init__(self, function, module=None):
        self.function, self.module = function, module
        self.__name__ = getattr(function, "__name__", "forward")

    def __call__(self, *args):
        return self.function(*args)

    def text(self, writer, node):
        """The call in TorchScript; what it calls becomes a part of the program."""
        args, script = ", ".join(map(writer.value, node.args)), writer.methods.script
        if self.module is None:
            return f"{script.function(self.function)}({args})"
        path = writer.path_of(self.module)
        script.method(self.module, "forward")
        return f"{path}.{script.called(self.module)}({args})"


@contextlib.contextmanager
def kept_calls(mod):
    """Inside, calls of what is scripted are Nodes of their own."""
    modules = [module for module in mod.modules() if module is not mod and isinstance(module, Scripted)
               and "forward" not in vars(module) and _decides(module)]
    for module in modules:
        module.__dict__["forward"] = functools.partial(_called, module.forward, module)
    before = keeping.set(_called_function)
    try:
        yield
    finally:
        keeping.reset(before)
        for module in modules:
            del module.__dict__["forward"]


def _called_function(script, args, kwargs):
    return _called(script._function, None, *args, **kwargs) if not script.is_finished and _decides(script) else \
        script._function(*args, **kwargs)


def _called(function, module, *args, **kwargs):
    mode = get_innermost_proxy_mode()
    given = inspect.signature(function).bind(*args, **kwargs)
    if mode is None or not mode.enable_tracing or given.kwargs:
        return function(*args, **kwargs)
    with disable_proxy_modes_tracing():
        result = _pytree.tree_map(own, _result(function, given.args))
    target = ScriptCall(function, module)
    node = mode.tracer.create_node("call_function", target, mode.tracer.of_value(tuple(given.args)), {})
    return mode.track(result, node)


def _result(function, args):
    """What the function gives; without values, what it gives where it takes the one way or the other."""
    for truth in (False, True):
        before = assumed.set(itertools.repeat(truth, 64))  # a loop may wait for the other
        try:
            return function(*args)
        except Exception:
            if truth:
                raise
        finally:
            assumed.reset(before)


def note_decisions(mod):
    """Finds out what the scripted modules inside decide, while they hold their own tensors."""
    for module in mod.modules():
        if isinstance(module, Scripted):
            _decides(module)


def _decides(script):
    """Whether a scripted function or module has a program with branches or loops."""
    held = vars(script)
    if "_decides" not in held:
        try:
            with disable_torch_dispatch():
                made = script._compiled()
            texts = (made[0] if isinstance(made, tuple) else made._program).texts.values()
        except NotImplementedError:  # what has no program can only be taken apart
            texts = ()
        held["_decides"] = any(isinstance(n, (ast.If, ast.IfExp, ast.While, ast.For))
                               for text in texts for n in ast.walk(ast.parse(text)))
    return held["_decides"]
