# ruff: noqa (as programs for PyTorch are written)
"""Statements and numbers."""

import math
from typing import Dict, List, Optional, Tuple, Union

from .registry import given, matrix, torch, vector


@given(matrix, 3)
def if_elif_else(x, n: int):
    if n < 2:
        y = x + 1
    elif n == 3:
        y = x * 2
    else:
        y = x
    return y


@given(vector, 5)
def while_break_continue(x, n: int):
    k = 0
    while True:
        k += 1
        if k % 2 == 0:
            continue
        if k > n:
            break
        x = x + k
    return x, k


@given(matrix)
def early_returns(x):
    if x.size(0) > 5:
        return x
    for i in range(x.size(0)):
        if i == 2:
            return x[i]
    return x.sum()


@given(matrix)
def nested_loops(x):
    total = 0.0
    for i in range(x.size(0)):
        for j in range(x.size(1)):
            if i == j:
                continue
            total += float(x[i, j])
    return total


@given(10)
def ranges(n: int):
    out: List[int] = []
    for i in range(1, n, 3):
        out.append(i)
    for i in range(n, 0, -4):
        out.append(i)
    return out


@given(None)
def optional_none(x: Optional[torch.Tensor]):
    if x is None:
        return 1
    return 2


@given(vector, None)
def optional_refined(x: Optional[torch.Tensor] = None, n: Optional[int] = None):
    y = torch.zeros(1)
    if x is not None and n is None:
        y = x + 1
    if n is not None:
        y = y * n
    return y


@given(vector)
def optional_unwrapped(x: Optional[torch.Tensor]):
    assert x is not None
    return x * 2


@given(3)
def unions(x: Union[int, str]):
    if isinstance(x, int):
        return x + 1
    return len(x)


@given("abc")
def unions_of_text(x: Union[int, str]):
    if isinstance(x, str):
        return x + "!"
    else:
        return str(x)


@given(vector)
def isinstance_checks(x):
    y: Optional[int] = 3
    a = isinstance(y, int)
    b = isinstance([1, 2], list)
    c = isinstance(x, torch.Tensor)
    return a, b, c


@given([1, 2])
def jit_isinstance(x: Optional[List[int]]):
    if torch.jit.isinstance(x, List[int]):
        return x[0]
    return -1


@given(7, 2)
def int_arithmetic(a: int, b: int):
    return a + b, a - b, a * b, a / b, a // b, a % b, a ** b, -a, a & b, a | b, a ^ b, a << b, a >> b


@given(-7, 2)
def negative_arithmetic(a: int, b: int):
    return a // b, a % b, -a // b, abs(a), divmod(a, b)


@given(7.5, 2.0)
def float_arithmetic(a: float, b: float):
    return a + b, a / b, a // b, a % b, a ** b, -a, int(a), round(a), float(3), bool(a)


@given(3, 2.5)
def comparisons(a: int, b: float):
    return a < b, a <= b, a == b, a != b, a > b, a >= b, 1 < a < 5, a is None, not a


@given(3, 0)
def truth(a: int, b: int):
    return bool(a) and bool(b), bool(a) or bool(b), not bool(b), a if b == 0 else b


@given(0.5)
def math_functions(x: float):
    return (math.sin(x), math.cos(x), math.exp(x), math.log(x), math.sqrt(x), math.floor(x), math.ceil(x),
            math.pow(x, 2.0), math.atan2(x, 1.0), math.pi, math.fabs(x), math.tanh(x), math.degrees(x))


@given(12, 18)
def math_of_integers(a: int, b: int):
    return math.gcd(a, b), math.factorial(5), math.isnan(0.5), math.isinf(math.inf), math.log(a, 2.0), math.log10(8.0)


@given(vector)
def raising(x):
    if x.dim() > 3:
        raise RuntimeError("too many dimensions")
    elif x.dim() == 2:
        raise ValueError(f"dimensions: {x.dim()}")
    return x


@given(vector)
def asserting(x):
    assert x.dim() == 1
    assert x.dim() == 1, "one dimension"
    assert x.size(0) > 0, f"size {x.size(0)}"
    return x


@given(vector)
def printing(x):
    print("a text", x.size(0), 2.5, True, None)
    return x


@given(vector)
def deleting(x):
    y = x + 1
    z = y * 2
    del y
    return z


@given(vector)
def augmented(x):
    x += 1
    x *= 2
    x -= 3
    x /= 4
    y = x.clone()
    y[0] += 5
    y[1:3] *= 2
    n = 7
    n += 2
    n *= 2
    n -= 5
    return x, y, n


@given(vector)
def chained_assignment(x):
    a = b = x + 1
    c = d = 3
    return a + b, c + d


@given(vector)
def ternaries(x):
    y = x if x.dim() == 1 else x[0]
    n = 1 if y.size(0) > 3 else 2
    return y * n


@given(3)
def recursion_by_loop(n: int):
    a, b = 0, 1
    for _ in range(n):
        a, b = b, a + b
    return a


def helper(x, n: int, scale: float = 2.0):
    return x * n * scale


@given(vector)
def calls_of_functions(x):
    return helper(x, 2), helper(x, n=3, scale=0.5), helper(n=1, x=x)


def pair_of(x) -> Tuple[torch.Tensor, int]:
    return x + 1, x.size(0)


@given(vector)
def tuples_from_functions(x):
    y, n = pair_of(x)
    return y * n


@torch.jit.script
def scripted_helper(x, n: int):
    return x - n


@given(vector)
def calls_of_scripts(x):
    return scripted_helper(x, 4)


def by_name(x, *, n: int):
    return x * n


@given(vector)
def keyword_only(x):
    return by_name(x, n=3)


@given(4)
def casts(n: int):
    return float(n) / 3, int(2.7), bool(n), str(n), int(True), complex(1.0, 2.0)


@given(matrix)
def passes(x):
    for _ in range(2):
        pass
    if x.dim() == 7:
        pass
    else:
        x = x + 1
    return x


@given(vector, None, None)
def modern_types(x, n: int | None = None, v: list[int] | None = None):
    if n is None:
        n = 3
    w: list[int] = [n]
    d: dict[str, int] = {"n": n}
    return x * n, w, d
