"""Steps of programs in files whose arguments are graphs: what each does with them.

Graphs there take leaves and return tuples of leaves.
"""

import flambeau

from .. import control_flow
from ..ops.namespaces import Overload


class HigherOrder(Overload):
    """A step with graphs as arguments, in the form that files have."""

    def __init__(self, name, function):
        self.__name__ = self.op_name = name
        self._overloadname, self._function = "default", function
        self.namespace, self.overloadpacket, self.tags = "higher_order", self, ()

    def __call__(self, *args, **kwargs):
        return self._function(*args, **kwargs)

    def name(self):
        """The qualified name."""
        return self.qualified

    @property
    def qualified(self):
        """The name with its namespace: "higher_order::scan"."""
        return f"higher_order::{self.op_name}"

    def __repr__(self):
        return f"higher_order.{self.op_name}"


def _scan(combine, init, xs, additional=()):
    """(*the last carry, *the stacked y)."""
    count = len(init)

    def step(carry, x, *more):
        found = combine(*carry, *x, *more)
        return list(found[:count]), list(found[count:])

    carry, ys = control_flow.scan(step, list(init), list(xs), additional_inputs=tuple(additional))
    return (*carry, *ys)


def _map(body, xs, args):
    return control_flow.map(lambda x, *more: tuple(body(*x, *more)), list(xs), *args)


def _with_grad(enabled, graph, *args):
    with flambeau.set_grad_enabled(bool(enabled)):
        return graph(*args)


def _with_autocast(device_type, dtype, enabled, cache_enabled, graph, *args):
    with flambeau.autocast(device_type, dtype, bool(enabled), cache_enabled):
        return graph(*args)


def _invoked(graph, identifier, *args):
    """A graph that several steps share; `identifier` says which."""
    return graph(*args)


def _checkpointed(graph, *args, **options):
    """A graph whose values backward may compute again: `options` say how, and change no result."""
    return graph(*args)


def _with_hints(graph, args, kwargs, hints=None):
    """A graph with notes for compilers."""
    return graph(*args, **kwargs)


def _with_effects(token, operator, *args, **kwargs):
    """(token, *results) of an operator that does something besides: the token is the order in which steps do."""
    found = operator(*args, **kwargs)
    return (token, *found) if isinstance(found, tuple) else (token, found)


#: {name there: what a program calls}
HIGHER_ORDER = {"cond": control_flow.cond, "while_loop": control_flow.while_loop, **{
    name: HigherOrder(name, function) for name, function in (
        ("scan", _scan), ("map_impl", _map), ("wrap_with_set_grad_enabled", _with_grad),
        ("wrap_with_autocast", _with_autocast), ("invoke_subgraph", _invoked),
        ("wrap", lambda graph, *args: graph(*args)), ("tag_activation_checkpoint", _checkpointed),
        ("hints_wrapper", _with_hints), ("with_effects", _with_effects))}}
