"""The linear layer whose weight is bytes or halves."""

import flambeau
from flambeau import nn

from ...modules.linear import LinearPackedParams


def weight_observer(module):
    """The observer that a module's qconfig names for its weight; without one PyTorch's default."""
    config = getattr(module, "qconfig", None)
    if config is not None and config.weight is not None:
        return config.weight()
    return flambeau.ao.quantization.default_dynamic_qconfig.weight()


def quantized_weight(weight, observer):
    """A weight in the observer's dtype: codes by the range that the observer finds."""
    if observer.dtype is flambeau.float16:
        return weight.detach().half()
    if observer.dtype is not flambeau.qint8:
        raise RuntimeError(f"dynamic quantization: weights become qint8 or float16, got {observer.dtype}")
    observer(weight)
    scale, zero_point = observer.calculate_qparams()
    if observer.qscheme in (flambeau.per_tensor_symmetric, flambeau.per_tensor_affine):
        return flambeau.quantize_per_tensor(weight.detach().float(), scale.item(), zero_point.item(), flambeau.qint8)
    return flambeau.quantize_per_channel(weight.detach().float(), scale.double(), zero_point.long(), observer.ch_axis,
                                         flambeau.qint8)


class Linear(nn.Module):
    """y = x w^T + b with w of 8 bits. The input gets 7-bit codes in each call, whose range is that of its numbers.

    Values are those of PyTorch's engine for x86 processors. Without gradients.

    >>> import flambeau
    >>> layer = flambeau.ao.nn.quantized.dynamic.Linear.from_float(flambeau.nn.Linear(4, 2))
    >>> layer(flambeau.ones(3, 4)).shape
    torch.Size([3, 2])
    """

    _version = 4
    _FLOAT_MODULE = nn.Linear

    def __init__(self, in_features, out_features, bias_=True, dtype=flambeau.qint8):
        super().__init__()
        self.in_features, self.out_features = in_features, out_features
        self.scale, self.zero_point = 1.0, 0
        self._packed_params = LinearPackedParams(dtype)
        bias = flambeau.zeros(out_features, dtype=flambeau.float) if bias_ else None
        if dtype is flambeau.qint8:
            weight = flambeau._empty_affine_quantized([out_features, in_features], scale=1, zero_point=0, dtype=dtype)
        else:
            weight = flambeau.zeros(out_features, in_features)
        self.set_weight_bias(weight, bias)

    def forward(self, x):
        """The layer's output, in the dtype of x."""
        if x.ndim < 2:
            raise RuntimeError(f"dynamic Linear: expected at least 2 dimensions, got shape {list(x.shape)}")
        if x.dtype is not flambeau.float32:
            raise RuntimeError(f"dynamic Linear: expected float32, got {x.dtype}")
        return self._packed_params._packed_params(x.detach())

    def _get_name(self):
        return "DynamicQuantizedLinear"

    def __repr__(self):
        return f"{self._get_name()}({self.extra_repr()})"

    def extra_repr(self):
        text = (f"in_features={self.in_features}, out_features={self.out_features}, dtype={self._packed_params.dtype}")
        return text + (f", qscheme={self.weight().qscheme()}" if self._packed_params.dtype is flambeau.qint8 else "")

    def _weight_bias(self):
        return self._packed_params._weight_bias()

    def weight(self):
        """The quantized weight."""
        return self._weight_bias()[0]

    def bias(self):
        """The bias, or None."""
        return self._weight_bias()[1]

    def set_weight_bias(self, w, b):
        """Takes another weight and bias."""
        self._packed_params.set_weight_bias(w, b)

    def _save_to_state_dict(self, destination, prefix, keep_vars):
        super()._save_to_state_dict(destination, prefix, keep_vars)
        destination[prefix + "scale"] = flambeau.tensor(self.scale)
        destination[prefix + "zero_point"] = flambeau.tensor(self.zero_point)

    def _load_from_state_dict(self, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys,
                              error_msgs):
        for name, kind in (("scale", float), ("zero_point", int)):
            if prefix + name in state_dict:
                setattr(self, name, kind(state_dict.pop(prefix + name)))
            else:
                missing_keys.append(prefix + name)
        super()._load_from_state_dict(state_dict, prefix, local_metadata, False, missing_keys, unexpected_keys,
                                      error_msgs)

    @classmethod
    def from_float(cls, mod, use_precomputed_fake_quant=False):
        """The quantized layer of a Linear."""
        if use_precomputed_fake_quant:
            raise NotImplementedError("dynamic Linear: use_precomputed_fake_quant is not supported")
        if not isinstance(mod, nn.Linear):
            raise AssertionError(f"dynamic Linear: made from a Linear, got {type(mod).__name__}")
        weight = quantized_weight(mod.weight, weight_observer(mod))
        made = cls(mod.in_features, mod.out_features, dtype=weight.dtype)
        made.set_weight_bias(weight, mod.bias)
        return made
