"""Choosing elements by a mask of the same (broadcast) shape, and finding those that are not zero."""

from .._C import int64
from .._shown import shown
from .creation import full
from .joining import cat
from .kinds import composite, elementwise, overloads, primitive, room
from .views import broadcast_shape

where = elementwise(
    "where(Tensor condition, Tensor self, Tensor other) -> Tensor", promote="select_second", inplace=False,
    method=False,
    d={"self": lambda g, condition: where(condition.bool(), g, 0),
       "other": lambda g, condition: where(condition.bool(), 0, g)},
    ref="numpy.where", samples="where", skip={"promotion": "its first operand is a condition"},
    doc="self where the condition holds, other elsewhere; both may be numbers.\n\n"
        ">>> flambeau.where(flambeau.tensor([True, False]), 1.0, 2.0)\ntensor([1., 2.])",
    cuda="condition ? self : other")


@composite("where.indices(Tensor condition) -> any", namespace=None, skip="nonzero under another name")
def _where_indices(condition):
    """The indices of the elements that are true: one tensor per dimension."""
    return condition.nonzero(as_tuple=True)


overloads("where", where, _where_indices, method=False, doc=where.summary)

masked_fill = elementwise(
    "masked_fill(Tensor self, Tensor mask, Tensor value) -> Tensor", promote="first_only", out=False,
    d={"self": lambda g, mask: g.masked_fill(mask, 0), "value": lambda g, mask: where(mask, g, 0)},
    samples="masked_fill", skip={"promotion": "its second operand is a mask"},
    doc="self with `value` (a number or a 0-d tensor) where the mask holds.\n\n"
        ">>> flambeau.tensor([1., 2.]).masked_fill(flambeau.tensor([True, False]), 0)\ntensor([0., 2.])",
    cuda="mask ? value : self")

masked_select = primitive(
    "masked_select(Tensor self, Tensor mask) -> Tensor", out=True,
    d={"self": lambda g, self_shape, mask: _unselected(g, self_shape, mask)},
    doc="The elements where the mask is true, as one row.\n\n"
        ">>> flambeau.masked_select(flambeau.tensor([1, 2, 3]), flambeau.tensor([True, False, True]))\ntensor([1, 3])")


def _unselected(g, shape, mask):
    return room(g, broadcast_shape([shape, mask.shape]), mask).masked_scatter_(mask, g)


masked_scatter = primitive(
    "masked_scatter(Tensor self, Tensor mask, Tensor source) -> Tensor", inplace=True,
    d={"self": lambda g, mask: g.masked_fill(mask, 0),
       "source": lambda g, source_shape, mask: _first_elements(g.masked_select(mask), source_shape)},
    doc="A copy of self in which the places where the mask is true take source's elements in order.\n\n"
        ">>> mask = flambeau.tensor([False, True, True])\n"
        ">>> flambeau.zeros(3).masked_scatter(mask, flambeau.tensor([1., 2.]))\ntensor([0., 1., 2.])")


def _first_elements(values, shape):
    whole = values.new_zeros(shape).reshape(-1)
    whole.narrow(0, 0, values.numel()).copy_(values)
    return whole.reshape(shape)


_nonzero_rows = primitive("nonzero_rows(Tensor self) -> Tensor", namespace=None)
nonzero_numpy = primitive("nonzero_numpy(Tensor self) -> Tensor[]", namespace=None, method=True,
                          doc="nonzero(as_tuple=True).")


@composite("nonzero(Tensor self, *, bool as_tuple=False) -> any", out=True, ref="numpy.argwhere")
def nonzero(self, *, as_tuple=False):
    """Coordinates of the nonzero elements, one row each; with as_tuple one index tensor per dimension.

    >>> flambeau.nonzero(flambeau.tensor([0, 5, 6]))
    tensor([[1],
            [2]])
    """
    return nonzero_numpy(self) if as_tuple else _nonzero_rows(self)


@composite("argwhere(Tensor self) -> Tensor", ref="numpy.argwhere")
def argwhere(self):
    """Coordinates of the nonzero elements, one row each.

    >>> flambeau.argwhere(flambeau.tensor([0, 5]))
    tensor([[1]])
    """
    return _nonzero_rows(self)


@composite("nonzero_static(Tensor self, *, int size, int fill_value=-1) -> Tensor", out=True,
           skip="tested by name")
def nonzero_static(self, *, size, fill_value=-1):
    """nonzero, cut or filled up to `size` rows.

    >>> flambeau.nonzero_static(flambeau.tensor([0, 1]), size=2)
    tensor([[ 1],
            [-1]])
    """
    if size < 0:
        raise RuntimeError(f"nonzero_static: size must not be negative, got {shown(size)}")
    found = self.nonzero()[:size]
    rest = full((size - found.shape[0], self.dim()), fill_value, dtype=int64, device=self.device)
    return cat([found, rest], 0)
