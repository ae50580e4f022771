"""Every random function gives PyTorch's numbers for the same seed, and leaves the generator where PyTorch does."""

import json
import warnings
from pathlib import Path

import numpy as np
import pytest

import flambeau

from .random_cases import cases, outcome

GOLDEN = json.loads(Path(__file__).with_name("random_golden.json").read_text())
CASES = dict(cases(flambeau))
TOLERANCE = {"float16": 2e-3, "bfloat16": 2e-2, "float32": 4e-6, "complex64": 4e-6}


def test_all_cases_have_golden_values():
    assert set(CASES) == set(GOLDEN)


@pytest.mark.parametrize("function", sorted({key.split(" ")[0].split("(")[0] for key in CASES}))
def test_golden(function):
    for key in (k for k in CASES if k.split(" ")[0].split("(")[0] == function):
        shown, total, after = GOLDEN[key]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = outcome(flambeau, CASES[key])
        assert found[2] == after, f"{key}: the generator stands elsewhere"
        t = next((v for d, v in TOLERANCE.items() if d in key), 1e-9 if "64" in key else 4e-6)
        np.testing.assert_allclose(found[0], shown, rtol=t, atol=t, err_msg=key)
        np.testing.assert_allclose(found[1], total, rtol=t * 10, atol=t * 100, err_msg=key)
