"""Whole layers of transformers as operators: PyTorch's programs call them where no gradient is asked for."""

import math

from ..nn import functional as F

_PADDING = 1  # a mask of batch entries by places; others are of places by places, or of all four dimensions


def attention(query, key, value, embed_dim, num_head, qkv_weight, qkv_bias, proj_weight, proj_bias, mask=None,
              need_weights=True, average_attn_weights=True, mask_type=None):
    """Attention of several heads over (batch, place, feature): the result, and the weights or None."""
    if query.shape[-1] != embed_dim:
        raise RuntimeError(f"_native_multi_head_attention: query has {query.shape[-1]} features, expected {embed_dim}")
    parts = zip((query, key, value), qkv_weight.chunk(3), qkv_bias.chunk(3), strict=True)
    q, k, v = (F.linear(x, w, b).unflatten(-1, (num_head, -1)).transpose(1, 2) for x, w, b in parts)
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
    if mask is not None:
        mask = mask.bool()
        is_padding = mask_type == _PADDING or (mask_type is None and mask.shape != scores.shape[-2:])
        scores = scores.masked_fill(mask[:, None, None] if is_padding and mask.dim() == 2 else mask, -math.inf)
    weights = scores.softmax(-1)
    result = F.linear((weights @ v).transpose(1, 2).flatten(2), proj_weight, proj_bias)
    return result, (weights.mean(1) if average_attn_weights else weights) if need_weights else None


def encoder_layer(src, embed_dim, num_heads, qkv_weight, qkv_bias, proj_weight, proj_bias, use_gelu, norm_first, eps,
                  norm_weight_1, norm_bias_1, norm_weight_2, norm_bias_2, ffn_weight_1, ffn_bias_1, ffn_weight_2,
                  ffn_bias_2, mask=None, mask_type=None):
    """Attention and two linear layers, each with what came before added, and with its norm before or after."""
    def attended(x):
        return attention(x, x, x, embed_dim, num_heads, qkv_weight, qkv_bias, proj_weight, proj_bias, mask, False, True,
                         mask_type)[0]

    def fed(x):
        inner = F.linear(x, ffn_weight_1, ffn_bias_1)
        return F.linear(F.gelu(inner) if use_gelu else F.relu(inner), ffn_weight_2, ffn_bias_2)

    def first(x):
        return F.layer_norm(x, (embed_dim,), norm_weight_1, norm_bias_1, eps)

    def second(x):
        return F.layer_norm(x, (embed_dim,), norm_weight_2, norm_bias_2, eps)

    if norm_first:
        x = src + attended(first(src))
        return x + fed(second(x))
    x = first(src + attended(src))
    return second(x + fed(x))
