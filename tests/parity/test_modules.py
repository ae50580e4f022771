"""Modules against PyTorch on PyTorch's own samples: every case that differs is listed with its reason."""

import os
import subprocess
import sys

import pytest

from . import pins
from .modules import compared, examine, pinned

pytestmark = pytest.mark.parity


@pytest.mark.filterwarnings("ignore")
def test_modules():
    python = os.environ.get("FLAMBEAU_TORCH_PYTHON", sys.executable)
    imports = "import torch.testing._internal.common_modules"
    if subprocess.run([python, "-c", imports], capture_output=True, check=False).returncode:
        pytest.skip(f"{python} has no PyTorch with what its tests import; set FLAMBEAU_TORCH_PYTHON")
    table, failures = examine(python)
    problems = pins.problems("modules", pinned(failures), compared(table))
    assert not problems, "\n".join(problems[:40])
    assert sum(row["cases"] for row in table.values()) >= 4900
