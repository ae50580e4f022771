"""What a graph of values makes of programs that write, branch, loop and compute with sizes."""

import pytest

import flambeau
from flambeau import nn
from flambeau.control_flow import map as mapped
from flambeau.control_flow import scan
from flambeau.nn import functional as F
from flambeau.utils._pytree import tree_leaves

onnx = pytest.importorskip("onnx", reason="onnx is not installed")
pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")

W = flambeau.linspace(-1, 1, 6)


def x(rows=4):
    return flambeau.arange(rows * 6.0).reshape(rows, 6).sin()


def check(function, args, others=(), **options):
    """The program of a function, of which a runtime gives what the function gives."""
    program = flambeau.onnx.export(function, args, **options)
    onnx.checker.check_model(program.model_proto, full_check=True)
    for given in (args, *others):
        with flambeau.no_grad():
            wanted = tree_leaves(function(*(a.clone() if isinstance(a, flambeau.Tensor) else a for a in given)))
        found = program(*given)
        assert len(found) == len(wanted)
        for a, b in zip(found, wanted, strict=True):
            assert a.dtype is b.dtype and a.shape == b.shape, (a, b)
            assert flambeau.allclose(a.double(), b.double(), rtol=1e-4, atol=1e-5, equal_nan=True), (a, b)
    return program


# ---- writes ----------------------------------------------------------------------------------------------------------

def in_place(x):
    y = x.clone()
    y.add_(1)
    y[0] = 2
    y[:, 1:3].mul_(3)
    F.relu_(y)
    y[1:, ::2] = x[1:, ::2]
    return y, y[0]


def through_views(x):
    y = flambeau.zeros_like(x)
    row, column, part = y[1], y.t()[2], y.split(2, 1)[1]
    row.copy_(x[0])
    column.add_(1)
    y.view(-1)[0] = 9
    part.mul_(2)
    y.unbind(0)[1][3] = -1
    return y, row, column, part


def diagonals_and_out(x):
    y = x.clone()
    y.diagonal().fill_(0)
    y.select(1, 2).sub_(x[:, 0])
    z = flambeau.empty_like(x)
    flambeau.mul(y, 2, out=z)
    return y, z + 1


def cache(x, places):
    kept = flambeau.zeros(2, 8, 6)
    kept[:, :4] = x
    kept.index_copy_(1, places, x[:1].expand(2, 4, 6)[:, :2])
    mask = kept > 0
    kept[mask] = 0.5
    return kept.masked_fill_(~mask, -1)


@pytest.mark.parametrize("axes", [None, ({0: "rows"},)])
def test_writes(axes):
    check(in_place, (x(),), [(x(7),)] if axes else (), dynamic_shapes=axes)


@pytest.mark.parametrize("function", [through_views, diagonals_and_out])
@pytest.mark.parametrize("optimize", [True, False])
def test_writes_through_views(function, optimize):
    check(function, (x(),), optimize=optimize)


def test_writes_by_index_and_mask():
    check(cache, (x(), flambeau.tensor([5, 6])), [(x() - 1, flambeau.tensor([7, 4]))])


def test_an_argument_is_written_to_inside_only():
    check(lambda x: (x.add_(1), x * 2), (x(),))


# ---- control flow ----------------------------------------------------------------------------------------------------

class Nested(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(6, 6)

    def forward(self, x):
        def low(x):
            return flambeau.cond(x.max() > -5, lambda x: x * 2, lambda x: self.layer(x) * 3, (x,))

        return flambeau.cond(x.sum() > 0, lambda x: self.layer(x), low, (x,))


def test_branches():
    others = [(x() - 10,), (x() + 10,)]
    program = check(lambda x: flambeau.cond(x.sum() > 0, lambda x: (x @ W, x), lambda x: (x.sum(1), x * 2), (x,)),
                    (x(),), others)
    assert "If" in [n.op_type for n in program.model_proto.graph.node]
    check(Nested(), (x(),), [*others, (x() - 3,)])


def test_loops():
    program = check(lambda x: flambeau.while_loop(lambda x: x.abs().max() < 100, lambda x: (x * 2 + W,), (x,)), (x(),),
                    [(x() * 1000,)])
    assert "Loop" in [n.op_type for n in program.model_proto.graph.node]
    check(lambda x: flambeau.while_loop(lambda i, x: i < 3, lambda i, x: (i + 1, x * 2), (flambeau.tensor(0), x)),
          (x(),))


@pytest.mark.parametrize("reverse", [False, True])
def test_scans(reverse):
    def run(x):
        return scan(lambda c, a: (c + a, (c * a, a)), flambeau.zeros(4), x, dim=1, reverse=reverse)

    assert "Scan" in [n.op_type for n in check(run, (x(),)).model_proto.graph.node]
    check(lambda x: mapped(lambda a, b: (a + b, a.sum()), x, x[0]), (x(),))


# ---- sizes -----------------------------------------------------------------------------------------------------------

def sizes(x):
    n = x.shape[0]
    return (x.view(n * 2, -1) * n ** -0.5 + flambeau.arange(n * 2)[:, None].float(), x[:n // 2], x.new_zeros(n, 3),
            flambeau.cat([x, x]).flatten(), x.mean() * n, F.pad(x, (1, n)), x.repeat(2, n), x.roll(1, 0),
            flambeau.ones(n, n).tril(), x.chunk(2, 1)[1], x[-1], x.unsqueeze(1).expand(n, n, 6))


def test_open_sizes():
    program = check(sizes, (x(4),), [(x(8),), (x(6),)], dynamic_shapes=({0: "rows"},))
    shapes = [[d.dim_param or d.dim_value for d in o.type.tensor_type.shape.dim]
              for o in program.model_proto.graph.output]
    assert shapes[0][0] == "2*rows" and shapes[2] == ["rows", 3]


def test_sizes_that_values_decide():
    check(lambda x: (x[x > 0].sum(), flambeau.nonzero(x > 0).shape[0] + x.sum(), x[x > 0]), (x(),), [(x(7),)],
          dynamic_shapes=({0: "rows"},))


def test_an_example_of_one_row_leaves_the_size_open():
    check(nn.Linear(6, 2), (x(1),), [(x(5),)], dynamic_axes={"input": {0: "rows"}})


def test_numbers_as_arguments():
    from flambeau.export import Dim
    check(lambda x, n: x * n, (x(), 3))
    program = check(lambda x, n: x.sum() * n, (x(), 3), [(x(), 5)], dynamic_shapes=({}, Dim.DYNAMIC))
    assert len(program.model_proto.graph.input) == 2


# ---- numbers ---------------------------------------------------------------------------------------------------------

def test_integers():
    check(lambda i: (i // 2, i % 3, i / 2, -i // 2, i ** 2, i >> 1, i & 3, ~i, i << 2, i.float().mean(), i.sum(),
                     flambeau.div(i, 2, rounding_mode="trunc"), i.fmod(3), i // -3, i % -3), (flambeau.arange(-5, 6),))


def test_promotion():
    i = flambeau.arange(6)
    check(lambda x, i: (x + i, i + 1.5, i * 2, x > i, flambeau.where(x > 0, x, i), i / i, i == 2, (i > 0) & (x > 0),
                        flambeau.maximum(x, i.float()), i.bool() + i, x * True), (x()[0], i))


def test_not_a_number():
    special = flambeau.tensor([float("nan"), float("inf"), -float("inf"), -0.0, 0.0, 1.5])
    check(lambda x: (x.isnan(), x.isfinite(), x.nan_to_num(1.0), flambeau.maximum(x, -x), flambeau.fmax(x, x * 0 + 1),
                     x.relu(), x.sign(), flambeau.copysign(W, x), flambeau.atan2(x, W), x.clamp(-1, 1), x != x,
                     flambeau.logaddexp(x, x), flambeau.hypot(x, W), x.signbit()), (special,))


def test_small_numbers_stay_exact():
    tiny = flambeau.tensor([1e-9, -1e-9, 1e-4, 0.5, 3.0, 0.0])
    program = flambeau.onnx.export(lambda x: (x.log1p(), x.expm1()), (tiny,))
    for found, wanted in zip(program(tiny), (tiny.log1p(), tiny.expm1()), strict=True):
        assert flambeau.allclose(found, wanted, rtol=1e-5, atol=0)


def test_complex_numbers():
    def turned(x):
        z = flambeau.view_as_complex(x.reshape(-1, 3, 2))
        return (z * z.conj()).real, flambeau.view_as_real(z[0] + 1j), flambeau.fft.irfft(flambeau.fft.rfft(x)), z.abs()

    check(turned, (x(),), [(x(7),)], dynamic_shapes=({0: "rows"},))


def test_results_that_are_the_same_value():
    program = check(lambda x: {"a": x, "b": [x + 1, x + 1, flambeau.ones(2)]}, (x(),))
    assert len({o.name for o in program.model_proto.graph.output}) == 4


def test_draws():
    """The numbers are the runtime's own; what they are like is not."""
    p = flambeau.tensor([[0.0, 0.5, 0.5, 0.0], [1.0, 0.0, 0.0, 3.0]])
    program = flambeau.onnx.export(lambda p: (p.multinomial(2), p.multinomial(500, True), flambeau.randn(500, 4) + p[0],
                                              F.dropout(flambeau.ones(500, 4) + p[0], 0.5, True)), (p,),
                                   training=flambeau.onnx.TrainingMode.PRESERVE)
    both, many, normal, dropped = program(p)
    assert both.sort().values.tolist() == [[1, 2], [0, 3]] and set(many[0].tolist()) == {1, 2}
    assert abs((many[1] == 3).double().mean().item() - 0.75) < 0.1
    assert abs(normal.std().item() - 1) < 0.2 and abs((dropped == 0).double().mean().item() - 0.5) < 0.1
