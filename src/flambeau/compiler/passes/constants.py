"""Constant folding: what is computed from nothing but numbers and sizes is computed once, and kept with the plan.

    mask = tril(ones([4, 4])) == 0;  masked_fill(scores, mask, -inf)
    mask, made by the first run;     masked_fill(scores, mask, -inf)

Numbers and sizes are no part of a plan, so the kept values stand beside those they were made from, and are made anew
when others come (native/runtime/constants.cpp).
"""

from operator import getitem

from .._writer import has_effect, value_of

#: what makes tensors of numbers
SOURCES = ("arange", "eye", "full", "linspace", "logspace", "ones", "tril_indices", "triu_indices", "zeros")
#: what may follow, besides all pointwise operators
FOLLOWERS = ("_to_copy", "cat", "clone", "cumprod", "cumsum", "flip", "matmul", "reshape", "roll", "stack", "sum",
             "tril", "triu")
#: numbers in a tensor, above which it is better made where it is used
_MOST = 1 << 20


def fold_constants(graph):
    """Marks the calls in meta["constant"]. A value that somebody may hold and write to is made every time."""
    seen_outside = {value_of(node) for node in next(iter(reversed(graph.nodes))).all_input_nodes}
    constant = set()
    for node in graph.nodes:
        if node.op != "call_function" or "view" in node.meta or node.target is getitem or node in seen_outside:
            continue
        if has_effect(node) or not _is_pure(node) or not _overwritten_by_nobody(node):
            continue
        if all(value_of(n) in constant for n in node.all_input_nodes):
            constant.add(node)
            node.meta["constant"] = True


def _is_pure(node):
    if "use" not in node.meta or node.meta["use"].numel > _MOST:
        return False
    if not node.all_input_nodes:
        return node.target.name in SOURCES
    return node.target.kind == "elementwise" or node.target.name in FOLLOWERS


def _overwritten_by_nobody(node):
    """No call takes its memory for a result."""
    return not any(getattr(user.target, "name", "") in ("_with_part", "_with_number", "_convolution_tail")
                   for user in node.users)
