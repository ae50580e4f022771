"""Matrix products: values that do not count are 0; an element counts where it has a pair of values that count."""

from ... import _C
from ...ops.kinds import OPS
from .core import data_of, is_masked_tensor, is_sparse, make
from .moving import _full_mask
from .rules import refuse, rule


def _zeroed(x):
    return data_of(x).masked_fill(~x._masked_mask, 0) if is_masked_tensor(x) else x


def _product(self, other):
    if any(is_sparse(x._masked_data) for x in (self, other) if is_masked_tensor(x)):
        return refuse("matmul", " of a sparse layout (to_dense() has rules)")
    pairs = OPS["matmul"](_full_mask(self).to(_C.float32), _full_mask(other).to(_C.float32))
    return make(OPS["matmul"](_zeroed(self), _zeroed(other)), pairs > 0)


for _name in ("matmul", "mm", "bmm", "mv", "dot"):
    rule(_name)(_product)


@rule("linear")
def _linear(input, weight, bias=None):
    found = _product(input, weight.t() if weight.dim() == 2 else weight)
    return found if bias is None else found + bias
