"""Tensors joined along a dimension that they have, or along a new one."""

from functools import reduce

from .._C import result_type
from .kinds import OPS, composite, primitive


def _uncat(g, shapes, dim):
    """Parts of the gradient of cat; tensors of shape [0] joined nothing."""
    sizes = [0 if tuple(s) == (0,) and g.dim() != 1 else s[dim] for s in shapes]
    parts = g.split_with_sizes(sizes, dim)
    return [p.reshape(0) if tuple(s) == (0,) else p for p, s in zip(parts, shapes, strict=True)]


cat = primitive(
    "cat(Tensor[] tensors, int dim=0) -> Tensor",
    keeps_format=True, out=True, ref="numpy.concatenate", aliases=("concat", "concatenate"),
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
        raise RuntimeError(f"{name}: there is no tensor in the list")


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


def _common_dtype(tensors):
    """The dtype of all together, in which tensors without dimensions count as numbers do."""
    def both(a, b):
        return OPS["empty"]((0,) if a.dim() or b.dim() else (), dtype=result_type(a, b), device="meta")
    return reduce(both, tensors).dtype


@composite("block_diag(Tensor[1] tensors=[]) -> Tensor")
def block_diag(tensors=()):
    """A matrix with the given matrices along its diagonal and zeros elsewhere; of none, one row without columns.

    >>> flambeau.block_diag(flambeau.tensor([[1]]), flambeau.tensor([[2, 3]]))
    tensor([[1, 0, 0],
            [0, 2, 3]])
    """
    if not tensors:
        return OPS["empty"]((1, 0))
    blocks = [t.reshape(1, -1) if t.dim() < 2 else t for t in tensors]
    if any(b.dim() > 2 for b in blocks):
        raise RuntimeError("block_diag: expected 2-d or fewer dimensions, got "
                           + ", ".join(str(list(t.shape)) for t in tensors))
    dtype = _common_dtype(tensors)
    blocks = [b.to(dtype) for b in blocks]
    columns, rows, left = sum(b.shape[1] for b in blocks), [], 0
    for b in blocks:
        height, width = b.shape
        right = columns - left - width
        rows.append(cat([b.new_zeros(height, left), b, b.new_zeros(height, right)], 1))
        left += width
    return cat(rows, 0)
