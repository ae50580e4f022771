"""Elements in another arrangement: repeating, rolling, flipping, rotating."""

from .._C import contiguous_format
from .._shown import shown
from .dims import wrap_dim
from .kinds import composite, primitive


def _unrepeat(g, shape, repeats):
    """Sums the copies: the gradient seen as [repeats of dim 0, dim 0, repeats of dim 1, …]."""
    shape = [1] * (len(repeats) - len(shape)) + list(shape)
    if 0 in repeats:
        return g.new_zeros(shape)
    parts = [n for pair in zip(repeats, shape, strict=True) for n in pair]
    return g.reshape(parts).sum(tuple(range(0, len(parts), 2))) if parts else g


repeat = primitive(
    "repeat(Tensor self, int[] repeats) -> Tensor", namespace=None, method=True, ref="numpy.tile",
    d={"self": lambda g, self_shape, repeats: _unrepeat(g, self_shape, repeats)},
    doc="Copies self repeats[k] times along dimension k; more repeats than dimensions add dimensions in front.\n\n"
        ">>> flambeau.tensor([1, 2]).repeat(2, 2)\ntensor([[1, 2, 1, 2],\n        [1, 2, 1, 2]])")


@composite("tile(Tensor self, int[] dims) -> Tensor", ref="numpy.tile")
def tile(self, dims):
    """repeat, where missing leading repeats count as one.

    >>> flambeau.tile(flambeau.tensor([[1, 2]]), (2,))
    tensor([[1, 2, 1, 2]])
    """
    return self.repeat([1] * (self.dim() - len(dims)) + list(dims))


interleave_index = primitive("repeat_interleave_index(Tensor repeats, int? output_size=None) -> Tensor",
                              namespace=None)


@composite("repeat_interleave(Tensor self, any repeats=None, int? dim=None, *, int? output_size=None) -> Tensor",
           ref="numpy.repeat")
def repeat_interleave(self, repeats=None, dim=None, *, output_size=None):
    """Repeats each element (or each slice along `dim`): `repeats` is one count, or a tensor of one count per element.

    >>> flambeau.repeat_interleave(flambeau.tensor([1, 2]), 2)
    tensor([1, 1, 2, 2])
    """
    if repeats is None:  # the indices themselves
        return interleave_index(self, output_size)
    if dim is None:
        self, dim = self.flatten(), 0
    dim = wrap_dim(dim, self.dim(), "repeat_interleave")
    shape = self.shape
    n = shape[dim] if shape else 1
    if hasattr(repeats, "__index__") and not hasattr(repeats, "numel"):  # a number, or an open size
        if repeats < 0:
            raise RuntimeError(f"repeat_interleave: nothing can be repeated {shown(repeats)} times")
        if output_size is not None and output_size != n * repeats:
            raise RuntimeError(f"repeat_interleave: output_size is {shown(output_size)}, but {n} places repeated "
                               f"{repeats} times are {n * repeats}")
        if len(shape) <= 1:
            return self.reshape((n, 1)).expand((n, repeats)).clone(memory_format=contiguous_format).flatten()
        spread = self.unsqueeze(dim + 1).expand((*shape[:dim + 1], repeats, *shape[dim + 1:]))
        whole = spread.clone(memory_format=contiguous_format)
        return whole.reshape((*shape[:dim], n * repeats, *shape[dim + 1:]))
    if not hasattr(repeats, "numel"):
        raise TypeError(f"repeat_interleave: repeats must be an int or a Tensor, got {type(repeats).__name__}")
    if repeats.dim() == 0 or repeats.numel() == 1:
        repeats = repeats.reshape(1).expand(n)
    if repeats.numel() != n:
        raise RuntimeError(f"repeat_interleave: repeats must hold one number for each of the {n} entries along dim "
                           f"{dim}, got {repeats.numel()}")
    return self.index_select(dim, interleave_index(repeats, output_size))


roll = primitive(
    "roll(Tensor self, int[] shifts, int[] dims=[]) -> Tensor", keeps_format=True, ref="numpy.roll",
    d={"self": lambda g, shifts, dims: g.roll([-s for s in shifts], dims)},
    doc="Shifts elements along dimensions; what leaves at one end returns at the other. Without dims, the flattened "
        "tensor is rolled.\n\n>>> flambeau.roll(flambeau.tensor([1, 2, 3]), 1)\ntensor([3, 1, 2])")

flip = primitive(
    "flip(Tensor self, int[] dims) -> Tensor", ref="numpy.flip",
    d={"self": lambda g, dims: g.flip(dims)},
    doc="Reverses the order along dimensions (a copy).\n\n"
        ">>> flambeau.flip(flambeau.tensor([1, 2, 3]), (0,))\ntensor([3, 2, 1])")


@composite("fliplr(Tensor self) -> Tensor", ref="numpy.fliplr")
def fliplr(self):
    """Reverses dimension 1.

    >>> flambeau.fliplr(flambeau.tensor([[1, 2]]))
    tensor([[2, 1]])
    """
    if self.dim() < 2:
        raise RuntimeError(f"fliplr: Input must be >= 2-d, got shape {list(self.shape)}")
    return flip(self, (1,))


@composite("flipud(Tensor self) -> Tensor", ref="numpy.flipud")
def flipud(self):
    """Reverses dimension 0.

    >>> flambeau.flipud(flambeau.tensor([1, 2]))
    tensor([2, 1])
    """
    if self.dim() < 1:
        raise RuntimeError("flipud: Input must be >= 1-d, got a 0-d tensor")
    return flip(self, (0,))


@composite("rot90(Tensor self, int k=1, int[] dims=[0, 1]) -> Tensor", ref="numpy.rot90")
def rot90(self, k=1, dims=(0, 1)):
    """Rotates by k quarter turns in the plane of two dimensions, from the first towards the second.

    >>> flambeau.rot90(flambeau.tensor([[1, 2], [3, 4]]))
    tensor([[2, 4],
            [1, 3]])
    """
    if len(dims) != 2 or self.dim() < 2:
        raise RuntimeError(f"rot90: expected 2 rotation dims of a tensor of 2 or more, got dims {list(dims)} and "
                           f"shape {list(self.shape)}")
    a, b = wrap_dim(dims[0], self.dim(), "rot90"), wrap_dim(dims[1], self.dim(), "rot90")
    if a == b:
        raise RuntimeError(f"rot90: the plane of the rotation needs two different dims, got {dims[0]} and {dims[1]}")
    match k % 4:
        case 0:
            return self.clone(memory_format=contiguous_format)
        case 1:
            return flip(self, (b,)).transpose(a, b)
        case 2:
            return flip(self, (a, b))
        case _:
            return flip(self, (a,)).transpose(a, b)
