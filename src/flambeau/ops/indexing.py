"""Reading and writing elements by index: index, gather, scatter, take, put."""

from .._C import bool as bool_dtype
from .._C import int64
from .._shown import shown
from .creation import zeros_like
from .dims import wrap_dim
from .kinds import OPS, composite, overloads, primitive, room
from .views import real

# --- advanced indexing ------------------------------------------------------------------------------------------------

index = primitive(
    "index(Tensor self, Tensor?[] indices) -> Tensor", namespace=None,
    d={"self": lambda g, self_shape, indices: room(g, self_shape, *indices).index_put_(indices, g, True)},
    doc="self[indices]: index tensors (integers or masks), None for whole dimensions.")

index_put = primitive(
    "index_put(Tensor self, Tensor?[] indices, Tensor values, bool accumulate=False) -> Tensor", inplace=True,
    d={"self": lambda g, indices, accumulate: g if accumulate else g.index_put(indices, g.new_zeros(())),
       "values": lambda g, indices: index(g, indices)},
    doc="A copy of self with values written (or added, with accumulate) at the indexed places.\n\n"
        ">>> flambeau.index_put(flambeau.zeros(3), (flambeau.tensor([0, 2]),), flambeau.tensor(1.))\n"
        "tensor([1., 0., 1.])")

index_select = primitive(
    "index_select(Tensor self, int dim, Tensor index) -> Tensor", out=True, ref="numpy.take",
    d={"self": lambda g, self_shape, dim, index: room(g, self_shape, index).index_add_(dim, index, g)},
    doc="The positions listed in a 1-d index tensor, along a dimension.\n\n"
        ">>> flambeau.index_select(flambeau.tensor([5, 6, 7]), 0, flambeau.tensor([2, 0]))\ntensor([7, 5])")

index_add = primitive(
    "index_add(Tensor self, int dim, Tensor index, Tensor source, *, Scalar alpha=1) -> Tensor", inplace=True, out=True,
    d={"self": lambda g: g, "source": lambda g, source_shape, dim, index, alpha:
       _times(_selected(g, dim, index, source_shape), alpha.conjugate())},
    doc="Adds alpha times the slices of source to the slices of self that index names, in order.\n\n"
        ">>> flambeau.zeros(2).index_add(0, flambeau.tensor([1, 1]), flambeau.tensor([1., 2.]))\ntensor([0., 3.])")

index_copy = primitive(
    "index_copy(Tensor self, int dim, Tensor index, Tensor source) -> Tensor", inplace=True, out=True,
    d={"self": lambda g, dim, index: g.index_fill(dim, index, 0),
       "source": lambda g, source_shape, dim, index: _selected(g, dim, index, source_shape)},
    doc="Writes the slices of source over the slices of self that index names.\n\n"
        ">>> flambeau.zeros(3).index_copy(0, flambeau.tensor([2]), flambeau.tensor([5.]))\ntensor([0., 0., 5.])")


def _times(t, number):
    return t if number == 1 else t * number


def _selected(g, dim, index, shape):
    return g.index_select(dim, index).reshape(shape)


_fill_number = primitive(
    "index_fill_number(Tensor self, int dim, Tensor index, Scalar value) -> Tensor",
    node="IndexFillBackward0", namespace=None, inplace=True,
    d={"self": lambda g, dim, index: g.index_fill(dim, index, 0)})
_fill_tensor = primitive(
    "index_fill_tensor(Tensor self, int dim, Tensor index, Tensor value) -> Tensor",
    node="IndexFillBackward1", namespace=None, inplace=True,
    d={"self": lambda g, dim, index: g.index_fill(dim, index, 0),
       "value": lambda g, dim, index: g.index_select(dim, OPS["unique"](index)).sum()})
index_fill = overloads("index_fill", _fill_tensor, _fill_number,
                       doc="Writes one value over the slices that index names.\n\n"
                           ">>> flambeau.zeros(3).index_fill(0, flambeau.tensor([1]), 5)\ntensor([0., 5., 0.])")

# --- gather and scatter -----------------------------------------------------------------------------------------------

gather = primitive(
    "gather(Tensor self, int dim, Tensor index, *, bool sparse_grad=False) -> Tensor", out=True,
    d={"self": lambda g, self_shape, dim, index, sparse_grad: _gather_backward(g, self_shape, dim, index, sparse_grad)},
    doc="out[i, j, …] = self[index[i, j, …], j, …] for dim 0, and so on for the other dimensions.\n\n"
        ">>> flambeau.gather(flambeau.tensor([[1, 2], [3, 4]]), 1, flambeau.tensor([[0], [1]]))\n"
        "tensor([[1],\n        [4]])")


def _gather_backward(g, shape, dim, index, sparse_grad):
    if sparse_grad:
        return g._sparse_gathered(dim, index, shape)
    return room(g, shape, index).scatter_add_(dim, index, g)


_scatter_src = primitive(
    "scatter_src(Tensor self, int dim, Tensor index, Tensor src, *, str? reduce=None) -> Tensor",
    node="ScatterBackward0", namespace=None,
    inplace=True, out=True,
    d={"self": lambda g, dim, index, reduce: _unscattered(g, dim, index, reduce),
       "src": lambda g, src_shape, dim, index, reduce: _source_grad(g, src_shape, dim, index, reduce)})
_scatter_value = primitive(
    "scatter_value(Tensor self, int dim, Tensor index, Scalar value, *, str? reduce=None) -> Tensor",
    node="ScatterBackward1", namespace=None,
    inplace=True, out=True, d={"self": lambda g, dim, index, reduce: _unscattered(g, dim, index, reduce)})
scatter = overloads(
    "scatter", _scatter_src, _scatter_value,
    doc="A copy of self with src (a tensor or a number) written at self[index[i, j, …], j, …] for dim 0, and so on; "
        "reduce \"add\" or \"multiply\" combines instead.\n\n"
        ">>> flambeau.zeros(3).scatter(0, flambeau.tensor([2, 0]), flambeau.tensor([1., 2.]))\ntensor([2., 0., 1.])")


def _unscattered(g, dim, index, reduce):
    if reduce == "add":
        return g
    if reduce is not None:
        raise NotImplementedError(f"scatter: no derivative for reduce={shown(reduce)}; use scatter_reduce")
    return g.scatter(dim, index, 0)


def _padded(g, shape):
    """The index may cover only the first part of src: the rest got nothing."""
    if tuple(g.shape) == tuple(shape):
        return g
    whole, part = g.new_zeros(shape), None
    part = whole
    for d, n in enumerate(g.shape):
        part = part.narrow(d, 0, n)
    part.copy_(g)
    return whole


def _source_grad(g, shape, dim, index, reduce):
    if reduce == "multiply":
        raise NotImplementedError("scatter: no derivative for reduce='multiply'; use scatter_reduce")
    return _padded(g.gather(dim, index), shape)


scatter_add = primitive(
    "scatter_add(Tensor self, int dim, Tensor index, Tensor src) -> Tensor", inplace=True, out=True,
    d={"self": lambda g: g, "src": lambda g, src_shape, dim, index: _padded(g.gather(dim, index), src_shape)},
    doc="Adds src to self at the places scatter writes to, in order (the same result for any number of threads).\n\n"
        ">>> flambeau.zeros(2).scatter_add(0, flambeau.tensor([1, 1]), flambeau.tensor([1., 2.]))\ntensor([0., 3.])")

scatter_reduce = primitive(
    "scatter_reduce(Tensor self, int dim, Tensor index, Tensor src, str reduce, *, bool include_self=True) -> Tensor",
    inplace=True, out=True,
    d={("self", "src"): lambda g, self, dim, index, src, reduce, include_self, result:
       _scatter_reduce_backward(g, self, dim, index, src, reduce, include_self, result)},
    doc="Combines src into self at the places scatter writes to: \"sum\", \"prod\", \"mean\", \"amax\" or \"amin\".\n\n"
        ">>> flambeau.zeros(2).scatter_reduce(0, flambeau.tensor([1, 1]), flambeau.tensor([1., 2.]), \"amax\")\n"
        "tensor([0., 2.])")


def _scatter_reduce_backward(g, self, dim, index, src, reduce, include_self, result):
    """Each rule in the terms of its reduction; without include_self the touched places of self got no share."""
    match reduce:
        case "sum":
            to_self, to_src = g, g.gather(dim, index)
        case "mean":
            ones = zeros_like(self).fill_(1) if include_self else zeros_like(self)
            counts = real(ones.scatter_add(dim, index, zeros_like(src).fill_(1))).clamp(min=1)
            to_self, to_src = g / counts, (g / counts).gather(dim, index)
        case "amax" | "amin":
            mine = (self == result).to(g.dtype)
            theirs = (_first(src, index) == result.gather(dim, index)).to(g.dtype)
            if not include_self:
                mine = mine.scatter(dim, index, 0)
            shared = g / mine.scatter_add(dim, index, theirs)  # 0 / 0 where the extreme is NaN
            to_self, to_src = shared * mine, shared.gather(dim, index) * theirs
        case _:
            to_self, to_src = _product_shares(g, self, dim, index, src, include_self)
    if not include_self:
        to_self = to_self.scatter(dim, index, 0)
    return to_self, _padded(to_src, src.shape)


def _first(src, index):
    for d, n in enumerate(index.shape):
        src = src.narrow(d, 0, n)
    return src


def _product_shares(g, self, dim, index, src, include_self):
    """d prod / d x = the product of the others; a lone zero factor gets the product of the nonzero ones."""
    src = _first(src, index)
    self_one = self.masked_fill(self == 0, 1)
    src_one = src.masked_fill(src == 0, 1)
    none = (self == 0).to(g.dtype) if include_self else zeros_like(self)
    missing = none.scatter_add(dim, index, (src == 0).to(g.dtype))
    others = self_one.scatter_reduce(dim, index, src_one, "prod", include_self=include_self)

    def share(x, x_one, grad, count, product):
        alone = (count - (x == 0).to(grad.dtype)) == 0
        return grad * (product / x_one).conj() * alone.to(grad.dtype)

    to_self = share(self, self_one, g, missing, others)
    to_src = share(src, src_one, g.gather(dim, index), missing.gather(dim, index), others.gather(dim, index))
    return to_self, to_src


@composite("take_along_dim(Tensor self, Tensor indices, int? dim=None) -> Tensor", out=True,
           ref="numpy.take_along_axis")
def take_along_dim(self, indices, dim=None):
    """gather with self and indices broadcast together in the other dimensions; without dim, of the flat tensor.

    >>> flambeau.take_along_dim(flambeau.tensor([[3, 1]]), flambeau.tensor([[1, 0]]), 1)
    tensor([[1, 3]])
    """
    if indices.dtype is not int64:
        raise RuntimeError(f"take_along_dim: indices must be of dtype int64, got {indices.dtype}; use indices.long()")
    if dim is None:
        indices = indices.where(indices >= 0, indices + self.numel())
        return self.reshape(-1).gather(0, indices.reshape(-1))
    dim = wrap_dim(dim, self.dim(), "take_along_dim")
    if self.dim() != indices.dim():
        raise RuntimeError(f"take_along_dim: input has {self.dim()} dimensions and indices {indices.dim()}; they must "
                           "be equally many")
    if self.dim() == 0:
        return self.reshape(1).gather(0, indices.reshape(1)).reshape(())
    shape, wanted = self.shape, indices.shape
    indices = indices.where(indices >= 0, indices + shape[dim])
    if shape == wanted:
        return self.gather(dim, indices)
    sizes = []
    for d, (a, b) in enumerate(zip(shape, wanted, strict=True)):
        if d != dim and a != b and 1 not in (a, b):
            raise RuntimeError(f"take_along_dim: sizes {list(shape)} and {list(wanted)} do not broadcast "
                               f"at dimension {d}")
        sizes.append(b if a == 1 else a)
    mine, theirs = list(sizes), list(sizes)
    mine[dim], theirs[dim] = shape[dim], wanted[dim]
    return self.expand(mine).gather(dim, indices.expand(theirs))

# --- flat positions ---------------------------------------------------------------------------------------------------

take = primitive(
    "take(Tensor self, Tensor index) -> Tensor", out=True, ref="numpy.take",
    d={"self": lambda g, self_shape, index: room(g, self_shape, index).put_(index, g, True)},
    doc="Elements by their position in the flattened tensor.\n\n"
        ">>> flambeau.take(flambeau.tensor([[1, 2], [3, 4]]), flambeau.tensor([3, 0]))\ntensor([4, 1])")

put = primitive(
    "put(Tensor self, Tensor index, Tensor source, bool accumulate=False) -> Tensor", inplace=True,
    d={"self": lambda g, index, accumulate: g if accumulate else g.put(index, g.new_zeros(index.shape)),
       "source": lambda g, source_shape, index: g.take(index).reshape(source_shape)},
    doc="A copy of self with source written (or added) at positions of the flattened tensor.\n\n"
        ">>> flambeau.zeros(3).put(flambeau.tensor([1]), flambeau.tensor([5.]))\ntensor([0., 5., 0.])")


@composite("index_reduce(Tensor self, int dim, Tensor index, Tensor source, str reduce, *, bool include_self=True)"
           " -> Tensor", inplace=True, out=True)
def index_reduce(self, dim, index, source, reduce, *, include_self=True):
    """Combines the slices of source into the slices of self that index names: "prod", "mean", "amax" or "amin".

    >>> flambeau.ones(2).index_reduce(0, flambeau.tensor([1, 1]), flambeau.tensor([2., 3.]), "prod")
    tensor([1., 6.])
    """
    if reduce not in ("prod", "mean", "amax", "amin"):
        raise RuntimeError(f"index_reduce: reduce must be 'prod', 'mean', 'amax' or 'amin', got {shown(reduce)}")
    if index.dim() > 1:
        raise RuntimeError(f"index_reduce: index must have at most 1 dimension, got shape {list(index.shape)}")
    dim = wrap_dim(dim, self.dim(), "index_reduce")
    if self.dim() == 0:
        return self.reshape(1).scatter_reduce(0, index.reshape(-1), source.reshape(-1), reduce,
                                              include_self=include_self).reshape(())
    shape = [1] * self.dim()
    shape[dim] = index.numel()
    places = index.reshape(shape).expand(source.shape)
    return self.scatter_reduce(dim, places, source, reduce, include_self=include_self)


@composite("unravel_index(Tensor indices, any shape) -> Tensor[]", ref="numpy.unravel_index")
def unravel_index(indices, shape):
    """Coordinates (int64) in a tensor of that shape from positions in its flattened form, one tensor per dimension.

    >>> flambeau.unravel_index(flambeau.tensor([5]), (2, 3))
    (tensor([1]), tensor([2]))
    """
    if indices.dtype is bool_dtype or indices.is_floating_point() or indices.is_complex():
        raise TypeError(f"unravel_index: indices must be integers, got {indices.dtype}")
    indices = indices.to(int64)
    sizes = [shape] if isinstance(shape, int) else shape
    if not isinstance(sizes, list | tuple) or not all(hasattr(n, "__index__") for n in sizes):
        raise TypeError(f"unravel_index: expected shape to be an int or a sequence of ints, got {shown(shape)}")
    if any(n < 0 for n in sizes):
        raise ValueError(f"unravel_index: sizes must not be negative, got shape {tuple(sizes)}")
    steps = [1]
    for n in sizes[:0:-1]:
        steps.append(steps[-1] * max(n, 1))
    steps, sizes = (_row(indices, numbers) for numbers in (steps[::-1], [max(n, 1) for n in sizes]))
    return indices.unsqueeze(-1).div(steps, rounding_mode="floor").remainder(sizes).unbind(-1)


def _row(like, numbers):
    return OPS["stack"]([like.new_full((), n) for n in numbers]) if numbers else like.new_empty(0)
