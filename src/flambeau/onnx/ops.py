"""onnx.ops: operators of ONNX in a program of ours. What `symbolic` names is written as it is named; attention and
rotary embedding are computed, as the standard says, wherever they run."""

import math

import flambeau

from .._shown import shown
from ..fx.experimental.proxy_tensor import disable_proxy_modes_tracing, get_proxy_mode
from ._dtypes import DTYPES


def symbolic_call(domain_op, inputs, attrs, dtypes, shapes, version):
    """What the trace keeps of a call of `symbolic`; outside of one its results are zeros."""
    return [flambeau.zeros(tuple(shape), dtype=dtype) for dtype, shape in zip(dtypes, shapes, strict=True)]


def symbolic_multi_out(domain_op, /, inputs, attrs=None, *, dtypes, shapes, version=None, metadata_props=None):
    """An operator of ONNX with several results: as `symbolic`, with a dtype and a shape for each.

    >>> import flambeau
    >>> flambeau.onnx.ops.symbolic_multi_out("shop::Halves", (flambeau.ones(4),), dtypes=[flambeau.float32] * 2,
    ...                                      shapes=[(2,), (2,)])
    [tensor([0., 0.]), tensor([0., 0.])]
    """
    if metadata_props:
        raise NotImplementedError("onnx.ops.symbolic: metadata_props is not available; write them into model_proto")
    if not isinstance(domain_op, str) or domain_op.count("::") > 1:
        raise ValueError(f"onnx.ops.symbolic: expected 'domain::Name', or the name of a standard operator, got "
                         f"{shown(domain_op)}")
    if len(dtypes) != len(shapes):
        raise ValueError(f"onnx.ops.symbolic: a dtype and a shape for each result, got {len(dtypes)} and {len(shapes)}")
    attrs = dict(attrs or {})
    for name, value in attrs.items():
        items = value if isinstance(value, (tuple, list)) else [value]
        if not all(isinstance(v, (int, float, str)) for v in items):
            raise TypeError(f"onnx.ops.symbolic: attribute {name} must be a number, a text or a list of them, got "
                            f"{shown(value)}")
    dtypes = tuple(DTYPES[int(d)] if isinstance(d, int) else d for d in dtypes)
    given = domain_op, tuple(inputs), attrs, dtypes, tuple(map(tuple, shapes)), version
    mode = get_proxy_mode()
    if mode is None or not mode.enable_tracing:
        return symbolic_call(*given)

    def run(*args):
        with disable_proxy_modes_tracing():
            return symbolic_call(*args)

    return mode.record(symbolic_call, run, given, {})


def symbolic(domain_op, /, inputs, attrs=None, *, dtype, shape, version=None, metadata_props=None):
    """An operator of ONNX by its name, with one result: an export writes it, anything else gives zeros.

    domain_op   "domain::Name"; a name alone is one of the standard
    inputs      tensors, and None for those that are left out
    attrs       {name: number, text or list of them}
    dtype, shape    of the result: a dtype or the number that ONNX knows it by; ints and open sizes
    version     of the domain

    >>> import flambeau
    >>> def twice(x):
    ...     return flambeau.onnx.ops.symbolic("shop::Twice", (x,), {"axis": 1}, dtype=x.dtype, shape=x.shape, version=1)
    >>> twice(flambeau.ones(2))
    tensor([0., 0.])
    >>> flambeau.onnx.export(twice, (flambeau.ones(2),))
    ONNXProgram(opset 20, 1 nodes: 1 Twice)
    """
    return symbolic_multi_out(domain_op, inputs, attrs, dtypes=(dtype,), shapes=(shape,), version=version,
                              metadata_props=metadata_props)[0]


# ---- operators of the standard, as functions -------------------------------------------------------------------------

def rotary_embedding(X, cos_cache, sin_cache, position_ids=None, *, interleaved=False, num_heads=0,
                     rotary_embedding_dim=0):
    """RotaryEmbedding of ONNX: pairs of features turned by an angle for each position   (Su et al. 2021).

    X is [batch, heads, length, size], or [batch, length, heads size] with `num_heads`. The caches are
    [positions, half] with position_ids [batch, length], or [batch, length, half] without. The pairs are the two halves
    of the first rotary_embedding_dim features (0: of all), or neighbours if `interleaved`.

    >>> import flambeau
    >>> x = flambeau.tensor([[[[1.0, 2.0]]]])
    >>> flambeau.onnx.ops.rotary_embedding(x, flambeau.tensor([[[0.0]]]), flambeau.tensor([[[1.0]]]))
    tensor([[[[-2.,  1.]]]])
    """
    if X.dim() == 3 and not num_heads:
        raise ValueError("rotary_embedding: X of 3 dimensions needs num_heads")
    flat = X.dim() == 3
    x = X.unflatten(-1, (num_heads, -1)) if flat else X.transpose(1, 2)  # [batch, length, heads, size]
    width = rotary_embedding_dim or x.shape[-1]
    if position_ids is not None:
        cos_cache, sin_cache = cos_cache[position_ids], sin_cache[position_ids]
    cos, sin = (c[..., :width // 2].unsqueeze(2) for c in (cos_cache, sin_cache))
    turned, rest = x[..., :width], x[..., width:]
    first, second = (turned[..., 0::2], turned[..., 1::2]) if interleaved else turned.chunk(2, -1)
    real, imag = cos * first - sin * second, sin * first + cos * second
    made = flambeau.stack((real, imag), -1).flatten(-2) if interleaved else flambeau.cat((real, imag), -1)
    made = flambeau.cat((made, rest), -1) if rest.shape[-1] else made
    return made.flatten(-2) if flat else made.transpose(1, 2)


def attention(Q, K, V, attn_mask=None, past_key=None, past_value=None, *, is_causal=False, kv_num_heads=0,
              q_num_heads=0, qk_matmul_output_mode=0, scale=None, softcap=0.0, softmax_precision=None):
    """Attention of ONNX: (result, keys and values with those of the past in front, scores).

    Q, K and V are [batch, heads, length, size], or [batch, length, heads size] with q_num_heads and kv_num_heads; keys
    and values may have fewer heads. qk_matmul_output_mode says which scores come back: 0 those of the product, 1 with
    the mask, 2 after softcap, 3 after softmax. softmax_precision is the number by which ONNX knows a dtype.

    >>> import flambeau
    >>> x = flambeau.ones(1, 2, 3, 4)
    >>> [tuple(t.shape) for t in flambeau.onnx.ops.attention(x, x, x)]
    [(1, 2, 3, 4), (1, 2, 3, 4), (1, 2, 3, 4), (1, 2, 3, 3)]
    """
    flat = Q.dim() == 3
    if flat and not (q_num_heads and kv_num_heads):
        raise ValueError("attention: inputs of 3 dimensions need q_num_heads and kv_num_heads")
    if qk_matmul_output_mode not in (0, 1, 2, 3):
        raise ValueError(f"attention: qk_matmul_output_mode must be 0 to 3, got {shown(qk_matmul_output_mode)}")
    q, k, v = (x.unflatten(-1, (n, -1)).transpose(1, 2) if flat else x
               for x, n in ((Q, q_num_heads), (K, kv_num_heads), (V, kv_num_heads)))
    k, v = (x if past is None else flambeau.cat((past, x), 2) for x, past in ((k, past_key), (v, past_value)))
    present = k, v
    if q.shape[1] != k.shape[1]:
        k, v = (x.repeat_interleave(q.shape[1] // x.shape[1], 1) for x in (k, v))
    scale = 1 / math.sqrt(q.shape[-1]) if scale is None else scale
    scores = [(q * math.sqrt(scale)) @ (k.mT * math.sqrt(scale))]
    scores.append(_masked(scores[0], attn_mask, is_causal))
    scores.append(softcap * (scores[1] / softcap).tanh() if softcap else scores[1])
    wide = scores[2] if softmax_precision is None else scores[2].to(DTYPES[softmax_precision])
    scores.append(wide.softmax(-1).to(q.dtype))
    result = scores[3] @ v
    return (result.transpose(1, 2).flatten(-2) if flat else result), *present, scores[qk_matmul_output_mode]


def _masked(scores, mask, is_causal):
    if is_causal:
        rows, columns = (flambeau.arange(n, device=scores.device) for n in scores.shape[-2:])
        scores = scores.masked_fill(columns > rows.unsqueeze(-1), -math.inf)
    if mask is None:
        return scores
    return scores.masked_fill(~mask, -math.inf) if mask.dtype is flambeau.bool else scores + mask
