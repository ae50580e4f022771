"""What survivors learn when a rank ends, stops, or does something else: each raises in time and names the rank."""

import os
import random
import re
import signal
import time
from datetime import timedelta

import pytest

import flambeau
import flambeau.distributed as dist


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


@pytest.mark.exhaustive
@pytest.mark.parametrize("seed", range(1000))
def test_random_moments(few, seed):
    draw = random.Random(seed)
    size = draw.choice([2, 3, 4])
    victim, how = draw.randrange(size), draw.choice(["KILL", "TERM", "STOP"])
    ranks = few(size, timeout=3.0)
    ranks.begin(forever, draw.choice(["small", "large", "mixed", "messages"]))
    time.sleep(draw.random() * 0.2)
    os.kill(ranks.processes[victim].pid, getattr(signal, f"SIG{how}"))
    for text in ranks.errors(10, [r for r in range(size) if r != victim]):
        assert f"rank {victim}" in text or "timed out" in text, text
