"""Collectives under the names of operators: `ops._c10d_functional`, whose results are new, and `ops.c10d`.

They are complete when they return, as those of `_functional_collectives` are.
"""

from ..ops.namespaces import Called, Namespace
from . import _collectives as collectives
from . import _functional_collectives as functional


def _into(result, found):
    result.copy_(found)
    return result


def _scatter_(output_tensors, input_tensors, process_group, root_rank, asyncOp=True):
    work = collectives.scatter(output_tensors[0], input_tensors[0] if input_tensors else None, group=process_group,
                               async_op=asyncOp, group_src=root_rank)
    return output_tensors, work


_NEW_RESULTS = {
    "wait_tensor": functional.wait_tensor,
    "_wrap_tensor_autograd": functional.wait_tensor,
    "all_reduce": functional.all_reduce,
    "all_reduce_": lambda input, reduce_op, group: _into(input, functional.all_reduce(input, reduce_op, group)),
    "all_reduce_coalesced": functional.all_reduce_coalesced,
    "broadcast": functional.broadcast,
    "broadcast_": lambda input, src, group: _into(input, functional.broadcast(input, src, group)),
    "all_gather_into_tensor": lambda input, group_size, group: functional.all_gather_tensor(input, 0, group),
    "reduce_scatter_tensor": lambda input, reduce_op, group_size, group: functional.reduce_scatter_tensor(
        input, reduce_op, 0, group),
    "all_to_all_single": functional.all_to_all_single,
}
#: c10d_functional is the older name
_SPACES = {"_c10d_functional": _NEW_RESULTS, "c10d_functional": _NEW_RESULTS, "c10d": {"scatter_": _scatter_}}


def space(name):
    """The namespace with all of them."""
    found = Namespace(name)
    for each, function in _SPACES[name].items():
        found._register(each, Called(name, each, function))
    return found
