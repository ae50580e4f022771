"""Names of types of sparse tensors on CUDA devices, for programs that compare with them; nothing is an instance."""

from .._sparse.types import CUDA_SPARSE_TYPES

globals().update(CUDA_SPARSE_TYPES)
