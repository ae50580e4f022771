"""Datasets of the loader tests, and what they compare."""

import contextlib
import os
import random
import time

import numpy

import flambeau
from flambeau.utils import data


class Augmented(data.Dataset):
    """Samples that draw from every random stream."""

    def __init__(self, n=13):
        self.n = n

    def __len__(self):
        return self.n

    def __getitem__(self, index):
        drawn = flambeau.rand(2), random.random(), float(numpy.random.rand()), float(numpy.random.randn())
        return {"index": index, "drawn": drawn, "array": numpy.arange(3) + index, "name": f"s{index}"}


class ThreadSafe(data.Dataset):
    """Samples that draw from the generator of their thread, where it has one."""

    def __len__(self):
        return 9

    def __getitem__(self, index):
        return index, flambeau.rand(2, generator=flambeau.random.thread_safe_generator())


class Shards(data.IterableDataset):
    """Every worker has its own part of 0, 1, 2, …; samples draw from the default stream."""

    def __init__(self, n=11):
        self.n = n

    def __iter__(self):
        worker = data.get_worker_info()
        first, step = (worker.id, worker.num_workers) if worker else (0, 1)
        for k in range(first, self.n, step):
            yield k, flambeau.rand(2)


class Pids(data.Dataset):
    """Sample i says which process loads it; some do something else as well."""

    def __init__(self, n=16, at=(), action=None):
        self.n, self.at, self.action = n, at, action

    def __len__(self):
        return self.n

    def __getitem__(self, index):
        if index in self.at:
            self.action()
        return os.getpid()


def plain(value):
    """Tensors as lists, at any depth."""
    if isinstance(value, flambeau.Tensor):
        return value.tolist()
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    return value


def batches(loader):
    """All batches of a pass, as plain lists."""
    return [plain(batch) for batch in loader]


def is_running(pid):
    """Whether a process exists and is no zombie."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] not in ("Z", "X")
    except (FileNotFoundError, ProcessLookupError):
        return False


def wait_until(condition, seconds=10):
    """Whether `condition()` becomes true in time."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.02)
    return False


def segments():
    """How many pieces of shared memory this process has mapped or open."""
    with open("/proc/self/maps") as file:
        mapped = sum("memfd:flambeau" in line for line in file)
    opened = 0
    for fd in os.listdir("/proc/self/fd"):
        with contextlib.suppress(FileNotFoundError):
            opened += "memfd:flambeau" in os.readlink(f"/proc/self/fd/{fd}")
    return mapped, opened
