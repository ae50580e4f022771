"""Exported programs between PyTorch and this library, both ways: programs with open sizes, control flow, writes."""

import pytest

from . import aten_overloads, exported

pytestmark = pytest.mark.parity

#: why a program is not right in PyTorch
THEIRS = {"trees": "PyTorch does not read the texts among results that it writes itself"}


def test_programs(torch_python, tmp_path):
    loaded, here, there = exported.models(tmp_path, torch_python, True)
    assert loaded.all >= 46 and loaded.right == loaded.all, loaded.wrong
    assert here.all >= 24 and here.right == here.all, here.wrong
    assert {name for names in there.wrong.values() for name in names} <= THEIRS.keys(), there.wrong


def test_the_table_of_overloads_is_pytorchs(torch_python):
    kept = aten_overloads.TABLE.read_text(encoding="utf-8").splitlines()
    assert [line for line in kept if not line.startswith("#")] == aten_overloads.table(torch_python)
