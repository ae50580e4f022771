"""Layers that add a border to the last one, two or three dimensions: one width, or (left, right, top, bottom, …)."""

from .. import functional as F
from ._sizes import repeated
from .module import Module


class _Pad(Module):
    _dims = None
    _mode = "constant"

    def __init__(self, padding):
        super().__init__()
        self.padding = repeated(padding, 2 * self._dims)

    def forward(self, input):
        return F.pad(input, self.padding, self._mode)

    def extra_repr(self):
        return str(self.padding)


class _ConstantPadNd(_Pad):
    def __init__(self, padding, value):
        super().__init__(padding)
        self.value = value

    def forward(self, input):
        return F.pad(input, self.padding, "constant", self.value)

    def extra_repr(self):
        return f"padding={self.padding}, value={self.value}"


class ConstantPad1d(_ConstantPadNd):
    """Adds `value` around the last dimension.

    >>> import flambeau
    >>> flambeau.nn.ConstantPad1d(1, 7.0)(flambeau.zeros(1, 2))
    tensor([[7., 0., 0., 7.]])
    """

    _dims = 1


class ConstantPad2d(_ConstantPadNd):
    """Adds `value` around the last two dimensions.

    >>> import flambeau
    >>> flambeau.nn.ConstantPad2d(1, 7.0)(flambeau.zeros(1, 2, 2)).shape
    torch.Size([1, 4, 4])
    """

    _dims = 2


class ConstantPad3d(_ConstantPadNd):
    """Adds `value` around the last three dimensions.

    >>> import flambeau
    >>> flambeau.nn.ConstantPad3d(1, 7.0)(flambeau.zeros(1, 2, 2, 2)).shape
    torch.Size([1, 4, 4, 4])
    """

    _dims = 3


class _ZeroPad(_ConstantPadNd):
    def __init__(self, padding):
        super().__init__(padding, 0.0)

    def extra_repr(self):
        return str(self.padding)


class ZeroPad1d(_ZeroPad):
    """Adds zeros around the last dimension.

    >>> import flambeau
    >>> flambeau.nn.ZeroPad1d((1, 0))(flambeau.ones(1, 2))
    tensor([[0., 1., 1.]])
    """

    _dims = 1


class ZeroPad2d(_ZeroPad):
    """Adds zeros around the last two dimensions.

    >>> import flambeau
    >>> flambeau.nn.ZeroPad2d(1)(flambeau.ones(1, 2, 2)).shape
    torch.Size([1, 4, 4])
    """

    _dims = 2


class ZeroPad3d(_ZeroPad):
    """Adds zeros around the last three dimensions.

    >>> import flambeau
    >>> flambeau.nn.ZeroPad3d(1)(flambeau.ones(1, 2, 2, 2)).shape
    torch.Size([1, 4, 4, 4])
    """

    _dims = 3


class _ReflectionPadNd(_Pad):
    _mode = "reflect"


class ReflectionPad1d(_ReflectionPadNd):
    """Mirrors the last dimension at its ends, without repeating the end.

    >>> import flambeau
    >>> flambeau.nn.ReflectionPad1d(1)(flambeau.tensor([[1.0, 2.0, 3.0]]))
    tensor([[2., 1., 2., 3., 2.]])
    """

    _dims = 1


class ReflectionPad2d(_ReflectionPadNd):
    """Mirrors the last two dimensions at their ends.

    >>> import flambeau
    >>> flambeau.nn.ReflectionPad2d(1)(flambeau.ones(1, 2, 2)).shape
    torch.Size([1, 4, 4])
    """

    _dims = 2


class ReflectionPad3d(_ReflectionPadNd):
    """Mirrors the last three dimensions at their ends.

    >>> import flambeau
    >>> flambeau.nn.ReflectionPad3d(1)(flambeau.ones(1, 2, 2, 2)).shape
    torch.Size([1, 4, 4, 4])
    """

    _dims = 3


class _ReplicationPadNd(_Pad):
    _mode = "replicate"


class ReplicationPad1d(_ReplicationPadNd):
    """Repeats the ends of the last dimension.

    >>> import flambeau
    >>> flambeau.nn.ReplicationPad1d(1)(flambeau.tensor([[1.0, 2.0]]))
    tensor([[1., 1., 2., 2.]])
    """

    _dims = 1


class ReplicationPad2d(_ReplicationPadNd):
    """Repeats the edges of the last two dimensions.

    >>> import flambeau
    >>> flambeau.nn.ReplicationPad2d(1)(flambeau.ones(1, 2, 2)).shape
    torch.Size([1, 4, 4])
    """

    _dims = 2


class ReplicationPad3d(_ReplicationPadNd):
    """Repeats the edges of the last three dimensions.

    >>> import flambeau
    >>> flambeau.nn.ReplicationPad3d(1)(flambeau.ones(1, 2, 2, 2)).shape
    torch.Size([1, 4, 4, 4])
    """

    _dims = 3


class _CircularPadNd(_Pad):
    _mode = "circular"

    def forward(self, input):
        n = self._dims
        if input.dim() not in (n + 1, n + 2):
            raise ValueError(f"{type(self).__name__}: input must have {n + 2} dimensions, or {n + 1} without a batch, "
                             f"got {input.dim()}")
        return super().forward(input)


class CircularPad1d(_CircularPadNd):
    """Continues the last dimension as if it were a ring.

    >>> import flambeau
    >>> flambeau.nn.CircularPad1d(1)(flambeau.tensor([[1.0, 2.0, 3.0]]))
    tensor([[3., 1., 2., 3., 1.]])
    """

    _dims = 1


class CircularPad2d(_CircularPadNd):
    """Continues the last two dimensions as if they were rings.

    >>> import flambeau
    >>> flambeau.nn.CircularPad2d(1)(flambeau.ones(1, 2, 2)).shape
    torch.Size([1, 4, 4])
    """

    _dims = 2


class CircularPad3d(_CircularPadNd):
    """Continues the last three dimensions as if they were rings.

    >>> import flambeau
    >>> flambeau.nn.CircularPad3d(1)(flambeau.ones(1, 2, 2, 2)).shape
    torch.Size([1, 4, 4, 4])
    """

    _dims = 3
