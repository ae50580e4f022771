"""The forward methods of the library's own layers, as TorchScript's text.

A layer whose forward calls the same operators whatever it is given is captured; the others are texts here, in which
$names stand for what the layer is made with.
"""

import inspect
import math
from string import Template

import flambeau

from .._aten.spelling import is_made_of_others
from .._shown import shown
from ..fx import symbolic_trace
from ._classes import attribute_path
from ._types import NotScriptable
from ._writing import Writer, number

_RECURRENT = Template("""
def forward(self: SELF, input: Tensor, hx: Optional[$state]=None) -> $results:
  single = torch.eq(torch.dim(input), $single)
  if single:
    x = torch.unsqueeze(input, $batch)
  else:
    x = input
  if torch.__is__(hx, None):
    zeros = torch.new_zeros(x, $shape)
    start = $zeros
  else:
    known = unchecked_cast($state, hx)
    if single:
      start = $one
    else:
      start = $known
  found = torch.$name(x, start, $rest)
  if single:
    result = $single_result
  else:
    result = $result
  return result
""".lstrip())

_ATTENTION = Template("""
def forward(self: SELF, query: Tensor, key: Tensor, value: Tensor, key_padding_mask: Optional[Tensor]=None,
    need_weights: bool=True, attn_mask: Optional[Tensor]=None, average_attn_weights: bool=True,
    is_causal: bool=False) -> Tuple[Tensor, Optional[Tensor]]:
  single = torch.eq(torch.dim(query), 2)
  if single:
    q, k, v = torch.unsqueeze(query, 1), torch.unsqueeze(key, 1), torch.unsqueeze(value, 1)
  else:
    q, k, v = $query, $key, $value
  length, batch, seen = torch.size(q, 0), torch.size(q, 1), torch.size(k, 0)
  q = torch.linear(q, torch.slice(self.in_proj_weight, 0, 0, $size), $bias_q)
  k = torch.linear(k, torch.slice(self.in_proj_weight, 0, $size, $size2), $bias_k)
  v = torch.linear(v, torch.slice(self.in_proj_weight, 0, $size2, $size3), $bias_v)
  rows = torch.mul(batch, $heads)
  q = torch.mul(torch.transpose(torch.view(q, [length, rows, $each]), 0, 1), $scale)
  k = torch.transpose(torch.view(k, [seen, rows, $each]), 0, 1)
  v = torch.transpose(torch.view(v, [seen, rows, $each]), 0, 1)
  scores = torch.bmm(q, torch.transpose(k, 1, 2))
  if torch.__isnot__(attn_mask, None):
    mask = unchecked_cast(Tensor, attn_mask)
    if torch.eq(ops.prim.dtype(mask), 11):
      scores = torch.masked_fill(scores, mask, -inf)
    else:
      scores = torch.add(scores, mask)
  if torch.__isnot__(key_padding_mask, None):
    padding = torch.view(unchecked_cast(Tensor, key_padding_mask), [batch, 1, 1, seen])
    apart = torch.view(scores, [batch, $heads, length, seen])
    if torch.eq(ops.prim.dtype(padding), 11):
      apart = torch.masked_fill(apart, padding, -inf)
    else:
      apart = torch.add(apart, padding)
    scores = torch.view(apart, [rows, length, seen])
  weights = torch.dropout(torch.softmax(scores, -1), $dropout, self.training)
  sums = torch.reshape(torch.transpose(torch.bmm(weights, v), 0, 1), [length, batch, $size])
  out = torch.linear(sums, self.out_proj.weight, self.out_proj.bias)
  if single:
    out = torch.squeeze(out, 1)
  else:
    out = $out
  told = annotate(Optional[Tensor], None)
  if need_weights:
    each = torch.view(weights, [batch, $heads, length, seen])
    if average_attn_weights:
      each = torch.mean(each, [1])
    if single:
      each = torch.squeeze(each, 0)
    told = each
  return (out, told)
""".lstrip())

_FORWARD = "def forward(self: SELF, input: Tensor) -> Tensor:\n  return {}\n"


def defines(kind, name):
    """The class that a class has a method from; that which jit.script made of another does not count."""
    return next(k for k in kind.__mro__ if name in vars(k) and "_scripted_class" not in vars(k))


def forward_of(script, module, kind):
    """The text of a layer's forward, which the class `kind` defines; None where its source is to be read."""
    nn = flambeau.nn
    if isinstance(module, nn.Sequential):
        return _chain(script, module)
    if kind in (nn.TransformerEncoderLayer, nn.TransformerDecoderLayer):
        return _transformer_layer(script, module)
    for kinds, write in _WRITERS.items():
        if any(isinstance(module, k) and defines(k, "forward") is kind for k in kinds):
            return write(module)
    if isinstance(module, nn.modules.batchnorm._BatchNorm) and module.momentum is not None:
        return _batch_norm(module)
    return _captured(script, module)


def _chain(script, module):
    lines, value = [], "input"
    for k, (name, child) in enumerate(module.named_children()):
        script.method(child, "forward")
        lines.append(f"  x{k} = {attribute_path(name)}.{script.called(child)}({value})")
        value = f"x{k}"
    return "\n".join(["def forward(self: SELF, input: Tensor):", *lines, f"  return {value}", ""])


def _dropout(m):
    names = {flambeau.nn.Dropout: "dropout", flambeau.nn.AlphaDropout: "alpha_dropout"}
    name = next((name for kind, name in names.items() if isinstance(m, kind)), "feature_dropout")
    return _FORWARD.format(f"torch.{name}{'_' * m.inplace}(input, {number(float(m.p))}, self.training)")


def _circular(m):
    return _FORWARD.format(f'torch.pad(input, {list(m.padding)}, "circular")')


def _transposed(m):
    sizes = ", ".join(str(list(x)) for x in (m.stride, m.padding, m.output_padding))
    return _FORWARD.format(f"torch.conv_transpose{m.weight.dim() - 2}d(input, self.weight, self.bias, {sizes}, "
                           f"{m.groups}, {list(m.dilation)})")


def _batch_norm(m):
    counted = "  if self.training:\n    added = torch.add_(self.num_batches_tracked, 1)\n  else:\n    pass\n"
    text = _FORWARD.format(
        "torch.batch_norm(input, self.weight, self.bias, self.running_mean, self.running_var, "
        f"{'self.training' if m.track_running_stats else 'True'}, {number(float(m.momentum))}, "
        f"{number(float(m.eps))}, True)")
    if not (m.track_running_stats and m.num_batches_tracked is not None):
        return text
    head, body = text.split("\n", 1)
    return f"{head}\n{counted}{body}"


# ---- recurrent layers ------------------------------------------------------------------------------------------------

def _network(m):
    """All layers are one call; states that are not given are zeros, and a single sequence is a batch of one."""
    if isinstance(m, flambeau.nn.LSTM) and m.proj_size:
        return None
    name = {"LSTM": "lstm", "GRU": "gru"}.get(m.mode, m.mode.lower())
    weights = ", ".join(f"self.{weight}" for layer in m._names for weight in layer)
    batch, sides, pair = (0 if m.batch_first else 1), (2 if m.bidirectional else 1), name == "lstm"
    rest = (f"[{weights}], {bool(m.bias)}, {m.num_layers}, {number(float(m.dropout))}, self.training, "
            f"{bool(m.bidirectional)}, {bool(m.batch_first)}")
    state = "Tuple[Tensor, Tensor]" if pair else "Tensor"
    states = "(found[1], found[2])" if pair else "found[1]"
    alone = "(torch.squeeze(found[1], 1), torch.squeeze(found[2], 1))" if pair else "torch.squeeze(found[1], 1)"
    return _RECURRENT.substitute(
        _states(pair, 1), name=name, rest=rest, state=state, results=f"Tuple[Tensor, {state}]", single=2, batch=batch,
        shape=f"[{m.num_layers * sides}, torch.size(x, {batch}), {m.hidden_size}]", result=f"(found[0], {states})",
        single_result=f"(torch.squeeze(found[0], {batch}), {alone})")


def _cell(m):
    """One step, for a batch or a single input."""
    pair = isinstance(m, flambeau.nn.LSTMCell)
    name = "lstm_cell" if pair else "gru_cell" if isinstance(m, flambeau.nn.GRUCell) else f"rnn_{m.nonlinearity}_cell"
    state = "Tuple[Tensor, Tensor]" if pair else "Tensor"
    return _RECURRENT.substitute(
        _states(pair, 0), name=name, rest="self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh", state=state,
        results=state, single=1, batch=0, shape=f"[torch.size(x, 0), {m.hidden_size}]",
        result="(found[0], found[1])" if pair else "found",
        single_result="(torch.squeeze(found[0], 0), torch.squeeze(found[1], 0))" if pair else "torch.squeeze(found, 0)")


def _states(pair, dim):
    """What begins: zeros, the states of a batch, those of one sequence as a batch of one."""
    if not pair:
        return {"zeros": "zeros", "known": "known", "one": f"torch.unsqueeze(known, {dim})"}
    return {"zeros": "[zeros, zeros]", "known": "[known[0], known[1]]",
            "one": f"[torch.unsqueeze(known[0], {dim}), torch.unsqueeze(known[1], {dim})]"}


# ---- attention -------------------------------------------------------------------------------------------------------

def _attention(m):
    """Scores, masks, weights and sums, written out."""
    if not m._qkv_same_embed_dim or m.bias_k is not None or m.add_zero_attn:
        raise NotScriptable("jit.script: attention with keys of other sizes, or with keys of its own, is not written")
    size = m.embed_dim
    bias = [f"torch.slice(self.in_proj_bias, 0, {k * size}, {(k + 1) * size})" if m.in_proj_bias is not None else "None"
            for k in range(3)]
    turned = {name: f"torch.transpose({name}, 0, 1)" if m.batch_first else name
              for name in ("query", "key", "value", "out")}
    text = _ATTENTION.substitute(
        turned, size=size, size2=2 * size, size3=3 * size, heads=m.num_heads, each=m.head_dim, bias_q=bias[0],
        bias_k=bias[1], bias_v=bias[2], scale=number(1 / math.sqrt(m.head_dim)), dropout=number(float(m.dropout)))
    head, body = text.split("\n  single", 1)
    return " ".join(line.strip() for line in head.splitlines()) + "\n  single" + body


def _transformer_layer(script, m):
    """Each part with its residual connection and norm, in either order."""
    if isinstance(m, flambeau.nn.TransformerEncoderLayer):
        head = "src: Tensor, src_mask: Optional[Tensor]=None, src_key_padding_mask: Optional[Tensor]=None, " \
               "is_causal: bool=False"
        first, parts = "src", [("self_attn", "n", "src_key_padding_mask, False, src_mask, True, is_causal")]
    else:
        head = ", ".join(["tgt: Tensor", "memory: Tensor", *(
            f"{name}: Optional[Tensor]=None" for name in ("tgt_mask", "memory_mask", "tgt_key_padding_mask",
                                                          "memory_key_padding_mask")),
            "tgt_is_causal: bool=False", "memory_is_causal: bool=False"])
        first, parts = "tgt", [
            ("self_attn", "n", "tgt_key_padding_mask, False, tgt_mask, True, tgt_is_causal"),
            ("multihead_attn", "memory", "memory_key_padding_mask, False, memory_mask, True, memory_is_causal")]
    for _, child in m.named_children():
        script.method(child, "forward")
        if child._forward_hooks or child._forward_pre_hooks:
            raise NotScriptable("jit.script: hooks of what is inside a transformer layer are not written")
    lines = [f"def forward(self: SELF, {head}) -> Tensor:", f"  x = {first}"]
    for k in range(1, len(parts) + 2):
        lines.append(f"  n = self.norm{k}.forward(x)" if m.norm_first else "  n = x")
        if k <= len(parts):
            name, memory, rest = parts[k - 1]
            lines.append(f"  y, w = self.{name}.forward(n, {memory}, {memory}, {rest})")
        else:
            inner = _activated(m, "self.linear1.forward(n)")
            lines.append(f"  y = self.linear2.forward(self.dropout.forward({inner}))")
        lines.append(f"  x = torch.add(x, self.dropout{k}.forward(y))")
        if not m.norm_first:
            lines.append(f"  x = self.norm{k}.forward(x)")
    return "\n".join([*lines, "  return x", ""])


def _activated(m, text):
    known = {flambeau.nn.functional.relu: "relu", flambeau.nn.functional.gelu: "gelu", flambeau.relu: "relu"}
    if isinstance(m.activation, flambeau.nn.Module):
        return f"self.activation.forward({text})"
    if m.activation not in known:
        raise NotScriptable(f"jit.script: the activation {shown(m.activation)} is not written; use relu, gelu or a "
                            "Module")
    return f"torch.{known[m.activation]}({text})"


# ---- everything else -------------------------------------------------------------------------------------------------

def _captured(script, module):
    """The operators that forward calls, where they do not depend on what it is given; None elsewhere."""
    if any(p.default is not p.empty for p in inspect.signature(module.forward).parameters.values()):
        return None
    try:
        gm = symbolic_trace(module)
        if any(is_made_of_others(node.target) for node in gm.graph.nodes):
            return None
        writer = Writer(gm.graph, {}, script.constants)
        heads = [f"{writer.local(node, node.target)}: Tensor" for node in gm.graph.nodes if node.op == "placeholder"]
        writer.write()
        result = writer.value(next(node for node in gm.graph.nodes if node.op == "output").args[0])
    except Exception:  # it decides by its arguments: its source says how
        return None
    if gm.state_dict().keys() - module.state_dict().keys():
        return None
    body = [f"  {line}" for line in writer.lines]
    return "\n".join([f"def forward(self: SELF, {', '.join(heads)}):", *body, f"  return {result}", ""])


_nn = flambeau.nn
#: {classes: what writes their forward}
_WRITERS = {
    (_nn.RNN, _nn.LSTM, _nn.GRU): _network, (_nn.RNNCell, _nn.LSTMCell, _nn.GRUCell): _cell,
    (_nn.MultiheadAttention,): _attention,
    (_nn.CircularPad1d, _nn.CircularPad2d, _nn.CircularPad3d): _circular,
    (_nn.ConvTranspose1d, _nn.ConvTranspose2d, _nn.ConvTranspose3d): _transposed,
    (_nn.Dropout, _nn.AlphaDropout, _nn.Dropout1d, _nn.Dropout2d, _nn.Dropout3d): _dropout,
}
