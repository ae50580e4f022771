"""Function transforms against PyTorch: values, shapes, dtypes, requires_grad, and the types of errors."""

import os
import pickle
import subprocess
import sys
from pathlib import Path

import pytest

import flambeau

from .transforms import CASES, run

pytestmark = pytest.mark.parity


@pytest.fixture(scope="module")
def pytorchs(tmp_path_factory):
    python = os.environ.get("FLAMBEAU_TORCH_PYTHON", sys.executable)
    if subprocess.run([python, "-c", "import torch"], capture_output=True, check=False).returncode:
        pytest.skip(f"{python} has no PyTorch; set FLAMBEAU_TORCH_PYTHON to an interpreter that has")
    path = tmp_path_factory.mktemp("torch") / "transforms.pickle"
    subprocess.run([python, str(Path(__file__).with_name("transforms.py")), str(path)], check=True, capture_output=True)
    return pickle.loads(path.read_bytes())


def agree(mine, theirs):
    if isinstance(theirs, (list, tuple)) and not isinstance(theirs, str):
        return isinstance(mine, (list, tuple)) and len(mine) == len(theirs) and all(map(agree, mine, theirs))
    if isinstance(theirs, dict):
        return list(mine) == list(theirs) and all(agree(mine[k], theirs[k]) for k in theirs)
    if isinstance(theirs, float):
        return mine == pytest.approx(theirs, rel=1e-6, abs=1e-9, nan_ok=True)
    return mine == theirs


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("expression", CASES)
def test_transform(expression, pytorchs):
    mine, theirs = run(flambeau, expression), pytorchs[expression]
    assert agree(mine, theirs), f"{mine} | PyTorch {theirs}"
