"""Multi-head attention."""

from importlib import import_module

from ... import empty
from ..._shown import shown
from .. import functional as F
from .. import init
from ..parameter import Parameter
from .linear import Linear
from .module import Module


def nested_attend():
    """The attention of nested tensors, loaded by the first of them."""
    return import_module("flambeau.nn.modules._nested_attention").attend


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
                f"MultiheadAttention: embed_dim and num_heads must be positive, got {shown(embed_dim)} and "
                f"{shown(num_heads)}"
            )
        if embed_dim % num_heads != 0:
            raise AssertionError(f"MultiheadAttention: embed_dim={shown(embed_dim)} cannot be divided evenly among "
                                 f"num_heads={shown(num_heads)}")
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
        if query.is_nested or key.is_nested or value.is_nested:
            return nested_attend()(self, query, key, value, key_padding_mask, need_weights, attn_mask,
                                   average_attn_weights, is_causal)
        self._check(query, key, value)
        turned = self.batch_first and query.dim() == 3
        if turned:
            if query is key is value:
                query = key = value = query.transpose(0, 1)
            else:
                query, key, value = (t.transpose(0, 1) for t in (query, key, value))
        out, weights = F.multi_head_attention_forward(
            query, key, value, self.embed_dim, self.num_heads, self.in_proj_weight, self.in_proj_bias, self.bias_k,
            self.bias_v, self.add_zero_attn, self.dropout, self.out_proj.weight, self.out_proj.bias, self.training,
            key_padding_mask, need_weights, attn_mask, not self._qkv_same_embed_dim, self.q_proj_weight,
            self.k_proj_weight, self.v_proj_weight, None, None, average_attn_weights, is_causal,
        )  # fmt: skip
        return (out.transpose(0, 1) if turned else out), weights

    def _check(self, query, key, value):
        for name, t, size in (("query", query, self.embed_dim), ("key", key, self.kdim), ("value", value, self.vdim)):
            if t.dim() in (2, 3) and t.size(-1) != size:
                raise AssertionError(f"MultiheadAttention: expected {name} to have {shown(size)} features, got "
                                     f"{t.size(-1)}")
