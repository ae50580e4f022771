"""jit.freeze: what does not change is constant, with the same results; what changes stays and changes."""

import io

import pytest

import flambeau
from flambeau import nn
from flambeau.nn import functional as F


def through(program):
    return flambeau.jit.load(io.BytesIO(program.save_to_buffer()))


class Mixed(nn.Module):
    """Statistics, branches of training, attributes that change and that do not, a loop, early returns."""

    def __init__(self):
        super().__init__()
        self.conv, self.norm, self.drop = nn.Conv2d(3, 4, 3, bias=False), nn.BatchNorm2d(4), nn.Dropout(0.5)
        self.layers, self.head = nn.ModuleList([nn.Linear(4, 4), nn.Linear(4, 4)]), nn.Linear(4, 2)
        self.count, self.scale, self.sizes, self.extra = 0, 3.0, [1, 2], None
        self.register_buffer("seen", flambeau.zeros(1))
        with flambeau.no_grad():
            self.norm.running_mean.uniform_(-1, 1)
            self.norm.running_var.uniform_(0.5, 2)

    def halved(self, x, n: int):
        if n > 3:
            return x / 2
        for _ in range(n):
            x = x + 1
        return x

    @flambeau.jit.export
    def other(self, x):
        return self.head(x) * self.scale

    def forward(self, x):
        self.count += 1
        y = self.drop(F.relu(self.norm(self.conv(x)), inplace=True))
        if self.training:
            y = y * 2
        self.seen.add_(y.sum())
        z = y.mean((2, 3))
        for layer in self.layers:
            z = layer(z)
        if self.extra is not None:
            z = z + self.extra
        return self.halved(self.head(z), self.sizes[1]) * self.scale


def made():
    flambeau.manual_seed(0)
    return Mixed().eval()


@pytest.mark.parametrize("way", ["script", "trace", "load"])
@pytest.mark.parametrize("options", [{}, {"optimize_numerics": False}])
def test_a_module(way, options):
    module, twin, x = made(), made(), flambeau.rand(2, 3, 6, 6)
    program = flambeau.jit.trace(module, x, check_trace=False) if way == "trace" else flambeau.jit.script(module)
    frozen = flambeau.jit.freeze(through(program) if way == "load" else program, **options)
    for found in (frozen, through(frozen)):
        with flambeau.no_grad():
            assert flambeau.allclose(found(x), twin(x), atol=1e-6)
    assert not list(frozen.parameters()) and list(frozen.state_dict()) == ["seen"]
    assert ("batch_norm" in frozen.code) == (not options.get("optimize_numerics", True))
    assert "dropout" not in frozen.code and "self.training" not in frozen.code and "forward(" not in frozen.code[12:]
    assert frozen.seen.item() > 0 and module.seen.item() == 0  # each changes by itself
    if way != "trace":
        assert frozen.count == 1
    for name in ("conv", "scale", "head", "other"):
        assert not hasattr(frozen, name)


def test_what_is_preserved():
    module = made()
    frozen = flambeau.jit.freeze(flambeau.jit.script(module), ["scale", "other", "head"])
    x = flambeau.rand(3, 4)
    assert frozen.scale == 3.0 and flambeau.allclose(frozen.other(x), module.other(x))
    frozen.scale = 1.0
    again = through(frozen)
    assert flambeau.allclose(again.other(x), module.head(x)) and flambeau.equal(again.head(x), module.head(x))
    assert [name for name, _ in frozen.named_parameters()] == ["head.weight", "head.bias"]
    with flambeau.no_grad():
        frozen.head.weight.zero_()
    assert module.head.weight.abs().sum() > 0  # its tensors are its own


@pytest.mark.parametrize(("call", "error", "text"), [
    (lambda: flambeau.jit.freeze(made()), RuntimeError, "expected a ScriptModule"),
    (lambda: flambeau.jit.freeze(flambeau.jit.script(Mixed())), RuntimeError, "training mode"),
    (lambda: flambeau.jit.freeze(flambeau.jit.script(made()), ["nothing"]), RuntimeError, "no attribute 'nothing'"),
    (lambda: flambeau.jit.freeze(flambeau.jit.script(made()), "scale"), TypeError, "a list of names"),
    (lambda: flambeau.jit.optimize_for_inference(made()), RuntimeError, "expected a ScriptModule"),
    (lambda: flambeau.jit.set_fusion_strategy([("FAST", 2)]), ValueError, "STATIC"),
    (lambda: flambeau.jit.set_fusion_strategy(3), TypeError, "a list like"),
    (lambda: flambeau.jit.optimized_execution(1).__enter__(), TypeError, "a bool"),
])
def test_what_is_refused(call, error, text):
    with pytest.raises(error, match=text):
        call()


def test_optimize_for_inference_freezes_once():
    program = flambeau.jit.script(Mixed())
    ready = flambeau.jit.optimize_for_inference(program, ["other"])
    assert "batch_norm" not in ready.code and not program.training
    assert flambeau.jit.optimize_for_inference(ready) is ready
    assert ready.other(flambeau.ones(1, 4)).shape == (1, 2)


NORMS = [
    (lambda: nn.Conv1d(2, 4, 3, groups=2), nn.BatchNorm1d, (2, 2, 8)), (lambda: nn.Conv3d(2, 3, 2), nn.BatchNorm3d,
                                                                       (1, 2, 4, 4, 4)),
    (lambda: nn.ConvTranspose2d(2, 3, 3, stride=2), nn.BatchNorm2d, (2, 2, 5, 5)),
    (lambda: nn.Conv2d(2, 4, 3, padding="same"), lambda n: nn.BatchNorm2d(n, affine=False), (2, 2, 5, 5)),
]


@pytest.mark.parametrize(("layer", "norm", "shape"), NORMS)
def test_norms_go_into_convolutions(layer, norm, shape):
    layer = layer()
    module = nn.Sequential(layer, norm(layer.out_channels)).eval()
    with flambeau.no_grad():
        module[1].running_mean.uniform_(-1, 1)
        module[1].running_var.uniform_(0.5, 2)
        x = flambeau.rand(shape)
        frozen = flambeau.jit.freeze(flambeau.jit.script(module))
        assert "batch_norm" not in frozen.code and flambeau.allclose(frozen(x), module(x), atol=1e-5)


class Twice(nn.Module):
    """A convolution whose result is used beside its norm: the norm must stay."""

    def __init__(self):
        super().__init__()
        self.conv, self.norm = nn.Conv2d(1, 2, 1), nn.BatchNorm2d(2)

    def forward(self, x):
        y = self.conv(x)
        return self.norm(y) + y


class Changing(nn.Module):
    """Tensors that change by other names: a view, an item of a list, a loop over them."""

    def __init__(self):
        super().__init__()
        self.a, self.b, self.c = (nn.Parameter(flambeau.zeros(2, 2), requires_grad=False) for _ in range(3))
        self.d = nn.Parameter(flambeau.ones(2, 2), requires_grad=False)

    def forward(self, x):
        view = self.a.view(-1)
        view[0] = view[0] + 1
        parts = [self.b, self.c]
        for part in parts:
            part.add_(1)
        y = x * self.d
        y.mul_(2)
        return y + self.a + self.b + self.c


def test_what_may_not_be_worked_out_stays():
    module = Twice().eval()
    with flambeau.no_grad():
        module.norm.running_mean.fill_(1.0)
        x = flambeau.rand(1, 1, 3, 3)
        frozen = flambeau.jit.freeze(flambeau.jit.script(module))
        assert "batch_norm" in frozen.code and flambeau.allclose(frozen(x), module(x))
        program, twin = flambeau.jit.script(Changing().eval()), Changing().eval()
        frozen = flambeau.jit.freeze(program)
        assert sorted(name for name, _ in frozen.named_parameters()) == ["a", "b", "c"]
        for _ in range(3):
            assert flambeau.equal(frozen(flambeau.ones(2, 2)), twin(flambeau.ones(2, 2)))


class Branching(nn.Module):
    """Results in branches, a return in a loop, calls under a condition and in the test of a loop."""

    def __init__(self):
        super().__init__()
        self.weight, self.inner = nn.Parameter(flambeau.ones(2)), Search()

    def scaled(self, x):
        return x * self.weight

    def small(self, x) -> bool:
        return bool((x * self.weight).sum() < 20)

    def forward(self, x):
        while self.small(x):
            x = self.scaled(x) + 1
        y = self.scaled(x) if x.size(0) > 2 else self.scaled(x) * 2
        return flambeau.add(y.add_(1), self.inner(y))


class Search(nn.Module):
    """A return in a loop: it stays a call."""

    def __init__(self):
        super().__init__()
        self.limit = nn.Parameter(flambeau.full((2,), 3.0))

    def forward(self, x):
        for i in range(x.size(0)):
            if bool((x[i] > self.limit).all()):
                return x[i]
        return self.limit


def test_control_flow_keeps_its_order():
    module = Branching().eval()
    frozen = flambeau.jit.freeze(flambeau.jit.script(module))
    with flambeau.no_grad():
        for n in (2, 3):
            x = flambeau.rand(n, 2)
            assert flambeau.allclose(frozen(x.clone()), module(x.clone()))
            assert flambeau.allclose(through(frozen)(x.clone()), module(x.clone()))


class SharedMemory(nn.Module):
    """Attributes of the same memory: what changes one changes the others."""

    def __init__(self):
        super().__init__()
        self.a = flambeau.tensor([1, 2, 3, 4, 5, 6])
        self.b = self.a.view(2, 3)

    def forward(self, x):
        self.b[1] += 10
        return self.a.sum()


class SharedList(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = [1, 2, 3]
        self.b = self.a
        self.c = (self.a, 10)

    def forward(self, x):
        self.b[1] += 10
        return str(self.a) + str(self.c)


@pytest.mark.parametrize("kind", [SharedMemory, SharedList])
def test_attributes_that_share_memory_change_together(kind):
    frozen = flambeau.jit.freeze(flambeau.jit.script(kind().eval()))
    module = kind().eval()
    for _ in range(2):
        assert frozen(flambeau.ones(1)) == module(flambeau.ones(1))
