"""Notes added to an exception in a backward pass: which recorded call failed, where it was made, and in which module.

The engine calls `explain` for the node that failed; in anomaly mode `created` keeps each call's whole traceback.
"""

import linecache
import traceback
import warnings
from itertools import pairwise
from os import sep
from pathlib import Path
from threading import get_ident

from .. import _C

#: anomaly mode is on: nodes keep the traceback of their call
anomaly = False
#: (thread, function) of graph.node_creation_hook, newest last
creation_hooks = []
_LIBRARY = str(Path(__file__).resolve().parents[1]) + sep


def shape_text(outputs):
    """`[2, 3]`, or `[2, 3] and [3]` of several."""
    return " and ".join("?" if meta is None else str(list(meta[0])) for meta in outputs)


def input_shapes(node):
    """The shape each of the node's gradients must have; None where an input wants none."""
    shapes = []
    for target, position in node.next_functions:
        meta = None if target is None else target._outputs[position]
        shapes.append(None if meta is None else list(meta[0]))
    return shapes


def line_text(origin):
    """The recorded call as a traceback shows it."""
    file, line, function = origin
    text = f'File "{file}", line {line}, in {function}'
    source = linecache.getline(file, line).strip()
    return f"{text}\n      {source}" if source else text


def module_path(modules):
    """`blocks.3.proj (Linear(…))` of modules called inside each other, outermost first; "" for none."""
    modules = [m for m in modules if m is not None]
    if not modules:
        return ""
    names = []
    for outer, inner in pairwise(modules):
        name = next((n for n, m in outer.named_modules() if m is inner), f"<{type(inner).__name__}>")
        if name:
            names.append(name)
    last = modules[-1]
    shown = f"{type(last).__name__}({' '.join(last.extra_repr().split())})"
    return f"{'.'.join(names)} ({shown})" if names else shown


def describe(node):
    """Lines that say what the node recorded, and where."""
    op = node.op
    what = f"{op.name} ({node.name()})" if op is not None else node.name()
    inputs = " and ".join(str(s) for s in input_shapes(node) if s is not None)
    lines = [f"  in the backward of: {what}, gradient for {inputs or 'nothing'} from {shape_text(node._outputs)}"]
    if node.origin is not None:
        lines.append(f"  forward: {line_text(node.origin)}")
    path = module_path(node.modules)
    if path:
        lines.append(f"  in: {path}")
    return lines


def explain(node, error):
    """Adds a note to `error`; in anomaly mode also warns with the forward call's traceback, as PyTorch does."""
    error.add_note("\n".join(describe(node)))
    if anomaly:
        warnings.warn(_anomaly_text(node), stacklevel=2)


def _anomaly_text(node):
    kept = node.metadata.get("traceback_")
    if kept is None:
        return (f"backward failed in {node.name()}; its forward call ran outside of detect_anomaly, so there is no "
                "traceback of it")
    text = f"backward failed in {node.name()}, which this call recorded:\n{''.join(kept)}"
    parent = node.metadata.get("parent_")
    if parent is not None:
        text += (f"\n\nThat call belongs to the backward of {parent.name()}, which this call recorded:\n"
                 f"{''.join(parent.metadata.get('traceback_', ()))}")
    return text


def created(node):
    """Called for each new node while anomaly mode or a creation hook is on."""
    if anomaly:
        node.metadata["traceback_"] = traceback.format_stack()[:-1]
        parent = _C.running_node()
        if parent is not None:
            node.metadata["parent_"] = parent
    for thread, hook in tuple(creation_hooks):
        if thread == get_ident():
            hook(node)


def update():
    """Tells the native side whether anybody wants to hear of new nodes."""
    _C.set_node_handlers(explain, created if anomaly or creation_hooks else None)


_C.set_library_folder(_LIBRARY)
update()
