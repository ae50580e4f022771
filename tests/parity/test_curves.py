"""The example language models against PyTorch: the same losses, step by step.

$FLAMBEAU_DATA names the folder of the texts (wikitext-2/valid.txt, tinyshakespeare/input.txt); without it, skipped.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from benchmarks.curves import PROGRAMS, compare

pytestmark = pytest.mark.parity


@pytest.mark.parametrize("program", PROGRAMS)
def test_losses_of_200_steps(program):
    folder, python = os.environ.get("FLAMBEAU_DATA", ""), os.environ.get("FLAMBEAU_TORCH_PYTHON", sys.executable)
    if not folder or not (Path(folder) / PROGRAMS[program][0]).exists():
        pytest.skip("set FLAMBEAU_DATA to the folder of the texts")
    if subprocess.run([python, "-c", "import torch"], capture_output=True, check=False).returncode:
        pytest.skip(f"{python} has no PyTorch; set FLAMBEAU_TORCH_PYTHON to an interpreter that has")
    apart, _, _ = compare(program, folder, python)
    assert apart <= 1e-3
