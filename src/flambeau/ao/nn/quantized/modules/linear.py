"""The linear layer on codes, and the form in which it keeps its weight."""

import flambeau
from flambeau import nn

from ....._quantized.packed import pack_linear
from ....._quantized.products import linear
from .utils import WeightedQuantizedModule, take


class LinearPackedParams(nn.Module):
    """Weight and bias of a quantized linear layer; its state is PyTorch's."""

    _version = 3

    def __init__(self, dtype=flambeau.qint8):
        super().__init__()
        self.dtype = dtype
        if dtype is flambeau.qint8:
            weight = flambeau._empty_affine_quantized([1, 1], scale=1.0, zero_point=0, dtype=flambeau.qint8)
        elif dtype is flambeau.float16:
            weight = flambeau.zeros([1, 1], dtype=flambeau.float16)
        else:
            raise RuntimeError(f"LinearPackedParams: expected dtype qint8 or float16, got {dtype}")
        self.set_weight_bias(weight, None)

    def set_weight_bias(self, weight, bias):
        """Packs new ones; a weight of float32 becomes halves where the dtype says so."""
        if self.dtype is flambeau.float16 and weight.dtype is not flambeau.float16:
            weight = weight.detach().half()
        self._packed_params = pack_linear(weight, bias)

    def _weight_bias(self):
        return self._packed_params.unpack()

    def forward(self, x):
        """Returns x: the layer around it computes."""
        return x

    def _save_to_state_dict(self, destination, prefix, keep_vars):
        super()._save_to_state_dict(destination, prefix, keep_vars)
        destination[prefix + "dtype"] = self.dtype
        weight, bias = self._weight_bias()
        if self.dtype is flambeau.float16:
            weight = weight.float()
        destination[prefix + "_packed_params"] = weight, bias

    def _load_from_state_dict(self, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys,
                              error_msgs):
        take(state_dict, prefix + "dtype", missing_keys, lambda dtype: setattr(self, "dtype", dtype))
        take(state_dict, prefix + "_packed_params", missing_keys, lambda both: self.set_weight_bias(*both))
        super()._load_from_state_dict(state_dict, prefix, local_metadata, False, missing_keys, unexpected_keys,
                                      error_msgs)

    def __repr__(self):
        return repr(self._weight_bias())


class Linear(WeightedQuantizedModule):
    """y = x w^T + b on codes: x is quint8, w is qint8 with one scale or one per row, y gets codes of `scale` and
    `zero_point`.

    >>> import flambeau
    >>> layer = flambeau.ao.nn.quantized.Linear(4, 2)
    >>> layer(flambeau.quantize_per_tensor(flambeau.ones(3, 4), 0.1, 0, flambeau.quint8)).shape
    torch.Size([3, 2])
    """

    _version = 3
    _FLOAT_MODULE = nn.Linear

    def __init__(self, in_features, out_features, bias_=True, dtype=flambeau.qint8):
        super().__init__()
        self.in_features, self.out_features = in_features, out_features
        self._packed_params = LinearPackedParams(dtype)
        bias = flambeau.zeros(out_features, dtype=flambeau.float) if bias_ else None
        if dtype is flambeau.qint8:
            weight = flambeau._empty_affine_quantized([out_features, in_features], scale=1, zero_point=0, dtype=dtype)
        else:
            weight = flambeau.zeros(out_features, in_features)
        self.set_weight_bias(weight, bias)

    def forward(self, x):
        """The layer's output, in quint8."""
        return linear(x, self._packed_params._packed_params, self.scale, self.zero_point)

    def _get_name(self):
        return "QuantizedLinear"

    def extra_repr(self):
        return (f"in_features={self.in_features}, out_features={self.out_features}, scale={self.scale}, "
                f"zero_point={self.zero_point}, qscheme={self.weight().qscheme()}")

    def __repr__(self):
        return f"{self._get_name()}({self.extra_repr()})"

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

    @classmethod
    def _shaped(cls, mod):
        return cls(mod.in_features, mod.out_features)
