"""What programs ask of an operator that has a record: its FunctionSchema, and its tags."""

from functools import cache

from ._enumerations import Tag
from ._function_schema import FunctionSchema


@cache
def schema(op):
    """The FunctionSchema under aten's name, with marks on what is written and what shares memory.

    >>> import flambeau
    >>> flambeau.ops.aten.add_.Tensor._schema.is_mutable, flambeau.ops.aten.add.Tensor._schema.is_mutable
    (True, False)
    >>> flambeau.ops.aten.t.default._schema
    aten::t(Tensor(a) self) -> Tensor(a)
    """
    record = op if op.schema is not None else op.alternatives[0]  # of several forms the first speaks
    arguments = record.schema[record.schema.index("("):]
    if op.is_inplace or op.name.endswith("_"):
        arguments = _marked(arguments, "Tensor(a!)")
    elif record.kind == "view":
        arguments = _marked(arguments, "Tensor(a)")
    return FunctionSchema(f"aten::{op.name.partition('.')[0]}{arguments}")


def _marked(arguments, kind):
    """The first argument and the result are of that kind."""
    given, _, result = arguments.rpartition(" -> ")
    plain = result.replace("Tensor", kind, 1) if result.startswith(("Tensor", "(Tensor")) else result
    return f"{given.replace('(Tensor', f'({kind}', 1)} -> {plain}"


@cache
def tags(op):
    """The Tags that follow from the record.

    >>> import flambeau
    >>> flambeau.Tag.nondeterministic_seeded in flambeau.ops.aten.rand.default.tags
    True
    """
    found = [(op.kind == "elementwise", Tag.pointwise), (bool(op.random), Tag.nondeterministic_seeded),
             (op.kind == "view" and op.is_inplace, Tag.inplace_view)]
    return [tag for holds, tag in found if holds]
