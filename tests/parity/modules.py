"""The table of modules against PyTorch: `python -m tests.parity.modules --torch PYTHON [--only RE] [--failures FILE]`.

PYTHON is an interpreter with PyTorch, NumPy and what PyTorch's own tests import (expecttest, hypothesis, pytest). Per
module it counts the cases whose state (keys, shapes, values for seed 0), output, gradients, buffers, text and errors
are PyTorch's.
"""

import argparse
import os
import pickle
import re
import subprocess
import sys
import tempfile
import warnings
from collections import defaultdict
from pathlib import Path

import numpy as np

import flambeau

from . import pins
from .module_cases import Case, run

#: relative and absolute tolerance by dtype; an absolute one counts in units of the array's largest number above 1
TOLERANCE = {"float16": (2e-3, 2e-3), "bfloat16": (2e-2, 2e-2), "float32": (5e-5, 5e-6), "float64": (1e-7, 1e-9)}
HALF = ("float16", "bfloat16")
#: CTCLoss sums exponentials over 50 steps: in float32 both libraries are off by 1.5e-4 from what float64 gives
TOLERANCE["ctc"] = (1e-3, 2e-4)
COLUMNS = ("state", "output", "input gradients", "parameter gradients", "buffers", "text")


def ask(python, only="", dtypes="float32,float64", cache=None):
    """[(case, what PyTorch gave)] of the modules whose name `only` finds; `cache`: a folder that keeps those of all."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(cache or folder) / f"modules-{dtypes}.answers"
        script = Path(__file__).with_name("module_cases.py")
        if not path.exists():
            subprocess.run([python, str(script), str(path), "" if cache else only, dtypes], check=True)
        answers = pickle.loads(path.read_bytes())
    return [(Case(**case), answer) for case, answer in answers if re.search(only, case["module"])]


def difference(mine, theirs, path="", dtype=""):
    """What is different, in words; None where everything agrees."""
    if isinstance(theirs, dict):
        if list(mine) != list(theirs):
            return f"{path}: keys {list(mine)}, PyTorch {list(theirs)}"
        mine, theirs, names = list(mine.values()), list(theirs.values()), list(theirs)
        found = (difference(a, b, f"{path}[{n}]", dtype) for a, b, n in zip(mine, theirs, names, strict=True))
        return next((d for d in found if d), None)
    if isinstance(theirs, list):
        if len(mine) != len(theirs):
            return f"{path}: {len(mine)} tensors, PyTorch {len(theirs)}"
        found = (difference(a, b, f"{path}[{k}]", dtype) for k, (a, b) in enumerate(zip(mine, theirs, strict=True)))
        return next((d for d in found if d), None)
    if not isinstance(theirs, np.ndarray) or not isinstance(mine, np.ndarray):
        same = type(mine) is type(theirs) and mine == theirs
        return None if same else f"{path}: {str(mine)[:200]!r}, PyTorch {str(theirs)[:200]!r}"
    if mine.shape != theirs.shape or mine.dtype != theirs.dtype:
        return f"{path}: {mine.dtype} {list(mine.shape)}, PyTorch {theirs.dtype} {list(theirs.shape)}"
    floating = theirs.dtype.kind == "f"
    rtol, atol = TOLERANCE[dtype if floating and dtype in (*HALF, "ctc") else str(theirs.dtype)] if floating else (0, 0)
    with np.errstate(all="ignore"):
        finite = np.abs(theirs[np.isfinite(theirs)])
        if np.allclose(mine, theirs, rtol, atol * max(1, finite.max(initial=0)), equal_nan=True):
            return None
        worst = np.nanmax(np.abs(mine.astype("f8") - theirs.astype("f8")))
    return f"{path}: off by {worst:.3g}: {mine.ravel()[:4]}, PyTorch {theirs.ravel()[:4]}"


def compare(case, theirs, device="cpu"):
    """{aspect: what is different} of one case; empty where it is PyTorch's."""
    mine = run(flambeau, case, device)
    if "error" in theirs or "error" in mine:
        if case.dtype in HALF and "error" not in mine:
            return {}  # half precision that PyTorch has no kernel for
        a, b = mine.get("error", ("no error", "")), theirs.get("error", ("no error", ""))
        return {} if a[0] == b[0] else {"error": f"{a[0]}: {a[1]}; PyTorch {b[0]}: {b[1]}"}
    dtype = "ctc" if (case.module, case.dtype) == ("CTCLoss", "float32") else case.dtype
    found = {aspect: difference(mine[aspect], theirs[aspect], aspect, dtype) for aspect in theirs}
    if "materialized" in found:
        found["state"] = found["state"] or found.pop("materialized")
    return {aspect: text for aspect, text in found.items() if text}


def examine(python, only="", dtypes="float32,float64"):
    """({module: {"cases": n, "right": n, aspect: n wrong}}, [(case, aspect, what is different)])."""
    table, failures = defaultdict(lambda: defaultdict(int)), []
    for case, theirs in ask(python, only, dtypes):
        row = table[case.module]
        wrong = compare(case, theirs)
        row["cases"] += 1
        row["right"] += not wrong
        for aspect, text in wrong.items():
            row[aspect] += 1
            failures.append((case, aspect, text))
    return table, failures


def pinned(failures):
    """{case: what differs} for the list differ_modules.txt."""
    return {f"{c.module} [{c.label.strip()}] {c.dtype} {'train' if c.training else 'eval'}: {aspect}": text
            for c, aspect, text in failures}


def compared(table):
    return lambda case: case.partition(" ")[0] in table


def show(table):
    heads = ("module", "cases", "right", *COLUMNS, "error")
    rows = [(name, row["cases"], row["right"], *(row[c] or "" for c in (*COLUMNS, "error")))
            for name, row in table.items()]  # fmt: skip
    widths = [max(len(str(row[k])) for row in (heads, *rows)) for k in range(len(heads))]
    print("counts under an aspect are cases that differ from PyTorch there\n")
    for row in (heads, *rows):
        print("  ".join(str(x).ljust(w) if k == 0 else str(x).rjust(w)
                        for k, (x, w) in enumerate(zip(row, widths, strict=True))).rstrip())
    cases, right = (sum(row[k] for row in table.values()) for k in ("cases", "right"))
    print(f"\n{len(table)} modules, {cases} cases, {right} right: {100 * right / max(cases, 1):.2f} %")


def main():
    parser = argparse.ArgumentParser(prog="python -m tests.parity.modules", description=__doc__.splitlines()[0])
    parser.add_argument("--torch", metavar="PYTHON", default=os.environ.get("FLAMBEAU_TORCH_PYTHON", sys.executable))
    parser.add_argument("--only", metavar="RE", default="", help="modules whose name this expression finds")
    parser.add_argument("--dtypes", default="float32,float64", help="names of dtypes, with commas between them")
    parser.add_argument("--failures", metavar="FILE", help="where to write every difference, one a line")
    parser.add_argument("--pin", action="store_true", help="write the list of differing cases anew")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    table, failures = examine(options.torch, options.only, options.dtypes)
    show(table)
    if options.pin:
        pins.write("modules", pinned(failures), compared(table))
    problems = pins.problems("modules", pinned(failures), compared(table))
    print("\n".join(problems) or "every difference is listed with its reason")
    if options.failures:
        lines = (f"{c.module} | {c.label} | {c.dtype} | {'train' if c.training else 'eval'} | {aspect} | {text}"
                 for c, aspect, text in failures)  # fmt: skip
        Path(options.failures).write_text("".join(line.replace("\n", " ") + "\n" for line in lines))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
