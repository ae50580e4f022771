"""The table of sparse operators against PyTorch: `python -m tests.parity.sparse --torch PYTHON [--failures FILE]`.

Both libraries answer the questions of sparse_cases.py: every operator in every layout, dtype and shape, creation,
gradients, layers and optimizers; then the samples of PyTorch's own operator database for its sparse operators (where
PYTHON has expecttest).
"""

import argparse
import os
import pickle
import subprocess
import sys
import tempfile
import warnings
from collections import defaultdict
from pathlib import Path

import numpy as np

import flambeau

from . import pins
from .sparse_cases import answer, own_answers, rebuilt

#: relative tolerance by dtype; the absolute one is a tenth of it
TOLERANCE = {"float32": 1e-5, "complex64": 1e-5, "float16": 2e-3}


def difference(mine, theirs):
    """What is different, in words; None where everything agrees."""
    if isinstance(theirs, (list, tuple)) and isinstance(mine, (list, tuple)) and len(mine) == len(theirs):
        return next(filter(None, (difference(a, b) for a, b in zip(mine, theirs, strict=True))), None)
    if isinstance(theirs, np.ndarray) and isinstance(mine, np.ndarray):
        if mine.shape != theirs.shape or mine.dtype != theirs.dtype:
            return f"{mine.dtype} {list(mine.shape)}, PyTorch {theirs.dtype} {list(theirs.shape)}"
        near = TOLERANCE.get(str(theirs.dtype), 1e-9)
        with np.errstate(all="ignore"):
            close = np.isclose(mine, theirs, near, near / 10, equal_nan=True) if theirs.dtype.kind in "fc" else \
                mine == theirs
        return None if close.all() else f"{(~close).sum()} of {close.size}: {mine[~close][:3]}, PyTorch " \
                                        f"{theirs[~close][:3]}"
    if isinstance(theirs, float) and isinstance(mine, float):
        return None if np.isclose(mine, theirs, 1e-6, 1e-9, equal_nan=True) else f"{mine}, PyTorch {theirs}"
    if theirs == "raises RuntimeError" and mine == "raises NotImplementedError":
        return None  # a subclass, which says more
    return None if type(mine) is type(theirs) and mine == theirs else f"{str(mine)[:90]}, PyTorch {str(theirs)[:90]}"


def ask(python, cache=None):
    """PyTorch's answers."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(cache or Path(folder) / "answers.pickle")
        if not path.exists():
            subprocess.run([python, str(Path(__file__).with_name("sparse_cases.py")), str(path)], check=True)
        return pickle.loads(path.read_bytes())


def sample_answer(path, args, kwargs):
    def call():
        function = flambeau
        for part in path.split("."):
            function = getattr(function, part, None) or getattr(flambeau.Tensor, part)
        return function(*[rebuilt(flambeau, a) for a in args],
                        **{k: rebuilt(flambeau, v) for k, v in kwargs.items()})
    return answer(call)


def questions(theirs):
    """(group, case, this library's answer, PyTorch's)."""
    mine = own_answers(flambeau)
    for (group, case), found in theirs["own"].items():
        yield group, case, mine.get((group, case), "no answer"), found
    for group, case, path, args, kwargs, found in theirs["samples"]:
        yield f"{group} (samples)", case, sample_answer(path, args, kwargs), found


def examine(python, cache=None):
    """({group: {"cases": n, "right": n, "more": n}}, {case: what is different}). More: answers where PyTorch raises."""
    table, failures = defaultdict(lambda: defaultdict(int)), {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for group, case, mine, expected in questions(ask(python, cache)):
            row = table[group]
            refused = isinstance(expected, str) and expected.startswith("raises ")
            if refused and not (isinstance(mine, str) and mine.startswith("raises ")):
                row["more"] += 1  # PyTorch has no answer that could be compared
                continue
            row["cases"] += 1
            found = difference(mine, expected)
            row["right"] += not found
            if found:
                failures[f"{group} [{case}]"] = found
    return table, failures


def show(table):
    print(f"{'operator':<34}{'cases':>7}{'right':>7}{'more':>7}")
    for name, row in sorted(table.items()):
        print(f"{name:<34}{row['cases']:>7}{row['right']:>7}{row['more']:>7}")
    cases, right, more = (sum(row[k] for row in table.values()) for k in ("cases", "right", "more"))
    print(f"\n{len(table)} groups, {cases} cases, {right} right: {100 * right / max(cases, 1):.2f} %; {more} more are "
          "answered here where PyTorch raises")


def main():
    parser = argparse.ArgumentParser(prog="python -m tests.parity.sparse", description=__doc__.splitlines()[0])
    parser.add_argument("--torch", metavar="PYTHON", default=os.environ.get("FLAMBEAU_TORCH_PYTHON", sys.executable))
    parser.add_argument("--failures", metavar="FILE", help="where to write every difference, one a line")
    parser.add_argument("--cache", metavar="FILE", help="keeps PyTorch's answers for the next time")
    parser.add_argument("--pin", action="store_true", help="write the list of differing cases anew")
    options = parser.parse_args()
    table, failures = examine(options.torch, options.cache)
    show(table)
    if options.pin:
        pins.write("sparse", failures)
    problems = pins.problems("sparse", failures)
    print("\n".join(problems) or "every difference is listed with its reason")
    if options.failures:
        lines = (f"{case} | {text}" for case, text in failures.items())
        Path(options.failures).write_text("".join(line.replace("\n", " ") + "\n" for line in lines))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
