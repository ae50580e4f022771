"""Copies of elements in another arrangement: joining, repeating, rolling, flipping, triangles, copy_."""

from .._C import contiguous_format
from .._shown import shown
from .kinds import composite, primitive


def _uncat(g, shapes, dim):
    """Parts of the gradient of cat; tensors of shape [0] joined nothing."""
    sizes = [0 if tuple(s) == (0,) and g.dim() != 1 else s[dim] for s in shapes]
    parts = g.split_with_sizes(sizes, dim)
    return [p.reshape(0) if tuple(s) == (0,) else p for p, s in zip(parts, shapes, strict=True)]


cat = primitive(
    "cat(Tensor[] tensors, int dim=0) -> Tensor", out=True, ref="numpy.concatenate", aliases=("concat", "concatenate"),
    d={"tensors": lambda g, tensors_shape, dim: _uncat(g, tensors_shape, dim)},
    doc="Joins tensors along an existing dimension; the other sizes must agree.\n\n"
        ">>> flambeau.cat([flambeau.tensor([1]), flambeau.tensor([2, 3])])\ntensor([1, 2, 3])")

stack = primitive(
    "stack(Tensor[] tensors, int dim=0) -> Tensor", out=True, ref="numpy.stack",
    d={"tensors": lambda g, dim: list(g.unbind(dim))},
    doc="Joins tensors of one shape along a new dimension.\n\n"
        ">>> flambeau.stack([flambeau.tensor([1, 2]), flambeau.tensor([3, 4])])\n"
        "tensor([[1, 2],\n        [3, 4]])")


def _some(name, tensors):
    if not tensors:
        raise RuntimeError(f"{name} expects a non-empty TensorList")


@composite("hstack(Tensor[] tensors) -> Tensor", out=True, ref="numpy.hstack")
def hstack(tensors):
    """Joins along dimension 1 (1-d tensors: along dimension 0).

    >>> flambeau.hstack([flambeau.tensor([1]), flambeau.tensor([2])])
    tensor([1, 2])
    """
    _some("hstack", tensors)
    tensors = [t.reshape(1) if t.dim() == 0 else t for t in tensors]
    return cat(tensors, 0 if tensors and tensors[0].dim() == 1 else 1)


@composite("vstack(Tensor[] tensors) -> Tensor", out=True, ref="numpy.vstack", aliases=("row_stack",))
def vstack(tensors):
    """Joins along dimension 0; 1-d tensors are rows.

    >>> flambeau.vstack([flambeau.tensor([1]), flambeau.tensor([2])])
    tensor([[1],
            [2]])
    """
    _some("vstack", tensors)
    return cat([t.reshape(1, -1) if t.dim() < 2 else t for t in tensors], 0)


@composite("dstack(Tensor[] tensors) -> Tensor", out=True, ref="numpy.dstack")
def dstack(tensors):
    """Joins along dimension 2, which tensors of fewer dimensions get.

    >>> flambeau.dstack([flambeau.tensor([1]), flambeau.tensor([2])])
    tensor([[[1, 2]]])
    """
    _some("dstack", tensors)
    return cat([t.reshape(1, -1, 1) if t.dim() < 2 else t.unsqueeze(2) if t.dim() == 2 else t for t in tensors], 2)


@composite("column_stack(Tensor[] tensors) -> Tensor", out=True, ref="numpy.column_stack")
def column_stack(tensors):
    """Joins along dimension 1; 1-d tensors are columns.

    >>> flambeau.column_stack([flambeau.tensor([1, 2]), flambeau.tensor([3, 4])])
    tensor([[1, 3],
            [2, 4]])
    """
    return cat([t.reshape(t.numel(), 1) if t.dim() < 2 else t for t in tensors], 1)


@composite("block_diag(Tensor[1] tensors) -> Tensor")
def block_diag(tensors):
    """A matrix with the given matrices along its diagonal and zeros elsewhere.

    >>> flambeau.block_diag(flambeau.tensor([[1]]), flambeau.tensor([[2, 3]]))
    tensor([[1, 0, 0],
            [0, 2, 3]])
    """
    blocks = [t.reshape(1, -1) if t.dim() < 2 else t for t in tensors]
    if any(b.dim() > 2 for b in blocks):
        raise RuntimeError("block_diag: expected 2-d or fewer dimensions, got "
                           + ", ".join(str(list(t.shape)) for t in tensors))
    columns, rows, left = sum(b.shape[1] for b in blocks), [], 0
    for b in blocks:
        height, width = b.shape
        right = columns - left - width
        rows.append(cat([b.new_zeros(height, left), b, b.new_zeros(height, right)], 1))
        left += width
    return cat(rows, 0)


# --- repeating -------------------------------------------------------------------------------------------------------

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
        self, dim = self.reshape(-1), 0
    n = self.shape[dim] if self.dim() else 1
    if isinstance(repeats, int):
        if repeats < 0:
            raise RuntimeError(f"repeat_interleave: Repeats must be non-negative, got {shown(repeats)}")
        if output_size is not None and output_size != n * repeats:
            raise RuntimeError(f"repeat_interleave: Invalid output_size, expected {n * repeats} but got "
                               f"{shown(output_size)}")
        self = self.reshape(1) if self.dim() == 0 else self
        dim = dim % self.dim()
        shape = list(self.shape)
        spread = self.unsqueeze(dim + 1).expand(*shape[:dim + 1], repeats, *shape[dim + 1:])
        whole = spread.clone(memory_format=contiguous_format)
        return whole.reshape(*shape[:dim], n * repeats, *shape[dim + 1:])
    if not hasattr(repeats, "numel"):
        raise TypeError(f"repeat_interleave: repeats must be an int or a Tensor, got {type(repeats).__name__}")
    if repeats.dim() == 0 or repeats.numel() == 1:
        repeats = repeats.reshape(1).expand(n)
    if repeats.numel() != n:
        raise RuntimeError(f"repeat_interleave: repeats must hold one number for each of the {n} entries along dim "
                           f"{dim}, got {repeats.numel()}")
    return self.index_select(dim, interleave_index(repeats, output_size))


# --- moving around ---------------------------------------------------------------------------------------------------

roll = primitive(
    "roll(Tensor self, int[] shifts, int[] dims=[]) -> Tensor", ref="numpy.roll",
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
    a, b = (d % self.dim() if -self.dim() <= d < self.dim() else d for d in dims)
    if a == b:
        raise RuntimeError(f"rot90: the plane of the rotation needs two different dims, got {dims[0]} and {dims[1]}")
    match k % 4:
        case 0:
            return self.clone()
        case 1:
            return flip(self, (b,)).transpose(a, b)
        case 2:
            return flip(self, (a, b))
        case _:
            return flip(self, (a,)).transpose(a, b)


# --- copies ----------------------------------------------------------------------------------------------------------

clone = primitive("clone(Tensor self, *, memory_format? memory_format=None) -> Tensor", d={"self": lambda g: g},
                  doc="A copy with its own memory; gradients pass through.\n\n"
                      ">>> flambeau.tensor([1, 2]).clone()\ntensor([1, 2])")

copy_ = primitive("copy_(Tensor self, Tensor src, bool non_blocking=False) -> Tensor", namespace=None, method=True,
                  d={"self": lambda g: g.new_zeros(g.shape), "src": lambda g: g},
                  doc="Writes src, broadcast and converted, into self.\n\n"
                      ">>> flambeau.zeros(2).copy_(flambeau.tensor(3))\ntensor([3., 3.])")

tril = primitive("tril(Tensor self, int diagonal=0) -> Tensor", inplace=True, out=True, ref="numpy.tril",
                 d={"self": lambda g, diagonal: g.tril(diagonal)},
                 doc="The lower triangle of each matrix (up to that diagonal); zeros above.\n\n"
                     ">>> flambeau.tril(flambeau.ones(2, 2))\ntensor([[1., 0.],\n        [1., 1.]])")

triu = primitive("triu(Tensor self, int diagonal=0) -> Tensor", inplace=True, out=True, ref="numpy.triu",
                 d={"self": lambda g, diagonal: g.triu(diagonal)},
                 doc="The upper triangle of each matrix (from that diagonal); zeros below.\n\n"
                     ">>> flambeau.triu(flambeau.ones(2, 2))\ntensor([[1., 1.],\n        [0., 1.]])")
