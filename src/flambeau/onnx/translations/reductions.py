"""Sums, means, extremes, variances, and what runs along a dimension."""

import math

from ... import _C
from .._emitter import sizes
from .._graph import Value
from ._table import entry, translates
from .pointwise import common, operands


def dims_of(dim, rank):
    """Dimensions as a list; None: all of them."""
    if dim is None or (isinstance(dim, (tuple, list)) and not dim):
        return list(range(rank))
    return [d % rank if rank else 0 for d in (dim if isinstance(dim, (tuple, list)) else [dim])]


def reduced(g, kind, x, dim=None, keepdim=False):
    """A reduction of ONNX; a tensor without dimensions stays."""
    if not x.rank:
        return x if kind not in ("ReduceL1", "ReduceL2") else g.op("Abs", x)
    dims = dims_of(dim, x.rank)
    whole = len(dims) == x.rank
    made = g.op(kind, x, None if whole else g.ints(dims), keepdims=int(keepdim))
    shape = [1 if d in dims else n for d, n in enumerate(x.shape) if keepdim or d not in dims]
    return g.shaped(made, tuple(shape))


def count_of(g, x, dim, dtype):
    """How many elements are reduced: a number of this dtype."""
    product = g.times(*(g.size(x, d) for d in dims_of(dim, x.rank)))
    return g.of(product, dtype)


def is_half(dtype):
    """Whether sums of this dtype are kept in float32."""
    return dtype in (_C.float16, _C.bfloat16)


def _simple(kind):
    """Sums of halves are kept in float32."""
    def translation(g, self, dim=None, keepdim=False, *, dtype=None):
        x, = operands(g, self)
        if is_half(x.dtype):
            x = g.cast(x, _C.float32)
        return reduced(g, kind, x, dim, keepdim)
    return translation


for _name, _kind in {"sum": "ReduceSum", "mean": "ReduceMean", "prod": "ReduceProd"}.items():
    entry(_name, _simple(_kind))


@translates("nansum")
def nansum(g, self, dim=None, keepdim=False, *, dtype=None):
    x, = operands(g, self)
    if x.dtype.is_floating_point:
        x = g.shaped(g.op("Where", g.op("IsNaN", x), g.scalar(0.0, x.dtype), x), x.shape)
    return reduced(g, "ReduceSum", x, dim, keepdim)


def extreme(g, kind, x, dim=None, keepdim=False):
    """The largest or smallest; of bools as numbers. A NaN among the elements is the result, which runtimes of ONNX
    do not promise of ReduceMax."""
    if x.dtype is _C.bool:
        return g.cast(reduced(g, kind, g.cast(x, _C.int32), dim, keepdim), _C.bool)
    return reduced(g, kind, x, dim, keepdim)


for _name, _kind in {"amax": "ReduceMax", "amin": "ReduceMin"}.items():
    entry(_name, lambda g, self, dim=None, keepdim=False, kind=_kind: extreme(g, kind, self, dim, keepdim))


@translates("aminmax")
def aminmax(g, self, *, dim=None, keepdim=False):
    return [extreme(g, kind, self, dim, keepdim) for kind in ("ReduceMin", "ReduceMax")]


@translates("any", "all")
def truth(g, self, dim=None, keepdim=False):
    x = g.cast(self, _C.bool)
    if dim is not None and not isinstance(dim, int) and not dim:
        return x
    return extreme(g, "ReduceMax" if g.kind == "any" else "ReduceMin", x, dim, keepdim)


def _place(g, kind, x, dim, keepdim):
    if x.dtype is _C.bool or not x.dtype.is_floating_point:
        x = g.cast(x, _C.int32 if x.dtype is not _C.int64 else _C.int64)
    if not x.rank:
        return g.scalar(0, _C.int64)
    if dim is None:
        place = g.op(kind, g.op("Reshape", x, [-1]), axis=0, keepdims=0)
        return g.reshape(place, [1] * x.rank) if keepdim else place
    return g.op(kind, x, axis=dim % x.rank, keepdims=int(keepdim))


@translates("argmax")
def argmax(g, self, dim=None, keepdim=False):
    return _place(g, "ArgMax", self, dim, keepdim)


@translates("argmin")
def argmin(g, self, dim=None, keepdim=False):
    return _place(g, "ArgMin", self, dim, keepdim)


@translates("max", "min")
def extremes(g, self, dim=None, keepdim=False):
    """max(x), max(x, dim) and max(x, other) by their arguments."""
    name = "Max" if g.kind == "max" else "Min"
    if isinstance(dim, Value):
        return g.op(name, *operands(g, self, dim))
    if not isinstance(g.out, (tuple, list)):
        return extreme(g, f"Reduce{name}", self)
    return [extreme(g, f"Reduce{name}", self, dim, keepdim), _place(g, f"Arg{name}", self, dim, keepdim)]


@translates("logsumexp")
def logsumexp(g, self, dim, keepdim=False):
    """The largest is taken out first, unless it is infinite."""
    x, = operands(g, self)
    high = reduced(g, "ReduceMax", x, dim, True)
    high = g.shaped(g.op("Where", g.op("IsInf", high), g.scalar(0.0, x.dtype), high), high.shape)
    total = reduced(g, "ReduceSum", g.shaped(g.op("Exp", g.op("Sub", x, high)), x.shape), dim, True)
    found = g.op("Add", g.op("Log", total), high)
    return found if keepdim or not x.rank else g.squeeze(found, *dims_of(dim, x.rank))


def variance(g, x, dim, correction, keepdim):
    """(mean with its dimensions, sum of squares of what is left over the number less the correction)."""
    mean = reduced(g, "ReduceMean", x, dim, True)
    rest = g.op("Sub", x, mean)
    square = g.shaped(g.op("Mul", rest, rest), x.shape)
    correction = 1 if correction is None else correction
    if not correction:
        return mean, reduced(g, "ReduceMean", square, dim, keepdim)
    total = reduced(g, "ReduceSum", square, dim, keepdim)
    count = g.times(*(g.size(x, d) for d in dims_of(dim, x.rank)))
    if isinstance(count, int):
        return mean, g.op("Div", total, g.scalar(max(count - correction, 0), x.dtype))
    count = g.op("Sub", g.of(count, x.dtype), g.scalar(correction, x.dtype))
    return mean, g.op("Div", total, g.op("Max", count, g.scalar(0, x.dtype)))


@translates("var", "std", "var_mean", "std_mean")
def spread(g, self, dim=None, correction=None, keepdim=False, unbiased=None):
    if isinstance(dim, bool):
        dim, unbiased = None, dim
    if unbiased is not None:
        correction = int(unbiased)
    x = g.cast(self, _C.float32) if is_half(self.dtype) else self
    mean, var = variance(g, x, dim, correction, keepdim)
    found = g.op("Sqrt", var) if g.kind.startswith("std") else var
    if not g.kind.endswith("mean"):
        return found
    return [found, mean if keepdim or not x.rank else g.squeeze(mean, *dims_of(dim, x.rank))]


@translates("_vector_norm")
def vector_norm(g, self, ord, dim, keepdim, dtype):
    x, = operands(g, self)
    if ord == 1 or ord == 2:
        return reduced(g, f"ReduceL{int(ord)}", x, dim, keepdim)
    x = g.shaped(g.op("Abs", x), x.shape)
    if math.isinf(ord):
        return reduced(g, "ReduceMax" if ord > 0 else "ReduceMin", x, dim, keepdim)
    if ord == 0:
        some = g.cast(g.op("Not", g.op("Equal", x, g.scalar(0, x.dtype))), x.dtype)
        return reduced(g, "ReduceSum", g.shaped(some, x.shape), dim, keepdim)
    total = reduced(g, "ReduceSum", g.shaped(g.op("Pow", x, g.scalar(ord, x.dtype)), x.shape), dim, keepdim)
    return g.op("Pow", total, g.scalar(1 / ord, x.dtype))


# ---- along a dimension -----------------------------------------------------------------------------------------------

@translates("cumsum")
def cumsum(g, self, dim, *, dtype=None):
    x, = operands(g, self)
    if not x.rank:
        return x
    x = g.cast(x, _C.int64 if not x.dtype.is_floating_point else _C.float32 if is_half(x.dtype) else x.dtype)
    return g.op("CumSum", x, dim % self.rank)


def scanned(g, x, dim, step, first):
    """Results of a Scan along a dimension: step(inner, carried, x) gives what is carried on, each of which is a result
    too; `first` are the values that are carried at the beginning."""
    inner = g.inside()
    rest = tuple(n for d, n in enumerate(x.shape) if d != dim)
    carried = [inner.input("carried", v.dtype, rest) for v in first]
    given = inner.input("given", x.dtype, rest)
    after = step(inner, carried, given)
    inner.graph.outputs = [*after, *(inner.op("Identity", v) for v in after)]
    found = g.op("Scan", *first, x, body_g=inner.graph, num_scan_inputs=1, scan_input_axes=[dim],
                 scan_output_axes=[dim] * len(first), outputs=2 * len(first))
    for value, begun in zip(found, [*first, *first], strict=True):
        value.dtype = begun.dtype
    return found[len(first):]


def beginning(g, x, dim, number, dtype=None):
    """A tensor of this number in the sizes of a slice of x."""
    dtype = x.dtype if dtype is None else dtype
    rest = [g.size(x, d) for d in range(x.rank) if d != dim]
    return g.shaped(g.expand(g.scalar(number, dtype), rest), tuple(n for d, n in enumerate(x.shape) if d != dim))


@translates("cumprod")
def cumprod(g, self, dim, *, dtype=None):
    x, = operands(g, self)
    if not x.rank or 0 in x.shape:
        return x
    dim %= x.rank
    return scanned(g, x, dim, lambda h, c, v: [h.op("Mul", c[0], v)], [beginning(g, x, dim, 1)])[0]


@translates("logcumsumexp")
def logcumsumexp(g, self, dim):
    x, = operands(g, self)
    if not x.rank or 0 in x.shape:
        return x
    dim %= x.rank

    def step(h, carried, v):
        high, low = h.op("Max", carried[0], v), h.op("Min", carried[0], v)
        same = h.op("Equal", high, low)
        rest = h.op("Where", same, h.scalar(0.0, x.dtype), h.op("Sub", low, high))
        one = h.scalar(1.0, x.dtype)
        found = h.op("Add", high, h.op("Log", h.op("Add", one, h.op("Exp", rest))))
        return [h.op("Where", h.op("IsInf", high), high, found)]

    return scanned(g, x, dim, step, [beginning(g, x, dim, -math.inf)])[0]


@translates("cummax", "cummin")
def cumulative_extreme(g, self, dim):
    """(values, places): a later element that is equal takes the place."""
    x = self if self.dtype is not _C.bool else g.shaped(g.cast(self, _C.int32), self.shape)
    if not x.rank:
        return [self, g.scalar(0, _C.int64)]
    if 0 in x.shape:
        return [self, g.cast(self, _C.int64)]
    dim %= x.rank
    compare = "GreaterOrEqual" if g.kind == "cummax" else "LessOrEqual"
    first = g.shaped(g.op("Gather", x, 0, axis=dim), tuple(n for d, n in enumerate(x.shape) if d != dim))
    places = beginning(g, x, dim, 0, _C.int64)

    def step(h, carried, v):
        best, place, now = carried
        better = h.op(compare, v, best)
        if x.dtype.is_floating_point:
            better = h.op("Or", better, h.op("IsNaN", v))
        return [h.op("Where", better, v, best), h.op("Where", better, now, place),
                h.op("Add", now, h.scalar(1, _C.int64))]

    values, indices, _ = scanned(g, x, dim, step, [first, places, places])
    return [g.cast(values, self.dtype), indices]


# ---- order -----------------------------------------------------------------------------------------------------------

def top(g, x, k, dim, largest=True, ordered=True):
    """TopK, in a dtype that it takes."""
    wide = x.dtype
    if wide is _C.bool or (not wide.is_floating_point and wide not in (_C.int32, _C.int64)):
        x = g.shaped(g.cast(x, _C.int32), x.shape)
    values, places = g.op("TopK", x, g.listed([k]), axis=dim, largest=int(largest), sorted=int(ordered), outputs=2)
    places.dtype = _C.int64
    return g.cast(values, wide), places


def _scalar_order(g, self):
    return [self, g.scalar(0, _C.int64)]


@translates("sort")
def sort(g, self, dim=-1, descending=False, stable=False):
    if not self.rank:
        return _scalar_order(g, self)
    return list(top(g, self, g.size(self, dim), dim % self.rank, descending))


@translates("topk")
def topk(g, self, k, dim=-1, largest=True, sorted=True):
    if not self.rank:
        return _scalar_order(g, self)
    return list(top(g, self, k, dim % self.rank, largest, sorted))


@translates("kthvalue")
def kthvalue(g, self, k, dim=-1, keepdim=False):
    if not self.rank:
        return _scalar_order(g, self)
    dim %= self.rank
    parts = [g.slice(v, -1, 2 ** 63 - 1, dim) for v in top(g, self, k, dim, False)]
    return parts if keepdim else [g.squeeze(v, dim) for v in parts]


@translates("median")
def median(g, self, dim=None, keepdim=False):
    """The lower of the two in the middle. (NaNs are sorted to the end, as runtimes of ONNX do.)"""
    if not self.rank:
        return self if dim is None else _scalar_order(g, self)
    whole = not isinstance(g.out, (tuple, list))
    x = g.reshape(self, [-1]) if whole else self
    size = g.times(*(g.size(self, d) for d in range(self.rank))) if whole else g.size(self, dim)
    if isinstance(size, int):
        k = (size + 1) // 2
    else:
        k = g.arithmetic("Div", g.arithmetic("Add", size, 1), 2)
    axis = 0 if whole else dim % self.rank
    parts = [g.slice(v, -1, 2 ** 63 - 1, axis) for v in top(g, x, k, axis, False)]
    if whole:
        return g.squeeze(parts[0], 0)
    return parts if keepdim else [g.squeeze(v, axis) for v in parts]


@translates("_unique")
def unique(g, self, return_inverse, return_counts):
    x = g.cast(self, _C.int64) if not self.dtype.is_floating_point else self
    values, _, inverse, counts = g.op("Unique", g.reshape(x, [-1]), sorted=1, outputs=4)
    for v in (inverse, counts):
        v.dtype = _C.int64
    wanted = list(sizes(g.out[1]))
    if return_inverse and all(isinstance(n, int) for n in wanted):
        inverse = g.reshape(inverse, wanted)
    elif return_inverse:
        inverse = g.op("Reshape", inverse, g.full_shape(self))
    empty = g.ints([])
    return [values, inverse if return_inverse else empty, counts if return_counts else empty]


@translates("_searchsorted")
def searchsorted(g, sorted_sequence, self, out_int32, right):
    """How many elements of the row are less than (or equal to) each value."""
    kind = "LessOrEqual" if right else "Less"
    (row, x), _ = common(g, sorted_sequence, self)
    row = row if sorted_sequence.rank == 1 else g.unsqueeze(row, sorted_sequence.rank - 1)
    before = g.op(kind, row, g.unsqueeze(x, self.rank))
    return g.op("ReduceSum", g.cast(before, _C.int64), [-1], keepdims=0)


@translates("nanmedian")
def nanmedian(g, self, dim=None, keepdim=False):
    """The median of what is no NaN: NaNs are sorted behind all numbers, and the place depends on how many there are."""
    whole = not isinstance(g.out, (tuple, list))
    if not self.rank:
        return self if whole else _scalar_order(g, self)
    if not self.dtype.is_floating_point:
        return median(g, self, dim, keepdim)
    x = g.reshape(self, [-1]) if whole else self
    axis = 0 if whole else dim % self.rank
    size = g.times(*(g.size(self, d) for d in range(self.rank))) if whole else g.size(self, axis)
    absent = g.op("IsNaN", x)
    count = g.op("ReduceSum", g.cast(g.op("Not", absent), _C.int64), [axis], keepdims=1)
    place = g.op("Div", g.op("Sub", count, g.scalar(1, _C.int64)), g.scalar(2, _C.int64))
    place = g.op("Max", place, g.scalar(0, _C.int64))
    filled = g.shaped(g.op("Where", absent, g.scalar(math.inf, x.dtype), x), x.shape)
    _, order = top(g, filled, size, axis, False)
    chosen = g.op("GatherElements", order, place, axis=axis)
    value = g.op("GatherElements", x, chosen, axis=axis)
    if whole:
        return g.squeeze(value, 0)
    return [value, chosen] if keepdim else [g.squeeze(value, axis), g.squeeze(chosen, axis)]
