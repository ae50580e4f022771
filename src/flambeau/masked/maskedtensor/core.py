"""What a masked tensor is: a wrapper around a tensor of values and one of truth values; where it is False, the value
does not count.

Two graph nodes connect it with plain tensors: `data_of` (masked to values) and `make` (values to masked). Every
operator is written between the two with ordinary differentiable operators. Values that do not count get the gradient 0.
"""

import warnings

from ... import _C
from ..._C import Tensor
from ..._shown import shown
from ..._sparse.tensor import is_sparse
from ..._tensor.wrapped import Wrapped
from ...ops.kinds import OPS

DTYPES = (_C.float16, _C.bfloat16, _C.float32, _C.float64, _C.bool, _C.uint8, _C.int8, _C.int16, _C.int32, _C.int64)
LAYOUTS = (_C.strided, _C.sparse_coo, _C.sparse_csr)
#: names of the methods that give the places of a sparse layout
_PLACES = {_C.sparse_coo: ("indices",), _C.sparse_csr: ("crow_indices", "col_indices")}


def is_masked_tensor(obj, /):
    """Whether `obj` is a masked tensor.

    >>> import flambeau
    >>> from flambeau.masked import is_masked_tensor, masked_tensor
    >>> is_masked_tensor(masked_tensor(flambeau.ones(2), flambeau.tensor([True, False])))
    True
    """
    return isinstance(obj, MaskedTensor)


def wrap(data, mask):
    """The masked tensor, without history."""
    x = Tensor._make_wrapper_subclass(MaskedTensor, data.shape, dtype=data.dtype, device=data.device)
    x._masked_data, x._masked_mask = data.detach(), mask
    return x


def make(data, mask):
    """The masked tensor of these values; its gradient reaches those that count."""
    x = wrap(data, mask)
    if _C.is_grad_enabled() and data.requires_grad:
        _C.function_node(lambda g: (_counting(g, mask),), (data,), (x,), "MaskedTensorBackward0")
    return x


def data_of(x):
    """The values of a masked tensor; their gradient is a masked tensor."""
    data = x._masked_data.detach()
    if _C.is_grad_enabled() and x.requires_grad:
        mask = x._masked_mask
        _C.function_node(lambda g: (g if is_masked_tensor(g) else make(g, mask),), (x,), (data,), "GetDataBackward0")
    return data


def _counting(g, mask):
    """The gradient of the values: 0 where they, or the gradient, do not count."""
    if is_masked_tensor(g):
        g, other = data_of(g), g._masked_mask
        mask = mask if is_sparse(mask) or is_sparse(other) else mask & other
    return g if is_sparse(g) or is_sparse(mask) else g.masked_fill(~mask, 0)


def dense_mask(x):
    """The mask of a masked tensor with all its elements."""
    return x._masked_mask.to_dense() if is_sparse(x._masked_mask) else x._masked_mask


def same_mask(a, b):
    """Whether two masks are the same; those of sparse layouts, whether they have the same places."""
    if a is b:
        return True
    if a.layout is not b.layout or a.shape != b.shape:
        return False
    parts = _PLACES.get(a.layout)
    return OPS["equal"](a, b) if parts is None else _same_places(a, b)


def _same_places(a, b):
    return all(OPS["equal"](getattr(a, part)(), getattr(b, part)()) for part in _PLACES[a.layout])


def checked(data, mask):
    """Values and mask in the form they are kept; TypeError or ValueError where they do not go together."""
    for name, value in (("data", data), ("mask", mask)):
        if not isinstance(value, Tensor) or is_masked_tensor(value):
            raise TypeError(f"masked_tensor: {name} must be a plain tensor, got {shown(value)}")
    if data.layout is not mask.layout:
        raise TypeError(f"masked_tensor: data and mask must have one layout, got {data.layout} and {mask.layout}")
    if data.layout not in LAYOUTS:
        raise TypeError(f"masked_tensor: the layout must be one of {', '.join(map(str, LAYOUTS))}, got {data.layout}")
    if mask.dtype is not _C.bool:
        raise TypeError(f"masked_tensor: mask must be of dtype bool, got {mask.dtype}; mask != 0 makes one")
    if data.dtype not in DTYPES:
        raise TypeError(f"masked_tensor: not available for {data.dtype}; real and imaginary parts can each be masked")
    if data.shape != mask.shape:
        raise ValueError(f"masked_tensor: data and mask must have one shape, got {list(data.shape)} and "
                         f"{list(mask.shape)}")
    if data.layout is _C.sparse_coo:
        data, mask = data.coalesce(), mask.coalesce()
    if is_sparse(data) and data._nnz() != mask._nnz():
        data = data.sparse_mask(mask)
    if is_sparse(data) and not _same_places(data, mask):
        raise ValueError("masked_tensor: data and mask of a sparse layout must have the same places; "
                         "data.sparse_mask(mask) takes those of the mask")
    return data, mask


class MaskedTensor(Wrapped):
    """A tensor of values of which some do not count; `masked_tensor` and `as_masked_tensor` make them.

    `data` and `mask` are copied; the new tensor is a leaf.

    >>> import flambeau
    >>> from flambeau.masked import MaskedTensor
    >>> x = MaskedTensor(flambeau.tensor([1.0, 2, 3]), flambeau.tensor([True, False, True]))
    >>> x
    MaskedTensor(
      [  1.0000,       --,   3.0000]
    )
    >>> x.mean()
    MaskedTensor(  2.0000, True)
    """

    _contents = ("_masked_data", "_masked_mask")

    def __new__(cls, data, mask, requires_grad=False):
        data, mask = checked(data, mask)
        if data.requires_grad:
            warnings.warn("masked_tensor: data requires grad, but the new tensor is a leaf, whose gradient does not "
                          "reach data; as_masked_tensor(data, mask) keeps the connection, data.detach() says there is "
                          "none", UserWarning, stacklevel=3)
        x = wrap(data.detach().clone(), mask.clone())
        return x.requires_grad_() if requires_grad else x

    def get_data(self):
        """The values, those that do not count too. Their gradient reaches the tensor."""
        return data_of(self)

    def get_mask(self):
        """The mask: True where a value counts."""
        return self._masked_mask

    def to_tensor(self, value):
        """A plain tensor, with `value` where values do not count."""
        dense = self.to_dense()
        return data_of(dense).masked_fill(~dense._masked_mask, value)
