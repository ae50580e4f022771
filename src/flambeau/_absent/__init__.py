"""What PyTorch's names ask for and this build does not have: what each one answers, and what to do instead."""

QUANTIZED = "the tensor is not quantized: quantize_per_tensor() and quantize_per_channel() make such tensors"
STATIC = "operators of static quantization are not available: compute with x.dequantize(), or on the codes"
NESTED = "nested tensors are not available: pad to one shape (nn.utils.rnn.pad_sequence) and keep a mask"


def refusal(name, reason):
    """A function that raises NotImplementedError with the name and the reason."""
    def refuse(*args, **kwargs):
        raise NotImplementedError(f"{name}: {reason}")

    refuse.__name__ = refuse.__qualname__ = name
    refuse.__doc__ = f"Not available: {reason}."
    return refuse
