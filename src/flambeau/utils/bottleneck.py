"""Where a program spends its time: `python -m flambeau.utils.bottleneck program.py arguments` runs and profiles it.

First Python's own profiler (functions), then the operators' (kinds of operators), each in a run of its own, so that
neither slows the other down.
"""

import argparse
import cProfile
import io
import os
import pstats
import runpy
import sys

from ..autograd.profiler import profile
from . import collect_env

_ROWS = 15


def _run_program(path, arguments):
    """Runs a program as `python path arguments` would."""
    before = sys.argv, sys.path[0]
    sys.argv, sys.path[0] = [path, *arguments], os.path.dirname(os.path.abspath(path))
    try:
        runpy.run_path(path, run_name="__main__")
    except SystemExit as stopped:
        if stopped.code not in (None, 0):
            raise
    finally:
        sys.argv, sys.path[0] = before


def functions(path, arguments=(), rows=_ROWS):
    """The functions that take longest, as text.

    >>> import pathlib, tempfile
    >>> from flambeau.utils import bottleneck
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     program = pathlib.Path(folder) / "program.py"
    ...     _ = program.write_text("def slow():\\n    for k in range(10**6):\\n        k * k\\nslow()")
    ...     "slow" in bottleneck.functions(str(program))
    True
    """
    recording = cProfile.Profile()
    recording.enable()
    try:
        _run_program(path, list(arguments))
    finally:
        recording.disable()
    text = io.StringIO()
    pstats.Stats(recording, stream=text).sort_stats("tottime").print_stats(rows)
    return text.getvalue().strip()


def operators(path, arguments=(), rows=_ROWS):
    """The kinds of operators that take longest, as text.

    >>> import pathlib, tempfile
    >>> from flambeau.utils import bottleneck
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     program = pathlib.Path(folder) / "program.py"
    ...     _ = program.write_text("import flambeau\\nflambeau.ones(8, 8) @ flambeau.ones(8, 8)")
    ...     "aten::matmul" in bottleneck.operators(str(program))
    True
    """
    with profile() as recording:
        _run_program(path, list(arguments))
    return recording.key_averages().table(sort_by="self_cpu_time_total", row_limit=rows)


def _titled(title, text):
    line = "-" * 80
    print(f"{line}\n  {title}\n{line}\n{text}\n")


def main(arguments=None):
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m flambeau.utils.bottleneck", description=(
        "Runs a program twice and prints where its time goes. It must end by itself; let it do a few steps only."))
    parser.add_argument("program", help="the path of a Python program")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="the program's own arguments")
    given = parser.parse_args(arguments)
    if not os.path.isfile(given.program):
        parser.error(f"there is no file {given.program}")
    _titled("environment", collect_env.get_pretty_env_info())
    _titled("functions, by their own time (cProfile)", functions(given.program, given.arguments))
    _titled("operators, by their own time (autograd profiler)", operators(given.program, given.arguments))


if __name__ == "__main__":
    main()
