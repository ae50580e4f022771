"""Transformer: encoder and decoder layers, stacks of them, and the whole   (Vaswani et al. 2017)."""

import copy
import math

from ... import bool as bool_dtype
from ... import full, is_autocast_enabled, is_grad_enabled, nested
from ..._graph.inside import is_scripting
from ..._shown import shown
from .. import functional as F
from .. import init
from .attention import MultiheadAttention
from .container import ModuleList
from .dropout import Dropout
from .linear import Linear
from .module import Module
from .normalization import LayerNorm


def _get_activation_fn(activation):
    if not isinstance(activation, str):
        return activation
    if activation not in ("relu", "gelu"):
        raise RuntimeError(f"Transformer: activation must be 'relu', 'gelu' or a function, got {shown(activation)}")
    return getattr(F, activation)


class _Layer(Module):
    """Feed-forward part, norms and dropouts of encoder and decoder layers."""

    def _build(self, parts, d_model, dim_feedforward, dropout, layer_norm_eps, norm_first, bias, activation, made):
        self.linear1 = Linear(d_model, dim_feedforward, bias=bias, **made)
        self.dropout = Dropout(dropout)
        self.linear2 = Linear(dim_feedforward, d_model, bias=bias, **made)
        self.norm_first = norm_first
        for k in range(1, parts + 1):
            setattr(self, f"norm{k}", LayerNorm(d_model, eps=layer_norm_eps, bias=bias, **made))
        for k in range(1, parts + 1):
            setattr(self, f"dropout{k}", Dropout(dropout))
        self.activation = _get_activation_fn(activation)

    def _feed_forward(self, x):
        return self.linear2(self.dropout(self.activation(self.linear1(x))))

    def _attend(self, attention, x, memory, mask, padding, is_causal):
        return attention(
            x, memory, memory, attn_mask=mask, key_padding_mask=padding, is_causal=is_causal, need_weights=False
        )[0]

    def _walk(self, x, parts):
        """x <- x + part(norm(x)) with norm_first, otherwise x <- norm(x + part(x)), for each part."""
        for k, part in enumerate(parts, 1):
            norm, dropout = getattr(self, f"norm{k}"), getattr(self, f"dropout{k}")
            x = x + dropout(part(norm(x))) if self.norm_first else norm(x + dropout(part(x)))
        return x


class TransformerEncoderLayer(_Layer):
    """Self-attention and a feed-forward network, each with a residual connection and layer norm.

    >>> import flambeau
    >>> flambeau.nn.TransformerEncoderLayer(8, 2, 16)(flambeau.zeros(5, 1, 8)).shape
    torch.Size([5, 1, 8])
    """

    def __init__(self, d_model, nhead, dim_feedforward=2048, dropout=0.1, activation=F.relu, layer_norm_eps=1e-5,
                 batch_first=False, norm_first=False, bias=True, device=None, dtype=None):
        super().__init__()
        made = {"device": device, "dtype": dtype}
        self.self_attn = MultiheadAttention(d_model, nhead, dropout, bias, batch_first=batch_first, **made)
        self._build(2, d_model, dim_feedforward, dropout, layer_norm_eps, norm_first, bias, activation, made)

    def forward(self, src, src_mask=None, src_key_padding_mask=None, is_causal=False):
        return self._walk(src, (
            lambda x: self._attend(self.self_attn, x, x, src_mask, src_key_padding_mask, is_causal),
            self._feed_forward,
        ))  # fmt: skip


class TransformerDecoderLayer(_Layer):
    """Self-attention, attention to `memory` and a feed-forward network, each with a residual connection and layer norm.

    >>> import flambeau
    >>> layer = flambeau.nn.TransformerDecoderLayer(8, 2, 16)
    >>> layer(flambeau.zeros(5, 1, 8), flambeau.zeros(7, 1, 8)).shape
    torch.Size([5, 1, 8])
    """

    def __init__(self, d_model, nhead, dim_feedforward=2048, dropout=0.1, activation=F.relu, layer_norm_eps=1e-5,
                 batch_first=False, norm_first=False, bias=True, device=None, dtype=None):
        super().__init__()
        made = {"device": device, "dtype": dtype}
        self.self_attn = MultiheadAttention(d_model, nhead, dropout, bias, batch_first=batch_first, **made)
        self.multihead_attn = MultiheadAttention(d_model, nhead, dropout, bias, batch_first=batch_first, **made)
        self._build(3, d_model, dim_feedforward, dropout, layer_norm_eps, norm_first, bias, activation, made)

    def forward(self, tgt, memory, tgt_mask=None, memory_mask=None, tgt_key_padding_mask=None,
                memory_key_padding_mask=None, tgt_is_causal=False, memory_is_causal=False):
        return self._walk(tgt, (
            lambda x: self._attend(self.self_attn, x, x, tgt_mask, tgt_key_padding_mask, tgt_is_causal),
            lambda x: self._attend(
                self.multihead_attn, x, memory, memory_mask, memory_key_padding_mask, memory_is_causal
            ),
            self._feed_forward,
        ))  # fmt: skip


class _Stack(Module):
    def __init__(self, layer, num_layers, norm):
        super().__init__()
        self.layers = ModuleList([copy.deepcopy(layer) for _ in range(num_layers)])
        self.num_layers = num_layers
        self.norm = norm


class TransformerEncoder(_Stack):
    """`num_layers` copies of an encoder layer, and a norm after the last.

    In eval mode without gradients, sequences that src_key_padding_mask says are shorter are computed without their
    padding, as a nested tensor, and the result is zero there; enable_nested_tensor=False computes them whole.

    >>> import flambeau
    >>> layer = flambeau.nn.TransformerEncoderLayer(8, 2, 16)
    >>> flambeau.nn.TransformerEncoder(layer, 2)(flambeau.zeros(5, 1, 8)).shape
    torch.Size([5, 1, 8])
    """

    def __init__(self, encoder_layer, num_layers, norm=None, enable_nested_tensor=True, mask_check=True):
        super().__init__(encoder_layer, num_layers, norm)
        self.enable_nested_tensor, self.mask_check = enable_nested_tensor, mask_check

    def forward(self, src, mask=None, src_key_padding_mask=None, is_causal=None):
        causal = bool(is_causal)  # a hint: the mask decides
        if not is_scripting():
            hidden = self._left_out(src, mask, src_key_padding_mask)
            if hidden is not None:
                return self._without_padding(src, hidden, causal)
        for layer in self.layers:
            src = layer(src, src_mask=mask, src_key_padding_mask=src_key_padding_mask, is_causal=causal)
        return src if self.norm is None else self.norm(src)

    def _without_padding(self, src, hidden, causal):
        """The sequences without what is hidden, where the result is zero."""
        seen = ~hidden
        rows = nested.nested_tensor_from_jagged(src[seen], lengths=seen.sum(1))
        for layer in self.layers:
            rows = layer(rows, is_causal=causal)
        rows = rows.to_padded_tensor(0.0, src.size())
        return rows if self.norm is None else self.norm(rows)

    def _left_out(self, src, mask, padding):
        """The places that are hidden, where PyTorch too computes the sequences without them; else None."""
        if not self._may_be_nested(src, mask, padding):
            return None
        hidden = _hidden(padding)
        return hidden if not self.mask_check or _left_aligned(hidden) else None

    def _may_be_nested(self, src, mask, padding):
        first = self.layers[0] if len(self.layers) else None
        if not self.enable_nested_tensor or padding is None or mask is not None or src.dim() != 3:
            return False
        attention = getattr(first, "self_attn", None)
        if not isinstance(first, TransformerEncoderLayer) or first.training or src.is_nested \
                or not attention.batch_first or not attention._qkv_same_embed_dim or attention.in_proj_bias is None \
                or attention.num_heads % 2 or first.norm_first or first.activation not in (F.relu, F.gelu) \
                or first.norm1.eps != first.norm2.eps:
            return False
        if is_autocast_enabled() or (is_grad_enabled() and (src.requires_grad or any(
                p.requires_grad for p in self.parameters()))):
            return False
        return padding.dim() == 2


def _hidden(padding):
    """Which places a padding mask hides."""
    return padding if padding.dtype is bool_dtype else padding == float("-inf")


def _left_aligned(hidden):
    """Whether what is hidden comes last in each row, and not in all of it."""
    return not bool((hidden[:, :-1] & ~hidden[:, 1:]).any()) and not bool(hidden[:, 0].any())


class TransformerDecoder(_Stack):
    """`num_layers` copies of a decoder layer, and a norm after the last.

    >>> import flambeau
    >>> layer = flambeau.nn.TransformerDecoderLayer(8, 2, 16)
    >>> flambeau.nn.TransformerDecoder(layer, 2)(flambeau.zeros(5, 1, 8), flambeau.zeros(7, 1, 8)).shape
    torch.Size([5, 1, 8])
    """

    def __init__(self, decoder_layer, num_layers, norm=None):
        super().__init__(decoder_layer, num_layers, norm)

    def forward(self, tgt, memory, tgt_mask=None, memory_mask=None, tgt_key_padding_mask=None,
                memory_key_padding_mask=None, tgt_is_causal=None, memory_is_causal=False):
        for layer in self.layers:
            tgt = layer(
                tgt, memory, tgt_mask=tgt_mask, memory_mask=memory_mask, tgt_key_padding_mask=tgt_key_padding_mask,
                memory_key_padding_mask=memory_key_padding_mask, tgt_is_causal=bool(tgt_is_causal),
                memory_is_causal=memory_is_causal,
            )  # fmt: skip
        return tgt if self.norm is None else self.norm(tgt)


class Transformer(Module):
    """Encoder and decoder: src [S, N, E] and tgt [T, N, E] ([N, …, E] if batch_first) to [T, N, E].

    >>> import flambeau
    >>> model = flambeau.nn.Transformer(8, 2, 1, 1, 16)
    >>> model(flambeau.zeros(5, 1, 8), flambeau.zeros(3, 1, 8)).shape
    torch.Size([3, 1, 8])
    """

    def __init__(self, d_model=512, nhead=8, num_encoder_layers=6, num_decoder_layers=6, dim_feedforward=2048,
                 dropout=0.1, activation=F.relu, custom_encoder=None, custom_decoder=None, layer_norm_eps=1e-5,
                 batch_first=False, norm_first=False, bias=True, device=None, dtype=None):
        super().__init__()
        made = {"device": device, "dtype": dtype}
        settings = (d_model, nhead, dim_feedforward, dropout, activation, layer_norm_eps, batch_first, norm_first, bias)

        def stack(given, stack_type, layer_type, count):
            if given is not None:
                return given
            norm = LayerNorm(d_model, eps=layer_norm_eps, bias=bias, **made)
            return stack_type(layer_type(*settings, **made), count, norm)

        self.encoder = stack(custom_encoder, TransformerEncoder, TransformerEncoderLayer, num_encoder_layers)
        self.decoder = stack(custom_decoder, TransformerDecoder, TransformerDecoderLayer, num_decoder_layers)
        self.d_model, self.nhead, self.batch_first = d_model, nhead, batch_first
        self._reset_parameters()

    def _reset_parameters(self):
        for param in self.parameters():
            if param.dim() > 1:
                init.xavier_uniform_(param)

    def forward(self, src, tgt, src_mask=None, tgt_mask=None, memory_mask=None, src_key_padding_mask=None,
                tgt_key_padding_mask=None, memory_key_padding_mask=None, src_is_causal=None, tgt_is_causal=None,
                memory_is_causal=False):
        batch = 0 if self.batch_first else 1
        if src.dim() == 3 and tgt.dim() == 3 and src.size(batch) != tgt.size(batch):
            raise RuntimeError(f"Transformer: src has {src.size(batch)} batch entries and tgt has {tgt.size(batch)}")
        if src.size(-1) != self.d_model or tgt.size(-1) != self.d_model:
            raise RuntimeError(f"Transformer: src has {src.size(-1)} features and tgt {tgt.size(-1)}, expected "
                               f"d_model={self.d_model}")
        memory = self.encoder(src, mask=src_mask, src_key_padding_mask=src_key_padding_mask, is_causal=src_is_causal)
        return self.decoder(
            tgt, memory, tgt_mask=tgt_mask, memory_mask=memory_mask, tgt_key_padding_mask=tgt_key_padding_mask,
            memory_key_padding_mask=memory_key_padding_mask, tgt_is_causal=tgt_is_causal,
            memory_is_causal=memory_is_causal,
        )  # fmt: skip

    @staticmethod
    def generate_square_subsequent_mask(sz, device=None, dtype=None):
        """The additive mask [sz, sz] that hides later steps: -inf above the diagonal, 0 elsewhere."""
        return full((sz, sz), -math.inf, device=device, dtype=dtype).triu(1)
