# ruff: noqa: UP006, UP035, UP045 (as programs for PyTorch write types)
"""What a program that was read takes from Python, and which errors leave it."""

import enum
import io
from typing import Dict, List, NamedTuple, Optional, Tuple

import pytest

import flambeau
from flambeau import nn
from flambeau.jit.annotations import BroadcastingList2


def through(program):
    return flambeau.jit.load(io.BytesIO(program.save_to_buffer()))


class Colour(enum.Enum):
    RED = 1
    GREEN = 2


class Pair(NamedTuple):
    a: int
    b: Colour


class Counter:
    def __init__(self, n: int):
        self.n = n
        self.seen = [Pair(n, Colour.RED)]

    def add(self, k: int) -> int:
        self.n += k
        return self.n


def members(c: Colour, more: List[Colour], table: Dict[str, Colour]):
    return c == Colour.RED, more[0] == c, table["a"] == Colour.GREEN, c.value


def pairs(p: Pair, q: Tuple[int, Pair], r: Optional[Pair]):
    return p.a + q[1].a, p.b == Colour.GREEN, r is None


def objects(c: Counter, more: Optional[Counter]):
    n = c.add(2) + c.seen[0].a
    return n if more is None else n + more.n


class Taking(nn.Module):
    def forward(self, x, c: Counter, *, mode: Colour = Colour.RED):
        return x * c.n if mode == Colour.RED else x


@pytest.mark.parametrize(("function", "args"), [
    (members, (Colour.RED, [Colour.RED], {"a": Colour.GREEN})),
    (pairs, (Pair(1, Colour.GREEN), (1, Pair(2, Colour.RED)), None)),
    (objects, (Counter(3), None)), (objects, (Counter(3), Counter(4)))])
def test_values_of_classes(function, args):
    program = through(flambeau.jit.script(function))
    assert program(*args) == function(*args) or function is objects
    if function is objects:
        assert program(Counter(3), None) == objects(Counter(3), None) == 8


def test_objects_are_shared_with_scripts():
    counter = flambeau.jit.script(Counter(1))
    assert flambeau.jit.script(objects)(counter, None) == 4 and counter.n == 3
    with pytest.raises(TypeError, match="expected a function"):
        flambeau.jit.script(3)


def test_modules_take_them_by_name():
    program = through(flambeau.jit.script(Taking()))
    x = flambeau.ones(2)
    assert program(x, Counter(3)).tolist() == [3, 3] and program(x, c=Counter(3), mode=Colour.GREEN).tolist() == [1, 1]


def test_what_an_object_lacks():
    program = through(flambeau.jit.script(objects))
    with pytest.raises(RuntimeError, match="'n' the given Tensor has not"):
        program(flambeau.ones(1), None)
    wrong = Counter(3)
    wrong.n = open  # a program gets nothing that is not of the declared type
    with pytest.raises(RuntimeError, match="must be a int"):
        program(wrong, None)


def test_a_file_reads_nothing_but_what_an_object_holds():
    texts = {"__torch__": "class Held:\n  gi_frame : Any\n"
                          "def f(x: __torch__.Held) -> Any:\n  return x.gi_frame\n"}
    program = flambeau.jit._program.Program(texts)
    with pytest.raises(RuntimeError, match="has not"):
        program.find("__torch__.f")(n for n in [1])
    anything = Counter(1)
    anything.gi_frame = 1
    with pytest.raises(RuntimeError, match="must be a Any"):
        program.find("__torch__.f")(anything)


class Own(ValueError):
    pass


def failing(x, n: int):
    assert n != 0, "zero"
    if n == 1:
        raise ValueError(f"one {n}")
    if n == 2:
        raise Own("two")
    if n == 3:
        return [1][n]
    if n == 4:
        return {"a": 1}[str(n)]
    return int(x.reshape(n))


@pytest.mark.parametrize(("n", "kind"), [
    (0, AssertionError), (1, ValueError), (3, IndexError), (4, KeyError), (5, RuntimeError)])
@pytest.mark.parametrize("make", [lambda f: f, through])
def test_errors_are_those_of_programs_too(n, kind, make):
    program = make(flambeau.jit.script(failing))
    for error in (kind, flambeau.jit.Error):
        with pytest.raises(error):
            program(flambeau.ones(2), n)


def test_errors_of_classes_of_ones_own():
    class Module(nn.Module):
        def forward(self, x):
            return failing(x, 2)

    for program in (flambeau.jit.script(failing), lambda x, n: flambeau.jit.script(Module())(x)):
        with pytest.raises(Own, match="two") as found:
            program(flambeau.ones(2), 2)
        assert isinstance(found.value, flambeau.jit.Error) and found.value.args == ("two",)
    with pytest.raises(flambeau.jit.Error, match="two"):
        through(flambeau.jit.script(failing))(flambeau.ones(2), 2)


def typed(x: float, n: int = 2, many: Optional[List[int]] = None, o: Optional[flambeau.Tensor] = None):
    return x, n, many, o


def contained(x, table: Dict[str, int], pair: Tuple[int, str], either: int | str = 1):
    return table, pair, either


class Tensors(nn.Module):
    def forward(self, x, n: int = 1):
        return x * n


@pytest.mark.parametrize("made", [flambeau.jit.script, lambda f: through(flambeau.jit.script(f))])
def test_values_become_what_is_declared(made):
    one = made(typed)
    for given in (3, True, flambeau.tensor(3.0)):
        found = one(given)[0]
        assert type(found) is float and found == float(given)
    assert type(one(1.0, flambeau.tensor(4))[1]) is int and one(1.0, True)[1] == 1
    assert one(1.0, 2, (1, 2))[2] == [1, 2] and one(1.0, many=[True])[2] == [1]
    assert made(contained)(flambeau.ones(1), {"a": 1}, [1, "b"])[1] == (1, "b")
    assert made(contained)(flambeau.ones(1), {}, (1, "b"), "c")[2] == "c"


@pytest.mark.parametrize("made", [flambeau.jit.script, lambda f: through(flambeau.jit.script(f))])
@pytest.mark.parametrize(("function", "args", "name"), [
    (typed, ("a",), "x"), (typed, (1.0, 2.5), "n"), (typed, (1.0, 2, [1.5]), "many"),
    (typed, (1.0, 2, flambeau.ones(2)), "many"), (typed, (1.0, 2, [1], 3), "o"), (contained, (1, {}, (1, "a")), "x"),
    (contained, (flambeau.ones(1), {"a": 1.5}, (1, "a")), "table"),
    (contained, (flambeau.ones(1), {1: 1}, (1, "a")), "table"), (contained, (flambeau.ones(1), {}, (1, 2)), "pair"),
    (contained, (flambeau.ones(1), {}, (1, "a"), 2.5), "either"), (Tensors(), (1,), "x"),
    (Tensors(), ([flambeau.ones(1)],), "x"), (Tensors(), (flambeau.ones(1), "a"), "n")])
def test_values_of_other_types_are_refused(made, function, args, name):
    with pytest.raises(RuntimeError, match=f"the argument '{name}' must be"):
        made(function)(*args)


def test_a_trace_takes_tensors():
    traced = flambeau.jit.trace(lambda x: x + 1, flambeau.ones(2))
    with pytest.raises(RuntimeError, match="must be a Tensor, got 1"):
        traced(1)


def test_what_a_script_does_to_a_list_stays_inside():
    @flambeau.jit.script
    def longer(x: List[float]) -> List[float]:
        x.append(1.0)
        return x

    given = [2, 3]
    assert longer(given) == [2.0, 3.0, 1.0] and given == [2, 3]
    shared = flambeau.jit.script([2.0])
    assert longer(shared) == [2.0, 1.0] == shared


def test_calls_inside_a_script_share_their_lists():
    @flambeau.jit.script
    def add(x: List[int]):
        x.append(1)

    @flambeau.jit.script
    def twice(n: int) -> List[int]:
        made = [n]
        add(made)
        add(made)
        return made

    assert twice(3) == [3, 1, 1] == through(twice)(3)


def told_by_a_comment(x):
    # type: (bool)
    return 1 if x else 2


def repeated(x: flambeau.Tensor, sizes: BroadcastingList2[int]):
    return sizes


@flambeau.jit._overload
def several(x: int) -> int:
    ...


@flambeau.jit._overload
def several(x: str) -> str:  # noqa: F811
    ...


def several(x: int):  # noqa: F811
    return x


def test_types_of_comments_and_overloads():
    assert flambeau.jit.script(told_by_a_comment)(True) == 1
    with pytest.raises(RuntimeError, match="must be a bool"):
        flambeau.jit.script(told_by_a_comment)("a")
    assert flambeau.jit.script(several)("a") == "a" and flambeau.jit.script(several)(2) == 2


def test_one_value_for_several():
    assert flambeau.jit.script(repeated)(flambeau.ones(1), 3) == [3, 3]
    assert flambeau.jit.script(repeated)(flambeau.ones(1), [1, 2]) == [1, 2]
    assert "sizes: List[int]" in flambeau.jit.script(repeated).code
