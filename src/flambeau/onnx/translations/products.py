"""Matrix products, layers made of them, and distances."""

import math

from ... import _C
from .._emitter import Unavailable
from .._graph import Value
from ._table import entry, translates
from .pointwise import binary


def product(g, a, b):
    """MatMul, of bools and small integers as ONNX has it."""
    dtype = a.dtype
    if dtype in (_C.float16, _C.bfloat16, _C.float32, _C.float64, _C.int32, _C.int64):
        return g.op("MatMul", a, b)
    return g.cast(g.op("MatMul", g.cast(a, _C.int32), g.cast(b, _C.int32)), dtype)


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
def einsum(g, equation, operands, path=None):
    """Einsum takes the equation as it is."""
    return g.op("Einsum", *(g.cast(x, g.dtype) for x in operands), equation=equation)


@translates("_cdist")
def cdist(g, x1, x2, p, by_product):
    """Distances of all pairs of rows."""
    a, b = g.unsqueeze(x1, x1.rank - 1), g.unsqueeze(x2, x2.rank - 2)
    return _norm_of(g, g.op("Sub", a, b), p, x1.rank)


def _norm_of(g, difference, p, axis):
    if p in (1, 2):
        kind = f"ReduceL{int(p)}"
        if g.opset < 18:
            return g.op(kind, difference, axes_i=[axis], keepdims=0)
        return g.op(kind, difference, [axis], keepdims=0)
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
