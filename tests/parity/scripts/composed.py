# ruff: noqa (as programs for PyTorch are written)
"""Modules with objects, interfaces, and other modules inside."""

from typing import Dict, Optional

from .classes import Counter, Point
from .registry import given, matrix, torch, vector
from .values import Colour, Mode, Pair

nn, F = torch.nn, torch.nn.functional


@given(matrix)
class NamedResults(nn.Module):
    def forward(self, x) -> Pair:
        return Pair(x, 3)


@given(vector)
class ObjectsInForward(nn.Module):
    def forward(self, x):
        c = Counter(1)
        c.advance(x.size(0))
        return x * c.value, Point(1.0, 2.0).y


@given(vector)
class ObjectAttribute(nn.Module):
    def __init__(self):
        super().__init__()
        self.counter = Counter(1, 2)

    def forward(self, x):
        self.counter.advance(2)
        return x * self.counter.value


@given(vector)
class EnumAttribute(nn.Module):
    def __init__(self, mode: Mode = Mode.MEAN):
        super().__init__()
        self.mode, self.colour = mode, Colour.GREEN

    def forward(self, x):
        if self.mode == Mode.SUM:
            return x.sum(), 0
        return x.mean(), self.colour.value


@given(vector)
class ByAttribute(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = torch.jit.Attribute({"a": 1}, Dict[str, int])
        self.act = F.relu

    def forward(self, x):
        return self.act(x) * self.table["a"]


@torch.jit.interface
class Step(nn.Module):
    def forward(self, input: torch.Tensor) -> torch.Tensor:
        pass


@given(matrix)
class ByInterface(nn.Module):
    part: Step

    def __init__(self):
        super().__init__()
        self.part = nn.Tanh()

    def forward(self, x):
        return self.part.forward(x)


@given(matrix)
class ListByInterface(nn.Module):
    def __init__(self):
        super().__init__()
        self.parts = nn.ModuleList([nn.Softsign(), nn.Tanh(), nn.Sigmoid()])

    def forward(self, x, k: int = 1):
        part: Step = self.parts[k]
        return part.forward(x)


class Inner(nn.Module):
    def __init__(self, n: int):
        super().__init__()
        self.n, self.linear = n, nn.Linear(4, 4)

    def forward(self, x, y: Optional[torch.Tensor] = None):
        x = self.linear(x) * self.n
        return x if y is None else x + y


@given(matrix)
class Nested(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = Inner(2), Inner(3)

    def forward(self, x):
        return self.b(self.a(x), y=x), self.a.linear.weight, self.b.n


@given(matrix)
class Shared(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(4, 4)
        self.b = self.a

    def forward(self, x):
        return self.b(self.a(x))


@given(matrix)
class ScriptedInside(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = torch.jit.script(Inner(2))

    def forward(self, x):
        return self.inner(x)


@given(matrix)
class TracedInside(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = torch.jit.trace(nn.Linear(4, 2), torch.ones(3, 4))

    def forward(self, x):
        if x.size(0) > 2:
            x = x + 1
        return self.inner(x)
