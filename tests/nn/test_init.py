"""nn.init against PyTorch's numbers for seed 0 (golden_init.json), and its laws."""

import json
import math
from pathlib import Path

import pytest

import flambeau
from flambeau.nn import init

ROWS = json.loads(Path(__file__).with_name("golden_init.json").read_text())


@pytest.mark.parametrize("row", ROWS, ids=[f"{row['call']}-{row['shape']}" for row in ROWS])
def test_values_are_pytorchs(row):
    tensor = flambeau.empty(row["shape"])
    flambeau.manual_seed(0)
    result = eval("init." + row["call"], {"init": init, "t": tensor})
    assert result is tensor
    assert tensor.flatten().tolist() == pytest.approx(row["values"], rel=1e-5, abs=1e-6)


def test_parameters_are_filled_outside_autograd():
    weight = flambeau.nn.Parameter(flambeau.empty(3, 4))
    init.kaiming_normal_(weight)
    assert weight.requires_grad and weight.grad_fn is None


@pytest.mark.parametrize("shape", [(4, 4), (6, 3), (3, 6), (4, 2, 3)])
def test_orthogonal_rows_or_columns(shape):
    matrix = init.orthogonal_(flambeau.empty(shape)).flatten(1)
    small = matrix @ matrix.t() if matrix.shape[0] <= matrix.shape[1] else matrix.t() @ matrix
    assert flambeau.allclose(small, flambeau.eye(small.shape[0]), atol=1e-5)


def test_gains():
    assert init.calculate_gain("relu") == math.sqrt(2)
    assert init.calculate_gain("leaky_relu", 0.2) == math.sqrt(2 / 1.04)
    assert init.calculate_gain("selu") == 0.75
    with pytest.raises(ValueError, match="Unsupported nonlinearity"):
        init.calculate_gain("step")
    with pytest.raises(ValueError, match="not a valid number"):
        init.calculate_gain("leaky_relu", True)


def test_errors_and_warnings():
    with pytest.raises(ValueError, match="fan_in and fan_out exist from 2 dimensions on"):
        init.xavier_uniform_(flambeau.empty(3))
    with pytest.raises(ValueError, match="mode must be"):
        init.kaiming_uniform_(flambeau.empty(3, 3), mode="fan_up")
    with pytest.raises(ValueError, match="expected 2 dimensions"):
        init.eye_(flambeau.empty(3))
    with pytest.warns(UserWarning, match="no elements to fill"):
        init.kaiming_uniform_(flambeau.empty(0, 3))
    with pytest.warns(FutureWarning, match=r"old name of nn\.init\.xavier_normal_"):
        init.xavier_normal(flambeau.empty(2, 2))
