"""Products with sparse matrices; sparse times dense runs in the kernel of compressed rows, whatever the layout."""

from .. import _C
from .._C import Tensor
from ..ops.kinds import OPS
from .convert import alike, compressed, pointers, to_coo
from .rules import refuse, rule, write
from .tensor import COO, CSR, Pattern, coalesced, is_sparse, make, summed, values_of

#: dtypes the kernel computes in; others go through one of these
_COMPUTED = {_C.float16: _C.float32, _C.bfloat16: _C.float32, _C.int8: _C.int64, _C.int16: _C.int64,
             _C.int32: _C.int64, _C.uint8: _C.int64}


def _check(name, a, b):
    if a.dim() != 2 or b.dim() != 2:
        raise RuntimeError(f"{name}: expected two matrices, got shapes {list(a.shape)} and {list(b.shape)}")
    if a.shape[1] != b.shape[0]:
        raise RuntimeError(f"{name}: shapes {list(a.shape)} and {list(b.shape)} cannot be multiplied: "
                           f"{a.shape[1]} columns but {b.shape[0]} rows")
    if a.dtype is _C.bool or b.dtype is _C.bool:
        refuse(name, (a, b), why=" and truth values")
    if a.dtype is not b.dtype:
        raise RuntimeError(f"{name}: expected one dtype, got {a.dtype} and {b.dtype}")


def rows_of(x):
    """(row pointers, columns, values) of a sparse matrix."""
    if x.dense_dim() or x.sparse_dim() != 2:
        refuse("mm", (x,), why=" with dense or batch dimensions")
    if x.layout is COO:
        x = coalesced(x)
        return pointers(x._pattern.indices[0], x.shape[0]), x._pattern.indices[1], values_of(x)
    x = compressed(x, CSR)
    return x._pattern.indices, x._pattern.plain, values_of(x)


def _times_dense(x, dense):
    row, column, values = rows_of(x)
    dtype = _COMPUTED.get(values.dtype)
    if dtype is None:
        return OPS["csr_mm"](row, column, values, dense)
    return OPS["csr_mm"](row, column, values.to(dtype), dense.to(dtype)).to(values.dtype)


def _times_sparse(a, b):
    """Every value of `a` meets the row of `b` that its column names; what falls on one place adds up."""
    x, (row, column, values) = coalesced(to_coo(a)), rows_of(b)
    lengths = (row[1:] - row[:-1]).long()
    own = lengths[x._pattern.indices[1]]
    which = OPS["repeat_interleave"](OPS["arange"](len(own), device=own.device), own)
    at = OPS["arange"](len(which), device=own.device) - (own.cumsum(0) - own)[which] + \
        row.long()[x._pattern.indices[1]][which]
    indices = OPS["stack"]([x._pattern.indices[0][which], column.long()[at]])
    products = values_of(x).index_select(0, which) * values.index_select(0, at)
    found = make(Pattern(COO, indices, (a.shape[0], b.shape[1]), coalesced=False), products)
    return alike(coalesced(found), a._pattern if a.layout in (COO, CSR) else Pattern(CSR, row, found.shape))


@rule("mm")
def mm(self, mat2):
    """Dense where one side is. A sparse matrix without values goes with every dtype, as in PyTorch."""
    if is_sparse(self) and not is_sparse(mat2) and not self._nnz():
        self = self.to(mat2.dtype)
    elif is_sparse(mat2) and not is_sparse(self) and not mat2._nnz():
        mat2 = mat2.to(self.dtype)
    _check("mm", self, mat2)
    if is_sparse(self) and is_sparse(mat2):
        return _times_sparse(self, mat2)
    if is_sparse(self):
        return _times_dense(self, mat2)
    return _times_dense(mat2.t(), self.t()).t()


@rule("mv")
def _mv(self, vec):
    if is_sparse(vec) or vec.dim() != 1 or self.dim() != 2 or self.shape[1] != vec.shape[0]:
        raise RuntimeError(f"mv: expected a matrix and a dense vector as long as its rows, got shapes "
                           f"{list(self.shape)} and {list(vec.shape)}")
    return mm(self, vec.unsqueeze(1)).squeeze(1)


@rule("matmul")
def _matmul(self, other):
    if self.dim() == 2 and other.dim() == 1:
        return _mv(self, other)
    if self.dim() == 1 and other.dim() == 2 and is_sparse(other):
        return _mv(other.t(), self)
    if self.dim() == other.dim() == 3:
        return _bmm(self, other)
    return mm(self, other)


@rule("linear")
def _linear(input, weight, bias=None):
    found = _matmul(input, weight.t())
    return found if bias is None else found + bias


@rule("bmm")
def _bmm(self, mat2):
    if is_sparse(mat2):
        return refuse("bmm", (self, mat2), why=" on the right")
    if self.dim() != 3 or mat2.dim() != 3 or self.shape[0] != mat2.shape[0]:
        raise RuntimeError(f"bmm: expected two equally long batches, got shapes {list(self.shape)} and "
                           f"{list(mat2.shape)}")
    return OPS["stack"]([mm(a, b) for a, b in zip(self.unbind(0), mat2.unbind(0), strict=True)]) if self.shape[0] \
        else mat2.new_zeros(0, self.shape[1], mat2.shape[2])


@rule("addmm")
def addmm(self, mat1, mat2, *, beta=1, alpha=1):
    """beta * self + alpha * (mat1 @ mat2)."""
    product = mm(mat1, mat2)
    product = product if alpha == 1 else product * alpha
    if beta == 0:
        return product
    if is_sparse(product) and not is_sparse(self):
        return (self if beta == 1 else self * beta).expand(product.shape) + product.to_dense()
    return (self if beta == 1 else self * beta) + product


@rule("addmv")
def _addmv(self, mat, vec, *, beta=1, alpha=1):
    return addmm(self.unsqueeze(1), mat, vec.unsqueeze(1), beta=beta, alpha=alpha).squeeze(1)


# --- flambeau.sparse --------------------------------------------------------------------------------------------------

def sparse_mm(mat1, mat2, reduce=None):
    """The product of a sparse matrix with a dense or a sparse one; its gradient at `mat1` is sparse.

    reduce: "sum", "mean", "amax" or "amin" instead of adding up (CSR times dense); "max" and "min" are the same.

    >>> import flambeau
    >>> x = flambeau.sparse_csr_tensor([0, 1, 2], [1, 0], [5., 6.])
    >>> flambeau.sparse.mm(x, flambeau.ones(2, 1))
    tensor([[5.],
            [6.]])
    """
    if reduce is None or (reduce == "sum" and is_sparse(mat1) and not is_sparse(mat2)):
        return OPS["mm"](mat1, mat2)
    reduce = {"max": "amax", "min": "amin"}.get(reduce, reduce)
    if reduce not in ("mean", "amax", "amin"):
        raise RuntimeError(f"sparse.mm: reduce must be sum, mean, amax or amin, got {reduce}")
    _check("sparse.mm", mat1, mat2)
    row, column, values = rows_of(mat1)
    which = OPS["repeat_interleave"](OPS["arange"](mat1.shape[0], device=row.device), (row[1:] - row[:-1]).long())
    terms = values.unsqueeze(1) * mat2.index_select(0, column.long())
    start = mat2.new_zeros(mat1.shape[0], mat2.shape[1])
    return start.scatter_reduce(0, which.unsqueeze(1).expand(terms.shape), terms, reduce, include_self=False)


def sparse_addmm(mat, mat1, mat2, *, beta=1.0, alpha=1.0):
    """beta * mat + alpha * (mat1 @ mat2), with a sparse `mat1`.

    >>> import flambeau
    >>> x = flambeau.sparse_csr_tensor([0, 1, 2], [1, 0], [5., 6.])
    >>> flambeau.sparse.addmm(flambeau.ones(2, 1), x, flambeau.ones(2, 1))
    tensor([[6.],
            [7.]])
    """
    return OPS["addmm"](mat, mat1, mat2, beta=beta, alpha=alpha)


def sampled_addmm(input, mat1, mat2, *, beta=1.0, alpha=1.0, out=None):
    """beta * input + alpha * (mat1 @ mat2), computed at the places of `input` alone.

    >>> import flambeau
    >>> x = flambeau.sparse_csr_tensor([0, 1, 2], [1, 0], [5., 6.])
    >>> flambeau.sparse.sampled_addmm(x, flambeau.ones(2, 3), flambeau.ones(3, 2)).values()
    tensor([8., 9.])
    """
    if not is_sparse(input) or input.layout is not CSR:
        raise RuntimeError(f"sparse.sampled_addmm: expected input of layout sparse_csr, got {input.layout}")
    _check_sampled(input, mat1, mat2)
    pattern = input._pattern
    found = _sampled(pattern.indices, pattern.plain, mat1, mat2.mT)
    values = found if alpha == 1 else found * alpha
    values = values if beta == 0 else values + (values_of(input) if beta == 1 else values_of(input) * beta)
    result = make(pattern, values)
    return result if out is None else write(out, result, "sparse.sampled_addmm", resize=True)


def _check_sampled(input, mat1, mat2):
    """All three are matrices, or equally long batches of them."""
    name, batch = "sparse.sampled_addmm", tuple(input.shape[:-2])
    if mat1.dim() < 2 or mat2.dim() < 2 or tuple(mat1.shape[:-2]) != batch or tuple(mat2.shape[:-2]) != batch:
        raise RuntimeError(f"{name}: expected matrices in a batch of {list(batch)}, as input, got shapes "
                           f"{list(mat1.shape)} and {list(mat2.shape)}")
    if 0 not in batch:
        _check(name, mat1[(0,) * len(batch)], mat2[(0,) * len(batch)])
    if tuple(input.shape) != (*batch, mat1.shape[-2], mat2.shape[-1]):
        raise RuntimeError(f"{name}: input has shape {list(input.shape)} but the product "
                           f"{[*batch, mat1.shape[-2], mat2.shape[-1]]}")


def _sampled(row, column, a, b):
    """The dot products of rows of `a` and of `b` at the places of a CSR pattern, matrix by matrix of a batch."""
    if a.dim() == 2:
        return OPS["csr_sampled"](row, column, a, b)
    if not a.shape[0]:
        return a.new_zeros(column.shape)
    return OPS["stack"]([_sampled(*each) for each in zip(*(x.unbind(0) for x in (row, column, a, b)), strict=True)])


def hspmm(mat1, mat2, *, out=None):
    """A COO matrix times a dense one, as a hybrid tensor of the rows that are not empty."""
    mat2 = mat2 if mat1._nnz() else mat2.to(mat1.dtype)
    _check("hspmm", mat1, mat2)
    x = coalesced(to_coo(mat1))
    found, which = OPS["unique"](x._pattern.indices[0], return_inverse=True)
    terms = values_of(x).unsqueeze(1) * mat2.index_select(0, x._pattern.indices[1])
    pattern = Pattern(COO, found.unsqueeze(0), (mat1.shape[0], mat2.shape[1]))
    result = make(pattern, summed(terms, which, len(found)))
    return result if out is None else write(out, result, "hspmm", resize=True)


#: names of these products in PyTorch's top level from before all layouts took the same operators
dsmm = spmm = OPS["mm"]
hsmm = hspmm


def smm(input, mat):
    """A COO matrix times a dense one, as a COO matrix."""
    x = hspmm(input, mat)
    rows, columns = x._pattern.indices[0], OPS["arange"](mat.shape[1], device=mat.device)
    indices = OPS["stack"]([rows.repeat_interleave(len(columns)), columns.repeat(len(rows))])
    return make(Pattern(COO, indices, x.shape), values_of(x).reshape(-1))


def sspaddmm(input, mat1, mat2, *older, beta=1, alpha=1, out=None):
    """beta * input + alpha * (mat1 @ mat2), of a COO `input` and `mat1` and a dense `mat2`, as a COO matrix.

    Old programs write the factors among the operands: sspaddmm(beta, input, alpha, mat1, mat2), alpha left out or not.
    """
    if older:
        given = (input, mat1, mat2, *older)
        factors, operands = ([x for x in given if isinstance(x, Tensor) is tensors] for tensors in (False, True))
        if len(operands) != 3 or len(factors) > 2:
            raise TypeError(f"sspaddmm: expected three matrices and at most two factors, got {len(operands)} and "
                            f"{len(factors)}")
        (input, mat1, mat2), beta, alpha = operands, factors[0], (*factors, alpha)[1]
    if not is_sparse(input) or not is_sparse(mat1) or is_sparse(mat2):
        raise RuntimeError("sspaddmm: expected a sparse input, a sparse mat1 and a dense mat2")
    product = smm(mat1, mat2) * alpha
    if input.shape != product.shape:
        raise RuntimeError(f"sspaddmm: input has shape {list(input.shape)} but the product {list(product.shape)}")
    result = input * beta + product
    return result if out is None else write(out, result, "sspaddmm", resize=True)


saddmm = sspaddmm


def spdiags(diagonals, offsets, shape, layout=None):
    """A matrix of diagonals: row k of `diagonals` lies offsets[k] above the main one; column j of it in column j.

    >>> import flambeau
    >>> flambeau.sparse.spdiags(flambeau.tensor([[1., 2., 3.]]), flambeau.tensor([1]), (3, 3)).to_dense()
    tensor([[0., 2., 0.],
            [0., 0., 3.],
            [0., 0., 0.]])
    """
    diagonals = diagonals.unsqueeze(0) if diagonals.dim() == 1 else diagonals
    offsets = offsets.reshape(-1)
    if len(shape) != 2:
        raise RuntimeError(f"sparse.spdiags: the shape must have 2 sizes, got {list(shape)}")
    if diagonals.dim() != 2 or len(offsets) != diagonals.shape[0]:
        raise RuntimeError(f"sparse.spdiags: expected one offset per row of diagonals, got shapes "
                           f"{list(diagonals.shape)} and {list(offsets.shape)}")
    if len(OPS["unique"](offsets)) != len(offsets):
        raise RuntimeError(f"sparse.spdiags: an offset comes twice in {offsets.tolist()}")
    column = OPS["arange"](diagonals.shape[1], device=diagonals.device).expand(diagonals.shape)
    row = column - offsets.unsqueeze(1)
    inside = (row >= 0) & (row < shape[0]) & (column < shape[1])
    indices = OPS["stack"]([row[inside], column[inside]])
    found = make(Pattern(COO, indices, shape, coalesced=False), diagonals[inside])
    return found if layout in (None, COO) else found.to_sparse(layout=layout)


def spsolve(input, other, left=True):
    """Solving with a sparse matrix: PyTorch has it on CUDA alone."""
    raise RuntimeError("sparse.spsolve: needs a CUDA build, as in PyTorch; use linalg.solve(x.to_dense(), b) or "
                       "scipy.sparse.linalg.spsolve")


