"""`annotate`: says the type of a value while a program is traced."""

from .proxy import Proxy


def annotate(val, type):
    """val, whose Node has this type where it is a Proxy without one.

    >>> import flambeau
    >>> from flambeau.fx.annotate import annotate
    >>> gm = flambeau.fx.symbolic_trace(lambda x: annotate(x + 1, flambeau.Tensor))
    >>> [node.type for node in gm.graph.nodes if node.name == "add"]
    [<class 'flambeau.Tensor'>]
    """
    if isinstance(val, Proxy):
        if val.node.type is not None:
            raise RuntimeError(f"annotate: {val.node} has the type {val.node.type} already")
        val.node.type = type
    return val
