"""Names of optimizers whose state is spread over processes, which are not here yet; each says so when used."""

from .._absent import refusals

_REASON = "processes do not exchange tensors yet"
globals().update(refusals("distributed.optim", _REASON, """
    ZeroRedundancyOptimizer DistributedOptimizer PostLocalSGDOptimizer
"""))
