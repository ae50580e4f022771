# ruff: noqa (as programs for PyTorch are written)
"""Lists, dicts, tuples and texts."""

from typing import Dict, List, Tuple

from .registry import given, matrix, torch, vector


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
