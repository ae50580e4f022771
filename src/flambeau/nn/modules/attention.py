"""Multi-head attention."""

import math

from ... import bool as bool_dtype
from ... import cat, empty
from .. import functional as F
from .. import init
from ..parameter import Parameter
from .linear import Linear
from .module import Module


class NonDynamicallyQuantizableLinear(Linear):
    """The output projection of MultiheadAttention: Linear under the name that PyTorch shows."""


class MultiheadAttention(Module):
    """softmax(q kᵀ / sqrt(head size)) v in `num_heads` heads, with projections before and after (Vaswani et al. 2017).

    query [L, N, E], key and value [S, N, kdim / vdim] ([N, L, E] … if batch_first; N may be absent). Returns (output,
    weights averaged over the heads, or None without need_weights). In masks True, or -inf, means "do not look".

    >>> import flambeau
    >>> x = flambeau.zeros(5, 2, 8)
    >>> out, weights = flambeau.nn.MultiheadAttention(8, 2)(x, x, x)
    >>> out.shape, weights.shape
    (torch.Size([5, 2, 8]), torch.Size([2, 5, 5]))
    """

    def __init__(self, embed_dim, num_heads, dropout=0.0, bias=True, add_bias_kv=False, add_zero_attn=False, kdim=None,
                 vdim=None, batch_first=False, device=None, dtype=None):
        super().__init__()
        if embed_dim <= 0 or num_heads <= 0:
            raise ValueError(
                f"embed_dim and num_heads must be greater than 0, got embed_dim={embed_dim} and num_heads={num_heads} "
                "instead"
            )
        if embed_dim % num_heads != 0:
            raise AssertionError(f"embed_dim must be divisible by num_heads, got {embed_dim} and {num_heads}")
        self.embed_dim, self.num_heads, self.head_dim = embed_dim, num_heads, embed_dim // num_heads
        self.kdim, self.vdim = embed_dim if kdim is None else kdim, embed_dim if vdim is None else vdim
        self.dropout, self.batch_first, self.add_zero_attn = dropout, batch_first, add_zero_attn
        self._qkv_same_embed_dim = self.kdim == embed_dim and self.vdim == embed_dim
        made = {"device": device, "dtype": dtype}
        shapes = {
            "in_proj_weight": (3 * embed_dim, embed_dim) if self._qkv_same_embed_dim else None,
            "q_proj_weight": None if self._qkv_same_embed_dim else (embed_dim, embed_dim),
            "k_proj_weight": None if self._qkv_same_embed_dim else (embed_dim, self.kdim),
            "v_proj_weight": None if self._qkv_same_embed_dim else (embed_dim, self.vdim),
            "in_proj_bias": (3 * embed_dim,) if bias else None,
            "bias_k": (1, 1, embed_dim) if add_bias_kv else None,
            "bias_v": (1, 1, embed_dim) if add_bias_kv else None,
        }
        for name, shape in shapes.items():
            self.register_parameter(name, Parameter(empty(shape, **made)) if shape else None)
        self.out_proj = NonDynamicallyQuantizableLinear(embed_dim, embed_dim, bias, **made)
        self._reset_parameters()

    def _reset_parameters(self):
        for name in ("in_proj_weight", "q_proj_weight", "k_proj_weight", "v_proj_weight"):
            if getattr(self, name) is not None:
                init.xavier_uniform_(getattr(self, name))
        if self.in_proj_bias is not None:
            init.zeros_(self.in_proj_bias)
            init.zeros_(self.out_proj.bias)
        for bias in (self.bias_k, self.bias_v):
            if bias is not None:
                init.xavier_normal_(bias)

    def forward(self, query, key, value, key_padding_mask=None, need_weights=True, attn_mask=None,
                average_attn_weights=True, is_causal=False):
        single = query.dim() == 2
        self._check(query, key, value, key_padding_mask, attn_mask, is_causal)
        if single:
            query, key, value = (t.unsqueeze(0) for t in (query, key, value))
            key_padding_mask = None if key_padding_mask is None else key_padding_mask.unsqueeze(0)
        elif not self.batch_first:
            query, key, value = (t.transpose(0, 1) for t in (query, key, value))
        q, k, v = self._project(query, key, value)
        batch, steps, _ = q.shape
        mask = _combined(attn_mask, key_padding_mask, batch, self.num_heads, q.dtype)
        if self.bias_k is not None:
            k, v = (cat([t, b.expand(batch, 1, -1)], 1) for t, b in ((k, self.bias_k), (v, self.bias_v)))
            mask = _one_more(mask)
        if self.add_zero_attn:
            k, v = (cat([t, t.new_zeros((batch, 1, self.embed_dim))], 1) for t in (k, v))
            mask = _one_more(mask)
        q, k, v = (t.reshape(batch, -1, self.num_heads, self.head_dim).transpose(1, 2) for t in (q, k, v))
        dropout = self.dropout if self.training else 0.0
        weights = None
        if need_weights:
            scores = (q * math.sqrt(1.0 / self.head_dim)) @ k.transpose(-2, -1)
            weights = F.softmax(scores if mask is None else scores + mask, -1)
            weights = F.dropout(weights, dropout) if dropout else weights
            out = weights @ v
            weights = weights.mean(1) if average_attn_weights else weights
        else:
            out = F.scaled_dot_product_attention(q, k, v, mask, dropout)
        # rows step by step, whatever batch_first says: dropout after this layer draws in the order of memory
        out = self.out_proj(out.permute(2, 0, 1, 3).reshape(steps * batch, self.embed_dim))
        out = out.reshape(steps, batch, self.embed_dim)
        if single:
            return out.squeeze(1), (None if weights is None else weights.squeeze(0))
        return (out.transpose(0, 1) if self.batch_first else out), weights

    def _project(self, query, key, value):
        if self._qkv_same_embed_dim:
            if query is key and key is value:
                return F.linear(query, self.in_proj_weight, self.in_proj_bias).chunk(3, -1)
            weights = self.in_proj_weight.chunk(3)
        else:
            weights = self.q_proj_weight, self.k_proj_weight, self.v_proj_weight
        biases = (None,) * 3 if self.in_proj_bias is None else self.in_proj_bias.chunk(3)
        return [F.linear(t, w, b) for t, w, b in zip((query, key, value), weights, biases, strict=True)]

    def _check(self, query, key, value, key_padding_mask, attn_mask, is_causal):
        if query.dim() not in (2, 3) or key.dim() != query.dim() or value.dim() != query.dim():
            raise AssertionError(
                f"MultiheadAttention: query, key and value must all be 2-D (unbatched) or 3-D (batched), got "
                f"{query.dim()}-D, {key.dim()}-D and {value.dim()}-D"
            )
        for name, t, size in (("query", query, self.embed_dim), ("key", key, self.kdim), ("value", value, self.vdim)):
            if t.size(-1) != size:
                raise AssertionError(f"MultiheadAttention: expected {name} to have {size} features, got {t.size(-1)}")
        if is_causal and attn_mask is None:
            raise RuntimeError("Need attn_mask if specifying the is_causal hint.")
        for name, mask in (("key_padding_mask", key_padding_mask), ("attn_mask", attn_mask)):
            if mask is not None and mask.dtype != bool_dtype and not mask.is_floating_point():
                raise AssertionError(f"only bool and floating types of {name} are supported, got {mask.dtype}")


def _additive(mask, dtype):
    return mask.new_zeros(mask.shape, dtype=dtype).masked_fill(mask, -math.inf) if mask.dtype == bool_dtype else mask


def _combined(attn_mask, key_padding_mask, batch, heads, dtype):
    """One additive mask that broadcasts to [batch, heads, L, S], or None."""
    result = None
    if attn_mask is not None:
        if attn_mask.dim() not in (2, 3):
            raise RuntimeError(f"attn_mask's dimension {attn_mask.dim()} is not supported")
        result = _additive(attn_mask, dtype)
        result = result if attn_mask.dim() == 2 else result.reshape(batch, heads, *attn_mask.shape[1:])
    if key_padding_mask is not None:
        padding = _additive(key_padding_mask, dtype).reshape(batch, 1, 1, -1)
        result = padding if result is None else result + padding
    return result


def _one_more(mask):
    return None if mask is None else F.pad(mask, (0, 1))
