# ruff: noqa (as programs for PyTorch are written)
"""Classes of one's own."""

from dataclasses import dataclass
from typing import Any, Dict, List, Optional

from .registry import given, matrix, torch, vector


@torch.jit.script
class Counter:
    def __init__(self, start: int, step: int = 1):
        self.value = start
        self.step = step

    def advance(self, times: int) -> int:
        for _ in range(times):
            self.value += self.step
        return self.value


@given(3)
def a_counter(n: int):
    c = Counter(n, 2)
    c.advance(3)
    c.step = 5
    c.advance(1)
    return c.value, c.step


@given(3)
def objects_share(n: int):
    c = Counter(n)
    d = c
    d.advance(2)
    return c.value, c is d


@torch.jit.script
class Point:
    def __init__(self, x: float, y: float):
        self.x = x
        self.y = y

    def __add__(self, other: "Point") -> "Point":
        return Point(self.x + other.x, self.y + other.y)

    def __mul__(self, n: float) -> "Point":
        return Point(self.x * n, self.y * n)

    def __sub__(self, other: "Point"):
        return Point(self.x - other.x, self.y - other.y)

    def __neg__(self):
        return Point(-self.x, -self.y)

    def __eq__(self, other: "Point") -> bool:
        return self.x == other.x and self.y == other.y

    def __ne__(self, other: "Point") -> bool:
        return not (self.x == other.x and self.y == other.y)

    def __lt__(self, other: "Point") -> bool:
        return self.x < other.x

    def __getitem__(self, k: int) -> float:
        return self.x if k == 0 else self.y

    def __setitem__(self, k: int, value: float) -> None:
        if k == 0:
            self.x = value
        else:
            self.y = value

    def __len__(self) -> int:
        return 2

    def __contains__(self, value: float) -> bool:
        return value == self.x or value == self.y

    def __call__(self, n: float) -> float:
        return self.x * n + self.y

    def __bool__(self) -> bool:
        return self.x != 0.0

    def __str__(self) -> str:
        return "a point"

    def __float__(self) -> float:
        return self.x

    def __int__(self) -> int:
        return 4

    @staticmethod
    def origin() -> "Point":
        return Point(0.0, 0.0)


@given(1.0)
def magic_arithmetic(x: float):
    p = Point(x, 2.0)
    q = (p + Point(3.0, 4.0)) * 2.0 - p
    r = -q
    return q.x, q.y, r.x


@given(1.0)
def magic_comparisons(x: float):
    p, q = Point(x, 2.0), Point(1.0, 2.0)
    return p == q, p != q, p < q


@given(1.0)
def magic_containers(x: float):
    p = Point(x, 2.0)
    p[1] = 7.0
    return p[0], p[1], len(p), 7.0 in p


@given(1.0)
def magic_calls(x: float):
    p = Point(x, 2.0)
    return p(3.0), bool(p), float(p), str(p), int(p)


@given(1.0)
def static_method(x: float):
    p = Point.origin()
    p.x = x
    return p.x + p.y


def norm(p: Point) -> float:
    return (p.x ** 2 + p.y ** 2) ** 0.5


def moved(p: Point, by: float) -> Point:
    return Point(p.x + by, p.y)


@given(3.0)
def objects_as_arguments(x: float):
    return norm(moved(Point(x, 4.0), 0.0))


@given(3)
def objects_in_lists(n: int):
    points: List[Point] = []
    for i in range(n):
        points.append(Point(float(i), 1.0))
    total = Point(0.0, 0.0)
    for p in points:
        total = total + p
    return total.x, total.y, len(points), points[1].x


@given(3)
def objects_in_dicts(n: int):
    points: Dict[str, Point] = {}
    points["a"] = Point(1.0, 2.0)
    points["b"] = Point(float(n), 2.0)
    return points["b"].x, "a" in points


@given(1.0)
def optional_objects(x: float):
    p: Optional[Point] = None
    if x > 0:
        p = Point(x, x)
    if p is not None:
        return p.x
    return -1.0


@torch.jit.script
class Stack:
    def __init__(self):
        self.items: List[torch.Tensor] = []
        self.names: Dict[str, int] = {}
        self.best = torch.jit.annotate(Optional[torch.Tensor], None)

    def push(self, x: torch.Tensor, name: str):
        self.names[name] = len(self.items)
        self.items.append(x)
        if self.best is None:
            self.best = x

    def __getitem__(self, name: str) -> torch.Tensor:
        return self.items[self.names[name]]

    def total(self) -> torch.Tensor:
        total = torch.zeros(1)
        for x in self.items:
            total = total + x.sum()
        return total


@given(vector)
def object_of_containers(x):
    s = Stack()
    s.push(x, "first")
    s.push(x * 2, "second")
    best = s.best
    return s["second"], s.total(), len(s.items), best


@torch.jit.script
class Line:
    def __init__(self, a: Point, b: Point):
        self.a = a
        self.b = b
        self.weights = torch.ones(2)
        self.names = ["a", "b"]
        self.pair = (1, 2.0)

    def length(self) -> float:
        return norm(self.b - self.a)

    def scaled(self, x: torch.Tensor) -> torch.Tensor:
        return self.weights.sum() * x * self.length()


@given(vector)
def objects_of_objects(x):
    line = Line(Point(0.0, 0.0), Point(3.0, 4.0))
    line.a.x = 0.0
    return line.scaled(x), line.names, line.pair[1]


@torch.jit.script
class Settings:
    def __init__(self):
        self.rate = 0.5
        self.depth = 2
        self.name = "x"
        self.on = True

    @property
    def doubled(self) -> float:
        return self.rate * 2

    @doubled.setter
    def doubled(self, value: float) -> None:
        self.rate = value / 2


@given(2)
def properties(n: int):
    s = Settings()
    s.doubled = 3.0
    return s.rate, s.doubled, s.depth, s.name, s.on


class Plain:
    def __init__(self, n: int):
        self.n = n

    def next(self) -> int:
        return self.n + 1


@given(4)
def undecorated_class(n: int):
    return Plain(n).next()


class Scope:
    def __init__(self, n: int):
        self.n = n
        self.inside = False

    def __enter__(self) -> int:
        self.inside = True
        return self.n

    def __exit__(self, kind: Any, value: Any, trace: Any) -> None:
        self.inside = False


Scope = torch.jit.script(Scope)


@given(4)
def ones_own_context(n: int):
    s = Scope(n)
    with s as k:
        m = k + 1
        inside = s.inside
    return m, inside, s.inside


@torch.jit.script
class Tree:
    def __init__(self, value: int):
        self.value = value
        self.children: List[int] = []

    def add(self, n: int) -> "Tree":
        self.children.append(n)
        return self

    def sum(self) -> int:
        total = self.value
        for c in self.children:
            total += c
        return total


@given(2)
def chained_methods(n: int):
    return Tree(n).add(3).add(4).sum()


@torch.jit.script
class Scaled:
    FACTOR = 3

    def __init__(self, n: int):
        self.n = n

    def apply(self, x):
        return x * self.n


@given(matrix)
def method_without_types(x):
    return Scaled(2).apply(x)


@torch.jit.script
@dataclass
class Box:
    low: float
    high: float = 2.0

    def size(self) -> float:
        return self.high - self.low


@given(0.5)
def dataclasses(x: float):
    b = Box(x)
    return b.size(), b.high
