"""fork, spawn and forkserver run real programs, whatever the parent computed before, and children disturb nobody."""

import os
import signal

import pytest

import flambeau

PROGRAM = """
import sys, threading
import flambeau as torch
import flambeau.multiprocessing as mp
from flambeau.nn import functional as F

def train(rank, model, lock, counts, results):
    torch.manual_seed(rank)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    images, labels = torch.randn(16, 1, 12, 12), torch.arange(16) % 4
    for _ in range(3):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(images), labels)
        loss.backward()
        with lock:
            optimizer.step()
            counts += 1
    product = torch.ones(300, 300) @ torch.ones(300, 300)
    results.put((rank, loss.detach(), product))

def network():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Conv2d(1, 4, 3), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(400, 4))

if __name__ == "__main__":
    mp.set_start_method(sys.argv[1])
    mp.set_sharing_strategy(sys.argv[2])
    torch.set_num_threads(2)
    torch.randn(400, 400) @ torch.randn(400, 400)  # this process has threads now
    busy, stop = torch.randn(300, 300), threading.Event()
    def work():
        while not stop.is_set():
            busy @ busy
    thread = threading.Thread(target=work)
    thread.start()
    model = network().share_memory()
    before = [p.clone() for p in model.parameters()]
    lock, results, counts = mp.Lock(), mp.Queue(), torch.zeros(1, dtype=torch.int64).share_memory_()
    processes = [mp.Process(target=train, args=(rank, model, lock, counts, results)) for rank in range(2)]
    for p in processes:
        p.start()
    got = sorted(results.get(timeout=100)[0] for _ in processes)
    for p in processes:
        p.join(100)
    stop.set()
    thread.join()
    assert [p.exitcode for p in processes] == [0, 0] and got == [0, 1] and counts.item() == 6
    assert all(not torch.equal(p, b) for p, b in zip(model.parameters(), before))
    with mp.Pool(2) as pool:
        assert pool.map(torch.sum, [torch.ones(k) for k in range(5)]) == [0, 1, 2, 3, 4]
    print("done")
"""


@pytest.mark.parametrize(("method", "strategy"), [("fork", "file_descriptor"), ("fork", "file_system"),
                                                  ("spawn", "file_system"), ("forkserver", "file_descriptor")])
def test_a_program_trains_one_model_in_two_processes(method, strategy, program):
    assert program(PROGRAM, method, strategy) == "done\n"


MANY = """
import sys
import flambeau as torch
import flambeau.multiprocessing as mp

def work(tensors, queue):
    for t in tensors:
        t += 1
    queue.put(len(tensors))

if __name__ == "__main__":
    context = mp.get_context(sys.argv[1])
    queue = context.Queue()
    base = torch.zeros(4)
    tensors = [torch.zeros(2) for _ in range(300)] + [base, base[1:], base]
    process = context.Process(target=work, args=(tensors, queue))
    process.start()
    assert queue.get(timeout=100) == 303
    process.join()
    assert all(t.sum() == 2 for t in tensors[:300]) and base.tolist() == [2, 3, 3, 3], base
    print("done")
"""


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_many_tensors_and_one_twice_are_arguments_of_a_process(method, program):
    """More than a forkserver takes as file descriptors (256), and one storage several times."""
    assert program(MANY, method) == "done\n"


ROWS = """
import argparse
import flambeau as torch
import flambeau.multiprocessing as mp
from concurrent.futures import ProcessPoolExecutor

class Rows(torch.utils.data.Dataset):
    def __init__(self, n):
        self.rows = [torch.full((2,), float(k)) for k in range(n)]
    def __len__(self):
        return len(self.rows)
    def __getitem__(self, k):
        return self.rows[k], k

def train(rank, options, model, device, dataset, settings):
    torch.manual_seed(options.seed + rank)
    loader = torch.utils.data.DataLoader(dataset, **settings)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.001, momentum=0.5)
    for rows, numbers in loader:
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(model(rows.to(device))[:, 0], numbers.float()).backward()
        optimizer.step()

def total(x):
    return x.sum()

if __name__ == "__main__":
    options = argparse.Namespace(seed=1)
    mp.set_start_method("spawn", force=True)
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(2, 8), torch.nn.Dropout(0.1), torch.nn.Linear(8, 1)).share_memory()
    alone = torch.nn.Sequential(torch.nn.Linear(2, 8), torch.nn.Dropout(0.1), torch.nn.Linear(8, 1))
    alone.load_state_dict(model.state_dict())
    arguments = options, torch.device("cpu"), Rows(40), {"batch_size": 8, "shuffle": True}
    process = mp.Process(target=train, args=(0, options, model, *arguments[1:]))
    process.start()
    process.join()
    train(0, options, alone, *arguments[1:])
    assert process.exitcode == 0
    assert all(torch.equal(a, b) for a, b in zip(model.parameters(), alone.parameters()))
    with ProcessPoolExecutor(2, mp.get_context("forkserver")) as pool:
        assert list(pool.map(total, [torch.ones(k) for k in range(4)])) == [0, 1, 2, 3]
    with mp.Manager() as manager:
        queue = manager.Queue()
        queue.put(torch.ones(3))
        assert queue.get().tolist() == [1, 1, 1]
    print("done")
"""


def test_a_spawned_process_trains_as_this_one_would(program):
    """Its arguments are a namespace, a module, a device, a dataset of tensors and a loader's settings."""
    assert program(ROWS) == "done\n"


UNGUARDED = """
import flambeau as torch
import flambeau.multiprocessing as mp

torch.ones(300, 300) @ torch.ones(300, 300)
mp.set_start_method("fork")
queue = mp.Queue()
def work():
    queue.put(torch.ones(300, 300) @ torch.ones(300, 300))
process = mp.Process(target=work)
process.start()
assert queue.get(timeout=100).sum() == 300.0 ** 3
process.join()
print("done")
"""


def test_fork_runs_a_script_without_a_guard(program):
    assert program(UNGUARDED) == "done\n"


@pytest.mark.parametrize("handler", ["default", "ignored", "function"])
def test_children_that_end_disturb_no_computation(handler):
    """SIGCHLD arrives in the middle of long products, with and without a handler."""
    seen = []
    before = signal.signal(signal.SIGCHLD, {"default": signal.SIG_DFL, "ignored": signal.SIG_IGN,
                                            "function": lambda *_: seen.append(flambeau.ones(3).sum())}[handler])
    threads = flambeau.get_num_threads()
    try:
        flambeau.set_num_threads(2)
        a, k = flambeau.randn(350, 350), flambeau.randn(8, 1, 5, 5)
        x = flambeau.randn(4, 1, 60, 60)
        expected = (a @ a).exp().sum(0), flambeau.nn.functional.conv2d(x, k), flambeau.linalg.svdvals(a[:60, :60])
        for _ in range(5):
            child = os.fork()
            if not child:
                os._exit(0)
            for _ in range(4):
                found = ((a @ a).exp().sum(0), flambeau.nn.functional.conv2d(x, k),
                         flambeau.linalg.svdvals(a[:60, :60]))
                assert all(map(flambeau.equal, found, expected))
            if handler != "ignored":  # then the system waits for it
                assert os.waitpid(child, 0)[1] == 0
    finally:
        signal.signal(signal.SIGCHLD, before)
        flambeau.set_num_threads(threads)
    assert seen or handler != "function"
