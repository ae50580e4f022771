"""Small programs, scripted in either library: each gives PyTorch's results there and here, whoever wrote the file."""

import pytest

from .scripts import registry
from .torchscript import compared_programs

pytestmark = pytest.mark.parity


@pytest.mark.filterwarnings("ignore")
def test_programs(torch_python, tmp_path):
    refused, *counts = compared_programs(tmp_path, torch_python, True)
    assert set(refused) == set(registry.REFUSED), refused
    for count in counts:
        assert not count.wrong and count.right == count.all == len(registry.PROGRAMS), (count.title, count.wrong)
