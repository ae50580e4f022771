"""Operators of static quantization against PyTorch's: the same codes, scales, zero points and strides.

Some may choose the neighbour where two codes are equally near (PyTorch rounds the last elements of a loop in another
way than the others); all others give PyTorch's codes.
"""

import pickle
import subprocess
from pathlib import Path

import numpy as np
import pytest

import flambeau

from .quantized import CASES, Numbers

pytestmark = pytest.mark.parity
#: operators whose codes may be the neighbours of PyTorch's, and of how many
TIES = {"avg_pool2d": 0.05, "adaptive_avg_pool2d": 0.05, "interpolate": 0.05, "hardswish": 0.05, "add_scalar": 0.05,
        "add_scalar_relu": 0.05, "add": 0.01, "add_relu": 0.01}
#: those whose results PyTorch lays out in its own way
STRIDES = ("batch_norm2d", "batch_norm2d_relu", "elu", "celu", "adaptive_avg_pool2d")


@pytest.fixture(scope="module")
def pytorchs(torch_python, tmp_path_factory):
    path = tmp_path_factory.mktemp("torch") / "quantized.pickle"
    subprocess.run([torch_python, str(Path(__file__).with_name("quantized.py")), str(path)], check=True)
    return pickle.loads(path.read_bytes())


@pytest.mark.parametrize("name", CASES)
def test_same_codes(name, pytorchs):
    codes, scale, zero_point, dtype, strides = pytorchs[name]
    found, operator = CASES[name](flambeau, Numbers(flambeau, name)), name.partition(" ")[0]
    assert found.q_scale() == pytest.approx(scale, rel=1e-7) and found.q_zero_point() == zero_point
    assert str(found.dtype) == dtype and tuple(found.shape) == codes.shape
    assert operator in STRIDES or tuple(found.stride()) == strides
    off = np.abs(found.int_repr().numpy().astype(int) - codes.astype(int))
    assert off.max() <= (1 if operator in TIES else 0)
    assert (off > 0).mean() <= TIES.get(operator, 0)
