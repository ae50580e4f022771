"""How quantized tensors are printed: their numbers, then size, dtype, scheme, scale and zero point."""

from .._tensor.printing import _add_suffixes, _tensor_str
from .tensor import PerTensor, values_of


def quantized_repr(x):
    """The text of a quantized tensor."""
    indent = 7
    head = "Parameter containing:\n" if getattr(x, "_is_param", False) else ""
    numbers = values_of(x)
    body = _tensor_str(numbers, indent)
    return head + _add_suffixes("tensor(" + body, _ending(x), indent, False)


def _ending(x):
    quantizer = x._quantizer
    found = [f"size={tuple(x.shape)}", f"dtype={x.dtype}", f"quantization_scheme={quantizer.scheme}"]
    if isinstance(quantizer, PerTensor):
        return [*found, f"scale={quantizer.scale}", f"zero_point={quantizer.zero_point}"]
    return [*found, f"scale={quantizer.scales}", f"zero_point={quantizer.zero_points}", f"axis={quantizer.axis}"]
