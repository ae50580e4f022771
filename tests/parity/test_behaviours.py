"""Modules against PyTorch in what they do beyond numbers: hooks, state dicts, parametrizations, pruning."""

import pickle
import re
import subprocess
from pathlib import Path

import numpy as np
import pytest

import flambeau

from .behaviours import CASES, run

pytestmark = pytest.mark.parity


@pytest.fixture(scope="module")
def pytorchs(torch_python, tmp_path_factory):
    path = tmp_path_factory.mktemp("torch") / "behaviours.pickle"
    subprocess.run([torch_python, str(Path(__file__).with_name("behaviours.py")), str(path)], check=True)
    return pickle.loads(path.read_bytes())


def agree(mine, theirs, path):
    if isinstance(theirs, np.ndarray):
        assert isinstance(mine, np.ndarray) and mine.shape == theirs.shape and mine.dtype == theirs.dtype, path
        np.testing.assert_allclose(mine, theirs, rtol=1e-4, atol=1e-6, err_msg=path)
    elif isinstance(theirs, dict):
        assert list(mine) == list(theirs), path
        for key, value in theirs.items():
            agree(mine[key], value, f"{path}[{key!r}]")
    elif isinstance(theirs, list):
        assert isinstance(mine, list) and len(mine) == len(theirs), f"{path}: {mine} instead of {theirs}"
        for k, value in enumerate(theirs):
            agree(mine[k], value, f"{path}[{k}]")
    elif isinstance(theirs, str):
        same = [re.sub(r"\b(flambeau|torch)\.", "", text) for text in (str(mine), theirs)]
        assert same[0] == same[1], path
    else:
        assert mine == theirs, path


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_behaviour(case, pytorchs):
    found, expected = run(flambeau, case), pytorchs[case.__name__]
    problems = []
    for k, theirs in enumerate(expected):
        assert k < len(found)
        try:
            agree(found[k], theirs, f"{case.__name__}[{k}]")
        except AssertionError as error:
            problems.append(f"{str(found[k])[:300]} | PyTorch {str(theirs)[:300]} | {str(error)[:200]}")
    assert not problems, "\n".join(problems[:40])
    assert len(found) == len(expected), found[len(expected) :]
