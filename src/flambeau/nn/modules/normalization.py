"""Normalization over features or neighbouring channels: layer, group, RMS and local response norm."""

import numbers

from ... import empty
from ..._shown import shown
from .. import functional as F
from .. import init
from ..parameter import Parameter
from ._sizes import Shown
from .module import Module


def _shape(normalized_shape):
    return (normalized_shape,) if isinstance(normalized_shape, numbers.Integral) else tuple(normalized_shape)


class LayerNorm(Shown, Module):
    """Normalizes over the last dimensions, `normalized_shape`, to mean 0 and variance 1   (Ba et al. 2016).

    >>> import flambeau
    >>> flambeau.nn.LayerNorm(2)(flambeau.tensor([[1.0, 3.0]])).round().tolist()
    [[-1.0, 1.0]]
    """

    def __init__(self, normalized_shape, eps=1e-5, elementwise_affine=True, bias=True, device=None, dtype=None):
        super().__init__()
        self.normalized_shape = _shape(normalized_shape)
        self.eps, self.elementwise_affine = eps, elementwise_affine
        for name, present in (("weight", elementwise_affine), ("bias", elementwise_affine and bias)):
            values = Parameter(empty(self.normalized_shape, device=device, dtype=dtype)) if present else None
            self.register_parameter(name, values)
        self.reset_parameters()

    def reset_parameters(self):
        """Scale 1, shift 0."""
        if self.weight is not None:
            init.ones_(self.weight)
        if self.bias is not None:
            init.zeros_(self.bias)

    def forward(self, input):
        return F.layer_norm(input, self.normalized_shape, self.weight, self.bias, self.eps)

    def extra_repr(self):
        return (
            f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}, "
            f"bias={self.bias is not None}"
        )


class RMSNorm(Module):
    """x / sqrt(mean(x²) + eps) over the last dimensions; eps None is the dtype's smallest step (Zhang & Sennrich 2019).

    >>> import flambeau
    >>> flambeau.nn.RMSNorm(2)(flambeau.full((1, 2), 4.0)).tolist()
    [[1.0, 1.0]]
    """

    def __init__(self, normalized_shape, eps=None, elementwise_affine=True, device=None, dtype=None):
        super().__init__()
        self.normalized_shape = _shape(normalized_shape)
        self.eps, self.elementwise_affine = eps, elementwise_affine
        made = {"device": device, "dtype": dtype}
        self.register_parameter(
            "weight", Parameter(empty(self.normalized_shape, **made)) if elementwise_affine else None
        )
        self.reset_parameters()

    def reset_parameters(self):
        """Scale 1."""
        if self.weight is not None:
            init.ones_(self.weight)

    def forward(self, input):
        return F.rms_norm(input, self.normalized_shape, self.weight, self.eps)

    def extra_repr(self):
        return f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}"


class GroupNorm(Module):
    """Normalizes each sample over each of `num_groups` groups of channels   (Wu & He 2018).

    >>> import flambeau
    >>> flambeau.nn.GroupNorm(2, 4)(flambeau.zeros(1, 4, 3)).shape
    torch.Size([1, 4, 3])
    """

    def __init__(self, num_groups, num_channels, eps=1e-5, affine=True, device=None, dtype=None, *, bias=True):
        super().__init__()
        if num_channels % num_groups != 0:
            raise ValueError(f"num_channels={shown(num_channels)} cannot be divided into "
                             f"num_groups={shown(num_groups)}")
        self.num_groups, self.num_channels, self.eps, self.affine = num_groups, num_channels, eps, affine
        for name, present in (("weight", affine), ("bias", affine and bias)):
            values = Parameter(empty(num_channels, device=device, dtype=dtype)) if present else None
            self.register_parameter(name, values)
        self.reset_parameters()

    def reset_parameters(self):
        """Scale 1, shift 0."""
        if self.weight is not None:
            init.ones_(self.weight)
        if self.bias is not None:
            init.zeros_(self.bias)

    def forward(self, input):
        return F.group_norm(input, self.num_groups, self.weight, self.bias, self.eps)

    def extra_repr(self):
        bias = self.bias is not None
        return f"{self.num_groups}, {self.num_channels}, eps={self.eps}, affine={self.affine}, bias={bias}"


class LocalResponseNorm(Module):
    """x / (k + alpha mean(x² over `size` channels around))^beta   (Krizhevsky et al. 2012).

    >>> import flambeau
    >>> flambeau.nn.LocalResponseNorm(2)(flambeau.zeros(1, 4, 3)).shape
    torch.Size([1, 4, 3])
    """

    def __init__(self, size, alpha=1e-4, beta=0.75, k=1.0):
        super().__init__()
        self.size, self.alpha, self.beta, self.k = size, alpha, beta, k

    def forward(self, input):
        return F.local_response_norm(input, self.size, self.alpha, self.beta, self.k)

    def extra_repr(self):
        return f"{self.size}, alpha={self.alpha}, beta={self.beta}, k={self.k}"


class CrossMapLRN2d(LocalResponseNorm):
    """The old name of LocalResponseNorm, for [N, C, H, W].

    >>> import flambeau
    >>> flambeau.nn.CrossMapLRN2d(2)(flambeau.zeros(1, 4, 3, 3)).shape
    torch.Size([1, 4, 3, 3])
    """

    def __init__(self, size, alpha=1e-4, beta=0.75, k=1):
        super().__init__(size, alpha, beta, k)
