"""Loss curves of the example language models, number by number against PyTorch, and the time both take.

`python -m benchmarks.curves --data DIR`: the programs of examples/ run under both libraries with the same seed. DIR
holds wikitext-2/valid.txt and tinyshakespeare/input.txt. The exit status is 1 where a loss is further apart than
--tolerance.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from .race import has_library

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
#: example -> (text below the data folder, further arguments)
PROGRAMS = {"word_lm": ("wikitext-2/valid.txt", ()), "char_gpt": ("tinyshakespeare/input.txt", ("--write", "0"))}
IMPORT = "import flambeau as torch"


def run(python, program, text, steps, threads, more, torch=False):
    """{"losses": …, "seconds": …} of the example under one library."""
    source = (EXAMPLES / f"{program}.py").read_text()
    assert IMPORT in source
    with tempfile.TemporaryDirectory() as folder:
        path, losses = Path(folder) / f"{program}.py", Path(folder) / "losses.json"
        path.write_text(source.replace(IMPORT, "import torch") if torch else source)
        subprocess.run([python, str(path), "--data", str(text.parent), "--text", text.name, "--steps", str(steps),
                        "--threads", str(threads), "--losses", str(losses), *more], check=True,
                       stdout=subprocess.DEVNULL)
        return json.loads(losses.read_text())


def compare(program, data, torch_python, steps=200, threads=0):
    """(largest difference of a loss, seconds here, seconds of PyTorch)."""
    text, more = PROGRAMS[program]
    mine = run(sys.executable, program, Path(data) / text, steps, threads, more)
    other = run(torch_python, program, Path(data) / text, steps, threads, more, torch=True)
    apart = max(abs(a - b) for a, b in zip(mine["losses"], other["losses"], strict=True))
    return apart, mine["seconds"], other["seconds"]


def main():
    parser = argparse.ArgumentParser(prog="python -m benchmarks.curves", description=__doc__.split("\n\n")[0])
    parser.add_argument("--data", required=True, help="the folder of the texts")
    parser.add_argument("--torch", metavar="PYTHON", default=os.environ.get("FLAMBEAU_TORCH_PYTHON", sys.executable),
                        help="an interpreter that has PyTorch")
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--threads", type=int, default=0, help="threads of both libraries (default: their own)")
    parser.add_argument("--tolerance", type=float, default=1e-3)
    options = parser.parse_args()
    if not has_library(options.torch, "torch"):
        sys.exit(f"benchmarks.curves: {options.torch} has no PyTorch")
    worst = 0.0
    print(f"{'':12} {'largest difference':>20} {'flambeau':>12} {'PyTorch':>12} {'ratio':>8}")
    for program in PROGRAMS:
        apart, mine, other = compare(program, options.data, options.torch, options.steps, options.threads)
        worst = max(worst, apart)
        print(f"{program:12} {apart:20.2g} {mine:10.2f} s {other:10.2f} s {other / mine:7.2f}x", flush=True)
    sys.exit(int(worst > options.tolerance))


if __name__ == "__main__":
    main()
