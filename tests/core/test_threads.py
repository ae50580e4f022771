"""Results do not depend on the number of threads, threads may share the library, and each has its own modes."""

import threading
import time

import pytest

import flambeau
import flambeau.autograd.forward_ad as forward_ad
from flambeau.nn import functional as F
from flambeau.overrides import TorchDispatchMode, TorchFunctionMode


@pytest.fixture
def threads():
    before = flambeau.get_num_threads()
    yield flambeau.set_num_threads
    flambeau.set_num_threads(before)


def big(*shape):
    return flambeau.randn(*shape)


CASES = {
    "sum": lambda: big(1 << 20).sum(),
    "mean of rows": lambda: big(37, 40001).mean(1),
    "sum of columns": lambda: big(40001, 37).sum(0),
    "prod": lambda: (big(1 << 18) * 0.001 + 1).prod(),
    "var": lambda: big(1 << 19).var(),
    "norm": lambda: big(1 << 19).norm(),
    "logsumexp": lambda: big(100, 5000).logsumexp(1),
    "argmax": lambda: big(1 << 19).argmax(),
    "cumsum": lambda: big(16, 40000).cumsum(1),
    "softmax": lambda: big(64, 10000).softmax(-1),
    "exp": lambda: big(1 << 20).exp(),
    "matmul": lambda: big(300, 400) @ big(400, 500),
    "batched matmul": lambda: big(8, 64, 100) @ big(8, 100, 64),
    "layer_norm": lambda: F.layer_norm(big(500, 1000), (1000,)),
    "batch_norm": lambda: F.batch_norm(big(16, 32, 30, 30), None, None, training=True),
    "conv2d": lambda: F.conv2d(big(4, 16, 32, 32), big(32, 16, 3, 3), padding=1),
    "max_pool2d": lambda: F.max_pool2d(big(8, 16, 32, 32), 2),
    "avg_pool2d": lambda: F.avg_pool2d(big(8, 16, 32, 32), 2),
    "cross_entropy": lambda: F.cross_entropy(big(5000, 100), flambeau.randint(0, 100, (5000,))),
    "index_add": lambda: flambeau.zeros(1000).index_add(0, flambeau.randint(0, 1000, (200000,)), big(200000)),
    "scatter_add": lambda: flambeau.zeros(1000).scatter_add(0, flambeau.randint(0, 1000, (200000,)), big(200000)),
    "scatter_add of rows": lambda: flambeau.zeros(200, 300).scatter_add(
        1, flambeau.randint(0, 300, (200, 900)), big(200, 900)),
    "scatter of columns": lambda: flambeau.zeros(300, 200).scatter(
        0, flambeau.randint(0, 300, (900, 200)), big(900, 200)),
    "index_put of rows": lambda: flambeau.zeros(50, 400).index_put(
        (flambeau.randint(-50, 50, (900,)),), big(900, 400)),
    "accumulating index_put of columns": lambda: flambeau.zeros(400, 50).index_put(
        (None, flambeau.randint(-50, 50, (900,))), big(400, 900), accumulate=True),
    "columns by number": lambda: big(300, 50)[:, flambeau.randint(-50, 50, (900,))],
    "sort": lambda: big(1 << 18).sort()[0],
    "sort of rows": lambda: big(100, 3000).sort(1)[1],
    "random numbers": lambda: flambeau.rand(1 << 18) + flambeau.randn(1 << 18),
    "dropout": lambda: F.dropout(big(1 << 18), 0.5),
    "strided add": lambda: big(700, 900).t() + big(900, 700),
}


@pytest.mark.parametrize("name", CASES)
def test_same_result_for_one_and_two_threads(name, threads):
    results = []
    for n in (1, 2, 3):
        threads(n)
        flambeau.manual_seed(1)
        results.append(CASES[name]())
    assert flambeau.equal(results[0], results[1])
    assert flambeau.equal(results[0], results[2])


def gradients():
    flambeau.manual_seed(2)
    x = flambeau.randn(8, 3, 20, 20, requires_grad=True)
    w = flambeau.randn(6, 3, 3, 3, requires_grad=True)
    v = flambeau.randn(10, 6 * 81, requires_grad=True)
    y = F.max_pool2d(F.conv2d(x, w).relu(), 2).flatten(1) @ v.t()
    F.cross_entropy(y, flambeau.arange(8)).backward()
    return x.grad, w.grad, v.grad


def test_same_gradients_for_one_and_two_threads(threads):
    threads(1)
    one = gradients()
    threads(2)
    two = gradients()
    assert all(flambeau.equal(a, b) for a, b in zip(one, two, strict=True))


def run_in_threads(work, n=4):
    results, errors = [None] * n, []

    def body(k):
        try:
            results[k] = work(k)
        except BaseException as error:
            errors.append(error)
    workers = [threading.Thread(target=body, args=(k,)) for k in range(n)]
    for w in workers:
        w.start()
    for w in workers:
        w.join()
    if errors:
        raise errors[0]
    return results


def test_python_threads_compute_at_the_same_time():
    x = flambeau.randn(300, 300)
    expected = (x @ x).exp().sum()

    def work(k):
        for _ in range(20):
            y = (x @ x).exp().sum()
        return y
    assert all(flambeau.equal(y, expected) for y in run_in_threads(work))


def test_backward_in_several_threads_over_own_graphs():
    def work(k):
        for _ in range(50):
            x = flambeau.full((200,), float(k + 1), requires_grad=True)
            (x * x).exp().log().sum().backward()
        return x.grad
    for k, g in enumerate(run_in_threads(work)):
        assert flambeau.allclose(g, flambeau.full((200,), 2.0 * (k + 1)), rtol=1e-4)


def test_backward_in_several_threads_into_one_leaf():
    x = flambeau.ones(1000, dtype=flambeau.float64, requires_grad=True)
    run_in_threads(lambda k: [(x * 2).sum().backward() for _ in range(25)])
    assert x.grad.tolist() == [200.0] * 1000


def test_set_num_threads_is_checked(threads):
    for wrong in (0, -1):
        with pytest.raises(RuntimeError):
            threads(wrong)
    with pytest.raises((TypeError, RuntimeError)):
        threads("two")


def test_backward_passes_in_threads_share_leaves():
    """Passes that run at once over the same leaves neither lose nor mix gradients."""
    w = flambeau.rand(300, 300, requires_grad=True)
    x = flambeau.rand(300, 300)
    found = [None] * 4

    def work(k):
        loss = sum(((w * (k + 1)) @ x).sum() for _ in range(4))
        found[k], = flambeau.autograd.grad(loss, w)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    for k in range(4):
        flambeau.testing.assert_close(found[k], found[0] * (k + 1), rtol=1e-4, atol=1e-4)


# --- what belongs to a thread -----------------------------------------------------------------------------------------

def in_another_thread(ask):
    return run_in_threads(lambda _: ask(), 1)[0]


class Counting(TorchFunctionMode):
    calls = 0

    def __torch_function__(self, func, types, args=(), kwargs=None):
        self.calls += 1
        return func(*args, **(kwargs or {}))


class Watching(TorchDispatchMode):
    calls = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.calls += 1
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("kind", [Counting, Watching])
def test_modes_belong_to_a_thread(kind):
    with kind() as mode:
        in_another_thread(lambda: flambeau.ones(2) + 1)
        assert mode.calls == 0
        _ = flambeau.ones(2) + 1
        assert mode.calls > 0


def test_modes_of_two_threads_cross():
    """Entered in one order and left in the other: a thread leaves its own mode, and only that."""
    entered, left = threading.Barrier(2), threading.Barrier(2)

    def work(k):
        for kind in (Counting, Watching):
            if k:
                entered.wait(60)
            with kind() as mode:
                if not k:
                    entered.wait(60)
                _ = flambeau.ones(2) * 2
                seen = mode.calls
                if k:
                    left.wait(60)
            if not k:
                left.wait(60)
            assert 0 < seen < 5
            before = mode.calls
            _ = flambeau.ones(2) * 2
            assert mode.calls == before

    run_in_threads(work, 2)


def test_a_mode_is_left_where_it_was_entered():
    mode = Counting()
    with mode, pytest.raises(RuntimeError, match="thread"):
        in_another_thread(lambda: mode.__exit__(None, None, None))


PER_THREAD = {
    "no_grad": (flambeau.no_grad, flambeau.is_grad_enabled, True),
    "inference_mode": (flambeau.inference_mode, flambeau.is_inference_mode_enabled, False),
    "autocast": (lambda: flambeau.autocast("cpu"), lambda: flambeau.is_autocast_enabled("cpu"), False),
    "the dtype of autocast": (lambda: flambeau.autocast("cpu", dtype=flambeau.float16),
                              lambda: flambeau.get_autocast_dtype("cpu"), flambeau.bfloat16),
    "the cache of autocast": (lambda: flambeau.autocast("cpu", cache_enabled=False),
                              flambeau.is_autocast_cache_enabled, True),
    "the default device": (lambda: flambeau.device("meta"), lambda: flambeau.ones(1).device.type, "cpu"),
    "errstate": (lambda: flambeau.errstate(all="raise"), lambda: (flambeau.ones(1) / 0).item(), float("inf")),
    "dual level": (forward_ad.dual_level, lambda: (forward_ad.enter_dual_level(), forward_ad.exit_dual_level())[0], 0),
}


@pytest.mark.parametrize("name", PER_THREAD)
def test_state_belongs_to_a_thread(name):
    scope, ask, elsewhere = PER_THREAD[name]
    assert ask() == elsewhere
    with scope():
        assert in_another_thread(ask) == elsewhere


def test_autocast_of_other_devices_belongs_to_a_thread():
    flambeau.set_autocast_enabled("cuda", True)
    flambeau.set_autocast_dtype("cuda", flambeau.bfloat16)
    try:
        assert not in_another_thread(lambda: flambeau.is_autocast_enabled("cuda"))
        assert in_another_thread(lambda: flambeau.get_autocast_dtype("cuda")) == flambeau.float16
    finally:
        flambeau.set_autocast_enabled("cuda", False)
        flambeau.set_autocast_dtype("cuda", flambeau.float16)


def test_transforms_belong_to_a_thread():
    """A level that is active here changes nothing for calls of another thread."""
    seen = []

    def f(x):
        seen.append(in_another_thread(lambda: (flambeau.rand(3) + 1).shape))
        return x * 2

    assert flambeau.func.vmap(f, randomness="different")(flambeau.ones(4)).tolist() == [2.0] * 4
    assert [list(s) for s in seen] == [[3]]


def test_saved_tensor_hooks_belong_to_a_thread():
    packed = []
    with flambeau.autograd.graph.saved_tensors_hooks(lambda t: packed.append(t) or t, lambda t: t):
        in_another_thread(lambda: flambeau.ones(2, requires_grad=True).exp())
        assert not packed
        flambeau.ones(2, requires_grad=True).exp()
        assert packed


def test_two_threads_allow_mutation_on_saved_tensors():
    """Each keeps what its own writes destroy, whoever enters first and leaves first."""
    barrier = threading.Barrier(2)

    def work(k):
        barrier.wait(60)
        if k:
            time.sleep(0.005)
        for _ in range(50):
            with flambeau.autograd.graph.allow_mutation_on_saved_tensors():
                x = flambeau.full((3,), 2.0, requires_grad=True)
                y = x.clone()
                z = y * y
                with flambeau.no_grad():
                    y.zero_()
                z.sum().backward()
                assert x.grad.tolist() == [4.0] * 3

    run_in_threads(work, 2)


def test_allowing_mutation_ends_for_its_own_thread_only():
    inside, outside = threading.Event(), threading.Event()

    def work(k):
        if k:
            inside.wait(60)
            with flambeau.autograd.graph.allow_mutation_on_saved_tensors():
                pass
            return outside.set()
        with flambeau.autograd.graph.allow_mutation_on_saved_tensors():
            x = flambeau.full((3,), 2.0, requires_grad=True)
            y = x.clone()
            z = y * y
            inside.set()
            outside.wait(60)
            with flambeau.no_grad():
                y.zero_()
            z.sum().backward()
            return x.grad.tolist()

    assert run_in_threads(work, 2)[0] == [4.0] * 3


def test_process_wide_settings_are():
    """The default dtype and anomaly detection belong to the process, as in PyTorch."""
    def gradient():
        flambeau.zeros(1, requires_grad=True).sqrt().mul(0).sum().backward()

    gradient()
    with pytest.warns(UserWarning, match="backward failed in"), flambeau.autograd.set_detect_anomaly(True):
        assert in_another_thread(flambeau.autograd.anomaly_mode.is_anomaly_enabled)
        with pytest.raises(RuntimeError, match="contains NaN"):
            in_another_thread(gradient)
    flambeau.set_default_dtype(flambeau.float64)
    try:
        assert in_another_thread(lambda: flambeau.ones(1).dtype) == flambeau.float64
    finally:
        flambeau.set_default_dtype(flambeau.float32)
