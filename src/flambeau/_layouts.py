"""Tensor methods about layouts, of dense and sparse tensors alike; the sparse part is loaded when it is first used."""

import importlib

from . import _C
from ._tensor.methods import method
from ._tensor.overriding import makes


def _sparse(module):
    return getattr(importlib.import_module("flambeau._sparse"), module)


@makes(_C.sparse_coo, _C.sparse_csr, _C.sparse_csc, _C.sparse_bsr, _C.sparse_bsc)
def _in_layout(func, args, kwargs):
    """What an operator makes with a sparse `layout=`."""
    return _sparse("construct").in_layout(func, args, kwargs)


@method
def sparse_dim(self):
    """How many dimensions are sparse: of a strided tensor none."""
    return 0


@method
def dense_dim(self):
    """How many dimensions are dense: of a strided tensor all."""
    return self.ndim


@method
def to_dense(self, dtype=None, *, masked_grad=None):
    """The strided tensor of the same elements: itself where it is one, in another dtype where one is given.

    >>> import flambeau
    >>> flambeau.sparse_coo_tensor([[1]], [5.], (3,)).to_dense()
    tensor([0., 5., 0.])
    """
    found = self if self.layout is _C.strided else _sparse("tensor").dense_of(self, masked_grad)
    return found if dtype is None else found.to(dtype)


@method
def to_sparse(self, sparse_dim=None, *, layout=None, blocksize=None, dense_dim=None):
    """A sparse tensor of the nonzero elements: in coordinates (of the first `sparse_dim` dimensions), or in `layout`.

    >>> import flambeau
    >>> flambeau.tensor([[0., 2.], [3., 0.]]).to_sparse().indices()
    tensor([[0, 1],
            [1, 0]])
    """
    return _sparse("convert").to_sparse(self, sparse_dim, layout, blocksize, dense_dim)


@method
def to_sparse_coo(self):
    """The nonzero elements in coordinates."""
    return _sparse("convert").to_sparse(self)


@method
def to_sparse_csr(self, dense_dim=None):
    """The nonzero elements in compressed rows.

    >>> import flambeau
    >>> flambeau.tensor([[0., 2.], [3., 0.]]).to_sparse_csr().crow_indices()
    tensor([0, 1, 2])
    """
    return _sparse("convert").compressed(self, _C.sparse_csr, None, dense_dim)


@method
def to_sparse_csc(self, dense_dim=None):
    """The nonzero elements in compressed columns."""
    return _sparse("convert").compressed(self, _C.sparse_csc, None, dense_dim)


@method
def to_sparse_bsr(self, blocksize, dense_dim=None):
    """The blocks that are not all zero, in compressed rows of blocks."""
    return _sparse("convert").compressed(self, _C.sparse_bsr, blocksize, dense_dim)


@method
def to_sparse_bsc(self, blocksize, dense_dim=None):
    """The blocks that are not all zero, in compressed columns of blocks."""
    return _sparse("convert").compressed(self, _C.sparse_bsc, blocksize, dense_dim)


@method
def sparse_mask(self, mask):
    """The elements of this tensor at the places of a sparse `mask`.

    >>> import flambeau
    >>> flambeau.tensor([1., 2., 3.]).sparse_mask(flambeau.sparse_coo_tensor([[2]], [1.], (3,))).values()
    tensor([3.])
    """
    return _sparse("convert").sparse_mask(self, mask)


@method
def smm(self, mat):
    """This COO matrix times a dense one, as a COO matrix."""
    return _sparse("products").smm(self, mat)


@method
def hspmm(self, mat2):
    """This COO matrix times a dense one, as a hybrid tensor of the rows that are not empty."""
    return _sparse("products").hspmm(self, mat2)


@method
def sspaddmm(self, mat1, mat2, *older, beta=1, alpha=1):
    """beta * self + alpha * (mat1 @ mat2), of COO matrices and a dense `mat2`."""
    return _sparse("products").sspaddmm(self, mat1, mat2, *older, beta=beta, alpha=alpha)


@method
def _sparse_rows(self, index, rows):
    """As the gradient of rows that were looked up in a table of `rows` rows: a sparse gradient of the table."""
    return _sparse("construct").sparse_rows(self, index, rows)


@method
def _sparse_gathered(self, dim, index, shape):
    """As the gradient of what `gather` has taken from a tensor of this shape: sparse."""
    return _sparse("construct").gathered(self, dim, index, shape)
