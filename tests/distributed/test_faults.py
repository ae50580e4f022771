"""What survivors learn when a rank ends, stops, or does something else: each raises in time and names the rank."""

import io
import os
import random
import re
import signal
import socket
import sys
import time
from datetime import timedelta

import pytest

import flambeau
import flambeau.distributed as dist

from .pool import free_port


def forever(kind):
    """Makes calls until one fails."""
    x, k = flambeau.ones(200_000 if kind == "large" else 4), 0
    me, n = dist.get_rank(), dist.get_world_size()
    while True:
        k += 1
        if kind == "messages":
            work = dist.isend(x, (me + 1) % n)
            dist.recv(flambeau.empty(4), (me - 1) % n)
            work.wait()
        elif kind == "mixed":
            dist.broadcast(x, k % n)
            dist.all_gather([flambeau.empty(4) for _ in range(n)], x)
            dist.reduce_scatter(flambeau.empty(4), [x] * n)
        else:
            dist.all_reduce(x.fill_(1))
            assert (x == n).all()


def one_ends(how):
    dist.barrier()
    if dist.get_rank() == 1:
        if how == "exit":
            os._exit(0)
        if how == "leave":
            dist.destroy_process_group()
            return None
        time.sleep(60)
    return dist.all_reduce(flambeau.ones(3))


@pytest.mark.parametrize("kind", ["small", "large", "mixed", "messages"])
def test_a_killed_rank_is_named(few, kind):
    ranks = few(3)
    ranks.begin(forever, kind)
    time.sleep(0.1)
    os.kill(ranks.processes[1].pid, signal.SIGKILL)
    for text in ranks.errors(8, [0, 2]):
        assert ("rank 1 (process" in text and "has ended" in text and "#" in text) or kind == "messages", text


@pytest.mark.parametrize("how, said", [("exit", "has ended"), ("leave", "has left the group")])
def test_a_rank_that_ends_early_is_named(few, how, said):
    ranks = few(3)
    ranks.begin(one_ends, how)
    for text in ranks.errors(8, [0, 2]):
        assert text.startswith("all_reduce #2: rank 1 (process") and said in text


def test_a_stopped_rank_is_named_when_time_is_up(few):
    ranks = few(3, timeout=1.0)
    ranks.begin(forever, "small")
    time.sleep(0.1)
    os.kill(ranks.processes[1].pid, signal.SIGSTOP)
    for text in ranks.errors(8, [0, 2]):
        assert "timed out after 1 seconds" in text and "rank 1" in text


def something_else(case):
    """Rank 0 makes another call than the others."""
    me = dist.get_rank()
    dist.barrier()
    if case == "call":
        dist.broadcast(flambeau.ones(3), 0) if me == 0 else dist.all_reduce(flambeau.ones(3))
    elif case == "size":
        dist.all_reduce(flambeau.ones(4 if me == 0 else 3))
    elif case == "dtype":
        dist.all_reduce(flambeau.ones(3, dtype=flambeau.float64 if me == 0 else flambeau.float32))
    elif case == "op":
        dist.all_reduce(flambeau.ones(3), dist.ReduceOp.MAX if me == 0 else dist.ReduceOp.SUM)
    elif case == "root":  # nobody waits for anybody: found at the next call
        dist.broadcast(flambeau.ones(3), me)
    dist.barrier()


@pytest.mark.parametrize("case, zero, other", [
    ("call", r"rank 0 is in broadcast #2 \[3\] float32 from 0", r"is in all_reduce #2 \[3\] float32"),
    ("size", r"rank 0 is in all_reduce #2 \[4\] float32", r"is in all_reduce #2 \[3\] float32"),
    ("dtype", r"rank 0 is in all_reduce #2 \[3\] float64", r"is in all_reduce #2 \[3\] float32"),
    ("op", r"rank 0 is in all_reduce #2 \[3\] float32 MAX", r"is in all_reduce #2 \[3\] float32"),
    ("root", r"rank \d is in broadcast #2 \[3\] float32 from \d", r"rank \d is in broadcast #2 \[3\]"),
])
def test_ranks_in_different_calls_are_told(few, case, zero, other):
    ranks = few(3)
    ranks.begin(something_else, case)
    texts = ranks.errors(8, [0, 1, 2])
    for text in texts:
        assert re.search(zero + r" at test_faults\.py:\d+", text) and re.search(other, text), text
        assert "same calls in the same order" in text


def interrupted():
    dist.barrier()
    if dist.get_rank() == 0:
        try:
            dist.all_reduce(flambeau.ones(3))
        except KeyboardInterrupt:
            return "interrupted"
    time.sleep(0.6)
    return dist.all_reduce(flambeau.ones(3))


def test_an_interrupt_ends_a_waiting_call(few):
    ranks = few(2)
    ranks.begin(interrupted)
    time.sleep(0.3)
    os.kill(ranks.processes[0].pid, signal.SIGINT)
    assert ranks.answer(0, 5) == ("done", "interrupted")
    assert "rank 0 was interrupted in all_reduce" in ranks.errors(8, [1])[0]


def late():
    if dist.get_rank() == 2:
        time.sleep(1.2)
    dist.monitored_barrier(timeout=timedelta(seconds=0.4))


def test_monitored_barrier_names_the_missing_rank(few):
    ranks = few(3)
    ranks.begin(late)
    first, second = ranks.errors(8, [0, 1])
    assert "no sign of rank 2" in first and "rank 0 has not seen all ranks" in second


class Crash(BaseException):
    """An error that nothing in a rank catches."""


def forever_until_signalled(kind):
    """`forever`; SIGUSR1 ends the rank with exit code 0, SIGUSR2 by an exception, wherever it is."""
    signal.signal(signal.SIGUSR1, lambda *_: os._exit(0))
    signal.signal(signal.SIGUSR2, crash)
    forever(kind)


def crash(*_):
    sys.stderr = io.StringIO()  # the traceback is not news
    raise Crash


FAULTS = {"killed": signal.SIGKILL, "stopped": signal.SIGSTOP, "exits": signal.SIGUSR1, "raises": signal.SIGUSR2}


@pytest.mark.exhaustive
@pytest.mark.parametrize("seed", range(1000))
def test_random_moments(few, seed):
    draw = random.Random(seed)
    size, how = draw.choice([2, 3, 4]), draw.choice([*FAULTS])
    kind = draw.choice(["small", "large", "mixed", "messages"])
    victim, port = draw.randrange(size), draw.choice([None, free_port()])
    ranks = few(size, 3.0, port)
    ranks.begin(forever_until_signalled, kind)
    time.sleep(0.02 + draw.random() * 0.2)
    os.kill(ranks.processes[victim].pid, FAULTS[how])
    others = [r for r in range(size) if r != victim]
    for text in ranks.errors(10, others):
        assert f"rank {victim}" in text, text
    ranks.leave(others)
    if how == "stopped":
        ranks.processes[victim].kill()
    ranks.processes[victim].join(5)
    assert ranks.processes[victim].exitcode is not None
    if port:
        socket.create_server(("localhost", port)).close()
