"""FileCheck: which texts pass which checks."""

import warnings

import pytest

from flambeau.testing import FileCheck

pytestmark = pytest.mark.filterwarnings("ignore:a FileCheck was never run")

UNDERLINED = "def f(x):\n    return x + y\n           ~ <--- HERE\n"
WIDE = UNDERLINED.replace("~", "~~~~~")


def check(*calls):
    """A FileCheck made of (name, arguments) pairs."""
    built = FileCheck()
    for name, *arguments in calls:
        built = getattr(built, name)(*arguments)
    return built


HOLDS = [
    ([("check", "a")], "abc"),
    ([("check", "a"), ("check_not", "b"), ("check", "c")], "ac b"),
    ([("check", "a"), ("check_not", "x"), ("check_not", "y"), ("check", "b")], "abxy"),
    ([("check", "a"), ("check_next", "b")], "a b\nb"),
    ([("check_next", "b")], "\nb"),
    ([("check", "a"), ("check_same", "b")], "a b\nb"),
    ([("check_same", "b")], "b"),
    ([("check_count", "a", 2)], "aaa"),
    ([("check_count", "a", 2, True), ("check", "b")], "aaba"),
    ([("check_count", "a", 2), ("check_same", "c")], "a a c"),
    ([("check_count", "a", 0, True)], "b"),
    ([("check_dag", "a"), ("check_dag", "b")], "ba"),
    ([("check_dag", "a"), ("check_dag", "a")], "a"),
    ([("check_dag", "b"), ("check_dag", "a"), ("check_same", "c")], "a b c"),
    ([("check_dag", "a"), ("check_not", "x"), ("check_dag", "b")], "xab"),
    ([("check_regex", "a.c")], "aXc"),
    ([("check_source_highlighted", "x")], UNDERLINED),
    ([("check_source_highlighted", "x")], UNDERLINED.replace("y", "x")),
    ([("check_source_highlighted", "x + y")], WIDE),
    ([("check", "def"), ("check_source_highlighted", "x"), ("check_next", "HERE")], UNDERLINED),
]

FAILS = [
    ([("check", "z")], "abc", "check('z') is not in the text from line 1 on"),
    ([("check", "b"), ("check", "a")], "a\nb", "check('a') is not in the text from line 2 on"),
    ([("check", "ab"), ("check", "bc")], "abc", "check('bc')"),
    ([("check", "a"), ("check_not", "b"), ("check", "c")], "a\nb\nc", "check_not('b') is on line 2"),
    ([("check", "a"), ("check_not", "b")], "ab", "check_not('b') is on line 1"),
    ([("check_not", "a"), ("check", "b")], "ab", "check_not('a')"),
    ([("check", "a"), ("check_next", "b")], "a\n\nb", "check_next('b') is not on the line after line 1"),
    ([("check", "a"), ("check_next", "b")], "ab", "check_next('b')"),
    ([("check", "a"), ("check_same", "b")], "a\nb", "check_same('b') is not on the rest of line 1"),
    ([("check_count", "a", 2)], "ab", "check_count('a', 2) is not that many times"),
    ([("check_count", "a", 2, True)], "aaa", "check_not('a')"),
    ([("check_dag", "a"), ("check_not", "x"), ("check_dag", "b")], "axb", "check_not('x')"),
    ([("check_dag", "a"), ("check_dag", "b"), ("check", "c")], "bca", "check('c')"),
    ([("check_regex", "b.a")], "b\na", "check_regex('b.a') matches nothing"),
    ([("check_source_highlighted", "x + y")], UNDERLINED, "underlined"),
    ([("check_source_highlighted", "x +")], WIDE, "underlined"),
    ([("check_source_highlighted", "y")], "y", "underlined"),
    ([], "abc", "nothing to check"),
]


@pytest.mark.parametrize(("calls", "text"), HOLDS)
def test_holds(calls, text):
    built = check(*calls)
    built.run(text)
    built.run(text)


@pytest.mark.parametrize(("calls", "text", "message"), FAILS)
def test_fails(calls, text, message):
    with pytest.raises(RuntimeError) as caught:
        check(*calls).run(text)
    assert message in str(caught.value)


@pytest.mark.parametrize(("checks", "text"), [
    ("# CHECK: a\n# CHECK-NEXT: b\n# CHECK-NOT: x\n# CHECK-COUNT-2: c\n#CHECK-DAG: d", "a\nb\nccd"),
    ("code()  # CHECK: b\nCHECK: z\n# check: q\n## CHECK: q", "b"), ("# CHECK-COUNT-EXACTLY-2: c", "cc"),
    ("# CHECK-SAME: b\n# CHECK-REGEX: b+$", "b bb"), ("# CHECK-SOURCE-HIGHLIGHTED: x", UNDERLINED),
])
def test_comments_hold(checks, text):
    FileCheck().run(checks, text)


@pytest.mark.parametrize(("checks", "text"), [
    ("", "a"), ("# CHECK-COUNT-EXACTLY-2: c", "ccc"), ("# CHECK-FOO: c", "c"), ("# CHECK a", "a"), ("# CHECK:a", "a"),
    ("# CHECK-COUNT-0: a", "a"), ("# CHECK: c d", "c   d"), ("# CHECK:  c  ", "a c"), ("# CHECKED: a", "a"),
])
def test_comments_fail(checks, text):
    with pytest.raises(RuntimeError, match="FileCheck"):
        FileCheck().run(checks, text)


def test_wrong_arguments():
    with pytest.raises(TypeError, match="takes a text"):
        check(("check", 3))
    with pytest.raises(TypeError, match=r"got int"):
        check(("check", "a")).run(3)
    with pytest.raises(RuntimeError, match="asks for nothing"):
        check(("check_count", "a", 0))


def test_forgotten():
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        check(("check", "a"))
    assert "never run" in str(seen[0].message)
