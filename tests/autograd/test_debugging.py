"""A derivative rule is plain Python: a debugger stops inside it."""

import subprocess
import sys
import traceback
from pathlib import Path

import flambeau

PROGRAM = """\
import flambeau
x = flambeau.tensor([2.0], requires_grad=True)
y = x.exp() * 3
y.sum().backward()
print("gradient", x.grad.item())
"""


def rule_of(record):
    """File and line of the first lambda of a record: where its derivative rule is written."""
    for path in sorted((Path(flambeau.__file__).parent / "ops").glob("*.py")):
        lines = path.read_text().splitlines()
        for number, line in enumerate(lines):
            if line.startswith(record):
                return path, next(k for k in range(number, number + 8) if "lambda" in lines[k]) + 1
    raise AssertionError(f"no record that begins with {record}")


def test_pdb_stops_inside_a_rule(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    path, line = rule_of("exp = ")
    # the line is passed once while the record is made; the stop that counts has the rule's arguments
    commands = f"break {path}:{line}\n" + "continue\np 'stopped with', sorted(locals())\n" * 3 + "quit\n"
    found = subprocess.run([sys.executable, "-m", "pdb", str(program)], input=commands, text=True, timeout=120,
                           capture_output=True, check=False)
    text = found.stdout + found.stderr
    assert "('stopped with', ['g', 'result'])" in text, text
    assert "<lambda>" in text


def test_traceback_of_a_failing_rule_shows_the_rule():
    """An error inside backward carries the Python frames of the rule."""
    class Bad(flambeau.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1

        @staticmethod
        def backward(ctx, g):
            return g.no_such_method()
    x = flambeau.ones(1, requires_grad=True)
    try:
        Bad.apply(x).sum().backward()
    except AttributeError as error:
        text = "".join(traceback.format_exception(error))
        assert "return g.no_such_method()" in text
    else:
        raise AssertionError("no error")
