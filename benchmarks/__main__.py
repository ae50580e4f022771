"""`python -m benchmarks`: the table of measurements, with ratios to PyTorch where it is installed.

`--torch PYTHON` names an interpreter that has PyTorch (default: $FLAMBEAU_TORCH_PYTHON, else this one if it has it).
"""

import argparse
import json
import os
import re
import sys
from statistics import median

from . import mnist
from .race import Worker, has_library, race
from .rows import ROWS
from .startup import startup

UNITS = ((1.0, "s "), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns"))


def time_text(seconds):
    if not isinstance(seconds, float):
        return "failed"
    unit, name = next((u for u in UNITS if seconds >= u[0]), UNITS[-1])
    return f"{seconds / unit:8.3g} {name}"


def verdict(row, mine, other):
    """What the row's aim says: nothing when it is met."""
    if not isinstance(mine, float):
        return mine
    if row.aim and mine > row.aim:
        return f"aim {time_text(row.aim).strip()}"
    if isinstance(other, float) and other / mine < (row.ratio or 1.0):
        return f"aim {row.ratio or 1.0:g}x"
    return ""


def print_row(row, found):
    mine, other = found["flambeau"], found.get("torch")
    ratio = f"{other / mine:7.2f}x" if isinstance(mine, float) and isinstance(other, float) and mine else " " * 8
    print(f"{row.name:44} {time_text(mine):>11} {time_text(other) if other is not None else '':>11} {ratio} "
          f"{verdict(row, mine, other)}", flush=True)


def print_startup(found):
    mine, other = found["flambeau"], found.get("torch")
    for k, (name, show) in enumerate((("import", time_text), ("resident after import", megabytes),
                                      ("installed, with dependencies", megabytes))):
        ratio = f"{other[k] / mine[k]:7.2f}x" if other and mine[k] else ""
        print(f"{name:44} {show(mine[k]):>11} {show(other[k]) if other else '':>11} {ratio}")


def megabytes(count):
    return f"{count / 1e6:8.1f} MB"


def arguments():
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__.split("\n\n")[0])
    parser.add_argument("--torch", metavar="PYTHON", default=os.environ.get("FLAMBEAU_TORCH_PYTHON"),
                        help="an interpreter that has PyTorch")
    parser.add_argument("--only", metavar="REGEX", default="", help="rows whose group or name matches")
    parser.add_argument("--threads", type=int, default=0, help="threads of both libraries (default: their own)")
    parser.add_argument("--rounds", type=int, default=3, help="turns of each library per row")
    parser.add_argument("--budget", type=float, default=0.4, help="seconds per row and library")
    parser.add_argument("--best", action="store_true",
                        help="compare the fastest visits instead of the medians: for a machine that is not quiet")
    parser.add_argument("--json", metavar="FILE", help="also write the numbers there")
    parser.add_argument("--mnist", metavar="DIR", help="also train one epoch on the idx files in this folder")
    return parser.parse_args()


def main():
    options = arguments()
    torch_python = options.torch or (sys.executable if has_library(sys.executable, "torch") else None)
    if torch_python and not has_library(torch_python, "torch"):
        sys.exit(f"benchmarks: {torch_python} has no PyTorch")
    rows = [r for r in ROWS if re.search(options.only, f"{r.group}: {r.name}")]
    workers = [Worker("flambeau", threads=options.threads)]
    if torch_python:
        workers.append(Worker("torch", torch_python, options.threads))
    if os.getloadavg()[0] > 0.5 * os.cpu_count():
        print(f"note: this machine is busy (load {os.getloadavg()[0]:.1f}): see --best and --threads 1")
    print(f"{'':44} {'flambeau':>11} {'PyTorch' if torch_python else '':>11} {'ratio' if torch_python else '':>8}")
    numbers, group = {}, None
    for row in rows:
        if row.group != group:
            group = row.group
            print(f"-- {group}")
        least, statistic = (0.004, min) if options.best else (0.02, median)
        found = race(row, workers, options.rounds, least, options.budget, statistic)
        numbers[f"{row.group}: {row.name}"] = found
        print_row(row, found)
    if not options.only or re.search(options.only, "startup"):
        print("-- startup")
        numbers["startup"] = startup(workers)
        print_startup(numbers["startup"])
    for w in workers:
        w.close()
    if options.mnist:
        numbers["mnist epoch"] = mnist.race(workers, options.mnist, options.threads)
    if options.json:
        with open(options.json, "w") as out:
            json.dump(numbers, out, indent=1)
    summary(rows, numbers)


def summary(rows, numbers):
    missed = [r.name for r in rows
              if verdict(r, numbers[f"{r.group}: {r.name}"]["flambeau"], numbers[f"{r.group}: {r.name}"].get("torch"))]
    print(f"\n{len(rows) - len(missed)} of {len(rows)} rows meet their aim"
          + (f"; not: {', '.join(missed)}" if missed else ""))


if __name__ == "__main__":
    main()
