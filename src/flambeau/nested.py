"""Nested tensors: not available. Each function raises an error that says what to use instead."""

from ._absent import NESTED, refusals

globals().update(refusals("nested", NESTED, """
    nested_tensor(tensor_list, dtype, layout, device, requires_grad, pin_memory) as_nested_tensor(ts, dtype,
    device, layout) to_padded_tensor(input, padding, output_size, out) nested_tensor_from_jagged(values,
    offsets, lengths, jagged_dim, min_seqlen, max_seqlen) narrow(tensor, dim, start, length, layout)
    masked_select(tensor, mask)
"""))
