"""Reductions of consecutive segments of a dimension."""

from math import inf, prod

from .._shown import shown
from .creation import full
from .dims import wrap_dim
from .kinds import OPS, composite

_REDUCTIONS = {"sum": ("sum", 0), "mean": ("mean", None), "max": ("amax", -inf), "amax": ("amax", -inf),
               "min": ("amin", inf), "amin": ("amin", inf), "prod": ("prod", 1)}


def _lengths(data, lengths, offsets, axis, unsafe):
    if offsets is not None:
        lengths = offsets.diff(dim=-1)
    if lengths is None:
        raise RuntimeError("segment_reduce: the segments are missing; pass lengths or offsets")
    axis = wrap_dim(axis, data.dim(), "segment_reduce")
    if lengths.dim() - 1 != axis:
        raise RuntimeError(f"segment_reduce: axis={shown(axis)} must be the last dimension of lengths, "
                           f"{lengths.dim() - 1}")
    if not unsafe and offsets is None:
        if lengths.numel() and lengths.min().item() < 0:
            raise RuntimeError("segment_reduce: lengths must not be negative")
        if not (lengths.sum(-1) == data.shape[axis]).all().item():
            raise RuntimeError(f"segment_reduce: the lengths along axis {shown(axis)} must add up to its size, "
                               f"{data.shape[axis]}")
    return lengths, axis


@composite("segment_reduce(Tensor data, str reduce, *, Tensor? lengths=None, Tensor? indices=None,"
           " Tensor? offsets=None, int axis=0, bool unsafe=False, Scalar? initial=None) -> Tensor", method=False,
           skip="tested by name")
def segment_reduce(data, reduce, *, lengths=None, indices=None, offsets=None, axis=0, unsafe=False, initial=None):
    """Reduces consecutive segments along `axis` ("sum", "mean", "max", "min", "prod"), given by lengths or offsets.

    Segments that offsets tell, or lengths with `unsafe=True`, need not reach over all of the axis.

    >>> flambeau.segment_reduce(flambeau.tensor([1., 2., 3.]), "sum", lengths=flambeau.tensor([2, 1]))
    tensor([3., 3.])
    """
    if indices is not None:
        raise RuntimeError("segment_reduce: segments cannot be given by indices; pass lengths or offsets")
    if reduce not in _REDUCTIONS:
        raise RuntimeError(f"segment_reduce: reduce must be 'sum', 'prod', 'mean', 'max' or 'min', got {shown(reduce)}")
    if not data.is_floating_point():
        raise NotImplementedError(f'"segment_reduce" not implemented for {data.dtype}')
    lengths, axis = _lengths(data, lengths, offsets, axis, unsafe)
    batch, n, wanted = prod(data.shape[:axis]), data.shape[axis], lengths.shape[-1]
    whole = offsets is None and not unsafe
    if not whole:  # what lies before the first segment and behind the last one makes two more
        first = lengths.new_zeros((*lengths.shape[:-1], 1)) if offsets is None else offsets.narrow(-1, 0, 1)
        lengths = OPS["cat"]([first, lengths, n - first - lengths.sum(-1, keepdim=True)], -1)
    count = lengths.shape[-1]
    rows = data.reshape(batch * n, *data.shape[axis + 1:])
    segment = OPS["arange"](batch * count, device=data.device).repeat_interleave(lengths.reshape(-1))
    shape = (batch * count, *data.shape[axis + 1:])
    made = _reduced(rows, segment, shape, reduce, initial, lengths.reshape(-1))
    made = made.reshape(*data.shape[:axis], count, *data.shape[axis + 1:])
    return made if whole else made.narrow(axis, 1, wanted).contiguous()


def _reduced(rows, segment, shape, reduce, initial, lengths):
    kind, start = _REDUCTIONS[reduce]
    if kind in ("sum", "mean"):
        made = full(shape, 0 if initial is None else initial, dtype=rows.dtype, device=rows.device)
        made = made.index_add(0, segment, rows)
        if kind == "sum":
            return made
        per = lengths.reshape(-1, *[1] * (len(shape) - 1)).to(rows.dtype)
        empty = per == 0
        return OPS["where"](empty, float("nan") if initial is None else made, made / per.masked_fill(empty, 1))
    made = full(shape, start if initial is None else initial, dtype=rows.dtype, device=rows.device)
    place = segment.reshape(-1, *[1] * (len(shape) - 1)).expand(rows.shape)
    return made.scatter_reduce(0, place, rows, kind, include_self=True)
