"""Recurrent cells whose weights are bytes or halves: products by dynamic quantized layers, the rest in floats."""

from ..ops.kinds import OPS


def rnn(act, given, held, h):
    """act(given + held)."""
    return OPS[act](given + held)


def lstm(given, held, h, c):
    """The next (h, c) of an LSTM whose gates are the sums of both."""
    i, f, g, o = (given + held).chunk(4, -1)
    c = f.sigmoid() * c + i.sigmoid() * g.tanh()
    return o.sigmoid() * c.tanh(), c


def gru(given, held, h):
    """The next h of a GRU."""
    (ri, zi, ni), (rh, zh, nh) = given.chunk(3, -1), held.chunk(3, -1)
    r, z = (ri + rh).sigmoid(), (zi + zh).sigmoid()
    n = (ni + nh * r).tanh()
    return (h - n) * z + n


def _checked(name, input, h):
    if input.ndim != 2 or h.ndim != 2 or len(input) != len(h):
        raise RuntimeError(f"{name}: expected a matrix of inputs and one of states with as many rows, got "
                           f"{list(input.shape)} and {list(h.shape)}")


def quantized_lstm_cell_dynamic(input, hx, w_ih, w_hh, bias_ih=None, bias_hh=None):
    """One step of an LSTM; the packed weights have the biases."""
    _checked("quantized_lstm_cell_dynamic", input, hx[0])
    return lstm(w_ih.dynamic(input), w_hh.dynamic(hx[0]), *hx)


def quantized_gru_cell_dynamic(input, hx, w_ih, w_hh, b_ih=None, b_hh=None):
    """One step of a GRU; the packed weights have the biases."""
    _checked("quantized_gru_cell_dynamic", input, hx)
    return gru(w_ih.dynamic(input), w_hh.dynamic(hx), hx)


def rnn_cell_dynamic(act):
    """The function of one step of a plain recurrent cell."""
    def step(input, hx, w_ih, w_hh, b_ih=None, b_hh=None):
        _checked(f"quantized_rnn_{act}_cell_dynamic", input, hx)
        return rnn(act, w_ih.dynamic(input), w_hh.dynamic(hx), hx)
    step.__doc__ = f"One step of a recurrent cell with {act}; the packed weights have the biases."
    return step
