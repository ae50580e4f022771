"""The linear layer whose weight passes through its codes."""

from flambeau import nn

from ...intrinsic import modules as fused
from ._fake_weight import FakeWeight, float_copy


class Linear(FakeWeight, nn.Linear):
    """A Linear layer whose weight passes through its codes: x @ weight_fake_quant(weight).T + bias.

    >>> import flambeau
    >>> aoq = flambeau.ao.quantization
    >>> layer = flambeau.ao.nn.qat.Linear(4, 2, qconfig=aoq.get_default_qat_qconfig("x86"))
    >>> layer(flambeau.ones(3, 4)).shape
    torch.Size([3, 2])
    """

    _FLOAT_MODULE = nn.Linear

    def __init__(self, in_features, out_features, bias=True, qconfig=None, device=None, dtype=None):
        super().__init__(in_features, out_features, bias, device=device, dtype=dtype)
        self._take_qconfig(qconfig, device)

    def forward(self, input):
        return nn.functional.linear(input, self._faked_weight(), self.bias)

    @classmethod
    def _checked(cls, mod):
        if type(mod) is not nn.modules.attention.NonDynamicallyQuantizableLinear or cls._FLOAT_MODULE is not nn.Linear:
            super()._checked(mod)

    @classmethod
    def from_float(cls, mod, use_precomputed_fake_quant=False):
        """The layer for training of a float one, which has a `qconfig`; it trains the same parameters.

        A layer for training has observed nothing yet, so `use_precomputed_fake_quant` has nothing to change.
        """
        cls._checked(mod)
        linear = mod[0] if issubclass(cls._FLOAT_MODULE, fused._FusedModule) else mod
        made = cls(linear.in_features, linear.out_features, bias=linear.bias is not None, qconfig=mod.qconfig)
        made._share(linear)
        return made

    def to_float(self):
        """A float layer with the weights as they are now."""
        return float_copy(self, nn.Linear(self.in_features, self.out_features, self.bias is not None))
