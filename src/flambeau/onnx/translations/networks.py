"""Attention and recurrent layers."""

import math

from ... import _C
from ..._tensor.creation import tensor
from ...ops import OPS
from .._emitter import Unavailable
from ._table import translates
from .indexing import counting

# ---- attention -------------------------------------------------------------------------------------------------------

@translates("scaled_dot_product_attention")
def scaled_dot_product_attention(g, query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, *, scale=None,
                                 enable_gqa=False):
    """softmax(scale query key' + mask) value, or Attention where the opset has it."""
    if dropout_p:
        raise Unavailable("attention with dropout is for training; export the module in eval mode")
    width = query.shape[-1]
    if scale is None and not isinstance(width, int):
        raise Unavailable("attention whose heads have an open width needs `scale`")
    scale = 1 / math.sqrt(width) if scale is None else scale
    if g.opset >= 23 and attn_mask is None and query.rank == key.rank == value.rank == 4 and (
            not is_causal or query.shape[-2] == key.shape[-2]):
        return g.op("Attention", query, key, value, scale_f=scale, is_causal=int(is_causal))
    if enable_gqa:
        key, value = _repeated(g, query, key), _repeated(g, query, value)
    dtype = query.dtype
    turned = g.permute(key, [*range(key.rank - 2), key.rank - 1, key.rank - 2])
    scores = g.op("MatMul", g.op("Mul", query, g.scalar(scale, dtype)), turned)
    if is_causal:
        scores = _masked(g, scores, _causal(g, query, key))
        weights = g.op("Softmax", scores, axis=-1)
    elif attn_mask is None:
        weights = g.op("Softmax", scores, axis=-1)
    else:
        weights = g.op("Softmax", _masked(g, scores, attn_mask), axis=-1)
        nothing = g.op("Not", attn_mask) if attn_mask.dtype is _C.bool else g.op("IsNaN", weights)
        weights = g.op("Where", nothing, g.scalar(0.0, dtype), weights)  # a query that may see nothing gets zeros
    return g.op("MatMul", weights, value)


@translates("fused_attention")
def fused_attention(g, query, key, value, mask, is_causal, scale, cudnn=False):
    """The first result; the other, which only derivatives need, is not written."""
    return [scaled_dot_product_attention(g, query, key, value, mask, 0.0, is_causal, scale=scale), None]


def _masked(g, scores, mask):
    if mask.dtype is _C.bool:
        return g.op("Where", mask, scores, g.scalar(-math.inf, scores.dtype))
    return g.op("Add", scores, g.cast(mask, scores.dtype))


def _causal(g, query, key):
    """True where a key is not later than the query."""
    rows, columns = g.size(query, -2), g.size(key, -2)
    if isinstance(rows, int) and isinstance(columns, int):
        return g.const(tensor([[j <= i for j in range(columns)] for i in range(rows)], dtype=_C.bool), "causal")
    rows, columns = counting(g, rows), counting(g, columns)
    return g.op("LessOrEqual", g.unsqueeze(columns, 0), g.unsqueeze(rows, 1))


def _repeated(g, query, x):
    """Each head of x as often as the query has heads for it."""
    heads, own = query.shape[-3], x.shape[-3]
    if not isinstance(heads, int) or not isinstance(own, int):
        raise Unavailable("enable_gqa with an open number of heads is not written")
    if heads == own:
        return x
    order = [k // (heads // own) for k in range(heads)]
    made = g.op("Gather", x, order, axis=x.rank - 3)
    return g.shaped(made, (*x.shape[:-3], heads, *x.shape[-2:]))


# ---- recurrent layers ------------------------------------------------------------------------------------------------

#: mode -> (operator, the order of the gates in ONNX by their places here, further attributes)
_KINDS = {"lstm": ("LSTM", (0, 3, 1, 2), {}), "gru": ("GRU", (1, 0, 2), {"linear_before_reset": 1}),
          "tanh": ("RNN", (0,), {}), "relu": ("RNN", (0,), {})}


def _gates(g, weight, order):
    """The rows of a weight with its gates in another order, as [1, rows, ...]."""
    if weight.data is not None and g.fold:
        parts = weight.data.chunk(len(order))
        data = weight.data if len(order) == 1 else OPS["cat"]([parts[k] for k in order])
        return g.const(data.unsqueeze(0), weight.name)
    if len(order) > 1:
        rows = weight.shape[0] // len(order)
        parts = g.op("Split", weight, [rows] * len(order), axis=0, outputs=len(order))
        weight = g.op("Concat", *(parts[k] for k in order), axis=0)
    return g.unsqueeze(weight, 0)


def _joined(g, values, axis=0):
    if len(values) == 1:
        return values[0]
    if all(v.data is not None for v in values) and g.fold:
        return g.const(OPS["cat"]([v.data for v in values], axis), values[0].name)
    return g.op("Concat", *values, axis=axis)


def layer(g, x, h, c, weights, mode, direction):
    """(out [steps, directions, batch, hidden], h, c) of one layer; weights: a tuple for each direction."""
    kind, order, more = _KINDS[mode]
    if any(w[4] is not None for w in weights):
        raise Unavailable("LSTM with proj_size is not in ONNX; export it with proj_size=0")
    hidden = weights[0][1].shape[1]
    w = _joined(g, [_gates(g, each[0], order) for each in weights])
    r = _joined(g, [_gates(g, each[1], order) for each in weights])
    bias = None
    if weights[0][2] is not None:
        both = [_joined(g, [_gates(g, each[2], order), _gates(g, each[3], order)], 1) for each in weights]
        bias = _joined(g, both)
    if mode == "relu":
        more = {"activations": ["Relu"] * len(weights)}
    states = [h, c] if kind == "LSTM" else [h]
    found = g.op(kind, x, w, r, bias, None, *states, hidden_size=hidden, direction=direction, **more,
                 outputs=3 if kind == "LSTM" else 2)
    return (*found, None) if len(found) == 2 else tuple(found)


def _is_zero(state):
    """Whether a state is known to be zeros."""
    if state.data is not None:
        return not state.data.any()
    return state.node is not None and state.node.kind == "ConstantOfShape" and not state.node.attributes["value"].any()


@translates("recurrent_layer")
def recurrent_layer(g, input, h0, c0, weight_ih, weight_hh, bias_ih, bias_hh, weight_hr, batch_sizes, mode, reverse):
    """A layer in one direction of rows step by step; only sequences of one length."""
    if len(set(batch_sizes)) != 1:
        raise Unavailable("packed sequences of different lengths are not written; pad them and use a mask")
    steps, batch = len(batch_sizes), batch_sizes[0]
    x = g.op("Reshape", input, [steps, batch, input.shape[1]])
    states = [None if s is None else g.unsqueeze(s, 0) for s in (h0, c0)]
    out, h, c = layer(g, x, *states, [(weight_ih, weight_hh, bias_ih, bias_hh, weight_hr)], mode,
                      "reverse" if reverse else "forward")
    rows = g.op("Reshape", out, [steps * batch, weight_hh.shape[1]])
    return [rows, g.squeeze(h, 0), None if c is None else g.squeeze(c, 0), None, None, None]


@translates("lstm", "gru", "rnn_tanh", "rnn_relu")
def recurrent(g, input, hx, params, has_biases, num_layers, dropout, train, bidirectional, batch_first):
    """All layers, of any number of steps."""
    mode = g.kind.removeprefix("rnn_")
    h, c = hx if mode == "lstm" else (hx, None)
    directions = 2 if bidirectional else 1
    x = g.permute(input, [1, 0, 2]) if batch_first else input
    each = len(params) // (num_layers * directions)
    plain = 4 if has_biases else 2
    rows = [(*params[k:k + plain], *((None, None) if not has_biases else ()), params[k + plain] if each > plain else
             None) for k in range(0, len(params), each)]
    h, c = (None if s is None or _is_zero(s) else s for s in (h, c))  # zeros are what ONNX begins with
    last_h, last_c = [], []
    for k in range(num_layers):
        if k and dropout and train:
            raise Unavailable("dropout between recurrent layers is for training; export the module in eval mode")
        own = slice(k * directions, (k + 1) * directions)
        states = [None if s is None else s if num_layers == 1 else g.slice(s, own.start, own.stop, 0) for s in (h, c)]
        out, hn, cn = layer(g, x, *states, rows[own], mode, "bidirectional" if bidirectional else "forward")
        if directions == 1:
            x = g.squeeze(out, 1)
        else:  # [steps, directions, batch, hidden] to [steps, batch, directions * hidden]
            x = g.op("Reshape", g.op("Transpose", out, perm=[0, 2, 1, 3]), [0, 0, -1])
        last_h.append(hn)
        last_c.append(cn)
    x = g.op("Transpose", x, perm=[1, 0, 2]) if batch_first else x
    found = [x, _joined(g, last_h)]
    return [*found, _joined(g, last_c)] if mode == "lstm" else found
