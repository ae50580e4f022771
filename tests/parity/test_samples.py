"""PyTorch's own operator samples: how many of them Flambeau answers alike."""

import os
import subprocess
import sys

import pytest

from . import samples

pytestmark = pytest.mark.parity


@pytest.fixture(scope="module")
def table():
    python = os.environ.get("FLAMBEAU_TORCH_PYTHON", sys.executable)
    known = subprocess.run([python, "-c", "import torch, numpy, expecttest"], capture_output=True, check=False)
    if known.returncode:
        pytest.skip(f"{python} has no PyTorch with its test samples; set FLAMBEAU_TORCH_PYTHON to one that has")
    return samples.measure(python)


@pytest.mark.parametrize("kind", ("samples", "forms", "errors"))
def test_ratio(table, kind):
    assert table.ratio(kind) >= 0.98, f"{table}\n" + "\n".join(table.failures[:200])
