"""The multi-head attention of nn.MultiheadAttention as a function of its weights   (Vaswani et al. 2017)."""

import math
import warnings

from .. import bool as bool_dtype
from .. import cat
from ..ops.kinds import OPS

_linear, _softmax, _dropout, _pad = OPS["linear"], OPS["softmax"], OPS["dropout"], OPS["pad"]
_attention = OPS["scaled_dot_product_attention"]


def multi_head_attention_forward(
    query, key, value, embed_dim_to_check, num_heads, in_proj_weight, in_proj_bias, bias_k, bias_v, add_zero_attn,
    dropout_p, out_proj_weight, out_proj_bias, training=True, key_padding_mask=None, need_weights=True, attn_mask=None,
    use_separate_proj_weight=False, q_proj_weight=None, k_proj_weight=None, v_proj_weight=None, static_k=None,
    static_v=None, average_attn_weights=True, is_causal=False,
):  # fmt: skip
    """(output, weights) for query [L, N, E] and key, value [S, N, E], or without N.

    The projections are packed in in_proj_weight [3 E, E], or apart with use_separate_proj_weight. bias_k, bias_v and
    add_zero_attn add one more key and value; static_k and static_v [N heads, S, head size] replace the projected ones.
    In masks True, or -inf, means "do not look". The weights [N, L, S] are averaged over the heads, [N, heads, L, S]
    if not average_attn_weights, and None if not need_weights.

    >>> import flambeau
    >>> m, x = flambeau.nn.MultiheadAttention(8, 2), flambeau.zeros(5, 3, 8)
    >>> out, weights = flambeau.nn.functional.multi_head_attention_forward(
    ...     x, x, x, 8, 2, m.in_proj_weight, m.in_proj_bias, None, None, False, 0.0, m.out_proj.weight, m.out_proj.bias)
    >>> out.shape, weights.shape
    (torch.Size([5, 3, 8]), torch.Size([3, 5, 5]))
    """
    single = _check(query, key, value, key_padding_mask, attn_mask, is_causal)
    size = query.shape[-1]
    if size != embed_dim_to_check:
        raise AssertionError(f"MultiheadAttention: queries have {size} features, expected "
                             f"embed_dim={embed_dim_to_check}")
    if size % num_heads:
        raise AssertionError(f"multi_head_attention_forward: {num_heads} heads cannot share {size} columns evenly")
    if (bias_k is None) != (bias_v is None):
        raise AssertionError("bias_k and bias_v must both be given, or neither")
    if use_separate_proj_weight:
        if key.shape[:-1] != value.shape[:-1]:
            raise AssertionError(f"multi_head_attention_forward: key {list(key.shape)} and value "
                                 f"{list(value.shape)} differ in length or batch")
        weights = q_proj_weight, k_proj_weight, v_proj_weight
    elif key.shape != value.shape:
        raise AssertionError(f"MultiheadAttention: key {list(key.shape)} and value {list(value.shape)} must have one "
                             "shape")
    else:
        weights = in_proj_weight
    same = query is key is value
    query, key, value = (t.unsqueeze(0) if single else t.transpose(0, 1) for t in (query, key, value))
    if single and key_padding_mask is not None:
        key_padding_mask = key_padding_mask.unsqueeze(0)
    q, k, v = _projected(query, key, value, weights, in_proj_bias, same)
    batch, steps, _ = q.shape
    hinted = is_causal and key_padding_mask is bias_k is None and not need_weights and not add_zero_attn
    # the hint promises that the mask says no more than it
    mask = None if hinted else _mask(attn_mask, key_padding_mask, batch, num_heads, steps, k.shape[1], q.dtype, single)
    if bias_k is not None:
        if static_k is not None or static_v is not None:
            raise AssertionError("MultiheadAttention: static_k and static_v cannot be used with bias_k and bias_v")
        k, v = (cat([t, b.expand(batch, 1, -1)], 1) for t, b in ((k, bias_k), (v, bias_v)))
        mask = _one_more(mask)
    q, k, v = (t.reshape(batch, t.shape[1], num_heads, size // num_heads).transpose(1, 2) for t in (q, k, v))
    k, v = _static(static_k, k), _static(static_v, v)
    if add_zero_attn:
        k, v = (cat([t, t.new_zeros((batch, num_heads, 1, t.shape[-1]))], 2) for t in (k, v))
        mask = _one_more(mask)
    dropout_p = dropout_p if training else 0.0
    seen = None
    if need_weights:
        scores = (q * math.sqrt(1.0 / q.shape[-1])) @ k.transpose(-2, -1)
        seen = _softmax(scores if mask is None else scores + mask, -1)
        seen = _dropout(seen, dropout_p, True) if dropout_p else seen
        out = seen @ v
        seen = seen.mean(1) if average_attn_weights else seen
    else:
        out = _attention(q, k, v, mask, dropout_p, hinted)
    # rows step by step: dropout after this layer draws in the order of memory
    out = _linear(out.permute(2, 0, 1, 3).reshape(steps * batch, size), out_proj_weight, out_proj_bias)
    out = out.reshape(steps, batch, out.shape[-1])
    if single:
        return out.squeeze(1), (None if seen is None else seen.squeeze(0))
    return out, seen


def _check(query, key, value, key_padding_mask, attn_mask, is_causal):
    if query.dim() not in (2, 3) or key.dim() != query.dim() or value.dim() != query.dim():
        raise AssertionError(
            "MultiheadAttention: query, key and value must all have 3 dimensions, or 2 without a batch; got "
            f"{query.dim()}, {key.dim()} and {value.dim()}"
        )
    if is_causal and attn_mask is None:
        raise RuntimeError("MultiheadAttention: is_causal=True describes attn_mask; pass the causal mask as attn_mask "
                           "too")
    for name, mask in (("key_padding_mask", key_padding_mask), ("attn_mask", attn_mask)):
        if mask is not None and mask.dtype != bool_dtype and not mask.is_floating_point():
            raise AssertionError(f"MultiheadAttention: {name} must be bool or floating point, got {mask.dtype}")
    return query.dim() == 2


def _projected(query, key, value, weights, bias, same):
    if not isinstance(weights, tuple):
        if same:
            return _linear(query, weights, bias).chunk(3, -1)
        weights = weights.chunk(3)
    biases = (None,) * 3 if bias is None else bias.chunk(3)
    return [_linear(t, w, b) for t, w, b in zip((query, key, value), weights, biases, strict=True)]


def _additive(mask, dtype):
    return mask.new_zeros(mask.shape, dtype=dtype).masked_fill(mask, -math.inf) if mask.dtype == bool_dtype else mask


def _none_or_dtype(input):
    """The dtype of a mask, None where there is none."""
    return None if input is None else input.dtype


def _canonical_mask(mask, mask_name, other_type, other_name, target_type, check_other=True):
    """A mask of bools as one of numbers (-inf where it is True); a mask of numbers as it is.

    `other_type`: the dtype of the mask `other_name` that this one is added to; with `check_other` a warning says where
    one of them is of bools and the other of numbers.
    """
    if mask is None:
        return None
    if mask.dtype != bool_dtype and not mask.is_floating_point():
        raise AssertionError(f"{mask_name} must be bool or floating point, got {mask.dtype}")
    if check_other and other_type is not None and mask.dtype != other_type:
        warnings.warn(f"{mask_name} has dtype {mask.dtype} and {other_name} {other_type}; give both the same dtype",
                      stacklevel=2)
    return _additive(mask, target_type)


def _mask(attn_mask, key_padding_mask, batch, heads, steps, keys, dtype, single):
    """One additive mask that broadcasts to [batch, heads, L, S], or None."""
    result = None
    if attn_mask is not None:
        expected = {2: (steps, keys), 3: (batch * heads, steps, keys)}.get(attn_mask.dim())
        if expected is None:
            raise AssertionError(f"MultiheadAttention: attn_mask must have 2 or 3 dimensions, got {attn_mask.dim()}")
        if tuple(attn_mask.shape) != expected:
            error = AssertionError if single and attn_mask.dim() == 3 else RuntimeError
            sizes = "(queries, keys)" if attn_mask.dim() == 2 else "(batch * heads, queries, keys)"
            raise error(f"MultiheadAttention: attn_mask must have shape {list(expected)} {sizes}, got "
                        f"{list(attn_mask.shape)}")
        result = _additive(attn_mask, dtype)
        result = result if attn_mask.dim() == 2 else result.reshape(batch, heads, steps, keys)
    if key_padding_mask is not None:
        if tuple(key_padding_mask.shape) != (batch, keys):
            raise AssertionError(
                f"key_padding_mask: expected shape {(batch, keys)}, got {tuple(key_padding_mask.shape)}"
            )
        padding = _additive(key_padding_mask, dtype).reshape(batch, 1, 1, -1)
        result = padding if result is None else result + padding
    return result


def _one_more(mask):
    return None if mask is None else _pad(mask, (0, 1))


def _static(given, projected):
    if given is None:
        return projected
    batch, heads, _, size = projected.shape
    if given.shape[0] != batch * heads or given.shape[2] != size:
        raise AssertionError(
            f"expecting static key and value [{batch * heads}, S, {size}], but got {list(given.shape)}"
        )
    return given.reshape(batch, heads, given.shape[1], size)
