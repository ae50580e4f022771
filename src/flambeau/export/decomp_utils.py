"""Tables of decompositions: which operators of an exported program are taken apart, and how."""

from .. import _C
from .._aten.spelling import stays_whole
from .._shown import shown
from ..ops import OPS


def of_aten(op):
    """The operator that stands for all forms of one: `ops.aten.batch_norm` for nn.functional.batch_norm."""
    op = getattr(op, "_op", op)
    return OPS.get(f"{op.name}.flat", op) if isinstance(op, _C.Op) and op.kind == "composite" else op


class CustomDecompTable(dict):
    """{operator: function that does the same}: the operators that `run_decompositions` takes apart.

    An operator that is deleted from `default_decompositions()` stays one step; one that is added is replaced by what
    its function calls.

    >>> import flambeau
    >>> table = flambeau.export.default_decompositions()
    >>> linear = flambeau.ops.aten.linear.default
    >>> table[linear] = lambda x, weight, bias=None: x @ weight.t() + bias
    >>> program = flambeau.export.export(flambeau.nn.Linear(2, 3), (flambeau.ones(4, 2),))
    >>> [node.name for node in program.run_decompositions(table).graph.nodes if node.op == "call_function"]
    ['t', 'matmul', 'add']
    """

    def __init__(self, table=()):
        super().__init__()
        self.update(table)

    @classmethod
    def all(cls):
        """The table of all operators that are made of others."""
        return cls({op: op for op in OPS.values() if stays_whole(op)})

    def __setitem__(self, key, value):
        if not callable(value):
            raise TypeError(f"CustomDecompTable: expected a function for {shown(key)}, got {shown(value)}")
        super().__setitem__(of_aten(key), value)

    def __getitem__(self, key):
        return super().__getitem__(of_aten(key))

    def __delitem__(self, key):
        self.pop(key)

    def __contains__(self, key):
        return super().__contains__(of_aten(key))

    def get(self, key, default=None):
        """The function of an operator."""
        return super().get(of_aten(key), default)

    def pop(self, key, *default):
        """Takes an operator out: it stays one step. Those that are made of nothing else do so in any case."""
        op = of_aten(key)
        if isinstance(op, _C.Op) and op not in self and not default:
            return None
        return super().pop(op, *default)

    def update(self, other=(), /, **more):
        """Adds what another table has."""
        for key, value in dict(other, **more).items():
            self[key] = value

    def copy(self):
        """A table of its own."""
        return CustomDecompTable(self)

    def materialize(self):
        """The same as a dict."""
        return dict(self)

    def keeps(self, op):
        """Whether a call of an operator stays one step."""
        return op not in self

    def own(self, op):
        """The function that a program gave for an operator; None for one that is taken apart as it is made."""
        found = self.get(op)
        return None if found is None or of_aten(found) is of_aten(op) else found

    def of_primitives(self):
        """{operator: function} of those that are made of nothing else."""
        return {op: function for op, function in self.items()
                if not (isinstance(op, _C.Op) and op.kind in ("composite", "overloads"))}


def default_decompositions():
    """The table that `run_decompositions` uses where it is given none: every operator that is made of others.

    >>> import flambeau
    >>> table = flambeau.export.default_decompositions()
    >>> flambeau.ops.aten.batch_norm.default in table, flambeau.ops.aten.add.Tensor in table
    (True, False)
    """
    return CustomDecompTable.all()
