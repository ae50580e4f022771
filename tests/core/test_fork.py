"""A forked child computes as its parent does, whatever the parent had done or was doing in other threads."""

import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time

import pytest

import flambeau
from flambeau.nn import functional as F


@pytest.fixture(autouse=True)
def two_threads():
    before = flambeau.get_num_threads()
    flambeau.set_num_threads(2)
    yield
    flambeau.set_num_threads(before)


def inputs():
    flambeau.manual_seed(1)
    return flambeau.randn(300, 300), flambeau.randn(4, 8, 40, 40), flambeau.randn(16, 8, 3, 3)


def compute():
    """Work for every library beneath: own loops, oneDNN, LAPACK, the generator and the allocator."""
    a, images, weight = inputs()
    return [a @ a, (a.bfloat16() @ a.bfloat16()).float(), F.conv2d(images, weight), flambeau.linalg.svd(a[:60, :60])[1],
            a.exp().sum(0), a.sort()[0], flambeau.rand(1 << 18)]


def same(results, expected):
    return all(flambeau.equal(x, y) for x, y in zip(results, expected, strict=True))


def run_child(work):
    """os.fork; the child leaves with 0 when work() is true. Returns its pid."""
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        code = 0 if work() else 3
    finally:
        os._exit(code)


def join(pid, seconds=60):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.002)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return "hangs"


def test_a_child_computes_after_its_parent_used_threads():
    expected = compute()
    assert join(run_child(lambda: same(compute(), expected))) == 0
    assert same(compute(), expected)  # the parent's threads are back


def test_fifty_children():
    a = flambeau.randn(200, 200)
    expected = a @ a
    for _ in range(50):
        assert flambeau.equal(a @ a, expected)
        assert join(run_child(lambda: flambeau.equal(a @ a, expected))) == 0


def test_a_child_of_a_child():
    expected = compute()

    def grandchild():
        return same(compute(), expected) and join(run_child(lambda: same(compute(), expected))) == 0

    assert join(run_child(grandchild)) == 0


def test_a_child_of_another_thread():
    expected, codes = compute(), []

    def body():
        assert same([inputs()[0].exp().sum(0)], [expected[4]])  # this thread has its own workers
        codes.append(join(run_child(lambda: same(compute(), expected))))

    thread = threading.Thread(target=body)
    thread.start()
    thread.join()
    assert codes == [0]


def test_children_of_two_threads_at_once():
    a = flambeau.randn(200, 200)
    expected, codes = a @ a, []

    def body():
        for _ in range(5):
            assert flambeau.equal(a @ a, expected)
            codes.append(join(run_child(lambda: flambeau.equal(a @ a, expected))))

    threads = [threading.Thread(target=body) for _ in range(2)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert codes == [0] * 10


KERNELS = {
    "product": lambda x: x @ x,
    "drawing": lambda x: flambeau.rand(1 << 19),
    "sorting": lambda x: x.sort(),
    "convolution": lambda x: F.conv2d(x.view(1, 4, 200, 200), flambeau.ones(8, 4, 3, 3)),
    "decomposition": lambda x: flambeau.linalg.qr(x),
    "allocation": lambda x: [flambeau.empty(1 << 20) for _ in range(5)],
}


@pytest.mark.parametrize("name", KERNELS)
def test_a_child_while_another_thread_is_inside_a_kernel(name):
    """Neither a generator nor an allocator nor another library's lock stays taken in the child."""
    x, stop = flambeau.rand(400, 400), threading.Event()

    def body():
        while not stop.is_set():
            KERNELS[name](x)

    thread = threading.Thread(target=body)
    thread.start()
    try:
        for _ in range(4):
            assert join(run_child(lambda: KERNELS[name](x) is not None and compute() is not None)) == 0
    finally:
        stop.set()
        thread.join()


def test_a_tensor_that_another_thread_worked_on_is_free_in_the_child():
    x, stop = flambeau.rand(1 << 19), threading.Event()

    def body():
        while not stop.is_set():
            x.exp()

    def change():
        x.resize_(3)
        x.data = flambeau.ones(2)
        return x.tolist() == [1, 1]

    thread = threading.Thread(target=body)
    thread.start()
    try:
        for _ in range(4):
            assert join(run_child(change)) == 0
    finally:
        stop.set()
        thread.join()


def _work(queue):
    queue.put([float(t.double().sum()) for t in compute()])


def test_processes_made_by_fork():
    context = multiprocessing.get_context("fork")
    compute()
    queue = context.Queue()
    processes = [context.Process(target=_work, args=(queue,)) for _ in range(3)]
    for p in processes:
        p.start()
    found = [queue.get(timeout=60) for _ in processes]
    for p in processes:
        p.join()
    expected = [float(t.double().sum()) for t in compute()]
    assert all(f == expected for f in found) and all(p.exitcode == 0 for p in processes)


def test_backward_in_a_child():
    def gradient():
        flambeau.manual_seed(2)
        x = flambeau.randn(8, 3, 20, 20, requires_grad=True)
        F.conv2d(x, flambeau.randn(6, 3, 3, 3)).relu().sum().backward()
        return [x.grad]

    expected = gradient()
    assert join(run_child(lambda: same(gradient(), expected))) == 0


def test_other_processes_do_not_disturb_a_computation():
    """Children that begin and end, and the signal about it, while products run in threads."""
    a = flambeau.randn(300, 300)
    expected, seen = (a @ a).exp().sum(0), []
    before = signal.signal(signal.SIGCHLD, lambda *_: seen.append(1))
    try:
        children = []
        for _ in range(6):
            children.append(subprocess.Popen([sys.executable, "-S", "-c", "pass"]))
            for _ in range(20):
                assert flambeau.equal((a @ a).exp().sum(0), expected)
        for child in children:
            assert child.wait(60) == 0
    finally:
        signal.signal(signal.SIGCHLD, before)
    assert seen
