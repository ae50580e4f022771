"""Mutated files in a process of its own: values and RuntimeErrors only, within 10 seconds and ten times the file."""

import os
import re
import subprocess
import sys

import pytest

from .sandbox import ROOT


def mutate(first, last, folder):
    log = folder / "number.txt"
    found = subprocess.run([sys.executable, "-m", "tests.serialization.mutate", str(first), str(last), str(log)],
                           cwd=ROOT, text=True, capture_output=True, check=False,
                           env={**os.environ, "PYTHONFAULTHANDLER": "1"})
    last = log.read_text().strip() if log.exists() else "(none)"
    assert found.returncode == 0, f"file {last}: the process ended with {found.returncode}\n{found.stderr[-3000:]}"
    print(found.stdout)
    return map(int, re.search(r"(\d+) loaded, (\d+) refused; (\d+) MiB", found.stdout).groups())


def test_mutated_files(tmp_path):
    loaded, refused, more = mutate(0, 3000, tmp_path)
    assert loaded > 150 and refused > 1500, "the mutations have lost their aim"
    assert more < 64


@pytest.mark.exhaustive
def test_a_million_mutated_files(tmp_path):
    mutate(0, 1_000_000, tmp_path)
