"""torch.distributed.tensor.experimental: plain tensors beside DTensors, and sequences spread over ranks."""

from ...._absent import refusals
from .._call import implicit_replication as implicit_replication
from ._attention import context_parallel as context_parallel
from ._local_map import local_map as local_map

globals().update(refusals("distributed.tensor.experimental", "rules of operators of one's own are not available: such "
                          "an operator gets whole tensors, or runs on parts inside local_map", "register_sharding(op)"))
