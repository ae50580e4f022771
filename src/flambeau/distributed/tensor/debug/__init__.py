"""torch.distributed.tensor.debug: which collectives a program calls, and where."""

from ._comm_mode import CommDebugMode as CommDebugMode
