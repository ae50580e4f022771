"""torch.distributed.tensor.experimental: plain tensors beside DTensors."""

from .._call import implicit_replication as implicit_replication
