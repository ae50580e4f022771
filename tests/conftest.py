"""What every test starts from: seed 0, float32 as default dtype, gradients on."""

import os

import pytest

# Several workers share the processor: threads that wait for work must sleep, not spin (read when OpenMP starts).
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

import flambeau


@pytest.fixture(autouse=True)
def fresh_state():
    flambeau.manual_seed(0)
    yield
    if not flambeau.is_grad_enabled():
        flambeau.set_grad_enabled(True)
        raise AssertionError("the test left gradients switched off")
    if flambeau.get_default_dtype() != flambeau.float32:
        flambeau.set_default_dtype(flambeau.float32)
        raise AssertionError("the test left another default dtype")
