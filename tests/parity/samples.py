"""Flambeau against PyTorch over PyTorch's own operator samples: `python -m tests.parity.samples --torch PYTHON`.

Prints one row per namespace (names present, samples equal, forms equal, errors equal) and writes the failures, one
line each. `oracle.py` makes the samples in PyTorch's interpreter; what a sample is stands in `exchange.py`. The list
`differ_samples.txt` names each call that differs, with the reason (`pins.py`); `--wide` has a list of its own.
"""

import argparse
import collections
import pickle
import re
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np

import flambeau

from . import pins
from .exchange import Excluded, resolve, run

TOLERANCE = {"float16": 4e-3, "bfloat16": 2e-2, "float32": 3e-5, "complex64": 3e-5}
SPACES = ("torch", "Tensor", "nn.functional", "linalg", "fft", "special", "signal", "masked")
#: operators of op_db that are no public name of PyTorch, or of a part that has no place here
EXCLUDED = {
    r"_": "private", r"torch\.(_|ops)": "private", r"nn\.functional\.scaled_mm": "float8 matrix products of cuda",
    r"to_sparse": "a sparse layout: see sparse.py", r"chalf": "complex32, which has next to no kernels in PyTorch",
    r"native_|max_pool2d_with_indices_backward|cudnn": "private",
}
#: which of several equal answers they give is nobody's promise
UNORDERED = ("topk", "kthvalue", "median", "nanmedian", "mode", "sort", "argsort", "msort")


def compare_tensor(found, expected, where, scale, resized):
    _, dtype, shape, stride, values, alias, grad = expected
    if not isinstance(found, tuple) or found[0] != "tensor":
        return f"{where}: {type(found).__name__} instead of a tensor"
    if found[1] != dtype:
        return f"{where} dtype: {found[1]}, PyTorch {dtype}"
    if found[2] != shape:
        return f"{where} shape: {list(found[2])}, PyTorch {list(shape)}"
    if (found[5] is None) != (alias is None):
        return f"{where} aliasing: {found[5]}, PyTorch {alias}"
    if alias != found[5]:
        return f"{where} aliasing: {found[5]}, PyTorch {alias}"
    if stride is not None and 0 not in shape and not resized:
        mine, theirs = ([s for s, n in zip(st, shape, strict=True) if n > 1] for st in (found[3], stride))
        if mine != theirs:
            return f"{where} strides: {found[3]}, PyTorch {stride} of shape {list(shape)}"
    if values is not None and (problem := compare_values(found[4], values, dtype, scale)):
        return f"{where} values: {problem}"
    if found[6] != grad and 0 not in shape:
        return f"{where} requires_grad: {found[6]}, PyTorch {grad}"
    return None


def compare_values(mine, theirs, dtype, scale):
    t = TOLERANCE.get(dtype, 1e-7)
    with np.errstate(all="ignore"):
        if theirs.dtype.kind not in "fc":
            close = mine == theirs
        else:
            if dtype not in ("bfloat16", "float16"):
                scale = 1
            elif theirs.size:  # sums cancel: their size says what was rounded
                scale = max(scale, np.max(np.abs(theirs), initial=0, where=np.isfinite(theirs)))
            close = np.isclose(mine, theirs, rtol=t, atol=t * scale, equal_nan=True)
            if theirs.dtype.kind == "c":
                close |= np.isnan(mine) & np.isnan(theirs)
    if np.all(close):
        return None
    k = np.flatnonzero(~np.ravel(close))
    return f"{len(k)} of {theirs.size} differ, as {np.ravel(mine)[k[0]]} for PyTorch's {np.ravel(theirs)[k[0]]}"


def compare_tree(found, expected, scale, resized=False, where="result"):
    """Values, dtypes, shapes, aliasing and strides; how an empty `out=` grows in memory is nobody's promise."""
    if isinstance(expected, tuple) and expected and expected[0] == "tensor":
        return compare_tensor(found, expected, where, scale, resized)
    if isinstance(expected, tuple) and expected and expected[0] in ("list", "tuple", "named", "size"):
        if not isinstance(found, tuple) or found[0] != expected[0]:
            return f"{where}: {str(found)[:60]} instead of a {expected[0]}"
        if len(found[1]) != len(expected[1]):
            return f"{where}: {len(found[1])} elements, PyTorch {len(expected[1])}"
        for k, (mine, theirs) in enumerate(zip(found[1], expected[1], strict=True)):
            if expected[0] == "named":
                if mine[0] != theirs[0]:
                    return f"{where}: field {mine[0]}, PyTorch {theirs[0]}"
                mine, theirs = mine[1], theirs[1]
            if problem := compare_tree(mine, theirs, scale, resized, f"{where}[{k}]"):
                return problem
        return None
    if type(found) is not type(expected):
        return f"{where}: {found!r}, PyTorch {expected!r}"[:200]
    if isinstance(expected, (float, complex)):
        return None if np.isclose(found, expected, rtol=1e-5, atol=1e-7, equal_nan=True) else \
            f"{where}: {found!r}, PyTorch {expected!r}"
    return None if found == expected else f"{where}: {found!r}, PyTorch {expected!r}"[:200]


def compare_gradients(found, expected, scale):
    if expected is None or found is None:
        return None if found is expected else f"gradient: {'none' if found is None else 'some'} here, not in PyTorch"
    if isinstance(expected, tuple):
        return None  # what PyTorch cannot derive is no promise
    if isinstance(found, tuple):
        return f"gradient raises {found[1]}: {found[2]}"
    for k, (mine, theirs) in enumerate(zip(found, expected, strict=True)):
        if mine is None or theirs is None:
            mine, theirs = (np.zeros(1) if g is None else g[2] for g in (mine, theirs))
            if np.any(mine) or np.any(theirs):
                return f"gradient {k}: none on one side"
            continue
        if mine[:2] != theirs[:2]:
            return f"gradient {k}: {mine[:2]}, PyTorch {theirs[:2]}"
        if problem := compare_values(mine[2], theirs[2], theirs[0], scale):
            return f"gradient {k}: {problem}"
    return None


def run_here(case, lib=flambeau):
    return run(lib, case["program"], case["storages"], case["tensors"], form=case["form"], values=case["values"])


def compare(name, case, run_case=run_here):
    """Why the outcome here is not PyTorch's; None where it is."""
    expected = case["outcome"]
    found = run_case(case)
    if found[0] == "error" and found[1] == "NotImplementedError" and "layout" in found[2]:
        raise Excluded("a sparse layout")
    if expected[0] == "error":
        if found[0] == "result":
            return f"no error; PyTorch raises {expected[1]}: {expected[2]}"
        return None if same_error(found[1], expected[1]) else \
            f"raises {found[1]}: {found[2]}; PyTorch raises {expected[1]}: {expected[2]}"
    if found[0] == "error":
        return f"raises {found[1]}: {found[2]}"
    scale = half_scale(case)
    problem = compare_tree(found[1], expected[1], scale, case["form"] == "resized") or \
        compare_gradients(found[2], expected[2], scale)
    if problem and name in UNORDERED and "dtype" not in problem and "shape" not in problem and ties(case):
        return None if problem.startswith(("result[1] values", "gradient 0")) or name == "argsort" else problem
    return problem


def half_scale(case):
    """The size of the largest number in a call: what half precision rounds is in proportion to it."""
    largest = 1
    for place, dtype, *_ in case["tensors"]:
        if dtype == "bfloat16" and case["storages"][place]:
            numbers = np.frombuffer(case["storages"][place], np.uint16).astype(np.uint32) << 16
            numbers = np.abs(numbers.view(np.float32))
            largest = max(largest, np.max(numbers, initial=0, where=np.isfinite(numbers)))
    return largest


def ties(case):
    """Whether elements of the input are equal, so that several orders are right."""
    place, dtype = case["tensors"][0][:2]
    size = {"bool": 1, "uint8": 1, "int8": 1, "int16": 2, "float16": 2, "bfloat16": 2, "int32": 4, "float32": 4,
            "complex128": 16}.get(dtype, 8)
    elements = np.frombuffer(case["storages"][place], np.dtype(f"V{size}")) if case["storages"][place] else []
    return len({e.tobytes() for e in elements}) < len(elements)


def same_error(mine, theirs):
    """PyTorch's own exception types are what its C++ names them; OutOfMemoryError and LinAlgError are subclasses."""
    return mine.lstrip("_") == theirs.lstrip("_")


def call_of(case):
    """One line that tells the call: paths, shapes and plain arguments."""
    def text(x):
        if not isinstance(x, tuple):
            return repr(x)
        if x[0] == "t":
            dtype, shape, stride = case["tensors"][x[1]][1:4]
            return f"{dtype}{list(shape)}" + ("" if contiguous(shape, stride) else f"@{list(stride)}")
        if x[0] in ("list", "tuple"):
            return "[" + ", ".join(text(v) for v in x[1]) + "]"
        return str(x[1]) if len(x) > 1 else x[0]
    parts = []
    for path, args, kwargs, _ in case["program"]:
        given = [text(a) for a in args[1]] + [f"{k}={text(v)}" for k, v in kwargs[1]]
        parts.append(f"{path.removeprefix('torch.')}({', '.join(given)})")
    return "; ".join(parts)[:300]


def contiguous(shape, stride):
    want = 1
    for n, s in zip(reversed(shape), reversed(stride), strict=True):
        if n > 1 and s != want:
            return False
        want *= n
    return True


def space_of(record):
    path = (record["path"] or "").removeprefix("torch.")
    name = record["name"]
    if path.startswith("Tensor."):
        return "Tensor"
    head = next((s for s in SPACES[2:] if name.startswith(s + ".")), None)
    return head or ("Tensor" if path.startswith("operator.") else "torch")


def excluded_reason(name):
    return next((why for pattern, why in EXCLUDED.items()
                 if re.match(pattern, name) and not name.startswith("__")), None)


def present(path):
    try:
        return callable(resolve(flambeau, path))
    except AttributeError:
        return False


class Table:
    """Counts per namespace, and the lines that say what failed."""

    def __init__(self):
        self.counts = collections.defaultdict(collections.Counter)
        self.failures, self.excluded = [], collections.Counter()
        self.differing, self.names = {}, set()
        self.times = []

    def add(self, record):
        space, name = space_of(record), record["name"]
        self.names.add(name)
        if reason := excluded_reason(name):
            self.excluded[reason, name] += 1
            return
        row = self.counts[space]
        paths = {step[0] for c in record["cases"] if "program" in c for step in c["program"]}
        row["names"] += 1
        missing = sorted(p for p in paths if not present(p))
        row["present"] += not missing
        start = time.perf_counter()
        for case in record["cases"]:
            self.case(row, name, case, missing)
        self.times.append((time.perf_counter() - start, name))

    def case(self, row, name, case, missing):
        if "excluded" in case:
            self.excluded[case["excluded"], name] += 1
            return
        kind = {"function": "samples", "error": "errors"}.get(case["form"], "forms")
        row[kind] += 1
        lost = [p for step in case["program"] if (p := step[0]) in missing]
        try:
            problem = f"no {lost[0].removeprefix('torch.')}" if lost else compare(name.split(".")[0], case)
        except Excluded as reason:
            self.excluded[str(reason), name] += 1
            row[kind] -= 1
            return
        except Exception as error:
            problem = f"cannot be compared: {type(error).__name__}: {error}"
        row[kind + " equal"] += problem is None
        if problem:
            line = f"{name} [{case['form']} {case['what']}] {problem} | {call_of(case)}"
            self.failures.append(" ".join(line.split()))
            self.differing[f"{name} [{case['form']} {case['what']}] {problem.partition(':')[0]}"] = problem

    def pins(self):
        """{case: what differs}, with what could not be compared."""
        return self.differing | {f"{name}: not compared": reason for reason, name in self.excluded}

    def compared(self, case):
        return re.match(r"[^ :]*", case)[0] in self.names

    def ratio(self, kind="samples"):
        total = sum(row[kind] for row in self.counts.values())
        return sum(row[kind + " equal"] for row in self.counts.values()) / max(total, 1)

    def __str__(self):
        lines = [f"{'namespace':<15}{'names present':>16}{'samples equal':>28}{'forms equal':>28}{'errors equal':>26}"]
        total = collections.Counter()
        for row in self.counts.values():
            total.update(row)
        for space in (*SPACES, "all"):
            row = total if space == "all" else self.counts.get(space)
            if row:
                cells = [share(row, k) for k in ("samples", "forms", "errors")]
                names_cell = f"{row['present']} of {row['names']}"
                lines.append(f"{space:<15}{names_cell:>16}{cells[0]:>28}{cells[1]:>28}{cells[2]:>26}")
        return "\n".join(lines)

    def exclusions(self):
        reasons = collections.defaultdict(collections.Counter)
        for (reason, name), count in self.excluded.items():
            reasons[reason][name] += count
        return "\n".join(f"excluded: {reason}: {sum(c.values())} cases of {', '.join(sorted(c))[:150]}"
                         for reason, c in sorted(reasons.items()))


def share(row, kind):
    good, all_ = row[kind + " equal"], row[kind]
    return f"{good} of {all_} ({100 * good / max(all_, 1):.2f} %)" if all_ else "-"


def records(python, pattern, folder, wide):
    """The operators' records: made by the oracle while they are read, or found in the folder."""
    marker = Path(folder) / f"made-{re.sub(r'[^a-z0-9]', '_', pattern)}"
    if not marker.exists() and not (Path(folder) / "made-").exists():  # those of the empty pattern are all
        oracle = Path(__file__).with_name("oracle.py")
        process = subprocess.Popen([python, str(oracle), str(folder), pattern, "wide" if wide else ""],
                                   stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        error = process.communicate()[1]
        if process.returncode:
            raise RuntimeError(f"the oracle failed:\n{error.decode()[-2000:]}")
        marker.touch()
    for file in sorted(Path(folder).glob("*.pickle")):
        if re.search(pattern, file.name.removesuffix(".pickle")):
            with open(file, "rb") as source:
                yield pickle.load(source)


def measure(python, pattern="", cache=None, wide=False):
    table = Table()
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for record in records(python, pattern, cache or folder, wide):
            table.add(record)
    return table


def main(arguments=None):
    parser = argparse.ArgumentParser(prog="python -m tests.parity.samples", description=__doc__)
    parser.add_argument("--torch", default=sys.executable, help="PyTorch's Python interpreter")
    parser.add_argument("--only", default="", help="a regular expression: operators to compare")
    parser.add_argument("--wide", action="store_true", help="PyTorch's larger set of inputs, in the other dtypes")
    parser.add_argument("--failures", help="file for the failures, one line each")
    parser.add_argument("--cache", help="folder that keeps PyTorch's outcomes for the next time")
    parser.add_argument("--head", default="", help="words for the first line of the failures, after the date")
    parser.add_argument("--pin", action="store_true", help="write the list of differing calls anew")
    parser.add_argument("--slow", action="store_true", help="also name the operators that took longest")
    options = parser.parse_args(arguments)
    table = measure(options.torch, options.only, options.cache, options.wide)
    print(table)
    print(table.exclusions())
    pinned = "wide_samples" if options.wide else "samples"
    if options.pin:
        pins.write(pinned, table.pins(), table.compared)
    problems = pins.problems(pinned, table.pins(), table.compared)
    print("\n".join(problems) or "every difference is listed with its reason")
    if options.slow:
        print("\n".join(f"{seconds:.1f} s {name}" for seconds, name in sorted(table.times)[-12:]))
    if options.failures:
        head = f"{time.strftime('%F %T')} {options.head}: {len(table.failures)} failures"
        Path(options.failures).write_text("\n".join([head, *table.failures, ""]))
    elif options.only:
        print("\n".join(table.failures[:200]))


if __name__ == "__main__":
    main()
