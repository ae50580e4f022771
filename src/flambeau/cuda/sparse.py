"""Types of sparse tensors on CUDA devices."""

from .._sparse.types import CUDA_SPARSE_TYPES

globals().update(CUDA_SPARSE_TYPES)
