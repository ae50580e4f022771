"""What goes wrong in workers is said at once and in words, and nothing hangs or stays behind."""

import ctypes
import errno
import faulthandler
import gc
import os
import re
import resource
import signal
import subprocess
import sys
import threading
import time

import pytest

import flambeau
from flambeau.utils import data

from .helpers import Pids, batches, is_running, plain, segments, wait_until

pytestmark = pytest.mark.filterwarnings("ignore:DataLoader. . worker processes:UserWarning")
METHODS = ["multiprocessing", "thread"]


class Failing(data.Dataset):
    """Sample 5 raises `error`."""

    def __init__(self, error):
        self.error = error

    def __len__(self):
        return 8

    def __getitem__(self, index):
        if index == 5:
            raise self.error
        return index


class Own(ValueError):
    """An exception with an attribute."""

    def __init__(self, text, detail):
        super().__init__(text, detail)
        self.detail = detail


class Unpicklable(Exception):
    """One that cannot be sent."""

    def __init__(self):
        super().__init__("the words")
        self.lock = threading.Lock()


# --- exceptions -------------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("error", [KeyError("k"), FileNotFoundError(errno.ENOENT, "gone", "a.jpg"), Own("text", 7)],
                         ids=repr)
def test_an_exception_of_the_dataset(method, error):
    passing = iter(data.DataLoader(Failing(error), 2, num_workers=2, worker_method=method))
    assert [plain(next(passing)) for _ in range(2)] == [[0, 1], [2, 3]]
    with pytest.raises(type(error)) as caught:
        next(passing)
    assert caught.value.args == error.args and vars(caught.value).get("detail") == vars(error).get("detail")
    assert str(caught.value) == str(error)
    note, = (note for note in caught.value.__notes__ if note.startswith("DataLoader"))
    assert "at sample 5 of batch 2" in note
    if method == "multiprocessing":
        assert "raise self.error" in note and "in __getitem__" in note
    assert [plain(batch) for batch in passing] == [[6, 7]]  # the pass goes on


def test_an_exception_that_cannot_be_sent():
    words = r"Unpicklable by worker 0 at sample 5(.|\n)*raise self.error(.|\n)*the words"
    with pytest.raises(RuntimeError, match=words):
        batches(data.DataLoader(Failing(Unpicklable()), 2, num_workers=1))


@pytest.mark.parametrize("workers", [0, 1])
def test_stop_iteration_does_not_end_the_epoch_silently(workers):
    with pytest.raises((RuntimeError, StopIteration)) as caught:
        for _ in range(5):
            next(iter(data.DataLoader(Failing(StopIteration()), 8, num_workers=workers)))
    assert caught.type is RuntimeError


def _refuse(*_):
    raise ValueError("in the function")


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("options", [{"collate_fn": _refuse}, {"worker_init_fn": _refuse}], ids=lambda o: next(iter(o)))
def test_an_exception_in_a_function_of_the_loader(method, options):
    with pytest.raises(ValueError, match="in the function") as caught:
        batches(data.DataLoader(range(4), 2, num_workers=2, worker_method=method, **options))
    where = "in worker_init_fn of worker" if "worker_init_fn" in options else "worker 0"
    assert where in caught.value.__notes__[0]
    if method == "multiprocessing":
        assert "_refuse" in caught.value.__notes__[0]


@pytest.mark.parametrize("workers", [0, 2])
def test_an_exception_of_the_sampler_comes_after_the_batches_before_it(workers):
    def sampler():
        yield from range(5)
        raise KeyError("of the sampler")

    passing = iter(data.DataLoader(range(9), 2, sampler=sampler(), num_workers=workers))
    assert [plain(next(passing)) for _ in range(2)] == [[0, 1], [2, 3]]
    with pytest.raises(KeyError, match="of the sampler"):
        next(passing)


def test_a_graph_cannot_be_sent():
    with pytest.raises(RuntimeError, match="non-leaf tensor that requires grad"):
        batches(data.DataLoader(range(2), num_workers=1,
                                collate_fn=lambda _: flambeau.ones(1, requires_grad=True) * 2))


def _little_memory(worker):
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))


def test_full_shared_memory():
    loader = data.DataLoader(flambeau.zeros(4, 1_000_000), 2, num_workers=1, worker_init_fn=_little_memory)
    with pytest.raises(flambeau.OutOfMemoryError, match=r"no shared memory for a batch of 8,.* bytes"):
        next(iter(loader))


# --- workers that die -------------------------------------------------------------------------------------------------

def _kill_me():
    os.kill(os.getpid(), signal.SIGKILL)


def _segfault():
    faulthandler.disable()
    ctypes.string_at(0)


def _exit():
    os._exit(3)


@pytest.mark.parametrize(("action", "words"), [(_kill_me, "was ended by signal SIGKILL"),
                                               (_segfault, "was ended by signal SIGSEGV"),
                                               (_exit, "ended with exit code 3")])
def test_a_worker_that_dies(action, words):
    dataset = Pids(16, (5,), action)
    started = time.monotonic()
    with pytest.raises(RuntimeError) as caught:
        batches(data.DataLoader(dataset, 4, num_workers=2, sampler=range(15, -1, -1)))
    assert time.monotonic() - started < 5
    text = str(caught.value)
    assert re.search(rf"DataLoader: worker 0 \(pid \d+\) {words} at sample 5 of batch 2\.", text)
    assert re.search(r"memory had peaked at [\d,]+ MiB", text) and "MiB available" in text
    pid = int(re.search(r"pid (\d+)", text)[1])
    assert not is_running(pid)


@pytest.mark.parametrize("when", ["between passes", "while it waits", "in a sample"])
def test_a_worker_that_is_killed(when):
    loader = data.DataLoader(Pids(8, (6,), lambda: time.sleep(60)) if when == "in a sample" else Pids(8), 2,
                             num_workers=2, persistent_workers=True)
    passing = iter(loader)
    pids = sorted({pid for _ in range(2) for pid in plain(next(passing))})
    if when != "in a sample":
        assert len(list(passing)) == 2
    os.kill(pids[0] if when == "between passes" else pids[1], signal.SIGKILL)
    killed = time.monotonic()
    with pytest.raises(RuntimeError, match="SIGKILL"):
        batches(loader) if when != "in a sample" else list(passing)
    assert time.monotonic() - killed < 1 + 5 * (when == "in a sample")
    assert wait_until(lambda: not any(map(is_running, pids)))
    if when == "between passes":
        assert len(batches(loader)) == 4  # with new workers


def test_timeout():
    started = time.monotonic()
    with pytest.raises(RuntimeError, match=r"within 1.5 seconds \(timeout\): worker 0 is at sample 2 of batch 1"):
        batches(data.DataLoader(Pids(8, (2,), lambda: time.sleep(60)), 2, num_workers=1, timeout=1.5))
    assert time.monotonic() - started < 10


def test_timeout_of_threads():
    wake = threading.Event()
    loader = data.DataLoader(Pids(4, (2,), lambda: wake.wait(60)), 2, num_workers=1, timeout=0.2,
                             worker_method="thread")
    with pytest.raises(RuntimeError, match="worker 0 is at sample 2 of batch 1"):
        batches(loader)
    wake.set()


def test_a_stopped_worker_does_not_hang_the_main_process():
    loader = data.DataLoader(Pids(8), 2, num_workers=1, timeout=0.5, prefetch_factor=1)
    passing = iter(loader)
    pid = plain(next(passing))[0]
    os.kill(pid, signal.SIGSTOP)
    with pytest.raises(RuntimeError, match="timeout"):
        list(passing)
    os.kill(pid, signal.SIGCONT) if is_running(pid) else None
    assert wait_until(lambda: not is_running(pid))


# --- programs that end ------------------------------------------------------------------------------------------------

PROGRAM = """
import os, signal, sys, time
signal.signal(signal.SIGINT, signal.default_int_handler)  # a test run in the background may ignore it
import flambeau
from flambeau.utils import data
class Slow(data.Dataset):
    def __len__(self): return 1000
    def __getitem__(self, index):
        time.sleep({late} if index > 5 else 0.01)
        return os.getpid()
loader = data.DataLoader(Slow(), 2, num_workers=2, persistent_workers={persistent})
passing = iter(loader)
print(*sorted(set(sum((next(passing).tolist() for _ in range(2)), []))), flush=True)
{end}
"""


def program(end, late=0.01, persistent=False):
    """(the process, the pids of its workers)."""
    text = PROGRAM.format(end=end, late=late, persistent=persistent)
    process = subprocess.Popen([sys.executable, "-c", text], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                               start_new_session=True)
    return process, [int(pid) for pid in process.stdout.readline().split()]


@pytest.mark.parametrize("late", [0.01, 60], ids=["waiting", "in a sample"])
def test_workers_of_a_killed_parent_end(late):
    process, pids = program("time.sleep(0.3); print('now', flush=True); time.sleep(100)", late=late)
    process.stdout.readline()
    process.kill()
    process.communicate()
    assert len(pids) == 2 and wait_until(lambda: not any(map(is_running, pids)), 5)


def test_ctrl_c():
    process, pids = program("for batch in passing: pass\ntime.sleep(100)")
    time.sleep(0.2)
    os.killpg(process.pid, signal.SIGINT)
    _, errors = process.communicate(timeout=20)
    assert process.returncode in (1, -signal.SIGINT, 130) and errors.count("Traceback") == 1, errors
    assert "KeyboardInterrupt" in errors
    assert wait_until(lambda: not any(map(is_running, pids)))


@pytest.mark.parametrize("persistent", [False, True])
@pytest.mark.parametrize("end", ["", "sys.exit(0)", "kept = passing.__next__()", "del loader, passing"])
def test_a_program_may_end_in_the_middle_of_a_pass(end, persistent):
    process, pids = program(end, persistent=persistent)
    _, errors = process.communicate(timeout=20)
    assert process.returncode == 0 and not errors
    assert wait_until(lambda: not any(map(is_running, pids)))


def test_a_worker_killed_during_shutdown():
    process, pids = program("os.kill(passing._workers.workers[0].process.pid, signal.SIGKILL); del passing; del loader")
    _, errors = process.communicate(timeout=20)
    assert process.returncode == 0 and not errors
    assert wait_until(lambda: not any(map(is_running, pids)))


def test_a_parent_killed_during_shutdown():
    process, pids = program("print('now', flush=True); passing._workers.close(grace=100)")
    process.stdout.readline()
    process.kill()
    process.communicate()
    assert wait_until(lambda: not any(map(is_running, pids)))


def test_a_fork_of_the_program_leaves_the_workers_alone():
    process, pids = program("""
if os.fork() == 0:
    passing._workers.close()
    del passing, loader
    os._exit(0)
os.wait()
print(len(list(passing)))""", late=0.0001)
    out, errors = process.communicate(timeout=60)
    assert out.split() == ["498"] and not errors
    assert wait_until(lambda: not any(map(is_running, pids)))


def test_signals_of_children_do_not_disturb():
    """Workers end while the main process computes and waits; a system call of its own goes on."""
    loader = data.DataLoader(range(4), 2, num_workers=2)
    assert signal.getsignal(signal.SIGCHLD) in (signal.SIG_DFL, signal.SIG_IGN)
    read, write = os.pipe()
    threading.Timer(0.3, lambda: os.write(write, b"x")).start()
    batches(loader)
    assert os.read(read, 1) == b"x"
    os.close(read)
    os.close(write)


# --- nothing stays behind ---------------------------------------------------------------------------------------------

def _cycles(count):
    gc.collect()
    before, opened, threads = segments(), len(os.listdir("/proc/self/fd")), threading.active_count()
    dataset = flambeau.zeros(64, 40_000)
    pids = set()
    for k in range(count):
        loader = data.DataLoader(dataset if k % 2 else Pids(12), 4, num_workers=1 + k % 2, in_order=k % 3 > 0,
                                 worker_method="thread" if k % 5 == 4 else "multiprocessing")
        for j, batch in enumerate(loader):
            if not k % 2 and k % 5 != 4:
                pids.update(batch.tolist())
            if j == k % 4:
                break
        del batch, loader
    gc.collect()
    assert pids and wait_until(lambda: not any(map(is_running, pids)))
    assert segments() <= before and len(os.listdir("/proc/self/fd")) <= opened
    assert wait_until(lambda: threading.active_count() <= threads)


def test_cycles_leave_nothing_behind():
    _cycles(20)


@pytest.mark.exhaustive
def test_500_cycles_leave_nothing_behind():
    _cycles(500)
