"""Convolutions on codes with relu after them."""

from ....quantized.modules import conv


class _ReLU:
    _relu = True

    def _get_name(self):
        return f"QuantizedConvReLU{self._dims}d"


class ConvReLU1d(_ReLU, conv.Conv1d):
    """relu of a convolution of codes [n, channels, length]."""


class ConvReLU2d(_ReLU, conv.Conv2d):
    """relu of a convolution of codes [n, channels, height, width].

    >>> import flambeau
    >>> flambeau.ao.nn.intrinsic.quantized.ConvReLU2d(2, 4, 3)
    QuantizedConvReLU2d(2, 4, kernel_size=(3, 3), stride=(1, 1), scale=1.0, zero_point=0)
    """


class ConvReLU3d(_ReLU, conv.Conv3d):
    """relu of a convolution of codes [n, channels, depth, height, width]."""
