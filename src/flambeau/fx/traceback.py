"""What the Node that runs now hands on to Nodes that are made meanwhile: its `meta`, where a pass asks for that."""

import contextlib
import functools
import threading


class _State(threading.local):
    """Of this thread: whether meta is handed on, the meta, and the Node it is of."""

    def __init__(self):
        self.preserves, self.meta, self.node = False, {}, None


_state = _State()


@contextlib.contextmanager
def preserve_node_meta(enable=True):
    """Inside, Nodes that an Interpreter makes take the meta of the Node that it runs."""
    before = _state.preserves, _state.meta
    _state.preserves = enable
    try:
        yield
    finally:
        _state.preserves, _state.meta = before


def has_preserved_node_meta():
    """Whether meta is handed on here."""
    return _state.preserves


@contextlib.contextmanager
def set_current_meta(node, pass_name=""):
    """Inside, `node` is the one that runs; pass_name says which pass runs it."""
    if not _state.preserves or not node.meta:
        yield
        return
    before = _state.meta
    _state.meta = dict(node.meta)
    if pass_name:
        _state.meta["from_node"] = [*node.meta.get("from_node", ()), (node.name, pass_name)]
    try:
        yield
    finally:
        _state.meta = before


def get_current_meta():
    """The meta that new Nodes take: {} outside of `preserve_node_meta`."""
    return _state.meta if _state.preserves or _state.meta else {}


def set_stack_trace(stack):
    """The lines that new Nodes take as their stack trace, where meta is handed on."""
    if _state.preserves and stack:
        _state.meta = {**_state.meta, "stack_trace": "".join(stack)}


def format_stack():
    """The lines of the Node that runs; [] where none is known."""
    trace = _state.meta.get("stack_trace")
    return [trace] if trace else []


@contextlib.contextmanager
def set_current_replay_node(node):
    """Inside, `node` is the one that is being run again."""
    before, _state.node = _state.node, node
    try:
        yield
    finally:
        _state.node = before


def get_current_replay_node():
    """The Node that is being run again, or None."""
    return _state.node


@contextlib.contextmanager
def annotate(annotation_dict):
    """Inside, new Nodes have these entries in meta["custom"].

    >>> import flambeau
    >>> from flambeau.fx import traceback
    >>> def f(x):
    ...     with traceback.annotate({"stage": 0}):
    ...         y = x + 1
    ...     return y * 2
    >>> [node.meta.get("custom") for node in flambeau.fx.symbolic_trace(f).graph.nodes]
    [None, {'stage': 0}, None, None]
    """
    before = _state.meta
    _state.meta = {**before, "custom": {**before.get("custom", {}), **annotation_dict}}
    try:
        yield
    finally:
        _state.meta = before


def annotate_fn(annotation_dict):
    """Decorator: Nodes made by the function have these entries in meta["custom"]."""
    def decorate(func):
        @functools.wraps(func)
        def annotated(*args, **kwargs):
            with annotate(annotation_dict):
                return func(*args, **kwargs)

        return annotated

    return decorate
