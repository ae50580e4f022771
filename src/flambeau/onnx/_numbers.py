"""Sizes and other numbers of a program that are open, as tensors of one element."""

import math
import operator

from .. import _C
from .._symbolic import numbers
from ._emitter import Unavailable
from ._graph import Value


def _dtype(x):
    if isinstance(x, Value):
        return x.dtype
    return _C.bool if isinstance(x, bool) else _C.int64 if isinstance(x, int) else _C.float64


def _made(g, x, dtype):
    """A number as a tensor of one element."""
    if isinstance(x, Value):
        x = x if x.shape == (1,) else g.reshape(x, [1])
        return g.cast(x, dtype)
    return g.reshape(g.scalar(x, dtype), [1])


def _both(g, a, b):
    dtypes = {_dtype(a), _dtype(b)}
    dtype = _C.float64 if _C.float64 in dtypes else _C.int64
    return _made(g, a, dtype), _made(g, b, dtype)


def _op(kind):
    return lambda g, a, b: g.number(g.op(kind, *_both(g, a, b)))


def _floordiv(g, a, b):
    a, b = _both(g, a, b)
    if a.dtype is _C.float64:
        return g.number(g.op("Floor", g.op("Div", a, b)))
    return g.number(g.op("Div", g.op("Sub", a, g.op("Mod", a, b)), b))


def _mod(g, a, b):
    a, b = _both(g, a, b)
    if a.dtype is _C.float64:
        raise Unavailable("the remainder of an open float is not written")
    return g.number(g.op("Mod", a, b))


def _truediv(g, a, b):
    return g.number(g.op("Div", _made(g, a, _C.float64), _made(g, b, _C.float64)))


def _rounded(kind):
    def translation(g, x):
        x = _made(g, x, _C.float64)
        return g.number(g.cast(g.op(kind, x) if kind else x, _C.int64))
    return translation


def _logic(kind):
    return lambda g, a, b: g.number(g.op(kind, _made(g, a, _C.bool), _made(g, b, _C.bool)))


def _total(g, terms):
    found = 0
    for term in terms:
        found = _op("Add")(g, found, term)
    return found


def _chosen(g, condition, a, b):
    return g.number(g.op("Where", _made(g, condition, _C.bool), *_both(g, a, b)))


#: what a graph computes with sizes
TABLE = {
    operator.add: _op("Add"), operator.sub: _op("Sub"), operator.mul: _op("Mul"), operator.floordiv: _floordiv,
    operator.mod: _mod, operator.truediv: _truediv,
    operator.pow: lambda g, a, b: g.number(g.op("Pow", _made(g, a, _C.float64), _made(g, b, _C.float64))),
    operator.neg: lambda g, a: g.number(g.op("Neg", _made(g, a, _dtype(a)))),
    operator.pos: lambda g, a: a,
    operator.abs: lambda g, a: g.number(g.op("Abs", _made(g, a, _dtype(a)))),
    operator.lt: _op("Less"), operator.le: _op("LessOrEqual"), operator.gt: _op("Greater"),
    operator.ge: _op("GreaterOrEqual"), operator.eq: _op("Equal"),
    operator.ne: lambda g, a, b: g.number(g.op("Not", g.op("Equal", *_both(g, a, b)))),
    operator.and_: _logic("And"), operator.or_: _logic("Or"),
    numbers.sym_max: _op("Max"), numbers.sym_min: _op("Min"), numbers.sym_sum: _total, numbers.sym_ite: _chosen,
    numbers.sym_not: lambda g, a: g.number(g.op("Not", _made(g, a, _C.bool))),
    numbers.sym_float: lambda g, a: g.number(_made(g, a, _C.float64)),
    numbers.sym_int: _rounded(None), math.trunc: _rounded(None), math.floor: _rounded("Floor"),
    math.ceil: _rounded("Ceil"), round: _rounded("Round"),
    numbers.sym_sqrt: lambda g, a: g.number(g.op("Sqrt", _made(g, a, _C.float64))),
    math.sqrt: lambda g, a: g.number(g.op("Sqrt", _made(g, a, _C.float64))),
}


def is_integral(function, args):
    """Whether Python's power of these is an int."""
    return function is operator.pow and all(_dtype(a) is _C.int64 for a in args)


def computed(g, function, args):
    """A number that is computed of numbers; Python's own where all are known."""
    if not any(isinstance(a, Value) for a in args) and not any(isinstance(a, (list, tuple)) for a in args):
        return function(*args)
    made = TABLE[function](g, *args)
    return g.number(g.cast(made, _C.int64)) if is_integral(function, args) and not _negative(args) else made


def _negative(args):
    return not isinstance(args[1], Value) and args[1] < 0
