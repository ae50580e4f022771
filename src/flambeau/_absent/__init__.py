"""What PyTorch's names ask for and this build does not have: what each one answers, and what to do instead."""

import warnings

QUANTIZED = "the tensor is not quantized: quantize_per_tensor() and quantize_per_channel() make such tensors"
STATIC = "operators of static quantization are not available: compute with x.dequantize(), or on the codes"
NESTED = "nested tensors are not available: pad to one shape (nn.utils.rnn.pad_sequence) and keep a mask"


def refusal(name, reason):
    """A function that raises NotImplementedError with the name and the reason; a class where the name is one's."""
    if name.rpartition(".")[2][:1].isupper():
        return refused_class(name, reason)

    def refuse(*args, **kwargs):
        raise NotImplementedError(f"{name}: {reason}")

    refuse.__name__ = refuse.__qualname__ = name
    refuse.__doc__ = f"Not available: {reason}."
    return refuse


def refusals(namespace, reason, names):
    """{name: its refusal} for names apart by spaces."""
    return {name: refusal(f"{namespace}.{name}", reason) for name in names.split()}


def refused_class(name, reason):
    """A class for annotations and isinstance, which nothing is one of; making one raises NotImplementedError."""
    def refuse(self, *args, **kwargs):
        raise NotImplementedError(f"{name}: {reason}")

    return type(name.rpartition(".")[2], (), {"__init__": refuse, "__doc__": f"Not available: {reason}.",
                                              "__module__": "flambeau"})


_said = set()


def say_once(text, depth=1):
    """A UserWarning, once in a process, at the line of the program, which is `depth` calls above the caller."""
    if text not in _said:
        _said.add(text)
        warnings.warn(text, UserWarning, stacklevel=depth + 2)
