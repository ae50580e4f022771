"""PyTorch's own operator samples: every call that Flambeau answers otherwise is listed with its reason."""

import os
import subprocess
import sys

import pytest

from . import pins, samples

pytestmark = pytest.mark.parity


@pytest.fixture(scope="module")
def python():
    python = os.environ.get("FLAMBEAU_TORCH_PYTHON", sys.executable)
    known = subprocess.run([python, "-c", "import torch, numpy, expecttest"], capture_output=True, check=False)
    if known.returncode:
        pytest.skip(f"{python} has no PyTorch with its test samples; set FLAMBEAU_TORCH_PYTHON to one that has")
    return python


def test_what_differs_is_listed(python):
    table = samples.measure(python)
    problems = pins.problems("samples", table.pins(), table.compared)
    assert not problems, f"{table}\n" + "\n".join(problems[:200])
    least = {"samples": 21_000, "forms": 34_000, "errors": 650}  # so that no generator dries up unnoticed
    for kind in least:
        assert sum(row[kind] for row in table.counts.values()) >= least[kind], kind
