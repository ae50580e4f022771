"""Recurrent layers: RNN, LSTM and GRU over sequences, and their cells for one step."""

import math
import warnings

from ... import _C, empty, gru, gru_cell, lstm, lstm_cell, rnn_relu, rnn_relu_cell, rnn_tanh, rnn_tanh_cell, zeros
from ..._shown import shown
from .. import init
from ..parameter import Parameter
from ..utils.rnn import PackedSequence
from .module import Module

#: mode -> (gates, the function of all layers)
_MODES = {"RNN_TANH": (1, rnn_tanh), "RNN_RELU": (1, rnn_relu), "LSTM": (4, lstm), "GRU": (3, gru)}


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

    @property
    def _flat_weights(self):  # what wrappers that exchange the weights ask for; forward reads the attributes
        return self._weights()

    @_flat_weights.setter
    def _flat_weights(self, weights):
        for name, weight in zip((name for names in self._names for name in names), weights, strict=True):
            if weight is not getattr(self, name):
                setattr(self, name, weight)

    def forward(self, input, hx=None):
        packed = input if isinstance(input, PackedSequence) else None
        x = input if packed is None else packed.data
        if packed is None and x.dim() not in (2, 3):
            raise ValueError(f"{self.mode}: input must have 3 dimensions, or 2 without a batch, got {x.dim()}")
        weight = getattr(self, self._names[0][0])
        if x.dtype != weight.dtype and not _C.autocast_state()[0]:
            floating = f" or the module by module.to({x.dtype})" if x.dtype.is_floating_point else ""
            raise ValueError(f"{self.mode}: input is {x.dtype} and the weights are {weight.dtype}; convert the input "
                             f"by input.to({weight.dtype}){floating}")
        if x.size(-1) != self.input_size:
            raise RuntimeError(
                f"{self.mode}: input has {x.size(-1)} features, expected input_size={self.input_size}"
            )
        single = packed is None and x.dim() == 2
        if single:
            x = x.unsqueeze(0 if self.batch_first else 1)
        batch = packed.batch_sizes[0].item() if packed is not None else x.size(0 if self.batch_first else 1)
        states = self._initial_states(x, hx, batch, single, packed)
        settings = self._weights(), self.bias, self.num_layers, self.dropout, self.training, self.bidirectional
        function, hx = _MODES[self.mode][1], states if self.mode == "LSTM" else states[0]
        if packed is not None:
            result, *states = function(x, packed.batch_sizes, hx, *settings)
            result = PackedSequence(result, packed.batch_sizes, packed.sorted_indices, packed.unsorted_indices)
            if packed.unsorted_indices is not None:
                states = [s[:, packed.unsorted_indices] for s in states]
        else:
            result, *states = function(x, hx, *settings, self.batch_first)
            if single:
                result = result.squeeze(0 if self.batch_first else 1)
                states = [s.squeeze(1) for s in states]
        return result, (tuple(states) if self.mode == "LSTM" else states[0])

    def _weights(self):
        return [getattr(self, name) for names in self._names for name in names]

    def _initial_states(self, x, hx, batch, single, packed):
        """[h] or [h, c], each [layers * directions, batch, size]."""
        rows = len(self._names)
        sizes = [self.proj_size or self.hidden_size, self.hidden_size][: 2 if self.mode == "LSTM" else 1]
        if hx is None:
            return [zeros(rows, batch, size, dtype=x.dtype, device=x.device) for size in sizes]
        states = list(hx) if self.mode == "LSTM" else [hx]
        if len(states) != len(sizes):
            error = IndexError if len(states) < len(sizes) else RuntimeError
            raise error(f"{self.mode}: expected {len(sizes)} hidden states, got {len(states)}")
        if any(s.dim() != (2 if single else 3) for s in states):
            raise RuntimeError(
                f"{self.mode}: the state must have {2 if single else 3} dimensions, as the input has, got "
                f"{' and '.join(str(s.dim()) for s in states)}"
            )
        if single:
            states = [s.unsqueeze(1) for s in states]
        for k, (s, size) in enumerate(zip(states, sizes, strict=True)):
            if tuple(s.shape) != (rows, batch, size):
                name = f"hidden[{k}]" if len(sizes) > 1 else "hidden"
                raise RuntimeError(f"{self.mode}: {name} must have shape {[rows, batch, size]}, got {list(s.shape)}")
        if packed is not None and packed.sorted_indices is not None:
            states = [s[:, packed.sorted_indices] for s in states]
        return states

    # --- for classes that make a forward of their own of these parts

    def check_input(self, input, batch_sizes):
        """RuntimeError where the input is not [L, N, input_size] (packed: [.., input_size])."""
        dims = 3 if batch_sizes is None else 2
        if input.dim() != dims or input.size(-1) != self.input_size:
            raise RuntimeError(f"{self.mode}: expected an input of {dims} dimensions, the last of size "
                               f"{self.input_size}, got {list(input.shape)}")

    def get_expected_hidden_size(self, input, batch_sizes):
        """(layers * directions, batch, size) of h."""
        batch = input.size(0 if self.batch_first else 1) if batch_sizes is None else int(batch_sizes[0])
        return len(self._names), batch, self.proj_size or self.hidden_size

    def get_expected_cell_size(self, input, batch_sizes):
        """(layers * directions, batch, size) of c."""
        return (*self.get_expected_hidden_size(input, batch_sizes)[:2], self.hidden_size)

    def check_hidden_size(self, hx, expected_hidden_size, msg="the state must have size {}, got {}"):
        """RuntimeError with that text where a state has another size."""
        if tuple(hx.size()) != tuple(expected_hidden_size):
            raise RuntimeError(msg.format(tuple(expected_hidden_size), list(hx.size())))

    def check_forward_args(self, input, hidden, batch_sizes):
        """RuntimeError where the input, or a state, has not the size that forward takes."""
        self.check_input(input, batch_sizes)
        states = hidden if self.mode == "LSTM" else (hidden,)
        expected = self.get_expected_hidden_size(input, batch_sizes), self.get_expected_cell_size(input, batch_sizes)
        for k, (state, size) in enumerate(zip(states, expected)):
            name = f"hidden[{k}]" if self.mode == "LSTM" else "hidden"
            self.check_hidden_size(state, size, f"{self.mode}: {name} must have size {{}}, got {{}}")

    def permute_hidden(self, hx, permutation):
        """The states with their sequences in another order (None: as they are)."""
        if permutation is None:
            return hx
        return tuple(s[:, permutation] for s in hx) if self.mode == "LSTM" else hx[:, permutation]

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
        raise ValueError(f"RNNBase: mode must be one of {', '.join(_MODES)}, got {shown(mode)}")
    for name, value in (("input_size", input_size), ("hidden_size", hidden_size), ("num_layers", num_layers)):
        if not isinstance(value, int):
            raise TypeError(f"{mode}: {name} must be an int, got {type(value).__name__}")
        if value <= 0:
            raise ValueError(f"{mode}: {name} must be positive, got {shown(value)}")
    if not 0 <= proj_size < hidden_size:
        raise ValueError(f"{mode}: proj_size must be 0 (no projection), or positive and below "
                         f"hidden_size={shown(hidden_size)}; got {shown(proj_size)}")
    if isinstance(dropout, bool) or not 0 <= dropout <= 1:
        raise ValueError(f"{mode}: dropout must be a probability between 0 and 1, got {shown(dropout)}")
    if dropout and num_layers == 1:
        warnings.warn(f"{mode}: dropout={dropout} acts between layers, so it has no effect with num_layers=1",
                      stacklevel=4)


def _no_projection(mode, kwargs):
    """Only an LSTM has `proj_size`; nothing else is left over in `kwargs`."""
    if "proj_size" in kwargs:
        raise ValueError(f"{mode}: proj_size belongs to LSTM, whose hidden state can be projected; leave it out here")
    for name in kwargs:
        raise TypeError(f"{mode}.__init__() got an unexpected keyword argument {shown(name)}")


class RNN(RNNBase):
    """h <- tanh(W_ih x + b_ih + W_hh h + b_hh) (or relu) over [L, N, input_size], in `num_layers` layers.

    Returns (outputs [L, N, directions * hidden_size], last h [layers * directions, N, hidden_size]).

    >>> import flambeau
    >>> out, h = flambeau.nn.RNN(3, 4)(flambeau.zeros(5, 2, 3))
    >>> out.shape, h.shape
    (torch.Size([5, 2, 4]), torch.Size([1, 2, 4]))
    """

    def __init__(self, input_size, hidden_size, num_layers=1, nonlinearity="tanh", bias=True, batch_first=False,
                 dropout=0.0, bidirectional=False, device=None, dtype=None, **kwargs):
        _no_projection("RNN", kwargs)
        if nonlinearity not in ("tanh", "relu"):
            raise ValueError(f"RNN: nonlinearity must be 'tanh' or 'relu', got {shown(nonlinearity)}")
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
                 bidirectional=False, device=None, dtype=None, **kwargs):
        _no_projection("GRU", kwargs)
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

    def _checked(self, input, *states):
        """The states, zeros where there are none."""
        name = type(self).__name__
        if input.dim() not in (1, 2):
            raise ValueError(f"{name}: input must have 2 dimensions, or 1 without a batch, got {input.dim()}")
        if input.size(-1) != self.input_size:
            raise RuntimeError(
                f"{name}: input has {input.size(-1)} features, expected input_size={self.input_size}"
            )
        if states[0] is None:
            zero = zeros(*input.shape[:-1], self.hidden_size, dtype=input.dtype, device=input.device)
            return (zero,) * len(states)
        for k, s in enumerate(states):
            if s.dim() not in (1, 2):
                what = f"hx[{k}]" if len(states) > 1 else "hidden"
                raise ValueError(f"{name}: {what} must have 2 dimensions, or 1 without a batch, got {s.dim()}")
            if s.size(-1) != self.hidden_size:
                raise RuntimeError(
                    f"{name}: the state has {s.size(-1)} features, expected hidden_size={self.hidden_size}"
                )
        return states

    def _weights(self):
        return self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh

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
        step = rnn_tanh_cell if self.nonlinearity == "tanh" else rnn_relu_cell
        return step(input, *self._checked(input, hx), *self._weights())


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
        return lstm_cell(input, self._checked(input, *((None, None) if hx is None else hx)), *self._weights())


class GRUCell(RNNCellBase):
    """One step of GRU: the next h.

    >>> import flambeau
    >>> flambeau.nn.GRUCell(3, 4)(flambeau.zeros(2, 3)).shape
    torch.Size([2, 4])
    """

    def __init__(self, input_size, hidden_size, bias=True, device=None, dtype=None):
        super().__init__(input_size, hidden_size, bias, 3, device, dtype)

    def forward(self, input, hx=None):
        return gru_cell(input, *self._checked(input, hx), *self._weights())
