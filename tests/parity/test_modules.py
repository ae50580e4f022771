"""Modules against PyTorch on PyTorch's own samples: 99 of 100 cases agree in everything."""

import os
import subprocess
import sys

import pytest

from .modules import examine

pytestmark = pytest.mark.parity


@pytest.mark.filterwarnings("ignore")
def test_modules():
    python = os.environ.get("FLAMBEAU_TORCH_PYTHON", sys.executable)
    imports = "import torch.testing._internal.common_modules"
    if subprocess.run([python, "-c", imports], capture_output=True, check=False).returncode:
        pytest.skip(f"{python} has no PyTorch with what its tests import; set FLAMBEAU_TORCH_PYTHON")
    table, failures = examine(python)
    cases, right = (sum(row[k] for row in table.values()) for k in ("cases", "right"))
    lines = [f"{case.module} {case.label} {case.dtype}: {aspect}: {text}" for case, aspect, text in failures]
    assert right >= 0.99 * cases, f"{right} of {cases}\n" + "\n".join(lines[:40])
