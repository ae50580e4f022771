"""Attention over a sequence of which each rank has a part: keys and values go round, softmax is put together of parts.

Where attention is causal, a rank has two pieces of the sequence, one from its beginning and one from its end, so that
all ranks compute as much (Liu et al. 2023, Ring Attention; Brandon et al. 2023, Striped Attention).
"""

import flambeau

from ....autograd import Function
from ....autograd.function import once_differentiable
from ....ops.attention import fused_attention, fused_attention_backward
from ... import _collectives as collectives
from ... import _messages as messages

_FUSED = (flambeau.float32, flambeau.float16, flambeau.bfloat16)


# --- one block of keys ------------------------------------------------------------------------------------------------

def _scores(query, key, is_causal, scale):
    found = query @ key.mT * scale
    if is_causal:
        found = found.masked_fill(flambeau.ones(found.shape[-2:], dtype=flambeau.bool).triu(1), -float("inf"))
    return found


def _block(query, key, value, is_causal, scale):
    """(attention to these keys alone, the log of the sum of its exponentials [..., L]), in float32 or float64"""
    if query.dtype == flambeau.float32:
        return fused_attention(query, key, value, None, is_causal, scale)
    scores = _scores(query, key, is_causal, scale)
    return scores.softmax(-1) @ value, scores.logsumexp(-1)


def _block_backward(grad, query, key, value, out, lse, is_causal, scale):
    """What these keys add to the gradients; `out` and `lse` are those of attention to all keys."""
    if query.dtype == flambeau.float32:
        return fused_attention_backward(grad, query, key, value, None, out, lse, is_causal, scale)
    weights = (_scores(query, key, is_causal, scale) - lse.unsqueeze(-1)).exp()
    d = weights * (grad @ value.mT - (grad * out).sum(-1, keepdim=True)) * scale
    return d @ key, d.mT @ query, weights.mT @ grad


# --- who sees what ----------------------------------------------------------------------------------------------------

def _seen(rank, source, is_causal, balanced, queries, keys):
    """(which queries, which keys, whether causal among themselves) of the part of rank `source`; None: nothing."""
    all_queries, all_keys = slice(0, queries), slice(0, keys)
    if not is_causal or source == rank:
        return all_queries, all_keys, is_causal
    if not balanced:
        return (all_queries, all_keys, False) if source < rank else None
    if source < rank:  # its piece of the end lies behind both of ours
        return all_queries, slice(0, keys // 2), False
    return slice(queries // 2, queries), all_keys, False


def _rows(x, part):
    return x[..., part, :]


# --- what goes round --------------------------------------------------------------------------------------------------

class _ByMessages:
    """Each rank sends on what it has, while it computes with it."""

    def __init__(self, tensors, group):
        self.now, self.group, self.left = [x.contiguous() for x in tensors], group, group.size() - 1
        self._begin()

    def _begin(self):
        self.coming, self.works = [], []
        if self.left:
            self.coming = [flambeau.empty_like(x) for x in self.now]
            self.works = _round(self.now, self.coming, self.group)

    def next(self):
        """The tensors of the rank before."""
        for work in self.works:
            work.wait()
        self.now, self.left = self.coming, self.left - 1
        self._begin()
        return self.now


class _ByGathering:
    """All ranks' tensors at once."""

    def __init__(self, tensors, group):
        self.now, self.at = [x.contiguous() for x in tensors], group.rank()
        self.all = []
        for x in self.now:
            self.all.append([flambeau.empty_like(x) for _ in range(group.size())])
            collectives.all_gather(self.all[-1], x, group)

    def next(self):
        """The tensors of the rank before."""
        self.at = (self.at - 1) % len(self.all[0])
        return [each[self.at] for each in self.all]


def _round(tensors, places, group):
    """Begins to send tensors to the next rank, and to receive the last one's; the Works."""
    me, size = group.rank(), group.size()
    ops = [messages.P2POp(messages.isend, x, group=group, group_peer=(me + 1) % size, tag=k)
           for k, x in enumerate(tensors)]
    ops += [messages.P2POp(messages.irecv, x, group=group, group_peer=(me - 1) % size, tag=k)
            for k, x in enumerate(places)]
    return messages.batch_isend_irecv(ops)


ROTATIONS = {"allgather": _ByGathering, "alltoall": _ByMessages}


# --- attention --------------------------------------------------------------------------------------------------------

def _wide(x):
    return x.float() if x.dtype in _FUSED else x.double()


def _like_query(x, query):
    """Keys or values with the query's leading dimensions, in the dtype of the computation."""
    return _wide(x).expand(*query.shape[:-2], *x.shape[-2:])


class RingAttention(Function):
    """softmax(scale query key' + mask) value, of whose rows and keys each rank of a group has a part."""

    @staticmethod
    def forward(ctx, query, key, value, is_causal, scale, group, balanced, rotation):
        wide, rank, size = _wide(query), group.rank(), group.size()
        going, pair = rotation([key, value], group), (key, value)
        out = lse = None
        for step in range(size):
            if step:
                pair = going.next()
            seen = _seen(rank, (rank - step) % size, is_causal, balanced, query.shape[-2], key.shape[-2])
            if seen is None:
                continue
            rows, columns, causal = seen
            found, its = _block(_rows(wide, rows), *(_rows(_like_query(x, query), columns) for x in pair), causal,
                                scale)
            if out is None:
                out, lse = found, its
            else:
                _join(_rows(out, rows), lse[..., rows], found, its)
        result = out.to(query.dtype)
        ctx.save_for_backward(query, key, value, out, lse)
        ctx.rest = is_causal, scale, group, balanced, rotation
        return result

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        query, key, value, out, lse = ctx.saved_tensors
        is_causal, scale, group, balanced, rotation = ctx.rest
        wide, grad, rank, size = _wide(query), _wide(grad), group.rank(), group.size()
        going, pair = rotation([key, value], group), (key, value)
        own, sums = flambeau.zeros_like(wide), [_wide(flambeau.zeros_like(x)) for x in pair]
        for step in range(size):
            if step:
                pair, sums = going.next(), _passed_on(sums, group)
            seen = _seen(rank, (rank - step) % size, is_causal, balanced, query.shape[-2], key.shape[-2])
            if seen is None:
                continue
            rows, columns, causal = seen
            found = _block_backward(*(_rows(x, rows) for x in (grad, wide)),
                                    *(_rows(_like_query(x, query), columns) for x in pair), _rows(out, rows),
                                    lse[..., rows], causal, scale)
            _rows(own, rows).add_(found[0])
            for total, part in zip(sums, found[1:]):
                place = _rows(total, columns)
                place.add_(part.sum_to_size(place.shape))
        sums = _passed_on(sums, group)  # each is with its owner's neighbour
        return (own.to(query.dtype), sums[0].to(key.dtype), sums[1].to(value.dtype), None, None, None, None, None)


def _passed_on(sums, group):
    """The sums of the rank before, for ours."""
    if group.size() == 1:
        return sums
    found = [flambeau.empty_like(x) for x in sums]
    for work in _round(sums, found, group):
        work.wait()
    return found


def _join(out, lse, more, its):
    """Attention to some keys, in place, becomes attention to these and to others."""
    total = flambeau.logaddexp(lse, its)
    out.mul_((lse - total).exp().unsqueeze(-1)).add_(more * (its - total).exp().unsqueeze(-1))
    lse.copy_(total)
