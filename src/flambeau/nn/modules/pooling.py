"""Pooling layers: the largest, the average or the p-norm of windows, of given size or for a given output size."""

from ..._shown import shown
from .. import functional as F
from ._sizes import Shown, repeated
from .module import Module


class _MaxPoolNd(Shown, Module):
    _shown = ("kernel_size", "stride", "padding", "dilation", "ceil_mode")

    def __init__(self, kernel_size, stride=None, padding=0, dilation=1, return_indices=False, ceil_mode=False):
        super().__init__()
        self.kernel_size = kernel_size
        self.stride = kernel_size if stride is None else stride
        self.padding, self.dilation = padding, dilation
        self.return_indices, self.ceil_mode = return_indices, ceil_mode

    def forward(self, input):
        return self._op(
            input, self.kernel_size, self.stride, self.padding, self.dilation, ceil_mode=self.ceil_mode,
            return_indices=self.return_indices,
        )  # fmt: skip


class MaxPool1d(_MaxPoolNd):
    """The largest element of each window of [N, C, L] or [C, L].

    >>> import flambeau
    >>> flambeau.nn.MaxPool1d(2)(flambeau.tensor([[1.0, 3.0, 2.0, 0.0]]))
    tensor([[3., 2.]])
    """

    _op = staticmethod(F.max_pool1d)


class MaxPool2d(_MaxPoolNd):
    """The largest element of each window of [N, C, H, W] or [C, H, W].

    >>> import flambeau
    >>> flambeau.nn.MaxPool2d(2)(flambeau.zeros(1, 3, 8, 8)).shape
    torch.Size([1, 3, 4, 4])
    """

    _op = staticmethod(F.max_pool2d)


class MaxPool3d(_MaxPoolNd):
    """The largest element of each window of [N, C, D, H, W] or [C, D, H, W].

    >>> import flambeau
    >>> flambeau.nn.MaxPool3d(2)(flambeau.zeros(1, 3, 4, 4, 4)).shape
    torch.Size([1, 3, 2, 2, 2])
    """

    _op = staticmethod(F.max_pool3d)


class _AvgPoolNd(Shown, Module):
    _shown = ("kernel_size", "stride", "padding")


class AvgPool1d(_AvgPoolNd):
    """The average of each window of [N, C, L] or [C, L].

    >>> import flambeau
    >>> flambeau.nn.AvgPool1d(2)(flambeau.tensor([[1.0, 3.0, 2.0, 0.0]]))
    tensor([[2., 1.]])
    """

    def __init__(self, kernel_size, stride=None, padding=0, ceil_mode=False, count_include_pad=True):
        super().__init__()
        self.kernel_size = repeated(kernel_size, 1)
        self.stride = repeated(kernel_size if stride is None else stride, 1)
        self.padding = repeated(padding, 1)
        self.ceil_mode, self.count_include_pad = ceil_mode, count_include_pad

    def forward(self, input):
        return F.avg_pool1d(
            input, self.kernel_size, self.stride, self.padding, self.ceil_mode, self.count_include_pad
        )  # fmt: skip


class _AvgPool(_AvgPoolNd):
    def __init__(self, kernel_size, stride=None, padding=0, ceil_mode=False, count_include_pad=True,
                 divisor_override=None):
        super().__init__()
        self.kernel_size = kernel_size
        self.stride = kernel_size if stride is None else stride
        self.padding, self.ceil_mode, self.count_include_pad = padding, ceil_mode, count_include_pad
        self.divisor_override = divisor_override

    def forward(self, input):
        return self._op(
            input, self.kernel_size, self.stride, self.padding, self.ceil_mode, self.count_include_pad,
            self.divisor_override,
        )  # fmt: skip


class AvgPool2d(_AvgPool):
    """The average of each window of [N, C, H, W] or [C, H, W].

    >>> import flambeau
    >>> flambeau.nn.AvgPool2d(2)(flambeau.ones(1, 1, 4, 4)).shape
    torch.Size([1, 1, 2, 2])
    """

    _op = staticmethod(F.avg_pool2d)


class AvgPool3d(_AvgPool):
    """The average of each window of [N, C, D, H, W] or [C, D, H, W].

    >>> import flambeau
    >>> flambeau.nn.AvgPool3d(2)(flambeau.ones(1, 1, 4, 4, 4)).shape
    torch.Size([1, 1, 2, 2, 2])
    """

    _op = staticmethod(F.avg_pool3d)


class _AdaptiveAvgPoolNd(Shown, Module):
    _shown = ("output_size",)

    def __init__(self, output_size):
        super().__init__()
        self.output_size = output_size

    def forward(self, input):
        return self._op(input, self.output_size)


class AdaptiveAvgPool1d(_AdaptiveAvgPoolNd):
    """Averages of windows chosen to give `output_size` results along L.

    >>> import flambeau
    >>> flambeau.nn.AdaptiveAvgPool1d(1)(flambeau.tensor([[1.0, 3.0]]))
    tensor([[2.]])
    """

    _op = staticmethod(F.adaptive_avg_pool1d)


class AdaptiveAvgPool2d(_AdaptiveAvgPoolNd):
    """Averages of windows chosen to give `output_size` (one number, or two; None keeps a size) results.

    >>> import flambeau
    >>> flambeau.nn.AdaptiveAvgPool2d((2, None))(flambeau.zeros(1, 3, 8, 5)).shape
    torch.Size([1, 3, 2, 5])
    """

    _op = staticmethod(F.adaptive_avg_pool2d)


class AdaptiveAvgPool3d(_AdaptiveAvgPoolNd):
    """Averages of windows chosen to give `output_size` (one number, or three; None keeps a size) results.

    >>> import flambeau
    >>> flambeau.nn.AdaptiveAvgPool3d(1)(flambeau.zeros(1, 3, 4, 4, 4)).shape
    torch.Size([1, 3, 1, 1, 1])
    """

    _op = staticmethod(F.adaptive_avg_pool3d)


class _AdaptiveMaxPoolNd(Shown, Module):
    _shown = ("output_size",)

    def __init__(self, output_size, return_indices=False):
        super().__init__()
        self.output_size, self.return_indices = output_size, return_indices

    def forward(self, input):
        return self._op(input, self.output_size, self.return_indices)


class AdaptiveMaxPool1d(_AdaptiveMaxPoolNd):
    """The largest elements of windows chosen to give `output_size` results along L.

    >>> import flambeau
    >>> flambeau.nn.AdaptiveMaxPool1d(1)(flambeau.tensor([[1.0, 3.0]]))
    tensor([[3.]])
    """

    _op = staticmethod(F.adaptive_max_pool1d)


class AdaptiveMaxPool2d(_AdaptiveMaxPoolNd):
    """The largest elements of windows chosen to give `output_size` (one number, or two) results.

    >>> import flambeau
    >>> flambeau.nn.AdaptiveMaxPool2d(2)(flambeau.zeros(1, 3, 8, 8)).shape
    torch.Size([1, 3, 2, 2])
    """

    _op = staticmethod(F.adaptive_max_pool2d)


class AdaptiveMaxPool3d(_AdaptiveMaxPoolNd):
    """The largest elements of windows chosen to give `output_size` (one number, or three) results.

    >>> import flambeau
    >>> flambeau.nn.AdaptiveMaxPool3d(1)(flambeau.zeros(1, 3, 4, 4, 4)).shape
    torch.Size([1, 3, 1, 1, 1])
    """

    _op = staticmethod(F.adaptive_max_pool3d)


class _LPPoolNd(Shown, Module):
    _shown = ("norm_type", "kernel_size", "stride", "ceil_mode")

    def __init__(self, norm_type, kernel_size, stride=None, ceil_mode=False):
        super().__init__()
        self.norm_type, self.kernel_size, self.stride, self.ceil_mode = norm_type, kernel_size, stride, ceil_mode

    def forward(self, input):
        return self._op(input, float(self.norm_type), self.kernel_size, self.stride, self.ceil_mode)


class LPPool1d(_LPPoolNd):
    """(sum of x^p)^(1/p) of each window along L, p = norm_type.

    >>> import flambeau
    >>> flambeau.nn.LPPool1d(2, 2)(flambeau.tensor([[3.0, 4.0]]))
    tensor([[5.]])
    """

    _op = staticmethod(F.lp_pool1d)


class LPPool2d(_LPPoolNd):
    """(sum of x^p)^(1/p) of each window of [N, C, H, W], p = norm_type.

    >>> import flambeau
    >>> flambeau.nn.LPPool2d(2, 2)(flambeau.ones(1, 1, 2, 2))
    tensor([[[[2.]]]])
    """

    _op = staticmethod(F.lp_pool2d)


class LPPool3d(_LPPoolNd):
    """(sum of x^p)^(1/p) of each window of [N, C, D, H, W], p = norm_type.

    >>> import flambeau
    >>> flambeau.nn.LPPool3d(1, 2)(flambeau.ones(1, 1, 2, 2, 2)).item()
    8.0
    """

    _op = staticmethod(F.lp_pool3d)


class _MaxUnpoolNd(Shown, Module):
    _shown = ("kernel_size", "stride", "padding")
    _dims = None

    def __init__(self, kernel_size, stride=None, padding=0):
        super().__init__()
        self.kernel_size = repeated(kernel_size, self._dims)
        self.stride = repeated(kernel_size if stride is None else stride, self._dims)
        self.padding = repeated(padding, self._dims)

    def forward(self, input, indices, output_size=None):
        return self._op(input, indices, self.kernel_size, self.stride, self.padding, output_size)


class MaxUnpool1d(_MaxUnpoolNd):
    """Puts what MaxPool1d took back in its place, zeros elsewhere.

    >>> import flambeau
    >>> values, indices = flambeau.nn.MaxPool1d(2, return_indices=True)(flambeau.tensor([[1.0, 3.0, 2.0, 0.0]]))
    >>> flambeau.nn.MaxUnpool1d(2)(values, indices)
    tensor([[0., 3., 2., 0.]])
    """

    _dims = 1
    _op = staticmethod(F.max_unpool1d)


class MaxUnpool2d(_MaxUnpoolNd):
    """Puts what MaxPool2d took back in its place, zeros elsewhere.

    >>> import flambeau
    >>> values, indices = flambeau.nn.MaxPool2d(2, return_indices=True)(flambeau.ones(1, 1, 4, 4))
    >>> flambeau.nn.MaxUnpool2d(2)(values, indices).shape
    torch.Size([1, 1, 4, 4])
    """

    _dims = 2
    _op = staticmethod(F.max_unpool2d)


class MaxUnpool3d(_MaxUnpoolNd):
    """Puts what MaxPool3d took back in its place, zeros elsewhere.

    >>> import flambeau
    >>> values, indices = flambeau.nn.MaxPool3d(2, return_indices=True)(flambeau.ones(1, 1, 2, 2, 2))
    >>> flambeau.nn.MaxUnpool3d(2)(values, indices).shape
    torch.Size([1, 1, 2, 2, 2])
    """

    _dims = 3
    _op = staticmethod(F.max_unpool3d)


class _FractionalMaxPool(Module):
    _dims = None

    def __init__(self, kernel_size, output_size=None, output_ratio=None, return_indices=False, _random_samples=None):
        super().__init__()
        n, name = self._dims, type(self).__name__
        self.kernel_size, self.return_indices = repeated(kernel_size, n), return_indices
        if any(k <= 0 for k in self.kernel_size):
            raise ValueError(f"LPPool: kernel_size must be positive, got {shown(kernel_size)}")
        self.register_buffer("_random_samples", _random_samples)
        self.output_size = None if output_size is None else repeated(output_size, n)
        self.output_ratio = None if output_ratio is None else repeated(output_ratio, n)
        if output_size is None and output_ratio is None:
            raise ValueError(f"{name}: the size of the result is missing; pass output_size or output_ratio")
        if output_size is not None and output_ratio is not None:
            raise ValueError(f"FractionalMaxPool: output_size={shown(output_size)} and "
                             f"output_ratio={shown(output_ratio)} both set "
                             "the size of the result; pass one of them")
        if self.output_ratio is not None and not all(0 < ratio < 1 for ratio in self.output_ratio):
            raise ValueError(f"FractionalMaxPool: output_ratio must be above 0 and below 1, got {shown(output_ratio)}")

    def forward(self, input):
        return self._op(
            input, self.kernel_size, self.output_size, self.output_ratio, self.return_indices, self._random_samples
        )


class FractionalMaxPool2d(_FractionalMaxPool):
    """The largest elements of windows with random steps, of [N, C, H, W] or [C, H, W]   (Graham 2014).

    >>> import flambeau
    >>> flambeau.nn.FractionalMaxPool2d(2, output_ratio=0.6)(flambeau.zeros(1, 3, 10, 10)).shape
    torch.Size([1, 3, 6, 6])
    """

    _dims = 2
    _op = staticmethod(F.fractional_max_pool2d)


class FractionalMaxPool3d(_FractionalMaxPool):
    """The largest elements of windows with random steps, of [N, C, D, H, W] or [C, D, H, W]   (Graham 2014).

    >>> import flambeau
    >>> flambeau.nn.FractionalMaxPool3d(2, output_size=3)(flambeau.zeros(1, 3, 5, 5, 5)).shape
    torch.Size([1, 3, 3, 3, 3])
    """

    _dims = 3
    _op = staticmethod(F.fractional_max_pool3d)
