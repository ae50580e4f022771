# ruff: noqa: UP006, UP045, UP035, F821, F841, B007, RUF059, C416 (as programs for PyTorch are written, with their mistakes)
"""Mistakes that `jit.script` finds before a program runs; and that what may be right is left alone."""

import re
from typing import Any, Dict, List, Optional, Tuple

import pytest

import flambeau
from flambeau import Tensor, nn

torch = flambeau


@flambeau.jit.script
def whole(x: int, y: float = 1.0) -> int:
    return x


def missing_return(x: int) -> int:
    if x > 0:
        return x


def other_return(x: int) -> str:
    return x


def returns_none(x: int) -> int:
    return None


def returns_that_differ(x: int):
    if x > 1:
        return 1
    return "a"


def branches_that_differ(x: int):
    if x > 0:
        y = 1
    else:
        y = "a"
    return y


def one_branch_alone(x: int):
    if x > 0:
        y = 1
    return y


def only_in_the_loop(x: int):
    for i in range(x):
        z = i
    return z


def loop_that_differs(x: int):
    y = 1
    for _ in range(3):
        y = 1.5
    return y


def undefined(x):
    return x + undefined_thing


def no_operator(x):
    return torch.nope(x)


def no_method(x: Tensor):
    return x.nope()


def text_and_number(x: int):
    return "a" + x


def appended(x: int):
    l = [1, 2]
    l.append("a")
    return l


def appended_to_tensors(x: int):
    l = []
    l.append(x)
    return l


def loop_over_a_number(x: int):
    for i in x:
        pass
    return x


def item_of_a_tuple(x: Tuple[int, int]):
    x[0] = 1
    return x


def taken_apart(x: Tuple[int, int]):
    a, b, c = x
    return a


def argument_of_another_type(x: str):
    return whole(x)


def method_of_a_number(x: int):
    return x.add(1)


def calls_one_with_a_mistake(x):
    return undefined(x)


def decided_by_a_number(x: int) -> str:
    if x % 2:
        y = "foo"
    else:
        y = x
    return y


def too_many_arguments(x: int):
    return whole(x, 1.0, 2)


MISTAKES = [(missing_return, "not on every way"), (other_return, "returns an int"), (returns_none, "NoneType"),
            (returns_that_differ, "elsewhere"), (branches_that_differ, "after one branch"),
            (one_branch_alone, "no value on some way"), (only_in_the_loop, "no value on some way"),
            (loop_that_differs, "before the loop"), (undefined, "is not defined"), (no_operator, "has no 'nope'"),
            (method_of_a_number, "an int, which has no 'add'"), (calls_one_with_a_mistake, "is not defined"),
            (decided_by_a_number, "after one branch"),
            (no_method, "a Tensor, which has no 'nope'"), (text_and_number, "cannot be put together"),
            (appended, r"List\[int\]"), (appended_to_tensors, "annotate the list"),
            (loop_over_a_number, "use range"), (item_of_a_tuple, "cannot be assigned to"),
            (taken_apart, "3 names take apart a tuple of 2"), (argument_of_another_type, "must be an int, got a str"),
            (too_many_arguments, "too many positional")]


@pytest.mark.parametrize("function, text", MISTAKES, ids=lambda x: getattr(x, "__name__", ""))
def test_a_mistake_is_an_error_of_script(function, text):
    with pytest.raises(RuntimeError, match=text) as raised:
        flambeau.jit.script(function)
    assert "test_checks.py, line" in str(raised.value)


def refined(x: Optional[int], y: Any, z: Optional[Tensor] = None) -> int:
    if x is None:
        x = 3
    assert isinstance(y, int)
    if z is not None and z.dim() > 1:
        x = x + 1
    return x + y


def ways_that_end(x: int) -> str:
    if x > 0:
        y = "a"
    elif x == 0:
        raise ValueError("none")
    else:
        return "negative"
    return y


def for_ever(x: int) -> int:
    while True:
        x += 1
        if x > 5:
            return x


def containers(n: int, d: Dict[str, int]) -> Tuple[List[int], float]:
    found: List[int] = []
    for k, (a, b) in enumerate(zip([1, 2], [3.0, 4.0])):
        found.append(k + a)
    total = sum([v for v in d.values()]) * 1.5
    x, y = 1, 2.0
    x, y = y, x
    return found, total


def another_type_later(x: int):
    x = "a"
    return x


def never_used(x: int) -> int:
    if x > 0:
        y = 1
    else:
        y = "a"
    return x


def tensors_as_numbers(x: Tensor) -> int:
    return x.sum()


def as_it_runs(x: int):
    try:
        y = x
    except ValueError:
        y = "a"
    return y


@pytest.mark.parametrize("function", [refined, ways_that_end, for_ever, containers, another_type_later, never_used,
                                      tensors_as_numbers, as_it_runs])
def test_what_may_be_right_is_left_alone(function):
    assert isinstance(flambeau.jit.script(function), flambeau.jit.ScriptFunction)


class Inner(nn.Module):
    def forward(self, x):
        return x


class Outer(nn.Module):
    limit: int

    def __init__(self, way):
        super().__init__()
        self.inner, self.way = Inner(), None
        self.forward_is = way

    def forward(self, x):
        return self.inner(x)


class Reads(Outer):
    def forward(self, x):
        return x + self.nope


class Sets(Outer):
    def forward(self, x):
        self.nope = x
        return x


class Calls(Outer):
    def forward(self, x):
        return self.inner(x, x)


class Guarded(Outer):
    def forward(self, x):
        if hasattr(self, "nope"):
            x = x + self.nope
        if not torch.jit.is_scripting():
            x = undefined_elsewhere(x)
        self.limit = 3
        return x

    @flambeau.jit.unused
    def not_looked_at(self, x):
        return undefined_elsewhere(x)


@pytest.mark.parametrize("kind, text", [(Reads, "has no 'nope'"), (Sets, "no attribute 'nope'"), (Calls, "too many")])
def test_modules_and_those_inside_are_looked_at(kind, text):
    for module in (kind(1), nn.Sequential(nn.ReLU(), kind(1))):
        with pytest.raises(RuntimeError, match=text):
            flambeau.jit.script(module)


def test_branches_that_are_not_the_programs_are_left_alone():
    assert flambeau.jit.script(Guarded(1))(flambeau.ones(1)).item() == 1


def test_a_scripted_module_knows_that_it_is_one():
    class Asks(nn.Module):
        def forward(self, x):
            return x + 1 if torch.jit.is_scripting() else x + 2

    scripted = flambeau.jit.script(Asks())
    assert scripted(flambeau.zeros(1)).item() == 1 and Asks()(flambeau.zeros(1)).item() == 2
    with pytest.raises(ValueError, match="mine"):
        flambeau.jit.script(fails)(1)
    assert not flambeau.jit.is_scripting()


def fails(x: int) -> int:
    raise ValueError("mine")


# ---- values that may be None, and operators --------------------------------------------------------------------------

def sum_of_none(x: Optional[Tensor]):
    return x + 1


def method_of_none(x: Optional[Tensor]):
    return x.sum()


def none_is_returned(x: Optional[Tensor]) -> Tensor:
    return x


def none_is_an_argument(x: Optional[Tensor]):
    return torch.sin(x)


def none_is_an_argument_of_a_function(n: Optional[int]):
    return whole(n)


def item_of_none(x: Optional[List[int]]):
    return x[0]


def none_after_one_branch(x: Optional[Tensor], c: bool):
    if c and x is None:
        x = torch.ones(1)
    return x.sum()


def none_by_one_branch(x: Tensor, c: bool):
    y = None
    if c:
        y = x
    return y + 1


def too_few(x: Tensor):
    return torch.add(x)


def too_many(x: Tensor):
    return x.relu(1, 2)


def no_such_argument(x: Tensor):
    return torch.sum(x, nope=1)


def a_text(x: Tensor):
    return torch.sin("a")


def a_tensor_for_several(x: Tensor):
    return torch.cat(x)


class Helper(nn.Module):
    def forward(self, x):
        return self.helped(x)

    def helped(self, x: Optional[Tensor]):
        return x * 2


@pytest.mark.parametrize(("function", "text"), [
    (sum_of_none, "x + 1"), (method_of_none, "may be None"), (none_is_returned, "may be None"),
    (none_is_an_argument, "may be None"), (none_is_an_argument_of_a_function, "may be None"),
    (item_of_none, "may be None"), (none_after_one_branch, "may be None"), (none_by_one_branch, "may be None"),
    (too_few, "add does not take these arguments"), (too_many, "relu does not take"),
    (no_such_argument, "sum does not"),
    (a_text, "cannot be a str"), (a_tensor_for_several, "'tensors' cannot be a Tensor"), (Helper(), "may be None")])
def test_none_and_operators(function, text):
    with pytest.raises(RuntimeError, match=re.escape(text)):
        flambeau.jit.script(function)


def known_by_return(x: Optional[Tensor]):
    if x is None:
        return torch.ones(1)
    return x + 1


def known_by_raise(x: Optional[Tensor], y: Optional[Tensor]):
    if x is None or y is None:
        raise ValueError("nothing")
    return x + y


def known_in_the_condition(x: Optional[Tensor], y: Tensor):
    if x is not None and x.sum() > 0:
        y = y + x
    return y


def known_by_assert(x: Optional[Tensor]):
    assert x is not None
    return x.shape[0] + x.size(0)


def known_by_not(x: Optional[Tensor], y: Tensor):
    if x is not None:
        y = y * x
    elif y.dim() == 2:
        x = y
    return y


def known_in_a_loop(x: Tensor, h: Optional[Tensor]):
    for _ in range(3):
        if h is None:
            h = x
        else:
            h = h + x
    return h


def known_in_an_expression(x: Optional[Tensor], y: Tensor):
    return y if x is None else y + x


def filled(n: Optional[int], y: Tensor):
    if n is None:
        n = 3
    return y * n


def known_by_another_name(x: Optional[Tensor], y: Tensor):
    z = x
    if z is not None:
        return z + y
    return y


def known_of_a_dict(d: Dict[str, Tensor]):
    v = d.get("a")
    if v is not None:
        return v + 1
    return torch.ones(1)


def unwrapped(x: Optional[Tensor]):
    return torch.jit._unwrap_optional(x) + 1


def forms_of_operators(x: Tensor):
    a = torch.addmm(x, x, x, beta=2, alpha=3) + torch.where(x > 0, x, 0.0) + x.clamp(0, 1) + torch.randn(2, 2)
    b = torch.zeros([2, 2], dtype=x.dtype) + x.view(2, 2).permute(1, 0).expand(2, 2) + x.norm(dim=1, keepdim=True)
    return a + b + x.to(torch.float64).to(x) + torch.cat((x, x))[:2] + x.new_zeros(2, 2) + x.max(dim=1)[0] + x.max()


@pytest.mark.parametrize("function", [
    known_by_return, known_by_raise, known_in_the_condition, known_by_assert, known_by_not, known_in_a_loop,
    known_in_an_expression, filled, known_by_another_name, known_of_a_dict, unwrapped, forms_of_operators])
def test_what_was_tested_is_a_value(function):
    flambeau.jit.script(function)


def calls_too_few(x: Tensor):
    return too_few(x) * 2


def calls_again(x: Tensor):
    return calls_too_few(x) + 1


def test_a_mistake_tells_the_calls_that_lead_to_it():
    with pytest.raises(RuntimeError) as caught:
        flambeau.jit.script(calls_again)
    lines = str(caught.value).splitlines()
    assert "torch.add(x)" in lines[1] and lines[3].strip() == "too_few(x)" and lines[5].strip() == "calls_too_few(x)"
    assert lines[2].endswith("calls_too_few") and lines[4].endswith("calls_again")


class Settled(nn.Module):
    __constants__ = ("flag",)

    def __init__(self, flag):
        super().__init__()
        self.flag = flag

    def forward(self, x: int):
        if self.flag:
            return 1
        else:
            return "2"


def settled_by_a_type(x: Tensor) -> Tensor:
    if isinstance(x, int):
        return 1
    return x


def power() -> float:
    z = 8
    z **= 2
    return z


@pytest.mark.parametrize("function", [Settled(True), Settled(False), settled_by_a_type, power])
def test_branches_that_are_not_taken_are_not_looked_at(function):
    flambeau.jit.script(function)
