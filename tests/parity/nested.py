"""The table of nested tensors against PyTorch: `python -m tests.parity.nested --torch PYTHON [--failures FILE]`.

Both libraries answer the questions of nested_cases.py, in both layouts; then the samples of PyTorch's own operator
database for its jagged tensors, values and gradients (where PYTHON has expecttest).
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
from .nested_cases import called, own_answers
from .sparse import difference as plain_difference
from .sparse import show


def refused(x):
    return isinstance(x, str) and x.startswith("raises ")


def difference(mine, theirs):
    """What is different, in words; None where everything agrees."""
    if refused(mine) or refused(theirs):
        return None if refused(mine) and refused(theirs) and plain_difference(mine, theirs) is None else \
            f"{str(mine)[:90]}, PyTorch {str(theirs)[:90]}"
    if isinstance(theirs, np.ndarray) != isinstance(mine, np.ndarray):
        return f"{str(mine)[:90]}, PyTorch {str(theirs)[:90]}"
    if isinstance(theirs, (list, tuple)) and isinstance(mine, (list, tuple)) and len(mine) == len(theirs):
        return next(filter(None, (difference(a, b) for a, b in zip(mine, theirs, strict=True))), None)
    return plain_difference(mine, theirs)


def ask(python, cache=None):
    """PyTorch's answers."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(cache or Path(folder) / "answers.pickle")
        if not path.exists():
            subprocess.run([python, str(Path(__file__).with_name("nested_cases.py")), str(path)], check=True)
        return pickle.loads(path.read_bytes())


def questions(theirs):
    """(group, case, this library's answer, PyTorch's)."""
    mine = own_answers(flambeau)
    for question, found in theirs["own"].items():
        yield "questions", question, mine.get(question, "no answer"), found
    for operator, case, path, args, kwargs, found, gradients in theirs["samples"]:
        answer, slopes = called(flambeau, path, args, kwargs)
        yield f"{operator} (samples)", case, answer, found
        if gradients is not None and not refused(found):
            yield f"{operator} (gradients)", case, slopes, gradients


def examine(python, cache=None):
    """({group: {"cases": n, "right": n, "more": n}}, {case: what is different}). More: answers where PyTorch raises."""
    table, failures = defaultdict(lambda: defaultdict(int)), {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for group, case, mine, expected in questions(ask(python, cache)):
            row = table[group]
            if refused(expected) and not refused(mine):
                row["more"] += 1  # PyTorch has no answer that could be compared
                continue
            row["cases"] += 1
            found = difference(mine, expected)
            row["right"] += not found
            if found:
                failures[f"{group} [{case}]"] = found
    return table, failures


def main():
    parser = argparse.ArgumentParser(prog="python -m tests.parity.nested", description=__doc__.splitlines()[0])
    parser.add_argument("--torch", metavar="PYTHON", default=os.environ.get("FLAMBEAU_TORCH_PYTHON", sys.executable))
    parser.add_argument("--failures", metavar="FILE", help="where to write every difference, one a line")
    parser.add_argument("--cache", metavar="FILE", help="keeps PyTorch's answers for the next time")
    parser.add_argument("--pin", action="store_true", help="write the list of differing cases anew")
    options = parser.parse_args()
    table, failures = examine(options.torch, options.cache)
    show(table)
    if options.pin:
        pins.write("nested", failures)
    problems = pins.problems("nested", failures)
    print("\n".join(problems) or "every difference is listed with its reason")
    if options.failures:
        lines = (f"{case} | {text}" for case, text in failures.items())
        Path(options.failures).write_text("".join(line.replace("\n", " ") + "\n" for line in lines))


if __name__ == "__main__":
    main()
