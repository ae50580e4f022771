"""Tensors of these tests are small, and several processes run side by side: threads would only wait for each other."""

import pytest

import flambeau


@pytest.fixture(autouse=True)
def one_thread():
    before = flambeau.get_num_threads()
    flambeau.set_num_threads(1)
    yield
    flambeau.set_num_threads(before)
