"""FlopCounterMode: products, convolutions and attention, forward and backward, by module; formulas of users."""

import pytest

import flambeau
import flambeau.nn.functional as F
from flambeau import nn
from flambeau.utils.flop_counter import FlopCounterMode, flop_registry, register_flop_formula
from flambeau.utils.module_tracker import ModuleTracker


def counted(function, *shapes):
    """(forward, forward and backward, {operator: count} of both)."""
    inputs = [flambeau.randn(shape, requires_grad=True) for shape in shapes]
    with FlopCounterMode(display=False) as mode:
        out = function(*inputs)
        forward = mode.get_total_flops()
        out.sum().backward()
    return forward, mode.get_total_flops(), {str(op): n for op, n in mode.get_flop_counts()["Global"].items()}


#: (program, shapes of its inputs, operations forward, with backward)
CASES = {
    "mm": (flambeau.mm, [(2, 3), (3, 4)], 48, 144),
    "bmm": (flambeau.bmm, [(2, 2, 3), (2, 3, 4)], 96, 288),
    "addmm": (flambeau.addmm, [(2, 4), (2, 3), (3, 4)], 48, 144),
    "baddbmm": (flambeau.baddbmm, [(2, 2, 4), (2, 2, 3), (2, 3, 4)], 96, 288),
    "matmul": (flambeau.matmul, [(2, 2, 3), (2, 3, 4)], 96, 288),
    "matmul, folded": (flambeau.matmul, [(2, 5, 3), (3, 4)], 240, 720),
    "matmul, broadcast": (flambeau.matmul, [(2, 1, 2, 3), (2, 3, 4)], 192, 576),
    "matmul with a vector": (flambeau.matmul, [(2, 5, 3), (3,)], 0, 60),
    "einsum": (lambda a, b: flambeau.einsum("bij,bjk->ik", a, b), [(2, 2, 3), (2, 3, 4)], 96, 288),
    "linear": (lambda x: nn.Linear(3, 4)(x), [(5, 3)], 120, 360),
    "linear of three dimensions": (lambda x: nn.Linear(3, 4, bias=False)(x), [(2, 5, 3)], 240, 720),
    "conv1d": (lambda x: nn.Conv1d(4, 6, 3)(x), [(2, 4, 8)], 1728, 5184),
    "conv2d": (lambda x: nn.Conv2d(4, 6, 3, stride=2, padding=1)(x), [(2, 4, 8, 8)], 13824, 41472),
    "conv_transpose2d": (lambda x: nn.ConvTranspose2d(4, 6, 3)(x), [(2, 4, 8, 8)], 55296, 165888),
    "multi-head": (lambda x: nn.MultiheadAttention(4, 2)(x, x, x)[0], [(3, 2, 4)], 1056, 3168),
}


@pytest.mark.parametrize("case", CASES)
def test_counts(case):
    function, shapes, forward, both = CASES[case]
    assert counted(function, *shapes)[:2] == (forward, both)


def test_grouped_convolutions_count_what_is_computed():
    """PyTorch counts the weight's gradient once per group."""
    assert counted(lambda x: nn.Conv2d(4, 6, 3, stride=2, padding=1, groups=2)(x), (2, 4, 8, 8))[:2] == (6912, 3 * 6912)


def test_attention():
    q, k = (2, 3, 5, 4), (2, 3, 6, 4)
    forward, both, names = counted(F.scaled_dot_product_attention, q, k, k)
    assert (forward, both - forward) == (4 * 2 * 3 * 5 * 6 * 4, 10 * 2 * 3 * 5 * 6 * 4)
    assert names == {"aten.scaled_dot_product_attention": both}


def test_recurrent_layers():
    forward, both, _ = counted(lambda x: nn.LSTM(3, 4)(x)[0], (2, 5, 3))
    assert forward == 2 * 10 * 16 * (3 + 4) and both == 3 * forward


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(3, 4)
        self.rest = nn.Sequential(nn.ReLU(), nn.Linear(4, 2))

    def forward(self, x):
        return self.rest(self.first(x))


def test_modules():
    with FlopCounterMode(display=False) as mode:
        Net()(flambeau.ones(5, 3)).sum().backward()
    found = {name: {str(op): n for op, n in counts.items()} for name, counts in mode.get_flop_counts().items()}
    assert found == {
        "Global": {"aten.addmm": 200, "aten.mm": 280}, "Net": {"aten.addmm": 200, "aten.mm": 280},
        "Net.first": {"aten.addmm": 120, "aten.mm": 120}, "Net.rest": {"aten.addmm": 80, "aten.mm": 160},
        "Net.rest.1": {"aten.addmm": 80, "aten.mm": 160}}
    assert len(mode.get_table(depth=3).splitlines()) == 14 and "Net.rest.1" not in mode.get_table(depth=2)


def test_table(capsys):
    with FlopCounterMode(depth=1):
        Net()(flambeau.ones(500_000, 3)).sum()
    assert capsys.readouterr().out.splitlines() == [
        "Module           FLOP    % Total", "------------  -------  ---------", "Net           20.000M    100.00%",
        "- aten.addmm  20.000M    100.00%"]


def test_what_runs_outside_modules_is_global():
    with FlopCounterMode(display=False) as mode:
        Net()(flambeau.ones(5, 3)).sum().backward()
        flambeau.mm(flambeau.ones(2, 2), flambeau.ones(2, 2))
    assert mode.get_total_flops() == 480 + 16 and sum(mode.get_flop_counts()["Net"].values()) == 480
    assert mode.get_table().splitlines()[2].split() == ["Global", "496", "100.00%"]
    with mode:
        pass
    assert mode.get_total_flops() == 0


def test_formulas_of_users():
    @flambeau.library.custom_op("tests::counted", mutates_args=())
    def custom(x: flambeau.Tensor) -> flambeau.Tensor:
        return x * 2

    packet = flambeau.ops.tests.counted

    @register_flop_formula(packet)
    def formula(shape, out_shape=None):
        return 7 * shape[0]

    try:
        with pytest.raises(RuntimeError, match="already"):
            register_flop_formula([packet])(formula)
        with FlopCounterMode(display=False) as mode:
            custom(flambeau.ones(3))
        assert mode.get_flop_counts()["Global"] == {packet: 21}
    finally:
        del flop_registry[packet]
    with FlopCounterMode(display=False, custom_mapping={flambeau.mm: lambda a, b, out_shape=None: 1}) as mode:
        flambeau.mm(flambeau.ones(2, 2), flambeau.ones(2, 2))
        custom(flambeau.ones(3))
    assert mode.get_total_flops() == 1
    with pytest.raises(ValueError, match="operator"):
        register_flop_formula("mm")


def test_which_modules_run():
    seen, tracker = [], ModuleTracker()

    def note(grad):
        seen.append((tracker.is_bw, sorted(tracker.parents)))
        return grad

    class Noted(nn.Module):
        def forward(self, x):
            y = x * 2
            y.register_hook(note)
            note(None)
            return y * 3

    x = flambeau.ones(1, requires_grad=True)
    with tracker:
        nn.Sequential(Noted())(x).backward()
        assert tracker.parents == {"Global"} and not tracker.is_bw
    names = ["Global", "Sequential", "Sequential.0"]
    assert seen == [(False, names), (True, names)]


def test_modules_that_are_named_are_found_anyway():
    with pytest.warns(UserWarning, match="mods is not needed"), FlopCounterMode(nn.Linear(1, 1), display=False):
        pass


def test_scaled_products_and_formulas_that_get_tensors():
    a, b, one = flambeau.ones(16, 32).to(flambeau.float8_e4m3fn), flambeau.ones(32, 16), flambeau.ones(())

    def elements(*args, out_val):
        return out_val.numel()

    elements._get_raw = True
    with FlopCounterMode(display=False, custom_mapping={flambeau.ops.aten.add: elements}) as mode:
        flambeau._scaled_mm(a, b.t().contiguous().t().to(flambeau.float8_e4m3fn), one, one)
        one + flambeau.ones(5)
    assert mode.get_total_flops() == 2 * 16 * 32 * 16 + 5
