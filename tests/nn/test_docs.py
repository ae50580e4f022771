"""The examples of docs/modules.md run and print what they say."""

import doctest
from pathlib import Path

import pytest

PAGE = Path(__file__).resolve().parents[2] / "docs" / "modules.md"


@pytest.mark.skipif(not PAGE.exists(), reason="the documentation is not here")
def test_examples():
    assert doctest.testfile(str(PAGE), module_relative=False, optionflags=doctest.NORMALIZE_WHITESPACE).failed == 0
