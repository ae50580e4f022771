"""Masked tensors in other layouts: sparse ones have exactly the values that count."""

from ... import _C
from .core import MaskedTensor, data_of, is_sparse, make


def method(function):
    """Decorator: a method of masked tensors."""
    setattr(MaskedTensor, function.__name__, function)
    return function


def _in_layout(self, mask):
    return make(data_of(self).sparse_mask(mask), mask)


@method
def to_sparse(self, *args, **kwargs):
    """In layout sparse_coo (or the one that is asked for, sparse_csr)."""
    layout = kwargs.get("layout") or next((x for x in args if isinstance(x, _C.layout)), _C.sparse_coo)
    if layout is self.layout:
        return self
    if layout is _C.sparse_csr:
        return self.to_sparse_csr()
    if layout is not _C.sparse_coo:
        raise TypeError(f"to_sparse: masked tensors have layouts sparse_coo and sparse_csr, not {layout}")
    return _in_layout(self.to_dense(), self.to_dense()._masked_mask.to_sparse_coo().coalesce())


@method
def to_sparse_coo(self):
    """In layout sparse_coo."""
    return self.to_sparse()


@method
def to_sparse_csr(self, dense_dim=None):
    """In layout sparse_csr."""
    if dense_dim:
        raise NotImplementedError(f"to_sparse_csr: masked tensors have no dense dimensions, got dense_dim={dense_dim}")
    if self.layout is _C.sparse_csr:
        return self
    dense = self.to_dense()
    return _in_layout(dense, dense._masked_mask.to_sparse_csr())


@method
def to_dense(self, dtype=None, *, masked_grad=None):
    """With all elements."""
    if masked_grad is not None:
        raise NotImplementedError("to_dense: the gradient of a masked tensor is always masked; leave out masked_grad")
    found = make(data_of(self).to_dense(), self._masked_mask.to_dense()) if is_sparse(self._masked_data) else self
    return found if dtype is None else found.to(dtype)


MaskedTensor.layout = property(lambda self: self._masked_data.layout, doc="How the memory is organised.")
MaskedTensor.is_sparse = property(lambda self: is_sparse(self._masked_data), doc="Whether the layout is a sparse one.")


@method
def is_sparse_coo(self):
    """Whether the layout is sparse_coo."""
    return self.layout is _C.sparse_coo


@method
def is_sparse_csr(self):
    """Whether the layout is sparse_csr."""
    return self.layout is _C.sparse_csr
