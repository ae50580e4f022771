"""Types of sparse tensors by dtype (sparse.FloatTensor, cuda.sparse.LongTensor, …): they make them, and are asked."""

from .. import _C
from .._tensor.types import TYPES, TensorType
from .construct import sparse_coo_tensor
from .tensor import COO


class SparseType(TensorType):
    """A type of sparse tensors in coordinates.

    >>> import flambeau
    >>> x = flambeau.sparse.FloatTensor(flambeau.tensor([[0, 1], [1, 0]]), flambeau.ones(2), (2, 2))
    >>> isinstance(x, flambeau.sparse.FloatTensor), isinstance(x, flambeau.FloatTensor)
    (True, False)
    """

    def __init__(cls, name, dtype, device="sparse"):
        super().__init__(name, dtype, device)
        cls.layout = COO

    def __call__(cls, *args, device=None):
        """Of (indices, values[, size]), of a size, or of nothing; values keep their dtype."""
        if cls.is_cuda and not _C._cuda.available():
            raise TypeError(f"type {cls.__module__}.{cls.__name__} not available: there is no CUDA device")
        device = "cuda" if cls.is_cuda and device is None else device
        if args and isinstance(args[0], _C.Tensor):
            return sparse_coo_tensor(*args, device=device)
        return sparse_coo_tensor((args[0] if args and not isinstance(args[0], int) else args) or (0,), dtype=cls.dtype,
                                 device=device)


SPARSE_TYPES = {name: SparseType(name, kind.dtype, "sparse") for name, kind in TYPES.items()}
CUDA_SPARSE_TYPES = {name: SparseType(name, kind.dtype, "cuda.sparse") for name, kind in TYPES.items()}
