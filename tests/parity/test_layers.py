"""Layers against PyTorch: results, gradients and buffers for the same seed."""

import subprocess
from pathlib import Path

import numpy as np
import pytest

import flambeau

from .layer_cases import CASES, run

pytestmark = pytest.mark.parity


@pytest.fixture(scope="module")
def pytorchs(torch_python, tmp_path_factory):
    path = tmp_path_factory.mktemp("torch") / "layers.npz"
    subprocess.run([torch_python, str(Path(__file__).with_name("layer_cases.py")), str(path)], check=True)
    return np.load(path)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("number", range(len(CASES)), ids=[call for call, _ in CASES])
def test_layer(number, pytorchs):
    found = run(flambeau, *CASES[number])
    expected = [pytorchs[key] for key in pytorchs.files if key.split(".")[0] == str(number)]
    assert len(found) == len(expected)
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=2e-6)
