"""What programs ask of an operator that has a record: its FunctionSchema, its tags, and its name among PyTorch's."""

import re
from functools import cache
from pathlib import Path

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
    name = overload_name(op)
    return FunctionSchema(f"aten::{op.name.partition('.')[0]}{'' if name == 'default' else '.' + name}{arguments}")


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


@cache
def _table():
    lines = Path(__file__).with_name("overloads.txt").read_text(encoding="utf-8").splitlines()
    return dict(line.split(" ", 1) for line in lines if not line.startswith("#"))


def overloads(name):
    """The overloads of one of aten's operators, as overloads.txt has them; "" where it has no row."""
    return _table().get(name) or (_table().get(name[:-1]) if name.endswith("_") else None) or ""


@cache
def overload_name(op):
    """The name of the overload that an operator's record is most like.

    One record has all of PyTorch's overloads that differ in what a number or a tensor is: of these, the tensors'.

    >>> import flambeau
    >>> str(flambeau.ops.aten.add.Tensor), str(flambeau.ops.aten.relu.default), str(flambeau.ops.aten.select.int)
    ('aten.add.Tensor', 'aten.relu.default', 'aten.select.int')
    """
    name, _, form = op.name.partition(".")
    known = re.findall(r"(?:^|\) (?:\[\] )?|\)\[\] )(\w*)\(", overloads(name))
    if form and form != "flat":
        return form
    first = [known[0] or "default"] if known else []
    return next((each for each in ("default", "Tensor", *first) if each in [k or "default" for k in known]), "default")
