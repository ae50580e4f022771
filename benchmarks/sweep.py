"""`python -m benchmarks.sweep --torch PYTHON`: every operator at 4, 1 K, 1 M and 16 M elements against PyTorch.

With `--gradients` the backward pass of each instead, with `--dtype` numbers of another type, with `--layout` operands
that do not lie one after the other.

Prints what misses its aim (tiny: 3x, else 1x), then the slowest ratios; `--markdown FILE` writes that table.
"""

import argparse
import json
import os
import re
import sys
from collections import Counter

from .forms import LAYOUTS, gradient, has_gradient, setup, statements
from .race import Worker, race
from .rows import Row

SIDES = {"4": 2, "1 K": 32, "1 M": 1024, "16 M": 4096}
AIMS = {"4": 3.0, "1 K": 1.0, "1 M": 1.0, "16 M": 1.0}
#: a measured ratio this close to its aim is noise
NOISE = 0.97


def arguments():
    parser = argparse.ArgumentParser(prog="python -m benchmarks.sweep", description=__doc__.split("\n\n")[0])
    parser.add_argument("--torch", metavar="PYTHON", default=os.environ.get("FLAMBEAU_TORCH_PYTHON", sys.executable),
                        help="an interpreter that has PyTorch")
    parser.add_argument("--only", metavar="REGEX", default="", help="operators whose name matches")
    parser.add_argument("--sizes", default=",".join(SIDES), help="of: " + ", ".join(SIDES))
    parser.add_argument("--dtype", default="float32", help="of the operands, for example complex64, bfloat16, int64")
    parser.add_argument("--layout", default="contiguous", choices=LAYOUTS, help="how the operands lie in memory")
    parser.add_argument("--gradients", action="store_true", help="the backward pass of each alone")
    parser.add_argument("--threads", type=int, default=0, help="threads of both libraries (default: their own)")
    parser.add_argument("--budget", type=float, default=0.06, help="seconds per row and library")
    parser.add_argument("--worst", type=int, default=20, help="how many of the slowest to list")
    parser.add_argument("--json", metavar="FILE", help="also write the numbers there")
    parser.add_argument("--markdown", metavar="FILE", help="write the table of the slowest there")
    return parser.parse_args()


def measure(options):
    """[(name, size, seconds here, seconds of PyTorch or error text)]."""
    workers = [Worker("flambeau", threads=options.threads), Worker("torch", options.torch, options.threads)]
    found = []
    dtype = options.dtype
    table = {name: form for name, form in statements(dtype).items()
             if re.search(options.only, name) and (not options.gradients or has_gradient(form[0], dtype))}
    for size in options.sizes.split(","):
        for name, (statement, largest) in table.items():
            if SIDES[size] > largest:
                continue
            made = (gradient(statement, SIDES[size], dtype) if options.gradients
                    else (setup(statement, SIDES[size], dtype, options.layout), statement))
            row = Row("sweep", name, *made)
            times = race(row, workers, 2, min(0.01, options.budget / 8), options.budget, min)
            if (dtype, options.layout) != ("float32", "contiguous") and isinstance(times["torch"], str):
                continue  # not of this dtype, or not so laid out
            found.append((name, size, times["flambeau"], times["torch"]))
            print(*line(found[-1]), flush=True)
    for w in workers:
        w.close()
    return found


def ratio(row):
    return row[3] / row[2] if isinstance(row[2], float) and isinstance(row[3], float) and row[2] else None


def line(row):
    r = ratio(row)
    if r is None:
        return (f"{row[0]:32} {row[1]:>5}  {row[2] if isinstance(row[2], str) else 'PyTorch: ' + str(row[3])}",)
    return f"{row[0]:32} {row[1]:>5} {row[2] * 1e6:12.2f} µs {row[3] * 1e6:12.2f} µs {r:7.2f}x", \
        "" if r >= AIMS[row[1]] * NOISE else "<--"


def table(rows):
    """The slowest rows as a Markdown table."""
    lines = ["| operator | elements | here | PyTorch | ratio |", "|---|---|---|---|---|"]
    return lines + [f"| {n} | {s} | {a * 1e6:.3g} µs | {b * 1e6:.3g} µs | {b / a:.2f}x |" for n, s, a, b in rows]


def main():
    options = arguments()
    found = measure(options)
    compared = [r for r in found if ratio(r) is not None]
    # relative to what each size asks for
    worst = sorted(compared, key=lambda r: ratio(r) / AIMS[r[1]])[:options.worst]
    below = Counter(r[1] for r in compared if ratio(r) < AIMS[r[1]] * NOISE)
    counts = Counter(r[1] for r in compared)
    print()
    for size in counts:
        good = counts[size] - below[size]
        print(f"{size:>5} elements: {good} of {counts[size]} at least {AIMS[size]:g}x PyTorch's speed")
    print("\n".join(table(worst)))
    if options.markdown:
        with open(options.markdown, "w") as out:
            out.write("\n".join(table(worst)) + "\n")
    if options.json:
        with open(options.json, "w") as out:
            json.dump(found, out, indent=1)


if __name__ == "__main__":
    main()
