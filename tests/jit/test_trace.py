"""jit.trace: what a trace keeps, which sizes stay open, what it warns of."""

import collections
import copy
import io
import threading
import warnings

import pytest

import flambeau
from flambeau import nn
from flambeau.nn import functional as F


def through(module):
    """The module of the file that holds it."""
    return flambeau.jit.load(io.BytesIO(module.save_to_buffer()))


class Mixed(nn.Module):
    """Layers of many kinds, in a dict of results."""

    def __init__(self):
        super().__init__()
        self.conv, self.norm = nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4)
        self.attention, self.recurrent = nn.MultiheadAttention(4, 2, batch_first=True), nn.LSTM(4, 4)
        self.layers = nn.Sequential(nn.Linear(4, 2), nn.GELU(), nn.Dropout(0.2), nn.LayerNorm(2))
        self.scale = flambeau.tensor([1.0, 2.0])

    def forward(self, x):
        y = F.relu(self.norm(self.conv(x)))
        z = y.view(y.size(0), 4, -1).transpose(1, 2)
        z, _ = self.attention(z, z, z)
        z, _ = self.recurrent(z)
        z += 1
        z[0, 1:] = 3
        z = F.interpolate(z[None], scale_factor=2)[0]
        return {"out": self.layers(z.mean(1)[:, :4]) * self.scale, "mean": z.mean(1)}


def test_a_module_at_other_sizes():
    module = Mixed().eval()
    traced = flambeau.jit.trace(module, flambeau.rand(2, 3, 8, 8))
    assert isinstance(traced, flambeau.jit.ScriptModule) and traced.original_name == "Mixed"
    for shape in ((2, 3, 8, 8), (1, 3, 8, 8), (5, 3, 9, 12)):
        x = flambeau.rand(shape)
        for found in (traced, through(traced)):
            assert all(flambeau.equal(a, b) for a, b in zip(found(x).values(), module(x).values(), strict=True))
    assert list(traced.state_dict()) == list(module.state_dict())
    assert traced.conv.weight is module.conv.weight  # tensors are shared, as PyTorch shares them


@pytest.mark.parametrize("make", [
    lambda: nn.LSTM(3, 4, 2, batch_first=True, bidirectional=True), lambda: nn.GRU(3, 4), lambda: nn.RNN(3, 4),
    lambda: nn.TransformerEncoderLayer(8, 2, 16, batch_first=True).eval(), lambda: nn.MultiheadAttention(8, 2).eval(),
    lambda: nn.Conv1d(8, 4, 3, padding="same"), lambda: nn.ConvTranspose2d(3, 4, 3, 2), lambda: nn.InstanceNorm2d(3),
    lambda: nn.GroupNorm(1, 3), lambda: nn.Upsample(scale_factor=2, mode="bilinear"), lambda: nn.PixelShuffle(1),
    lambda: nn.AdaptiveMaxPool2d(3), lambda: nn.MaxPool2d(2), lambda: nn.AvgPool2d(2, ceil_mode=True),
    lambda: nn.PReLU(),
    lambda: nn.Flatten(), lambda: nn.Softmax(1), lambda: nn.ReflectionPad2d(1), lambda: nn.LocalResponseNorm(2),
])
def test_layers(make):
    module = make()
    is_image = isinstance(module, (nn.ConvTranspose2d, nn.InstanceNorm2d, nn.GroupNorm, nn.Upsample, nn.PixelShuffle,
                                   nn.AdaptiveMaxPool2d, nn.MaxPool2d, nn.AvgPool2d, nn.PReLU, nn.Flatten, nn.Softmax,
                                   nn.ReflectionPad2d, nn.LocalResponseNorm))
    last = 3 if isinstance(module, nn.RNNBase) else 8

    def given(n):
        x = flambeau.rand(n, 3, 6, 6) if is_image else flambeau.rand(n, 8, last)
        return (x, x, x) if isinstance(module, nn.MultiheadAttention) else (x,)

    traced = through(flambeau.jit.trace(module, given(2)))
    for n in (2, 5):
        inputs = given(n)
        a, b = traced(*inputs), module(*inputs)
        for p, q in zip(flambeau.utils._pytree.tree_leaves(a), flambeau.utils._pytree.tree_leaves(b), strict=True):
            assert flambeau.allclose(p, q, atol=1e-6)


def test_an_example_of_one_leaves_the_first_size_open():
    module = nn.Sequential(nn.Conv2d(1, 2, 3), nn.Flatten(), nn.Linear(2 * 36, 3))
    traced = flambeau.jit.trace(module, flambeau.rand(1, 1, 8, 8))
    assert traced(flambeau.rand(4, 1, 8, 8)).shape == (4, 3)
    kept = flambeau.jit.trace(lambda x: x if x.shape[0] == 1 else x + 1, flambeau.ones(1, 2))
    assert kept(flambeau.ones(1, 2)).tolist() == [[1, 1]]  # the program decides by it: it stays 1


def test_gradients_and_training():
    module = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Tanh(), nn.Linear(4, 1))
    twin = copy.deepcopy(module)
    traced = flambeau.jit.trace(module, flambeau.rand(5, 3), check_trace=False)
    optimizers = [flambeau.optim.SGD(m.parameters(), 0.1) for m in (traced, twin)]
    for _ in range(5):
        x = flambeau.rand(6, 3)
        for m, optimizer in zip((traced, twin), optimizers, strict=True):
            m(x).square().mean().backward()
            optimizer.step()
            optimizer.zero_grad()
    assert all(flambeau.equal(a, b) for a, b in zip(traced.state_dict().values(), twin.state_dict().values(),
                                                    strict=True))


def test_the_check_leaves_running_statistics_as_one_call_does():
    module = nn.BatchNorm1d(3)
    twin = copy.deepcopy(module)
    x = flambeau.rand(4, 3)
    flambeau.jit.trace(module, x)
    twin(x)
    assert flambeau.equal(module.running_mean, twin.running_mean) and module.num_batches_tracked == 1


def test_functions_and_their_arguments():
    shift = flambeau.tensor([1.0, 2.0])

    def f(pair, named, scale):
        return [pair[0] * shift, pair[1]], {"a": named["x"] + scale}, scale.shape[0]

    x, y, z, s = (flambeau.rand(3, 2) for _ in range(4))
    traced = flambeau.jit.trace(f, ((x, y), {"x": z}, s))
    assert isinstance(traced, flambeau.jit.ScriptFunction) and traced.name == "f"
    assert "named: Dict[str, Tensor]" in traced.code and "CONSTANTS.c0" in traced.code
    for found in (traced, through(traced)):
        (a, b), c, n = found((y, x), {"x": s[:2]}, z[:2])
        assert flambeau.equal(a, y * shift) and flambeau.equal(b, x) and n == 2
        assert flambeau.equal(c["a"], s[:2] + z[:2])
    assert next(traced.graph.nodes()).kind() == "prim::Constant"
    by_name = flambeau.jit.trace(lambda x, y: x - y, example_kwarg_inputs={"y": x, "x": y})
    assert flambeau.equal(by_name(x=x, y=y), x - y)
    weight = flambeau.rand(2, requires_grad=True)
    with pytest.raises(RuntimeError, match="requires gradients"):
        flambeau.jit.trace(lambda x: x * weight, x)


def test_several_methods():
    class Two(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(flambeau.ones(2))

        def forward(self, x):
            return x * self.weight

        def shifted(self, x, y):
            return x + self.weight * y

    module = Two()
    x = flambeau.rand(3, 2)
    traced = through(flambeau.jit.trace_module(module, {"forward": x, "shifted": (x, x)}))
    assert flambeau.equal(traced(x), x) and flambeau.equal(traced.shifted(x, x), 2 * x)
    assert flambeau.equal(flambeau.jit.trace(module.shifted, (x, x))(x, x), 2 * x)


def test_shared_modules_and_tied_weights_stay_so():
    module = nn.Sequential(nn.Linear(2, 2), nn.ReLU(), nn.Linear(2, 2))
    module[2].weight = module[0].weight
    module.append(module[0])
    traced = flambeau.jit.trace(module, flambeau.rand(2, 2))
    again = through(traced)
    assert again[0] is again[3] and again[0].weight.data_ptr() == again[2].weight.data_ptr()
    x = flambeau.rand(3, 2)
    assert flambeau.equal(again(x), module(x))


def test_values_that_python_reads_become_constants():
    def f(x):
        return x + 1 if x.sum() > 0 else x - 1

    with pytest.warns(flambeau.jit.TracerWarning, match="reads a value"):
        traced = flambeau.jit.trace(f, flambeau.ones(2))
    assert traced(-flambeau.ones(2)).tolist() == [0, 0]


def test_what_differs_each_time_is_told():
    with pytest.warns(flambeau.jit.TracerWarning, match="differs"):
        flambeau.jit.trace(lambda x: x + len(seen) if seen.append(1) is None else x, flambeau.ones(1)) if (
            seen := []) is not None else None
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        flambeau.jit.trace(nn.Dropout(0.5), flambeau.ones(100))  # draws are those of the same state


def test_is_tracing():
    seen = []

    def f(x):
        seen.append(flambeau.jit.is_tracing())
        return x + 1

    flambeau.jit.trace(f, flambeau.ones(1), check_trace=False)
    assert seen and all(seen) and not flambeau.jit.is_tracing()


def test_a_trace_is_its_threads_own():
    inside, checked, seen = threading.Event(), threading.Event(), []

    def f(x):
        inside.set()
        checked.wait(10)
        return x + 1

    thread = threading.Thread(target=flambeau.jit.trace, args=(f, flambeau.ones(1)), kwargs={"check_trace": False})
    thread.start()
    inside.wait(10)
    seen.append(flambeau.jit.is_tracing())
    checked.set()
    thread.join()
    assert seen == [False]


@pytest.mark.parametrize(("call", "error", "text"), [
    (lambda: flambeau.jit.trace(3, flambeau.ones(1)), TypeError, "expected a function or Module"),
    (lambda: flambeau.jit.trace(lambda x: x), RuntimeError, "example_inputs"),
    (lambda: flambeau.jit.trace(lambda x: x, (3,)), RuntimeError, "tensors"),
    (lambda: flambeau.jit.trace(lambda x: x, flambeau.ones(1), _force_outplace=True), NotImplementedError, "available"),
    (lambda: flambeau.jit.trace_module(nn.ReLU(), {}), AttributeError, "name of a method"),
    (lambda: flambeau.jit.trace_module(lambda x: x, {"forward": flambeau.ones(1)}), AttributeError, "Module"),
    (lambda: flambeau.jit.trace(nn.Linear(2, 2), flambeau.ones(3)), RuntimeError, "3"),
    (lambda: flambeau.jit.trace(lambda x: {"a": x, "b": 1}, flambeau.ones(1)), NotImplementedError, "dict"),
    (lambda: flambeau.jit.RecursiveScriptModule(), TypeError, "jit.load"),
])
def test_what_cannot_be_traced(call, error, text):
    with pytest.raises(error, match=text):
        call()


def test_copies():
    traced = flambeau.jit.trace(nn.Linear(2, 1), flambeau.ones(1, 2))
    twin = copy.deepcopy(traced)
    with flambeau.no_grad():
        twin.weight.zero_()
    assert traced.weight.abs().sum() > 0 and twin(flambeau.ones(1, 2)).item() == twin.bias.item()
    assert flambeau.jit.trace(traced, flambeau.ones(1, 2)) is traced
    with pytest.raises(NotImplementedError, match="finished program"):
        traced.define("def g(self): return 1")


@pytest.mark.parametrize("name", ["relu", "silu", "hardswish", "leaky_relu", "elu", "mish", "dropout"])
def test_activations_in_place_leave_sizes_open(name):
    """The value that a gradient needs is kept by a step of the trace, not behind its back."""
    module = nn.Sequential(nn.Conv1d(2, 2, 1), nn.BatchNorm1d(2)).eval()
    act = getattr(F, name)
    options = {"training": False} if name == "dropout" else {}
    traced = flambeau.jit.trace(lambda x: act(x * 2, inplace=True, **options), flambeau.rand(3, 2))
    assert traced(flambeau.rand(7, 5)).shape == (7, 5)
    whole = nn.Sequential(module, nn.SiLU(inplace=True), nn.Flatten())
    x = flambeau.rand(4, 2, 6)
    assert flambeau.equal(flambeau.jit.trace(whole, x[:1])(x), whole(x))


def test_an_index_that_depends_on_a_size():
    def f(x):
        return x[:, 1:, x.size(2) - 5], x.select(0, x.size(0) - 2), x[x.size(0) // 2]

    traced = flambeau.jit.trace(f, flambeau.rand(5, 6, 7))
    x = flambeau.rand(8, 8, 9)
    for found, expected in zip(traced(x), f(x), strict=True):
        assert flambeau.equal(found, expected)


def test_more_inputs_to_check_several_methods_with():
    class Two(nn.Module):
        def forward(self, x):
            return x + 1

        def twice(self, x):
            return x * 2

    x = flambeau.ones(1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        traced = flambeau.jit.trace_module(Two(), {"forward": x, "twice": x}, check_inputs=[{"forward": x, "twice": x}])
    assert traced(x).item() == 2 == traced.twice(x).item()


def test_sizes_decide_the_scale_where_that_is_asked():
    def resized(x):
        return F.interpolate(x, scale_factor=1.7, mode="bilinear", recompute_scale_factor=True)

    traced = flambeau.jit.trace(resized, flambeau.rand(1, 2, 5, 7))
    x = flambeau.rand(2, 2, 6, 9)
    assert flambeau.allclose(traced(x), resized(x)) and "[1.7, 1.7]" in traced.code


def test_named_tuples_as_inputs():
    pair = collections.namedtuple("pair", ["x", "y"])
    traced = flambeau.jit.trace(lambda p: p[0] - p[1], (pair(flambeau.ones(2), flambeau.zeros(2)),))
    assert traced(pair(flambeau.ones(3) * 3, flambeau.ones(3))).tolist() == [2, 2, 2]


def test_copies_share_tensors():
    traced = flambeau.jit.trace(nn.Linear(2, 2), flambeau.ones(1, 2))
    shallow, deep, x = copy.copy(traced), copy.deepcopy(traced), flambeau.rand(3, 2)
    assert shallow.weight is traced.weight and deep.weight is not traced.weight
    assert flambeau.equal(shallow(x), traced(x)) and flambeau.equal(deep(x), traced(x))
