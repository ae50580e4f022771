"""DistributedDataParallel: not available, because there are no process groups."""

from ..modules.module import Module


class DistributedDataParallel(Module):
    """Raises NotImplementedError: Flambeau has no process groups to train in.

    >>> from flambeau import nn
    >>> nn.parallel.DistributedDataParallel(nn.Linear(2, 2))
    Traceback (most recent call last):
    NotImplementedError: DistributedDataParallel: training in several processes is not available; use the module itself
    """

    def __init__(self, module, *args, **kwargs):
        raise NotImplementedError(
            "DistributedDataParallel: training in several processes is not available; use the module itself"
        )
