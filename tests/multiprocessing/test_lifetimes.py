"""How long shared memory lives: until the last process lets go or is killed; and what is said when there is no more."""

import gc
import os
import resource
import signal
import time
from multiprocessing.reduction import ForkingPickler

import pytest

import flambeau
import flambeau.multiprocessing as mp
from flambeau._tensor import handover, shared_memory

from .test_spawn import gone


def files():
    gc.collect()
    return len(os.listdir("/proc/self/fd"))


def pages(fd):
    """Bytes that the system holds for a file."""
    return 512 * os.fstat(fd).st_blocks


def sent(x):
    return ForkingPickler.loads(ForkingPickler.dumps(x))


def until(condition, seconds=30):
    end = time.monotonic() + seconds
    while not condition() and time.monotonic() < end:
        time.sleep(0.01)
    return condition()


# --- in one process ---------------------------------------------------------------------------------------------------

def test_the_last_tensor_closes_the_file():
    before = files()
    x = flambeau.ones(1000).share_memory_()
    view = x[10:]
    assert files() == before + 1
    del x
    assert files() == before + 1 and view.tolist() == [1] * 990
    del view
    assert files() == before


def test_all_tensors_of_a_process_share_a_file(strategy):
    first = flambeau.ones(1 << 18).share_memory_()
    before = files()
    if strategy == "file_descriptor":  # there every tensor has a file
        second = flambeau.ones(1 << 18).share_memory_()
        assert files() == before + 1 and shared_memory.of(first).file is not shared_memory.of(second).file
        return
    many = [flambeau.ones(1 << 18).share_memory_() for _ in range(20)]
    file = shared_memory.of(first).file
    assert files() == before and pages(file.fd) >= 21 << 20
    del many
    gc.collect()
    assert pages(file.fd) < 3 << 20 and first.sum() == 1 << 18  # its neighbours went, it stays


def test_a_message_is_freed_when_it_has_been_received(strategy):
    before = files()
    context = mp.get_context("fork")
    queue, taken = context.Queue(), context.Event()
    process = context.Process(target=_take, args=(queue, taken, 3))
    process.start()
    for _ in range(3):
        queue.put(flambeau.ones(1 << 19))  # large: the receiver rings
    assert taken.wait(60) and until(lambda: not handover._pending)
    process.join(60)
    del process
    queue.close()
    queue.join_thread()
    del queue, taken
    assert files() <= before + 2 + (strategy == "file_system")  # the bell's pipe, and that one file


def _take(queue, taken, n):
    for _ in range(n):
        queue.get()
    taken.set()


def test_many_small_messages_do_not_pile_up(strategy):
    context = mp.get_context("fork")
    queue, taken = context.Queue(), context.Event()
    process = context.Process(target=_take, args=(queue, taken, 400))
    process.start()
    for k in range(400):
        queue.put(flambeau.full((10,), float(k)))
    assert taken.wait(60)
    process.join(60)
    assert len(handover._pending) <= 400
    sent(flambeau.ones(1))
    handover.look()
    assert len(handover._pending) <= 1


# --- ends -------------------------------------------------------------------------------------------------------------

def _put_and_end(queue):
    queue.put(flambeau.arange(4.0))


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_a_process_that_ends_waits_for_its_receiver(method):
    context = mp.get_context(method)
    queue = context.Queue()
    process = context.Process(target=_put_and_end, args=(queue,))
    process.start()
    time.sleep(1.5)
    assert queue.get(timeout=60).tolist() == [0, 1, 2, 3]
    process.join(60)
    assert process.exitcode == 0


def _put_and_wait(queue, put):
    queue.put((flambeau.ones(5), "a value"))
    time.sleep(0.2)
    put.set()
    time.sleep(100)


def test_a_killed_sender_is_named(strategy):
    context = mp.get_context("fork")
    queue, put = context.Queue(), context.Event()
    process = context.Process(target=_put_and_wait, args=(queue, put))
    process.start()
    assert put.wait(60)
    process.kill()
    process.join(60)
    with pytest.raises(RuntimeError, match=f"process {process.pid}, which sent it, has ended"):
        queue.get(timeout=60)


def _hold(queue, got):
    held = queue.get()
    got.set()
    time.sleep(100)
    return held


def test_a_killed_receiver_takes_nothing_along(strategy):
    context = mp.get_context("fork")
    queue, got = context.SimpleQueue(), context.Event()
    process = context.Process(target=_hold, args=(queue, got))
    process.start()
    x = flambeau.ones(1 << 18)
    queue.put(x)
    assert got.wait(60)
    process.kill()
    process.join(60)
    fd = os.dup(shared_memory.of(x).file.fd)
    assert x.sum() == 1 << 18
    handover.look()
    before = files()
    del x
    if strategy == "file_descriptor":
        assert files() == before - 1  # of one file per process, this range goes when the process ends
    os.close(fd)


def test_memory_survives_its_maker(strategy):
    context = mp.get_context("fork")
    queue, put = context.Queue(), context.Event()
    process = context.Process(target=_put_and_wait, args=(queue, put))
    process.start()
    x, _ = queue.get(timeout=60)
    process.kill()
    process.join(60)
    x += 1
    assert x.tolist() == [2] * 5 and sent(x).data_ptr() == x.data_ptr()


TREE = """
import os, sys, time
import flambeau, flambeau.multiprocessing as mp

def work(queue, back):
    while True:
        back.put(queue.get() + flambeau.ones(1 << 18))

if __name__ == "__main__":
    mp.set_sharing_strategy(sys.argv[1])
    context = mp.get_context(sys.argv[2])
    queue, back = context.Queue(), context.Queue()
    processes = [context.Process(target=work, args=(queue, back), daemon=True) for _ in range(2)]
    for p in processes:
        p.start()
    queue.put(flambeau.ones(1 << 18))
    x = back.get()
    for _ in range(4):
        queue.put(flambeau.ones(1 << 18))
    print(os.getpid(), *[p.pid for p in processes], flush=True)
    os.kill(os.getpid(), 9)
"""


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_a_killed_parent_leaves_nothing(method, strategy, started):
    before = set(os.listdir("/dev/shm"))
    parent = started(TREE, strategy, method)
    _, *children = map(int, parent.stdout.readline().split())
    assert parent.wait(60) == -9
    for pid in children:  # Python's daemons do not notice; they are ended here
        os.kill(pid, signal.SIGKILL)
    assert gone(children)
    until(lambda: not set(os.listdir("/dev/shm")) - before)
    assert not set(os.listdir("/dev/shm")) - before


# --- limits -----------------------------------------------------------------------------------------------------------

def limited(kind, value, work):
    """What `work` raises in a process with that limit."""
    def child(pipe):
        resource.setrlimit(kind, (value, value))
        try:
            pipe.send(work())
        except RuntimeError as error:
            pipe.send(str(error))

    context = mp.get_context("fork")
    ours, theirs = context.Pipe()
    process = context.Process(target=child, args=(theirs,))
    process.start()
    theirs.close()
    assert ours.poll(60)
    found = ours.recv()
    process.join(60)
    assert process.exitcode == 0
    return found


def test_full_memory_is_an_error_not_a_signal(strategy):
    """A limit on the size of files stands for memory that is full: the system refuses in the same place."""
    def work():
        kept = flambeau.ones(100).share_memory_()
        for n in (1 << 20, 1 << 22):
            with pytest.raises(RuntimeError, match="no shared memory"):
                flambeau.ones(n).share_memory_()
            with pytest.raises(RuntimeError, match="no shared memory"):
                shared_memory.create(4 * n)
        assert kept.tolist() == [1] * 100 and flambeau.ones(3).share_memory_().is_shared()
        flambeau.ones(1 << 20).share_memory_()

    assert "there is no shared memory for 4194304 bytes more (File too large): send smaller" in limited(
        resource.RLIMIT_FSIZE, 1 << 20, work)


def test_one_file_per_process_may_reach_the_limit_of_files():
    def work():
        mp.set_sharing_strategy("file_system")
        kept = [flambeau.full((1 << 16,), float(k)).share_memory_() for k in range(40)]  # 10 MiB, in files of 1 MiB
        return all(sent(t).min() == k for k, t in enumerate(kept))

    assert limited(resource.RLIMIT_FSIZE, 1 << 20, work) is True


def test_more_than_the_system_has_is_refused_first():
    with pytest.raises(RuntimeError, match=r"35184372088832 \(the system has \d+ left\) bytes more"):
        shared_memory.create(1 << 45)


def test_too_many_files_are_an_error_that_says_what_to_do():
    def work():
        many = [flambeau.ones(2).share_memory_() for _ in range(1000)]
        return len(many)

    text = limited(resource.RLIMIT_NOFILE, 200, work)
    assert "too many open files" in text and "set_sharing_strategy('file_system')" in text


def test_one_file_per_process_needs_no_more_files():
    def work():
        mp.set_sharing_strategy("file_system")
        many = [flambeau.full((2,), float(k)).share_memory_() for k in range(1000)]
        return all(sent(t)[0] == k for k, t in enumerate(many))

    assert limited(resource.RLIMIT_NOFILE, 200, work) is True
