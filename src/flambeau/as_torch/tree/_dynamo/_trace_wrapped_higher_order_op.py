"""torch._dynamo._trace_wrapped_higher_order_op: what attention masks of models take from there."""

import contextlib


class TransformGetItemToIndex(contextlib.nullcontext):
    """Context in which `x[i]` with a tensor i of no dimensions works inside vmap: here it always does."""
