"""Names of optimizers whose state is spread over processes, which are not here yet; each says so when used."""

from .._absent import refused_class

_REASON = "processes do not exchange tensors yet"
globals().update({name: refused_class(f"distributed.optim.{name}", _REASON) for name in """
    ZeroRedundancyOptimizer DistributedOptimizer PostLocalSGDOptimizer
""".split()})
