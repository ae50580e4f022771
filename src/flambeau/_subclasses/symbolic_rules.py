"""Operators on tensors with open sizes: what is decided before one is asked, and what becomes of its results."""

import math

from .. import _C
from .._symbolic.expressions import constant
from .._symbolic.inference import Question, infer, is_open
from .._symbolic.numbers import SymInt
from .._symbolic.statements import INFINITE
from .._tensor.overriding import disable_torch_dispatch
from ..ops import OPS
from ..utils._pytree import tree_leaves, tree_unflatten
from .fake import FakeTensor
from .symbolic_tensor import SymbolicTensor

_NO_BOUND = 1 << 62


def run_open(mode, function, args, kwargs, device):
    """The result of an operator, some of whose arguments are open, or whose size only values decide; NotImplemented
    for others."""
    unknown = _UNKNOWN.get(getattr(function, "name", ""))
    if unknown is not None and mode.shape_env.allow_dynamic_output_shape_ops:
        return _unknown(mode, device, *unknown(*args, **kwargs))
    if not any(map(is_open, tree_leaves((args, kwargs)))):
        return NotImplemented
    decide = _DECISIONS.get(getattr(function, "name", ""))
    if decide is not None:
        decide(*args, **kwargs)
    question = Question(mode.shape_env, function, args, kwargs, mode._inner)
    with disable_torch_dispatch():
        inputs, leaves, found, spec = infer(question)
    given = {id(x): leaf for x, leaf in zip(inputs, question.leaves, strict=True)}

    def wrapped(leaf, described):
        if id(leaf) in given:
            return given[id(leaf)]
        if described is None:
            return leaf
        if all(e.is_number for e in (*described.sizes, *described.strides, described.offset)):
            return FakeTensor(leaf, device, mode)
        return SymbolicTensor(leaf, device, mode, described.sizes, described.strides, described.offset)

    return tree_unflatten([wrapped(leaf, d) for leaf, d in zip(leaves, found, strict=True)], spec)


def _slice(x, dim=0, start=None, end=None, *_):
    """On which side of the size each bound lies is decided, as Python does where it clips them."""
    size = x.shape[dim] if isinstance(x, _C.Tensor) else None
    for bound in (start, end):
        if bound is None or (isinstance(bound, int) and (abs(bound) >= _NO_BOUND or not bound)):
            continue
        if not isinstance(size, SymInt) and not isinstance(bound, SymInt):
            continue
        if bound < 0:
            bound = -bound
        bool(bound <= size)


def _unknown(mode, device, rest, dtype):
    """A tensor of as many rows as values say, each of the sizes `rest`; a list of them for a list."""
    env = mode.shape_env
    count = env.create_unbacked_symint("rows").node.expr
    env.constrain_range(next(iter(count.free_symbols)), 0, INFINITE)

    def rows(rest):
        sizes = (count, *map(constant, rest))
        strides = (constant(math.prod(rest)), *(constant(1) for _ in rest))
        example = OPS["empty"]([env.at(e, env.trials()[-1]) for e in sizes], dtype=dtype, device="meta")
        return SymbolicTensor(example, device, mode, sizes, strides, constant(0))

    return [rows(each) for each in rest] if isinstance(rest, list) else rows(rest)


_DECISIONS = {"slice": _slice}
#: {operator: its arguments -> (sizes of a row of the result, dtype)} for results whose number of rows depends on values
_UNKNOWN = {"nonzero_rows": lambda x: ((x.dim(),), _C.int64), "nonzero_numpy": lambda x: ([()] * x.dim(), _C.int64),
            "masked_select": lambda x, mask: ((), x.dtype)}

