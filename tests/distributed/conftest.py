"""Four ranks, started once for a module, in which the tests make their calls."""

import os

import pytest

from .pool import Ranks


@pytest.fixture(scope="module")
def ranks():
    made = Ranks(4)
    yield made
    made.end()


@pytest.fixture
def few():
    """Makes ranks that a test may kill."""
    made = []

    def start(size, timeout=20.0, port=None):
        made.append(Ranks(size, timeout, port))
        return made[-1]

    yield start
    for one in made:
        one.end()


@pytest.fixture(autouse=True)
def nothing_is_left():
    """No test leaves a name in /dev/shm."""
    before = set(os.listdir("/dev/shm"))
    yield
    assert not {name for name in set(os.listdir("/dev/shm")) - before if "flambeau" in name}
