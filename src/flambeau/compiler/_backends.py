"""Backends of one's own: what was captured becomes a GraphModule that a function replaces."""

import functools

from .._graph import NAMED
from .._graph.errors import BackendCompilerFailed
from .._shown import shown
from ..fx import GraphModule
from ..nn import Module
from ._program import Program
from ._writer import Writer

TAGS = {}  #: {name: what list_backends may leave out by}, of registered backends


def register_backend(compiler_fn=None, name=None, tags=()):
    """Decorator: gives a backend of one's own the name that `compile` takes, that of the function if none is given."""
    if compiler_fn is None:
        return functools.partial(register_backend, name=name, tags=tags)
    if not callable(compiler_fn):
        raise TypeError(f"register_backend: expected a function of a graph and its inputs, got {shown(compiler_fn)}")
    name = name or compiler_fn.__name__
    if name in NAMED:
        raise ValueError(f"register_backend: there is a backend called {shown(name)} already")
    NAMED[name], TAGS[name] = compiler_fn, frozenset(tags)
    return compiler_fn


def lookup_backend(compiler_fn):
    """The function of a backend: of the name it was registered by, or itself."""
    if isinstance(compiler_fn, str) and compiler_fn not in NAMED:
        raise RuntimeError(f"lookup_backend: no function is registered as {shown(compiler_fn)}; known are "
                           f"{', '.join(map(repr, NAMED)) or 'none'}")
    return NAMED[compiler_fn] if isinstance(compiler_fn, str) else compiler_fn


def planner_of(backend):
    """What native code asks for a plan: it hands `backend` the program's graph and the tensors it begins with."""
    def plan(described, inputs):
        writer = Writer(Program(described))
        module, uses = GraphModule(Module(), writer.graph), tuple(writer.inputs.values())
        try:
            function = backend(module, [inputs[u] for u in uses])
        except Exception as error:
            raise BackendCompilerFailed(backend, error) from error
        if not callable(function):
            raise TypeError(f"compile: the backend {shown(backend)} must return a function of the graph's inputs, not "
                            f"{shown(function)}")
        return function, uses, tuple(writer.wanted)
    return plan
