"""Process-wide settings: devices, precision, determinism, threads."""

import pickle
import threading

import numpy as np
import pytest

import flambeau


@pytest.fixture
def on_meta():
    flambeau.set_default_device("meta")
    yield
    flambeau.set_default_device(None)


@pytest.mark.parametrize("make", [
    lambda t: t.ones(2), lambda t: t.tensor([1]), lambda t: t.as_tensor([1]), lambda t: t.asarray([1]),
    lambda t: t.randn(2), lambda t: t.arange(3), lambda t: t.randperm(3), lambda t: t.eye(3),
    lambda t: t.scalar_tensor(3.0),
    lambda t: t.empty_strided((2,), (1,)), lambda t: t.nn.Linear(2, 2).weight, lambda t: t.full((2,), 1),
    lambda t: t.linspace(0, 1, 3), lambda t: t.as_tensor(np.ones(2)), lambda t: t.tensor(t.ones(2, device="cpu")),
    lambda t: t.as_tensor(t.ones(2, device="cpu")), lambda t: t.tril_indices(2, 2),
])
def test_default_device(on_meta, make):
    assert make(flambeau).device.type == "meta"


@pytest.mark.parametrize("make", [
    lambda t: t.ones(2, device="cpu"), lambda t: t.Tensor(2), lambda t: t.FloatTensor(2),
    lambda t: t.from_numpy(np.ones(2)), lambda t: t.zeros_like(t.ones(2, device="cpu")),
    lambda t: t.ones(2, device="cpu").new_zeros(2),
])
def test_what_the_default_device_leaves_alone(on_meta, make):
    assert make(flambeau).device.type == "cpu"


def test_device_contexts():
    with flambeau.device("meta"):
        assert flambeau.ones(1).is_meta
        with flambeau.device("cpu"):
            assert not flambeau.ones(1).is_meta
        assert flambeau.get_default_device() == flambeau.device("meta")
        seen = []
        thread = threading.Thread(target=lambda: seen.append(flambeau.ones(1).device.type))
        thread.start()
        thread.join()
        assert seen == ["cpu"]  # of this thread alone
    assert flambeau.get_default_device() == flambeau.device("cpu")
    assert flambeau.tensor(flambeau.ones(1, device="meta")).is_meta
    with pytest.raises(RuntimeError):
        flambeau.set_default_device("nonsense")


def test_denormals():
    x = flambeau.full((100000,), 1e-310, dtype=flambeau.float64)
    assert flambeau.set_flush_denormal(True)
    try:
        assert (x * 1.0).sum().item() == 0
    finally:
        flambeau.set_flush_denormal(False)
    assert (x * 1.0).sum().item() > 0
    with pytest.raises(TypeError):
        flambeau.set_flush_denormal(1)


def test_determinism():
    try:
        flambeau.set_deterministic_debug_mode("warn")
        assert flambeau.get_deterministic_debug_mode() == 1
        assert flambeau.are_deterministic_algorithms_enabled()
        assert flambeau.is_deterministic_algorithms_warn_only_enabled()
        flambeau.set_deterministic_debug_mode(2)
        assert flambeau.get_deterministic_debug_mode() == 2
    finally:
        flambeau.set_deterministic_debug_mode(0)
    for bad, error in (("bad", RuntimeError), (7, RuntimeError), (1.5, TypeError)):
        with pytest.raises(error):
            flambeau.set_deterministic_debug_mode(bad)


def test_settings_that_are_kept():
    assert flambeau.get_float32_matmul_precision() == "highest"
    flambeau.set_float32_matmul_precision("medium")
    assert flambeau.get_float32_matmul_precision() == "medium"
    flambeau.set_float32_matmul_precision("highest")
    with pytest.raises(ValueError):
        flambeau.set_float32_matmul_precision("x")
    flambeau.set_warn_always(True)
    assert flambeau.is_warn_always_enabled()
    flambeau.set_warn_always(False)
    for bad in (lambda: flambeau.set_warn_always(1), lambda: flambeau.set_num_interop_threads(0)):
        with pytest.raises(RuntimeError):
            bad()
    assert flambeau.get_num_interop_threads() >= 1
    assert "AVX" in flambeau.__config__.show() and "OpenMP" in flambeau.__config__.parallel_info()


def test_futures():
    assert flambeau.futures.Future[int]().done() is False
    futures = [flambeau.futures.Future() for _ in range(3)]
    both = flambeau.futures.collect_all(futures)
    for k, future in enumerate(futures):
        assert not both.done()
        future.set_result(k)
    assert [f.value() for f in both.wait()] == [0, 1, 2] == flambeau.futures.wait_all(futures)
    failed = flambeau.futures.Future()
    after = failed.then(lambda f: f.wait())
    failed.set_exception(ValueError("no"))
    with pytest.raises(RuntimeError, match="the callback raised ValueError: no") as caught:
        after.wait()
    assert isinstance(caught.value.__cause__, ValueError)
    with pytest.raises(ValueError, match="no"):
        flambeau.futures.wait_all([failed])
    with pytest.raises(RuntimeError, match="got NoneType"):
        flambeau.futures.collect_all([failed, None])
    with pytest.raises(RuntimeError, match="cannot be pickled"):
        pickle.dumps(failed)
    with pytest.raises(TypeError, match="must be a function"):
        failed.then(3)
    with pytest.raises(RuntimeError, match="this future has a result or an exception"):
        failed.set_result(1)
