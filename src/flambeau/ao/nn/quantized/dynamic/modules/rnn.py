"""LSTM and GRU, and single cells, whose weights are bytes or halves."""

import flambeau
from flambeau import nn

from ......_files.quantized import CELL, LINEAR, ScriptObject
from ......_quantized import cells
from ......_quantized.packed import pack_linear as pack
from ......_shown import shown
from ...modules.utils import quantized_weight, take
from .linear import dynamic_observer as weight_observer


def _stored(part):
    """A packed linear layer as PyTorch stores it; halves are numbers there."""
    weight, bias = part.unpack()
    return ScriptObject(LINEAR, (weight.float() if weight.dtype is flambeau.float16 else weight, bias))


def _pack_stored(name, value):
    """The packed linear layer of what is stored, or of a pair of weight and bias."""
    weight, bias = value = getattr(value, "parts", value)
    if len(value) != 2 or not isinstance(weight, flambeau.Tensor):
        raise RuntimeError(f"dynamic layer: {name} holds {shown(value)}, which is no packed weight with a bias")
    return pack(weight.half() if weight.dtype is flambeau.float32 else weight, bias)


def _stored_cell(of_input, of_state):
    """Both layers of a recurrent layer as PyTorch stores them."""
    parts = [_stored(of_input), _stored(of_state)]
    if of_input.halves:
        return ScriptObject(CELL, ("quantized_fp16", [], [], [], parts))
    biases = [part.bias() for part in (of_input, of_state)]
    if None in biases:
        biases = [flambeau.zeros(len(part.unpack()[0])) for part in (of_input, of_state)]
    return ScriptObject(CELL, ("quantized_dynamic", biases, [], [1], parts))


def _pack_cell(name, value):
    """The packed layers (of the input, of the state) as this library stored them once, or as PyTorch does."""
    if not hasattr(value, "parts"):
        return tuple(_pack_stored(name, part) for part in value)
    kind, biases, _, _, weights = value.parts if len(value.parts) == 5 else [None] * 5
    if kind not in ("quantized_dynamic", "quantized_fp16") or len(weights) != 2 or len(biases) not in (0, 2):
        raise RuntimeError(f"dynamic layer: {name} holds {shown(value.parts)}, which are no packed weights of one "
                           "layer")
    parts = [part.parts for part in weights]
    if biases:
        parts = [(part[0], bias) for part, bias in zip(parts, biases, strict=True)]
    return tuple(_pack_stored(name, part) for part in parts)


def _blank(rows, width, dtype):
    """The weight of a layer that has none yet."""
    if dtype is flambeau.float16:
        return flambeau.zeros(rows, width, dtype=dtype)
    return flambeau.quantize_per_tensor(flambeau.zeros(rows, width), 1.0, 0, flambeau.qint8)


class RNNBase(nn.Module):
    """Layers and directions of a recurrent network whose products are dynamic quantized linear layers: one for the
    whole input, one for the state of each step. Without gradients, and without dropout (it is for inference)."""

    _version = 2
    _FLOAT_MODULE, _gates, _name = None, None, None

    def __init__(self, input_size, hidden_size, num_layers=1, bias=True, batch_first=False, dropout=0.0,
                 bidirectional=False, dtype=flambeau.qint8):
        super().__init__()
        self.input_size, self.hidden_size, self.num_layers = input_size, hidden_size, num_layers
        self.bias, self.batch_first, self.dropout = bias, batch_first, float(dropout)
        self.bidirectional, self.dtype, self.training = bidirectional, dtype, False
        self.mode, self.version = self._name, self._version
        self.packed = []
        directions = 2 if bidirectional else 1
        for layer in range(num_layers):
            for _ in range(directions):
                width = input_size if layer == 0 else hidden_size * directions
                rows = self._gates * hidden_size
                self.packed.append(tuple(pack(_blank(rows, n, dtype), flambeau.zeros(rows) if bias else None)
                                         for n in (width, hidden_size)))

    def _get_name(self):
        return f"DynamicQuantized{self._name}"

    def extra_repr(self):
        text = f"{self.input_size}, {self.hidden_size}"
        for name, plain in (("num_layers", 1), ("bias", True), ("batch_first", False), ("dropout", 0.0),
                            ("bidirectional", False)):
            if getattr(self, name) != plain:
                text += f", {name}={getattr(self, name)}"
        return text

    def forward(self, input, hx=None):
        """(outputs, last states), as the float layer; packed sequences are not supported."""
        if not isinstance(input, flambeau.Tensor):
            raise NotImplementedError(f"dynamic {self._name}: packed sequences are not supported; pad them")
        whole = input.unsqueeze(0 if self.batch_first else 1) if input.ndim == 2 else input
        steps = (whole.transpose(0, 1) if self.batch_first else whole).detach()
        states = self._states(hx, steps, input.ndim == 2)
        steps, states = self._layers(steps, states)
        output = steps.transpose(0, 1) if self.batch_first else steps
        if input.ndim == 2:
            output, states = output.squeeze(0 if self.batch_first else 1), [state.squeeze(1) for state in states]
        return output, self._shown(states)

    def _states(self, hx, steps, single):
        """The states at the beginning, one tensor for each that the cell has."""
        expected = [len(self.packed), steps.shape[1], self.hidden_size]
        if hx is None:
            return [flambeau.zeros(expected)] * self._held
        states = [state.unsqueeze(1) if single else state for state in (hx if self._held > 1 else [hx])]
        for state in states:
            if list(state.shape) != expected:
                raise RuntimeError(f"dynamic {self._name}: expected states of shape {expected}, got "
                                   f"{list(state.shape)}")
        return states

    def _layers(self, steps, states):
        directions = 2 if self.bidirectional else 1
        last = []
        for layer in range(self.num_layers):
            sides = []
            for side in range(directions):
                k = layer * directions + side
                outputs, state = self._run(self.packed[k], steps, [state[k] for state in states], side == 1)
                sides.append(outputs)
                last.append(state)
            steps = sides[0] if directions == 1 else flambeau.cat(sides, -1)
        return steps, [flambeau.stack(parts) for parts in zip(*last, strict=True)]

    def _run(self, packed, steps, state, backwards):
        """One layer in one direction."""
        of_input, of_state = packed
        given = of_input.dynamic(steps).unbind(0)
        outputs = [None] * len(given)
        for t in reversed(range(len(given))) if backwards else range(len(given)):
            state = self._step(given[t], of_state.dynamic(state[0]), state)
            outputs[t] = state[0]
        return flambeau.stack(outputs), state

    def _save_to_state_dict(self, destination, prefix, keep_vars):
        super()._save_to_state_dict(destination, prefix, keep_vars)
        for k, pair in enumerate(self.packed):
            destination[f"{prefix}_all_weight_values.{k}.param"] = _stored_cell(*pair)

    def _load_from_state_dict(self, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys,
                              error_msgs):
        for k in range(len(self.packed)):
            name = f"{prefix}_all_weight_values.{k}.param"
            if name in state_dict:
                self.packed[k] = _pack_cell(name, state_dict.pop(name))
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

    def set_weight_bias(self, weight_bias_dict):
        """Takes other weights and biases, under the names of get_weight and get_bias."""
        directions = 2 if self.bidirectional else 1
        for k in range(len(self.packed)):
            suffix = f"_l{k // directions}" + ("_reverse" if k % directions else "")
            self.packed[k] = tuple(pack(weight_bias_dict[f"weight_{kind}{suffix}"],
                                        weight_bias_dict.get(f"bias_{kind}{suffix}")) for kind in ("ih", "hh"))

    @classmethod
    def from_float(cls, mod, use_precomputed_fake_quant=False):
        """The quantized layer of a float one."""
        if not isinstance(mod, cls._FLOAT_MODULE):
            raise AssertionError(f"dynamic {cls._name}: made from nn.{cls._name}, got {type(mod).__name__}")
        if getattr(mod, "proj_size", 0):
            raise NotImplementedError(f"dynamic {cls._name}: proj_size={mod.proj_size} is not supported")
        made = cls(mod.input_size, mod.hidden_size, mod.num_layers, mod.bias, mod.batch_first, mod.dropout,
                   mod.bidirectional, weight_observer(mod).dtype)
        made.set_weight_bias({name: _quantized(mod, name, value, use_precomputed_fake_quant)
                              for name, value in mod.named_parameters()})
        return made

    @classmethod
    def from_reference(cls, ref_mod):
        """The quantized layer of a reference one, whose weights are quantized already."""
        made = cls(ref_mod.input_size, ref_mod.hidden_size, ref_mod.num_layers, ref_mod.bias, ref_mod.batch_first,
                   ref_mod.dropout, ref_mod.bidirectional, flambeau.qint8)
        made.set_weight_bias(ref_mod.get_quantized_weight_bias_dict())
        return made


def _quantized(mod, name, value, observed=False):
    return quantized_weight(value, weight_observer(mod), observed) if name.startswith("weight") else value


class LSTM(RNNBase):
    """An LSTM with quantized weights.

    >>> import flambeau
    >>> lstm = flambeau.ao.nn.quantized.dynamic.LSTM.from_float(flambeau.nn.LSTM(3, 5))
    >>> y, (h, c) = lstm(flambeau.ones(4, 2, 3))
    >>> y.shape, h.shape
    (torch.Size([4, 2, 5]), torch.Size([1, 2, 5]))
    """

    _FLOAT_MODULE, _gates, _held, _name = nn.LSTM, 4, 2, "LSTM"

    @staticmethod
    def _step(given, held, state):
        return cells.lstm(given, held, *state)

    @staticmethod
    def _shown(states):
        return tuple(states)


class GRU(RNNBase):
    """A GRU with quantized weights."""

    _FLOAT_MODULE, _gates, _held, _name = nn.GRU, 3, 1, "GRU"

    @staticmethod
    def _step(given, held, state):
        return [cells.gru(given, held, *state)]

    @staticmethod
    def _shown(states):
        return states[0]


# --- single cells -----------------------------------------------------------------------------------------------------

class RNNCellBase(nn.Module):
    """What single cells share: a packed weight for the input and one for the state."""

    _FLOAT_MODULE, _gates, _name = None, None, None

    def __init__(self, input_size, hidden_size, bias=True, num_chunks=4, dtype=flambeau.qint8):
        super().__init__()
        self.input_size, self.hidden_size, self.bias, self.weight_dtype = input_size, hidden_size, bias, dtype
        self.bias_ih = flambeau.zeros(num_chunks * hidden_size) if bias else None
        self.bias_hh = flambeau.zeros(num_chunks * hidden_size) if bias else None
        for kind, width in (("ih", input_size), ("hh", hidden_size)):
            self._set(kind, _blank(num_chunks * hidden_size, width, dtype), getattr(self, f"bias_{kind}"))

    def _set(self, kind, weight, bias):
        packed = pack(weight, bias)
        setattr(self, f"_packed_weight_{kind}", packed)
        setattr(self, f"bias_{kind}", packed.bias())

    def _get_name(self):
        return f"DynamicQuantized{self._name}"

    def extra_repr(self):
        text = f"{self.input_size}, {self.hidden_size}"
        if not self.bias:
            text += ", bias=False"
        kind = getattr(self, "nonlinearity", "tanh")
        return text + (f", nonlinearity={kind}" if kind != "tanh" else "")

    def _start(self, input, hx):
        if input.ndim != 2 or input.shape[1] != self.input_size:
            raise RuntimeError(f"{self._get_name()}: expected inputs of shape [n, {self.input_size}], got "
                               f"{list(input.shape)}")
        if hx is None:
            return flambeau.zeros(len(input), self.hidden_size)
        if list(hx.shape) != [len(input), self.hidden_size]:
            raise RuntimeError(f"{self._get_name()}: expected a state of shape {[len(input), self.hidden_size]}, got "
                               f"{list(hx.shape)}")
        return hx

    def get_weight(self):
        """{PyTorch's name of a weight: the quantized weight}."""
        return {f"weight_{kind}": getattr(self, f"_packed_weight_{kind}").unpack()[0] for kind in ("ih", "hh")}

    def get_bias(self):
        """{PyTorch's name of a bias: the bias}."""
        return {f"bias_{kind}": getattr(self, f"_packed_weight_{kind}").unpack()[1] for kind in ("ih", "hh")}

    def set_weight_bias(self, weight_bias_dict):
        """Takes other weights and biases, under the names of get_weight and get_bias."""
        for kind in ("ih", "hh"):
            self._set(kind, weight_bias_dict[f"weight_{kind}"], weight_bias_dict.get(f"bias_{kind}"))

    def _save_to_state_dict(self, destination, prefix, keep_vars):
        super()._save_to_state_dict(destination, prefix, keep_vars)
        for kind in ("ih", "hh"):
            destination[f"{prefix}_packed_weight_{kind}"] = _stored(getattr(self, f"_packed_weight_{kind}"))

    def _load_from_state_dict(self, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys,
                              error_msgs):
        for kind in ("ih", "hh"):
            name = f"{prefix}_packed_weight_{kind}"
            take(state_dict, name, missing_keys,
                 lambda value, k=kind, n=name: self._set(k, *_pack_stored(n, value).unpack()))
        super()._load_from_state_dict(state_dict, prefix, local_metadata, False, missing_keys, unexpected_keys,
                                      error_msgs)

    @classmethod
    def from_float(cls, mod, use_precomputed_fake_quant=False):
        """The quantized cell of a float one with a qconfig."""
        if not isinstance(mod, cls._FLOAT_MODULE):
            raise AssertionError(f"dynamic {cls._name}: made from nn.{cls._name}, got {type(mod).__name__}")
        made = cls._shaped(mod, weight_observer(mod).dtype)
        made.set_weight_bias({name: _quantized(mod, name, value, use_precomputed_fake_quant)
                              for name, value in mod.named_parameters()})
        return made

    @classmethod
    def from_reference(cls, ref_mod):
        """The quantized cell of a reference one, whose weights are quantized already."""
        made = cls._shaped(ref_mod, flambeau.qint8)
        made.set_weight_bias({"weight_ih": ref_mod.get_quantized_weight_ih(), "bias_ih": ref_mod.bias_ih,
                              "weight_hh": ref_mod.get_quantized_weight_hh(), "bias_hh": ref_mod.bias_hh})
        return made

    @classmethod
    def _shaped(cls, mod, dtype):
        return cls(mod.input_size, mod.hidden_size, bool(mod.bias), dtype=dtype)


class RNNCell(RNNCellBase):
    """One step of a plain recurrent network with quantized weights.

    >>> import flambeau
    >>> flambeau.ao.nn.quantized.dynamic.RNNCell(3, 5)(flambeau.ones(2, 3)).shape
    torch.Size([2, 5])
    """

    _FLOAT_MODULE, _name = nn.RNNCell, "RNNCell"

    def __init__(self, input_size, hidden_size, bias=True, nonlinearity="tanh", dtype=flambeau.qint8):
        super().__init__(input_size, hidden_size, bias, 1, dtype)
        if nonlinearity not in ("tanh", "relu"):
            raise RuntimeError(f"RNNCell: nonlinearity must be 'tanh' or 'relu', got {shown(nonlinearity)}")
        self.nonlinearity = nonlinearity

    def forward(self, input, hx=None):
        return cells.rnn_cell_dynamic(self.nonlinearity)(input, self._start(input, hx), self._packed_weight_ih,
                                                         self._packed_weight_hh)

    @classmethod
    def _shaped(cls, mod, dtype):
        return cls(mod.input_size, mod.hidden_size, bool(mod.bias), mod.nonlinearity, dtype)


class LSTMCell(RNNCellBase):
    """One step of an LSTM with quantized weights."""

    _FLOAT_MODULE, _name = nn.LSTMCell, "LSTMCell"

    def __init__(self, input_size, hidden_size, bias=True, dtype=flambeau.qint8):
        super().__init__(input_size, hidden_size, bias, 4, dtype)

    def forward(self, input, hx=None):
        states = [self._start(input, state) for state in (hx or (None, None))]
        return cells.quantized_lstm_cell_dynamic(input, states, self._packed_weight_ih, self._packed_weight_hh)


class GRUCell(RNNCellBase):
    """One step of a GRU with quantized weights."""

    _FLOAT_MODULE, _name = nn.GRUCell, "GRUCell"

    def __init__(self, input_size, hidden_size, bias=True, dtype=flambeau.qint8):
        super().__init__(input_size, hidden_size, bias, 3, dtype)

    def forward(self, input, hx=None):
        return cells.quantized_gru_cell_dynamic(input, self._start(input, hx), self._packed_weight_ih,
                                                self._packed_weight_hh)
