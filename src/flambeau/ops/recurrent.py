"""Recurrent networks: one primitive per layer and direction, and the functions that stack them."""

import contextlib

from .. import _C
from .._libraries import NO_RECURRENT, cudnn_library
from .kinds import OPS, composite, overloads, primitive
from .linear import linear

_ARGUMENTS = ("Tensor input, Tensor? h0, Tensor? c0, Tensor weight_ih, Tensor weight_hh, Tensor? bias_ih, "
              "Tensor? bias_hh, Tensor? weight_hr, int[] batch_sizes, str mode, bool reverse")
_INPUTS = ("input", "h0", "c0", "weight_ih", "weight_hh", "bias_ih", "bias_hh", "weight_hr")

# --- the same layer in ordinary operators: what second derivatives go through -----------------------------------------

def _simple_step(activation):
    def step(x, h, _):
        return getattr(x + h, activation)(), None
    return step


def _lstm_step(x, h, c):
    """i, f, o = σ;  g = tanh;  c <- f c + i g;  h = o tanh(c)   (Hochreiter & Schmidhuber 1997)."""
    i, f, g, o = (x + h).chunk(4, -1)
    c = f.sigmoid() * c + i.sigmoid() * g.tanh()
    return o.sigmoid() * c.tanh(), c


def _gru_step(x, h, old):
    """r, z = σ;  n = tanh(x_n + r h_n);  h <- (1 - z) n + z h   (Cho et al. 2014)."""
    xr, xz, xn = x.chunk(3, -1)
    hr, hz, hn = h.chunk(3, -1)
    z = (xz + hz).sigmoid()
    n = (xn + (xr + hr).sigmoid() * hn).tanh()
    return n + z * (old - n), None


#: mode -> (gates, step); a step takes the input's and the state's share of the gates and the old c (LSTM) or h
_STEPS = {"tanh": (1, _simple_step("tanh")), "relu": (1, _simple_step("relu")), "lstm": (4, _lstm_step),
          "gru": (3, _gru_step)}


def _by_steps(input, h, c, weight_ih, weight_hh, bias_ih, bias_hh, weight_hr, batch_sizes, mode, reverse):
    """(out, hn, cn) of recurrent_layer, step by step."""
    step, batch = _STEPS[mode][1], batch_sizes[0]
    if h is None:
        h = input.new_zeros((batch, weight_hh.shape[1]))
    if c is None and mode == "lstm":
        c = input.new_zeros((batch, weight_hh.shape[0] // 4))
    shares = linear(input, weight_ih, bias_ih).split(list(batch_sizes))
    outputs = [None] * len(shares)
    for t in reversed(range(len(shares))) if reverse else range(len(shares)):
        n = batch_sizes[t]
        new_h, new_c = step(shares[t], linear(h[:n], weight_hh, bias_hh), h[:n] if c is None else c[:n])
        outputs[t] = new_h if weight_hr is None else linear(new_h, weight_hr)
        h = outputs[t] if n == batch else OPS["cat"]([outputs[t], h[n:]])
        if c is not None:
            c = new_c if n == batch else OPS["cat"]([new_c, c[n:]])
    return OPS["cat"](outputs), h, c


def _gradients(grads, inputs, layout, saved, needs):
    """The gradients of one layer; where they are to be differentiated again, through ordinary operators."""
    if not _C.is_grad_enabled():
        mask = sum(need << k for k, need in enumerate(needs))
        found = recurrent_layer_backward(*grads, *inputs, *layout, *saved, mask)
        return tuple(g if need else None for g, need in zip(found, needs, strict=True))
    return _differentiated(_by_steps, grads, inputs, layout, needs)


def _differentiated(layer, grads, inputs, layout, needs):
    """The gradients of a layer in ordinary operators, which can be differentiated again."""
    inputs = [x.view_as(x) if need else x for x, need in zip(inputs, needs, strict=True)]
    pairs = [(y, g) for y, g in zip(layer(*inputs, *layout), grads, strict=True) if y is not None and g is not None]
    wanted = tuple(x for x, need in zip(inputs, needs, strict=True) if need)
    found = iter(_C.backward(*(tuple(part) for part in zip(*pairs, strict=True)), True, True, wanted, False))
    return tuple(next(found) if need else None for need in needs)


recurrent_layer_backward = primitive(
    f"recurrent_layer_backward(Tensor? grad_out, Tensor? grad_hn, Tensor? grad_cn, {_ARGUMENTS}, Tensor out, "
    "Tensor gates, Tensor cells, Tensor unprojected, int mask) -> (Tensor grad_input, Tensor grad_h0, Tensor grad_c0, "
    "Tensor grad_weight_ih, Tensor grad_weight_hh, Tensor grad_bias_ih, Tensor grad_bias_hh, Tensor grad_weight_hr)",
    namespace=None, skip="a derivative; reached through the function it belongs to",
    doc="The gradients of recurrent_layer; bit k of mask asks for the k-th, the others come back empty.")

recurrent_layer = primitive(
    f"recurrent_layer({_ARGUMENTS}) -> (Tensor out, Tensor hn, Tensor cn, Tensor gates, Tensor cells, "
    "Tensor unprojected)",
    d={_INPUTS: lambda g0, g1, g2, input, h0, c0, weight_ih, weight_hh, bias_ih, bias_hh, weight_hr, batch_sizes, mode,
       reverse, result0, result3, result4, result5, needs:
       _gradients((g0, g1, g2), (input, h0, c0, weight_ih, weight_hh, bias_ih, bias_hh, weight_hr),
                  (batch_sizes, mode, reverse), (result0, result3, result4, result5), needs)},
    namespace=None, autocast="half",
    doc="A recurrent layer in one direction. Rows of input: those of step 0, then of step 1, …; batch_sizes[t] "
        "of them belong to step t. gates, cells and unprojected are for the way back and no differentiable results.")


def _layer(input):
    if input.is_cuda or not input.is_floating_point():  # on CUDA, complex numbers, whole numbers
        return _by_steps
    return recurrent_layer


# --- all layers as one call of a device's library ---------------------------------------------------------------------

_STACK = "Tensor?[] operands, bool bias, bool both, int[] batch_sizes, str mode"
_BY_NAME = "runs only by a library of CUDA; tested there by name"


def _stack_by_steps(*given):
    """(out, hn, cn) of _recurrent_stack, step by step: its operands one by one, then bias, both, batch_sizes, mode."""
    (x, h0, c0, *weights), (bias, both, batch_sizes, mode) = given[:-4], given[-4:]
    h, c = h0.unbind(0), None if c0 is None else c0.unbind(0)
    return _by_layers(mode, x, batch_sizes, h, c, _weights(weights, bias, len(h), mode), 2 if both else 1, 0.0)


def _stack_gradients(grads, operands, layout, saved, needs):
    if not _C.is_grad_enabled():
        out, reserve = saved
        if not reserve.numel():  # nobody had asked for gradients on the way there
            out, _, _, reserve = recurrent_stack(operands, *layout, _kept_by_library(operands, *layout))
        found = recurrent_stack_backward(*grads, operands, *layout, out, reserve)
        return [g if need else None for g, need in zip(found, needs, strict=True)]
    return list(_differentiated(_stack_by_steps, grads, operands, layout, needs))


recurrent_stack_backward = primitive(
    f"_recurrent_stack_backward(Tensor? grad_out, Tensor? grad_hn, Tensor? grad_cn, {_STACK}, Tensor out, "
    "Tensor reserve) -> Tensor[]", namespace=None, skip=_BY_NAME,
    doc="The gradients of _recurrent_stack by its operands; that of an absent one is empty.")

recurrent_stack = primitive(
    f"_recurrent_stack({_STACK}, int kept) -> (Tensor out, Tensor hn, Tensor cn, Tensor reserve)",
    d={"operands": lambda g0, g1, g2, operands, bias, both, batch_sizes, mode, result0, result3, needs:
       _stack_gradients((g0, g1, g2), operands, (bias, both, batch_sizes, mode), (result0, result3), needs)},
    namespace=None, autocast="half", skip=_BY_NAME,
    doc="Recurrent layers without projection, one above the other, in one direction or in both, by a library. "
        "operands: the input, whose rows lie step by step, h0, c0 (None but for an LSTM), then weight_ih, weight_hh "
        "and, with bias, bias_ih and bias_hh of each layer and direction. out has the features of both directions, hn "
        "and cn are [layers and directions, batch, hidden]. reserve: `kept` bytes that the library keeps for the way "
        "back, or none.")


def _by_library(x, weights):
    """Whether a library computes these layers."""
    return (x.dtype in (_C.float16, _C.float32, _C.float64) and x.numel() > 0 and weights[0][4] is None
            and not _C._cuda.library_switches() & NO_RECURRENT and cudnn_library())


def _kept_by_library(operands, bias, both, batch_sizes, mode):
    """How many bytes the library keeps of such layers for the way back."""
    layers = len(operands[3:]) // ((4 if bias else 2) * (2 if both else 1))
    return _C._cuda.kept_by_layers(operands[0], operands[4].shape[1], mode, layers, both, bias, tuple(batch_sizes))


# --- stacks of layers -------------------------------------------------------------------------------------------------

def _weights(params, has_biases, rows, mode):
    """Per layer and direction (weight_ih, weight_hh, bias_ih, bias_hh, weight_hr)."""
    each = len(params) // rows if rows else 0
    plain = 4 if has_biases else 2
    if not each or each * rows != len(params) or each not in (plain, plain + (mode == "lstm")):
        raise RuntimeError(f"{mode}: got {len(params)} weights for {rows} layers and directions; expected {plain} each")
    absent = () if has_biases else (None, None)
    return [(*params[k:k + plain], *absent, params[k + plain] if each > plain else None)
            for k in range(0, len(params), each)]


def _stack(mode, x, batch_sizes, states, params, has_biases, num_layers, dropout, train, bidirectional):
    """(out, hn, cn) of all layers, for rows step by step."""
    directions = 2 if bidirectional else 1
    h, c = states[0], states[1] if len(states) > 1 else None
    weights = _weights(params, has_biases, num_layers * directions, mode)
    dropout = dropout if train else 0.0
    if x.is_cuda and _by_library(x, weights):
        with contextlib.suppress(NotImplementedError):  # what the library refuses goes step by step
            return _by_calls(x, h, c, params, has_biases, bidirectional, batch_sizes, mode, dropout, num_layers)
    c = None if c is None else c.unbind(0)
    return _by_layers(mode, x, batch_sizes, h.unbind(0), c, weights, directions, dropout)


def _by_calls(x, h, c, params, has_biases, bidirectional, batch_sizes, mode, dropout, num_layers):
    """The same by a library: all layers in one call, or with dropout between them one call for each."""
    calls = num_layers if dropout else 1
    rows, each = h.shape[0] // calls, len(params) // calls
    last_h, last_c = [], []
    for k in range(calls):
        if k:
            x = OPS["dropout"](x, dropout, True)
        own = slice(k * rows, (k + 1) * rows)
        operands = [x, h[own], None if c is None else c[own], *params[k * each:(k + 1) * each]]
        layout = has_biases, bidirectional, batch_sizes, mode
        wanted = _C.is_grad_enabled() and any(t is not None and t.requires_grad for t in operands)
        x, hn, cn, _ = recurrent_stack(operands, *layout, _kept_by_library(operands, *layout) if wanted else 0)
        last_h.append(hn)
        last_c.append(cn)
    return x, _one_after_other(last_h), None if c is None else _one_after_other(last_c)


def _one_after_other(states):
    return states[0] if len(states) == 1 else OPS["cat"](states)


def _by_layers(mode, x, batch_sizes, h, c, weights, directions, dropout):
    """(out, hn, cn) of all layers, one call for each layer and direction."""
    layer = _layer(x)
    c = c or (None,) * len(h)
    last_h, last_c = [], []
    for k in range(0, len(weights), directions):
        if k and dropout:
            x = OPS["dropout"](x, dropout, True)
        found = [layer(x, h[k + way], c[k + way], *weights[k + way], batch_sizes, mode, way == 1)
                 for way in range(directions)]
        x = found[0][0] if directions == 1 else OPS["cat"]([each[0] for each in found], -1)
        last_h += [each[1] for each in found]
        last_c += [each[2] for each in found]
    return x, _joined(last_h), None if c[0] is None else _joined(last_c)


def _joined(states):
    return states[0].unsqueeze(0) if len(states) == 1 else OPS["stack"](states)


def _check_states(mode, states, rows, batch):
    expected = 2 if mode == "lstm" else 1
    if len(states) != expected:
        raise RuntimeError(f"{mode}: expects {expected} hidden state{'s' * (expected > 1)}, got {len(states)}")
    for s in states:
        if s.ndim != 3 or s.shape[:2] != (rows, batch):
            raise RuntimeError(f"{mode}: expected states of shape [{rows}, {batch}, size] (layers and directions, "
                               f"batch), got {list(s.shape)}")


def _padded(mode, x, states, params, has_biases, num_layers, dropout, train, bidirectional, batch_first):
    if x.ndim != 3:
        raise RuntimeError(f"{mode}: expected an input of 3 dimensions, got shape {list(x.shape)}")
    if batch_first:
        x = x.transpose(0, 1)
    steps, batch, width = x.shape
    if not steps:
        raise RuntimeError(f"{mode}: the sequence is empty; at least one step is needed")
    _check_states(mode, states, num_layers * (2 if bidirectional else 1), batch)
    out, h, c = _stack(mode, x.reshape(steps * batch, width), [batch] * steps, states, params, has_biases, num_layers,
                       dropout, train, bidirectional)
    out = out.view(steps, batch, out.shape[-1])
    return (out.transpose(0, 1) if batch_first else out), h, c


def _packed(mode, data, batch_sizes, states, params, has_biases, num_layers, dropout, train, bidirectional):
    sizes = batch_sizes.tolist()
    _check_states(mode, states, num_layers * (2 if bidirectional else 1), sizes[0] if sizes else 0)
    return _stack(mode, data, sizes, states, params, has_biases, num_layers, dropout, train, bidirectional)


_REST = "Tensor[] params, bool has_biases, int num_layers, float dropout, bool train, bool bidirectional"


def _of_state(results, state):
    """Results that keep the precision of the state, as sums with it do: under autocast only products are halves."""
    dtype = _C.promote_types(results[0].dtype, state.dtype)
    return [r if r is None or r.dtype is dtype else r.to(dtype) for r in results]


def _define(name, mode):
    """The function of one kind of network, for padded input and for packed data."""
    many, cast = mode == "lstm", None if mode == "gru" else "half"
    state, results = ("Tensor[]", "(Tensor, Tensor, Tensor)") if many else ("Tensor", "(Tensor, Tensor)")

    @composite(f"{name}.input(Tensor input, {state} hx, {_REST}, bool batch_first) -> {results}", method=False,
               autocast=cast,
               samples="rnn_tanh" if name == "rnn_relu" else name, doc=f"{name} of a padded input.")
    def padded(input, hx, *rest):
        found = _padded(mode, input, hx if many else [hx], *rest)[:3 if many else 2]
        return tuple(found if cast else _of_state(found, hx))

    @composite(f"{name}.data(Tensor data, Tensor batch_sizes, {state} hx, {_REST}) -> {results}", method=False,
               autocast=cast,
               samples="packed_rnn_tanh" if name == "rnn_relu" else "packed_" + name, doc=f"{name} of packed data.")
    def packed(data, batch_sizes, hx, *rest):
        found = _packed(mode, data, batch_sizes, hx if many else [hx], *rest)[:3 if many else 2]
        return tuple(found if cast else _of_state(found, hx))

    form = "(input, (h0, c0)) → (out, hn, cn)" if many else "(input, h0) → (out, hn)"
    return overloads(name, padded, packed, doc=f"""The layers of nn.{name.split('_')[0].upper()} as a function: {form}.

    `params` are the weights of all layers and directions in a row. A second form takes the data and batch_sizes of a
    packed sequence instead of `input`, and no `batch_first`.
    """)


lstm, gru = _define("lstm", "lstm"), _define("gru", "gru")
rnn_tanh, rnn_relu = _define("rnn_tanh", "tanh"), _define("rnn_relu", "relu")

# --- cells ------------------------------------------------------------------------------------------------------------

def _cell(mode, input, states, w_ih, w_hh, b_ih, b_hh):
    if input.ndim not in (1, 2):
        raise RuntimeError(f"{mode}_cell: expected an input of 1 or 2 dimensions, got shape {list(input.shape)}")
    single = input.ndim == 1
    if single:
        input, states = input.unsqueeze(0), [s.unsqueeze(0) for s in states]
    for k, s in enumerate(states):
        if s.ndim != 2 or s.shape[0] != input.shape[0]:
            raise RuntimeError(f"{mode}_cell: input holds {input.shape[0]} samples, and state {k} has shape "
                               f"{list(s.shape)}")
    if not states[0].shape[1] and not len(w_hh):
        empty = input.new_zeros(len(input), 0)
        return (empty[0] if single else empty,) * 2
    h, c = states if len(states) > 1 else (states[0], None)
    out, _, cn = _layer(input)(input, h, c, w_ih, w_hh, b_ih, b_hh, None, [input.shape[0]], mode, False)[:3]
    if mode in ("lstm", "gru"):
        out, cn = _of_state((out, cn), states[-1])
    return (out.squeeze(0), None if cn is None else cn.squeeze(0)) if single else (out, cn)


_CELL = "Tensor w_ih, Tensor w_hh, Tensor? b_ih=None, Tensor? b_hh=None"


@composite(f"lstm_cell(Tensor input, Tensor[] hx, {_CELL}) -> (Tensor, Tensor)",
           method=False, samples="lstm_cell")
def lstm_cell(input, hx, w_ih, w_hh, b_ih, b_hh):
    """One step of LSTM: the next (h, c) from hx = (h, c).

    >>> import flambeau
    >>> h = flambeau.zeros(2, 3)
    >>> flambeau.lstm_cell(flambeau.ones(2, 4), (h, h), flambeau.ones(12, 4), flambeau.ones(12, 3))[0].shape
    torch.Size([2, 3])
    """
    if len(hx) != 2:
        raise RuntimeError(f"lstm_cell: expects two hidden states, got {len(hx)}")
    return _cell("lstm", input, list(hx), w_ih, w_hh, b_ih, b_hh)


def _one_state(name, mode):
    @composite(f"{name}(Tensor input, Tensor hx, {_CELL}) -> Tensor", method=False,
               autocast=None if mode == "gru" else "half",
               samples="gru_cell" if mode == "gru" else "rnn_tanh_cell",
               doc=f"One step of the network of {name.removesuffix('_cell')}: the next h.")
    def cell(input, hx, w_ih, w_hh, b_ih, b_hh):
        return _cell(mode, input, [hx], w_ih, w_hh, b_ih, b_hh)[0]
    return cell


gru_cell = _one_state("gru_cell", "gru")
rnn_tanh_cell, rnn_relu_cell = _one_state("rnn_tanh_cell", "tanh"), _one_state("rnn_relu_cell", "relu")

# --- padded and packed sequences --------------------------------------------------------------------------------------

pad_rows = primitive(
    "pad_rows(Tensor data, int[] batch_sizes, int sequences, bool batch_first, Scalar padding_value, int steps)"
    " -> Tensor", namespace=None, samples="pad_rows",
    d={"data": lambda g, batch_sizes, batch_first: pack_rows(g, batch_sizes, batch_first)},
    doc="Packed rows as [steps, sequences, *]; batch_sizes[t] of them belong to step t, the rest is padding_value.")

pack_rows = primitive(
    "pack_rows(Tensor input, int[] batch_sizes, bool batch_first) -> Tensor", namespace=None, samples="pack_rows",
    d={"input": lambda g, input_shape, batch_sizes, batch_first:
       pad_rows(g, batch_sizes, input_shape[not batch_first], batch_first, 0, input_shape[batch_first])},
    doc="The rows of [steps, sequences, *] that are no padding: batch_sizes[t] of step t.")
