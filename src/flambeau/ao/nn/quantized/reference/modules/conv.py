"""Convolutions of reference."""

from flambeau import nn

from ....qat.modules._fake_weight import conv_arguments
from .utils import ReferenceQuantizedModule, take_parameters


class _Conv(ReferenceQuantizedModule):
    def __init__(self, in_channels, out_channels, kernel_size, stride=1, padding=0, dilation=1, groups=1, bias=True,
                 padding_mode="zeros", device=None, dtype=None, weight_qparams=None):
        super().__init__(in_channels, out_channels, kernel_size, stride, padding, dilation, groups, bias, padding_mode,
                         device, dtype)
        self._init_weight_qparams(weight_qparams, device)

    def _get_name(self):
        return f"Quantized{type(self).__name__}(Reference)"

    def forward(self, x):
        return self._conv_forward(x, self.get_weight(), self.bias)

    @classmethod
    def from_float(cls, float_conv, weight_qparams):
        """The layer of reference of a convolution."""
        weight = float_conv.weight
        made = cls(**conv_arguments(float_conv), device=weight.device, dtype=weight.dtype,
                   weight_qparams=weight_qparams)
        return take_parameters(made, float_conv)


class Conv1d(_Conv, nn.Conv1d):
    """A Conv1d that computes in floats with a weight that went through its codes."""


class Conv2d(_Conv, nn.Conv2d):
    """A Conv2d that computes in floats with a weight that went through its codes."""


class Conv3d(_Conv, nn.Conv3d):
    """A Conv3d that computes in floats with a weight that went through its codes."""


class _ConvTranspose(ReferenceQuantizedModule):
    def __init__(self, in_channels, out_channels, kernel_size, stride=1, padding=0, output_padding=0, groups=1,
                 bias=True, dilation=1, padding_mode="zeros", device=None, dtype=None, weight_qparams=None):
        super().__init__(in_channels, out_channels, kernel_size, stride, padding, output_padding, groups, bias,
                         dilation, padding_mode, device, dtype)
        self._init_weight_qparams(weight_qparams, device)

    def _get_name(self):
        return f"Quantized{type(self).__name__}(Reference)"

    def forward(self, x, output_size=None):
        extra = self.output_padding if output_size is None else self._padding_for(x, output_size)
        return self._op(x, self.get_weight(), self.bias, self.stride, self.padding, extra, self.groups, self.dilation)

    @classmethod
    def from_float(cls, float_conv, weight_qparams):
        """The layer of reference of a transposed convolution."""
        weight = float_conv.weight
        made = cls(**conv_arguments(float_conv), output_padding=float_conv.output_padding, device=weight.device,
                   dtype=weight.dtype, weight_qparams=weight_qparams)
        return take_parameters(made, float_conv)


class ConvTranspose1d(_ConvTranspose, nn.ConvTranspose1d):
    """A ConvTranspose1d that computes in floats with a weight that went through its codes."""


class ConvTranspose2d(_ConvTranspose, nn.ConvTranspose2d):
    """A ConvTranspose2d that computes in floats with a weight that went through its codes."""


class ConvTranspose3d(_ConvTranspose, nn.ConvTranspose3d):
    """A ConvTranspose3d that computes in floats with a weight that went through its codes."""
