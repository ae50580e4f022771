"""What native code calls in Python when a node fails, and, where somebody asked for it, when one is made.

In anomaly mode each node keeps the whole traceback of its call.
"""

import importlib
import warnings
from os.path import dirname, join, realpath
from threading import get_ident

from .. import _C

#: anomaly mode is on: nodes keep the traceback of their call
anomaly = False
#: (thread, function) of graph.node_creation_hook, newest last
creation_hooks = []


def _notes():
    return importlib.import_module("flambeau.autograd._notes")


def explain(node, error):
    """Adds a note to `error`; in anomaly mode also warns with the forward call's traceback, as PyTorch does."""
    error.add_note("\n".join(_notes().describe(node)))
    if anomaly:
        warnings.warn(_notes().anomaly_text(node), stacklevel=2)


def created(node):
    """Called for each new node while anomaly mode or a creation hook is on."""
    if anomaly:
        node.metadata["traceback_"] = _notes().calls()
        parent = _C.running_node()
        if parent is not None:
            node.metadata["parent_"] = parent
    for thread, hook in tuple(creation_hooks):
        if thread == get_ident():
            hook(node)


def update():
    """Tells the native side whether anybody wants to hear of new nodes."""
    _C.set_node_handlers(explain, created if anomaly or creation_hooks else None)


_C.set_library_folder(join(dirname(dirname(realpath(__file__))), ""))
update()
