"""Batch normalization on codes, with the means and variances that training has left."""

import flambeau
from flambeau import nn

from ....._quantized.norms import batch_norm
from .utils import checked, output_scale


class _BatchNorm(nn.modules.batchnorm._BatchNorm):
    """What both share."""

    _operator, _FLOAT_MODULE = None, None

    def __init__(self, num_features, eps=1e-5, momentum=0.1, device=None, dtype=None):
        super().__init__(num_features, eps, momentum, True, True, device=device, dtype=dtype)
        self.register_buffer("scale", flambeau.tensor(1.0))
        self.register_buffer("zero_point", flambeau.tensor(0))

    def forward(self, input):
        return self._operator(input, self.weight, self.bias, self.running_mean, self.running_var, self.eps, self.scale,
                              self.zero_point)

    def _get_name(self):
        return "Quantized" + type(self).__name__

    @classmethod
    def from_float(cls, mod, use_precomputed_fake_quant=False):
        """The layer on codes of an observed batch normalization."""
        return cls.from_reference(checked(cls, mod), *output_scale(cls, mod))

    @classmethod
    def from_reference(cls, bn, output_scale, output_zero_point):
        """The layer on codes of a batch normalization."""
        made = cls(bn.num_features, bn.eps, device=bn.weight.device, dtype=bn.weight.dtype)
        for name in ("weight", "bias", "running_mean", "running_var"):
            setattr(made, name, getattr(bn, name))
        made.scale, made.zero_point = flambeau.tensor(float(output_scale)), flambeau.tensor(int(output_zero_point))
        return made


class BatchNorm2d(_BatchNorm):
    """Batch normalization of codes [n, channels, height, width].

    >>> import flambeau
    >>> layer = flambeau.ao.nn.quantized.BatchNorm2d(2)
    >>> layer(flambeau.quantize_per_tensor(flambeau.ones(1, 2, 1, 1), 1.0, 0, flambeau.quint8)).int_repr().flatten()
    tensor([1, 1], dtype=torch.uint8)
    """

    _operator, _FLOAT_MODULE = staticmethod(batch_norm("batch_norm2d")), nn.BatchNorm2d

    def _check_input_dim(self, input):
        """The operator checks."""


class BatchNorm3d(_BatchNorm):
    """Batch normalization of codes [n, channels, depth, height, width]."""

    _operator, _FLOAT_MODULE = staticmethod(batch_norm("batch_norm3d")), nn.BatchNorm3d

    def _check_input_dim(self, input):
        """The operator checks."""
