"""Four ranks, started once and anew after a failure, in which the tests make their calls."""

import os

import pytest

from .pool import Ranks


@pytest.fixture(scope="session")
def _kept():
    """The four ranks, from one test to the next."""
    kept = []
    yield kept
    for one in kept:
        one.end()


@pytest.fixture
def ranks(_kept):
    if not _kept:
        _kept.append(Ranks(4))
    yield _kept[0]
    if not _kept[0].whole:
        _kept.pop().end()


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
