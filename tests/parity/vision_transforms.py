"""Every transform beside torchvision's: `python -m tests.parity.vision_transforms --torch PYTHON --photos FOLDER`.

PYTHON has PyTorch, torchvision and Pillow. The same expressions run in both libraries with the same seeds on the same
pictures (tests/parity/vision_cases.py). The table says per expression and kind of input whether the results are equal:
pictures of Pillow and integers to the bit, floats to 1e-6 (relative to the largest value).
"""

import argparse
import collections
import pickle
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy

import flambeau
from flambeau import vision

from . import vision_cases

Judged = collections.namedtuple("Judged", "equal worst part")


def theirs(python, photos, count, only, seeds, cache=None):
    """What torchvision gives, or what it gave when the file `cache` was written."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(cache or Path(folder, "results"))
        if not file.exists():
            subprocess.run([python, vision_cases.__file__, photos, str(file), str(count), only, str(seeds)], check=True)
        return pickle.loads(file.read_bytes())


def pairs(mine, other):
    """The leaves of two results side by side; a ValueError where they are made differently."""
    if isinstance(mine, dict) and isinstance(other, dict) and mine.keys() == other.keys():
        for key in mine:
            yield from pairs(mine[key], other[key])
    elif isinstance(mine, (list, tuple)) and isinstance(other, (list, tuple)) and len(mine) == len(other):
        for a, b in zip(mine, other, strict=True):
            yield from pairs(a, b)
    else:
        yield mine, other


def judge(mine, other):
    """Whether two results are equal, their largest difference, and the part of the values that differ."""
    if raises(mine) or raises(other):
        return Judged(raises(mine) and raises(other) and mine[1] == other[1], None, None)
    worst, wrong, total = 0.0, 0, 0
    for a, b in pairs(mine, other):
        if not isinstance(a, numpy.ndarray) or not isinstance(b, numpy.ndarray):
            if a != b:
                return Judged(False, f"{a!r} for {b!r}"[:60], None)
            continue
        if a.shape != b.shape or a.dtype != b.dtype:
            return Judged(False, f"{a.dtype}{list(a.shape)} for {b.dtype}{list(b.shape)}", None)
        difference = numpy.abs(a.astype(numpy.float64) - b.astype(numpy.float64))
        difference = numpy.nan_to_num(numpy.where(numpy.isnan(a) & numpy.isnan(b), 0, difference), nan=numpy.inf)
        bound = 1e-6 * max(1.0, numpy.abs(b).max(initial=0)) if a.dtype.kind == "f" else 0
        if a.dtype == numpy.float16:
            bound = 1e-3
        wrong, total = wrong + int((difference > bound).sum()), total + a.size
        worst = max(worst, float(difference.max(initial=0)))
    return Judged(wrong == 0, worst, wrong / max(total, 1))


def raises(value):
    return isinstance(value, tuple) and len(value) == 3 and value[0] == "raises"


def table(mine, other):
    """{(version, kind, expression): [Judged, …]}"""
    found = collections.defaultdict(list)
    for key, value in other.items():
        found[key[1:4]].append((judge(mine.get(key), value), mine.get(key), value))
    return found


def show(found, everything):
    counts = collections.Counter()
    for (version, kind, expression), results in found.items():
        bad = [r for r in results if not r[0].equal]
        group = f"{version} {kind.split(' ')[0] if version == 'v2' and kind.startswith('boxes') else kind}"
        counts[group, not bad] += 1
        if bad:
            (judged, a, b) = max(bad, key=lambda r: r[0].part or 1)
            said = f"differs by {judged.worst} in {judged.part:.2%}" if judged.part is not None else \
                judged.worst or f"{a if raises(a) else 'a result'} for {b if raises(b) else 'a result'}"
            print(f"  {version} {kind:8} {expression[:110]}  {len(bad)}/{len(results)}: {said}")
        elif everything:
            print(f"  {version} {kind:8} {expression[:110]}  equal")
    print("equal of all:", ", ".join(f"{group} {counts[group, True]}/{counts[group, True] + counts[group, False]}"
                                     for group in sorted({g for g, _ in counts})))
    return sum(n for (_, good), n in counts.items() if not good)


def lacking(result):
    """Whether that torchvision was built without its codecs and says so: nothing to compare with."""
    return raises(result) and "load the image extension" in result[2]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--torch", required=True, help="a Python interpreter with PyTorch and torchvision")
    parser.add_argument("--photos", required=True, help="a folder of photographs")
    parser.add_argument("--count", type=int, default=2, help="how many of them")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--only", default="", help="expressions that contain this")
    parser.add_argument("--all", action="store_true", help="print what is equal too")
    parser.add_argument("--cache", help="a file that keeps torchvision's results")
    given = parser.parse_args()
    other = theirs(given.torch, given.photos, given.count, given.only, given.seeds, given.cache)
    pictures = vision_cases.photos(given.photos, given.count)
    mine = vision_cases.run(flambeau, vision, pictures, given.only, given.seeds)
    other = {key: value for key, value in other.items() if key in mine and not lacking(value)}
    sys.exit(bool(show(table(mine, other), given.all)))


if __name__ == "__main__":
    main()
