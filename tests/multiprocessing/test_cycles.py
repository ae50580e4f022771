"""Hundreds of pools and kills at random moments: nothing hangs, nobody is left, nothing leaks."""

import gc
import os
import random
import time

import pytest

import flambeau
import flambeau.multiprocessing as mp
from flambeau._tensor import handover

from .conftest import forget_sent
from .test_spawn import gone


def children():
    """Process numbers of all descendants that are alive."""
    found, left = [], [os.getpid()]
    while left:
        pid = left.pop()
        for thread in os.listdir(f"/proc/{pid}/task") if os.path.exists(f"/proc/{pid}/task") else ():
            try:
                with open(f"/proc/{pid}/task/{thread}/children") as file:
                    more = [int(child) for child in file.read().split()]
            except OSError:
                continue
            found += more
            left += more
    return found


def state():
    gc.collect()
    handover.look()
    return set(os.listdir("/dev/shm")), len(os.listdir("/proc/self/fd"))


def _task(x):
    return (x @ x).sum(0), x


def cycle(k):
    with mp.get_context("fork").Pool(2) as pool:
        x = flambeau.full((64, 64), float(k))
        for column, same in pool.imap(_task, [x] * 3):
            assert column.min() == 4096.0 * k * k and same.data_ptr() == x.data_ptr()
        if k % 2:
            pool.close()
            pool.join()  # else it is terminated, perhaps in the middle of something


def run_cycles(n):
    others = set(mp.active_children())
    flambeau.set_num_threads(2)
    cycle(1)
    before, processes = state(), set(children())
    for k in range(n):
        cycle(k)
    for process in set(mp.active_children()) - others:
        process.join(30)
    names, files = state()
    assert names <= before[0] and files <= before[1] + 2, (names - before[0], files, before[1])
    assert gone(set(children()) - processes)


def test_pools_come_and_go(strategy):
    run_cycles(8)


@pytest.mark.exhaustive
def test_five_hundred_pools_come_and_go(strategy):
    run_cycles(500)


def _chatter(there, back, seed):
    stream = random.Random(seed)
    while True:
        there.put(flambeau.full((stream.choice([10, 5000, 400_000]),), 3.0))
        x = back.get()
        x += 1


def one_kill(seed, seconds):
    """Talks with a partner, who is killed some time later; returns how many messages came before."""
    context = mp.get_context("fork")
    there, back = context.SimpleQueue(), context.SimpleQueue()
    process = context.Process(target=_chatter, args=(there, back, seed))
    process.start()
    there._writer.close()  # only the partner writes there: its end is seen
    end, received = time.monotonic() + seconds, 0
    while True:
        if time.monotonic() > end:
            process.kill()
        try:
            x = there.get()
        except (EOFError, OSError, RuntimeError):  # cut in the middle, or its memory is gone
            if not process.is_alive():
                break
            continue
        assert x.min() == 3 and x.sum() == 3 * x.numel()
        received += 1
        back.put(x)
    process.join(30)
    assert process.exitcode == -9
    process.close()
    there._reader.close()
    back.close()
    return received


def run_kills(n, seed):
    """Afterwards everything works on, and nothing is left."""
    stream = random.Random(seed)
    received = one_kill(0, 0.2)
    forget_sent()
    before = state()
    for k in range(n):
        received += one_kill(k, stream.uniform(0, 0.15))
    x = flambeau.ones(3).share_memory_()
    assert x.tolist() == [1, 1, 1] and received > n
    del x
    forget_sent()  # what the killed did not receive
    names, files = state()
    left, until = names - before[0], time.monotonic() + 20
    while left and time.monotonic() < until:  # what other processes have there goes
        time.sleep(0.1)
        left &= set(os.listdir("/dev/shm"))
    assert not left and files <= before[1] + 1, (left, files, before)


def test_partners_are_killed_at_random_moments(strategy):
    run_kills(6, seed=1)


@pytest.mark.exhaustive
def test_many_partners_are_killed_at_random_moments(strategy):
    run_kills(300, seed=2)
