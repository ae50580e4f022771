"""One library in a process of its own: reads a row (JSON) per line, answers with seconds per run.

Run by whichever Python has the library: `PYTHON worker.py flambeau|torch [THREADS]`. Needs nothing but the library.
"""

import importlib
import json
import sys
import time

TEMPLATE = """\
def build(torch, nn, F, optim, clock):
{setup}
    def loop(count):
        start = clock()
        for _ in range(count):
            {statement}
        return clock() - start
    return loop
"""


def build(library, setup, statement):
    names = {}
    text = TEMPLATE.format(setup="".join(f"    {line}\n" for line in setup.splitlines() if line) or "    pass",
                           statement=statement)
    exec(compile(text, "<row>", "exec"), names)  # rows.py is the only writer of these texts
    nn = importlib.import_module(f"{library.__name__}.nn")
    return names["build"](library, nn, importlib.import_module(f"{library.__name__}.nn.functional"),
                          importlib.import_module(f"{library.__name__}.optim"), time.perf_counter)


def measure(loop, empty, least, budget):
    """Seconds per run, several times: each visit runs as often as fills `least` seconds, until `budget` is used."""
    loop(1)
    count, taken = 1, loop(1)
    while taken < least and count < 1 << 22:
        count = max(count + 1, int(count * min(10.0, 1.3 * least / max(taken, 1e-9))))
        taken = loop(count)
    found, start = [taken / count], time.perf_counter()
    while time.perf_counter() - start < budget:
        found.append(loop(count) / count)
    return [max(t - empty, 0.0) for t in found]


def main(name, threads):
    library = importlib.import_module(name)
    if threads:
        library.set_num_threads(threads)
    overhead = build(library, "", "pass")
    empty = min(overhead(100_000) / 100_000 for _ in range(3))
    loops = {}  # built once per row: later visits find warm memory and caches
    for line in sys.stdin:
        row = json.loads(line)
        key = (row["setup"], row["statement"])
        try:
            if key not in loops:
                loops.clear()
                loops[key] = build(library, *key)
            answer = measure(loops[key], empty, row["least"], row["budget"])
        except Exception as error:
            answer = f"{type(error).__name__}: {error}"
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 0)
