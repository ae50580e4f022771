# ruff: noqa (as programs for PyTorch are written)
"""Modules: containers, attributes, constants, methods."""

from typing import Dict, Final, List, NamedTuple, Optional, Tuple

from .registry import batch, given, matrix, torch, vector

nn, F = torch.nn, torch.nn.functional


@given(matrix)
class Perceptron(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Dropout(0.5), nn.Linear(8, 2))

    def forward(self, x):
        return self.layers(x)


@given(batch)
class Convolutions(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.norm = nn.Conv2d(3, 4, 3, bias=False), nn.BatchNorm2d(4)
        self.pool, self.head = nn.MaxPool2d(2), nn.Linear(36, 2)

    def forward(self, x):
        x = self.pool(F.relu(self.norm(self.conv(x))))
        return self.head(torch.flatten(x, 1))


@given(matrix)
class Lists(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(4, 4) for _ in range(3)])

    def forward(self, x):
        for i, layer in enumerate(self.layers):
            x = layer(x) * i + x
        y = self.layers[0](x)
        return y, len(self.layers), self.layers[-1](x)


@given(matrix)
class Dicts(nn.Module):
    def __init__(self):
        super().__init__()
        self.ways = nn.ModuleDict({"up": nn.Linear(4, 4), "down": nn.Linear(4, 4)})

    def forward(self, x):
        for name, layer in self.ways.items():
            x = layer(x)
            if name == "up":
                x = x + 1
        for name in self.ways:
            x = x * len(name)
        return self.ways["up"](x), "up" in self.ways, len(self.ways)


@given(matrix)
class SlicedSequential(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4))

    def forward(self, x):
        x = self.layers[0](x)
        for layer in self.layers:
            x = layer(x)
        return x, self.layers[0].weight


@given(matrix)
class ZippedLists(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.ModuleList([nn.Linear(4, 4), nn.Linear(4, 4)])
        self.second = nn.ModuleList([nn.ReLU(), nn.Tanh()])

    def forward(self, x):
        for a, b in zip(self.first, self.second):
            x = b(a(x))
        return x


@given(matrix)
class Attributes(nn.Module):
    scale: Final[float] = 2.0
    names: List[str]
    memo: Dict[str, int]
    last: Optional[torch.Tensor]

    def __init__(self):
        super().__init__()
        self.count, self.rate, self.label, self.on = 0, 0.5, "x", True
        self.names, self.memo, self.last, self.sizes = ["a"], {}, None, (2, 3)

    def forward(self, x):
        self.count += 1
        self.names.append("b")
        self.memo["x"] = self.count
        if self.last is None:
            self.last = x
        y = self.last
        return x * self.rate * self.scale, self.count, self.names, self.memo, self.label, self.on, self.sizes[1], y


@given(matrix)
class OptionalParts(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.bias = None, None
        self.proj: Optional[nn.Module] = nn.Linear(4, 4)
        self.register_parameter("gain", None)

    def forward(self, x):
        if self.norm is not None:
            x = self.norm(x)
        if self.proj is not None:
            x = self.proj(x)
        if self.gain is not None:
            x = x * self.gain
        return x


@given(matrix)
class Methods(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(4))

    def scaled(self, x, n: int = 2):
        return x * self.weight * n

    def count(self) -> int:
        return 3

    def forward(self, x):
        return self.scaled(x) + self.scaled(x, n=self.count())


@given(matrix)
class Exported(nn.Module):
    @torch.jit.export
    def other(self, x):
        return x - 1

    def forward(self, x):
        return self.other(x) * 2


@given(matrix)
class Ignored(nn.Module):
    @torch.jit.unused
    def shown(self, x):
        return x.numpy()

    def forward(self, x):
        if x.dim() > 4:
            x = self.shown(x)
        return x


@given(matrix)
class Buffers(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("seen", torch.zeros(1))
        self.register_buffer("mask", torch.ones(4), persistent=False)

    def forward(self, x):
        self.seen += 1
        self.seen.add_(1)
        return x * self.mask + self.seen


@given(matrix)
class BufferReplaced(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("state", torch.zeros(4))

    def forward(self, x):
        self.state = self.state + x.sum(0)
        return self.state * 2


@given(matrix)
class TrainingBranches(nn.Module):
    def __init__(self):
        super().__init__()
        self.drop = nn.Dropout(0.3)

    def forward(self, x):
        if self.training:
            return self.drop(x)
        return x * 2


@given(matrix)
class Constants(nn.Module):
    __constants__ = ["depth"]

    def __init__(self):
        super().__init__()
        self.depth = 3

    def forward(self, x):
        for _ in range(self.depth):
            x = x + 1
        return x


@given(matrix)
class TypedResults(nn.Module):
    def forward(self, x) -> Tuple[torch.Tensor, Dict[str, torch.Tensor]]:
        return x, {"x": x + 1}


@given(lambda: torch.rand(2, 5, 4))
class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn, self.out = nn.LSTM(4, 3, batch_first=True), nn.Linear(3, 2)

    def forward(self, x, state: Optional[Tuple[torch.Tensor, torch.Tensor]] = None):
        y, (h, c) = self.rnn(x, state)
        return self.out(y[:, -1]), h, c


@given(lambda: torch.tensor([[1, 2], [0, 3]]))
class Embedded(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding, self.norm = nn.Embedding(5, 4), nn.LayerNorm(4)

    def forward(self, x):
        return self.norm(self.embedding(x)).mean(dim=1)


@given(matrix)
class Properties(nn.Module):
    @property
    def factor(self) -> int:
        return 4

    def forward(self, x):
        return x * self.factor


@given(matrix)
class ParameterLists(nn.Module):
    def __init__(self):
        super().__init__()
        self.weights = nn.ParameterList([nn.Parameter(torch.ones(4)) for _ in range(2)])

    def forward(self, x):
        for w in self.weights:
            x = x * w
        return x


@given(matrix)
class ParameterDicts(nn.Module):
    def __init__(self):
        super().__init__()
        self.weights = nn.ParameterDict({"a": nn.Parameter(torch.ones(4))})

    def forward(self, x):
        return x * self.weights["a"]


class State(NamedTuple):
    hidden: torch.Tensor
    steps: int


@given(vector)
class States(nn.Module):
    def step(self, s: State, x) -> State:
        return State(s.hidden + x, s.steps + 1)

    def forward(self, x):
        s = State(torch.zeros(6), 0)
        for _ in range(3):
            s = self.step(s, x)
        return s.hidden, s.steps


@given(matrix)
class StaticMethods(nn.Module):
    @staticmethod
    def halved(x, n: int = 2):
        return x / n

    def forward(self, x):
        return self.halved(x) + StaticMethods.halved(x, 4)


@given(matrix)
class HasAttribute(nn.Module):
    def __init__(self):
        super().__init__()
        self.extra = nn.ReLU()

    def forward(self, x):
        if hasattr(self, "extra"):
            x = self.extra(x)
        if hasattr(self, "missing"):
            x = self.missing(x)
        return x, getattr(self, "extra")(x)
