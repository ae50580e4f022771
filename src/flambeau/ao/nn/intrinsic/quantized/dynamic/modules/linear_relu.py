"""The linear layer with quantized weights and relu after it."""

import flambeau

from .....quantized.dynamic.modules.linear import Linear


class LinearReLU(Linear):
    """relu(x w^T + b) with w of 8 bits, on numbers.

    >>> import flambeau
    >>> flambeau.ao.nn.intrinsic.quantized.dynamic.LinearReLU(4, 2)
    DynamicQuantizedLinearReLU(in_features=4, out_features=2, dtype=torch.qint8, qscheme=torch.per_tensor_affine)
    """

    def __init__(self, in_features, out_features, bias=True, dtype=flambeau.qint8):
        super().__init__(in_features, out_features, bias, dtype)

    def forward(self, x):
        return super().forward(x).relu_()

    def _get_name(self):
        return "DynamicQuantizedLinearReLU"
