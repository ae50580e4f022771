"""DistributedDataParallel: not available, because there are no process groups."""

from ..modules.module import Module


class DistributedDataParallel(Module):
    """Raises NotImplementedError: Flambeau has no process groups to train in.

    >>> from flambeau import nn
    >>> nn.parallel.DistributedDataParallel(nn.Linear(2, 2))
    Traceback (most recent call last):
    NotImplementedError: DistributedDataParallel: training in several processes is not available; use the module itself
    """

    def __init__(self, module, device_ids=None, output_device=None, dim=None, broadcast_buffers=None, init_sync=None,
                 process_group=None, bucket_cap_mb=None, find_unused_parameters=None, check_reduction=None,
                 gradient_as_bucket_view=None, static_graph=None, delay_all_reduce_named_params=None,
                 param_to_hook_all_reduce=None, mixed_precision=None, device_mesh=None,
                 skip_all_reduce_unused_params=None, bucket_cap_mb_list=None, batched_grad_copy=None,
                 forward_sync_buffers=None):
        raise NotImplementedError(
            "DistributedDataParallel: training in several processes is not available; use the module itself"
        )
