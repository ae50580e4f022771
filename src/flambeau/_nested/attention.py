"""Attention over each part: every sequence attends to itself alone, so the work is what the sequences need, not what
their padded forms would."""

from ..ops.kinds import OPS
from .rules import is_strided, rule
from .sequences import Jagged
from .tensor import is_nested, joined, make, parts_of


@rule("scaled_dot_product_attention")
def _attention(query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, **options):
    """query [B, heads, j, size] (or [B, j, size]), key and value likewise, with ragged sizes of their own."""
    tensors = query, key, value
    if not all(map(is_nested, tensors)):
        raise RuntimeError("scaled_dot_product_attention: query, key and value must all be nested tensors, or none")
    if len({x.dim() for x in tensors}) > 1 or query.dim() < 3:
        raise RuntimeError(f"scaled_dot_product_attention: expected tensors of equally many dimensions, 3 or 4, got "
                           f"{[x.dim() for x in tensors]}")
    masks = _masks(attn_mask, query._form.batch)
    if is_strided(query):
        return joined([_of_part(*row, dropout_p, is_causal, **options) for row in
                       zip(*map(parts_of, tensors), masks, strict=True)], query.layout)
    for x in tensors:
        if x._form.ragged != x.dim() - 2:
            raise RuntimeError(f"scaled_dot_product_attention: the ragged dimension must be the one before the last, "
                               f"got {list(x.shape)}; transpose first: x.transpose(1, 2)")
    if key._form.sequences is not value._form.sequences and key._form.sequences.lens != value._form.sequences.lens:
        raise RuntimeError("scaled_dot_product_attention: key and value have parts of different lengths")
    found = [_of_part(*row, dropout_p, is_causal, **options)
             for row in zip(parts_of(query), parts_of(key), parts_of(value), masks, strict=True)]
    return _with_rows_first(found, query._form)


def _masks(mask, batch):
    if mask is None:
        return [None] * batch
    if is_nested(mask):
        return parts_of(mask)
    if mask.dim() > 2 and mask.shape[0] == batch:
        return list(mask.unbind(0))
    raise RuntimeError("scaled_dot_product_attention: attn_mask of nested tensors must be a nested tensor too, with a "
                       "mask for each part; without one, each part attends to itself alone")


def _of_part(q, k, v, mask, dropout_p, is_causal, **options):
    """One sequence, as a batch of one: the kernel takes four dimensions."""
    if not q.shape[-2] or not k.shape[-2]:
        return q.new_zeros((*q.shape[:-1], v.shape[-1]))
    op = OPS["scaled_dot_product_attention"]
    if mask is not None and mask.shape[-2:] != (q.shape[-2], k.shape[-2]):
        mask = mask[..., :q.shape[-2], :k.shape[-2]]
    if q.dim() != 3:
        return op(q, k, v, mask, dropout_p, is_causal, **options)
    return op(q[None], k[None], v[None], mask, dropout_p, is_causal, **options)[0]


def _with_rows_first(found, form):
    """Joined with the sequence outermost in memory, as the inputs of layers that follow are."""
    sequences, dim = form.sequences.packed, form.ragged - 1
    if dim == 0:
        return make(Jagged(sequences, 1), OPS["cat"](found, 0))
    rows = OPS["cat"]([p.movedim(dim, 0) for p in found], 0)
    return make(Jagged(sequences, form.ragged), rows.movedim(0, dim))
