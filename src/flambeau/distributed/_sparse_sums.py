"""all_reduce of sparse tensors: every rank gets all indices and values, and adds them up."""

import flambeau

from .. import _C
from . import _checks as checks
from ._values import RedOpType
from ._where import where


def all_reduce(tensor, op, group, async_op):
    """The sparse COO tensors of all ranks become their sum, which is coalesced."""
    kind, factor = checks.reduction(op, "all_reduce")
    engine = group.engine_of(tensor, "all_reduce")
    if tensor.layout is not _C.sparse_coo or engine.launches:
        raise NotImplementedError(f"all_reduce: tensor has layout {tensor.layout}; on the CPU sparse_coo tensors are "
                                  "added, make others dense with to_dense()")
    if kind != RedOpType.SUM or factor is not None:
        raise RuntimeError("all_reduce: sparse tensors are only added (ReduceOp.SUM), got"
                           f"{checks.named(kind) or ' a factor'}")
    text, mine = where("all_reduce", tensor), tensor.detach().coalesce()

    def call(timeout):
        parts = _gathered(mine, engine, group.size(), text, timeout)
        return lambda: _become(tensor, parts)

    return group.call(engine, call, [tensor], async_op)


def _gathered(mine, engine, ranks, text, timeout):
    """[(indices, values)] of all ranks, whose numbers of values differ: those of most values set the length."""
    def gather(x):
        found = [flambeau.empty_like(x) for _ in range(ranks)]
        engine.all_gather(found, x, text, timeout)
        return found

    indices, values = mine.indices(), mine.values()
    counts = [int(n) for n in gather(flambeau.tensor([indices.shape[1]]))]
    room = max(counts)
    rows = gather(_filled(indices.t(), room))
    return [(place[:n].t(), value[:n]) for n, place, value in zip(counts, rows, gather(_filled(values, room)))]


def _filled(x, rows):
    """The same rows in memory for `rows` of them."""
    found = x.new_zeros((rows, *x.shape[1:]))
    found[:len(x)] = x
    return found


def _become(tensor, parts):
    indices, values = (flambeau.cat(each, dim) for each, dim in zip(zip(*parts), (1, 0)))
    with flambeau.no_grad():
        tensor.copy_(flambeau.sparse_coo_tensor(indices, values, tensor.shape).coalesce())
