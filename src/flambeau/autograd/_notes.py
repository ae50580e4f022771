"""The text of notes about a recorded call: what it was, where it was made, and in which module.

Loaded when the first one is written: what it imports would double the time that importing Flambeau takes.
"""

import linecache
import traceback
from itertools import pairwise


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


def anomaly_text(node):
    """Which call recorded the node that failed: its traceback, as anomaly mode kept it."""
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


def calls():
    """The traceback of the call that records a node, without Flambeau's own end of it."""
    return traceback.format_stack()[:-2]
