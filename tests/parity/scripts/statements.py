# ruff: noqa: UP006, UP035, UP045 (as programs for PyTorch write types)
"""Statements, numbers, texts and containers."""

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


@given(["x", "y"], [1, 2])
def enumerate_zip(names: List[str], values: List[int]):
    out: Dict[str, int] = {}
    for i, (name, value) in enumerate(zip(names, values)):
        out[name] = value * 10 + i
    return out


@given([3, 1, 2])
def enumerate_from(values: List[int]):
    out = 0
    for i, v in enumerate(values, 1):
        out += i * v
    return out


@given([3, 1, 2])
def sorted_lists(values: List[int]):
    values2 = sorted(values)
    values.sort(reverse=True)
    return values2, values


@given(["b", "a"])
def sorted_texts(values: List[str]):
    return sorted(values)


@given([1, 2, 3, 4, 5])
def slices_of_lists(v: List[int]):
    return v[1:], v[:-1], v[::2], v[-2:], v[1:4:2], v[-1]


@given([1, 2, 3])
def list_methods(v: List[int]):
    v.append(4)
    v.extend([7, 8])
    v.insert(0, 9)
    v.reverse()
    last = v.pop()
    first = v.pop(0)
    v.remove(2)
    return v, last, first, v.index(4), v.count(7), 3 in v


@given([1, 2, 3])
def list_arithmetic(v: List[int]):
    w = v + [4]
    w += [5]
    return w, w * 2, [0] * 3, w == v, len(w), v.copy()


@given([1, 2, 3, 4])
def list_deletion(v: List[int]):
    del v[1]
    v[0] = 7
    v[-1] = 8
    v.clear() if len(v) > 5 else None
    return v


@given([1, 2, 3])
def list_comprehension(v: List[int]):
    return [i * 2 for i in v], [float(i) for i in v], [str(i) for i in range(3)]


@given(["a", "bb"])
def dict_comprehension(v: List[str]):
    return {name: len(name) for name in v}


@given([1.5, -2.5])
def extremes(v: List[float]):
    return min(v), max(v), sum(v), min(3, 2), max(1.5, 2.5), abs(-3), abs(v[1])


@given([True, False])
def any_and_all(v: List[bool]):
    return any(v), all(v)


@given({"a": 1, "b": 2})
def dict_methods(d: Dict[str, int]):
    d["c"] = 3
    keys = list(d.keys())
    values = list(d.values())
    got = d.get("z", 9)
    popped = d.pop("a")
    return keys, values, got, popped, len(d), "b" in d, d.setdefault("q", 5)


@given({"a": 1, "b": 2})
def dict_items(d: Dict[str, int]):
    total = 0
    names = ""
    for key, value in d.items():
        names += key
        total += value
    for key in d:
        names += key.upper()
    return names, total


@given({"a": 1, "b": 2})
def dict_update(d: Dict[str, int]):
    e = {"b": 5, "x": 6}
    d.update(e)
    del d["a"]
    return d, "a" not in d


@given(vector)
def dict_of_tensors(x):
    d = {"x": x, "y": x * 2}
    d["z"] = d["x"] + d["y"]
    return d


@given(vector)
def int_keys(x):
    d: Dict[int, torch.Tensor] = {}
    for i in range(3):
        d[i] = x * i
    return d[1] + d[2], len(d)


@given(vector)
def lists_of_tensors(x):
    out: List[torch.Tensor] = []
    for i in range(3):
        out.append(x + i)
    return torch.stack(out), out


@given(vector)
def empty_list_of_tensors(x):
    out = []
    out.append(x)
    out.append(x * 2)
    return out


@given(vector)
def annotated_empty(x):
    out = torch.jit.annotate(List[int], [])
    table = torch.jit.annotate(Dict[str, torch.Tensor], {})
    table["x"] = x
    out.append(3)
    return out, table


@given(vector)
def tuples(x):
    pair = (x, 2)
    a, b = pair
    first, *rest = (1, 2, 3)
    return a * b, pair[1], pair[0:1], first, rest, len(pair)


@given(vector)
def swapped(x):
    a, b = 1, 2
    a, b = b, a
    (c, d), e = (a, b), x
    return a, b, c, d, e


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


@given("Hello World")
def text_methods(s: str):
    return (s.upper(), s.lower(), s.split(" "), s.replace("l", "L"), s.find("W"), s.startswith("He"), s.endswith("x"),
            s.strip("H"), " ".join(["a", "b"]), s.count("o"), s.title(), s.swapcase(), len(s))


@given("Hello")
def text_slices(s: str):
    return s[0], s[1:3], s[-1], s[::2], s + "!", "ell" in s, s == "Hello", s != "World"


@given("a-b-c")
def more_text_methods(s: str):
    return (s.partition("-"), s.rsplit("-", 1), s.zfill(8), s.center(9, "*"), s.ljust(7), s.rjust(7), s.isalpha(),
            s.isdigit(), "x\ny".splitlines(), s.index("b"), s.rfind("-"), s.capitalize())


@given("abc")
def text_loops(s: str):
    out = ""
    for c in s:
        out = c + out
    return out, [c for c in s], ord(s[0]), chr(100), int("12"), float("1.5"), str(3)


@given("x", 3, 2.5)
def f_strings(name: str, n: int, x: float):
    return f"{name}: {n} {x}", f"{n + 1}", f"{name}{name}"


@given("x", 3)
def format_strings(name: str, n: int):
    return "{} has {}".format(name, n), "%s is %d" % (name, n), "%s" % name


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


@given(matrix)
def nested_containers(x):
    rows: List[List[int]] = [[1, 2], [3]]
    table: Dict[str, List[int]] = {"a": [1], "b": [2]}
    table["b"].append(len(rows))
    pairs: List[Tuple[int, str]] = [(1, "a"), (2, "b")]
    rows[1].append(5)
    for n, s in pairs:
        table[s].append(n)
    return rows, table["a"], table["b"], pairs[1][1]


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
