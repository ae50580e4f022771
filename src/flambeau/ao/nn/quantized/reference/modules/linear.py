"""The linear layer of reference."""

from flambeau import nn

from .utils import ReferenceQuantizedModule, take_parameters


class Linear(ReferenceQuantizedModule, nn.Linear):
    """A Linear layer that computes in floats with a weight that went through its codes.

    >>> import flambeau
    >>> layer = flambeau.ao.nn.quantized.reference.Linear(4, 2)
    >>> layer(flambeau.ones(3, 4)).shape
    torch.Size([3, 2])
    """

    def __init__(self, in_features, out_features, bias_=True, device=None, dtype=None, weight_qparams=None):
        super().__init__(in_features, out_features, bias_, device, dtype)
        self._init_weight_qparams(weight_qparams, device)

    def _get_name(self):
        return "QuantizedLinear(Reference)"

    def forward(self, x):
        return nn.functional.linear(x, self.get_weight(), self.bias)

    @classmethod
    def from_float(cls, float_linear, weight_qparams):
        """The layer of reference of a Linear."""
        made = cls(float_linear.in_features, float_linear.out_features, float_linear.bias is not None,
                   device=float_linear.weight.device, dtype=float_linear.weight.dtype, weight_qparams=weight_qparams)
        return take_parameters(made, float_linear)
