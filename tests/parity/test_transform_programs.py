"""Jacobians, per-sample gradients, ensembles, tangent kernels …: one program, both libraries, the same numbers."""

import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

pytestmark = pytest.mark.parity
PROGRAM = Path(__file__).with_name("transforms_program.py")


def results(python, library, file):
    subprocess.run([python, str(PROGRAM), library, str(file)], check=True, timeout=300)
    return pickle.loads(file.read_bytes())


def flat(x):
    return [a for part in x for a in flat(part)] if isinstance(x, list) else [x]


def test_same_numbers(torch_python, tmp_path):
    ours = results(sys.executable, "flambeau", tmp_path / "flambeau.pickle")
    theirs = results(torch_python, "torch", tmp_path / "torch.pickle")
    assert ours.keys() == theirs.keys()
    for name, expected in theirs.items():
        for a, b in zip(flat(ours[name]), flat(expected), strict=True):
            np.testing.assert_allclose(a, b, rtol=2e-5, atol=2e-6 * max(1.0, float(np.abs(b).max())), err_msg=name)
