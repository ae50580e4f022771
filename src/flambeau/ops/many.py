"""Operators that take a list of tensors whole, so that a device computes them in a few launches."""

from .joining import stack
from .kinds import primitive
from .norms import _vector_norm


def _one_by_one(tensors, ord):
    return stack([_vector_norm(x, ord, None, False, None) for x in tensors])


def _multiplied(tensors, factor):
    for x in tensors:
        x.mul_(factor.to(x.dtype))


_norms = primitive(
    "_norms(Tensor[] tensors, float ord) -> Tensor", namespace=None, kernel=_one_by_one,
    skip="reached through nn.utils.get_total_norm and _foreach_norm",
    doc="The vector norms of real tensors of one dtype, in one dimension.")

_scale_all = primitive(
    "_scale_all(Tensor(a!)[] tensors, Tensor factor) -> ()", namespace=None, kernel=_multiplied,
    skip="reached through nn.utils.clip_grads_with_norm_ and _foreach_mul_",
    doc="Multiplies every tensor in place by a number, which lies in a tensor without dimensions and is first rounded "
        "to each tensor's dtype.")
