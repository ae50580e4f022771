"""Gradients of programs with shared tensors, hooks and writes through views, compared with PyTorch's numbers."""

import json

import pytest

import flambeau

from .programs import CASES, GOLDEN, run

EXPECTED = json.loads(GOLDEN.read_text())


def same(mine, theirs):
    if isinstance(theirs, float):
        return mine == pytest.approx(theirs, rel=1e-12, abs=1e-12)
    if isinstance(theirs, list):
        return isinstance(mine, list) and len(mine) == len(theirs) and all(map(same, mine, theirs))
    return mine == theirs


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_program(case):
    found, expected = run(flambeau, case), EXPECTED[case.__name__]
    assert same(found, expected), f"{found}\ninstead of {expected}"
