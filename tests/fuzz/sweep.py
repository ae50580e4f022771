"""Runs hostile calls in processes of their own, and collects what kills or hangs one.

`python -m tests.fuzz.sweep --calls 10000000 --processes 2 --seed 1` prints each death and hang once, with the call
that did it,
and the totals. A process that died is followed by another that goes on behind the call.
"""

import argparse
import os
import re
import struct
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from .worker import CALLS_PER_BLOCK, HEADER, LOG_SIZE

ROOT = Path(__file__).resolve().parents[2]
#: a call that uses so many seconds of the processor without hearing the timer hangs
HANG = 10
BLOCKS_PER_PROCESS = 2000


def processor_seconds(pid):
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    except (OSError, IndexError):
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Run:
    """One worker process over some blocks."""

    def __init__(self, folder, seed, first, blocks, show=False):
        self.seed, self.first, self.blocks = seed, first, blocks
        self.log = Path(folder, f"log-{seed}-{first}-{show}")
        self.log.write_bytes(b"\0" * LOG_SIZE)
        self.errors = Path(folder, f"errors-{seed}-{first}-{show}")
        command = [sys.executable, "-m", "tests.fuzz.worker", str(self.log), str(seed), str(first), str(blocks)]
        environment = {"PYTHONFAULTHANDLER": "1", "OMP_WAIT_POLICY": "passive", "OMP_NUM_THREADS": "2"}
        with self.errors.open("wb") as errors:
            self.process = subprocess.Popen(
                command + ["show"] * show, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=errors,
                env={**os.environ, **environment})
        self.place, self.since, self.spent = None, time.monotonic(), 0.0

    def header(self):
        with self.log.open("rb") as f:
            return struct.unpack(HEADER.format, f.read(HEADER.size))

    def text(self):
        data = self.log.read_bytes()[HEADER.size:]
        return data[:data.index(b"\0")].decode("utf8", "replace")

    def hangs(self):
        """Whether the call that runs has used HANG seconds of processor time (or twelve times as long by the clock)."""
        place = self.header()[:3]
        if place != self.place:
            self.place, self.since, self.spent = place, time.monotonic(), processor_seconds(self.process.pid)
        elif place[2] == 0:
            return False  # still starting
        return (processor_seconds(self.process.pid) - self.spent > HANG or time.monotonic() - self.since > 12 * HANG)

    def wait(self, deadline=None):
        """'done', 'hang', 'out of time', or how the process ended."""
        while True:
            try:
                code = self.process.wait(0.3)
                return "done" if code == 0 else f"ended with {code}"
            except subprocess.TimeoutExpired:
                pass
            if self.hangs() or (deadline and time.monotonic() > deadline):
                outcome = "hang" if self.hangs() else "out of time"
                self.process.kill()
                self.process.wait()
                return outcome

    def clean(self):
        self.log.unlink()
        self.errors.unlink()


def seen_again(folder, seed, block):
    """Runs a block once more and says what it did, with the call's description."""
    run = Run(folder, seed, block, 1, show=True)
    outcome = run.wait()
    text = run.text()
    trace = run.errors.read_text("utf8", "replace")
    if outcome == "done":
        return "(not with this block alone)", trace
    return text, trace


class Sweep:
    """Totals, and each finding once: by outcome and the name of what was called."""

    def __init__(self, folder, say=print):
        self.folder, self.say = folder, say
        self.calls = self.results = self.slow = 0
        self.findings, self.counts = {}, Counter()

    def add(self, kind, text, detail):
        key = f"{kind}: {re.split('[(,]', text)[0]}"
        self.counts[key] += 1
        if key not in self.findings:
            self.findings[key] = text
            self.say(f"--- {kind}\n{detail}\n{text[:1500]}", flush=True)

    def shard(self, seed, first, blocks, deadline=None):
        """All the blocks, in as many processes as it takes."""
        end = first + blocks
        while first < end and not (deadline and time.monotonic() > deadline):
            run = Run(self.folder, seed, first, min(BLOCKS_PER_PROCESS, end - first))
            outcome = run.wait(deadline)
            block, index, calls, results, slow = run.header()
            self.calls, self.results, self.slow = self.calls + calls, self.results + results, self.slow + slow
            self.read_findings(run)
            if outcome in ("done", "out of time"):
                first = max(block, first + 1)
                run.clean()
                continue
            text, trace = seen_again(self.folder, seed, block) if calls else ("(before the first call)", "")
            trace = trace or run.errors.read_text("utf8", "replace")
            self.add("a hang" if outcome == "hang" else "a death", text,
                     f"seed {seed}, block {block}, call {index}, {outcome}\n"
                     + (trace[-1800:] if outcome != "hang" else ""))
            first = max(block, first) + 1
            run.clean()

    def read_findings(self, run):
        for line in run.errors.read_text("utf8", "replace").splitlines():
            if line.startswith("finding: "):
                where, text = line[9:].split(": ", 1)
                self.add("a finding", text, where)

    def summary(self):
        kinds = Counter(k.split(":")[0] for k in self.findings)
        return (f"{self.calls} calls, {self.results} with a result, {self.slow} interrupted; "
                f"{kinds['a death']} kinds of death, "
                f"{kinds['a hang']} of hang, {kinds['a finding']} of other findings")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=10 ** 6)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first", type=int, default=0, help="the first block")
    parser.add_argument("--minutes", type=float, help="stop after so long")
    options = parser.parse_args()
    deadline = options.minutes and time.monotonic() + options.minutes * 60
    sweeps = run_shards(options.seed, options.first, options.calls, options.processes, deadline)
    for sweep in sweeps:
        print(sweep.summary(), dict(sweep.counts))
    sys.exit(any(sweep.findings for sweep in sweeps))


def run_shards(seed, first, calls, processes, deadline=None, say=print):
    """One sweep per process, side by side, over seeds that follow each other."""
    from concurrent.futures import ThreadPoolExecutor
    blocks = -(-calls // (CALLS_PER_BLOCK * processes))
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(processes) as pool:
        sweeps = [Sweep(folder, say) for _ in range(processes)]
        jobs = [pool.submit(s.shard, seed + k, first, blocks, deadline) for k, s in enumerate(sweeps)]
        for job in jobs:
            job.result()
    return sweeps


if __name__ == "__main__":
    main()
