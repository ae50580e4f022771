"""The stored gradients of `tests/autograd/programs.py` are what the installed PyTorch computes."""

import json
import subprocess

import pytest

from ..autograd import programs
from ..autograd.test_programs import EXPECTED, same

pytestmark = pytest.mark.parity


def test_numbers_are_pytorchs(torch_python, tmp_path):
    subprocess.run([torch_python, programs.__file__, str(tmp_path / "now.json")], check=True)
    now = json.loads((tmp_path / "now.json").read_text())
    assert now.keys() == EXPECTED.keys()
    assert [name for name in now if not same(now[name], EXPECTED[name])] == []
