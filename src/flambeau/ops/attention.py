"""Scaled dot-product attention: when the fused kernel serves, and what it computes in ordinary operators."""

import math

from .. import _C
from .kinds import OPS, composite, primitive
from .linalg import matmul

fused_attention_backward = primitive(
    "fused_attention_backward(Tensor grad, Tensor query, Tensor key, Tensor value, Tensor out, Tensor lse, "
    "bool is_causal, float scale) -> (Tensor grad_query, Tensor grad_key, Tensor grad_value)",
    d={("grad", "query", "key", "value"): lambda g0, g1, g2, grad, query, key, value, is_causal, scale:
       _double(g0, g1, g2, grad, query, key, value, is_causal, scale)},
    namespace=None, doc="The gradients of fused_attention.")

fused_attention = primitive(
    "fused_attention(Tensor query, Tensor key, Tensor value, bool is_causal, float scale) -> (Tensor out, Tensor lse)",
    d={("query", "key", "value"): lambda g0, query, key, value, result0, result1, is_causal, scale:
       fused_attention_backward(g0, query, key, value, result0, result1, is_causal, scale)},
    namespace=None, doc="Attention block by block, without storing the scores; lse is no differentiable result.")


def _causal(n_queries, n_keys, device):
    rows = OPS["arange"](n_queries, device=device).unsqueeze(-1)
    return OPS["arange"](n_keys, device=device) <= rows


def _double(a, b, c, g, q, k, v, is_causal, s):
    """With Z = s q k', P = softmax(Z), T = g v', D = P (T - rowsum(P T)), the gradients are s D k, s D' q, P' g; this
    is the gradient of their inner product with (a, b, c)."""
    z = matmul(q, k.mT) * s
    if is_causal:
        z = z.masked_fill(_causal(z.shape[-2], z.shape[-1], z.device).logical_not(), -math.inf)
    p = z.softmax(-1)
    t = matmul(g, v.mT)
    centred = t - (p * t).sum(-1, keepdim=True)
    d = p * centred
    zero = OPS["zeros_like"]
    a, b, c = (zero(x) if y is None else y for x, y in ((q, a), (k, b), (v, c)))
    to_d = (matmul(a, k.mT) + matmul(q, b.mT)) * s
    inner = (p * to_d).sum(-1, keepdim=True)
    to_t = p * (to_d - inner)
    to_p = matmul(g, c.mT) + to_d * centred - t * inner
    to_z = p * (to_p - (p * to_p).sum(-1, keepdim=True)) * s
    return (matmul(p, c) + matmul(to_t, v), matmul(to_z, k) + matmul(d, b) * s,
            matmul(to_z.mT, q) + matmul(d.mT, a) * s, matmul(to_t.mT, g))


_FUSED = (_C.float32, _C.float16, _C.bfloat16)
#: the ways that may be taken, in the order in which they are tried; nn.attention.sdpa_kernel sets it while it lasts
allowed_backends = ("FLASH_ATTENTION", "MATH")


def _by_parts(query, key, value, mask, dropout_p, is_causal, scale):
    scores = matmul(query * math.sqrt(scale), key.transpose(-2, -1) * math.sqrt(scale)) if scale > 0 else (
        matmul(query, key.transpose(-2, -1)) * scale)
    if is_causal:
        mask = _causal(query.shape[-2], key.shape[-2], query.device)
    if mask is not None:
        if mask.dtype == _C.bool:
            scores = scores.masked_fill(mask.logical_not(), -math.inf)
        else:
            scores = scores + mask
    weights = scores.softmax(-1)
    if mask is not None:  # a query that may see nothing gets zero, not 0 / 0
        blind = (scores == -math.inf).all(-1, True)
        weights = weights.masked_fill(blind, 0.0)
    if dropout_p > 0:
        weights = OPS["dropout"](weights, dropout_p, True)
    return matmul(weights, value)


@composite("scaled_dot_product_attention(Tensor query, Tensor key, Tensor value, Tensor? attn_mask=None, "
           "float dropout_p=0.0, bool is_causal=False, *, float? scale=None, bool enable_gqa=False) -> Tensor",
           namespace="nn.functional", samples="scaled_dot_product_attention")
def scaled_dot_product_attention(query, key, value, attn_mask, dropout_p, is_causal, *, scale, enable_gqa):
    """softmax(scale query key' + mask) value (Vaswani et al. 2017).

    query is [..., L, E], key [..., S, E], value [..., S, Ev]. attn_mask is bool (True: may be seen) or is added to the
    scores; is_causal lets query i see keys 0 to i. scale is 1 / sqrt(E) unless given. enable_gqa repeats the heads
    (dimension -3) of key and value.

    >>> import flambeau
    >>> q, kv = flambeau.zeros(1, 2, 4), flambeau.arange(3.0).reshape(1, 3, 1)
    >>> flambeau.nn.functional.scaled_dot_product_attention(q, flambeau.zeros(1, 3, 4), kv)
    tensor([[[1.],
             [1.]]])
    """
    name = "scaled_dot_product_attention"
    if min(query.ndim, key.ndim, value.ndim) < 2:
        raise RuntimeError(f"{name}: expected query, key and value of at least 2 dimensions, got {list(query.shape)}, "
                           f"{list(key.shape)} and {list(value.shape)}")
    if query.shape[-1] != key.shape[-1] or key.shape[-2] != value.shape[-2]:
        raise RuntimeError(f"{name}: query {list(query.shape)}, key {list(key.shape)} and value {list(value.shape)} do "
                           "not fit: query and key share the last size, key and value the one before")
    if not query.dtype == key.dtype == value.dtype:
        raise RuntimeError(f"{name}: expected query, key and value of one dtype, got {query.dtype}, {key.dtype} and "
                           f"{value.dtype}")
    if is_causal and attn_mask is not None:
        raise RuntimeError(f"{name}: Explicit attn_mask should not be set when is_causal=True")
    if not 0.0 <= dropout_p <= 1.0:
        raise RuntimeError(f"{name}: dropout probability has to be between 0 and 1, but got {dropout_p}")
    if enable_gqa:
        key, value = (_repeated(t, query, name) for t in (key, value))
    if scale is None:
        scale = 1.0 / math.sqrt(query.shape[-1]) if query.shape[-1] else 1.0
    fusible = (attn_mask is None and dropout_p == 0.0 and query.dtype in _FUSED
               and query.shape[:-2] == key.shape[:-2] == value.shape[:-2])
    for backend in allowed_backends:
        if backend == "FLASH_ATTENTION" and fusible:
            return fused_attention(query, key, value, is_causal, scale)[0]
        if backend == "MATH":
            return _by_parts(query, key, value, attn_mask, dropout_p, is_causal, scale)
    raise RuntimeError(f"{name}: No viable backend was found: only {', '.join(allowed_backends) or 'none'} may be "
                       "used, and the fused kernel takes no mask, dropout or float64 (see nn.attention.sdpa_kernel)")


def _repeated(t, query, name):
    if t.ndim < 3 or query.ndim < 3 or t.shape[-3] == 0 or query.shape[-3] % t.shape[-3]:
        raise RuntimeError(f"{name}: enable_gqa needs the query's heads to be a multiple of those of key and value, "
                           f"got {list(query.shape)} and {list(t.shape)}")
    return t.repeat_interleave(query.shape[-3] // t.shape[-3], -3)
