"""Convolutions whose weight passes through its codes."""

from flambeau import nn

from ...intrinsic import modules as fused
from ._fake_weight import FakeWeight, conv_arguments, float_copy


class _Conv(FakeWeight):
    _FLOAT_CONV_MODULE = None

    def __init__(self, in_channels, out_channels, kernel_size, stride=1, padding=0, dilation=1, groups=1, bias=True,
                 padding_mode="zeros", qconfig=None, device=None, dtype=None):
        super().__init__(in_channels, out_channels, kernel_size, stride=stride, padding=padding, dilation=dilation,
                         groups=groups, bias=bias, padding_mode=padding_mode, device=device, dtype=dtype)
        self._take_qconfig(qconfig, device)

    def forward(self, input):
        return self._conv_forward(input, self._faked_weight(), self.bias)

    @classmethod
    def from_float(cls, mod, use_precomputed_fake_quant=False):
        """The layer for training of a float one, which has a `qconfig`; it trains the same parameters.

        A layer for training has observed nothing yet, so `use_precomputed_fake_quant` has nothing to change.
        """
        cls._checked(mod)
        conv = mod[0] if issubclass(cls._FLOAT_MODULE, fused._FusedModule) else mod
        made = cls(**conv_arguments(conv), qconfig=mod.qconfig)
        made._share(conv)
        return made

    def to_float(self):
        """A float layer with the weights as they are now."""
        return float_copy(self, self._FLOAT_CONV_MODULE(**conv_arguments(self)))


class Conv1d(_Conv, nn.Conv1d):
    """A Conv1d whose weight passes through its codes."""

    _FLOAT_MODULE = _FLOAT_CONV_MODULE = nn.Conv1d


class Conv2d(_Conv, nn.Conv2d):
    """A Conv2d whose weight passes through its codes: conv(x, weight_fake_quant(weight), bias).

    >>> import flambeau
    >>> aoq = flambeau.ao.quantization
    >>> layer = flambeau.ao.nn.qat.Conv2d(1, 2, 3, qconfig=aoq.get_default_qat_qconfig("x86"))
    >>> layer(flambeau.ones(1, 1, 4, 4)).shape
    torch.Size([1, 2, 2, 2])
    """

    _FLOAT_MODULE = _FLOAT_CONV_MODULE = nn.Conv2d


class Conv3d(_Conv, nn.Conv3d):
    """A Conv3d whose weight passes through its codes."""

    _FLOAT_MODULE = _FLOAT_CONV_MODULE = nn.Conv3d
