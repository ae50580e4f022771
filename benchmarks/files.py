"""`python -m benchmarks.files`: a checkpoint saved and loaded, beside `cp` and fsync of the same file, taking turns.

The aim is 80 % of the copy's speed both ways, and 50 ms for `mmap=True`, which leaves the bytes where they are.
"""

import argparse
import os
import subprocess
import tempfile
from statistics import median
from time import perf_counter

import flambeau


def timed(f):
    start = perf_counter()
    kept = f()
    return perf_counter() - start, kept


def copy(path):
    """The yardstick: the file copied by the system, and its bytes on the disk."""
    subprocess.run(["cp", path, path + ".copy"], check=True)
    with open(path + ".copy", "rb") as file:
        os.fsync(file.fileno())


def rounds(path, state, count):
    """{what: [seconds of each round]}; the first round, which warms up, is left out."""
    found = {"cp and fsync": [], "save": [], "load": [], "load, mmap=True": []}
    for k in range(count + 1):
        turns = {"cp and fsync": lambda: copy(path), "save": lambda: flambeau.save(state, path),
                 "load": lambda: flambeau.load(path), "load, mmap=True": lambda: flambeau.load(path, mmap=True)}
        if k == 0:
            flambeau.save(state, path)
        for what, f in turns.items():
            seconds, _ = timed(f)
            if k:
                found[what].append(seconds)
    return found


def main():
    parser = argparse.ArgumentParser(prog="python -m benchmarks.files", description=__doc__.split("\n\n")[0])
    parser.add_argument("--gigabytes", type=float, default=1.0)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--folder", help="on the disk that is meant (default: the system's folder for temporary files)")
    options = parser.parse_args()
    size = int(options.gigabytes * 2**30 / 64)
    state = {f"w{k}": flambeau.randn(size) for k in range(16)}
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        found = rounds(os.path.join(folder, "m.pt"), state, options.rounds)
    print(f"{options.gigabytes:g} GB in 16 tensors, {options.rounds} rounds: median, best, share of the copy's speed")
    for what, seconds in found.items():
        ratio = "" if what in ("cp and fsync", "load, mmap=True") else (
            f"{100 * median(found['cp and fsync']) / median(seconds):6.0f} % (best "
            f"{100 * min(found['cp and fsync']) / min(seconds):.0f} %)")
        print(f"{what:40} {median(seconds):8.3f} s {min(seconds):8.3f} s {ratio}")


if __name__ == "__main__":
    main()
