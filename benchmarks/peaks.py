"""Peak memory of training: the resident memory of a fresh process that trains a network of `models.py` for some steps.

    python -m benchmarks.peaks [--torch PYTHON] [--only NAME] [--threads N]
"""

import argparse
import os
import subprocess
import sys

STEPS = 4
NETWORKS = ("ResNet-50", "VGG-19", "GPT", "LSTM")
WORKER = """\
import resource, sys
if sys.argv[1] == "flambeau":
    import flambeau as torch
    import flambeau.vision.models
else:
    import torch, torchvision.models
nn, F, optim = torch.nn, torch.nn.functional, torch.optim
torch.set_num_threads(int(sys.argv[2]))
torch.ones(8, 8) @ torch.ones(8, 8)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
exec(sys.argv[3])
for _ in range(int(sys.argv[4])):
    step()
print(before, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


def programs():
    """(name, set-up) of the networks whose training is compared."""
    from .models import entries
    for name, setup, statement, *_ in entries():
        if statement == "step()" and "channels last" not in name and any(part in name for part in NETWORKS):
            yield name, setup


def measured(python, library, setup, threads):
    """MiB that training added to what the library itself takes."""
    done = subprocess.run([python, "-c", WORKER, library, str(threads), setup, str(STEPS)], capture_output=True,
                          text=True, env=os.environ | {"OMP_NUM_THREADS": str(threads)})
    if done.returncode:
        sys.exit(done.stderr)
    before, after = map(float, done.stdout.split())
    return (after - before) / 1024


def main():
    """Prints one row for each network."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--torch", metavar="PYTHON", help="a Python with PyTorch and torchvision")
    parser.add_argument("--only", default="", help="networks whose name has this")
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    print(f"MiB that {STEPS} steps add at their peak to a process with the library loaded")
    for name, setup in programs():
        if options.only in name:
            line = f"{name:36} flambeau {measured(sys.executable, 'flambeau', setup, options.threads):6.0f}"
            if options.torch:
                line += f"   torch {measured(options.torch, 'torch', setup, options.threads):6.0f}"
            print(line, flush=True)


if __name__ == "__main__":
    main()
