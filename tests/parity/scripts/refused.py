# ruff: noqa (as programs for PyTorch are written)
"""What PyTorch's compiler takes no program of: here each runs as the Python that it is."""

import math
from typing import List

from .registry import matrix, refused, torch, vector

FACTOR, NAMES, LIMITS = 3, ["a", "b", "c"], (0.5, 2)


@refused(matrix)
def inner_function(x):
    def twice(y):
        return y * 2
    return twice(x)


@refused(matrix)
def star_in_call(x):
    sizes = [3, 4]
    return x.view(*sizes)


@refused(matrix)
def lambda_inside(x):
    f = lambda y: y * 2  # noqa: E731
    return f(x)


@refused(matrix)
def tried(x):
    try:
        return x + 1
    except RuntimeError:
        return x


@refused(matrix)
def walrus(x):
    if (n := x.size(0)) > 2:
        return x * n
    return x


@refused([1, 2])
def set_comprehension(v: List[int]):
    return len({i for i in v})


@refused(matrix)
def global_statement(x):
    global COUNT
    COUNT = 3
    return x


@refused(matrix)
def yielding(x):
    yield x


@refused(4)
def recursion(n: int) -> int:
    if n < 2:
        return 1
    return n * recursion(n - 1)


@refused(matrix)
def for_else(x):
    for i in range(3):
        x = x + i
    else:
        x = x * 2
    return x


@refused(matrix)
def matching(x):
    n = x.dim()
    match n:
        case 2:
            return x
    return x + 1


@refused(matrix)
def star_arguments(*xs):
    return xs[0]


@refused(matrix)
def named_star(x, **options):
    return x


@refused(matrix)
def constants_from_outside(x):
    return x * FACTOR + LIMITS[1]


@refused(matrix)
def list_constant(x):
    return x * len(NAMES), NAMES[1]


@refused([3, 1, 2])
def reversed_list(values: List[int]):
    out: List[int] = []
    for v in reversed(values):
        out.append(v)
    return out


@refused([1, 2, 3, 4])
def comprehension_with_if(v: List[int]):
    return [i for i in v if i % 2 == 0]


@refused(matrix)
def global_table(x):
    return x * math.pi, LIMITS[0]


class Base(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)

    def forward(self, x):
        return self.linear(x)


@refused(matrix)
class Derived(Base):
    def forward(self, x):
        return super().forward(x) + 1
