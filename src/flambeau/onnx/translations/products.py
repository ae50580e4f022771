"""Matrix products, layers made of them, and distances."""

import math

from ... import _C
from .._emitter import Unavailable
from .._graph import Value
from ._table import entry, translates
from .pointwise import binary


def product(g, a, b):
    """MatMul."""
    return g.op("MatMul", a, b)


for _name in ("mm", "bmm", "mv", "dot", "matmul", "_int_mm"):
    entry(_name, lambda g, self, other: product(g, *((self, other) if g.kind != "_int_mm" else (
        g.cast(self, _C.int32), g.cast(other, _C.int32)))))


@translates("linear")
def linear(g, input, weight, bias=None):
    if input.rank == 2 and bias is not None and bias.rank == 1 and weight.rank == 2:
        return g.op("Gemm", input, weight, bias, transB=1)
    if weight.rank == 1:
        found = product(g, input, weight)
    else:
        found = product(g, input, g.permute(weight, [1, 0]))
    return found if bias is None else g.op("Add", found, bias)


@translates("_linears")
def linears(g, input, weights, biases):
    return [linear(g, input, w, b) for w, b in zip(weights, biases, strict=True)]


def _number(x):
    return not isinstance(x, Value)


@translates("addmm")
def addmm(g, self, mat1, mat2, *, beta=1, alpha=1):
    if _number(beta) and _number(alpha) and g.dtype.is_floating_point and self.rank <= 2:
        if mat2.node is not None and mat2.node.kind == "Transpose":
            return g.op("Gemm", mat1, mat2.node.inputs[0], self, alpha_f=alpha, beta_f=beta, transB=1)
        return g.op("Gemm", mat1, mat2, self, alpha_f=alpha, beta_f=beta)
    return _combined(g, self, product(g, mat1, mat2), beta, alpha)


@translates("baddbmm")
def baddbmm(g, self, batch1, batch2, *, beta=1, alpha=1):
    return _combined(g, self, product(g, batch1, batch2), beta, alpha)


def _combined(g, self, found, beta, alpha):
    """beta self + alpha found; with beta = 0 what is in self does not matter."""
    if alpha != 1:
        found = binary(g, "Mul", found, alpha)
    if _number(beta) and beta == 0:
        return found
    return binary(g, "Add", self if beta == 1 else binary(g, "Mul", self, beta), found)


@translates("einsum")
def einsum(g, equation, *operands):
    """Einsum takes the equation as it is."""
    operands = operands[0] if len(operands) == 1 and isinstance(operands[0], (tuple, list)) else operands
    return g.op("Einsum", *(g.cast(x, g.dtype) for x in operands), equation=equation.replace(" ", ""))


@translates("_cdist")
def cdist(g, x1, x2, p, by_product):
    """Distances of all pairs of rows."""
    a, b = g.unsqueeze(x1, x1.rank - 1), g.unsqueeze(x2, x2.rank - 2)
    return _norm_of(g, g.op("Sub", a, b), p, x1.rank)


def _norm_of(g, difference, p, axis):
    if p in (1, 2):
        return g.op(f"ReduceL{int(p)}", difference, [axis], keepdims=0)
    size, dtype = g.op("Abs", difference), difference.dtype
    if math.isinf(p):
        return g.op("ReduceMax", size, [axis], keepdims=0)
    if p == 0:
        some = g.cast(g.op("Greater", size, g.scalar(0, dtype)), dtype)
        return g.op("ReduceSum", some, [axis], keepdims=0)
    total = g.op("ReduceSum", g.op("Pow", size, g.scalar(p, dtype)), [axis], keepdims=0)
    return g.op("Pow", total, g.scalar(1 / p, dtype))


@translates("_pdist")
def pdist(g, self, p):
    n = self.shape[0]
    if not isinstance(n, int):
        raise Unavailable("pdist of an open number of rows; use cdist")
    pairs = [(i, j) for i in range(n) for j in range(i + 1, n)]
    first = g.op("Gather", self, [i for i, _ in pairs], axis=0)
    second = g.op("Gather", self, [j for _, j in pairs], axis=0)
    return _norm_of(g, g.op("Sub", first, second), p, 1)


@translates("_linalg_det")
def det(g, A):
    """The first result; the others, which only derivatives need, are not written."""
    return [g.op("Det", A), None, None]


@translates("_weight_int8pack_mm")
def weight_int8pack_mm(g, self, mat2, scales):
    weight = g.permute(g.shaped(g.cast(mat2, self.dtype), mat2.shape), [1, 0])
    return g.op("Mul", g.op("MatMul", self, weight), g.cast(scales, self.dtype))


@translates("_linalg_slogdet")
def slogdet(g, A):
    """The sign and the logarithm of the determinant; the others, which only derivatives need, are not written."""
    found = g.op("Det", A)
    return [g.op("Sign", found), g.op("Log", g.op("Abs", found)), None, None]


@translates("embedding_bag")
def embedding_bag(g, input, weight, offsets=None, max_norm=None, norm_type=2.0, scale_grad_by_freq=False, mode="mean",
                  sparse=False, per_sample_weights=None, include_last_offset=False, padding_idx=None):
    """Rows of the bags, each reduced: of a 2-d input along its rows; else by a matrix that says which row is in which
    bag."""
    if max_norm is not None:
        raise Unavailable("embedding_bag with max_norm writes into its weight; renormalize before the export")
    dtype, index = weight.dtype, g.cast(input, _C.int64)
    index.shape = input.shape
    keep = None
    if padding_idx is not None:
        rows = weight.shape[0]
        keep = g.op("Not", g.op("Equal", index, g.scalar(padding_idx % rows, _C.int64)))
    picked = g.op("Gather", weight, index, axis=0)
    if per_sample_weights is not None:
        picked = g.op("Mul", picked, g.unsqueeze(per_sample_weights, input.rank))
    if input.rank == 2:
        return _bag(g, picked, keep, mode, dtype)
    starts = g.cast(offsets, _C.int64)
    if include_last_offset:
        ends, starts = g.slice(starts, 1, 2 ** 63 - 1, 0), g.slice(starts, 0, -1, 0)
    else:
        ends = g.op("Concat", g.slice(starts, 1, 2 ** 63 - 1, 0), g.listed([g.size(input, 0)]), axis=0)
    every = g.op("Range", g.scalar(0, _C.int64), g.op("Size", input), g.scalar(1, _C.int64))
    inside = g.op("And", g.op("GreaterOrEqual", every, g.unsqueeze(starts, 1)),
                  g.op("Less", every, g.unsqueeze(ends, 1)))
    inside = inside if keep is None else g.op("And", inside, keep)
    return _bag(g, g.unsqueeze(picked, 0), inside, mode, dtype)


def _bag(g, rows, inside, mode, dtype):
    """Rows [bags or 1, rows, features], of which `inside` [bags, rows] says which count (None: all), reduced."""
    if mode == "max":
        if inside is None:
            return g.op("ReduceMax", rows, [1], keepdims=0)
        some = g.unsqueeze(g.op("ReduceMax", g.cast(inside, _C.int32), [1], keepdims=1), 2)
        low = g.op("Where", g.unsqueeze(inside, 2), rows, g.scalar(-math.inf, dtype))
        found = g.op("Where", g.cast(some, _C.bool), g.op("ReduceMax", low, [1], keepdims=1), g.scalar(0.0, dtype))
        return g.squeeze(found, 1)
    if inside is None:
        return g.op("ReduceSum" if mode == "sum" else "ReduceMean", rows, [1], keepdims=0)
    shares = g.cast(inside, dtype)
    total = g.squeeze(g.op("MatMul", g.unsqueeze(shares, 1), rows), 1)
    if mode == "sum":
        return total
    count = g.op("Max", g.op("ReduceSum", shares, [1], keepdims=1), g.scalar(1.0, dtype))
    return g.op("Div", total, count)
