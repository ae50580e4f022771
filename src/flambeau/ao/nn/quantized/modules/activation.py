"""Activations on codes whose results have a scale of their own."""

import flambeau
from flambeau import nn

from ....._quantized import functions
from .utils import output_scale


def _scaled(module, scale, zero_point):
    """Stores scale and zero point as buffers."""
    module.register_buffer("scale", flambeau.as_tensor(scale, dtype=flambeau.float32))
    module.register_buffer("zero_point", flambeau.as_tensor(zero_point, dtype=flambeau.int64))


class ReLU6(nn.ReLU):
    """min(max(x, 0), 6) of codes.

    >>> import flambeau
    >>> x = flambeau.quantize_per_tensor(flambeau.tensor([-1.0, 2.0, 9.0]), 0.1, 20, flambeau.quint8)
    >>> flambeau.ao.nn.quantized.ReLU6()(x).dequantize()
    tensor([0., 2., 6.])
    """

    def forward(self, input):
        return functions.relu6(input, self.inplace)

    def _get_name(self):
        return "QuantizedReLU6"

    @staticmethod
    def from_float(mod, use_precomputed_fake_quant=False):
        """The layer on codes of a ReLU6; it keeps the input's scale, so there is nothing to observe."""
        return ReLU6(mod.inplace)


class Hardswish(nn.Hardswish):
    """hardswish of codes."""

    def __init__(self, scale, zero_point, device=None, dtype=None):
        super().__init__()
        _scaled(self, scale, zero_point)

    def forward(self, input):
        return functions.hardswish(input, self.scale, self.zero_point)

    def _get_name(self):
        return "QuantizedHardswish"

    @classmethod
    def from_float(cls, mod, use_precomputed_fake_quant=False):
        """The layer on codes of an observed Hardswish."""
        return cls(*output_scale(cls, mod))

    @classmethod
    def from_reference(cls, mod, scale, zero_point):
        """The layer on codes of a Hardswish."""
        return cls(float(scale), int(zero_point))


class ELU(nn.ELU):
    """elu of codes."""

    def __init__(self, scale, zero_point, alpha=1.0):
        super().__init__(alpha)
        self.scale, self.zero_point = scale, zero_point

    def forward(self, input):
        return functions.elu(input, self.scale, self.zero_point, self.alpha)

    def _get_name(self):
        return "QuantizedELU"

    @classmethod
    def from_float(cls, mod, use_precomputed_fake_quant=False):
        """The layer on codes of an observed ELU."""
        return cls(*output_scale(cls, mod), mod.alpha)

    @classmethod
    def from_reference(cls, mod, scale, zero_point):
        """The layer on codes of an ELU."""
        return cls(float(scale), int(zero_point), mod.alpha)


class LeakyReLU(nn.LeakyReLU):
    """leaky_relu of codes."""

    def __init__(self, scale, zero_point, negative_slope=1e-2, inplace=False, device=None, dtype=None):
        super().__init__(negative_slope, inplace)
        _scaled(self, scale, zero_point)

    def forward(self, input):
        return functions.leaky_relu(input, self.negative_slope, self.inplace, self.scale, self.zero_point)

    def _get_name(self):
        return "QuantizedLeakyReLU"

    @classmethod
    def from_float(cls, mod, use_precomputed_fake_quant=False):
        """The layer on codes of an observed LeakyReLU."""
        return cls(*output_scale(cls, mod), mod.negative_slope, mod.inplace)

    @classmethod
    def from_reference(cls, mod, scale, zero_point):
        """The layer on codes of a LeakyReLU."""
        return cls(float(scale), int(zero_point), mod.negative_slope, mod.inplace)


class Sigmoid(nn.Sigmoid):
    """sigmoid of codes."""

    def __init__(self, output_scale, output_zero_point):
        super().__init__()
        self.output_scale, self.output_zero_point = output_scale, output_zero_point

    def forward(self, input):
        return functions.sigmoid(input, self.output_scale, self.output_zero_point)

    @classmethod
    def from_float(cls, mod, use_precomputed_fake_quant=False):
        """The layer on codes of an observed Sigmoid."""
        return cls(*output_scale(cls, mod))


class Softmax(nn.Softmax):
    """softmax of codes."""

    def __init__(self, dim=None, scale=1.0, zero_point=0):
        super().__init__()
        self.dim, self.scale, self.zero_point = dim, scale, zero_point

    def forward(self, input):
        dim = self.dim
        if dim is None:
            dim = 0 if input.ndim in (0, 1, 3) else 1
        return functions.softmax(input, dim, self.scale, self.zero_point)

    def _get_name(self):
        return "QuantizedSoftmax"

    @classmethod
    def from_float(cls, mod, use_precomputed_fake_quant=False):
        """The layer on codes of an observed Softmax."""
        return cls(mod.dim, *output_scale(cls, mod))

    @classmethod
    def from_reference(cls, mod, scale, zero_point):
        """The layer on codes of a Softmax."""
        return cls(mod.dim, float(scale), int(zero_point))


class PReLU(nn.Module):
    """prelu of codes, whose weight has codes too."""

    def __init__(self, output_scale, output_zero_point, num_parameters=1):
        super().__init__()
        self.num_parameters, self.scale, self.zero_point = num_parameters, output_scale, output_zero_point
        self.set_weight(flambeau.quantize_per_tensor(flambeau.randn(num_parameters), 1.0, 0, flambeau.quint8))

    def set_weight(self, w):
        """Takes another quantized weight."""
        self.weight = w

    def forward(self, input):
        return functions.prelu(input, self.weight, self.scale, self.zero_point)

    def _get_name(self):
        return "QuantizedPReLU"

    @classmethod
    def from_float(cls, mod, use_precomputed_fake_quant=False):
        """The layer on codes of an observed PReLU."""
        made = cls(*output_scale(cls, mod), mod.num_parameters)
        made._take(mod, mod.weight.detach().float())
        return made

    @classmethod
    def from_reference(cls, mod, scale, zero_point):
        """The layer on codes of a PReLU with a qconfig."""
        made = cls(float(scale), int(zero_point), mod.num_parameters)
        made._take(mod, mod.weight.detach().float())
        return made

    def _take(self, mod, weight):
        observer = mod.qconfig.weight()
        observer(weight)
        if observer.dtype is not flambeau.quint8:
            raise AssertionError(f"PReLU: its weight becomes quint8, but the qconfig's observer has {observer.dtype}")
        scale, zero_point = observer.calculate_qparams()
        self.set_weight(flambeau.quantize_per_tensor(weight, float(scale), int(zero_point), flambeau.quint8))
