"""Recurrent layers: RNN, LSTM and GRU over sequences, and their cells for one step."""

import math
import warnings

from ... import cat, empty, stack, zeros
from .. import functional as F
from .. import init
from ..parameter import Parameter
from ..utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence
from .module import Module


def _tanh_step(x, h, _):
    return (x + h).tanh(), None


def _relu_step(x, h, _):
    return (x + h).relu(), None


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
_MODES = {"RNN_TANH": (1, _tanh_step), "RNN_RELU": (1, _relu_step), "LSTM": (4, _lstm_step), "GRU": (3, _gru_step)}


class RNNBase(Module):
    """Weights of all layers and directions, and the walk over the steps; subclasses choose the mode."""

    def __init__(self, mode, input_size, hidden_size, num_layers=1, bias=True, batch_first=False, dropout=0.0,
                 bidirectional=False, proj_size=0, device=None, dtype=None):
        super().__init__()
        _check(mode, input_size, hidden_size, num_layers, dropout, proj_size)
        self.mode, self.input_size, self.hidden_size, self.num_layers = mode, input_size, hidden_size, num_layers
        self.bias, self.batch_first, self.dropout = bias, batch_first, float(dropout)
        self.bidirectional, self.proj_size = bidirectional, proj_size
        gates = _MODES[mode][0] * hidden_size
        state = proj_size or hidden_size
        directions = 2 if bidirectional else 1
        self._names = []
        for layer in range(num_layers):
            for direction in range(directions):
                inputs = input_size if layer == 0 else state * directions
                shapes = {"weight_ih": (gates, inputs), "weight_hh": (gates, state)}
                if bias:
                    shapes |= {"bias_ih": (gates,), "bias_hh": (gates,)}
                if proj_size:
                    shapes["weight_hr"] = (proj_size, hidden_size)
                ending = f"_l{layer}" + ("_reverse" if direction else "")
                for name, shape in shapes.items():
                    setattr(self, name + ending, Parameter(empty(shape, device=device, dtype=dtype)))
                self._names.append([name + ending for name in shapes])
        self.reset_parameters()

    def reset_parameters(self):
        """Draw every weight and bias uniform in ±1/sqrt(hidden_size)."""
        bound = 1.0 / math.sqrt(self.hidden_size) if self.hidden_size > 0 else 0
        for weight in self.parameters():
            init.uniform_(weight, -bound, bound)

    def flatten_parameters(self):
        """Nothing to do: the weights need no special place in memory."""

    @property
    def all_weights(self):
        """Per layer and direction, the list of its weights."""
        return [[getattr(self, name) for name in names] for names in self._names]

    def forward(self, input, hx=None):
        packed = input if isinstance(input, PackedSequence) else None
        lengths = None
        if packed is not None:
            x, lengths = pad_packed_sequence(packed._replace(sorted_indices=None, unsorted_indices=None))
        else:
            x = input
            if x.dim() not in (2, 3):
                raise ValueError(f"{self.mode}: Expected input to be 2D or 3D, got {x.dim()}D instead")
        weight = getattr(self, self._names[0][0])
        if x.dtype != weight.dtype:
            raise ValueError(
                f"{self.mode}: input dtype {x.dtype} does not match weight dtype {weight.dtype}: convert the input by "
                f"input.to({weight.dtype}) or the module by module.to({x.dtype})"
            )
        single = x.dim() == 2
        if single:
            x = x.unsqueeze(1)
        elif packed is None and self.batch_first:
            x = x.transpose(0, 1)
        if x.size(-1) != self.input_size:
            raise RuntimeError(
                f"input.size(-1) must be equal to input_size. Expected {self.input_size}, got {x.size(-1)}"
            )
        h, c = self._initial_state(x, hx, single, packed)
        result, h, c = self._run(x, h, c, lengths)
        if packed is not None:
            data = pack_padded_sequence(result, lengths).data
            result = PackedSequence(data, packed.batch_sizes, packed.sorted_indices, packed.unsorted_indices)
            if packed.unsorted_indices is not None:
                h, c = (None if s is None else s[:, packed.unsorted_indices] for s in (h, c))
        elif single:
            result = result.squeeze(1)
            h, c = (None if s is None else s.squeeze(1) for s in (h, c))
        elif self.batch_first:
            result = result.transpose(0, 1)
        return result, (h if c is None else (h, c))

    def _initial_state(self, x, hx, single, packed):
        """(h, c), each [layers * directions, batch, size]; c is None but for LSTM."""
        rows = len(self._names)
        sizes = [self.proj_size or self.hidden_size, self.hidden_size][: 2 if self.mode == "LSTM" else 1]
        if hx is None:
            states = [zeros(rows, x.size(1), size, dtype=x.dtype, device=x.device) for size in sizes]
        else:
            states = list(hx) if self.mode == "LSTM" else [hx]
            if single:
                states = [s.unsqueeze(1) for s in states]
            for k, (s, size) in enumerate(zip(states, sizes, strict=True)):
                if tuple(s.shape) != (rows, x.size(1), size):
                    name = f"hidden[{k}]" if len(sizes) > 1 else "hidden"
                    raise RuntimeError(f"Expected {name} size {(rows, x.size(1), size)}, got {list(s.shape)}")
            if packed is not None and packed.sorted_indices is not None:
                states = [s[:, packed.sorted_indices] for s in states]
        return states[0], (states[1] if len(states) > 1 else None)

    def _run(self, x, h, c, lengths):
        directions = 2 if self.bidirectional else 1
        last_h, last_c = [], []
        for layer in range(self.num_layers):
            if layer and self.dropout:
                x = F.dropout(x, self.dropout, self.training)
            outputs = []
            for direction in range(directions):
                k = layer * directions + direction
                start = h[k], None if c is None else c[k]
                out, h_k, c_k = self._walk(self._names[k], x, *start, lengths, direction == 1)
                outputs.append(out)
                last_h.append(h_k)
                last_c.append(c_k)
            x = outputs[0] if directions == 1 else cat(outputs, -1)
        return x, stack(last_h), (None if c is None else stack(last_c))

    def _walk(self, names, x, h, c, lengths, backwards):
        """One layer in one direction: (outputs of every step, last h, last c)."""
        weights = {name.partition("_l")[0]: getattr(self, name) for name in names}
        step = _MODES[self.mode][1]
        project = weights.get("weight_hr")
        shares = F.linear(x, weights["weight_ih"], weights.get("bias_ih"))  # all steps in one product
        outputs = [None] * len(x)
        for t in reversed(range(len(x))) if backwards else range(len(x)):
            share = F.linear(h, weights["weight_hh"], weights.get("bias_hh"))
            new_h, new_c = step(shares[t], share, h if c is None else c)
            if project is not None:
                new_h = F.linear(new_h, project)
            if lengths is not None:  # sequences that have no step t keep their state
                alive = (lengths > t).unsqueeze(1)
                new_h = new_h.where(alive, h)
                new_c = None if c is None else new_c.where(alive, c)
            h, c = new_h, new_c
            outputs[t] = h
        return stack(outputs), h, c

    def extra_repr(self):
        text = f"{self.input_size}, {self.hidden_size}"
        for name, usual in (("proj_size", 0), ("num_layers", 1), ("bias", True), ("batch_first", False), ("dropout", 0),
                            ("bidirectional", False)):
            value = getattr(self, name)
            if value != usual:
                text += f", {name}={value}"
        return text


def _check(mode, input_size, hidden_size, num_layers, dropout, proj_size):
    if mode not in _MODES:
        raise ValueError(f"Unrecognized RNN mode: {mode}")
    if not isinstance(input_size, int):
        raise TypeError(f"input_size should be of type int, got: {type(input_size).__name__}")
    if input_size <= 0:
        raise ValueError("input_size must be greater than zero")
    if not isinstance(hidden_size, int):
        raise TypeError(f"hidden_size should be of type int, got: {type(hidden_size).__name__}")
    if hidden_size <= 0:
        raise ValueError("hidden_size must be greater than zero")
    if num_layers <= 0:
        raise ValueError("num_layers must be greater than zero")
    if isinstance(dropout, bool) or not 0 <= dropout <= 1:
        raise ValueError(
            "dropout should be a number in range [0, 1] representing the probability of an element being zeroed"
        )
    if dropout > 0 and num_layers == 1:
        warnings.warn(
            "dropout option adds dropout after all but last recurrent layer, so non-zero dropout expects num_layers "
            f"greater than 1, but got dropout={dropout} and num_layers={num_layers}",
            stacklevel=4,
        )
    if proj_size < 0:
        raise ValueError("proj_size should be a positive integer or zero to disable projections")
    if proj_size >= hidden_size:
        raise ValueError("proj_size has to be smaller than hidden_size")


class RNN(RNNBase):
    """h <- tanh(W_ih x + b_ih + W_hh h + b_hh) (or relu) over [L, N, input_size], in `num_layers` layers.

    Returns (outputs [L, N, directions * hidden_size], last h [layers * directions, N, hidden_size]).

    >>> import flambeau
    >>> out, h = flambeau.nn.RNN(3, 4)(flambeau.zeros(5, 2, 3))
    >>> out.shape, h.shape
    (torch.Size([5, 2, 4]), torch.Size([1, 2, 4]))
    """

    def __init__(self, input_size, hidden_size, num_layers=1, nonlinearity="tanh", bias=True, batch_first=False,
                 dropout=0.0, bidirectional=False, device=None, dtype=None):
        if nonlinearity not in ("tanh", "relu"):
            raise ValueError(f"Unknown nonlinearity '{nonlinearity}'. Select from 'tanh' or 'relu'.")
        super().__init__("RNN_" + nonlinearity.upper(), input_size, hidden_size, num_layers, bias, batch_first, dropout,
                         bidirectional, 0, device, dtype)
        self.nonlinearity = nonlinearity


class LSTM(RNNBase):
    """Long short-term memory over [L, N, input_size]   (Hochreiter & Schmidhuber 1997).

    Returns (outputs [L, N, directions * hidden_size], (last h, last c)); `proj_size` projects h (Sak et al. 2014).

    >>> import flambeau
    >>> out, (h, c) = flambeau.nn.LSTM(3, 4, batch_first=True)(flambeau.zeros(2, 5, 3))
    >>> out.shape, c.shape
    (torch.Size([2, 5, 4]), torch.Size([1, 2, 4]))
    """

    def __init__(self, input_size, hidden_size, num_layers=1, bias=True, batch_first=False, dropout=0.0,
                 bidirectional=False, proj_size=0, device=None, dtype=None):
        super().__init__("LSTM", input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional,
                         proj_size, device, dtype)


class GRU(RNNBase):
    """Gated recurrent units over [L, N, input_size]   (Cho et al. 2014).

    Returns (outputs [L, N, directions * hidden_size], last h [layers * directions, N, hidden_size]).

    >>> import flambeau
    >>> out, h = flambeau.nn.GRU(3, 4, bidirectional=True)(flambeau.zeros(5, 2, 3))
    >>> out.shape, h.shape
    (torch.Size([5, 2, 8]), torch.Size([2, 2, 4]))
    """

    def __init__(self, input_size, hidden_size, num_layers=1, bias=True, batch_first=False, dropout=0.0,
                 bidirectional=False, device=None, dtype=None):
        super().__init__("GRU", input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional, 0,
                         device, dtype)


class RNNCellBase(Module):
    """Weights of one step."""

    def __init__(self, input_size, hidden_size, bias, num_chunks, device=None, dtype=None):
        super().__init__()
        self.input_size, self.hidden_size, self.bias = input_size, hidden_size, bias
        for name, size in (("weight_ih", input_size), ("weight_hh", hidden_size)):
            values = empty((num_chunks * hidden_size, size), device=device, dtype=dtype)
            setattr(self, name, Parameter(values))
        for name in ("bias_ih", "bias_hh"):
            values = Parameter(empty(num_chunks * hidden_size, device=device, dtype=dtype)) if bias else None
            self.register_parameter(name, values)
        self.reset_parameters()

    def reset_parameters(self):
        """Draw every weight and bias uniform in ±1/sqrt(hidden_size)."""
        bound = 1.0 / math.sqrt(self.hidden_size) if self.hidden_size > 0 else 0
        for weight in self.parameters():
            init.uniform_(weight, -bound, bound)

    def _step(self, step, input, h, c=None):
        name = type(self).__name__
        if input.dim() not in (1, 2):
            raise ValueError(f"{name}: Expected input to be 1D or 2D, got {input.dim()}D instead")
        if input.size(-1) != self.input_size:
            raise RuntimeError(
                f"{name}: input has inconsistent input_size: got {input.size(-1)}, expected {self.input_size}"
            )
        for k, state in enumerate((h, c)):
            if state is not None and state.dim() not in (1, 2):
                what = "hidden" if c is None else f"hx[{k}]"
                raise ValueError(f"{name}: Expected {what} to be 1D or 2D, got {state.dim()}D instead")
        if h is None:
            h = zeros(*input.shape[:-1], self.hidden_size, dtype=input.dtype, device=input.device)
        share = F.linear(input, self.weight_ih, self.bias_ih)
        return step(share, F.linear(h, self.weight_hh, self.bias_hh), h if c is None else c)

    def extra_repr(self):
        text = f"{self.input_size}, {self.hidden_size}" + ("" if self.bias else f", bias={self.bias}")
        if getattr(self, "nonlinearity", "tanh") != "tanh":
            text += f", nonlinearity={self.nonlinearity}"
        return text


class RNNCell(RNNCellBase):
    """One step of RNN: the next h.

    >>> import flambeau
    >>> flambeau.nn.RNNCell(3, 4)(flambeau.zeros(2, 3)).shape
    torch.Size([2, 4])
    """

    def __init__(self, input_size, hidden_size, bias=True, nonlinearity="tanh", device=None, dtype=None):
        super().__init__(input_size, hidden_size, bias, 1, device, dtype)
        self.nonlinearity = nonlinearity

    def forward(self, input, hx=None):
        if self.nonlinearity not in ("tanh", "relu"):
            raise RuntimeError(f"Unknown nonlinearity: {self.nonlinearity}")
        return self._step(_tanh_step if self.nonlinearity == "tanh" else _relu_step, input, hx)[0]


class LSTMCell(RNNCellBase):
    """One step of LSTM: the next (h, c).

    >>> import flambeau
    >>> h, c = flambeau.nn.LSTMCell(3, 4)(flambeau.zeros(2, 3))
    >>> c.shape
    torch.Size([2, 4])
    """

    def __init__(self, input_size, hidden_size, bias=True, device=None, dtype=None):
        super().__init__(input_size, hidden_size, bias, 4, device, dtype)

    def forward(self, input, hx=None):
        if hx is None:
            zero = zeros(*input.shape[:-1], self.hidden_size, dtype=input.dtype, device=input.device)
            hx = zero, zero
        return self._step(_lstm_step, input, *hx)


class GRUCell(RNNCellBase):
    """One step of GRU: the next h.

    >>> import flambeau
    >>> flambeau.nn.GRUCell(3, 4)(flambeau.zeros(2, 3)).shape
    torch.Size([2, 4])
    """

    def __init__(self, input_size, hidden_size, bias=True, device=None, dtype=None):
        super().__init__(input_size, hidden_size, bias, 3, device, dtype)

    def forward(self, input, hx=None):
        return self._step(_gru_step, input, hx)[0]
