"""Results do not depend on the number of threads, and threads may share the library."""

import threading

import pytest

import flambeau
from flambeau.nn import functional as F


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
