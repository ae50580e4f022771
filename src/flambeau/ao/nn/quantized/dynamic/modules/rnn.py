"""The LSTM whose weights are bytes or halves."""

import flambeau
from flambeau import nn

from ......_shown import shown
from ...modules.linear import pack
from .linear import quantized_weight, weight_observer


def _unpacked(name, value):
    """((weight, bias) of the input, (weight, bias) of the state) as this library stores them, or as PyTorch does."""
    if not hasattr(value, "parts"):
        return value
    kind, biases, _, _, weights = value.parts if len(value.parts) == 5 else [None] * 5
    if kind not in ("quantized_dynamic", "quantized_fp16") or len(weights) != 2 or len(biases) not in (0, 2) \
            or not all(len(part.parts) == 2 for part in weights):
        raise RuntimeError(f"dynamic LSTM: {name} holds {shown(value.parts)}, which are no packed weights of one layer")
    found = [part.parts for part in weights]
    if biases:
        found = [(weight, bias) for (weight, _), bias in zip(found, biases, strict=True)]
    return tuple((weight.half() if weight.dtype is flambeau.float32 else weight, bias) for weight, bias in found)


class LSTM(nn.Module):
    """An LSTM whose products are dynamic quantized linear layers: one for the whole input, one for the state of each
    step. Without gradients, and without dropout (it is for inference).

    >>> import flambeau
    >>> lstm = flambeau.ao.nn.quantized.dynamic.LSTM.from_float(flambeau.nn.LSTM(3, 5))
    >>> y, (h, c) = lstm(flambeau.ones(4, 2, 3))
    >>> y.shape, h.shape
    (torch.Size([4, 2, 5]), torch.Size([1, 2, 5]))
    """

    _version = 2
    _FLOAT_MODULE = nn.LSTM

    def __init__(self, input_size, hidden_size, num_layers=1, bias=True, batch_first=False, dropout=0.0,
                 bidirectional=False, dtype=flambeau.qint8):
        super().__init__()
        self.input_size, self.hidden_size, self.num_layers = input_size, hidden_size, num_layers
        self.bias, self.batch_first, self.dropout = bias, batch_first, float(dropout)
        self.bidirectional, self.dtype, self.training = bidirectional, dtype, False
        self.packed = []
        directions = 2 if bidirectional else 1
        for layer in range(num_layers):
            for _ in range(directions):
                width = input_size if layer == 0 else hidden_size * directions
                self.packed.append(tuple(self._blank(n, bias) for n in (width, hidden_size)))

    def _blank(self, width, bias):
        shape = [4 * self.hidden_size, width]
        weight = flambeau.zeros(shape, dtype=flambeau.float16) if self.dtype is flambeau.float16 else \
            flambeau.quantize_per_tensor(flambeau.zeros(shape), 1.0, 0, flambeau.qint8)
        return pack(weight, flambeau.zeros(shape[0]) if bias else None)

    def _get_name(self):
        return "DynamicQuantizedLSTM"

    def extra_repr(self):
        text = f"{self.input_size}, {self.hidden_size}"
        for name, plain in (("num_layers", 1), ("bias", True), ("batch_first", False), ("dropout", 0.0),
                            ("bidirectional", False)):
            if getattr(self, name) != plain:
                text += f", {name}={getattr(self, name)}"
        return text

    def forward(self, input, hx=None):
        """(outputs, (h, c)), as nn.LSTM; packed sequences are not supported."""
        if not isinstance(input, flambeau.Tensor):
            raise NotImplementedError("dynamic LSTM: packed sequences are not supported; pad them")
        whole = input.unsqueeze(0 if self.batch_first else 1) if input.ndim == 2 else input
        steps = (whole.transpose(0, 1) if self.batch_first else whole).detach()
        count = len(self.packed)
        if hx is None:
            start = flambeau.zeros(count, steps.shape[1], self.hidden_size)
            hx = start, start
        elif input.ndim == 2:
            hx = tuple(state.unsqueeze(1) for state in hx)
        expected = [count, steps.shape[1], self.hidden_size]
        for state in hx:
            if list(state.shape) != expected:
                raise RuntimeError(f"dynamic LSTM: expected states of shape {expected}, got {list(state.shape)}")
        steps, h, c = self._layers(steps, *hx)
        output = steps.transpose(0, 1) if self.batch_first else steps
        if input.ndim == 2:
            return output.squeeze(0 if self.batch_first else 1), (h.squeeze(1), c.squeeze(1))
        return output, (h, c)

    def _layers(self, steps, h, c):
        directions = 2 if self.bidirectional else 1
        last = []
        for layer in range(self.num_layers):
            sides = []
            for side in range(directions):
                k = layer * directions + side
                outputs, *state = self._run(self.packed[k], steps, h[k], c[k], side == 1)
                sides.append(outputs)
                last.append(state)
            steps = sides[0] if directions == 1 else flambeau.cat(sides, -1)
        return steps, flambeau.stack([h for h, _ in last]), flambeau.stack([c for _, c in last])

    def _run(self, packed, steps, h, c, backwards):
        """One layer in one direction."""
        of_input, of_state = packed
        given = of_input(steps).unbind(0)
        outputs = [None] * len(given)
        for t in reversed(range(len(given))) if backwards else range(len(given)):
            i, f, g, o = (given[t] + of_state(h)).chunk(4, -1)
            c = f.sigmoid() * c + i.sigmoid() * g.tanh()
            outputs[t] = h = o.sigmoid() * c.tanh()
        return flambeau.stack(outputs), h, c

    def _save_to_state_dict(self, destination, prefix, keep_vars):
        super()._save_to_state_dict(destination, prefix, keep_vars)
        for k, pair in enumerate(self.packed):
            destination[f"{prefix}_all_weight_values.{k}.param"] = tuple(part.unpack() for part in pair)

    def _load_from_state_dict(self, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys,
                              error_msgs):
        for k in range(len(self.packed)):
            name = f"{prefix}_all_weight_values.{k}.param"
            if name in state_dict:
                self.packed[k] = tuple(pack(*part) for part in _unpacked(name, state_dict.pop(name)))
            else:
                missing_keys.append(name)
        super()._load_from_state_dict(state_dict, prefix, local_metadata, False, missing_keys, unexpected_keys,
                                      error_msgs)

    def get_weight(self):
        """{PyTorch's name of a weight: the quantized weight}."""
        return self._parts(0, "weight")

    def get_bias(self):
        """{PyTorch's name of a bias: the bias}."""
        return self._parts(1, "bias")

    def _parts(self, which, name):
        found = {}
        directions = 2 if self.bidirectional else 1
        for k, pair in enumerate(self.packed):
            suffix = f"_l{k // directions}" + ("_reverse" if k % directions else "")
            for kind, part in zip(("ih", "hh"), pair, strict=True):
                found[f"{name}_{kind}{suffix}"] = part.unpack()[which]
        return found

    @classmethod
    def from_float(cls, mod, use_precomputed_fake_quant=False):
        """The quantized layer of an LSTM."""
        if use_precomputed_fake_quant:
            raise NotImplementedError("dynamic LSTM: use_precomputed_fake_quant is not supported")
        if not isinstance(mod, nn.LSTM):
            raise AssertionError(f"dynamic LSTM: made from an LSTM, got {type(mod).__name__}")
        if mod.proj_size:
            raise NotImplementedError(f"dynamic LSTM: proj_size={mod.proj_size} is not supported")
        dtype = weight_observer(mod).dtype
        made = cls(mod.input_size, mod.hidden_size, mod.num_layers, mod.bias, mod.batch_first, mod.dropout,
                   mod.bidirectional, dtype)
        directions = 2 if mod.bidirectional else 1
        for k in range(len(made.packed)):
            suffix = f"_l{k // directions}" + ("_reverse" if k % directions else "")
            made.packed[k] = tuple(pack(quantized_weight(getattr(mod, f"weight_{kind}{suffix}"), weight_observer(mod)),
                                        getattr(mod, f"bias_{kind}{suffix}") if mod.bias else None)
                                   for kind in ("ih", "hh"))
        return made
