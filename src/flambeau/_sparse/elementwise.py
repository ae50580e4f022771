"""Operators on every element: those that keep zeros, sums and products of two tensors, and division by a number."""

from math import prod

from .. import _C
from .._C import Tensor
from ..ops.kinds import OPS
from ..ops.views import broadcast_shape
from .convert import alike, converted
from .rules import RULES, refuse, rule, write
from .tensor import COO, at_places, coalesced, is_sparse, keys, look_up, make, places, values_of

#: f(0) = 0: computed on the values, each place once
_KEEP_ZERO = (
    "abs asin asinh atan atanh ceil deg2rad erf erfinv expm1 floor frac isinf isnan isneginf isposinf log1p rad2deg "
    "relu round sgn sign signbit sin sinh sqrt tan tanh trunc nan_to_num angle square hardshrink softshrink").split()
#: f(a + b) = f(a) + f(b): computed on the values as they are
_LINEAR = ("neg", "positive", "conj", "conj_physical", "real", "imag")


def _map(name, linear):
    op = OPS[name]

    def compute(self, *args, **kwargs):
        if name == "sign" and self.is_complex():
            return refuse("sign", (self,), why=" and complex dtype; sgn is its complex form")
        self = self if linear else coalesced(self)
        return make(self._pattern, op(values_of(self), *args, **kwargs))

    compute.__doc__ = f"{name} of the values."
    RULES[name] = compute


for _name in _KEEP_ZERO:
    if _name in OPS:
        _map(_name, False)
for _name in _LINEAR:
    if _name in OPS:
        _map(_name, True)


def _is_number(x):
    return not isinstance(x, Tensor) or (x.dim() == 0 and not is_sparse(x))


def _each(self, op, *args):
    return make(self._pattern, op(values_of(self), *args))


@rule("clamp")
def _clamp(self, min=None, max=None):
    if isinstance(min, Tensor) or isinstance(max, Tensor) or (min or 0) > 0 or (max or 0) < 0:
        return refuse("clamp", (self,), why=" with bounds that leave zero out, or with tensors as bounds")
    self = coalesced(self)
    return make(self._pattern, OPS["clamp"](values_of(self), min, max))


# --- sums -------------------------------------------------------------------------------------------------------------

@rule("add")
def _add(self, other, *, alpha=1):
    if not isinstance(self, Tensor) or not isinstance(other, Tensor):
        return refuse("add", (self, other), why=" and a number, which makes every element nonzero", kind=RuntimeError)
    if not is_sparse(self) or not is_sparse(other):
        self, other = _one_shape(self, other)
        self, other = (x.to_dense() if is_sparse(x) else x for x in (self, other))
        return OPS["add"](self, other, alpha=alpha)
    if self.shape != other.shape:
        raise RuntimeError(f"add: sparse tensors do not broadcast: expected one shape, got {list(self.shape)} and "
                           f"{list(other.shape)}")
    if self.layout is not other.layout:
        other = converted(other, self._pattern)
    if self.layout is COO:
        return _sum_of_coordinates(self, other, alpha)
    found = _sum_of_coordinates(self.to_sparse_coo(), other.to_sparse_coo(), alpha)
    return alike(coalesced(found), self._pattern)


def _sum_of_coordinates(self, other, alpha):
    if self._pattern.sparse_dim != other._pattern.sparse_dim:
        raise RuntimeError(f"add: the operands have {self._pattern.sparse_dim} and {other._pattern.sparse_dim} sparse "
                           "dimensions; they must have equally many")
    dtype = OPS["add"](self._held[:0], other._held[:0], alpha=alpha).dtype  # refuses a factor that it cannot hold
    values = values_of(self).to(dtype), values_of(other).to(dtype)
    values = values if alpha == 1 else (values[0], values[1] * alpha)
    if self._pattern is other._pattern:
        return make(self._pattern, values[0] + values[1])
    pattern = self._pattern.changed(indices=OPS["cat"]([self._pattern.indices, other._pattern.indices], 1),
                                    coalesced=False)
    found = make(pattern, OPS["cat"](values))
    return coalesced(found) if self._pattern.coalesced and other._pattern.coalesced else found


def _one_shape(self, other):
    """A sparse and a dense tensor, the dense one expanded to the other's shape."""
    sparse, dense = (self, other) if is_sparse(self) else (other, self)
    if dense.shape == sparse.shape:
        return self, other
    if len(dense.shape) >= len(sparse.shape) and dense.numel() > sparse.numel():
        raise RuntimeError(f"add: a sparse tensor of shape {list(sparse.shape)} does not broadcast to "
                           f"{list(dense.shape)}")
    dense = dense.expand(sparse.shape)
    return (sparse, dense) if is_sparse(self) else (dense, sparse)


@rule("add_")
def _add_in_place(self, other, *, alpha=1):
    """A dense tensor is written only where the sparse one has values."""
    if is_sparse(self):
        return write(self, _add(self, other, alpha=alpha), "add_")
    recorded = _C.is_grad_enabled() and (self.requires_grad or other.requires_grad)
    if recorded or self.shape != other.shape or other.layout is not COO or not self.is_contiguous() \
            or self.dtype is not other.dtype or self.dtype is _C.bool or other._pattern.sparse_dim == 0:
        return self.add_(other.to_dense(), alpha=alpha)
    rows = self.detach().view(-1, *self.shape[other._pattern.sparse_dim:])
    rows.index_add_(0, keys(other._pattern), values_of(other), alpha=alpha)
    return self


@rule("sub")
def _sub(self, other, *, alpha=1):
    return _add(self, other, alpha=-alpha)


@rule("sub_")
def _sub_in_place(self, other, *, alpha=1):
    return _add_in_place(self, other, alpha=-alpha)


# --- products ---------------------------------------------------------------------------------------------------------

@rule("mul")
def _mul(self, other):
    if _is_number(other) or _is_number(self):
        sparse, number = (self, other) if _is_number(other) else (other, self)
        return _each(sparse, OPS["mul"], number)
    if not is_sparse(self):
        return _times_dense(other, self)
    if not is_sparse(other):
        return _times_dense(self, other)
    return _times_sparse(self, other)


@rule("mul_")
def _mul_in_place(self, other):
    """A dense tensor becomes zero where the sparse one has no values."""
    return write(self, _mul(self, other), "mul_") if is_sparse(self) else self.mul_(other.to_dense())


def _times_dense(sparse, dense):
    shape = tuple(broadcast_shape([sparse.shape, dense.shape]))
    if shape != sparse.shape:
        sparse = _repeated(sparse, shape)
    return make(sparse._pattern, values_of(sparse) * at_places(dense.expand(shape), sparse._pattern))


def _repeated(x, shape):
    """A COO tensor of that broadcast shape: its places once for each place of the dimensions that it is repeated along.

    A new dimension, and one of size 1 whose places are all 0, gets places; a dense dimension of size 1 is expanded.
    """
    if x.layout is not COO:
        raise RuntimeError(f"mul: a tensor of layout {x.layout} and shape {list(x.shape)} does not broadcast to "
                           f"{list(shape)}; use to_sparse()")
    pattern, lead = x._pattern, len(shape) - x.dim()
    held, n = [None] * lead + list(range(pattern.sparse_dim)), lead + pattern.sparse_dim
    fixed = [d is not None and x.shape[d] == shape[lead + d] for d in held]
    free = [1 if kept else size for kept, size in zip(fixed, shape, strict=False)]
    count = prod(free)
    new = places(OPS["arange"](count, device=x.device), free).repeat_interleave(pattern.count, dim=1)
    indices = OPS["stack"]([pattern.indices[d].repeat(count) if kept else row
                            for d, kept, row in zip(held, fixed, new.unbind(0), strict=True)]) if n else new
    values = values_of(x).expand(pattern.count, *shape[n:])
    values = values.repeat(count, *[1] * len(shape[n:]))
    return coalesced(make(pattern.changed(indices=indices, size=shape, coalesced=False), values)) \
        if pattern.coalesced else make(pattern.changed(indices=indices, size=shape), values)


def _times_sparse(self, other):
    if self.shape != other.shape:
        shape = tuple(broadcast_shape([self.shape, other.shape]))
        self, other = (x if x.shape == shape else _repeated(x, shape) for x in (self, other))
    if self._pattern is other._pattern and self._pattern.coalesced:
        return make(self._pattern, values_of(self) * values_of(other))
    if self.layout is not COO:
        other = other.to_sparse_coo()
        return alike(_times_sparse(self.to_sparse_coo(), other), self._pattern)
    other = other.to_sparse_coo() if other.layout is not COO else other
    if self._pattern.sparse_dim != other._pattern.sparse_dim:
        raise RuntimeError(f"mul: the operands have {self._pattern.sparse_dim} and {other._pattern.sparse_dim} sparse "
                           "dimensions; they must have equally many")
    found, hit = look_up(other, self._pattern)
    at = hit.nonzero().squeeze(1)
    pattern = self._pattern.changed(indices=self._pattern.indices.index_select(1, at))
    return make(pattern, values_of(self).index_select(0, at) * found.index_select(0, at))


@rule("div")
def _div(self, other, *, rounding_mode=None):
    if not is_sparse(self) or not _is_number(other):
        return refuse("div", (self, other), kind=RuntimeError,
                      why=": only a sparse tensor by a number, or a tensor without dimensions")
    self = self if rounding_mode is None else coalesced(self)
    return make(self._pattern, OPS["div"](values_of(self), other, rounding_mode=rounding_mode))


@rule("floor_divide")
def _floor_divide(self, other):
    return _div(self, other, rounding_mode="floor")


@rule("pow")
def _pow(self, exponent):
    if not is_sparse(self) or (isinstance(exponent, Tensor) and exponent.dim()):
        return refuse("pow", (self, exponent), why=": only a sparse tensor to the power of a number")
    if exponent == 0:
        raise RuntimeError("pow: the zeroth power makes every element 1; use flambeau.ones(x.shape)")
    self = coalesced(self)
    return make(self._pattern, OPS["pow"](values_of(self), exponent))
