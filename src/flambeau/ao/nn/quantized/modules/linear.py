"""The weights of a linear layer in the form that its kernel reads."""

import flambeau
from flambeau import nn


class PackedLinear:
    """A quantized weight with what the int8 kernel needs beside its codes, or a weight of halves; and the bias."""

    def __init__(self, weight, bias):
        self.weight, self.bias = weight, bias
        if weight.dtype is flambeau.float16:
            return
        codes = weight.int_repr()
        if weight.qscheme() is flambeau.per_tensor_affine:
            scales, zeros = [weight.q_scale()], [weight.q_zero_point()]
        else:
            scales, zeros = weight.q_per_channel_scales(), weight.q_per_channel_zero_points()
        self.codes, self.sums = codes, codes.sum(1, dtype=flambeau.int32)
        self.scales = flambeau.as_tensor(scales, dtype=flambeau.float32).contiguous()
        self.zeros = flambeau.as_tensor(zeros, dtype=flambeau.int32).contiguous()

    def __call__(self, x, reduce_range=True):
        if self.weight.dtype is flambeau.float16:
            return nn.functional.linear(x, self.weight.float(), self.bias)
        return flambeau.ops.OPS["_int8_linear"](x, self.codes, self.scales, self.zeros, self.sums, self.bias,
                                                reduce_range)

    def unpack(self):
        """(weight, bias)."""
        return self.weight, self.bias

    def __deepcopy__(self, memo):
        return PackedLinear(self.weight.clone(), None if self.bias is None else self.bias.detach().clone())


def pack(weight, bias):
    """Packs a weight of dtype qint8 (one scale, or one per row) or float16."""
    if weight.dtype not in (flambeau.qint8, flambeau.float16) or weight.ndim != 2:
        raise RuntimeError(f"linear: a packed weight is a matrix of dtype qint8 or float16, got {weight.dtype} "
                           f"{list(weight.shape)}")
    if weight.dtype is flambeau.qint8 and weight.qscheme() is not flambeau.per_tensor_affine \
            and (weight.q_per_channel_axis() != 0 or weight.qscheme() is not flambeau.per_channel_affine):
        raise RuntimeError("linear: the channels of a packed weight are its rows, with integers as zero points")
    return PackedLinear(weight.contiguous(), None if bias is None else bias.detach().float())


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
        self._packed_params = pack(weight, bias)

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
        for name in ("dtype", "_packed_params"):
            if prefix + name not in state_dict:
                missing_keys.append(prefix + name)
        if prefix + "dtype" in state_dict and prefix + "_packed_params" in state_dict:
            self.dtype = state_dict.pop(prefix + "dtype")
            self.set_weight_bias(*state_dict.pop(prefix + "_packed_params"))
        super()._load_from_state_dict(state_dict, prefix, local_metadata, False, missing_keys, unexpected_keys,
                                      error_msgs)

    def __repr__(self):
        return repr(self._weight_bias())
