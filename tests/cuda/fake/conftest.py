"""For the cases, which run with the fake driver: kernels by hand, and nothing left over between them."""

import gc
import importlib
import os

import pytest

from . import VARIABLE, FakeLibrary, Kernels, driver


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
def own_kernels(fresh, monkeypatch):
    """Kernels are the generated ones, compiled for the CPU; fake libraries are as usual afterwards."""
    import flambeau
    from flambeau.cuda import _plans

    from .. import emulate
    assert emulate.MARK  # importing it is enough
    monkeypatch.setattr(_plans, "kernels", lambda: importlib.import_module("flambeau.cuda.kernels"))
    flambeau.manual_seed(0)
    flambeau.compiler.reset()
    yield
    flambeau.compiler.reset()
    flambeau.set_default_device(None)
    for library in FakeLibrary.opened:
        library.reset()


@pytest.fixture
def fake():
    return driver()
