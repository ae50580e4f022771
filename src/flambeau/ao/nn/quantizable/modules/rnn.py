"""The LSTM written out in layers that can be observed and quantized one by one."""

from numbers import Number
from warnings import warn

import flambeau
from flambeau import nn

from ....._shown import shown
from ...quantized.modules.functional_modules import FloatFunctional

_GATES = ("input", "forget", "cell", "output")


class LSTMCell(nn.Module):
    """One step of an LSTM: sums, products and gates are modules, each of whose results can be observed.

    split_gates: a linear layer for each gate instead of one for the four.

    >>> import flambeau
    >>> cell = flambeau.ao.nn.quantizable.LSTMCell(3, 4)
    >>> h, c = cell(flambeau.ones(2, 3))
    >>> h.shape
    torch.Size([2, 4])
    """

    _FLOAT_MODULE = nn.LSTMCell

    def __init__(self, input_dim, hidden_dim, bias=True, device=None, dtype=None, *, split_gates=False):
        super().__init__()
        made = {"device": device, "dtype": dtype}
        self.input_size, self.hidden_size, self.bias, self.split_gates = input_dim, hidden_dim, bias, split_gates
        if split_gates:
            self.igates = nn.ModuleDict({g: nn.Linear(input_dim, hidden_dim, bias, **made) for g in _GATES})
            self.hgates = nn.ModuleDict({g: nn.Linear(hidden_dim, hidden_dim, bias, **made) for g in _GATES})
            self.gates = nn.ModuleDict({g: FloatFunctional() for g in _GATES})
        else:
            self.igates = nn.Linear(input_dim, 4 * hidden_dim, bias, **made)
            self.hgates = nn.Linear(hidden_dim, 4 * hidden_dim, bias, **made)
            self.gates = FloatFunctional()
        self.input_gate, self.forget_gate = nn.Sigmoid(), nn.Sigmoid()
        self.cell_gate, self.output_gate = nn.Tanh(), nn.Sigmoid()
        self.fgate_cx, self.igate_cgate = FloatFunctional(), FloatFunctional()
        self.fgate_cx_igate_cgate, self.ogate_cy = FloatFunctional(), FloatFunctional()
        self.initial_hidden_state_qparams = self.initial_cell_state_qparams = (1.0, 0)
        self.hidden_state_dtype = self.cell_state_dtype = flambeau.quint8

    def forward(self, x, hidden=None):
        """(h, c) after x [batch, input_dim]; hidden: the (h, c) before it, by default zeros."""
        if hidden is None or hidden[0] is None or hidden[1] is None:
            hidden = self.initialize_hidden(x.shape[0], x.is_quantized)
        h, c = hidden
        i, f, g, o = self._gate_sums(x, h)
        kept = self.fgate_cx.mul(self.forget_gate(f), c)
        added = self.igate_cgate.mul(self.input_gate(i), self.cell_gate(g))
        c = self.fgate_cx_igate_cgate.add(kept, added)
        return self.ogate_cy.mul(self.output_gate(o), flambeau.tanh(c)), c

    def _gate_sums(self, x, h):
        if not self.split_gates:
            return self.gates.add(self.igates(x), self.hgates(h)).chunk(4, 1)
        return [self.gates[g].add(self.igates[g](x), self.hgates[g](h)) for g in _GATES]

    def initialize_hidden(self, batch_size, is_quantized=False):
        """States of zeros, as numbers or as codes."""
        h, c = (flambeau.zeros(batch_size, self.hidden_size) for _ in range(2))
        if is_quantized:
            h = flambeau.quantize_per_tensor(h, *self.initial_hidden_state_qparams, self.hidden_state_dtype)
            c = flambeau.quantize_per_tensor(c, *self.initial_cell_state_qparams, self.cell_state_dtype)
        return h, c

    def _get_name(self):
        return "QuantizableLSTMCell"

    @classmethod
    def from_params(cls, wi, wh, bi=None, bh=None, split_gates=False):
        """A cell with these weights [4 hidden, input] and [4 hidden, hidden], and biases (both or none)."""
        if (bi is None) != (bh is None):
            raise AssertionError("LSTMCell.from_params: give both biases, or none")
        cell = cls(wi.shape[1], wh.shape[1], bias=bi is not None, split_gates=split_gates)
        for layer, weight, bias in ((cell.igates, wi, bi), (cell.hgates, wh, bh)):
            layers = [layer[g] for g in _GATES] if split_gates else [layer]
            weights = weight.chunk(len(layers), 0)
            biases = [None] * len(layers) if bias is None else bias.chunk(len(layers), 0)
            for one, w, b in zip(layers, weights, biases, strict=True):
                one.weight, one.bias = nn.Parameter(w), None if b is None else nn.Parameter(b)
        return cell

    @classmethod
    def from_float(cls, other, use_precomputed_fake_quant=False, split_gates=False):
        """A cell with the weights of an LSTMCell, which have no scales yet (`use_precomputed_fake_quant` is unused)."""
        if type(other) is not cls._FLOAT_MODULE:
            raise AssertionError(f"quantizable LSTMCell: made from an LSTMCell, got {type(other).__name__}")
        observed = cls.from_params(other.weight_ih, other.weight_hh, other.bias_ih, other.bias_hh,
                                   split_gates=split_gates)
        observed.qconfig = other.qconfig
        for part in (observed.igates, observed.hgates):
            part.qconfig = other.qconfig
        return observed


class _LSTMSingleLayer(nn.Module):
    """A cell, run over the steps of a sequence [steps, batch, input_dim]."""

    def __init__(self, input_dim, hidden_dim, bias=True, device=None, dtype=None, *, split_gates=False):
        super().__init__()
        self.cell = LSTMCell(input_dim, hidden_dim, bias=bias, device=device, dtype=dtype, split_gates=split_gates)

    def forward(self, x, hidden=None):
        """(outputs, (h, c) after the last step)."""
        outputs = []
        for step in x.unbind(0):
            hidden = self.cell(step, hidden)
            outputs.append(hidden[0])
        return flambeau.stack(outputs, 0), hidden

    @classmethod
    def from_params(cls, *args, **kwargs):
        """A layer whose cell has these weights: see LSTMCell.from_params."""
        cell = LSTMCell.from_params(*args, **kwargs)
        layer = cls(cell.input_size, cell.hidden_size, cell.bias, split_gates=cell.split_gates)
        layer.cell = cell
        return layer


class _LSTMLayer(nn.Module):
    """One layer of an LSTM, in one direction or in both."""

    def __init__(self, input_dim, hidden_dim, bias=True, batch_first=False, bidirectional=False, device=None,
                 dtype=None, *, split_gates=False):
        super().__init__()
        self.batch_first, self.bidirectional = batch_first, bidirectional
        made = {"device": device, "dtype": dtype, "split_gates": split_gates}
        self.layer_fw = _LSTMSingleLayer(input_dim, hidden_dim, bias, **made)
        if bidirectional:
            self.layer_bw = _LSTMSingleLayer(input_dim, hidden_dim, bias, **made)

    def forward(self, x, hidden=None):
        """(outputs, (h, c)); with two directions the states are stacked, the outputs joined."""
        if self.batch_first:
            x = x.transpose(0, 1)
        h, c = (None, None) if hidden is None else hidden
        if not self.bidirectional:
            out, (h, c) = self.layer_fw(x, (_first(h), _first(c)))
        else:
            forth, last = self.layer_fw(x, None if h is None else (h[0], c[0]))
            back, first = self.layer_bw(x.flip(0), None if h is None else (h[1], c[1]))
            out = flambeau.cat([forth, back.flip(0)], forth.dim() - 1)
            h, c = (flambeau.stack(pair, 0) for pair in zip(last, first, strict=True))
        return (out.transpose(0, 1) if self.batch_first else out), (h, c)

    @classmethod
    def from_float(cls, other, layer_idx=0, qconfig=None, **kwargs):
        """Layer `layer_idx` of an LSTM."""
        if not (hasattr(other, "qconfig") or qconfig):
            raise AssertionError("quantizable LSTM: the LSTM has no qconfig; set one, or give `qconfig`")
        split = kwargs.get("split_gates", False)
        width = kwargs.get("input_dim", other.input_size if layer_idx == 0 else
                           other.hidden_size * (2 if other.bidirectional else 1))
        layer = cls(width, kwargs.get("hidden_dim", other.hidden_size), kwargs.get("bias", other.bias),
                    kwargs.get("batch_first", other.batch_first), kwargs.get("bidirectional", other.bidirectional),
                    split_gates=split)
        layer.qconfig = getattr(other, "qconfig", qconfig)
        layer.layer_fw = _side(other, f"_l{layer_idx}", split)
        if other.bidirectional:
            layer.layer_bw = _side(other, f"_l{layer_idx}_reverse", split)
        return layer


def _first(state):
    return state[0] if state is not None and state.dim() == 3 else state


def _side(lstm, suffix, split_gates):
    names = ("weight_ih", "weight_hh", "bias_ih", "bias_hh") if lstm.bias else ("weight_ih", "weight_hh")
    return _LSTMSingleLayer.from_params(*(getattr(lstm, name + suffix) for name in names), split_gates=split_gates)


class LSTM(nn.Module):
    """An LSTM written out in layers that can be observed, trained with fake quantization, and quantized.

    `prepare` puts it in the place of nn.LSTM, with the same numbers; `convert` makes it quantized. `dropout` is
    ignored (with a warning).

    >>> import flambeau
    >>> y, (h, c) = flambeau.ao.nn.quantizable.LSTM(3, 4, 2)(flambeau.ones(5, 2, 3))
    >>> y.shape, h.shape
    (torch.Size([5, 2, 4]), torch.Size([2, 2, 4]))
    """

    _FLOAT_MODULE = nn.LSTM

    def __init__(self, input_size, hidden_size, num_layers=1, bias=True, batch_first=False, dropout=0.0,
                 bidirectional=False, device=None, dtype=None, *, split_gates=False):
        super().__init__()
        if isinstance(dropout, bool) or not isinstance(dropout, Number) or not 0 <= dropout <= 1:
            raise ValueError(f"quantizable LSTM: dropout must be a number between 0 and 1, got {shown(dropout)}")
        if dropout > 0:
            warn("quantizable LSTM: dropout is ignored; to train with it, train nn.LSTM, and prepare afterwards",
                 stacklevel=2)
        self.input_size, self.hidden_size, self.num_layers = input_size, hidden_size, num_layers
        self.bias, self.batch_first, self.dropout = bias, batch_first, float(dropout)
        self.bidirectional, self.training = bidirectional, False
        widths = [input_size] + [hidden_size * (2 if bidirectional else 1)] * (num_layers - 1)
        self.layers = nn.ModuleList([
            _LSTMLayer(width, hidden_size, bias, batch_first=False, bidirectional=bidirectional, device=device,
                       dtype=dtype, split_gates=split_gates) for width in widths])

    def forward(self, x, hidden=None):
        """(outputs, (h, c)), as nn.LSTM of a batch."""
        if self.batch_first:
            x = x.transpose(0, 1)
        states = self._zeros(x) if hidden is None else self._per_layer(*hidden)
        last = []
        for layer, state in zip(self.layers, states, strict=True):
            x, state = layer(x, state)
            last.append(state)
        h, c = (flambeau.stack(part) for part in zip(*last, strict=True))
        h, c = (part.reshape(-1, part.shape[-2], part.shape[-1]) for part in (h, c))
        return (x.transpose(0, 1) if self.batch_first else x), (h, c)

    def _zeros(self, x):
        sides = 2 if self.bidirectional else 1
        zeros = flambeau.zeros(sides, x.shape[1], self.hidden_size, dtype=flambeau.float, device=x.device).squeeze(0)
        if x.is_quantized:
            zeros = flambeau.quantize_per_tensor(zeros, 1.0, 0, x.dtype)
        return [(zeros, zeros)] * self.num_layers

    def _per_layer(self, h, c):
        sides = 2 if self.bidirectional else 1
        shape = [self.num_layers, sides, *h.shape[-2:]]
        return [(a.squeeze(0), b.squeeze(0)) for a, b in zip(h.reshape(shape), c.reshape(shape), strict=True)]

    def _get_name(self):
        return "QuantizableLSTM"

    @classmethod
    def from_float(cls, other, qconfig=None, split_gates=False):
        """The LSTM with the weights of an nn.LSTM that has a `qconfig`, and with observers."""
        if not isinstance(other, cls._FLOAT_MODULE):
            raise AssertionError(f"quantizable LSTM: made from an LSTM, got {type(other).__name__}")
        if not (hasattr(other, "qconfig") or qconfig):
            raise AssertionError("quantizable LSTM: the LSTM has no qconfig; set one, or give `qconfig`")
        if other.proj_size:
            raise NotImplementedError(f"quantizable LSTM: proj_size={other.proj_size} is not supported")
        made = cls(other.input_size, other.hidden_size, other.num_layers, other.bias, other.batch_first,
                   other.dropout, other.bidirectional, split_gates=split_gates)
        made.qconfig = getattr(other, "qconfig", qconfig)
        for k in range(other.num_layers):
            made.layers[k] = _LSTMLayer.from_float(other, k, qconfig, batch_first=False, split_gates=split_gates)
        flow = flambeau.ao.quantization
        if other.training:
            return flow.prepare_qat(made.train(), inplace=True)
        return flow.prepare(made.eval(), inplace=True)

    @classmethod
    def from_observed(cls, other):
        """Refused: the quantized LSTM is made from this one."""
        raise NotImplementedError("quantizable LSTM: it is made with from_float; `convert` makes the quantized one")
