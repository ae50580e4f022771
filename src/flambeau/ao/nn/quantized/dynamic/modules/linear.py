"""The linear layer whose weight is bytes or halves, and whose input gets codes for each call."""

import flambeau

from ...modules import linear as static
from ...modules.utils import checked, quantized_weight, weight_observer


def dynamic_observer(module):
    """The observer that a module's qconfig names for its weight; without one PyTorch's default."""
    config = getattr(module, "qconfig", None)
    if hasattr(module, "weight_fake_quant") or (config is not None and config.weight is not None):
        return weight_observer(module)
    return flambeau.ao.quantization.default_dynamic_qconfig.weight()


class Linear(static.Linear):
    """y = x w^T + b with w of 8 bits. The input gets 7-bit codes in each call, whose range is that of its numbers.

    Values are those of PyTorch's engine for x86 processors. Without gradients.

    >>> import flambeau
    >>> layer = flambeau.ao.nn.quantized.dynamic.Linear.from_float(flambeau.nn.Linear(4, 2))
    >>> layer(flambeau.ones(3, 4)).shape
    torch.Size([3, 2])
    """

    _version = 4

    def __init__(self, in_features, out_features, bias_=True, dtype=flambeau.qint8):
        super().__init__(in_features, out_features, bias_, dtype)
        self.version = self._version

    def forward(self, x):
        """The layer's output, in the dtype of x."""
        if x.ndim < 2:
            raise RuntimeError(f"dynamic Linear: expected at least 2 dimensions, got shape {list(x.shape)}")
        if x.dtype is not flambeau.float32:
            raise RuntimeError(f"dynamic Linear: expected float32, got {x.dtype}")
        return self._packed_params._packed_params.dynamic(x.detach())

    def _get_name(self):
        return "DynamicQuantizedLinear"

    def extra_repr(self):
        text = (f"in_features={self.in_features}, out_features={self.out_features}, dtype={self._packed_params.dtype}")
        return text + (f", qscheme={self.weight().qscheme()}" if self._packed_params.dtype is flambeau.qint8 else "")

    @classmethod
    def from_float(cls, mod, use_precomputed_fake_quant=False):
        """The quantized layer of a Linear."""
        inner = checked(cls, mod)
        weight = quantized_weight(inner.weight, dynamic_observer(inner), use_precomputed_fake_quant)
        made = cls(inner.in_features, inner.out_features, dtype=weight.dtype)
        made.set_weight_bias(weight, inner.bias)
        return made

    @classmethod
    def from_reference(cls, ref_qlinear):
        """The quantized layer of a reference one, whose weight is quantized already."""
        made = cls(ref_qlinear.in_features, ref_qlinear.out_features, dtype=ref_qlinear.weight_dtype)
        made.set_weight_bias(ref_qlinear.get_quantized_weight(), ref_qlinear.bias)
        return made
