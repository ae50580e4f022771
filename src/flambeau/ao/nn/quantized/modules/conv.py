"""Convolutions on codes, in one, two and three dimensions, and their transposes."""

import flambeau
from flambeau import nn

from ....._quantized.packed import pack_conv
from ....._quantized.products import conv
from ....._shown import shown
from .utils import WeightedQuantizedModule, take


class _ConvNd(WeightedQuantizedModule):
    """What all of them share; `_packed_params` has weight, bias and geometry."""

    _dims, _transposed = None, False
    _relu = False
    _modes = ("zeros", "reflect")

    def __init__(self, in_channels, out_channels, kernel_size, stride=1, padding=0, dilation=1, groups=1, bias=True,
                 padding_mode="zeros", device=None, dtype=None, output_padding=0):
        super().__init__()
        name, n = type(self).__name__, self._dims
        if dtype not in (None, flambeau.quint8, flambeau.qint8) or (device and flambeau.device(device).type != "cpu"):
            raise NotImplementedError(f"{name}: only on the CPU, with results of quint8; got {device}, {dtype}")
        if padding_mode not in self._modes:
            raise NotImplementedError(f"{name}: padding_mode must be {' or '.join(self._modes)}, got "
                                      f"{shown(padding_mode)}")
        if in_channels % groups or out_channels % groups:
            raise ValueError(f"{name}: {groups} groups must divide {in_channels} input and {out_channels} output "
                             "channels")
        self.in_channels, self.out_channels, self.groups = in_channels, out_channels, groups
        sizes = {"kernel_size": kernel_size, "stride": stride, "padding": padding, "dilation": dilation,
                 "output_padding": output_padding}
        for what, value in sizes.items():
            setattr(self, what, (value,) * n if isinstance(value, int) else tuple(value))
        self.transposed, self.padding_mode = self._transposed, padding_mode
        first, second = (in_channels, out_channels) if self.transposed else (out_channels, in_channels)
        weight = flambeau._empty_affine_quantized([first, second // groups, *self.kernel_size], scale=1, zero_point=0,
                                                  dtype=flambeau.qint8)
        self.set_weight_bias(weight, flambeau.zeros(out_channels) if bias else None)

    def forward(self, input):
        """The convolution, in quint8."""
        return conv(self._dims, self._get_name(), self._padded(input), self._packed_params, self.scale, self.zero_point,
                    self._relu, self.transposed)

    def _padded(self, input):
        if self.padding_mode == "zeros":
            return input
        return nn.functional.pad(input, [p for p in reversed(self.padding) for _ in (0, 1)], self.padding_mode)

    def set_weight_bias(self, w, b):
        """Takes another weight and bias."""
        padding = self.padding if self.padding_mode == "zeros" else (0,) * self._dims
        self._packed_params = pack_conv(self._dims, self._get_name(), w, b, self.stride, padding, self.dilation,
                                        self.groups, self.output_padding if self.transposed else None)

    def _weight_bias(self):
        return self._packed_params.unpack()

    def weight(self):
        """The quantized weight."""
        return self._weight_bias()[0]

    def bias(self):
        """The bias, or None."""
        return self._weight_bias()[1]

    def _get_name(self):
        return f"QuantizedConv{'Transpose' * self._transposed}{self._dims}d"

    def extra_repr(self):
        n = self._dims
        text = (f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}, stride={self.stride}, "
                f"scale={self.scale}, zero_point={self.zero_point}")
        for name, usual in (("padding", (0,) * n), ("dilation", (1,) * n), ("output_padding", (0,) * n), ("groups", 1)):
            if getattr(self, name) != usual:
                text += f", {name}={getattr(self, name)}"
        return text + (", bias=False" if self.bias() is None else "")

    def _save_to_state_dict(self, destination, prefix, keep_vars):
        destination[prefix + "weight"], destination[prefix + "bias"] = self._weight_bias()
        super()._save_to_state_dict(destination, prefix, keep_vars)

    def _load_from_state_dict(self, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys,
                              error_msgs):
        found = {}
        for name in ("weight", "bias"):
            take(state_dict, prefix + name, missing_keys, lambda value, n=name: found.setdefault(n, value))
        if len(found) == 2:
            self.set_weight_bias(found["weight"], found["bias"])
        super()._load_from_state_dict(state_dict, prefix, local_metadata, False, missing_keys, unexpected_keys,
                                      error_msgs)

    @classmethod
    def _shaped(cls, mod):
        return cls(mod.in_channels, mod.out_channels, mod.kernel_size, mod.stride, mod.padding, mod.dilation,
                   mod.groups, mod.bias is not None, mod.padding_mode)


class Conv1d(_ConvNd):
    """A convolution of codes [n, channels, length]; the result has codes of `scale` and `zero_point`.

    >>> import flambeau
    >>> layer = flambeau.ao.nn.quantized.Conv1d(2, 4, 3)
    >>> layer(flambeau.quantize_per_tensor(flambeau.ones(1, 2, 8), 0.1, 0, flambeau.quint8)).shape
    torch.Size([1, 4, 6])
    """

    _dims, _FLOAT_MODULE = 1, nn.Conv1d


class Conv2d(_ConvNd):
    """A convolution of codes [n, channels, height, width]; the result has codes of `scale` and `zero_point`."""

    _dims, _FLOAT_MODULE = 2, nn.Conv2d


class Conv3d(_ConvNd):
    """A convolution of codes [n, channels, depth, height, width]; the result has codes of `scale` and `zero_point`."""

    _dims, _FLOAT_MODULE = 3, nn.Conv3d
    _modes = ("zeros",)


class _ConvTransposeNd(_ConvNd):
    """What transposed convolutions share; their weights are [in, out / groups, *kernel]."""

    _transposed = True
    _modes = ("zeros",)

    def __init__(self, in_channels, out_channels, kernel_size, stride=1, padding=0, output_padding=0, groups=1,
                 bias=True, dilation=1, padding_mode="zeros", device=None, dtype=None):
        super().__init__(in_channels, out_channels, kernel_size, stride, padding, dilation, groups, bias, padding_mode,
                         device, dtype, output_padding)

    @classmethod
    def _shaped(cls, mod):
        return cls(mod.in_channels, mod.out_channels, mod.kernel_size, mod.stride, mod.padding, mod.output_padding,
                   mod.groups, mod.bias is not None, mod.dilation, mod.padding_mode)


class ConvTranspose1d(_ConvTransposeNd):
    """A transposed convolution of codes [n, channels, length]."""

    _dims, _FLOAT_MODULE = 1, nn.ConvTranspose1d


class ConvTranspose2d(_ConvTransposeNd):
    """A transposed convolution of codes [n, channels, height, width]."""

    _dims, _FLOAT_MODULE = 2, nn.ConvTranspose2d


class ConvTranspose3d(_ConvTransposeNd):
    """A transposed convolution of codes [n, channels, depth, height, width]."""

    _dims, _FLOAT_MODULE = 3, nn.ConvTranspose3d
