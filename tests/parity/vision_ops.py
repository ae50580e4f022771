"""Compares vision.ops and vision.utils with torchvision's: `python -m tests.parity.vision_ops --torch PYTHON`.

PYTHON is an interpreter with torchvision. Every operator gets the same random numbers from both; a row says how many
results (values and gradients) were compared and the largest difference. Exits with 1 if one is too large.
"""

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

import flambeau
from flambeau import vision

from . import vision_ops_cases

#: of the largest value of the result; gradients of float32 sums are the widest
LIMIT = 2e-5


def distance(ours, theirs):
    """The largest difference in units of the largest value; infinite where shapes, dtypes or integers differ."""
    if ours.shape != theirs.shape or ours.dtype != theirs.dtype:
        return float("inf")
    if not theirs.size:
        return 0.0
    if theirs.dtype.kind in "iub":
        return 0.0 if (ours == theirs).all() else float("inf")
    same = (ours == theirs) | (np.isnan(ours) & np.isnan(theirs))
    far = np.where(same, 0, np.abs(ours - theirs))
    return float(far.max() / (np.abs(np.nan_to_num(theirs)).max() or 1))


def main():
    cli = argparse.ArgumentParser(description=__doc__)
    cli.add_argument("--torch", required=True, help="an interpreter with torchvision")
    options = cli.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        file = str(Path(folder) / "found.npz")
        subprocess.run([options.torch, vision_ops_cases.__file__, file], check=True)
        with np.load(file) as found:
            theirs = dict(found)
    ours = vision_ops_cases.run(flambeau, vision)
    print(f"{'results':>8} {'difference':>11} operator")
    failures = 0
    for name in vision_ops_cases.CASES:
        keys = [key for key in theirs if key.rpartition(" ")[0] == name]
        far = max((distance(ours[key], theirs[key]) if key in ours else float("inf") for key in keys), default=1.0)
        failures += not far <= LIMIT
        print(f"{len(keys):>8} {far:>11.1e} {name}{'' if far <= LIMIT else ' DIFFERS'}")
    print(f"{len(vision_ops_cases.CASES) - failures} of {len(vision_ops_cases.CASES)} operators agree")
    sys.exit(bool(failures))


if __name__ == "__main__":
    main()
