"""Recurrent layers: agreement with their cells, directions, packed sequences, states, initial values, errors."""

import pytest

import flambeau
from flambeau import nn
from flambeau.nn.utils import rnn

CELLS = {"RNN": nn.RNNCell, "LSTM": nn.LSTMCell, "GRU": nn.GRUCell}
GOLDEN = [-0.12700872123241425, -0.009670525789260864, -0.17236924171447754, -0.020378846675157547]
close = flambeau.allclose


def hidden(state):
    return state[0] if isinstance(state, tuple) else state


@pytest.mark.parametrize("kind", CELLS)
@pytest.mark.parametrize("bias", [True, False])
def test_layer_is_its_cell_step_by_step(kind, bias):
    layer, cell = getattr(nn, kind)(3, 4, bias=bias), CELLS[kind](3, 4, bias=bias)
    cell.load_state_dict({name: layer.state_dict()[name + "_l0"] for name in cell.state_dict()})
    x, state = flambeau.randn(5, 2, 3), None
    out, last = layer(x)
    for t in range(5):
        state = cell(x[t], state)
        assert close(out[t], hidden(state), atol=1e-6)
    assert close(hidden(last)[0], hidden(state), atol=1e-6)
    if kind == "LSTM":
        assert close(last[1][0], state[1], atol=1e-6)
    single, _ = layer(x[:, 0])
    assert close(single, out[:, 0], atol=1e-6)


@pytest.mark.parametrize("kind", CELLS)
def test_second_direction_reads_backwards(kind):
    both, one = getattr(nn, kind)(3, 4, bidirectional=True), getattr(nn, kind)(3, 4)
    state = both.state_dict()
    one.load_state_dict({name: state[name + "_reverse"] for name in one.state_dict()})
    x = flambeau.randn(5, 2, 3)
    out, last = both(x)
    expected, expected_last = one(x.flip(0))
    assert close(out[..., 4:], expected.flip(0), atol=1e-6)
    assert close(hidden(last)[1], hidden(expected_last)[0], atol=1e-6)


@pytest.mark.parametrize("kind", CELLS)
@pytest.mark.parametrize("options", [{}, {"num_layers": 2, "bidirectional": True}, {"batch_first": True}])
def test_packed_sequences_equal_each_alone(kind, options):
    layer = getattr(nn, kind)(3, 4, **options)
    sequences = [flambeau.randn(n, 3) for n in (2, 5, 1)]
    out, last = layer(rnn.pack_sequence(sequences, enforce_sorted=False))
    for k, (sequence, found) in enumerate(zip(sequences, rnn.unpack_sequence(out), strict=True)):
        expected, expected_last = layer(sequence)
        assert close(found, expected, atol=1e-6)
        assert close(hidden(last)[:, k], hidden(expected_last), atol=1e-6)


def test_initial_states_follow_the_order_of_packed_sequences():
    layer = nn.GRU(3, 4)
    sequences = [flambeau.randn(n, 3) for n in (1, 3)]
    h = flambeau.randn(1, 2, 4)
    _, last = layer(rnn.pack_sequence(sequences, enforce_sorted=False), h)
    assert close(last[:, 1], layer(sequences[1], h[:, 1])[1], atol=1e-6)


def test_pytorchs_numbers():
    flambeau.manual_seed(0)
    layer = nn.LSTM(2, 2)
    assert repr(nn.LSTM(2, 3, 2, False, True, 0.5, True, 1)) == (
        "LSTM(2, 3, proj_size=1, num_layers=2, bias=False, batch_first=True, dropout=0.5, bidirectional=True)"
    )
    assert list(layer.state_dict()) == ["weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0"]
    out, (h, c) = layer(flambeau.ones(2, 1, 2))
    assert out.flatten().tolist() == pytest.approx(GOLDEN, rel=1e-5)
    assert flambeau.equal(out[-1], h[0]) and c.shape == (1, 1, 2)


def test_gradients_reach_every_weight():
    layer = nn.LSTM(2, 3, 2, bidirectional=True, proj_size=2)
    layer(flambeau.randn(4, 2, 2))[0].sum().backward()
    assert all(p.grad is not None and p.grad.abs().sum().item() > 0 for p in layer.parameters())


@pytest.mark.parametrize(
    ("act", "error", "text"),
    [
        (lambda: nn.LSTM(2, 3)(flambeau.zeros(4, 1, 5)), RuntimeError, "5 features, expected input_size="),
        (lambda: nn.LSTM(2, 3)(flambeau.zeros(4)), ValueError, "input must have"),
        (lambda: nn.GRU(2, 3)(flambeau.zeros(4, 1, 2), flambeau.zeros(1, 2, 3)), RuntimeError, r"shape \[1, 1, 3\]"),
        (lambda: nn.LSTM(2, 3)(flambeau.zeros(4, 1, 2), (flambeau.zeros(1, 1, 3),)), IndexError, "2 hidden states"),
        (lambda: nn.LSTM(2, 3)(flambeau.zeros(4, 1, 2), flambeau.zeros(9, 9, 9)), RuntimeError, "2 hidden states"),
        (lambda: nn.GRU(2, 3)(flambeau.zeros(4, 2), flambeau.zeros(1, 1, 3)), RuntimeError, "the state must have"),
        (lambda: nn.GRUCell(2, 3)(flambeau.zeros(4, 2), flambeau.zeros(5, 3)), RuntimeError, "samples, and state"),
        (lambda: nn.LSTM(2, 3)(flambeau.zeros(0, 1, 2)), RuntimeError, "the sequence is empty"),
        (lambda: nn.LSTM(2, 3, proj_size=3), ValueError, "proj_size must be"),
        (lambda: nn.RNN(2, 3, nonlinearity="sin"), ValueError, "nonlinearity must be"),
        (lambda: nn.RNN(2, 3, 0), ValueError, "num_layers"),
        (lambda: nn.LSTMCell(2, 3)(flambeau.zeros(1, 3)), RuntimeError, "3 features, expected input_size="),
        (lambda: rnn.pack_padded_sequence(flambeau.zeros(3, 2), [1, 3]), RuntimeError, "lengths must fall"),
        (lambda: rnn.pack_padded_sequence(flambeau.zeros(3, 2), [3, 0]), RuntimeError, "every length must be positive"),
        (lambda: rnn.pack_padded_sequence(flambeau.zeros(3, 2), [4, 1]), RuntimeError, "3 steps"),
        (lambda: rnn.pack_padded_sequence(flambeau.zeros(3, 2), [3]), RuntimeError, "one length for each of the 2"),
        (lambda: rnn.pad_sequence([]), RuntimeError, "expected an iterable of one or more tensors"),
        (lambda: rnn.pad_sequence(5), RuntimeError, "expected an iterable of one or more tensors"),
    ],
)
def test_wrong_use(act, error, text):
    with pytest.raises(error, match=text):
        act()


def test_dropout_needs_layers_between():
    with pytest.warns(UserWarning, match="num_layers"):
        nn.GRU(2, 3, dropout=0.5)


def test_padding_and_packing():
    sequences = [flambeau.tensor([1, 2]), flambeau.tensor([3, 4, 5]), flambeau.tensor([6])]
    assert rnn.pad_sequence(sequences).tolist() == [[1, 3, 6], [2, 4, 0], [0, 5, 0]]
    assert rnn.pad_sequence(sequences, True, -1, "left").tolist() == [[-1, 1, 2], [3, 4, 5], [-1, -1, 6]]
    packed = rnn.pack_sequence(sequences, enforce_sorted=False)
    assert packed.data.tolist() == [3, 1, 6, 4, 2, 5] and packed.batch_sizes.tolist() == [3, 2, 1]
    padded, lengths = rnn.pad_packed_sequence(packed, True, padding_value=9, total_length=4)
    assert padded.tolist() == [[1, 2, 9, 9], [3, 4, 5, 9], [6, 9, 9, 9]] and lengths.tolist() == [2, 3, 1]
    assert [s.tolist() for s in rnn.unpack_sequence(packed)] == [[1, 2], [3, 4, 5], [6]]
    with pytest.raises(ValueError, match="total_length"):
        rnn.pad_packed_sequence(packed, total_length=2)


VARIANTS = [
    ("LSTM", {"num_layers": 2, "bidirectional": True, "proj_size": 2}),
    ("LSTM", {"bias": False}),
    ("GRU", {"num_layers": 2, "bidirectional": True}),
    ("GRU", {"bias": False}),
    ("RNN", {"nonlinearity": "relu", "bidirectional": True}),
    ("RNN", {}),
]
FUNCTIONS = {"LSTM": flambeau.lstm, "GRU": flambeau.gru, "tanh": flambeau.rnn_tanh, "relu": flambeau.rnn_relu}


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize(("kind", "options"), VARIANTS)
def test_derivatives_of_both_orders(kind, options, packed):
    layer = getattr(nn, kind)(2, 3, dtype=flambeau.float64, **options)
    rows, project = len(layer._names), options.get("proj_size")
    x = flambeau.randn(3, 2, 2, dtype=flambeau.float64, requires_grad=True)
    h = flambeau.randn(rows, 2, 3, dtype=flambeau.float64, requires_grad=True)
    weights = [p.detach().requires_grad_() for p in layer.parameters()]
    function = FUNCTIONS[options.get("nonlinearity", "tanh") if kind == "RNN" else kind]

    def run(x, h, *weights):
        states = (h[..., :project] if project else h, h * 0.5) if kind == "LSTM" else h
        settings = states, weights, layer.bias, layer.num_layers, 0.0, True, layer.bidirectional
        if packed:
            return tuple(function(x.reshape(-1, 2)[:5], flambeau.tensor([2, 2, 1]), *settings))
        return tuple(function(x, *settings, False))

    assert flambeau.autograd.gradcheck(run, (x, h, *weights))
    if layer.num_layers == 1:
        assert flambeau.autograd.gradgradcheck(run, (x, h, *weights))


@pytest.mark.parametrize("kind", CELLS)
def test_many_sequences_are_divided_among_threads_without_a_trace(kind):
    layer = getattr(nn, kind)(40, 48)
    x, found = flambeau.randn(30, 37, 40), []
    threads = flambeau.get_num_threads()
    for count in (1, 2, 3):
        flambeau.set_num_threads(count)
        layer.zero_grad()
        out, _ = layer(x)
        out.sum().backward()
        found.append([out.detach(), layer.weight_hh_l0.grad.clone()])
    flambeau.set_num_threads(threads)
    assert all(flambeau.equal(a, b) for other in found[1:] for a, b in zip(other, found[0], strict=True))


@pytest.mark.parametrize("dtype", [flambeau.bfloat16, flambeau.float16])
@pytest.mark.parametrize("kind", ["LSTM", "GRU", "RNN", "projected"])
@pytest.mark.parametrize(("steps", "batch"), [(1, 1), (1, 4), (9, 1), (9, 3), (9, 6)])  # up to 4 meet them unwidened
def test_weights_that_are_halves_keep_sums_and_states_in_float32(steps, batch, kind, dtype):
    make = (lambda: nn.LSTM(33, 40, 2, proj_size=21)) if kind == "projected" else lambda: getattr(nn, kind)(33, 40, 2)
    layer, x = make().to(dtype), flambeau.randn(steps, batch, 33).to(dtype)
    exact = make().double()
    exact.load_state_dict(layer.state_dict())
    wide, x = x.double().requires_grad_(), x.requires_grad_()
    found, right = layer(x)[0], exact(wide)[0]
    found.backward(flambeau.ones_like(found)), right.backward(flambeau.ones_like(right))
    pairs = [(found, right), (x.grad, wide.grad)]
    pairs += [(p.grad, q.grad) for p, q in zip(layer.parameters(), exact.parameters(), strict=True)]
    for a, b in pairs:
        assert a.dtype is dtype
        assert (a.double() - b).abs().max().item() <= 4 * flambeau.finfo(dtype).eps * max(1, b.abs().max().item())


def test_dropout_between_layers_falls_on_packed_rows():
    layer = nn.LSTM(3, 4, 2, dropout=0.5)
    packed = rnn.pack_sequence([flambeau.randn(n, 3) for n in (3, 1)])
    flambeau.manual_seed(1)
    first = layer(packed)[0].data
    assert not close(first, layer(packed)[0].data)
    flambeau.manual_seed(1)
    assert close(first, layer(packed)[0].data)


def test_no_sequences_at_all():
    layer = nn.LSTM(3, 4)
    out, (h, c) = layer(flambeau.zeros(5, 0, 3))
    out.sum().backward()
    assert out.shape == (5, 0, 4) and h.shape == c.shape == (1, 0, 4)
    assert layer.weight_hh_l0.grad.abs().sum().item() == 0


@pytest.mark.parametrize("kind", [*CELLS, "projected"])
@pytest.mark.parametrize("dtype", [flambeau.float32, flambeau.float64, flambeau.bfloat16])
@pytest.mark.parametrize("batch", [1, 3, 20])
def test_few_sequences_are_the_same_on_any_number_of_threads(kind, batch, dtype):
    """Threads share the units of each step; shorter sequences end on the way or, reversed, begin there."""
    layer = nn.LSTM(70, 300, proj_size=150, bidirectional=True) if kind == "projected" else \
        getattr(nn, kind)(70, 300, bidirectional=True)
    layer, x = layer.to(dtype), flambeau.randn(9, batch, 70, dtype=dtype).requires_grad_()
    lengths = flambeau.arange(9, 9 - batch, -1).remainder(9).add(1).sort(descending=True).values
    before, found = flambeau.get_num_threads(), []
    try:
        for threads in (1, 2, 3):
            flambeau.set_num_threads(threads)
            layer.zero_grad()
            x.grad = None
            out, last = layer(x)
            packed, ended = layer(rnn.pack_padded_sequence(x, lengths))
            states = [*last, *ended] if isinstance(last, tuple) else [last, ended]
            sum(y.square().sum() for y in (out, packed.data, *states)).backward()
            found.append([out.detach(), packed.data.detach(), x.grad, *(p.grad for p in layer.parameters())])
    finally:
        flambeau.set_num_threads(before)
    for a, b, c in zip(*found, strict=True):
        assert flambeau.equal(a, b) and flambeau.equal(a, c)


class OwnForward(nn.LSTM):
    """A forward made of the parts that nn.LSTM offers to classes of this kind."""

    def forward(self, input, hx):
        self.check_forward_args(input, hx, None)
        hx = self.permute_hidden(hx, flambeau.tensor([1, 0]))
        return super().forward(input, hx)


def test_parts_for_a_forward_of_ones_own():
    layer, x = OwnForward(3, 4, num_layers=2, bidirectional=True, proj_size=2), flambeau.randn(5, 2, 3)
    assert layer.get_expected_hidden_size(x, None) == (4, 2, 2) and layer.get_expected_cell_size(x, None) == (4, 2, 4)
    assert layer.get_expected_hidden_size(x, flambeau.tensor([3, 1])) == (4, 3, 2)
    h, c = flambeau.randn(4, 2, 2), flambeau.randn(4, 2, 4)
    expected = nn.LSTM.forward(layer, x, (h.flip(1), c.flip(1)))[0]
    assert flambeau.allclose(layer(x, (h, c))[0], expected)
    for bad, state in ((x[0], (h, c)), (flambeau.ones(5, 2, 4), (h, c)), (x, (h, h)), (x, (c, c))):
        with pytest.raises(RuntimeError, match=r"LSTM: expected an input|must have size"):
            layer(bad, state)
    plain = nn.GRU(3, 4, batch_first=True)
    assert plain.get_expected_hidden_size(x, None) == (1, 5, 4)
    assert plain.permute_hidden(h, None) is h and plain.permute_hidden(h, flambeau.tensor([1])).shape == (4, 1, 2)
    with pytest.raises(RuntimeError, match="the state must have size"):
        plain.check_hidden_size(h, (1, 1, 1))


def test_packed_sequences_can_be_pinned_where_there_is_a_device():
    packed = nn.utils.rnn.pack_sequence([flambeau.ones(2, 1), flambeau.ones(1, 1)])
    assert packed.is_pinned() is False
    if not flambeau.cuda.is_available():
        with pytest.raises(RuntimeError):
            packed.pin_memory()


def test_cells_without_hidden_units():
    for cell in (nn.RNNCell(4, 0), nn.GRUCell(4, 0), nn.LSTMCell(4, 0)):
        for shape in ((3, 4), (4,)):
            found = cell(flambeau.ones(shape))
            for state in found if isinstance(found, tuple) else (found,):
                assert state.shape == (*shape[:-1], 0)


def test_only_an_lstm_projects():
    for kind in (nn.RNN, nn.GRU):
        for size in (0, 2):
            with pytest.raises(ValueError, match="belongs to LSTM"):
                kind(3, 4, proj_size=size)
        with pytest.raises(TypeError, match="unexpected keyword argument"):
            kind(3, 4, size=2)


def test_weights_in_one_list():
    lstm = nn.LSTM(2, 3, 2, bidirectional=True)
    weights = lstm._flat_weights
    assert [id(w) for w in weights] == [id(w) for w in lstm.parameters()]
    lstm._flat_weights = [nn.Parameter(flambeau.zeros_like(w)) for w in weights]
    assert all(not w.any() for w in lstm.parameters()) and lstm(flambeau.ones(1, 1, 2))[0].count_nonzero() == 0
