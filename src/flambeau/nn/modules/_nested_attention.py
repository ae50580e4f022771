"""Multi-head attention of nested tensors: each sequence attends to itself (or to its key) alone, without padding."""

from ... import nested, stack
from .. import functional as F


def attend(module, query, key, value, key_padding_mask, need_weights, attn_mask, average_attn_weights, is_causal):
    """(output, weights padded to the longest sequences or None) of a MultiheadAttention."""
    if key_padding_mask is not None:
        raise AssertionError("MultiheadAttention: a nested tensor has no padding that key_padding_mask could hide; "
                             "leave it out")
    if not module.batch_first:
        raise AssertionError("MultiheadAttention: nested tensors are batches first; make the module with "
                             "batch_first=True")
    if module.bias_k is not None or module.add_zero_attn:
        raise AssertionError("MultiheadAttention: add_bias_kv and add_zero_attn are not available for nested tensors; "
                             "compute on x.to_padded_tensor(0) with a key_padding_mask")
    q, k, v = (_in_heads(x, module.num_heads) for x in _projected(module, query, key, value))
    dropout = module.dropout if module.training else 0.0
    if need_weights:
        rows, weights = _weighed(q, k, v, attn_mask, dropout, average_attn_weights, is_causal and attn_mask is None)
    else:
        rows = F.scaled_dot_product_attention(q, k, v, attn_mask, dropout, is_causal and attn_mask is None)
        weights = None
    return module.out_proj(rows.transpose(1, 2).flatten(2)), weights


def _projected(module, query, key, value):
    if not module._qkv_same_embed_dim:
        bias = [None] * 3 if module.in_proj_bias is None else module.in_proj_bias.chunk(3)
        weights = module.q_proj_weight, module.k_proj_weight, module.v_proj_weight
        return [F.linear(x, w, b) for x, w, b in zip((query, key, value), weights, bias, strict=True)]
    if query is key is value:
        return F.linear(query, module.in_proj_weight, module.in_proj_bias).chunk(3, -1)
    bias = [None] * 3 if module.in_proj_bias is None else module.in_proj_bias.chunk(3)
    weights = module.in_proj_weight.chunk(3)
    return [F.linear(x, w, b) for x, w, b in zip((query, key, value), weights, bias, strict=True)]


def _in_heads(x, heads):
    """[B, j, E] as [B, heads, j, E / heads]."""
    return x.unflatten(-1, [heads, -1]).transpose(1, 2)


def _weighed(q, k, v, mask, dropout, average, causal):
    """The same with the weights, sequence by sequence."""
    rows, weights = [], []
    for a, b, c in zip(q.unbind(), k.unbind(), v.unbind(), strict=True):
        scores = a @ b.transpose(-2, -1) / a.shape[-1] ** 0.5
        if causal:
            scores = scores.masked_fill(scores.new_ones(scores.shape[-2:]).triu(1) != 0, float("-inf"))
        if mask is not None:
            here = mask[..., :scores.shape[-2], :scores.shape[-1]]
            scores = scores.masked_fill(here, float("-inf")) if not here.is_floating_point() else scores + here
        weight = F.dropout(scores.softmax(-1), dropout, dropout > 0)
        rows.append(weight @ c)
        weights.append(weight.mean(0) if average else weight)
    longest = [max(w.shape[d] for w in weights) for d in (-2, -1)]
    padded = [F.pad(w, (0, longest[1] - w.shape[-1], 0, longest[0] - w.shape[-2])) for w in weights]
    return nested.as_nested_tensor(rows, layout=q.layout), stack(padded)
