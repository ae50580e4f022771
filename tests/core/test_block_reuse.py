"""Freed memory serves tensors of other sizes: what one phase of a program leaves does not stay beside the next's."""

import subprocess
import sys

import pytest

PROGRAM = """\
import flambeau
from flambeau import _C
flambeau.empty({freed}, dtype=flambeau.uint8)
before = _C.memory_stats()
x = flambeau.full(({wanted},), 7, dtype=flambeau.uint8)
after = _C.memory_stats()
assert x.sum().item() == 7 * {wanted}
print(after["system_allocations"] - before["system_allocations"], before["cached"] - after["cached"])
"""


def asked_for(freed, wanted):
    """How often `wanted` bytes asked the system after `freed` were given back, and by how much the cache shrank."""
    program = PROGRAM.format(freed=freed, wanted=wanted)
    found = subprocess.run([sys.executable, "-c", program], text=True, capture_output=True, check=True)
    return tuple(map(int, found.stdout.split()))


@pytest.mark.parametrize("freed", [1 << 20, 1_200_000, 1_500_000])
def test_a_larger_block_is_used_whole(freed):
    times, taken = asked_for(freed, 1 << 20)
    assert times == 0
    assert taken >= freed  # and the cache knows it


@pytest.mark.parametrize("freed, wanted", [(1 << 21, 1 << 20),  # half of it would lie idle
                                           (1 << 20, (1 << 20) + 4096),  # too small
                                           (1280, 1024)])  # not worth the search
def test_other_blocks_wait(freed, wanted):
    assert asked_for(freed, wanted) == (1, 0)
