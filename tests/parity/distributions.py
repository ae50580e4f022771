"""The table of distributions against PyTorch: `python -m tests.parity.distributions --torch PYTHON [--failures FILE]`.

Both libraries answer the questions of distribution_cases.py: moments, densities, quantiles, samples for seed 0, their
gradients, expanded batches, errors and texts, and the divergence of every pair of distributions.
"""

import argparse
import os
import pickle
import subprocess
import sys
import tempfile
from collections import defaultdict
from pathlib import Path

import numpy as np

import flambeau

from . import pins
from .distribution_cases import all_answers

#: relative tolerance by dtype; the absolute one is a tenth of it, in units of the answer's largest number above 1
TOLERANCE = {"float32": 1e-4, "float64": 1e-6}
#: what PyTorch approximates, and this library computes to rounding: derivatives of gamma and beta quantiles, and
#: Bessel functions
APPROXIMATE = {"gradient of rsample": 2e-3, "VonMises": 2e-4}


def difference(mine, theirs, tolerance):
    """What is different, in words; None where everything agrees."""
    if isinstance(theirs, (list, tuple)) and isinstance(mine, (list, tuple)) and len(mine) == len(theirs):
        return next(filter(None, (difference(a, b, tolerance) for a, b in zip(mine, theirs, strict=True))), None)
    if isinstance(theirs, np.ndarray) and isinstance(mine, np.ndarray):
        if mine.shape != theirs.shape or mine.dtype != theirs.dtype:
            return f"{mine.dtype} {list(mine.shape)}, PyTorch {theirs.dtype} {list(theirs.shape)}"
        with np.errstate(all="ignore"):
            unit = max(1, np.abs(theirs[np.isfinite(theirs)]).max(initial=0))
            if np.allclose(mine, theirs, tolerance, tolerance / 10 * unit, equal_nan=True):
                return None
            far = ~np.isclose(mine, theirs, tolerance, tolerance / 10 * unit, equal_nan=True)
        return f"{far.sum()} of {far.size}: {mine[far][:3]}, PyTorch {theirs[far][:3]}"
    return None if type(mine) is type(theirs) and mine == theirs else f"{str(mine)[:90]}, PyTorch {str(theirs)[:90]}"


def ask(python):
    """PyTorch's answers."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "answers.pickle"
        subprocess.run([python, str(Path(__file__).with_name("distribution_cases.py")), str(path)], check=True)
        return pickle.loads(path.read_bytes())


def examine(python):
    """({name: {"cases": n, "right": n}}, {case: what is different})."""
    theirs = ask(python)
    mine = all_answers(flambeau, theirs)
    table, failures = defaultdict(lambda: defaultdict(int)), {}
    for (name, number, dtype), answers in theirs.items():
        for question, answer in answers.items():
            tolerance = APPROXIMATE.get(question) or APPROXIMATE.get(name) or TOLERANCE[dtype]
            found = difference(mine[name, number, dtype].get(question, "no answer"), answer, tolerance)
            table[name]["cases"] += 1
            table[name]["right"] += not found
            if found:
                failures[f"{name} [{dtype} {number}] {question}"] = found
    return table, failures


def show(table):
    print(f"{'distribution':<34}{'cases':>7}{'right':>7}")
    for name, row in table.items():
        print(f"{name:<34}{row['cases']:>7}{row['right']:>7}")
    cases, right = (sum(row[k] for row in table.values()) for k in ("cases", "right"))
    print(f"\n{len(table) - 1} distributions and their divergences, {cases} cases, {right} right: "
          f"{100 * right / cases:.2f} %")


def main():
    parser = argparse.ArgumentParser(prog="python -m tests.parity.distributions", description=__doc__.splitlines()[0])
    parser.add_argument("--torch", metavar="PYTHON", default=os.environ.get("FLAMBEAU_TORCH_PYTHON", sys.executable))
    parser.add_argument("--failures", metavar="FILE", help="where to write every difference, one a line")
    parser.add_argument("--pin", action="store_true", help="write the list of differing cases anew")
    options = parser.parse_args()
    table, failures = examine(options.torch)
    show(table)
    if options.pin:
        pins.write("distributions", failures)
    problems = pins.problems("distributions", failures)
    print("\n".join(problems) or "every difference is listed with its reason")
    if options.failures:
        lines = (f"{case} | {text}" for case, text in failures.items())
        Path(options.failures).write_text("".join(line.replace("\n", " ") + "\n" for line in lines))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
