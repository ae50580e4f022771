"""Hostile calls to everything public end in results or in Python exceptions: no process dies, no call hangs.

A failure names the call, the seed and the block; `python -m tests.fuzz.worker LOG SEED BLOCK 1 all` runs that block
again.
"""

import os

import pytest

from .sweep import run_shards


def assert_nothing_found(sweeps):
    for sweep in sweeps:
        print(sweep.summary())
    found = [f"{kind} ({sweep.counts[kind]} times)\n{text}" for sweep in sweeps for kind,
             text in sweep.findings.items()]
    assert not found, "\n\n".join(found)


@pytest.mark.parametrize("seed", [11, 12])
def test_some_thousand_calls(seed):
    sweeps = run_shards(seed, 0, 5000, 1)
    assert_nothing_found(sweeps)
    assert sum(s.calls for s in sweeps) > 4000
    assert sum(s.results for s in sweeps) > 500, "hardly any call worked: the fuzzer has lost its aim"


@pytest.mark.exhaustive
def test_ten_million_calls():
    """FLAMBEAU_FUZZ_SEED begins at other seeds; the calls are shared among as many processes as there are
    processors."""
    seed = int(os.environ.get("FLAMBEAU_FUZZ_SEED", "1000"))
    processes = os.cpu_count() or 1
    print(f"seeds {seed} to {seed + processes - 1}")
    sweeps = run_shards(seed, 0, 10 ** 7, processes)
    assert_nothing_found(sweeps)
    assert sum(s.calls for s in sweeps) > 9 * 10 ** 6
