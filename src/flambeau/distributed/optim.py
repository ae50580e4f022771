"""Names of optimizers whose state is spread over processes, which are not here yet; each says so when used."""

from .._absent import refusals

_REASON = "processes do not exchange tensors yet"
globals().update(refusals("distributed.optim", _REASON, """
    ZeroRedundancyOptimizer(params, optimizer_class, process_group, parameters_as_bucket_view, overlap_with_ddp,
    **defaults) DistributedOptimizer(optimizer_class, params_rref, *args, **kwargs) PostLocalSGDOptimizer(optim,
    averager)
"""))
