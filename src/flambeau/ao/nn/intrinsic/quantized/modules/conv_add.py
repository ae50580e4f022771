"""Convolutions on codes to whose result another tensor is added."""

from ......_quantized.products import conv as convolve
from ....quantized.modules import conv


class ConvAdd2d(conv.Conv2d):
    """A convolution of codes plus `extra_input`, both [n, channels, height, width].

    >>> import flambeau
    >>> layer = flambeau.ao.nn.intrinsic.quantized.ConvAdd2d(2, 2, 1)
    >>> x = flambeau.quantize_per_tensor(flambeau.ones(1, 2, 3, 3), 1.0, 0, flambeau.quint8)
    >>> layer(x, x).shape
    torch.Size([1, 2, 3, 3])
    """

    def forward(self, input, extra_input):
        return convolve(self._dims, self._get_name(), self._padded(input), self._packed_params, self.scale,
                        self.zero_point, self._relu, plus=extra_input)

    def _get_name(self):
        return "QuantizedConvAdd2d"


class ConvAddReLU2d(ConvAdd2d):
    """relu of a convolution of codes plus `extra_input`."""

    _relu = True

    def _get_name(self):
        return "QuantizedConvAddReLU2d"
