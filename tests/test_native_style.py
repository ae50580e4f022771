"""Native code keeps the project's measure: lines of 120 columns, functions of 40 lines unless a comment says why."""

import re
from pathlib import Path

import pytest

NATIVE = Path(__file__).resolve().parents[1] / "native"
FILES = sorted([*NATIVE.rglob("*.h"), *NATIVE.rglob("*.cpp")])
COLUMNS = 120
LINES = 40
REASON = "// long because: "

if not FILES:
    pytest.skip("the native sources are not here", allow_module_level=True)

#: comments, strings, characters and preprocessor lines: braces inside them are none
NOT_CODE = re.compile(r'//[^\n]*|/\*.*?\*/|R"\((?:.|\n)*?\)"|"(?:\\.|[^"\\\n])*"|(?<!\d)\'(?:\\.|[^\'\\\n])+\''
                      r'|^[ \t]*#(?:[^\n]*\\\n)*[^\n]*', re.S | re.M)
SCOPE = re.compile(r"\b(namespace|struct|class|union|enum)\b[^()=;]*$|\bextern\s*\"\"\s*$")
FUNCTION = re.compile(r"\)\s*(const\b|noexcept\b|override\b|mutable\b|->[^;{}]*|:[^;]*)*\s*$", re.S)


def blanked(text):
    """The text without what is no code, each line where it was."""
    return NOT_CODE.sub(lambda m: re.sub(r"[^\n]", " ", m[0]), text)


def functions(text):
    """(first line, last line) of every function defined in a namespace or class; lambdas belong to the one around."""
    code = blanked(text)
    stack, start = [], 0  # "scope" for namespaces and classes, "function", "other"
    for m in re.finditer(r"[{};]", code):
        at = m.start()
        if m[0] == "{":
            head = code[start:at]
            inside = all(kind == "scope" for kind, _ in stack)
            if inside and SCOPE.search(head) and not re.search(r"\)\s*$", head):
                stack.append(("scope", at))
            elif inside and FUNCTION.search(head):
                first = start + len(head) - len(head.lstrip())
                stack.append(("function", first))
            else:
                stack.append(("other", at))
            start = at + 1 if stack[-1][0] == "scope" else start
        elif m[0] == "}":
            kind, first = stack.pop()
            if kind == "function":
                yield code.count("\n", 0, first) + 1, code.count("\n", 0, at) + 1
            start = at + 1
        elif all(kind == "scope" for kind, _ in stack):
            start = at + 1
    assert not stack


def too_long(text):
    lines = text.split("\n")
    for first, last in functions(text):
        if last - first + 1 > LINES:
            above = first - 2
            while above >= 0 and lines[above].lstrip().startswith("//"):
                above -= 1
            if not any(line.lstrip().startswith(REASON) for line in lines[above + 1:first - 1]):
                yield first, last


def name(path):
    return str(path.relative_to(NATIVE))


@pytest.mark.parametrize("path", FILES, ids=name)
def test_lines(path):
    for number, line in enumerate(path.read_text().split("\n"), 1):
        assert len(line) <= COLUMNS, f"{name(path)}:{number} has {len(line)} columns"


@pytest.mark.parametrize("path", FILES, ids=name)
def test_functions(path):
    found = [f"{name(path)}:{first} has {last - first + 1} lines" for first, last in too_long(path.read_text())]
    assert not found, f"functions over {LINES} lines: cut them, or write `{REASON}…` above: " + ", ".join(found)


#: what only x86 has: intrinsics, their header, what the processor is asked
X86 = re.compile(r"immintrin|\b_mm\d*_|\b__m(128|256|512)|__builtin_(ia32|cpu)|cpuid|xgetbv|__x86_64__|__AVX|__F16C__")
MACHINE = ("kernels/simd/", "core/machine.cpp")


@pytest.mark.parametrize("path", FILES, ids=name)
def test_instruction_sets(path):
    if not name(path).startswith(MACHINE):
        for number, line in enumerate(path.read_text().split("\n"), 1):
            assert not X86.search(line), f"{name(path)}:{number} knows x86; only {MACHINE} may"


@pytest.mark.parametrize("path", [path for path in FILES if name(path).startswith("kernels/simd/")], ids=name)
def test_tables_of_loops_are_constants(path):
    """Made while the library is loaded, they would be put together by instructions that not every processor has."""
    assert not re.search(r"\(FLAMBEAU_LEVEL,[^;\[]*\{", blanked(path.read_text())), "register a constexpr table"


LONG = "int f(int a,\n      int b) {\n" + "  a += b;\n" * 40 + "  return a;\n}\n"


@pytest.mark.parametrize("text, count", [
    (LONG, 1),
    ("// long because: a sum\n" + LONG, 0),
    ("// long because: a sum\n// of many\ntemplate <class T>\n" + LONG, 0),
    ("namespace a {\nstruct B : C {\n" + LONG + "};\n}  // namespace a\n", 1),
    ("struct B {\n  int x = 0;\n  B(int y) : x(y) {\n" + "    ++x;\n" * 40 + "  }\n};\n", 1),
    ("const int table[] = {\n" + "  1,\n" * 50 + "};\n", 0),
    ("int f() {\n" + "  g('{', \"}{\");  // {\n" * 30 + "}\n" + "int h() {\n" + "  g();\n" * 30 + "}\n", 0),
], ids=["long", "reason", "template", "method", "constructor", "table", "braces in text"])
def test_what_counts(text, count):
    assert len(list(too_long(text))) == count
