"""Plans are known by the calls they serve, and small functions by their address: each test begins without any."""

import pytest

import flambeau


@pytest.fixture(autouse=True)
def no_plans():
    flambeau.compiler.reset()
