"""For the cases, which run with the fake driver: kernels by hand, and nothing left over between them."""

import gc
import os

import pytest

from . import VARIABLE, Kernels, driver


@pytest.fixture(autouse=True)
def fresh(monkeypatch):
    if VARIABLE not in os.environ:
        pytest.skip("cases run in processes that test_fake.py starts")
    import flambeau
    from flambeau import _C
    from flambeau.cuda import _plans
    found = Kernels()
    monkeypatch.setattr(_plans, "kernels", lambda: found)
    flambeau.cuda.is_available()
    _C._cuda.forget_plans()
    yield found
    driver().fail(0)
    driver().delay(0)
    driver().limit()
    gc.collect()
    flambeau.cuda.set_device(0)
    flambeau.cuda.synchronize()
    flambeau.cuda.empty_cache()


@pytest.fixture
def fake():
    return driver()
