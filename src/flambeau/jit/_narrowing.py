"""What a test tells of names that may be None: `x is not None`, also under `not`, `and` and `or`."""

import ast

from ._types import taken_apart, without_none

NOTHING, SOMETHING = "None", "a value"


def told(test):
    """({name: what it is where the test is true}, {name: what it is where it is false})."""
    if isinstance(test, ast.Name):
        return {test.id: SOMETHING}, {}
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        yes, no = told(test.operand)
        return no, yes
    if isinstance(test, ast.BoolOp):
        parts = [told(part) for part in test.values]
        both = {name: what for part in parts for name, what in part[isinstance(test.op, ast.Or)].items()}
        return (both, {}) if isinstance(test.op, ast.And) else ({}, both)
    if isinstance(test, ast.Compare) and len(test.ops) == 1 and isinstance(test.left, ast.Name) and isinstance(
            test.comparators[0], ast.Constant) and test.comparators[0].value is None:
        if isinstance(test.ops[0], (ast.Is, ast.Eq)):
            return {test.left.id: NOTHING}, {test.left.id: SOMETHING}
        if isinstance(test.ops[0], (ast.IsNot, ast.NotEq)):
            return {test.left.id: SOMETHING}, {test.left.id: NOTHING}
    return {}, {}


def narrowed(kind, what):
    """The type of a name of which a test tells this; None where it could not be."""
    if kind is None or not is_optional(kind):
        return None if (kind == "NoneType") == (what is SOMETHING) else kind
    return "NoneType" if what is NOTHING else without_none(kind)


def is_optional(kind):
    """Whether values of a type may be None, or something."""
    return kind is not None and kind.startswith("Optional[")


def joined(one, other):
    """The type of a name that has one type on one way and another on the other; None where none is certain."""
    if one == other:
        return one
    if one is None or other is None:
        return None
    kinds = {without_none(kind) for kind in (one, other)} - {"NoneType"}
    may_be_none = "NoneType" in (one, other) or is_optional(one) or is_optional(other)
    return f"Optional[{kinds.pop()}]" if len(kinds) == 1 and may_be_none else None


def takes_none(letter, kind):
    """Whether a value that may be None is given to an argument (of an operator's form) that may not."""
    return is_optional(kind) and not letter.endswith("?")


def is_amiss(letter, kind):
    """Whether a value of a type is certainly none for an argument of an operator's form."""
    if kind is None:
        return False
    if takes_none(letter, kind):
        return True
    one = letter.rstrip("?").partition("[")[0]
    if kind == "str":
        return one in ("T", "f", "b", "N")  # words of nn.functional are numbers of operators
    if letter.startswith("T[") and kind == "Tensor":
        return True
    return letter.rstrip("?") == "T" and taken_apart(kind)[0] in ("List", "Dict", "Tuple")
