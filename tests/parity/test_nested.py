"""Nested tensors against PyTorch, question by question: every answer that differs is listed with its reason."""

import os
import subprocess
import sys

import pytest

from . import pins
from .nested import examine

pytestmark = pytest.mark.parity


@pytest.mark.filterwarnings("ignore")
def test_nested():
    python = os.environ.get("FLAMBEAU_TORCH_PYTHON", sys.executable)
    if subprocess.run([python, "-c", "import torch"], capture_output=True, check=False).returncode:
        pytest.skip(f"{python} has no PyTorch; set FLAMBEAU_TORCH_PYTHON")
    table, failures = examine(python)
    problems = pins.problems("nested", failures)
    assert not problems, "\n".join(problems[:40])
    cases, right = (sum(row[k] for row in table.values()) for k in ("cases", "right"))
    assert cases >= 11000 and right >= 0.99 * cases
