"""Two workers, one library each, take turns on every row; medians (or bests) of all turns are compared."""

import json
import os
import subprocess
import sys
from pathlib import Path
from statistics import median

HERE = Path(__file__).resolve().parent


class Worker:
    """A process that measures rows for one library."""

    def __init__(self, library, python=sys.executable, threads=0):
        self.library, self.python = library, python
        environment = dict(os.environ)
        environment["PYTHONDONTWRITEBYTECODE"] = "1"
        self.process = subprocess.Popen([python, str(HERE / "worker.py"), library, str(threads)], text=True,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment)

    def measure(self, row, least, budget):
        """Seconds per run as a list, or the error's text."""
        request = {"setup": row.setup, "statement": row.statement, "least": least, "budget": budget}
        try:
            self.process.stdin.write(json.dumps(request) + "\n")
            self.process.stdin.flush()
            line = self.process.stdout.readline()
        except BrokenPipeError:
            line = ""
        return json.loads(line) if line else f"the process ended ({self.process.poll()})"

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def has_library(python, library):
    found = subprocess.run([python, "-c", f"import importlib.util, sys; "
                            f"sys.exit(importlib.util.find_spec({library!r}) is None)"],
                           capture_output=True, check=False)
    return found.returncode == 0


def race(row, workers, rounds, least, budget, statistic=median):
    """{library: seconds or error text}: the workers in turn, `rounds` times; `statistic` of all visits."""
    times = {w.library: [] for w in workers}
    errors = {}
    for k in range(rounds):
        for w in workers if k % 2 == 0 else reversed(workers):
            if w.library in errors:
                continue
            answer = w.measure(row, least, budget / rounds)
            if isinstance(answer, str):
                errors[w.library] = answer
            else:
                times[w.library] += answer
    return {library: errors.get(library) or statistic(found) for library, found in times.items()}
