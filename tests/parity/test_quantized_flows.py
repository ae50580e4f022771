"""Whole quantized models against PyTorch's: scales, graphs node by node, keys of the state, losses, results."""

import json
import subprocess
from pathlib import Path

import numpy as np
import pytest

import flambeau
import flambeau.ao.quantization.quantize_fx

from . import quantized_flows

pytestmark = pytest.mark.parity
NAMES = [f"{flow} {name} {backend}" for backend in ("x86", "qnnpack")
         for flow, name in (("eager", "residual"), ("eager", "perceptron"), ("eager", "recurrent"),
                            ("training", "residual"), ("training", "perceptron"))]
NAMES += ["graph convolutions", "graph mobile", "graph transformer", "graph training convolutions",
          "graph training mobile"]
EXACT = ("keys", "quantized", "nodes")


@pytest.fixture(scope="module")
def pytorchs(torch_python, tmp_path_factory):
    path = tmp_path_factory.mktemp("torch") / "flows.json"
    program = Path(__file__).with_name("quantized_flows.py")
    subprocess.run([torch_python, str(program), "torch", str(path)], check=True)
    return json.loads(path.read_text())


@pytest.fixture(scope="module")
def ours():
    return json.loads(json.dumps(quantized_flows.run(flambeau)))


@pytest.mark.parametrize("name", NAMES)
def test_same_model(name, ours, pytorchs):
    found, expected = ours[name], pytorchs[name]
    assert list(found) == list(expected)
    for part in expected:
        if part in EXACT:
            assert found[part] == expected[part], part
        elif part == "scales":
            assert list(found[part]) == list(expected[part])
            for one, other in zip(found[part].values(), expected[part].values(), strict=True):
                np.testing.assert_allclose(one[0], other[0], rtol=1e-5)
                assert one[1] == other[1]
        elif part == "losses":
            np.testing.assert_allclose(found[part], expected[part], rtol=1e-4)
        elif "eager" not in name or "qnnpack" not in name:  # PyTorch's kernels for x86 clip sums of products of 8 bits
            # one code of the result, which has 128 or 256 of them
            one, other = np.array(found[part]), np.array(expected[part])
            assert np.abs(one - other).max() <= 2.1 * max(np.ptp(other), 1e-3) / 127, part
