"""Operators over lists of tensors, `_foreach_add_` and its like: the operator itself, once for each tensor."""

from .. import _C
from .._shown import shown
from ..ops.kinds import OPS

_UNARY = """abs acos asin atan ceil cos cosh erf erfc exp expm1 floor frac lgamma log log10 log1p log2 neg reciprocal
round rsqrt sigmoid sign sin sinh sqrt tan tanh trunc"""
_BINARY = "add sub mul div clamp_min clamp_max maximum minimum pow"
_POINTWISE = "addcmul addcdiv"
_WITH_NUMBER = {"maximum": "clamp_min", "minimum": "clamp_max"}  # of a tensor and a number
_ABSENT = object()


def _tensors(op, given, name="self"):
    """A list or tuple of tensors, which must not be empty."""
    if not isinstance(given, list | tuple):
        raise TypeError(f"{op}: the tensors of {name} come in a list or a tuple, not as {shown(given)}")
    for k, tensor in enumerate(given):
        if not isinstance(tensor, _C.Tensor):
            raise TypeError(f"{op}: {name}[{k}] must be a Tensor, got {shown(tensor)}")
    if not given:
        raise RuntimeError(f"{op}: {name} is an empty list; at least one tensor is needed")
    return given


def _paired(op, tensors, others, name):
    """`others`, of which there must be one for each tensor."""
    if len(others) != len(tensors):
        raise RuntimeError(f"{op}: {name} must have one element for each tensor, got {len(others)} for {len(tensors)}")
    return others


def _for_each(op, tensors, given, name):
    """What goes with each tensor: elements of a list; one number or one tensor without dimensions for all."""
    if isinstance(given, list | tuple):
        return _paired(op, tensors, given, name)
    if isinstance(given, _C.Tensor) and given.dim():
        raise RuntimeError(f"{op}: one tensor for all must have no dimensions, got shape {list(given.shape)}; "
                           "give a list with one element for each tensor")
    if not isinstance(given, bool | int | float | complex | _C.Tensor):
        raise TypeError(f"{op}: {name} must be a number, a tensor, or a list of either, got {shown(given)}")
    return [given] * len(tensors)


def _one_of(op, **given):
    """(name, value) of the only argument that is there: the forms of an operator name it differently."""
    there = [(name, value) for name, value in given.items() if value is not _ABSENT]
    if len(there) != 1:
        raise TypeError(f"{op}: expected one of the arguments {', '.join(given)}, got {len(there)}")
    return there[0]


def _call(name, inplace, tensor, *arguments, **options):
    """The operator on one tensor, in place through its own form or by copying where it has none."""
    if not inplace:
        return OPS[name](tensor, *arguments, **options)
    own = getattr(tensor, f"{name}_", None)
    return own(*arguments, **options) if own else tensor.copy_(OPS[name](tensor, *arguments, **options))


def _result(tensors, results, inplace):
    """A tuple of new tensors; in place, the list that was given."""
    results = tuple(results)
    return tensors if inplace else results


#: dtypes of which a launch on a GPU takes many tensors
_REAL = (_C.float32, _C.float64, _C.float16, _C.bfloat16)


def together(tensors):
    """(lists of places of tensors that a GPU's `_norms` and `_scale_all` take together, places of all others)."""
    groups, others, recorded = {}, [], _C.is_grad_enabled()
    for k, x in enumerate(tensors):
        if (x.is_cuda and type(x) is _C.Tensor and x.dtype in _REAL and x.layout is _C.strided
                and not (recorded and x.requires_grad)):
            groups.setdefault((x.dtype, x.device), []).append(k)
        else:
            others.append(k)
    alone = [places[0] for places in groups.values() if len(places) == 1]
    return [places for places in groups.values() if len(places) > 1], sorted(others + alone)


def multiply_(tensors, factor):
    """Every tensor times `factor`, in place; a number on the tensors' GPU multiplies many of them in one launch."""
    groups, others = together(tensors)
    if (type(factor) is not _C.Tensor or factor.dim() or factor.dtype not in _REAL
            or (_C.is_grad_enabled() and factor.requires_grad)):
        groups, others = [], range(len(tensors))
    for places in groups:
        if factor.device != tensors[places[0]].device:
            others = sorted([*others, *places])
            continue
        some = [tensors[k] for k in places]
        if factor.dtype != some[0].dtype:  # of two tensors without dimensions either may be the wider one
            others = sorted([*others, *(k for k in places if not tensors[k].dim())])
            some = [x for x in some if x.dim()]
        OPS["_scale_all"](some, factor)
        for x in some:
            x._bump_version()
    for k in others:
        tensors[k].mul_(factor)
    return tensors


def _unary(name, inplace):
    op = f"_foreach_{name}{'_' * inplace}"

    def foreach(self):
        _tensors(op, self)
        return _result(self, (_call(name, inplace, x) for x in self), inplace)

    return foreach


def _binary(name, inplace):
    op = f"_foreach_{name}{'_' * inplace}"

    def one(x, other, options):
        used = name if isinstance(other, _C.Tensor) else _WITH_NUMBER.get(name, name)
        return _call(used, inplace, x, other, **options)

    def foreach(self, other=_ABSENT, *, scalar=_ABSENT, scalars=_ABSENT, exponent=_ABSENT, alpha=_ABSENT):
        which, given = _one_of(op, other=other, scalar=scalar, scalars=scalars, exponent=exponent)
        if name == "pow" and not inplace and isinstance(self, bool | int | float | complex):
            return tuple(OPS["pow"](self, x) for x in _tensors(op, given, which))
        others = _for_each(op, _tensors(op, self), given, which)
        if name == "mul" and inplace and isinstance(given, _C.Tensor) and alpha is _ABSENT:
            return multiply_(self, given)
        options = {} if alpha is _ABSENT else {"alpha": alpha}
        if options and (name not in ("add", "sub") or not isinstance(others[0], _C.Tensor)):
            raise TypeError(f"{op}: alpha multiplies the tensors that are added, got {shown(given)}")
        return _result(self, [one(x, y, options) for x, y in zip(self, others)], inplace)

    return foreach


def _pointwise(name, inplace):
    op = f"_foreach_{name}{'_' * inplace}"

    def foreach(self, tensor1, tensor2, value=_ABSENT, *, scalars=_ABSENT):
        _tensors(op, self)
        first, second = (_paired(op, self, _tensors(op, t, n), n) for t, n in ((tensor1, "tensor1"),
                                                                               (tensor2, "tensor2")))
        given = 1 if value is scalars is _ABSENT else _one_of(op, value=value, scalars=scalars)[1]
        if isinstance(given, _C.Tensor) and given.dim() == 1:
            given = given.tolist()
        values = _for_each(op, self, given, "scalars")
        return _result(self, [_call(name, inplace, x, a, b, value=v)
                              for x, a, b, v in zip(self, first, second, values)], inplace)

    return foreach


def _lerp(inplace):
    op = f"_foreach_lerp{'_' * inplace}"

    def foreach(self, tensors1, weights=_ABSENT, *, weight=_ABSENT):
        which, given = _one_of(op, weights=weights, weight=weight)
        ends = _paired(op, _tensors(op, self), _tensors(op, tensors1, "tensors1"), "tensors1")
        each = _for_each(op, self, given, which)
        return _result(self, [_call("lerp", inplace, x, y, w) for x, y, w in zip(self, ends, each)], inplace)

    return foreach


def _foreach_zero_(self):
    """Every tensor becomes zero."""
    for x in _tensors("_foreach_zero_", self):
        x.zero_()
    return self


def _foreach_copy_(self, src, non_blocking=False):
    """Every tensor takes the values of its partner in `src`."""
    for x, y in zip(self, _paired("_foreach_copy_", _tensors("_foreach_copy_", self), src, "src")):
        x.copy_(y, non_blocking)
    return self


def _foreach_clone(self, *, memory_format=None):
    """A copy of every tensor."""
    options = {} if memory_format is None else {"memory_format": memory_format}
    return tuple(x.clone(**options) for x in _tensors("_foreach_clone", self))


def _foreach_norm(self, ord=2, dtype=None):
    """The vector norm of every tensor."""
    tensors = _tensors("_foreach_norm", self)
    groups, others = together(tensors) if dtype is None else ([], range(len(tensors)))
    norms = {k: OPS["vector_norm"](tensors[k], ord, dtype=dtype) for k in others}
    for places in groups:
        norms.update(zip(places, OPS["_norms"]([tensors[k] for k in places], ord).unbind()))
    return tuple(norms[k] for k in range(len(tensors)))


def _foreach_powsum(self, ord=2, dtype=None):
    """The sum of |x|^ord over every tensor."""
    return tuple(x.abs().pow(ord).sum(dtype=dtype) for x in _tensors("_foreach_powsum", self))


def _foreach_max(self):
    """The largest element of every tensor."""
    return tuple(x.max() for x in _tensors("_foreach_max", self))


def _foreach_mm(self, mat2):
    """The matrix product of every tensor with its partner."""
    others = _paired("_foreach_mm", _tensors("_foreach_mm", self), _tensors("_foreach_mm", mat2, "mat2"), "mat2")
    return tuple(OPS["mm"](x, y) for x, y in zip(self, others))


def _define(make, names):
    for name in names.split():
        for inplace in (False, True):
            function = make(name, inplace)
            function.__name__ = function.__qualname__ = f"_foreach_{name}{'_' * inplace}"
            function.__doc__ = f"{name}{' in place' * inplace} for every tensor of a list."
            globals()[function.__name__] = function


_define(_unary, _UNARY)
_define(_binary, _BINARY)
_define(_pointwise, _POINTWISE)
_define(lambda name, inplace: _lerp(inplace), "lerp")
