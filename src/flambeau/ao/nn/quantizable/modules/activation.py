"""Multi-head attention written out in layers that can be observed and quantized one by one."""

import flambeau
from flambeau import nn

from ...quantized.modules.functional_modules import FloatFunctional

_PROJECTIONS = {"linear_Q": "q_proj_weight", "linear_K": "k_proj_weight", "linear_V": "v_proj_weight"}


def _observed_copy(bias, like):
    """A learned key or value as it is joined: codes beside codes, numbers beside numbers."""
    return bias if bias.is_quantized == like.is_quantized else bias.dequantize()


class MultiheadAttention(nn.MultiheadAttention):
    """nn.MultiheadAttention whose projections are layers of their own; the products of attention are in numbers.

    `prepare` puts it in the place of nn.MultiheadAttention, with the same numbers; `convert` makes it quantized.

    >>> import flambeau
    >>> x = flambeau.zeros(5, 2, 8)
    >>> out, weights = flambeau.ao.nn.quantizable.MultiheadAttention(8, 2)(x, x, x)
    >>> out.shape, weights.shape
    (torch.Size([5, 2, 8]), torch.Size([2, 5, 5]))
    """

    _FLOAT_MODULE = nn.MultiheadAttention

    def __init__(self, embed_dim, num_heads, dropout=0.0, bias=True, add_bias_kv=False, add_zero_attn=False, kdim=None,
                 vdim=None, batch_first=False, device=None, dtype=None):
        made = {"device": device, "dtype": dtype}
        super().__init__(embed_dim, num_heads, dropout, bias, add_bias_kv, add_zero_attn, kdim, vdim, batch_first,
                         **made)
        self.linear_Q = nn.Linear(self.embed_dim, self.embed_dim, bias=bias, **made)
        self.linear_K = nn.Linear(self.kdim, self.embed_dim, bias=bias, **made)
        self.linear_V = nn.Linear(self.vdim, self.embed_dim, bias=bias, **made)
        self.out_proj = nn.Linear(self.embed_dim, self.embed_dim, bias=bias, **made)
        self.q_scaling_product = FloatFunctional()
        stubs = flambeau.ao.quantization
        self.quant_attn_output, self.quant_attn_output_weights = stubs.QuantStub(), stubs.QuantStub()
        self.dequant_q, self.dequant_k, self.dequant_v = (stubs.DeQuantStub() for _ in range(3))

    def _get_name(self):
        return "QuantizableMultiheadAttention"

    @classmethod
    def from_float(cls, other):
        """The attention with the weights of an nn.MultiheadAttention that has a `qconfig`, and with observers."""
        if type(other) is not cls._FLOAT_MODULE:
            raise AssertionError("quantizable MultiheadAttention: made from a MultiheadAttention, got "
                                 f"{type(other).__name__}")
        if not hasattr(other, "qconfig"):
            raise AssertionError("quantizable MultiheadAttention: the float module has no qconfig")
        made = cls(other.embed_dim, other.num_heads, other.dropout, other.in_proj_bias is not None,
                   other.bias_k is not None, other.add_zero_attn, other.kdim, other.vdim, other.batch_first)
        made.bias_k, made.bias_v, made.qconfig = other.bias_k, other.bias_v, other.qconfig
        for name in ("in_proj_weight", "in_proj_bias", *_PROJECTIONS.values()):
            setattr(made, name, getattr(other, name))
        made.out_proj.weight, made.out_proj.bias = other.out_proj.weight, other.out_proj.bias
        made._take_projections(other)
        flow = flambeau.ao.quantization
        return (flow.prepare_qat(made.train(), inplace=True) if other.training
                else flow.prepare(made.eval(), inplace=True))

    def _take_projections(self, other):
        joined = other.in_proj_weight
        weights = [getattr(other, name) for name in _PROJECTIONS.values()] if joined is None else joined.chunk(3)
        biases = [None] * 3 if other.in_proj_bias is None else other.in_proj_bias.chunk(3)
        for name, weight, bias in zip(_PROJECTIONS, weights, biases, strict=True):
            layer = getattr(self, name)
            layer.weight = nn.Parameter(weight.detach(), weight.requires_grad)
            layer.bias = None if bias is None else nn.Parameter(bias.detach(), bias.requires_grad)

    @classmethod
    def from_observed(cls, other):
        """Refused: the quantized attention is made from this one."""
        raise NotImplementedError("quantizable MultiheadAttention: it is made with from_float; `convert` makes the "
                                  "quantized one")

    def dequantize(self):
        """The nn.MultiheadAttention with the weights of this module, which may be quantized."""
        parts = {name: _numbers(getattr(self, name)) for name in (*_PROJECTIONS, "out_proj")}
        bias = parts["out_proj"][1] is not None
        made = nn.MultiheadAttention(self.embed_dim, self.num_heads, self.dropout, bias, self.bias_k is not None,
                                     self.add_zero_attn, self.kdim, self.vdim, self.batch_first)
        weights = [parts[name][0] for name in _PROJECTIONS]
        if made.in_proj_weight is not None:
            made.in_proj_weight = nn.Parameter(flambeau.cat(weights))
        else:
            for name, weight in zip(_PROJECTIONS.values(), weights, strict=True):
                setattr(made, name, nn.Parameter(weight))
        if bias:
            made.in_proj_bias = nn.Parameter(flambeau.cat([parts[name][1] for name in _PROJECTIONS]))
            made.out_proj.bias = nn.Parameter(parts["out_proj"][1])
        made.out_proj.weight = nn.Parameter(parts["out_proj"][0])
        for name in ("bias_k", "bias_v"):
            if getattr(self, name) is not None:
                setattr(made, name, nn.Parameter(getattr(self, name).detach().dequantize()))
        return made

    def forward(self, query, key, value, key_padding_mask=None, need_weights=True, attn_mask=None,
                average_attn_weights=True, is_causal=False):
        """(output, weights or None): the arguments of nn.MultiheadAttention, for a batch; is_causal is refused."""
        if is_causal:
            raise AssertionError("quantizable MultiheadAttention: is_causal is not supported, give the causal mask as "
                                 "attn_mask")
        if query.dim() != 3:
            raise RuntimeError("quantizable MultiheadAttention: expected query, key and value of 3 dimensions, got "
                               f"shape {list(query.shape)}")
        if self.batch_first:
            query, key, value = (t.transpose(0, 1) for t in (query, key, value))
        q = self.q_scaling_product.mul_scalar(self.linear_Q(query), float(self.head_dim) ** -0.5)
        k, v = self._extended(self.linear_K(key), self.bias_k), self._extended(self.linear_V(value), self.bias_v)
        q, k, v = (stub(self._heads(t)) for stub, t in ((self.dequant_q, q), (self.dequant_k, k), (self.dequant_v, v)))
        scores = self._masked(flambeau.bmm(q, k.transpose(1, 2)), attn_mask, key_padding_mask)
        weights = nn.functional.dropout(scores.softmax(-1), self.dropout, self.training)
        out = flambeau.bmm(weights, v).transpose(0, 1).reshape(query.shape[0], query.shape[1], self.embed_dim)
        out = self.out_proj(self.quant_attn_output(out))
        weights = self.quant_attn_output_weights(weights)
        if not need_weights:
            weights = None
        else:
            weights = weights.view(query.shape[1], self.num_heads, *weights.shape[1:])
            weights = weights.mean(dim=1) if average_attn_weights else weights
        return (out.transpose(0, 1) if self.batch_first else out), weights

    def _extended(self, t, bias):
        """Keys or values [S, N, E] with the learned one, and one of zeros."""
        if bias is not None:
            t = flambeau.cat([t, _observed_copy(bias, t).repeat(1, t.shape[1], 1)])
        if self.add_zero_attn:
            zeros = flambeau.zeros(1, *t.shape[1:])
            if t.is_quantized:
                zeros = flambeau.quantize_per_tensor(zeros, t.q_scale(), t.q_zero_point(), t.dtype)
            t = flambeau.cat([t, zeros])
        return t

    def _heads(self, t):
        """[S, N, E] as [N * heads, S, E / heads]."""
        return t.contiguous().view(t.shape[0], t.shape[1] * self.num_heads, self.head_dim).transpose(0, 1)

    def _masked(self, scores, attn_mask, key_padding_mask):
        more = (self.bias_k is not None) + self.add_zero_attn
        if attn_mask is not None:
            mask = nn.functional.pad(attn_mask, (0, more))
            scores = _with(scores, mask.unsqueeze(0) if mask.dim() == 2 else mask)
        if key_padding_mask is not None:
            whole = scores.view(-1, self.num_heads, *scores.shape[1:])
            mask = nn.functional.pad(key_padding_mask, (0, more))[:, None, None, :]
            scores = _with(whole, mask).view(scores.shape)
        return scores


def _with(scores, mask):
    return scores.masked_fill(mask, float("-inf")) if mask.dtype is flambeau.bool else scores + mask


def _numbers(layer):
    """(weight, bias) of a linear layer in floats, quantized or not."""
    weight, bias = layer._weight_bias() if hasattr(layer, "_weight_bias") else (layer.weight, layer.bias)
    return weight.detach().dequantize(), None if bias is None else bias.detach()
