"""A derivative rule is plain Python: a debugger stops inside it."""

import os
import subprocess
import sys

PROGRAM = """\
import flambeau
from flambeau.ops import kinds

def where_is(rule):
    code = rule.__code__
    return f"{code.co_filename}:{code.co_firstlineno}"

x = flambeau.tensor([2.0], requires_grad=True)
y = x.exp() * 3
y.sum().backward()
print("gradient", x.grad.item())
"""


def rule_location(source):
    """File and line of the record of `exp`, whose rule lambda is in it."""
    import flambeau
    root = os.path.dirname(flambeau.__file__)
    for folder, _, files in os.walk(os.path.join(root, "ops")):
        for file in sorted(files):
            if not file.endswith(".py"):
                continue
            path = os.path.join(folder, file)
            with open(path) as lines:
                for number, line in enumerate(lines, 1):
                    if source in line:
                        inside = [line] + [next(lines, "") for _ in range(4)]
                        offset = next(k for k, text in enumerate(inside) if "lambda" in text)
                        return path, number + offset
    raise AssertionError(f"no record with {source}")


def test_pdb_stops_inside_a_rule(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    path, line = rule_location('"exp(Tensor self)')
    commands = f"break {path}:{line}\ncontinue\n" + "continue\n" * 3 + "where\nargs\np 'stopped with', sorted(locals())\n"
    commands = f"break {path}:{line}\ncontinue\nwhere\np 'stopped with', sorted(locals())\ncontinue\nquit\n"
    found = subprocess.run([sys.executable, "-m", "pdb", str(program)], input=commands, text=True, timeout=120,
                           capture_output=True, env={**os.environ, "PYTHONBREAKPOINT": ""}, check=False)
    # the line is also passed while the record is made at import; the stop that counts has the rule's arguments
    text = found.stdout
    if "'g'" not in text:
        commands = f"break {path}:{line}\n" + "continue\np 'stopped with', sorted(locals())\n" * 6 + "quit\n"
        found = subprocess.run([sys.executable, "-m", "pdb", str(program)], input=commands, text=True, timeout=120,
                               capture_output=True, check=False)
        text = found.stdout
    assert "lambda" in text, text + found.stderr
    assert "stopped with" in text and "'g'" in text and "'result'" in text, text + found.stderr


def test_traceback_of_a_failing_rule_shows_the_rule():
    """An error inside backward carries the Python frames of the rule."""
    import traceback

    import flambeau

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
