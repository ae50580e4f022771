"""What wrappers of modules share: one rank's parameters and buffers for all."""

import flambeau

from . import _collectives as collectives
from ._buckets import cut, joined


def _sync_module_states(module, process_group, broadcast_bucket_size, src, params_and_buffers_to_ignore,
                        broadcast_buffers=True):
    """All ranks take over the parameters, and the buffers, of rank `src`; about so many bytes are sent at a time."""
    named = [*module.named_parameters(), *(module.named_buffers() if broadcast_buffers else ())]
    left = [t.detach() for name, t in named if name not in params_and_buffers_to_ignore]
    while left:
        part, size = [left.pop(0)], 0
        while left and left[0].dtype is part[0].dtype and size < broadcast_bucket_size:
            size += left[0].numel() * left[0].itemsize
            part.append(left.pop(0))
        with flambeau.no_grad():
            flat = joined(part)
            collectives.broadcast(flat, src, process_group)
            for t, values in zip(part, cut(flat, part)):
                t.copy_(values)
