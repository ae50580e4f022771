"""Sparse tensor types by dtype (sparse.FloatTensor, …): constructors of old programs, and classes for isinstance."""

from .. import _C
from .._tensor.types import TYPES, TensorType
from .construct import empty, sparse_coo_tensor
from .methods import method
from .tensor import COO


class SparseType(TensorType):
    """`sparse.FloatTensor` and its like: every float32 tensor of coordinates is an instance; calling one makes one.

    >>> import flambeau
    >>> x = flambeau.sparse.FloatTensor(flambeau.tensor([[0, 1]]), flambeau.tensor([3., 4.]), (3,))
    >>> x.to_dense(), isinstance(x, flambeau.sparse.FloatTensor)
    (tensor([3., 4., 0.]), True)
    """

    def _make(cls, *args, **kwargs):
        return _made(f"{cls.__module__}.{cls.__name__}", cls.dtype, "cuda" if cls.is_cuda else "cpu", *args, **kwargs)


def _made(name, dtype, where, *args, device=None, **parts):
    """Of indices and values, whose dtype stays, or of a size: a `Size`, or several numbers."""
    parts |= dict(zip(("indices", "values", "size"), args, strict=False))
    indices, values, size = (parts.get(key) for key in ("indices", "values", "size"))
    where = where if device is None else device
    if isinstance(indices, _C.Tensor) and isinstance(values, _C.Tensor) and len(args) <= 3:
        if indices.dtype is not _C.int64:
            raise RuntimeError(f"{name}: indices must be int64, got {indices.dtype}")
        return sparse_coo_tensor(indices, values, size, device=where)
    size = args[0] if len(args) == 1 and isinstance(args[0], _C.Size) else args or (0,)
    if not all(isinstance(n, int) for n in size) or len(parts) > len(args):
        raise TypeError(f"{name}: expected tensors of indices and values, and a size; or sizes alone; got "
                        f"{', '.join(type(a).__name__ for a in (*args, *parts))}; sparse_coo_tensor takes sequences")
    return empty(tuple(size), COO, dtype, where)


@method
def new(self, *args, **kwargs):
    """A tensor of coordinates with this one's dtype and device: of indices and values, or of a size, without values."""
    return _made("new", self.dtype, self.device, *args, **kwargs)


def _types(module):
    return {name: SparseType(name, kind.dtype, module) for name, kind in TYPES.items()}


SPARSE_TYPES, CUDA_SPARSE_TYPES = _types("sparse"), _types("cuda.sparse")
