"""Which Nodes a backend can run: predicates, and how they are put together."""

import abc

from ... import _C
from .tools_common import get_node_target

__all__ = ["OpSupports", "OperatorSupport", "OperatorSupportBase", "any_chain", "chain", "create_op_support"]


class OperatorSupportBase(abc.ABC):
    """Says of a Node whether it can be run."""

    @abc.abstractmethod
    def is_node_supported(self, submodules, node):
        """Whether it can; submodules: {dotted name: Module} of the graph's module."""


class OperatorSupport(OperatorSupportBase):
    """By target and dtypes: {name of the target: None, or (dtypes of each positional argument, {keyword: dtypes})}.

    >>> import flambeau
    >>> from flambeau.fx.passes.operator_support import OperatorSupport
    >>> gm = flambeau.fx.symbolic_trace(lambda x: flambeau.relu(x) + 1)
    >>> support = OperatorSupport({"flambeau.relu": None})
    >>> [node.name for node in gm.graph.nodes if support.is_node_supported({}, node)]
    ['x', 'relu', 'output']
    """

    def __init__(self, support_dict=None):
        self._support_dict = support_dict or {}

    def is_node_supported(self, submodules, node):
        """Whether its target is listed, and its arguments (by meta["tensor_meta"]) have listed dtypes."""
        if node.op not in ("call_module", "call_function", "call_method"):
            return True
        listed = self._support_dict.get(get_node_target(submodules, node), False)
        if not listed:
            return listed is None  # None: whatever its arguments
        args, kwargs = listed
        pairs = [*zip(node.args, args, strict=False),
                 *((node.kwargs.get(key), dtypes) for key, dtypes in kwargs.items())]
        return all(_get_arg_dtype(arg) in dtypes for arg, dtypes in pairs if hasattr(arg, "meta"))


class _Predicate(OperatorSupportBase):
    def __init__(self, function):
        self._function = function

    def is_node_supported(self, submodules, node):
        return self._function(submodules, node)


def create_op_support(is_node_supported):
    """An OperatorSupport of a function of (submodules, node)."""
    return _Predicate(is_node_supported)


def chain(*op_support):
    """Supported where all say so."""
    return _Predicate(lambda submodules, node: all(s.is_node_supported(submodules, node) for s in op_support))


def any_chain(*op_support):
    """Supported where one says so."""
    return _Predicate(lambda submodules, node: any(s.is_node_supported(submodules, node) for s in op_support))


class OpSupports:
    """Predicates that are often needed."""

    @classmethod
    def decline_if_input_dtype(cls, dtype):
        """Not where an argument has this dtype."""
        return _Predicate(lambda submodules, node: all(_get_arg_dtype(a) != dtype for a in node.all_input_nodes))

    @classmethod
    def decline_if_node_in_names(cls, disallow_set):
        """Not where the Node has one of these names."""
        return _Predicate(lambda submodules, node: node.name not in disallow_set)


def _get_arg_dtype(arg):
    described = arg.meta.get("tensor_meta")
    if described is None:
        raise RuntimeError(f"operator_support: the dtype of {arg} is not known; run ShapeProp first")
    first = described
    while isinstance(first, (list, tuple)) and not hasattr(first, "dtype") and first:
        first = first[0]
    dtype = getattr(first, "dtype", None)
    if not isinstance(dtype, _C.dtype):
        raise RuntimeError(f"operator_support: {arg} is no tensor")
    return dtype
