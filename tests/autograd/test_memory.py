"""Memory over time: saved tensors go as the pass goes, long chains neither recurse nor leak, training stays flat."""

import gc
import os
import threading
from itertools import pairwise

import pytest

import flambeau

nn = flambeau.nn


def allocated():
    return flambeau.memory.stats()["allocated"]


def resident():
    with open("/proc/self/statm") as f:
        return int(f.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def chain(x, length):
    for _ in range(length):
        x = x * 1.0000001
    return x


def test_saved_tensors_are_freed_as_the_pass_goes():
    x = flambeau.rand(1 << 16, requires_grad=True)
    y, seen = x, []
    for _ in range(20):
        y = y.exp().log()
        y.register_hook(lambda g: seen.append(allocated()))
    loss = y.sum()
    del y
    gc.collect()
    before = allocated()
    loss.backward()
    assert all(b < a for a, b in pairwise(seen[1:])), seen
    assert seen[-1] < before - 15 * x.nbytes


@pytest.mark.parametrize("how", ["backward", "dropped", "kept"])
def test_a_long_chain(how):
    x = flambeau.ones(4, requires_grad=True)
    gc.collect()
    before = allocated()

    def run():  # in a thread with a small stack
        y = chain(x, 100_000)
        if how != "dropped":
            y.sum().backward(retain_graph=how == "kept")
    threading.stack_size(256 << 10)
    try:
        thread = threading.Thread(target=run)
        thread.start()
        thread.join()
    finally:
        threading.stack_size(0)
    if how != "dropped":
        assert x.grad[0].item() == pytest.approx(1.01, rel=2e-2)
        x.grad = None
    gc.collect()
    assert allocated() == before


def test_a_long_chain_of_saved_tensors():
    x = flambeau.ones(2, requires_grad=True)
    before = allocated()
    y = x
    for _ in range(100_000):
        y = y.tanh()
    del y
    gc.collect()
    assert allocated() == before


def test_a_thousand_steps_stay_flat():
    flambeau.manual_seed(0)
    model = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Dropout(0.1), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 4))
    optimizer = flambeau.optim.Adam(model.parameters())
    x, t = flambeau.rand(64, 32), flambeau.randint(0, 4, (64,))

    def step():
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), t).backward()
        optimizer.step()
    for _ in range(200):
        step()
    gc.collect()
    memory, blocks = resident(), allocated()
    for _ in range(1000):
        step()
    gc.collect()
    assert allocated() == blocks
    assert resident() <= memory * 1.01
