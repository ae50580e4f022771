"""What programs know as `functorch.experimental`, and this library keeps in `flambeau.func`."""

from functools import wraps

from ...._shown import shown
from ...._transforms.vmap import _process_batched_inputs
from ....func import functionalize as functionalize
from ....func import hessian as hessian
from ....func import jacfwd as jacfwd
from ....func import jvp as jvp
from ....func import replace_all_batch_norm_modules_ as replace_all_batch_norm_modules_
from ....func import vmap


def chunk_vmap(func, in_dims=0, out_dims=0, randomness="error", chunks=2):
    """`vmap` in that many pieces of equal size (the last may be smaller), one after the other."""
    if not isinstance(chunks, int) or chunks < 1:
        raise ValueError(f"chunk_vmap: chunks must be a positive int, got {shown(chunks)}")

    @wraps(func, updated=())
    def batched(*args, **kwargs):
        size = _process_batched_inputs(in_dims, args, func)[0]
        piece = max(1, -(-size // chunks))
        return vmap(func, in_dims, out_dims, randomness, chunk_size=piece)(*args, **kwargs)

    return batched
