"""The forward methods of the library's own layers, as TorchScript's text."""

import flambeau

from ..fx import symbolic_trace
from ._writing import Writer, attribute_path, number


def forward_of(script, module):
    """The text of a layer's forward; None where its source is to be read."""
    nn = flambeau.nn
    if isinstance(module, nn.Sequential):
        return _chain(script, module)
    if isinstance(module, nn.modules.batchnorm._BatchNorm) and module.momentum is not None:
        return _batch_norm(module)
    if (isinstance(module, nn.RNNBase) and not isinstance(module, nn.LSTM)) or (
            isinstance(module, nn.LSTM) and not module.proj_size):
        return _recurrent(module)
    for kind, name in ((nn.Dropout, "dropout"), (nn.AlphaDropout, "alpha_dropout"), (nn.Dropout1d, "feature_dropout"),
                       (nn.Dropout2d, "feature_dropout"), (nn.Dropout3d, "feature_dropout")):
        if type(module) is kind:
            end = "_" * module.inplace
            return (f"def forward(self: SELF, input: Tensor) -> Tensor:\n"
                    f"  return torch.{name}{end}(input, {number(float(module.p))}, self.training)\n")
    if isinstance(module, (nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d)):
        return _transposed(module)
    return _captured(script, module)


def _transposed(m):
    numbers = ", ".join(f"[{', '.join(map(str, x))}]" for x in (m.stride, m.padding, m.output_padding))
    return ("def forward(self: SELF, input: Tensor) -> Tensor:\n"
            f"  return torch.conv_transpose{m.weight.dim() - 2}d(input, self.weight, self.bias, {numbers}, {m.groups}, "
            f"[{', '.join(map(str, m.dilation))}])\n")


def _chain(script, module):
    lines, value = [], "input"
    for k, (name, child) in enumerate(module.named_children()):
        script.method(child, "forward")
        lines.append(f"  x{k} = {attribute_path(name)}.forward({value})")
        value = f"x{k}"
    return "\n".join(["def forward(self: SELF, input: Tensor):", *lines, f"  return {value}", ""])


def _batch_norm(m):
    lines = ["def forward(self: SELF, input: Tensor) -> Tensor:"]
    if m.track_running_stats and m.num_batches_tracked is not None:
        lines += ["  if self.training:", "    added = torch.add_(self.num_batches_tracked, 1)", "  else:", "    pass"]
    statistics = "self.training" if m.track_running_stats else "True"
    held = ", ".join(f"self.{name}" for name in ("weight", "bias", "running_mean", "running_var"))
    lines.append(f"  return torch.batch_norm(input, {held}, {statistics}, {number(float(m.momentum))}, "
                 f"{number(float(m.eps))}, True)")
    return "\n".join([*lines, ""])


def _recurrent(m):
    """One call of TorchScript's operator; states that are not given are zeros."""
    mode = {"LSTM": "lstm", "GRU": "gru"}.get(m.mode, m.mode.lower())
    weights = ", ".join(f"self.{name}" for layer in m._names for name in layer)
    where, sides = (0 if m.batch_first else 1), (2 if m.bidirectional else 1)
    pair = mode == "lstm"
    state = "Tuple[Tensor, Tensor]" if pair else "Tensor"
    zeros = f"torch.new_zeros(input, [{m.num_layers * sides}, torch.size(input, {where}), {m.hidden_size}])"
    given = "[hx[0], hx[1]]" if pair else "hx"
    switches = (f"{bool(m.bias)}, {m.num_layers}, {number(float(m.dropout))}, self.training, {bool(m.bidirectional)}, "
                f"{bool(m.batch_first)}")
    return "\n".join([
        f"def forward(self: SELF, input: Tensor, hx: Optional[{state}]=None) -> Tuple[Tensor, {state}]:",
        "  if torch.__is__(hx, None):", f"    zeros = {zeros}", f"    start = {'[zeros, zeros]' if pair else 'zeros'}",
        "  else:", f"    known = unchecked_cast({state}, hx)", f"    start = {given.replace('hx', 'known')}",
        f"  found = torch.{mode}(input, start, [{weights}], {switches})",
        f"  return (found[0], {'(found[1], found[2])' if pair else 'found[1]'})", ""])


def _captured(script, module):
    """The operators that forward calls, where they do not depend on what it is given; None elsewhere."""
    try:
        gm = symbolic_trace(module)
        writer = Writer(gm.graph, {}, script.constants)
        heads = []
        for node in gm.graph.nodes:
            if node.op == "placeholder":
                heads.append(f"{writer.local(node)}: Tensor")
        writer.write()
        result = writer.value(next(node for node in gm.graph.nodes if node.op == "output").args[0])
    except Exception:  # it decides by its arguments: its source says how
        return None
    if len(heads) != 1 or gm.state_dict().keys() - module.state_dict().keys():
        return None
    body = [f"  {line}" for line in writer.lines]
    return "\n".join([f"def forward(self: SELF, {', '.join(heads)}):", *body, f"  return {result}", ""])
