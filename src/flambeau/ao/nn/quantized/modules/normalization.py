"""Normalization on codes: of layers, groups and instances."""

from flambeau import nn

from ....._quantized import norms
from .activation import _scaled
from .utils import output_scale


class LayerNorm(nn.LayerNorm):
    """Layer normalization of codes.

    >>> import flambeau
    >>> norm = flambeau.ao.nn.quantized.LayerNorm.from_reference(flambeau.nn.LayerNorm(4), 0.05, 100)
    >>> norm(flambeau.quantize_per_tensor(flambeau.arange(4.0), 0.1, 0, flambeau.quint8)).int_repr()
    tensor([ 73,  91, 109, 127], dtype=torch.uint8)
    """

    def __init__(self, normalized_shape, weight, bias, scale, zero_point, eps=1e-5, elementwise_affine=True,
                 device=None, dtype=None):
        super().__init__(normalized_shape, eps, elementwise_affine, device=device, dtype=dtype)
        self.weight, self.bias = weight, bias
        _scaled(self, scale, zero_point)

    def forward(self, input):
        return norms.layer_norm(input, self.normalized_shape, self.weight, self.bias, self.eps, self.scale,
                                self.zero_point)

    def _get_name(self):
        return "QuantizedLayerNorm"

    @classmethod
    def from_float(cls, mod, use_precomputed_fake_quant=False):
        """The layer on codes of an observed LayerNorm."""
        return cls.from_reference(mod, *output_scale(cls, mod))

    @classmethod
    def from_reference(cls, mod, scale, zero_point):
        """The layer on codes of a LayerNorm."""
        return cls(mod.normalized_shape, mod.weight, mod.bias, float(scale), int(zero_point), mod.eps,
                   mod.elementwise_affine)


class GroupNorm(nn.GroupNorm):
    """Group normalization of codes."""

    def __init__(self, num_groups, num_channels, weight, bias, scale, zero_point, eps=1e-5, affine=True, device=None,
                 dtype=None):
        super().__init__(num_groups, num_channels, eps, affine, device=device, dtype=dtype)
        self.weight, self.bias = weight, bias
        _scaled(self, scale, zero_point)

    def forward(self, input):
        return norms.group_norm(input, self.num_groups, self.weight, self.bias, self.eps, self.scale, self.zero_point)

    def _get_name(self):
        return "QuantizedGroupNorm"

    @classmethod
    def from_float(cls, mod, use_precomputed_fake_quant=False):
        """The layer on codes of an observed GroupNorm."""
        return cls(mod.num_groups, mod.num_channels, mod.weight, mod.bias, *output_scale(cls, mod), mod.eps, mod.affine)


class _OfInstances:
    """What the three normalizations of instances share, besides the float layer that each is."""

    def __init__(self, num_features, weight, bias, scale, zero_point, eps=1e-5, momentum=0.1, affine=False,
                 track_running_stats=False, device=None, dtype=None):
        super().__init__(num_features, eps, momentum, affine, track_running_stats, device=device, dtype=dtype)
        self.weight, self.bias = weight, bias
        _scaled(self, scale, zero_point)

    def forward(self, input):
        return norms.instance_norm(input, self.weight, self.bias, self.eps, self.scale, self.zero_point)

    def _get_name(self):
        return "Quantized" + type(self).__name__

    @classmethod
    def from_float(cls, mod, use_precomputed_fake_quant=False):
        """The layer on codes of an observed one."""
        return cls.from_reference(mod, *output_scale(cls, mod))

    @classmethod
    def from_reference(cls, mod, scale, zero_point):
        """The layer on codes of a float one."""
        return cls(mod.num_features, mod.weight, mod.bias, float(scale), int(zero_point), mod.eps, affine=mod.affine)


class InstanceNorm1d(_OfInstances, nn.InstanceNorm1d):
    """Normalization of each channel of each sample, for codes [n, channels, length]."""


class InstanceNorm2d(_OfInstances, nn.InstanceNorm2d):
    """Normalization of each channel of each sample, for codes [n, channels, height, width]."""


class InstanceNorm3d(_OfInstances, nn.InstanceNorm3d):
    """Normalization of each channel of each sample, for codes [n, channels, depth, height, width]."""
