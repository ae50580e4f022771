"""PyTorch's public names and their parameters: how many are here, and why the others are not."""

import os
from pathlib import Path

import pytest

from . import names, pins

pytestmark = pytest.mark.parity

TABLE = Path(os.environ.get("FLAMBEAU_TORCH_NAMES", Path(__file__).parents[3] / "shared" / "api" / "torch_api.tsv"))


@pytest.fixture(scope="module")
def coverage(torch_python):
    if not TABLE.is_file():
        pytest.skip("the table of PyTorch's names is not here; FLAMBEAU_TORCH_NAMES says where it is")
    return names.Coverage(TABLE, torch_python)


def test_what_is_absent_or_differs_is_listed(coverage):
    problems = pins.problems("names", coverage.pins())
    assert not problems, f"{coverage}\n" + "\n".join(problems)


def test_coverage(coverage):
    own = coverage.own()
    assert len(own) > 2_600
    assert coverage.present(own, names.used) >= 0.999 and coverage.present(own) >= 0.99
    assert coverage.same(own, names.used) >= 0.999 and coverage.same(own) >= 0.99
    assert sum(name in coverage.refused for name in coverage.here) < 300


def test_what_refuses_is_rarely_used(coverage):
    use = {row.name: row.files for row in coverage.own()}
    refused = sum(use.get(name, 0) for name in coverage.refused)
    assert refused < 0.01 * sum(use.values())
