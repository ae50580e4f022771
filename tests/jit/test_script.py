# ruff: noqa: UP006, UP045 (as programs for PyTorch write types)
"""jit.script: functions and modules run as they are; their programs, written from the source, do the same."""

import enum
import io
import math
from pathlib import Path
from typing import Dict, Final, List, NamedTuple, Optional, Tuple  # noqa: UP035

import pytest

import flambeau
from flambeau import nn
from flambeau.nn import functional as F

OFFSET = 2


def through(program):
    return flambeau.jit.load(io.BytesIO(program.save_to_buffer()))


def twice(x, *, times=2, more: bool = False):
    return x * times + (1 if more else 0)


@flambeau.jit.script
def many(x, y: Optional[flambeau.Tensor] = None, n: int = 2, names: Tuple[str, str] = ("a", "b")):
    """A function with a little of everything."""
    assert x.dim() == 2, f"expected a matrix, got {x.dim()} dimensions"
    out: List[flambeau.Tensor] = []
    for i in range(n):
        if i % 2 == 0:
            out.append(F.relu(x, inplace=False) * i + OFFSET)
        else:
            out.append(flambeau.softmax(x, dim=-1))
    table: Dict[str, int] = {}
    for i, name in enumerate(names):
        table[name] = i
    a = b = len(table)
    assert all(len(name) == 1 for name in names)
    z = flambeau.cat(out, 0).view(-1, x.size(1)) * a / b
    z = twice(z, more=True).to(flambeau.float64)
    z[0, 0] = math.pi
    return z if y is None else z + y, [v + 1 for v in table.values()], flambeau.zeros(2, dtype=flambeau.int64)


def test_a_function():
    x = flambeau.rand(3, 4)
    program = through(many)
    for args in ((x,), (x, flambeau.ones(4)), (x, None, 3)):
        a, b = many(*args), program(*args, *((None, 2, ("a", "b"))[len(args) - 1:]))
        assert flambeau.allclose(a[0], b[0]) and a[1] == b[1] and flambeau.equal(a[2], b[2])
    with pytest.raises(AssertionError, match="got 1 dimensions"):
        program(x[0], None, 2, ("a", "b"))
    assert many.__name__ == "many" and "torch.softmax(x, -1)" in many.code and many.__doc__.startswith("A function")
    assert many.qualified_name.endswith(".many")
    assert many.graph.findNode("aten::softmax").outputsSize() == 1


class Block(nn.Module):
    """A residual block whose shortcut may be missing."""

    factor: Final[float] = 0.5

    def __init__(self, channels, shortcut=False):
        super().__init__()
        self.conv, self.norm = nn.Conv2d(channels, channels, 3, padding=1), nn.BatchNorm2d(channels)
        self.act = nn.ReLU(True)
        self.shortcut = nn.Conv2d(channels, channels, 1) if shortcut else None
        self.scale, self.name = 0.5, "block"

    def forward(self, x):
        identity = x
        if self.shortcut is not None:
            identity = self.shortcut(x)
        return self.act(self.norm(self.conv(x)) * self.scale + identity)


class Net(nn.Module):
    """Containers, methods, control flow by values, an attribute that changes."""

    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList([Block(3), Block(3, True)])
        self.pool, self.drop = nn.AdaptiveAvgPool2d(1), nn.Dropout(0.5)
        self.head = nn.Sequential(nn.Flatten(), nn.Linear(3, 8), nn.GELU(), nn.Dropout(0.1), nn.LayerNorm(8),
                                  nn.Linear(8, 2))
        self.ways = nn.ModuleDict({"up": nn.Linear(2, 2), "down": nn.Linear(2, 2)})
        self.rnn, self.calls, self.limit = nn.LSTM(2, 4, batch_first=True), 0, [1.5, 2.5]

    def features(self, x: flambeau.Tensor) -> flambeau.Tensor:
        for k, block in enumerate(self.blocks):
            x = block(x) + k
        return x

    @flambeau.jit.ignore
    def plot(self, x):
        return x.numpy()

    @flambeau.jit.export
    def count(self) -> int:
        return self.calls

    def forward(self, x, n: int = 1):
        if not flambeau.jit.is_scripting():
            assert isinstance(x, flambeau.Tensor)
        self.calls += 1
        y = self.head(self.pool(self.features(x)))
        k = 0
        while k < n:
            y = y + self.limit[0]
            k += 1
        for _, way in self.ways.items():
            y = way(y)
        if bool(y.sum() > 0):
            y = F.normalize(y, dim=1)
        out, (h, c) = self.rnn(y[:, None])
        return {"y": self.drop(y), "out": out, "h": h + 0 * c}


def test_a_module():
    module = Net().eval()
    scripted = flambeau.jit.script(module)
    assert isinstance(scripted, flambeau.jit.ScriptModule) and isinstance(scripted, Net)
    assert flambeau.jit.script(scripted) is scripted and scripted.original_name == "Net"
    assert scripted.head[1].weight is module.head[1].weight and list(scripted.state_dict()) == list(module.state_dict())
    program = through(scripted)
    for shape, n in (((2, 3, 8, 8), 1), ((4, 3, 5, 5), 3)):
        x = flambeau.rand(shape)
        a, b, c = module(x, n), scripted(x, n), program(x, n)
        assert all(flambeau.allclose(a[key], b[key]) and flambeau.allclose(a[key], c[key], atol=1e-6) for key in a)
    assert program.count() == 2 and program.limit == [1.5, 2.5] and program.blocks[0].name == "block"
    program.train()
    assert program(flambeau.rand(2, 3, 8, 8))["y"].shape == (2, 2) and program.blocks[0].norm.num_batches_tracked == 1
    assert "for " not in scripted.code  # the loop over modules is written out


@pytest.mark.parametrize("make", [
    lambda: nn.Linear(4, 4), lambda: nn.Linear(4, 4, bias=False), lambda: nn.MaxPool2d(2, ceil_mode=True),
    lambda: nn.Conv2d(4, 2, 3, 2, 1, padding_mode="reflect"), lambda: nn.BatchNorm2d(4), lambda: nn.Hardswish(),
    lambda: nn.BatchNorm2d(4, affine=False), lambda: nn.SiLU(), lambda: nn.LeakyReLU(0.1, True), lambda: nn.ReLU6(),
    lambda: nn.ELU(0.5), lambda: nn.Softplus(), lambda: nn.PReLU(), lambda: nn.GroupNorm(2, 4), lambda: nn.LayerNorm(4),
    lambda: nn.Identity(), lambda: nn.Upsample(scale_factor=2), lambda: nn.Upsample((8, 6), mode="bilinear"),
    lambda: nn.AdaptiveAvgPool2d(1), lambda: nn.Softmax(dim=1), lambda: nn.Sigmoid(),
    lambda: nn.ConvTranspose2d(4, 2, 2), lambda: nn.Flatten(), lambda: nn.LogSoftmax(1), lambda: nn.ZeroPad2d(1),
    lambda: nn.Dropout2d(0.2).eval(), lambda: nn.AdaptiveMaxPool2d((None, 2)), lambda: nn.AdaptiveMaxPool2d([2, 3]),
    lambda: nn.AdaptiveAvgPool2d((None, 3)), lambda: nn.AdaptiveMaxPool2d([None, 1]),
    lambda: nn.AvgPool2d(2), lambda: nn.Tanh(), lambda: nn.Mish(), lambda: nn.Hardsigmoid(),
])
def test_layers(make):
    module = nn.Sequential(make(), nn.Identity())
    twin = through(flambeau.jit.script(module))
    x = flambeau.randn(2, 4, 4, 4)
    assert flambeau.allclose(twin(x.clone()), module(x.clone()), atol=1e-6)


@pytest.mark.parametrize("make", [
    lambda: nn.LSTM(3, 4, 2, bidirectional=True), lambda: nn.GRU(3, 4, batch_first=True),
    lambda: nn.RNN(3, 4, nonlinearity="relu")])
def test_recurrent_layers_take_their_states_or_none(make):
    class Outer(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = make()

        def forward(self, x):
            out, state = self.inner(x)
            out, state = self.inner(x, state)
            return out

    module = Outer()
    x = flambeau.rand(5, 2, 3)
    assert flambeau.allclose(through(flambeau.jit.script(module))(x), module(x), atol=1e-6)


@pytest.mark.parametrize("make", [lambda: nn.LSTMCell(3, 4), lambda: nn.GRUCell(3, 4), lambda: nn.RNNCell(3, 4)])
@pytest.mark.parametrize("shape", [(3,), (2, 3)])
def test_cells(make, shape):
    module = make()
    program = through(flambeau.jit.script(module))
    x = flambeau.rand(shape)
    first, again = module(x), program(x)
    for a, b in ((first, again), (module(x, first), program(x, again))):
        pairs = zip(a, b, strict=True) if isinstance(a, tuple) else [(a, b)]
        assert all(p.shape == q.shape and flambeau.allclose(p, q, atol=1e-6) for p, q in pairs)


@pytest.mark.parametrize("batch_first", [False, True])
@pytest.mark.parametrize("mask", [None, "truths", "numbers"])
def test_attention(batch_first, mask):
    module = nn.MultiheadAttention(8, 2, 0.1, batch_first=batch_first).eval()
    program = through(flambeau.jit.script(module))
    x, y = flambeau.rand(5, 5, 8), flambeau.rand(5, 5, 8)
    hidden = None if mask is None else flambeau.ones(5, 5).triu(1) * (-2.0 if mask == "numbers" else 1)
    hidden = hidden.bool() if mask == "truths" else hidden
    padding = None if mask is None else flambeau.tensor([[False] * 4 + [True]] * 5)
    padding = padding if mask != "numbers" else padding * -3.0
    for options in ({}, {"average_attn_weights": False}, {"need_weights": False}):
        args = {"attn_mask": hidden, "key_padding_mask": padding, **options}
        (a, w), (b, v) = module(x, y, y, **args), program(x, y, y, **args)
        assert flambeau.allclose(a, b, atol=1e-5) and (w is None) == (v is None)
        assert w is None or flambeau.allclose(w, v, atol=1e-5)
    single = module(x[0], y[0], y[0]), program(x[0], y[0], y[0])
    assert all(flambeau.allclose(a, b, atol=1e-5) for a, b in zip(*single, strict=True))


@pytest.mark.parametrize("options", [{}, {"norm_first": True, "activation": F.gelu}, {"activation": nn.SiLU()}])
def test_transformers(options):
    encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, **options), 2)
    decoder = nn.TransformerDecoder(nn.TransformerDecoderLayer(8, 2, 16, batch_first=True, **options), 2)
    x, memory = flambeau.rand(2, 4, 8), flambeau.rand(2, 5, 8)
    mask = nn.Transformer.generate_square_subsequent_mask(4)
    for module, args in ((encoder.eval(), (x, mask)), (decoder.eval(), (x, memory, mask))):
        assert flambeau.allclose(through(flambeau.jit.script(module))(*args), module(*args), atol=1e-5)


class Configured(nn.Module):
    """Functions and constants as attributes, modules named by numbers."""

    shift = 3

    def __init__(self, act):
        super().__init__()
        self.act, self.reduction, self.depth = act, "sum", 2
        for k in range(2):
            setattr(self, f"layer{k}", nn.Linear(2, 2))

    def forward(self, x, target):
        for k in range(self.depth):
            x = getattr(self, f"layer{k}")(x)
            if hasattr(self, f"norm{k}"):
                x = getattr(self, f"norm{k}")(x)
        loss = F.mse_loss(self.act(x), target, reduction=self.reduction)
        return clipped(loss, 0.5, self.depth) + self.shift


def clipped(x, low, times):
    for _ in range(times):
        x = x.clamp(min=low)
    return x


@pytest.mark.parametrize("act", [F.relu, nn.Tanh(), flambeau.sigmoid])
def test_what_a_module_is_made_with(act):
    module = Configured(act)
    x, y = flambeau.rand(3, 2), flambeau.rand(3, 2)
    assert flambeau.allclose(through(flambeau.jit.script(module))(x, y), module(x, y))


def inside(mode: str):
    return mode not in ["worse", "not inside"]


def test_exceptions_and_constants():
    @flambeau.jit.script
    def f(x, mode: str):
        if not inside(mode) or mode == "bad":
            raise ValueError(f"no mode {mode}")
        return x * TABLE[0] + SHIFT

    program = through(f)
    assert program(flambeau.ones(1), "good").item() == 8
    with pytest.raises(ValueError, match="no mode bad"):
        program(flambeau.ones(1), "bad")
    with pytest.raises(ValueError, match="no mode not inside"):
        program(flambeau.ones(1), "not inside")
    assert "not  inside" not in f.code.replace("if not  inside", "") and "not  __torch__" not in f.code


TABLE, SHIFT = (3, 4), flambeau.tensor([5.0])


class Colour(enum.Enum):
    """Something that no program has here."""

    RED = 1


@pytest.mark.parametrize(("function", "text"), [
    (lambda x: x, "def"), (eval("lambda x: x"), "source"),
])
def test_functions_without_a_source_of_their_own(function, text):
    assert flambeau.jit.script(function)(flambeau.ones(1)) == 1
    with pytest.raises(NotImplementedError, match=text):
        flambeau.jit.script(function).code  # noqa: B018


class Defaults:
    """Attributes of a class that say what there is."""

    scale, shift = None, 2.0


@flambeau.jit.script
def by_attributes_of_a_class(x):
    if Defaults.scale is not None:
        x = x * Defaults.scale
    return x if Defaults.shift is None else x + Defaults.shift


def test_attributes_of_a_class_that_are_none():
    assert "if" not in by_attributes_of_a_class.code and through(by_attributes_of_a_class)(flambeau.ones(1)).item() == 3


class Kept(nn.Module):
    """An attribute that is None at first, and one that stays None."""

    last: Optional[flambeau.Tensor]

    def __init__(self):
        super().__init__()
        self.last, self.scale = None, None

    def forward(self, x):
        if self.scale is not None:
            x = x * self.scale
        if self.last is None:
            self.last = x
        return x - self.last


def test_what_is_none_may_change_where_its_type_says_so():
    module, program = flambeau.jit.script(Kept()), through(flambeau.jit.script(Kept()))
    for _ in range(2):
        x = flambeau.rand(2)
        assert flambeau.equal(module(x), program(x))
    assert "self.last is None" in module.code and "scale" not in module.code


@flambeau.jit.script
class Account:
    """A class of one's own with a property, a static method and magic methods."""

    def __init__(self, name: str, balance: float = 0.0):
        self.name, self.balance = name, balance
        self.notes: List[str] = []

    @property
    def is_empty(self) -> bool:
        return self.balance == 0.0

    @staticmethod
    def opened(name: str) -> "Account":
        return Account(name, 1.0)

    def __iadd__(self, amount: float):
        return self

    def __add__(self, amount: float) -> "Account":
        made = Account(self.name, self.balance + amount)
        made.notes.append(f"added {amount}")
        return made


class Holding(nn.Module):
    """Objects in attributes and results."""

    def __init__(self):
        super().__init__()
        self.account, self.colours = Account("a", 2.0), [Colour.RED]

    def forward(self, x):
        self.account.balance += 1.0
        made = Account.opened("b") + float(x)
        return made, self.account, self.colours[0] == Colour.RED


def test_objects_of_a_program_are_seen_from_outside():
    module = flambeau.jit.script(Holding())
    program = through(module)
    made, held, same = program(flambeau.tensor(2.0))
    assert (made.name, made.balance, made.notes, made.is_empty) == ("b", 3.0, ["added 2.0"], False) and same is True
    assert held is program.account and held.balance == 3.0 and module.account.balance == 2.0
    assert "Account" in repr(made) and through(program).account.balance == 3.0
    assert program.colours[0].name == "RED"


class WithOthers(nn.Module):
    """A module with attributes that no program can have, and that its methods do not read."""

    def __init__(self):
        super().__init__()
        self.path, self.act, self.limits, self.untold = Path("x"), F.relu, range(3), Untold(flambeau.ones(1))

    def forward(self, x):
        return self.act(x)


def test_attributes_that_no_method_reads_are_left_out():
    program = through(flambeau.jit.script(WithOthers()))
    assert program(-flambeau.ones(1)).item() == 0 and not hasattr(program, "untold")


class Untold:
    """An attribute whose type the source does not tell."""

    def __init__(self, x: flambeau.Tensor):
        self.value = unknown(x)


def unknown(x):
    return x.tolist()


def with_untold(x):
    return Untold(x)


def with_else(x):
    for _ in range(2):
        x = x + 1
    else:
        x = x * 2
    return x


def with_itself(x):
    return with_itself(x)


def with_try(x):
    try:
        return x
    except ValueError:
        return x


def with_star(*xs):
    return xs


def with_open(x):
    return open(x)


def with_lambda(x):
    return (lambda y: y)(x)


def with_context(x):
    with open(x):
        return x


def with_break(x):
    for layer in LAYERS:
        x = layer(x)
        break
    return x


LAYERS = nn.ModuleList([nn.ReLU()])


@pytest.mark.parametrize(("function", "text"), [
    (with_try, "no try"), (with_star, "arguments"), (with_open, "cannot be called"),
    (with_lambda, "lambda"), (with_context, "contexts"), (with_break, "break"),
    (with_untold, "annotate the assignment"), (with_else, "no else"), (with_itself, "calls itself")])
def test_what_has_no_form_runs_and_says_so_when_it_is_written(function, text):
    scripted = flambeau.jit.script(function)
    with pytest.raises(NotImplementedError, match=text) as caught:
        scripted.save(io.BytesIO())
    assert "test_script.py" in str(caught.value) or text in ("arguments", "calls itself")


def test_a_class_of_ones_own():
    class Halved(flambeau.jit.ScriptModule):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(flambeau.ones(2))

        @flambeau.jit.script_method
        def forward(self, x):
            return self.halved(x * self.weight)

        def halved(self, x):
            return x / 2

    module = Halved()
    assert module(flambeau.ones(2)).tolist() == [0.5, 0.5] and "self.halved(" in module.code
    program = through(module)
    assert program(flambeau.ones(2)).tolist() == [0.5, 0.5] and program.original_name == "Halved"


def test_names_of_a_users_module_stay_its_own():
    class Graph(nn.Module):
        def __init__(self):
            super().__init__()
            self.graph, self.code = 2, 3

        def forward(self, x):
            return x * self.graph + self.code

        def save(self):
            return "mine"

    module = flambeau.jit.script(Graph())
    assert module(flambeau.ones(1)).item() == 5 and module.save() == "mine" and module.graph == 2


class Pair(NamedTuple):
    """Results with names."""

    first: flambeau.Tensor
    count: int


def test_named_tuples_and_contexts():
    class Module(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(flambeau.ones(2))

        def forward(self, x):
            with flambeau.no_grad():
                y = x * self.weight
                with flambeau.enable_grad():
                    z = x * self.weight
            return Pair(y, 2), Pair(first=z, count=3)

    module = flambeau.jit.script(Module())
    a, b = through(module)(flambeau.ones(2))
    assert not a.first.requires_grad and b.first.requires_grad and (a.count, b.count) == (2, 3)
    assert type(a)._fields == Pair._fields
    assert flambeau.is_grad_enabled()


def test_tensors_that_are_given_one_by_one():
    @flambeau.jit.script
    def f(x, y):
        rows, columns = flambeau.meshgrid(x[0], y[0], indexing="ij")
        a, b = (part.reshape(-1) for part in flambeau.broadcast_tensors(x, y))
        return flambeau.einsum("ij,kj->ik", x, y), rows + columns, a + b, flambeau.block_diag(x, y)

    x, y = flambeau.rand(2, 3), flambeau.rand(2, 3)
    assert all(flambeau.allclose(p, q) for p, q in zip(through(f)(x, y), f(x, y), strict=True))


def test_marks_and_other_names():
    assert flambeau.jit.script(Colour) is Colour and flambeau.jit.script(flambeau.relu) is flambeau.relu
    with pytest.raises(TypeError, match="expected a function"):
        flambeau.jit.script(3)
    assert flambeau.jit.ignore(drop=True)(twice) is twice and flambeau.jit.unused(twice) is twice
    assert flambeau.jit.annotate(List[int], [1]) == [1] and not flambeau.jit.is_scripting()

    class Ignoring(nn.Module):
        def forward(self, x):
            return self.shown(x)

        @flambeau.jit.unused
        def shown(self, x):
            return x + 1

    module = flambeau.jit.script(Ignoring())
    assert module(flambeau.ones(1)).item() == 2
    with pytest.raises(flambeau.jit.Error, match="left out"):
        through(module)(flambeau.ones(1))
    with pytest.raises(TypeError, match="cannot be stored"):
        flambeau.save(many, io.BytesIO())


class Late(NamedTuple):
    first: "flambeau.Tensor"
    rest: "List[flambeau.Tensor]"
    more: List["flambeau.Tensor"]


def test_types_that_are_named_as_texts():
    def total(late: "Late", others: List["flambeau.Tensor"]) -> "flambeau.Tensor":
        return late.first + late.rest[0] + late.more[0] + others[0]

    file = io.BytesIO()
    flambeau.jit.save(flambeau.jit.script(total), file)
    file.seek(0)
    one = flambeau.ones(1)
    late = Late(one, [one], [one])
    assert flambeau.jit.load(file)(late, [one]).item() == 4


def test_a_scripted_module_is_trained_by_itself():
    """What is inside is a copy, too: `scripted.eval()` leaves the module in training."""
    module = nn.Sequential(nn.Linear(2, 2), nn.Dropout(), nn.Sequential(nn.BatchNorm1d(2)))
    module.append(module[0])  # once more
    module[0].register_forward_hook(lambda *_: None)
    scripted = flambeau.jit.script(module)
    scripted.eval()
    assert all(inner.training for inner in module.modules()) and not any(x.training for x in scripted.modules())
    assert scripted[0].weight is module[0].weight and scripted[3] is scripted[0] and isinstance(scripted[0], nn.Linear)
    assert scripted[2][0].running_mean is module[2][0].running_mean
    scripted[1].register_forward_hook(lambda *_: None)
    scripted[0].register_forward_hook(lambda *_: None)
    assert len(module[0]._forward_hooks) == 1 and len(scripted[0]._forward_hooks) == 2


def test_switches_of_fusion_are_there():
    with flambeau.jit.fuser("fuser1"):
        pass
    with pytest.raises(RuntimeError, match="fuser9"), flambeau.jit.fuser("fuser9"):
        pass


def by_method(x: flambeau.Tensor, y: flambeau.Tensor):
    both = flambeau.tensordot(x, y, dims=[[1], [1]])
    return x.where(x > 0, y), x[Ellipsis, 0], both, flambeau.tensordot(x, y, dims=2)


def test_arguments_of_methods_in_another_order():
    x, y = flambeau.randn(2, 3), flambeau.randn(2, 3)
    script = flambeau.jit.script(by_method)
    again = flambeau.jit.load(io.BytesIO(script.save_to_buffer()))
    for a, b in zip(again(x, y), by_method(x, y), strict=True):
        assert flambeau.allclose(a, b)
