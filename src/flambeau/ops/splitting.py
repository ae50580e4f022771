"""Tensors split along a dimension: parts of one size, of listed sizes, or between positions, all views."""

from operator import index

from .._C import Tensor, int64
from .._shown import shown
from .dims import wrap_dim
from .joining import cat, stack
from .kinds import composite, overloads, view
from .views import slice

_split_size = view("split.size(Tensor self, int split_size, int dim=0) -> Tensor[]", namespace=None,
                   d={"self": lambda grads, dim: cat(grads, dim)})
split_with_sizes = view("split_with_sizes(Tensor self, int[] split_sizes, int dim=0) -> Tensor[]",
                        aliases=("unsafe_split_with_sizes",),
                        d={"self": lambda grads, dim: cat(grads, dim)},
                        doc="Parts of the given sizes along a dimension.\n\n"
                            ">>> flambeau.arange(3).split_with_sizes([1, 2])\n(tensor([0]), tensor([1, 2]))")


@composite("split.sections(Tensor tensor, any split_size_or_sections, int dim=0) -> Tensor[]", namespace=None,
           skip="split with other names: test_views")
def _split_sections(tensor, split_size_or_sections, dim=0):
    sections = split_size_or_sections
    if isinstance(sections, (list, tuple)):
        return split_with_sizes(tensor, sections, dim)
    if isinstance(sections, bool) or not hasattr(sections, "__index__"):
        raise TypeError(f"split: expected the size of the parts, or a list of their sizes, got {shown(sections)}")
    return _split_size(tensor, index(sections), dim)


@composite("split.sizes(Tensor self, int[] split_size, int dim=0) -> Tensor[]", namespace=None,
           skip="split with other names: test_views")
def _split_sizes(self, split_size, dim=0):
    return split_with_sizes(self, split_size, dim)


split = overloads("split", _split_size, split_with_sizes, _split_sizes, _split_sections, aliases=("unsafe_split",),
                  doc="Parts of one size (the last may be smaller), or of the listed sizes, along a dimension.\n\n"
                      ">>> flambeau.arange(3).split(2)\n(tensor([0, 1]), tensor([2]))")
chunk = view("chunk(Tensor self, int chunks, int dim=0) -> Tensor[]", node="SplitBackward0", aliases=("unsafe_chunk",),
             d={"self": lambda grads, dim: cat(grads, dim)},
             doc="At most `chunks` equal parts (the last may be smaller) along a dimension.\n\n"
                 ">>> flambeau.arange(3).chunk(2)\n(tensor([0, 1]), tensor([2]))")
unbind = view("unbind(Tensor self, int dim=0) -> Tensor[]", d={"self": lambda grads, dim: stack(grads, dim)},
              doc="All positions along a dimension, which disappears.\n\n"
                  ">>> flambeau.tensor([1, 2]).unbind()\n(tensor(1), tensor(2))")


@composite("tensor_split(Tensor self, any indices_or_sections, int dim=0) -> Tensor[]", ref="numpy.array_split")
def tensor_split(self, indices_or_sections, dim=0):
    """A number of nearly equal parts, or the parts between the listed positions, along a dimension.

    >>> flambeau.arange(3).tensor_split((1,))
    (tensor([0]), tensor([1, 2]))
    """
    if self.dim() == 0:
        raise RuntimeError("tensor_split: a tensor without dimensions cannot be split")
    where, n = indices_or_sections, self.shape[wrap_dim(dim, self.dim(), "tensor_split")]
    if hasattr(where, "tolist"):
        if isinstance(where, Tensor) and (where.dtype is not int64 or where.dim() > 1):
            raise RuntimeError("tensor_split: a tensor of positions must be of dtype int64 and have at most 1 "
                               f"dimension, got {where.dtype} of shape {list(where.shape)}")
        where = where.tolist()
    if isinstance(where, int):
        if not 0 < where < 2**16:
            raise RuntimeError(f"tensor_split: the number of parts must be from 1 to 65535, got {where}")
        return self.split_with_sizes([n // where + (k < n % where) for k in range(where)], dim)
    ends = list(where)
    return tuple(slice(self, dim, a, b) for a, b in zip([0, *ends], [*ends, n], strict=True))


def _split_along(name, self, sections, dim, least):
    if self.dim() < least:
        raise RuntimeError(f"{name}: expected a tensor with at least {least} dimensions, but got {self.dim()}")
    if isinstance(sections, int) and (sections <= 0 or self.shape[dim] % sections):
        raise RuntimeError(f"{name}: dimension {dim} of size {self.shape[dim]} cannot be split into {sections} equal "
                           "parts")
    return tensor_split(self, sections, dim)


@composite("hsplit(Tensor self, any indices_or_sections) -> Tensor[]", ref="numpy.hsplit")
def hsplit(self, indices_or_sections):
    """tensor_split along dimension 1 (1-d tensors: dimension 0) into equal parts.

    >>> flambeau.hsplit(flambeau.arange(4), 2)
    (tensor([0, 1]), tensor([2, 3]))
    """
    return _split_along("hsplit", self, indices_or_sections, 0 if self.dim() == 1 else 1, 1)


@composite("vsplit(Tensor self, any indices_or_sections) -> Tensor[]", ref="numpy.vsplit")
def vsplit(self, indices_or_sections):
    """tensor_split along dimension 0 into equal parts.

    >>> flambeau.vsplit(flambeau.zeros(4, 2), 2)[0].shape
    torch.Size([2, 2])
    """
    return _split_along("vsplit", self, indices_or_sections, 0, 2)


@composite("dsplit(Tensor self, any indices_or_sections) -> Tensor[]", ref="numpy.dsplit")
def dsplit(self, indices_or_sections):
    """tensor_split along dimension 2 into equal parts.

    >>> flambeau.dsplit(flambeau.zeros(1, 2, 4), 2)[0].shape
    torch.Size([1, 2, 2])
    """
    return _split_along("dsplit", self, indices_or_sections, 2, 3)
