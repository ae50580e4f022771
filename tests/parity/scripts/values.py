# ruff: noqa (as programs for PyTorch are written)
"""Named tuples and enumerations."""

import enum
from collections import namedtuple
from typing import Dict, NamedTuple, Tuple

from .registry import given, torch, vector


class Pair(NamedTuple):
    first: torch.Tensor
    count: int


class Named(NamedTuple):
    name: str = "none"
    scale: float = 2.0


Old = namedtuple("Old", ["a", "b"])


@given(vector)
def named_tuples(x):
    p = Pair(x, 3)
    q = Pair(first=x, count=4)
    return p.first * p.count, q[1], q.count


def pair_made(x) -> Pair:
    return Pair(x, 2)


def pair_used(p: Pair) -> torch.Tensor:
    first, count = p
    return first * count


@given(vector)
def named_tuples_through_functions(x):
    return pair_used(pair_made(x)), [pair_made(x)][0].count


@given(vector)
def named_tuples_with_defaults(x):
    return Named().scale, Named("a").name, Named(scale=3.0).scale


@given(vector)
def untyped_named_tuples(x):
    o = Old(x, x + 1)
    return o.a + o.b


class Colour(enum.Enum):
    RED = 1
    GREEN = 2


class Mode(enum.Enum):
    SUM = "sum"
    MEAN = "mean"


def chosen(x, mode: Mode):
    if mode == Mode.SUM:
        return x.sum()
    return x.mean()


@given(vector)
def enumerations(x):
    return chosen(x, Mode.SUM), chosen(x, Mode.MEAN), Colour.RED.value, Mode.MEAN.name


@given(vector)
def enumerations_compared(x):
    c = Colour.RED
    d = Colour.GREEN if x.size(0) > 3 else Colour.RED
    return c == d, c != d, d.value


@given(vector)
def enumerations_in_containers(x):
    found = [Colour.RED, Colour.GREEN]
    total = 0
    for c in found:
        total += c.value
    names: Dict[str, Colour] = {"a": Colour.RED}
    return total, names["a"].value, [c.name for c in found]


@given(vector)
def loop_over_members(x):
    total = 0
    for c in Colour:
        total += c.value
    return total


@given(vector)
def result_of_members(x) -> Tuple[int, str]:
    return Colour.GREEN.value, Mode.SUM.value


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 5


@given(vector)
def numbers_as_members(x):
    return x * Level.HIGH.value
