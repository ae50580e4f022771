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

    _allow_fp16 = True  # shards may be kept in it

    def __init__(self, device="cuda", init_scale=2.0**16, backoff_factor=0.5, growth_factor=2.0, growth_interval=2000,
                 enabled=True, process_group=None):
        super().__init__(device, init_scale, growth_factor, backoff_factor, growth_interval, enabled)
        self.process_group = process_group

    def _unscale_grads_(self, optimizer, inv_scale, found_inf, allow_fp16=True):
        found = super()._unscale_grads_(optimizer, inv_scale, found_inf, allow_fp16)
        if not flambeau.distributed.is_initialized():
            return found
        devices = list(found) or [found_inf.device]  # a rank without gradients asks the others too
        worst = found_inf.to(devices[0], copy=True)
        for x in found.values():
            worst = worst.maximum(x.to(worst.device))
        collectives.all_reduce(worst, ReduceOp.MAX, self.process_group)
        return dict.fromkeys(devices, worst)
