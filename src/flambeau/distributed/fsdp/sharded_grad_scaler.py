"""ShardedGradScaler: a GradScaler whose ranks agree on whether a step is left out."""

import flambeau

from ...amp import GradScaler
from .. import _collectives as collectives
from .._values import ReduceOp


class ShardedGradScaler(GradScaler):
    """A GradScaler for parameters that are spread over ranks: an infinity on one rank leaves out the step on all.

    >>> import flambeau.distributed as dist
    >>> from flambeau.distributed.fsdp.sharded_grad_scaler import ShardedGradScaler
    >>> dist.init_process_group(store=dist.HashStore(), rank=0, world_size=1)
    >>> ShardedGradScaler("cpu", init_scale=4.0).scale(flambeau.tensor(2.0))
    tensor(8.)
    >>> dist.destroy_process_group()
    """

    def __init__(self, device="cuda", init_scale=2.0**16, backoff_factor=0.5, growth_factor=2.0, growth_interval=2000,
                 enabled=True, process_group=None):
        super().__init__(device, init_scale, growth_factor, backoff_factor, growth_interval, enabled)
        self.process_group = process_group

    def _unscale(self, optimizer, inverse, allow_fp16=True):
        found = super()._unscale(optimizer, inverse, allow_fp16)
        if flambeau.distributed.is_initialized():
            collectives.all_reduce(found, ReduceOp.MAX, self.process_group)
        return found
