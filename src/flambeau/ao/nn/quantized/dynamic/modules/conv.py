"""Convolutions with quantized weights whose input gets codes for each call.

As in PyTorch the result passes through codes of the input's scale: what lies outside of the input's range is cut off.
"""

import flambeau

from ......_quantized.products import conv_dynamic
from ...modules import conv
from ...modules.utils import checked, quantized_weight, weight_observer


class _Dynamic:
    """What turns a convolution on codes into one on numbers."""

    def forward(self, input, reduce_range=True):
        """The convolution, in float32."""
        if input.dtype is not flambeau.float32:
            raise RuntimeError(f"{self._get_name()}: expected float32, got {input.dtype}")
        return conv_dynamic(self._dims, self._get_name(), self._padded(input), self._packed_params, reduce_range,
                            self.transposed)

    def _get_name(self):
        return "Dynamic" + super()._get_name()

    @classmethod
    def from_float(cls, mod, use_precomputed_fake_quant=False):
        """The layer with quantized weights of a float convolution with a qconfig."""
        weight = quantized_weight(mod.weight, weight_observer(mod), use_precomputed_fake_quant)
        made = cls._shaped(checked(cls, mod))
        made.set_weight_bias(weight, mod.bias)
        return made


class Conv1d(_Dynamic, conv.Conv1d):
    """A convolution of numbers [n, channels, length] with quantized weights.

    >>> import flambeau
    >>> flambeau.ao.nn.quantized.dynamic.Conv1d(2, 4, 3)(flambeau.ones(1, 2, 8)).shape
    torch.Size([1, 4, 6])
    """

    def __init__(self, in_channels, out_channels, kernel_size, stride=1, padding=0, dilation=1, groups=1, bias=True,
                 padding_mode="zeros", device=None, dtype=None, reduce_range=True):
        super().__init__(in_channels, out_channels, kernel_size, stride, padding, dilation, groups, bias, padding_mode,
                         device, dtype)
        self._reduce_range = reduce_range

    def forward(self, input, reduce_range=None):
        """The convolution, in float32."""
        return super().forward(input, self._reduce_range if reduce_range is None else reduce_range)


class Conv2d(_Dynamic, conv.Conv2d):
    """A convolution of numbers [n, channels, height, width] with quantized weights."""


class Conv3d(_Dynamic, conv.Conv3d):
    """A convolution of numbers [n, channels, depth, height, width] with quantized weights."""


class ConvTranspose1d(_Dynamic, conv.ConvTranspose1d):
    """A transposed convolution of numbers [n, channels, length] with quantized weights."""


class ConvTranspose2d(_Dynamic, conv.ConvTranspose2d):
    """A transposed convolution of numbers [n, channels, height, width] with quantized weights."""


class ConvTranspose3d(_Dynamic, conv.ConvTranspose3d):
    """A transposed convolution of numbers [n, channels, depth, height, width] with quantized weights."""
