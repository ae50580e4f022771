"""torch._decomp: what operators are made of, as tables for `make_fx` and `run_decompositions`."""

from ..._shown import shown
from ...export.decomp_utils import CustomDecompTable, default_decompositions, of_aten
from ...ops import OPS
from ...utils._pytree import tree_leaves
from ._decomp_rules import RULES

#: the table that register_decomposition adds to; both kinds of tables of PyTorch's, since rules are made of operators
decomposition_table = pre_autograd_decomposition_table = default_decompositions()
global_decomposition_table = {"post_autograd": decomposition_table, "pre_autograd": decomposition_table}


def _table(kind):
    if kind not in global_decomposition_table:
        raise NotImplementedError(f"_decomp: there is no table of the kind {shown(kind)}; known are "
                                  f"{', '.join(global_decomposition_table)} (the meta device needs none)")
    return global_decomposition_table[kind]


def core_aten_decompositions():
    """The table of every operator that is made of others.

    >>> import flambeau
    >>> from flambeau.as_torch.tree._decomp import core_aten_decompositions
    >>> flambeau.ops.aten.batch_norm.default in core_aten_decompositions()
    True
    """
    return default_decompositions()


#: operators of aten's -> those that stand for them in graphs here
_ALSO = {"_softmax": "softmax", "_log_softmax": "log_softmax"}


def get_decompositions(aten_ops, type="post_autograd"):
    """The part of the table that is about these operators; those of which nothing simpler is known are left out.

    >>> import flambeau
    >>> from flambeau.as_torch.tree._decomp import get_decompositions
    >>> table = get_decompositions([flambeau.ops.aten.silu, flambeau.ops.aten.mm])
    >>> len(table), table[flambeau.ops.aten.silu](flambeau.zeros(1))
    (1, tensor([0.]))
    """
    table, found = _table(type), {}
    for op in aten_ops:
        name = getattr(of_aten(op), "name", "").removeprefix("aten.").partition(".")[0]
        function = table.get(op) or RULES.get(_ALSO.get(name, name))
        if function is not None:
            found[OPS[_ALSO[name]] if name in _ALSO else op] = function
    return CustomDecompTable(found)


def remove_decompositions(decompositions, aten_ops):
    """Takes operators out of a table: they stay one step."""
    for op in aten_ops:
        decompositions.pop(op, None)


def register_decomposition(aten_op, registry=None, *, type="post_autograd", unsafe=False):
    """Decorator: the function is what these operators, one or several, are made of, in a table (the global one)."""
    table = _table(type) if registry is None else registry

    def register(function):
        for op in tree_leaves(aten_op):
            if op in table and not unsafe and getattr(table[op], "__module__", "").partition(".")[0] != "flambeau":
                raise RuntimeError(f"register_decomposition: {shown(op)} has a decomposition already")
            table[op] = function
        return function

    return register
