"""Workers: what they are told, what comes back and how, when they begin and end."""

import collections
import gc
import multiprocessing
import os
import subprocess
import sys
import threading
import time
import warnings

import numpy
import pytest

import flambeau
from flambeau.utils import data

from .helpers import Pids, Shards, batches, is_running, plain, segments, wait_until

pytestmark = pytest.mark.filterwarnings("ignore:DataLoader. . worker processes:UserWarning")
Point = collections.namedtuple("Point", "x y")


class Told(data.Dataset):
    """Samples say what their worker was told."""

    def __len__(self):
        return 4

    def __getitem__(self, index):
        info = data.get_worker_info()
        return [info.id, info.num_workers, info.seed, info.dataset is self, self.set_by_init,
                flambeau.get_num_threads()]

    set_by_init = 0


def set_in_worker(worker):
    data.get_worker_info().dataset.set_by_init = worker + 10


def test_worker_info_and_worker_init_fn():
    loader = data.DataLoader(Told(), batch_size=None, num_workers=2, worker_init_fn=set_in_worker)
    found = list(loader)
    seed = found[0][2]
    assert found == [[w, 2, seed + w, True, w + 10, 1] for w in (0, 1, 0, 1)]
    assert data.get_worker_info() is None
    from flambeau.utils.data._utils.worker import WorkerInfo
    assert list(WorkerInfo.__dataclass_fields__)[:4] == ["id", "num_workers", "seed", "dataset"]


def test_threads_are_told_as_well():
    class Same(Told):
        def __getitem__(self, index):
            info = data.get_worker_info()
            return (*super().__getitem__(index)[:4], info.worker_method, threading.current_thread().name,
                    info.rng.numpy_generator.integers(10) < 10 and info.rng.random_generator.random() < 1)

    found = list(data.DataLoader(Same(), batch_size=None, num_workers=2, worker_method="thread"))
    assert [f[0] for f in found] == [0, 1, 0, 1]
    assert all(list(f[3:5]) == [True, "thread"] and f[6] and "DataLoader worker" in f[5] for f in found)
    assert data.get_worker_info() is None and flambeau.random.thread_safe_generator() is None


class Nested(data.Dataset):
    """One sample of every kind of thing that a batch may have in it."""

    def __len__(self):
        return 3

    def __getitem__(self, index):
        return nested(index)


class Marked(flambeau.Tensor):
    """A subclass, which must arrive as one."""


def nested(index):
    image = flambeau.arange(24.0).reshape(1, 2, 3, 4) + index
    leaf = flambeau.ones(2).requires_grad_()
    marked = flambeau.arange(3).as_subclass(Marked)
    marked.label = "m"
    return {
        "point": Point(flambeau.tensor(index), [1.5, "text"]), "channels last": image.contiguous(
            memory_format=flambeau.channels_last), "transposed": image.mT, "slice": image[..., 1:3], "expanded":
        flambeau.ones(1).expand(5), "empty": flambeau.empty(0, 3), "leaf": leaf, "parameter": flambeau.nn.Parameter(
            flambeau.ones(2)), "marked": marked, "array": numpy.arange(4, dtype="int16")[::2], "none": None,
        "bytes": b"x", "large": flambeau.full((300, 300), index), "large array": numpy.full((300, 300), index),
        "half": flambeau.ones(2, dtype=flambeau.bfloat16), "complex": flambeau.tensor([1j]),
        "bool": flambeau.tensor(True), "meta": flambeau.empty(2, device="meta"), "twice": [leaf, leaf], "set": {1, 2},
    }


@pytest.mark.parametrize("index", range(3))
def test_what_a_batch_may_have_in_it(index):
    here, there = nested(index), list(data.DataLoader(Nested(), batch_size=None, num_workers=1,
                                                      collate_fn=lambda sample: sample))[index]
    assert list(here) == list(there)
    for name, a in here.items():
        b = there[name]
        assert type(a) is type(b), name
        if isinstance(a, flambeau.Tensor) and not a.is_meta:
            assert (a.dtype, a.shape, a.requires_grad) == (b.dtype, b.shape, b.requires_grad), name
            assert flambeau.equal(a, b) and b.is_leaf and not b._is_view(), name
            assert b.untyped_storage().nbytes() == b.nbytes, name
        elif isinstance(a, numpy.ndarray):
            assert (a == b).all() and b.flags.writeable, name
        elif name not in ("twice", "meta"):
            assert a == b, name
    assert there["channels last"].is_contiguous(memory_format=flambeau.channels_last)
    assert there["twice"][0] is there["twice"][1] is there["leaf"]
    assert there["marked"].label == "m"


def test_batches_may_be_kept_and_changed():
    class Rows(data.Dataset):
        def __len__(self):
            return 60

        def __getitem__(self, index):
            return flambeau.full((100, 100), index)

    kept = []
    for batch in data.DataLoader(Rows(), 4, num_workers=2):
        batch.add_(1000)
        kept.append(batch[1:3])  # a view keeps the memory
    assert [b[:, 0, 0].tolist() for b in kept] == [[1001.0 + 4 * k, 1002.0 + 4 * k] for k in range(15)]


def test_large_batches_travel_in_memory_that_is_used_again():
    class Rows(data.Dataset):
        def __len__(self):
            return 80

        def __getitem__(self, index):
            return flambeau.full((50_000,), index)

    gc.collect()
    before = segments()
    places = set()
    for batch in data.DataLoader(Rows(), 2, num_workers=1, prefetch_factor=2):
        assert segments()[1] <= before[1] + 1  # no descriptor per batch
        places.add(batch.data_ptr())
    del batch
    assert 1 < len(places) <= 4 < 40
    assert wait_until(lambda: gc.collect() >= 0 and segments() <= before)


def test_descriptors_are_not_used_up_by_kept_batches():
    program = """
import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
import flambeau; from flambeau.utils import data
kept = list(data.DataLoader(flambeau.zeros(300, 40_000), 1, num_workers=1))
print(len(kept), kept[-1].shape[1])
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=100)
    assert done.stdout.split() == ["300", "40000"], done.stderr


def test_long_lists_of_indices_and_of_objects():
    whole = data.DataLoader(range(200_000), batch_sampler=[range(200_000), [1, 2]], num_workers=1,
                            collate_fn=lambda samples: [str(k) for k in samples])
    first, second = whole
    assert len(first) == 200_000 and first[-1] == "199999" and second == ["1", "2"]


def test_persistent_workers_stay():
    loader = data.DataLoader(Pids(), 2, num_workers=2, persistent_workers=True)
    pids = [{pid for batch in batches(loader) for pid in batch} for _ in range(3)]
    assert pids[0] == pids[1] == pids[2] and len(pids[0]) == 2 and os.getpid() not in pids[0]
    abandoned = iter(loader)
    next(abandoned)
    assert len(batches(loader)) == 8  # what is still under way for the abandoned pass does not disturb
    with pytest.raises(RuntimeError, match="this pass has ended"):
        next(abandoned)
    assert all(map(is_running, pids[0]))
    del loader, abandoned
    gc.collect()
    assert wait_until(lambda: not any(map(is_running, pids[0])))


def test_workers_end_with_their_pass():
    for stop in (1, 100):
        pids = set()
        for k, batch in enumerate(data.DataLoader(Pids(), 2, num_workers=2)):
            pids.update(plain(batch))
            if k == stop:
                break
        gc.collect()
        assert wait_until(lambda pids=pids: not any(map(is_running, pids)))


@pytest.mark.parametrize("method", multiprocessing.get_all_start_methods())
def test_the_start_method_is_the_one_asked_for(method):
    for option in (method, multiprocessing.get_context(method)):
        loader = data.DataLoader(Pids(2), None, num_workers=1, multiprocessing_context=option)
        assert loader.multiprocessing_context.get_start_method() == method
    assert os.getpid() not in list(loader)


def test_batches_of_workers_that_wait_come_first_where_the_order_is_free():
    class Slow(data.Dataset):
        def __len__(self):
            return 6

        def __getitem__(self, index):
            if index == 0:
                time.sleep(0.4)
            return index

    found = list(data.DataLoader(Slow(), None, num_workers=2, in_order=False))
    assert sorted(found) == list(range(6)) and found[0] != 0
    assert list(data.DataLoader(Slow(), None, num_workers=2)) == list(range(6))


def test_iterables_in_any_order():
    found = batches(data.DataLoader(Shards(), 2, num_workers=3, in_order=False))
    assert sorted(k for batch in found for k in batch[0]) == list(range(11))


def test_an_iterable_may_end_at_once_in_some_workers():
    assert [k for batch in batches(data.DataLoader(Shards(1), 2, num_workers=3)) for k in batch[0]] == [0]
    assert batches(data.DataLoader(Shards(0), 2, num_workers=2)) == []


class Shortened(Shards):
    def __len__(self):
        return 4


@pytest.mark.parametrize("workers", [0, 2])
def test_an_iterable_that_gives_more_than_its_length(workers):
    loader = data.DataLoader(Shortened(), 2, num_workers=workers)
    batches(loader)  # its length was not asked for
    assert len(loader) == 2
    with pytest.warns(UserWarning, match="has given 3 batches, but its length is 2"):
        batches(loader)


def test_more_workers_than_processors_warn():
    usable = len(os.sched_getaffinity(0))
    with pytest.warns(UserWarning, match=f"{usable + 1} worker processes for {usable} processors"):
        data.DataLoader(range(4), num_workers=usable + 1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        data.DataLoader(range(4), num_workers=usable)


def test_pinning_is_refused_once_and_in_words():
    with pytest.warns(UserWarning, match="pin_memory=True has no effect") as found:
        loader = data.DataLoader(range(4), 2, pin_memory=True, pin_memory_device="cuda")
        assert batches(loader) == batches(loader)
    assert len(found) == 1


def test_timing():
    class Slow(data.Dataset):
        def __len__(self):
            return 3

        def __getitem__(self, index):
            time.sleep(0.02)
            return index

    loader = data.DataLoader(Slow())
    assert loader.timing() is None
    for _ in loader:
        time.sleep(0.02)
    waited, total = loader.timing()
    assert 0.06 <= waited <= total - 0.05


@pytest.mark.parametrize(("options", "error"), [
    ({"num_workers": 1, "prefetch_factor": 0}, ValueError),
    ({"num_workers": 1, "multiprocessing_context": "none"}, ValueError),
    ({"num_workers": 1, "multiprocessing_context": 3}, TypeError),
    ({"multiprocessing_context": "fork"}, ValueError),
    ({"num_workers": 1, "multiprocessing_context": "fork", "worker_method": "thread"}, ValueError),
    ({"worker_method": "processes"}, ValueError),
    ({"seeding": "sample"}, ValueError),
], ids=str)
def test_bad_arguments(options, error):
    with pytest.raises(error, match="DataLoader"):
        data.DataLoader(range(3), **options)
