"""Views: the same memory under other sizes and strides, and the primitives that their derivatives need."""

from .. import _C
from .dims import wrap_dim
from .kinds import OPS, composite, overloads, primitive, view

# --- placing a part's gradient into zeros -----------------------------------------------------------------------------

slice_backward = primitive(
    "slice_backward(Tensor grad, int[] self_shape, int dim, int? start, int? end, int step) -> Tensor", namespace=None,
    d={"grad": lambda g, dim, start, end, step: slice(g, dim, start, end, step)})

select_backward = primitive(
    "select_backward(Tensor grad, int[] self_shape, int dim, int index) -> Tensor", namespace=None,
    d={"grad": lambda g, dim, index: g.select(dim, index)})

unfold_backward = primitive(
    "unfold_backward(Tensor grad, int[] self_shape, int dim, int size, int step) -> Tensor", namespace=None,
    d={"grad": lambda g, dim, size, step: g.unfold(dim, size, step)})

as_strided_backward = primitive(
    "as_strided_backward(Tensor grad, int[] self_size, int[] self_stride, int self_offset, int[] size, int[] stride,"
    " int? storage_offset) -> Tensor", namespace=None,
    d={"grad": lambda g, self_size, self_stride, self_offset, size, stride, storage_offset:
       _as_strided_of(g, self_size, self_stride, self_offset, size, stride, storage_offset)})


def _reach(size, stride, offset):
    return offset + sum(max(0, (n - 1) * s) for n, s in zip(size, stride, strict=True)) + 1


def _overlaps(size, stride):
    """Whether some elements may share memory: a dimension steps less far than those inside it reach."""
    reach = 0
    for s, n in sorted((s, n) for n, s in zip(size, stride, strict=True) if n > 1):
        if s <= reach:
            return True
        reach += (n - 1) * s
    return False


def _as_strided_of(g, self_size, self_stride, self_offset, size, stride, offset):
    """as_strided of a gradient laid out as self was."""
    offset = self_offset if offset is None else offset
    room = g.new_zeros(max(_reach(self_size, self_stride, self_offset), _reach(size, stride, offset)))
    if _overlaps(self_size, self_stride):  # as_strided_backward shares out to such elements equally: their mean
        places = OPS["arange"](room.numel(), device=g.device).as_strided(self_size, self_stride, self_offset).flatten()
        count = room.index_add(0, places, OPS["ones_like"](g).flatten())
        room = room.index_add(0, places, g.flatten()) / count.clamp(min=1)
    else:
        room.as_strided(self_size, self_stride, self_offset).copy_(g)
    return room.as_strided(size, stride, offset)


def _inverse(order, n):
    places = [0] * n
    for k, d in enumerate(order):
        places[wrap_dim(d, n, "permute")] = k
    return places

# --- other shapes over the same elements ------------------------------------------------------------------------------

_view_size = view("view.size(Tensor self, int[] size) -> Tensor", namespace=None,
                  d={"self": lambda g, self_shape: g.reshape(self_shape)})
_view_dtype = view("view.dtype(Tensor self, dtype dtype) -> Tensor", namespace=None)
view_ = overloads("view", _view_size, _view_dtype, namespace=None, method=True,
                  doc="The same memory under another shape (one size may be -1), or its bytes as another dtype.\n\n"
                      ">>> flambeau.arange(4).view(2, 2)\ntensor([[0, 1],\n        [2, 3]])")

view_as = view("view_as(Tensor self, Tensor other) -> Tensor", namespace=None, method=True,
               d={"self": lambda g, self_shape: g.reshape(self_shape)},
               doc="view with the other tensor's shape.\n\n"
                   ">>> flambeau.arange(4).view_as(flambeau.zeros(2, 2)).shape\ntorch.Size([2, 2])")

reshape = view("reshape(Tensor self, int[] shape) -> Tensor", node="ViewBackward0", ref="numpy.reshape",
               d={"self": lambda g, self_shape: g.reshape(self_shape)},
               doc="The elements in another shape (one size may be -1): a view where strides allow, else a copy.\n\n"
                   ">>> flambeau.arange(4).reshape(2, -1)\ntensor([[0, 1],\n        [2, 3]])")

reshape_as = view("reshape_as(Tensor self, Tensor other) -> Tensor", namespace=None, method=True,
                  d={"self": lambda g, self_shape: g.reshape(self_shape)},
                  doc="reshape with the other tensor's shape.\n\n"
                      ">>> flambeau.arange(4).reshape_as(flambeau.zeros(2, 2)).shape\ntorch.Size([2, 2])")

flatten = view("flatten(Tensor self, int start_dim=0, int end_dim=-1) -> Tensor", node="ViewBackward0",
               d={"self": lambda g, self_shape: g.reshape(self_shape)},
               doc="Joins the dimensions from start_dim to end_dim into one.\n\n"
                   ">>> flambeau.zeros(2, 3, 4).flatten(1).shape\ntorch.Size([2, 12])")

ravel = view("ravel(Tensor self) -> Tensor", ref="numpy.ravel", d={"self": lambda g, self_shape: g.reshape(self_shape)},
             doc="The elements as one row.\n\n>>> flambeau.ravel(flambeau.zeros(2, 3)).shape\ntorch.Size([6])")

unflatten = view("unflatten(Tensor self, int dim, int[] sizes) -> Tensor", node="ViewBackward0",
                 d={"self": lambda g, self_shape: g.reshape(self_shape)},
                 doc="Splits one dimension into several (one size may be -1).\n\n"
                     ">>> flambeau.zeros(2, 6).unflatten(1, (2, -1)).shape\ntorch.Size([2, 2, 3])")

contiguous = view("contiguous(Tensor self, *, memory_format? memory_format=contiguous_format) -> Tensor",
                  node="CloneBackward0", namespace=None, method=True, d={"self": lambda g: g},
                  doc="Self when its elements lie in order without gaps, otherwise such a copy.\n\n"
                      ">>> flambeau.zeros(2, 3).t().contiguous().stride()\n(2, 1)")

# --- order of dimensions ----------------------------------------------------------------------------------------------

permute = view("permute(Tensor self, int[] dims) -> Tensor", ref="numpy.transpose",
               d={"self": lambda g, dims: g.permute(_inverse(dims, g.dim()))},
               doc="Dimension k of the result is dimension dims[k] of self.\n\n"
                   ">>> flambeau.zeros(2, 3, 4).permute(2, 0, 1).shape\ntorch.Size([4, 2, 3])")

transpose = view("transpose(Tensor self, int dim0, int dim1) -> Tensor", inplace=True, ref="numpy.swapaxes",
                 aliases=("swapdims",),
                 d={"self": lambda g, dim0, dim1: g.transpose(dim0, dim1)},
                 doc="Exchanges two dimensions.\n\n"
                     ">>> flambeau.zeros(2, 3).transpose(0, 1).shape\ntorch.Size([3, 2])")


@composite("swapaxes(Tensor self, int axis0, int axis1) -> Tensor", skip="transpose with other names: test_views")
def swapaxes(self, axis0, axis1):
    """`transpose` under NumPy's name.

    >>> flambeau.zeros(2, 3).swapaxes(0, 1).shape
    torch.Size([3, 2])
    """
    return self.transpose(axis0, axis1)



t = view("t(Tensor self) -> Tensor", inplace=True, d={"self": lambda g: g.t()},
         doc="The transpose of a matrix; 0-d and 1-d tensors stay as they are.\n\n"
             ">>> flambeau.zeros(2, 3).t().shape\ntorch.Size([3, 2])")

mT = view("mT(Tensor self) -> Tensor", node="TransposeBackward0", namespace=None, d={"self": lambda g: mT(g)},
          doc="The last two dimensions exchanged.\n\n>>> flambeau.zeros(2, 3, 4).mT.shape\ntorch.Size([2, 4, 3])")

numpy_T = view("numpy_T(Tensor self) -> Tensor",
               node="PermuteBackward0", namespace=None, d={"self": lambda g: numpy_T(g)},
               doc="The dimensions in reverse order.\n\n>>> flambeau.zeros(2, 3).T.shape\ntorch.Size([3, 2])")


@composite("adjoint(Tensor self) -> Tensor")
def adjoint(self):
    """The conjugate transpose of a matrix, or of each matrix of a batch; the conjugate of a single number.

    >>> flambeau.adjoint(flambeau.zeros(2, 3)).shape
    torch.Size([3, 2])
    """
    turned = mT(self) if self.dim() else self
    return turned.conj() if self.dtype.is_complex else turned


movedim = view("movedim(Tensor self, int[] source, int[] destination) -> Tensor",
               node="PermuteBackward0", ref="numpy.moveaxis",
               aliases=("moveaxis",),
               d={"self": lambda g, source, destination: g.movedim(destination, source)},
               doc="Moves dimensions to new positions; the others keep their order.\n\n"
                   ">>> flambeau.zeros(2, 3, 4).movedim(0, 2).shape\ntorch.Size([3, 4, 2])")

# --- dimensions of one element ----------------------------------------------------------------------------------------

squeeze = view("squeeze(Tensor self, int[]? dim=None) -> Tensor", inplace=True, ref="numpy.squeeze",
               d={"self": lambda g, self_shape: g.reshape(self_shape)},
               doc="Leaves out dimensions of size one: all, or those named that have it.\n\n"
                   ">>> flambeau.zeros(1, 3, 1).squeeze(0).shape\ntorch.Size([3, 1])")

unsqueeze = view("unsqueeze(Tensor self, int dim) -> Tensor", inplace=True, ref="numpy.expand_dims",
                 d={"self": lambda g, self_shape: g.reshape(self_shape)},
                 doc="Inserts a dimension of size one.\n\n>>> flambeau.zeros(3).unsqueeze(0).shape\ntorch.Size([1, 3])")

expand = view("expand(Tensor self, int[] size, *, bool implicit=False) -> Tensor", namespace=None, method=True,
              d={"self": lambda g: g}, ref="numpy.broadcast_to",
              doc="Repeats dimensions of size one without copying; -1 keeps a size.\n\n"
                  ">>> flambeau.tensor([[1], [2]]).expand(2, 2)\ntensor([[1, 1],\n        [2, 2]])")

expand_as = view("expand_as(Tensor self, Tensor other) -> Tensor", namespace=None, method=True, d={"self": lambda g: g},
                 doc="expand to the other tensor's shape.\n\n"
                     ">>> flambeau.zeros(1).expand_as(flambeau.zeros(3)).shape\ntorch.Size([3])")


@composite("broadcast_to(Tensor self, int[] size) -> Tensor")
def broadcast_to(self, size):
    """expand as a function.

    >>> flambeau.broadcast_to(flambeau.tensor([1]), (2,))
    tensor([1, 1])
    """
    return self.expand(size)


def broadcast_shape(shapes):
    """The shape that all of these broadcast to."""
    result = []
    for shape in shapes:
        result = [1] * (len(shape) - len(result)) + result
        for k, n in enumerate(reversed(shape), 1):
            if n != 1 and result[-k] not in (1, n):
                raise RuntimeError(f"broadcast_tensors: shape mismatch: sizes {result[-k]} and {n} at dimension -{k} "
                                   f"(shapes {', '.join(str(list(s)) for s in shapes)})")
            result[-k] = n if result[-k] == 1 else result[-k]
    return result


@composite("broadcast_tensors(Tensor[1] tensors) -> Tensor[]")
def broadcast_tensors(tensors):
    """All tensors expanded to their common shape.

    >>> a, b = flambeau.broadcast_tensors(flambeau.zeros(2, 1), flambeau.zeros(3))
    >>> b.shape
    torch.Size([2, 3])
    """
    shape = broadcast_shape([x.shape for x in tensors])
    return tuple(x.expand(shape) for x in tensors)


def _at_least(tensors, shape_of):
    """A lone tensor gives a tensor, several a tuple."""
    shapes = [shape_of(list(x.shape)) for x in tensors]
    made = tuple(x if len(s) == x.dim() else x.reshape(s) for x, s in zip(tensors, shapes, strict=True))
    return made[0] if len(made) == 1 else made


@composite("atleast_1d(Tensor[1] tensors) -> any", ref="numpy.atleast_1d")
def atleast_1d(tensors):
    """0-d tensors as 1-d ones.

    >>> flambeau.atleast_1d(flambeau.tensor(2))
    tensor([2])
    """
    return _at_least(tensors, lambda s: s or [1])


@composite("atleast_2d(Tensor[1] tensors) -> any", ref="numpy.atleast_2d")
def atleast_2d(tensors):
    """Tensors of fewer than two dimensions as rows.

    >>> flambeau.atleast_2d(flambeau.tensor([1, 2]))
    tensor([[1, 2]])
    """
    return _at_least(tensors, lambda s: [1] * (2 - len(s)) + s)


@composite("atleast_3d(Tensor[1] tensors) -> any", ref="numpy.atleast_3d")
def atleast_3d(tensors):
    """Tensors of fewer than three dimensions with dimensions of size one: [n] as [1, n, 1], [m, n] as [m, n, 1].

    >>> flambeau.atleast_3d(flambeau.tensor([1, 2])).shape
    torch.Size([1, 2, 1])
    """
    return _at_least(tensors, lambda s: [1, 1, 1] if not s else [1, *s, 1] if len(s) == 1 else s + [1] * (3 - len(s)))

# --- parts ------------------------------------------------------------------------------------------------------------

slice = view("slice(Tensor self, int dim=0, int? start=None, int? end=None, int step=1) -> Tensor", namespace=None,
             d={"self": lambda g, self_shape, dim, start, end, step:
                slice_backward(g, self_shape, dim, start, end, step)},
             doc="self[start:end:step] along one dimension; the step may be negative.")

select = view("select(Tensor self, int dim, int index) -> Tensor",
              d={"self": lambda g, self_shape, dim, index: select_backward(g, self_shape, dim, index)},
              doc="One position along a dimension, which disappears.\n\n"
                  ">>> flambeau.tensor([[1, 2], [3, 4]]).select(1, 0)\ntensor([1, 3])")

_narrow = view("narrow(Tensor self, int dim, int start, int length) -> Tensor", node="SliceBackward0",
               d={"self": lambda g, self_shape, dim, start, length:
                  _narrow_backward(g, self_shape, dim, start, length)},
               doc="`length` positions along a dimension from `start` on.\n\n"
                   ">>> flambeau.arange(5).narrow(0, 1, 3)\ntensor([1, 2, 3])")


def _narrow_backward(g, shape, dim, start, length):
    start = start + shape[dim] if start < 0 else start
    return slice_backward(g, shape, dim, start, start + length, 1)


unfold = view("unfold(Tensor self, int dimension, int size, int step) -> Tensor", namespace=None, method=True,
              d={"self": lambda g, self_shape, dimension, size, step:
                 unfold_backward(g, self_shape, dimension, size, step)},
              doc="All windows of `size` positions along a dimension, `step` apart; windows lie in the last one.\n\n"
                  ">>> flambeau.arange(4).unfold(0, 2, 1)\ntensor([[0, 1],\n        [1, 2],\n        [2, 3]])")

as_strided = view("as_strided(Tensor self, int[] size, int[] stride, int? storage_offset=None) -> Tensor", inplace=True,
                  d={"self": lambda g, self_geometry, size, stride, storage_offset:
                     as_strided_backward(g, *self_geometry, size, stride, storage_offset)},
                  doc="The memory under any sizes and strides (in elements).\n\n"
                      ">>> flambeau.arange(4).as_strided((2, 2), (1, 1))\ntensor([[0, 1],\n        [1, 2]])")

alias = view("alias(Tensor self) -> Tensor", namespace=None, d={"self": lambda g: g},
             doc="The same memory as another tensor object.")


@composite("select_scatter(Tensor self, Tensor src, int dim, int index) -> Tensor")
def select_scatter(self, src, dim, index):
    """A copy of self with src at one position of a dimension.

    >>> flambeau.select_scatter(flambeau.zeros(2), flambeau.tensor(1.), 0, 1)
    tensor([0., 1.])
    """
    return _placed(self, src, lambda x: x.select(dim, index))


@composite("slice_scatter(Tensor self, Tensor src, int dim=0, int? start=None, int? end=None, int step=1) -> Tensor",
           out=True)
def slice_scatter(self, src, dim=0, start=None, end=None, step=1):
    """A copy of self with src in a slice of a dimension.

    >>> flambeau.slice_scatter(flambeau.zeros(3), flambeau.ones(2), 0, 1)
    tensor([0., 1., 1.])
    """
    return _placed(self, src, lambda x: slice(x, dim, start, end, step))


def copy_to_write(self, src):
    """A copy of self that src can be written into; inside vmap one that has its batch."""
    copy = self.clone()
    return copy + src.new_zeros((), dtype=copy.dtype) if _C.level_of(src) else copy


def _placed(self, src, part):
    copy = copy_to_write(self, src)
    place = part(copy)
    if place.shape != src.shape:
        raise RuntimeError(f"expected src to have a shape equal to that of the part: {list(place.shape)}, got "
                           f"{list(src.shape)}")
    place.copy_(src)
    return copy

# --- complex numbers --------------------------------------------------------------------------------------------------

real = view("real(Tensor self) -> Tensor",
            node="SelectBackward0", method=False, d={"self": lambda g: g}, ref="numpy.real",
            doc="The real parts, as a view.\n\n>>> flambeau.real(flambeau.tensor([1+2j]))\ntensor([1.])")
imag = view("imag(Tensor self) -> Tensor",
            node="SelectBackward0", method=False, d={"self": lambda g: g * 1j}, ref="numpy.imag",
            doc="The imaginary parts, as a view.\n\n>>> flambeau.imag(flambeau.tensor([1+2j]))\ntensor([2.])")
view_as_real = view("view_as_real(Tensor self) -> Tensor", d={"self": lambda g: view_as_complex(g.contiguous())},
                    doc="Complex numbers as pairs of reals in a last dimension of size 2.\n\n"
                        ">>> flambeau.view_as_real(flambeau.tensor([1+2j]))\ntensor([[1., 2.]])")
view_as_complex = view("view_as_complex(Tensor self) -> Tensor",
                       autocast="float32", d={"self": lambda g: view_as_real(g)},
                       doc="Pairs of reals in the last dimension as complex numbers.\n\n"
                           ">>> flambeau.view_as_complex(flambeau.tensor([[1., 2.]]))\ntensor([1.+2.j])")


@composite("as_strided_scatter(Tensor self, Tensor src, int[] size, int[] stride, int? storage_offset=None) -> Tensor")
def as_strided_scatter(self, src, size, stride, storage_offset=None):
    """A copy of self with src written through as_strided(size, stride, storage_offset).

    >>> flambeau.as_strided_scatter(flambeau.zeros(3), flambeau.ones(2), (2,), (2,))
    tensor([1., 0., 1.])
    """
    copy = copy_to_write(self, src)
    copy.as_strided(size, stride, storage_offset).copy_(src)
    return copy
