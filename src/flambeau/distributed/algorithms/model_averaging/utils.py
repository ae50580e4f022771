"""The mean of parameters over the ranks of a group."""

import flambeau

from ..._buckets import cut, joined
from ..._collectives import all_reduce
from ..._groups import _rank_not_in_group
from ..._values import ReduceOp


def average_parameters(params, process_group=None):
    """Sets parameters to their mean over the group, those of one dtype together."""
    if _rank_not_in_group(process_group):
        return
    kinds = {}
    for p in params:
        kinds.setdefault(p.dtype, []).append(p.detach())
    with flambeau.no_grad():
        for parts in kinds.values():
            flat = joined(parts)
            all_reduce(flat, ReduceOp.AVG, process_group)
            for part, mean in zip(parts, cut(flat, parts)):
                part.copy_(mean)


def get_params_to_average(params):
    """Those of a model's parameters, or of an optimizer's groups, that have gradients."""
    flat = [p for each in params for p in (each["params"] if isinstance(each, dict) else [each])]
    return [p for p in flat if p.grad is not None]


def average_parameters_or_parameter_groups(params, process_group=None):
    """`average_parameters` of those that have gradients."""
    average_parameters(get_params_to_average(params), process_group)
