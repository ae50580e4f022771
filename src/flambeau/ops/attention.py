"""Scaled dot-product attention: when the fused kernel serves, and what it computes in ordinary operators."""

import itertools
import math

from .. import _C, _attention_ways
from .._shown import shown
from .kinds import OPS, composite, primitive
from .products import matmul

fused_attention_backward = primitive(
    "fused_attention_backward(Tensor grad, Tensor query, Tensor key, Tensor value, Tensor? mask, Tensor out, "
    "Tensor lse, bool is_causal, float scale, bool cudnn=False) -> "
    "(Tensor grad_query, Tensor grad_key, Tensor grad_value)",
    d={("grad", "query", "key", "value"): lambda g0, g1, g2, grad, query, key, value, mask, is_causal, scale:
       _double(g0, g1, g2, grad, query, key, value, mask, is_causal, scale)},
    namespace=None, doc="The gradients of fused_attention.")

fused_attention = primitive(
    "fused_attention(Tensor query, Tensor key, Tensor value, Tensor? mask, bool is_causal, float scale, "
    "bool cudnn=False) -> (Tensor out, Tensor lse)",
    d={("query", "key", "value"): lambda g0, query, key, value, mask, result0, result1, is_causal, scale, cudnn:
       fused_attention_backward(g0, query, key, value, mask, result0, result1, is_causal, scale, cudnn)},
    namespace=None, doc="Attention block by block, without storing the scores; the mask gets no gradient, and "
                        "lse is no differentiable result. `cudnn`: on CUDA that library may compute it.")


def _causal(n_queries, n_keys, device):
    rows = OPS["arange"](n_queries, device=device).unsqueeze(-1)
    return OPS["arange"](n_keys, device=device) <= rows


def _masked(scores, mask):
    if mask.dtype == _C.bool:
        return scores.masked_fill(mask.logical_not(), -math.inf)
    return scores + mask


def _weights(scores, mask):
    """The softmax of masked scores; a query that may see nothing gets zeros, not 0 / 0."""
    if mask is None:
        return scores.softmax(-1)
    scores = _masked(scores, mask)
    return scores.softmax(-1).masked_fill((scores == -math.inf).all(-1, True), 0.0)


def _double(a, b, c, g, q, k, v, mask, is_causal, s):
    """With Z = s q k', P = softmax(Z), T = g v', D = P (T - rowsum(P T)), the gradients are s D k, s D' q, P' g; this
    is the gradient of their inner product with (a, b, c)."""
    z = matmul(q, k.mT) * s
    p = _weights(z, _causal(z.shape[-2], z.shape[-1], z.device) if is_causal else mask)
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


#: computes attention of a sequence that several processes have parts of; context_parallel sets it while it lasts
over_ranks = None


def _by_parts(query, key, value, mask, dropout_p, is_causal, scale):
    if query.dtype in (_C.float16, _C.bfloat16):  # in float32, and rounded once, as the fused kernel does
        wide = [t.float() for t in (query, key, value)]
        mask = mask.float() if mask is not None and mask.is_floating_point() else mask
        return _by_parts(*wide, mask, dropout_p, is_causal, scale).to(query.dtype)
    scores = matmul(query * math.sqrt(scale), key.transpose(-2, -1) * math.sqrt(scale)) if scale > 0 else (
        matmul(query, key.transpose(-2, -1)) * scale)
    if is_causal:
        mask = _causal(query.shape[-2], key.shape[-2], query.device)
    weights = _weights(scores, mask)
    if dropout_p > 0:
        weights = OPS["dropout"](weights, dropout_p, True)
    return matmul(weights, value)


@composite("scaled_dot_product_attention(Tensor query, Tensor key, Tensor value, Tensor? attn_mask=None, "
           "float dropout_p=0.0, bool is_causal=False, *, float? scale=None, bool enable_gqa=False) -> Tensor",
           autocast="half", namespace="nn.functional", samples="scaled_dot_product_attention")
def scaled_dot_product_attention(query, key, value, attn_mask, dropout_p, is_causal, *, scale, enable_gqa):
    """softmax(scale query key' + mask) value (Vaswani et al. 2017).

    query is [..., L, E], key [..., S, E], value [..., S, Ev]. attn_mask is bool (True: may be seen) or is added to the
    scores; is_causal lets query i see keys 0 to i, of those that attn_mask lets it see. scale is 1 / sqrt(E) unless
    given. enable_gqa repeats the heads (dimension -3) of key and value.

    >>> import flambeau
    >>> q, kv = flambeau.zeros(1, 2, 4), flambeau.arange(3.0).reshape(1, 3, 1)
    >>> flambeau.nn.functional.scaled_dot_product_attention(q, flambeau.zeros(1, 3, 4), kv)
    tensor([[[1.],
             [1.]]])
    """
    name = "scaled_dot_product_attention"
    queries, keys, values = query.shape, key.shape, value.shape
    if len(queries) < 2 or len(keys) < 2 or len(values) < 2:
        raise RuntimeError(f"{name}: expected query, key and value of at least 2 dimensions, got {list(queries)}, "
                           f"{list(keys)} and {list(values)}")
    width = queries[-1]
    if width != keys[-1] or keys[-2] != values[-2]:
        raise RuntimeError(f"{name}: query {list(queries)}, key {list(keys)} and value {list(values)} do "
                           "not fit: query and key share the last size, key and value the one before")
    if not query.dtype is key.dtype is value.dtype:
        raise RuntimeError(f"{name}: expected query, key and value of one dtype, got {query.dtype}, {key.dtype} and "
                           f"{value.dtype}")
    if is_causal and attn_mask is not None:  # both count, as in PyTorch's fused kernel of the CPU
        seen = _causal(queries[-2], keys[-2], query.device)
        attn_mask = attn_mask & seen if attn_mask.dtype is _C.bool else attn_mask.masked_fill(~seen, -math.inf)
        is_causal = False
    if not 0.0 <= dropout_p <= 1.0:
        raise RuntimeError(f"{name}: dropout_p must be a probability between 0 and 1, got {shown(dropout_p)}")
    if scale is None:
        scale = 1.0 / math.sqrt(width) if width else 1.0
    heads, order = None, _order(query, key, value, attn_mask, dropout_p, enable_gqa)
    if enable_gqa:
        heads = queries[-3] if len(queries) > 2 else None
        query, key, value, attn_mask = _grouped(query, key, value, attn_mask, name)
    if over_ranks is not None:
        out = over_ranks(query, key, value, attn_mask, dropout_p, is_causal, scale)
        return out if heads is None else out.flatten(-4, -3)
    for backend in _attention_ways.allowed:
        fused = _attention_ways.fused(backend, query, key, value, attn_mask, dropout_p)
        if fused:
            if attn_mask is not None or enable_gqa or not queries == keys == values:
                query, key, value = _expanded(attn_mask, query, key, value)
            out = fused_attention(query, key, value, attn_mask, is_causal, scale, backend == "CUDNN_ATTENTION")[0]
        elif _attention_ways.by_parts(backend, query, attn_mask, dropout_p):
            out = _by_parts(query, key, value, attn_mask, dropout_p, is_causal, scale)
        else:
            continue
        if fused and heads is None:  # it lies as the query does
            return out if order is not None or query.is_cuda else out.contiguous()
        out = out if heads is None else out.flatten(-4, -3)
        return out if order is None else out.permute(order).contiguous().permute(_BACK[order])
    ways = ", ".join(_attention_ways.allowed) or "none"
    raise RuntimeError(f"{name}: No viable backend was found: only {ways} may be used; the fused kernel takes no "
                       "dropout and no mask that wants a gradient, and cuDNN only halves with heads of a multiple "
                       "of 8 columns (see nn.attention.sdpa_kernel)")


#: the orders in which three outer dimensions may lie, each with the one that undoes it
_BACK = {(*order, 3): (*map(order.index, range(3)), 3) for order in itertools.permutations(range(3))}


def _order(query, key, value, mask, dropout_p, enable_gqa):
    """The dimensions of the result from the outermost to the innermost in memory, or None where they are in order.

    It lies as the query does where PyTorch's fused kernel of the CPU computes it. `.transpose(1, 2).view(...)` then
    works, and so does dropout after it, which draws in the order of memory.
    """
    if query.is_contiguous() or query.ndim != 4 or dropout_p or query.is_cuda:
        return None
    sizes, keys, values, strides = query.shape, key.shape, value.shape, query.stride()
    if not (keys[:-1] == values[:-1] and sizes[-1] == keys[-1] == values[-1] and sizes[0] == keys[0]
            and (enable_gqa or sizes[1] == keys[1]) and sizes[2] and keys[2]
            and strides[3] == key.stride(3) == value.stride(3) == 1 and 0 not in strides
            and (mask is None or (mask.ndim in (2, 4) and not mask.requires_grad))
            and "FLASH_ATTENTION" in _attention_ways.allowed):
        return None
    if strides[0] >= strides[2] >= strides[1]:  # [batch, queries, heads, width], as a split projection lies
        return 0, 2, 1, 3
    return (*sorted(range(3), key=lambda d: -strides[d]), 3)


def _expanded(mask, *tensors):
    """The tensors with one shape of leading dimensions, which the mask's fit too."""
    shapes = [t.shape[:-2] for t in tensors]
    given = shapes if mask is None or mask.ndim < 3 else [*shapes, mask.shape[:-2]]
    if all(shape == shapes[0] for shape in given):
        return tensors
    rank = max(len(shape) for shape in given)
    columns = zip(*((1,) * (rank - len(shape)) + tuple(shape) for shape in given), strict=True)
    full = [next((n for n in column if n != 1), 1) for column in columns]
    return [t.expand(*full, *t.shape[-2:]) for t in tensors]


def _grouped(query, key, value, mask, name):
    """Heads as (heads of the keys, queries that share one): [..., Hk, R, L, E] and [..., Hk, 1, S, E]."""
    for t in (key, value):
        if t.ndim < 3 or query.ndim < 3 or t.shape[-3] == 0 or query.shape[-3] % t.shape[-3]:
            raise RuntimeError(f"{name}: with enable_gqa the heads of query, {list(query.shape)}, must be a multiple "
                               f"of those of key and value, {list(t.shape)}")
    heads = key.shape[-3]
    value = value.repeat_interleave(heads // value.shape[-3], -3) if value.shape[-3] < heads else value
    if mask is not None and mask.ndim > 2:
        mask = mask.unsqueeze(-3) if mask.shape[-3] == 1 else mask.unflatten(-3, (heads, -1))
    return query.unflatten(-3, (heads, -1)), key.unsqueeze(-3), value.unsqueeze(-3), mask
