"""Choosing elements by a mask of the same (broadcast) shape."""

from .kinds import composite, elementwise, overloads

where = elementwise(
    "where(Tensor condition, Tensor self, Tensor other) -> Tensor", promote="select_second", inplace=False,
    method=False,
    d={"self": lambda g, condition: g.masked_fill(~condition, 0),
       "other": lambda g, condition: g.masked_fill(condition, 0)},
    ref="numpy.where", samples="where", skip={"promotion": "its first operand is a condition"},
    doc="self where the condition holds, other elsewhere; both may be numbers.\n\n"
        ">>> flambeau.where(flambeau.tensor([True, False]), 1.0, 2.0)\ntensor([1., 2.])")


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
        ">>> flambeau.tensor([1., 2.]).masked_fill(flambeau.tensor([True, False]), 0)\ntensor([0., 2.])")
