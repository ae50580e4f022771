"""Linear layers on codes with a function after them."""

import flambeau

from ......_quantized.products import linear
from ....quantized.modules.linear import Linear


class LinearReLU(Linear):
    """relu(x w^T + b) on codes.

    >>> import flambeau
    >>> flambeau.ao.nn.intrinsic.quantized.LinearReLU(4, 2)
    QuantizedLinearReLU(in_features=4, out_features=2, scale=1.0, zero_point=0, qscheme=torch.per_tensor_affine)
    """

    def __init__(self, in_features, out_features, bias=True, dtype=flambeau.qint8):
        super().__init__(in_features, out_features, bias, dtype)

    def forward(self, x):
        """The layer's output, in quint8."""
        return linear(x, self._packed_params._packed_params, self.scale, self.zero_point, "linear_relu", "relu")

    def _get_name(self):
        return "QuantizedLinearReLU"


class LinearLeakyReLU(Linear):
    """leaky_relu(x w^T + b) on codes."""

    def __init__(self, in_features, out_features, negative_slope, bias=True, dtype=flambeau.qint8):
        super().__init__(in_features, out_features, bias, dtype)
        self.negative_slope = negative_slope

    def forward(self, x):
        """The layer's output, in quint8."""
        return linear(x, self._packed_params._packed_params, self.scale, self.zero_point, "linear_leaky_relu",
                      "leaky_relu", self.negative_slope)

    def _get_name(self):
        return "QuantizedLinearLeakyReLU"

    @classmethod
    def from_float(cls, mod, use_precomputed_fake_quant=False):
        """The quantized layer of an observed Linear with a LeakyReLU."""
        made = cls(mod[0].in_features, mod[0].out_features, mod[1].negative_slope)
        return made._like(mod, use_precomputed_fake_quant)

    @classmethod
    def from_reference(cls, ref_linear, ref_leaky_relu, output_scale, output_zero_point):
        """The quantized layer of a reference one and a LeakyReLU."""
        made = cls(ref_linear.in_features, ref_linear.out_features, ref_leaky_relu.negative_slope)
        return made._like_reference(ref_linear, output_scale, output_zero_point)


class LinearTanh(Linear):
    """tanh(x w^T + b) on codes."""

    def __init__(self, in_features, out_features, bias=True, dtype=flambeau.qint8):
        super().__init__(in_features, out_features, bias, dtype)

    def forward(self, x):
        """The layer's output, in quint8."""
        return linear(x, self._packed_params._packed_params, self.scale, self.zero_point, "linear_tanh", "tanh")

    def _get_name(self):
        return "QuantizedLinearTanh"
