"""torch.distributed.tensor.experimental: plain tensors beside DTensors, and sequences spread over ranks."""

from .._call import implicit_replication as implicit_replication
from ._attention import context_parallel as context_parallel
