"""torch.distributed.tensor.debug: which collectives a program calls, and where; who has which part."""

from ._comm_mode import CommDebugMode as CommDebugMode
from ._visualize_sharding import visualize_sharding as visualize_sharding
