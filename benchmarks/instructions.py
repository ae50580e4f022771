"""Instructions per run of the small rows, by `perf stat`: `python -m benchmarks.instructions`.

Counts do not depend on what else the machine does, so that they show small changes that times hide.
"""

import re
import shutil
import subprocess
import sys

from .race import HERE
from .rows import SMALL, TRAINING

PROGRAM = """\
import importlib, sys
sys.path.insert(0, {here!r})
import worker
library = importlib.import_module({library!r})
library.set_num_threads(1)
loop = worker.build(library, {setup!r}, {statement!r})
loop(200)
loop({count})
"""


def counted(python, library, row, count):
    program = PROGRAM.format(here=str(HERE), library=library, setup=row.setup, statement=row.statement, count=count)
    found = subprocess.run(["perf", "stat", "-x", ",", "-e", "instructions:u", python, "-c", program], text=True,
                           capture_output=True, check=False)
    number = re.search(r"^(\d+),", found.stderr, re.M)
    if not number:
        raise SystemExit(f"perf stat counted nothing:\n{found.stderr}")
    return int(number.group(1))


def per_run(python, library, row, count=2000):
    return (counted(python, library, row, 2 * count) - counted(python, library, row, count)) / count


def main(library="flambeau", python=sys.executable):
    if not shutil.which("perf"):
        raise SystemExit("perf is not installed")
    for row in [*SMALL, TRAINING[0]]:
        print(f"{row.name:45} {per_run(python, library, row):12,.0f} instructions", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
