"""Operators on tensors with open sizes: what is decided before one is asked, and what becomes of its results."""

from .. import _C
from .._symbolic.expressions import constant, expression
from .._symbolic.inference import Question, infer, is_open
from .._symbolic.numbers import SymInt
from .._symbolic.shape_env import GuardOnDataDependentSymNode
from .._symbolic.statements import INFINITE
from .._tensor.overriding import disable_torch_dispatch
from ..ops import OPS
from ..utils._pytree import tree_leaves, tree_unflatten
from .fake import FakeTensor
from .symbolic_tensor import SymbolicTensor

_NO_BOUND = 1 << 62
ROWS = "rows"  #: in a form: the number that only values decide


def run_open(mode, function, args, kwargs, device):
    """The result of an operator, some of whose arguments are open, or whose size only values decide; NotImplemented
    for others."""
    unknown = _UNKNOWN.get(getattr(function, "name", ""))
    form = unknown(*args, **kwargs) if unknown is not None and mode.shape_env.allow_dynamic_output_shape_ops else None
    if form is not None:
        return _unknown(mode, device, form)
    if not any(map(is_open, tree_leaves((args, kwargs)))):
        return NotImplemented
    part = _PARTS.get(getattr(function, "name", ""))
    if part is not None:
        found = part(mode, device, *args, **kwargs)
        if found is not None:
            return found
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


def _slice(mode, device, x, dim=0, start=None, end=None, step=1):
    """On which side of the size each bound lies is decided, as Python does where it clips them. Where only values
    decide that, the part has a size of its own."""
    size = x.shape[dim] if isinstance(x, _C.Tensor) else None
    try:
        for bound in (start, end):
            if bound is None or (isinstance(bound, int) and (abs(bound) >= _NO_BOUND or not bound)):
                continue
            if not isinstance(size, SymInt) and not isinstance(bound, SymInt):
                continue
            if bound < 0:
                bound = -bound
            bool(bound <= size)
    except GuardOnDataDependentSymNode:
        sizes, strides, offset = _form(x)
        dim %= len(sizes)
        sizes[dim] = _of_values(mode.shape_env, "slice", size if isinstance(size, int) else INFINITE)
        strides[dim] = strides[dim] * constant(step)
        begins_later = start is not None and not (isinstance(start, int) and start == 0)
        return _part(mode, device, x, sizes, strides, _of_values(mode.shape_env, "offset") if begins_later else offset)
    return None


def _select(mode, device, x, dim, index):
    """A place that only values decide: where the part begins is not known."""
    if not isinstance(index, SymInt) or mode.shape_env.hint_of(index.node.expr) is not None:
        return None
    sizes, strides, _ = _form(x)
    del sizes[dim], strides[dim]
    return _part(mode, device, x, sizes, strides, _of_values(mode.shape_env, "offset"))


def _form(x):
    """Sizes, strides and offset as expressions."""
    if isinstance(x, SymbolicTensor):
        return list(x.symbolic_sizes), list(x.symbolic_strides), x.symbolic_offset
    return list(map(constant, x.shape)), list(map(constant, x.stride())), constant(x.storage_offset())


def _of_values(env, where, most=INFINITE):
    """A number from 0 on that only values decide."""
    number = env.create_unbacked_symint(where).node
    for symbol in number.expr.free_symbols:
        env.constrain_range(symbol, 0, most)
    return number.expr


def _part(mode, device, x, sizes, strides, offset):
    env = mode.shape_env
    at = [[env.at(e, env.trials()[-1]) for e in row] for row in (sizes, strides)]
    example = OPS["empty_strided"](*at, dtype=x.dtype, device="meta")
    return SymbolicTensor(example, device, mode, tuple(sizes), tuple(strides), offset)


def _unknown(mode, device, form):
    """Tensors without values: (its sizes, dtype) says of each; in the place of `ROWS` is one number, which only values
    decide."""
    env = mode.shape_env
    count = _of_values(env, "rows")

    def made(rest, dtype):
        sizes = tuple(count if n is ROWS else expression(n) for n in rest)
        strides = [constant(1)]
        for n in reversed(sizes[1:]):
            strides.insert(0, strides[0] * n)
        strides = tuple(strides[:len(sizes)])
        example = OPS["empty"]([env.at(e, env.trials()[-1]) for e in sizes], dtype=dtype, device="meta")
        if all(e.is_number for e in sizes):
            return FakeTensor(example, device, mode)
        return SymbolicTensor(example, device, mode, sizes, strides, constant(0))

    return [made(*each) for each in form] if isinstance(form, list) else made(*form)


def _distinct(x, return_inverse, return_counts):
    """The results of the kernels of unique."""
    return [((ROWS,), x.dtype), (tuple(x.shape) if return_inverse else (0,), _C.int64),
            ((ROWS,) if return_counts else (0,), _C.int64)]


_PARTS = {"slice": _slice, "select": _select}
#: {operator: its arguments -> (sizes of the result, dtype), or a tuple or list of such} for results with a size that
#: depends on values
_UNKNOWN = {"nonzero_rows": lambda x: ((ROWS, x.dim()), _C.int64),
            "nonzero_numpy": lambda x: [((ROWS,), _C.int64)] * x.dim(),
            "masked_select": lambda x, mask: ((ROWS,), x.dtype),
            "_bincount": lambda x, weights, minlength: ((ROWS,), _C.int64 if weights is None else weights.dtype),
            "repeat_interleave_index": lambda repeats, output_size=None:
                None if output_size is not None else ((ROWS,), _C.int64),
            "_unique": _distinct, "_without_repeats": lambda x: ((ROWS,), x.dtype)}
#: operators whose results have a shape that depends on values
OF_VALUES = frozenset((*_UNKNOWN, "unique", "bincount", "nonzero", "unique_consecutive"))
