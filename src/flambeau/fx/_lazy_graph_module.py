"""GraphModules that programs ask to generate late: code is generated when the graph is set, so nothing waits."""

import contextlib

from .graph_module import GraphModule

_LazyGraphModule = GraphModule


def _make_graph_module(*args, graph_module_cls=None, **kwargs):
    """GraphModule(*args, **kwargs), or of the class that is given."""
    return (graph_module_cls or GraphModule)(*args, **kwargs)


@contextlib.contextmanager
def _use_lazy_graph_module(should_use):
    """Nothing is lazy, whatever should_use says, and results are the same."""
    yield should_use


def _force_skip_lazy_graph_module():
    """The same."""
    return _use_lazy_graph_module(False)
