"""Operators on every element: on the values, with the mask that the arguments have in common; and `where`."""

from ..._C import Tensor
from ..._sparse import tensor as sparse
from ...ops.kinds import OPS
from .core import data_of, dense_mask, is_masked_tensor, is_sparse, make, same_mask
from .rules import RULES, rule, write


def common_mask(name, args):
    """The mask of the masked arguments; ValueError where they have several."""
    masked = [x for x in args if is_masked_tensor(x)]
    first = masked[0]
    for other in masked[1:]:
        if first.layout is not other.layout:
            raise ValueError(f"{name}: masked tensors must have one layout, got {first.layout} and {other.layout}; "
                             "to_dense() gives all elements")
        if not same_mask(first._masked_mask, other._masked_mask):
            raise ValueError(f"{name}: the masks of the arguments differ. Give both one mask, such as a.get_mask() & "
                             "b.get_mask()")
    return first._masked_mask


def _plain(x, mask):
    """An argument as a plain one; of sparse layouts, the values at the places of the mask."""
    if is_masked_tensor(x):
        return sparse.values_of(data_of(x)) if is_sparse(mask) else data_of(x)
    if not is_sparse(mask) or not isinstance(x, Tensor) or not x.dim():
        return x
    return sparse.at_places(x if is_sparse(x) else x.expand(mask.shape), mask._pattern)


def _pointwise(op, name):
    def compute(*args, **kwargs):
        mask = common_mask(name, (*args, *kwargs.values()))
        found = op(*(_plain(x, mask) for x in args), **{key: _plain(x, mask) for key, x in kwargs.items()})
        if is_sparse(mask):
            found = sparse.make(mask._pattern, found)
        elif found.shape != mask.shape:
            mask = mask.expand(found.shape)
        return make(found, mask)
    compute.__doc__ = f"{name} of the values."
    return compute


for _name, _op in OPS.items():
    if _op.kind == "elementwise" and not _op.is_inplace:
        RULES[_name] = _pointwise(_op, _name)


@rule("where")
def _where(condition, self, other):
    """Values and masks of one or the other; plain arguments count everywhere."""
    if any(is_sparse(x._masked_data) for x in (condition, self, other) if is_masked_tensor(x)):
        raise ValueError("where: expected masked tensors of layout strided; to_dense() gives all elements")
    choice = data_of(condition) if is_masked_tensor(condition) else condition
    values = [data_of(x) if is_masked_tensor(x) else x for x in (self, other)]
    found = OPS["where"](choice, *values)
    mask = OPS["where"](choice, *(dense_mask(x) if is_masked_tensor(x) else True for x in (self, other)))
    if is_masked_tensor(condition):
        mask = mask & condition._masked_mask
    return make(found, mask.expand(found.shape))


@rule("copy_")
def _copy(self, src, non_blocking=False):
    """The values of `src`, which has the same mask or none."""
    if is_masked_tensor(self) and not is_masked_tensor(src):
        src = make(src.expand(self.shape), self._masked_mask)
    return write(self, src, "copy_")
