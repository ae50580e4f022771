"""Convolutions in one, two and three dimensions, and their transposes."""

import math

from ... import empty
from ..._shown import shown
from .. import functional as F
from .. import init
from ..parameter import Parameter
from ._sizes import repeated
from .module import Module

_PADDING_MODES = ("zeros", "reflect", "replicate", "circular")


class _ConvNd(Module):
    """Arguments, weight and bias of all convolutions; weight [out, in/groups, *kernel], or transposed."""

    _dims = None
    _transposed = False

    def __init__(self, in_channels, out_channels, kernel_size, stride, padding, output_padding, dilation, groups, bias,
                 padding_mode, device, dtype):
        super().__init__()
        n = self._dims
        _check(in_channels, out_channels, groups, padding, stride, padding_mode, n)
        self.in_channels, self.out_channels = in_channels, out_channels
        self.kernel_size, self.stride, self.dilation = (repeated(v, n) for v in (kernel_size, stride, dilation))
        self.padding = padding if isinstance(padding, str) else repeated(padding, n)
        self.output_padding = repeated(output_padding, n)
        self.transposed, self.groups, self.padding_mode = self._transposed, groups, padding_mode
        self._edges = _edges(self.padding, self.kernel_size, self.dilation)
        first, second = (in_channels, out_channels) if self.transposed else (out_channels, in_channels)
        shape = (first, second // groups, *self.kernel_size)
        self.weight = Parameter(empty(shape, device=device, dtype=dtype))
        if bias:
            self.bias = Parameter(empty(out_channels, device=device, dtype=dtype))
        else:
            self.register_parameter("bias", None)
        self.reset_parameters()

    def reset_parameters(self):
        """Draw weight and bias anew."""
        init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        init._uniform_bias_(self.bias, self.weight)

    def extra_repr(self):
        n = self._dims
        parts = [f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}, stride={self.stride}"]
        for name, usual in (("padding", (0,) * n), ("dilation", (1,) * n), ("output_padding", (0,) * n), ("groups", 1)):
            value = getattr(self, name)
            if value != usual:
                parts.append(f"{name}={value}")
        if self.bias is None:
            parts.append("bias=False")
        if self.padding_mode != "zeros":
            parts.append(f"padding_mode={self.padding_mode}")
        return ", ".join(parts)


def _check(in_channels, out_channels, groups, padding, stride, padding_mode, n):
    if groups <= 0:
        raise ValueError(f"groups={shown(groups)} must be positive")
    if in_channels % groups != 0:
        raise ValueError(f"in_channels={shown(in_channels)} cannot be divided into groups={shown(groups)}")
    if out_channels % groups != 0:
        raise ValueError(f"out_channels={shown(out_channels)} cannot be divided into groups={shown(groups)}")
    if isinstance(padding, str):
        if padding not in ("same", "valid"):
            raise ValueError(f"padding must be a number, numbers, 'same' or 'valid', got {shown(padding)}")
        if padding == "same" and any(s != 1 for s in repeated(stride, n)):
            raise ValueError(f"padding='same' needs stride 1, got stride={shown(stride)}")
    if padding_mode not in _PADDING_MODES:
        raise ValueError(f"padding_mode must be {', '.join(map(repr, _PADDING_MODES))}, got {shown(padding_mode)}")


def _edges(padding, kernel_size, dilation):
    """(left, right) per dimension, last dimension first: what `pad` adds when padding_mode is not "zeros"."""
    if padding == "valid":
        return (0, 0) * len(kernel_size)
    if padding == "same":
        totals = [d * (k - 1) for d, k in zip(dilation, kernel_size, strict=True)]
        return tuple(edge for total in reversed(totals) for edge in (total // 2, total - total // 2))
    return tuple(p for p in reversed(padding) for _ in range(2))


class _Conv(_ConvNd):
    _op = None

    def __init__(self, in_channels, out_channels, kernel_size, stride=1, padding=0, dilation=1, groups=1, bias=True,
                 padding_mode="zeros", device=None, dtype=None):
        super().__init__(in_channels, out_channels, kernel_size, stride, padding, 0, dilation, groups, bias,
                         padding_mode, device, dtype)

    def _conv_forward(self, input, weight, bias):
        padding = self.padding
        if self.padding_mode != "zeros":
            input, padding = F.pad(input, self._edges, mode=self.padding_mode), 0
        return self._op(input, weight, bias, self.stride, padding, self.dilation, self.groups)

    def forward(self, input):
        return self._conv_forward(input, self.weight, self.bias)


class Conv1d(_Conv):
    """1-d convolution: [N, C_in, L] (or [C_in, L]) to [N, C_out, L_out].

    >>> import flambeau
    >>> flambeau.nn.Conv1d(2, 4, 3)(flambeau.zeros(1, 2, 8)).shape
    torch.Size([1, 4, 6])
    """

    _dims = 1
    _op = staticmethod(F.conv1d)


class Conv2d(_Conv):
    """2-d convolution: [N, C_in, H, W] (or [C_in, H, W]) to [N, C_out, H_out, W_out].

    >>> import flambeau
    >>> flambeau.nn.Conv2d(3, 8, 3, stride=2, padding=1)(flambeau.zeros(1, 3, 8, 8)).shape
    torch.Size([1, 8, 4, 4])
    """

    _dims = 2
    _op = staticmethod(F.conv2d)


class Conv3d(_Conv):
    """3-d convolution: [N, C_in, D, H, W] (or [C_in, D, H, W]) to [N, C_out, D_out, H_out, W_out].

    >>> import flambeau
    >>> flambeau.nn.Conv3d(1, 2, 2)(flambeau.zeros(1, 1, 4, 4, 4)).shape
    torch.Size([1, 2, 3, 3, 3])
    """

    _dims = 3
    _op = staticmethod(F.conv3d)


class _ConvTransposeNd(_ConvNd):
    _op = None
    _transposed = True

    def __init__(self, in_channels, out_channels, kernel_size, stride=1, padding=0, output_padding=0, groups=1,
                 bias=True, dilation=1, padding_mode="zeros", device=None, dtype=None):
        if padding_mode != "zeros":
            raise ValueError(f'{type(self).__name__}: padding_mode must be "zeros", got {shown(padding_mode)}')
        super().__init__(in_channels, out_channels, kernel_size, stride, padding, output_padding, dilation, groups,
                         bias, padding_mode, device, dtype)

    def forward(self, input, output_size=None):
        extra = self.output_padding if output_size is None else self._padding_for(input, output_size)
        return self._op(input, self.weight, self.bias, self.stride, self.padding, extra, self.groups, self.dilation)

    def _padding_for(self, input, output_size):
        """The output padding that gives the spatial size `output_size`."""
        n = self._dims
        sizes = list(output_size)
        if len(sizes) == input.dim():
            sizes = sizes[-n:]
        if len(sizes) != n:
            raise ValueError(
                f"ConvTranspose{n}d: output_size for {input.dim()}-dimensional input has {n} or {input.dim()} entries, "
                f"got {len(output_size)}"
            )
        rows = zip(input.shape[-n:], self.stride, self.padding, self.kernel_size, self.dilation, strict=True)
        least = [(size - 1) * s - 2 * p + d * (k - 1) + 1 for size, s, p, k, d in rows]
        most = [low + s - 1 for low, s in zip(least, self.stride, strict=True)]
        if any(not low <= size <= high for low, size, high in zip(least, sizes, most, strict=True)):
            raise ValueError(
                f"ConvTranspose{n}d: output_size={shown(output_size)} cannot come from input of size "
                f"{list(input.size()[2:])}; it can be {least} to {most}"
            )
        return tuple(size - low for size, low in zip(sizes, least, strict=True))


class ConvTranspose1d(_ConvTransposeNd):
    """The linear map of Conv1d transposed, as a layer: [N, C_in, L] to [N, C_out, L_out].

    >>> import flambeau
    >>> flambeau.nn.ConvTranspose1d(2, 1, 3, stride=2)(flambeau.zeros(1, 2, 4)).shape
    torch.Size([1, 1, 9])
    """

    _dims = 1
    _op = staticmethod(F.conv_transpose1d)


class ConvTranspose2d(_ConvTransposeNd):
    """The linear map of Conv2d transposed, as a layer: [N, C_in, H, W] to [N, C_out, H_out, W_out].

    >>> import flambeau
    >>> flambeau.nn.ConvTranspose2d(2, 1, 2, stride=2)(flambeau.zeros(1, 2, 4, 4)).shape
    torch.Size([1, 1, 8, 8])
    """

    _dims = 2
    _op = staticmethod(F.conv_transpose2d)


class ConvTranspose3d(_ConvTransposeNd):
    """The linear map of Conv3d transposed, as a layer.

    >>> import flambeau
    >>> flambeau.nn.ConvTranspose3d(2, 1, 2, stride=2)(flambeau.zeros(1, 2, 2, 2, 2)).shape
    torch.Size([1, 1, 4, 4, 4])
    """

    _dims = 3
    _op = staticmethod(F.conv_transpose3d)
