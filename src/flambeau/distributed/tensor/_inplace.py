"""Operators in place whose derivatives need the values that they write over: computed apart, and then copied in."""

from ... import _C
from ...ops.kinds import OPS

_saving = {}  # operator -> whether a derivative needs its first argument


def _saves_first(op):
    if op not in _saving:
        codes = [getattr(rule, "__code__", None) for rule in (op.rules or {}).values()]
        first = op.arguments[0][0] if op.arguments else ""
        _saving[op] = any(code is not None and first in code.co_varnames[:code.co_argcount] for code in codes)
    return _saving[op]


def _apart(func, kwargs):
    """The operator that makes a new tensor; None where this one does."""
    if getattr(func, "is_inplace", False):
        return OPS.get(func.name.removesuffix("_")) if func.name.endswith("_") else None
    return func if kwargs.get("inplace") is True else None


def needs_old_values(func, args, kwargs):
    """Whether a call writes over what its derivative needs."""
    op = _apart(func, kwargs)
    if op is None or not isinstance(op, _C.Op) or op.kind == "composite" or not _saves_first(op):
        return False
    return any(isinstance(x, _C.Tensor) and x.requires_grad for x in (*args, *kwargs.values()))


def written_over(func, args, kwargs):
    """The same in two steps, so that the old values stay."""
    target = args[0] if args else kwargs[func.arguments[0][0]]
    options = {name: value for name, value in kwargs.items() if name not in ("inplace", func.arguments[0][0])}
    return target.copy_(_apart(func, kwargs)(target.clone(), *args[1:], **options))
