"""torch._dynamo: what programs ask of PyTorch's compiler, as far as it means something here."""

import functools
from typing import NamedTuple

from ....compiler import allow_in_graph as allow_in_graph
from ....compiler import assume_constant_result as assume_constant_result
from ....compiler import compile
from ....compiler import disable as disable
from ....compiler import explain as explain
from ....compiler import graph_break as graph_break
from ....compiler import is_compiling as is_compiling
from ....compiler import list_backends as list_backends
from ....compiler import lookup_backend as lookup_backend
from ....compiler import nonstrict_trace as nonstrict_trace
from ....compiler import register_backend as register_backend
from ....compiler import reset as reset
from ....compiler import set_stance as set_stance
from ....compiler import substitute_in_graph as substitute_in_graph
from ....fx import GraphModule
from ....fx.experimental.proxy_tensor import make_fx
from ....nn import Module
from . import backends as backends
from . import config as config
from . import eval_frame as eval_frame
from . import exc as exc
from . import utils as utils
from .eval_frame import OptimizedModule as OptimizedModule
from .eval_frame import is_dynamo_supported as is_dynamo_supported


def optimize(backend="inductor", *, nopython=False, disable=False, dynamic=None):
    """A decorator: `torch.compile` under its first name."""
    return lambda fn: compile(fn, fullgraph=nopython, backend=backend, disable=disable, dynamic=dynamic)


def optimize_assert(backend, **kwargs):
    """`optimize` with nopython=True: a function that is not one program is an error."""
    return optimize(backend, nopython=True, **kwargs)


def run(fn=None):
    """A compiled function that is not compiled again: any is run as it is asked for."""
    return run if fn is None else fn


def forbid_in_graph(fn):
    """Says that a compiler may not meet the function: nothing is looked at, so it is returned as it is."""
    return fn


disallow_in_graph, reset_code_caches = forbid_in_graph, reset


def mark_dynamic(t, index, *, hint_override=None, min=None, max=None, specialize_on=None):
    """Says that a size may change: any size may, since nothing is compiled for one."""


def mark_static(t, index=None):
    """Says that sizes stay, all of them where `index` is None: nothing is compiled for other sizes."""


def mark_static_address(t, guard=False):
    """Says that a tensor keeps its memory: a plan asks for that of its inputs in each call."""


maybe_mark_dynamic = mark_unbacked = mark_dynamic


class ExportResult(NamedTuple):
    """What `export` gives."""

    graph_module: GraphModule
    guards: set


def export(f, *extra_args, aten_graph=True, decomposition_table=None, tracing_mode="symbolic", **extra_kwargs):
    """A function of f's arguments, by place, that gives an ExportResult: the graph of the operators that f runs, for
    arguments of other sizes where tracing_mode is "symbolic"; with arguments, what that function gives for them.
    `flambeau.export.export` writes programs for others.

    >>> import flambeau
    >>> from flambeau.as_torch.tree import _dynamo
    >>> graph, guards = _dynamo.export(lambda x: x.sin() + 1)(flambeau.zeros(2))
    >>> graph(flambeau.zeros(3))
    tensor([1., 1., 1.])
    """
    if not aten_graph:
        raise NotImplementedError("_dynamo.export: aten_graph=False is not available; graphs call operators")
    def inner(*args, **kwargs):
        named = functools.partial(f, **kwargs) if kwargs else f
        traced = make_fx(named, decomposition_table, tracing_mode, record_module_stack=isinstance(named, Module))
        return ExportResult(traced(*args), set())

    return inner(*extra_args, **extra_kwargs) if extra_args or extra_kwargs else inner
