"""start_processes and spawn: processes that succeed, fail, are killed, or lose their parent."""

import importlib
import inspect
import os
import pickle
import signal
import sys
import time

import pytest

import flambeau
import flambeau.multiprocessing as mp

METHODS = ["fork", "spawn", "forkserver"]


def _fill(rank, x):
    x[rank] = rank + 1


def _behave(rank, how):
    if rank == 1:
        {"raise": _raise, "long": _raise_long, "exit": lambda: sys.exit(7), "kill": _kill, "segfault": _segfault,
         "nothing": lambda: None, "interrupt": _interrupt}[how]()
    elif how != "nothing":
        time.sleep(60)


def _raise():
    raise ValueError("the reason")


def _raise_long():
    raise ValueError("x" * 1_000_000)  # more than a pipe holds


def _interrupt():
    raise KeyboardInterrupt


def _kill():
    os.kill(os.getpid(), signal.SIGKILL)


def _segfault():
    signal.signal(signal.SIGSEGV, signal.SIG_DFL)  # pytest's handler would print all threads
    os.kill(os.getpid(), signal.SIGSEGV)


@pytest.mark.parametrize("method", METHODS)
def test_all_processes_write_into_one_tensor(method):
    x = flambeau.zeros(3).share_memory_()
    assert mp.start_processes(_fill, args=(x,), nprocs=3, start_method=method) is None
    assert x.tolist() == [1, 2, 3]


def test_spawn_starts_fresh_interpreters():
    x = flambeau.zeros(2)
    context = mp.spawn(_fill, args=(x,), nprocs=2, join=False)
    assert type(context) is mp.SpawnContext and len(set(context.pids())) == 2
    while not context.join(timeout=30):
        pass
    assert x.tolist() == [1, 2] and context.join()


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_an_exception_names_its_process_and_ends_the_others(method):
    begin = time.monotonic()
    with pytest.raises(mp.ProcessRaisedException, match=r"process 1 .*\n\n(.*\n)*ValueError: the reason") as caught:
        mp.start_processes(_behave, args=("raise",), nprocs=2, start_method=method)
    assert caught.value.error_index == 1 and caught.value.pid > 0 and time.monotonic() - begin < 30


def test_an_exception_of_any_length_is_told():
    with pytest.raises(mp.ProcessRaisedException) as caught:
        mp.start_processes(_behave, args=("long",), nprocs=2, start_method="fork")
    assert len(str(caught.value)) > 1_000_000


@pytest.mark.parametrize(("how", "code", "name"), [
    ("exit", 7, None), ("kill", -9, "SIGKILL"), ("segfault", -11, "SIGSEGV")])
def test_an_exit_names_code_and_signal(how, code, name):
    with pytest.raises(mp.ProcessExitedException, match=name or "exit code 7") as caught:
        mp.start_processes(_behave, args=(how,), nprocs=2, start_method="fork")
    error = caught.value
    assert (error.error_index, error.exit_code, error.signal_name) == (1, code, name)
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is mp.ProcessExitedException and (copy.exit_code, copy.signal_name) == (code, name)


def test_an_interrupted_process_is_no_error():
    context = mp.start_processes(_behave, args=("interrupt",), nprocs=2, join=False, start_method="fork")
    assert context.join(timeout=30) is False and context.processes[1].exitcode == 0
    context.processes[0].kill()
    with pytest.raises(mp.ProcessExitedException):
        context.join()


def test_join_waits_only_so_long():
    context = mp.start_processes(_behave, args=("raise",), nprocs=1, join=False, start_method="fork", daemon=True)
    assert context.processes[0].daemon
    begin = time.monotonic()
    assert context.join(timeout=0.1) is False and time.monotonic() - begin < 10
    context.processes[0].kill()
    with pytest.raises(mp.ProcessExitedException):
        context.join()


def _stubborn(rank, ready, cleaned):
    if rank == 1:
        ready.wait(60)
        raise ValueError("the reason")
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    ready.set()
    time.sleep(0.2)
    cleaned.set()
    time.sleep(60)


@pytest.mark.parametrize(("grace", "finished"), [(0.5, True), (0.0, False)])
def test_a_grace_period_lets_the_others_finish(grace, finished):
    context = mp.get_context("fork")
    ready, cleaned, begin = context.Event(), context.Event(), time.monotonic()
    running = mp.start_processes(_stubborn, args=(ready, cleaned), nprocs=2, join=False, start_method="fork")
    with pytest.raises(mp.ProcessRaisedException):
        while not running.join(grace_period=grace):
            pass
    assert cleaned.is_set() is finished and not any(p.is_alive() for p in running.processes)
    assert running.processes[0].exitcode == -9 and time.monotonic() - begin < 20


ORPHANS = """
import os, sys, time
import flambeau.multiprocessing as mp

def work(rank):
    os.write(1, b"%d\\n" % os.getpid())  # at once: both processes write to the same pipe
    while True:
        try:
            time.sleep(100)
        except KeyboardInterrupt:
            if rank:
                raise  # process 0 does not listen

if __name__ == "__main__":
    mp.start_processes(work, nprocs=2, start_method=sys.argv[1])
"""


def alive(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def gone(pids, seconds=30):
    end = time.monotonic() + seconds
    while any(map(alive, pids)) and time.monotonic() < end:
        time.sleep(0.05)
    return not any(map(alive, pids))


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_processes_end_when_their_parent_is_killed(method, started):
    parent = started(ORPHANS, method)
    pids = [int(parent.stdout.readline()) for _ in range(2)]
    parent.kill()
    assert parent.wait(60) == -9 and gone(pids)


def test_names_and_defaults():
    """PyTorch's: nprocs 1, join, not daemonic, spawn."""
    for function in (mp.spawn, mp.start_processes):
        found = [(p.name, p.default) for p in inspect.signature(function).parameters.values()]
        assert found == [("fn", inspect.Parameter.empty), ("args", ()), ("nprocs", 1), ("join", True),
                         ("daemon", False), ("start_method", "spawn")]
    assert [*inspect.signature(mp.ProcessContext.join).parameters] == ["self", "timeout", "grace_period"]
    assert issubclass(mp.SpawnContext, mp.ProcessContext)
    assert issubclass(mp.ProcessRaisedException, mp.ProcessException)


NAMES = """set_sharing_strategy get_sharing_strategy get_all_sharing_strategies Array AuthenticationError Barrier
BoundedSemaphore BufferTooShort Condition Event JoinableQueue Lock Manager Pipe Pool Process ProcessError Queue RLock
RawArray RawValue Semaphore SimpleQueue TimeoutError Value active_children allow_connection_pickling cpu_count
current_process freeze_support get_all_start_methods get_context get_logger get_start_method log_to_stderr
parent_process reducer set_executable set_forkserver_preload set_start_method spawn start_processes ProcessContext
SpawnContext ProcessRaisedException ProcessExitedException init_reductions reductions queue pool"""


def test_public_names():
    """PyTorch's, with those of Python's multiprocessing."""
    importlib.import_module("flambeau.multiprocessing.pool")
    importlib.import_module("flambeau.multiprocessing.queue")
    assert [name for name in {*NAMES.split(), *mp.__all__} if not hasattr(mp, name)] == []
    assert mp.queue.SimpleQueue and mp.queue.Queue and mp.pool.Pool and mp.reductions.reduce_tensor
