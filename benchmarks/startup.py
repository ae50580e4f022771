"""Import time, resident memory and installed size of a library, measured in fresh processes."""

import json
import subprocess
from statistics import median

PROGRAM = """\
import json, sys, time
start = time.perf_counter()
import {library}
seconds = time.perf_counter() - start
rss = next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmRSS"))
print(json.dumps([seconds, rss * 1024]))
"""
SIZE = """\
import importlib.metadata as metadata, os, re, sys
def closure(name, seen):
    key = re.sub(r"[-_.]+", "-", name).lower()
    if key in seen:
        return seen
    try:
        found = metadata.distribution(name)
    except metadata.PackageNotFoundError:
        return seen
    seen[key] = sum(f.locate().stat().st_size for f in found.files or () if f.locate().is_file())
    for requirement in found.requires or ():
        if "extra ==" not in requirement:
            closure(re.match(r"[\\w.-]+", requirement).group(), seen)
    return seen
print(sum(closure({library!r}, {{}}).values()))
"""


def run(python, program):
    return json.loads(subprocess.run([python, "-c", program], text=True, capture_output=True, check=True).stdout)


def startup(workers, rounds=7):
    """{library: (seconds to import, bytes resident after it, bytes installed with dependencies)}."""
    found = {w.library: [] for w in workers}
    for _ in range(rounds):
        for w in workers:
            found[w.library].append(run(w.python, PROGRAM.format(library=w.library)))
    return {w.library: (median(s for s, _ in found[w.library]), median(r for _, r in found[w.library]),
                        run(w.python, SIZE.format(library=w.library))) for w in workers}
