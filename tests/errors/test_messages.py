"""Typical mistakes are told what is wrong and what to do: every message as written down in messages.txt."""

import pytest

from .mistakes import MISTAKES, message, written

WRITTEN = written()


def test_there_are_a_hundred():
    assert len(MISTAKES) >= 100
    assert set(MISTAKES) == set(WRITTEN), "regenerate with python -m tests.errors.mistakes"


@pytest.mark.parametrize("name", MISTAKES)
def test_message(name):
    found = message(MISTAKES[name])
    assert found != "no error"
    assert found == WRITTEN[name], f"{name}: if the new text is better, run python -m tests.errors.mistakes"
