"""Hostile arguments to every operator: Python exceptions only, never a crash of the process.

The calls run in processes of their own; when one dies, the failure names the call that killed it.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


def fuzz(seed, calls, folder, timeout):
    log = folder / f"calls-{seed}.txt"
    found = subprocess.run([sys.executable, "-m", "tests.fuzz_worker", str(seed), str(calls), str(log)], cwd=ROOT,
                           text=True, capture_output=True, timeout=timeout, check=False,
                           env={**os.environ, "PYTHONFAULTHANDLER": "1"})
    last = log.read_text() if log.exists() else "(no call was made)"
    assert found.returncode == 0, (f"the process ended with {found.returncode}\n{last}\n"
                                   f"{found.stderr[-3000:]}")
    return int(found.stdout.split()[-1])


@pytest.mark.parametrize("seed", range(4))
def test_hostile_arguments(seed, tmp_path):
    worked = fuzz(seed, 2500, tmp_path, 300)
    assert worked > 250, "hardly any call worked: the fuzzer has lost its aim"


@pytest.mark.exhaustive
@pytest.mark.parametrize("seed", range(1000, 1020))
def test_hostile_arguments_at_length(seed, tmp_path):
    fuzz(seed, 50_000, tmp_path, 3600)
