"""What packages build loaders of their own from: passes, fetchers, marks, and the watch over worker processes."""

import gc
import multiprocessing
import os
import pickle
import signal
import time
import weakref

import pytest

import flambeau
from flambeau.utils.data import DataLoader, IterableDataset, TensorDataset
from flambeau.utils.data._utils import signal_handling, worker
from flambeau.utils.data._utils.own_loaders import DatasetKind
from flambeau.utils.data.dataloader import _BaseDataLoaderIter, _sharding_worker_init_fn
from flambeau.utils.data.datapipes.datapipe import _IterDataPipeSerializationWrapper, _MapDataPipeSerializationWrapper
from flambeau.utils.data.datapipes.iter import IterableWrapper
from flambeau.utils.data.datapipes.map import SequenceWrapper


class Numbers(IterableDataset):
    def __init__(self, n):
        self.n = n

    def __iter__(self):
        return iter(range(self.n))


class OwnPass(_BaseDataLoaderIter):
    """A pass as a package writes one."""

    def __init__(self, loader):
        super().__init__(loader)
        self.fetcher = DatasetKind.create_fetcher(self._dataset_kind, self._dataset, self._auto_collation,
                                                  self._collate_fn, self._drop_last)

    def _next_data(self):
        return self.fetcher.fetch(self._next_index())


def _values(batches):
    return [batch[0].tolist() if isinstance(batch, list) else batch.tolist() for batch in batches]


@pytest.mark.parametrize("options", [{"batch_size": 2}, {"batch_size": 2, "shuffle": True}, {"batch_size": None},
                                     {"batch_size": 2, "drop_last": True}])
def test_a_pass_of_ones_own_gives_what_the_loader_gives(options):
    loader = DataLoader(TensorDataset(flambeau.arange(5)), **options)
    flambeau.manual_seed(0)
    expected, after = [str(batch) for batch in loader], flambeau.rand(1)
    flambeau.manual_seed(0)
    own = OwnPass(loader)
    assert len(own) == len(loader) and iter(own) is own and isinstance(own._base_seed, int)
    assert [str(batch) for batch in own] == expected
    assert own._num_yielded == len(expected)
    assert flambeau.equal(flambeau.rand(1), after), "a pass draws from the stream what the loader's draws"


@pytest.mark.parametrize("n, drop_last, expected", [(5, False, [[0, 1], [2, 3], [4]]), (5, True, [[0, 1], [2, 3]]),
                                                    (4, False, [[0, 1], [2, 3]])])
def test_a_pass_of_ones_own_over_an_iterable_dataset(n, drop_last, expected):
    own = OwnPass(DataLoader(Numbers(n), batch_size=2, drop_last=drop_last))
    assert _values(own) == expected
    assert own.fetcher.ended or n == 4
    with pytest.raises(StopIteration):
        own.fetcher.fetch([None, None])


def test_a_pass_begins_anew():
    loader = DataLoader(TensorDataset(flambeau.arange(3)), batch_size=2)
    own = OwnPass(loader)
    assert _values(own) == [[0, 1], [2]]
    own._reset(loader)
    assert own._num_yielded == 0 and _values(own) == [[0, 1], [2]]


def test_a_pass_ends_when_nobody_holds_it():
    """Its end ends workers, so it waits for no garbage collection, also where the loader holds it."""
    loader = DataLoader([1, 2])
    loader._iterator = OwnPass(loader)
    ended = weakref.ref(loader._iterator)
    gc.disable()
    try:
        del loader
        assert ended() is None
    finally:
        gc.enable()


def test_a_pass_is_not_sent():
    with pytest.raises(NotImplementedError, match="send its loader"):
        pickle.dumps(OwnPass(DataLoader([1, 2])))


def test_passes_of_the_loader_are_of_the_base_class():
    for workers in (0, 1):
        assert isinstance(iter(DataLoader([1, 2], num_workers=workers)), _BaseDataLoaderIter)


def test_fetchers_ask_for_many_at_once_where_they_may():
    class Many:
        def __getitems__(self, indices):
            return [10 * i for i in indices]

    fetcher = DatasetKind.create_fetcher(DatasetKind.Map, Many(), True, tuple, False)
    assert fetcher.fetch([1, 2]) == (10, 20)


def test_datapipes_are_wrapped_for_workers():
    pipe = _IterDataPipeSerializationWrapper(IterableWrapper(range(6)).sharding_filter())
    assert list(pipe) == list(range(6)) and len(pipe) == 6
    assert list(pickle.loads(pickle.dumps(pipe))) == list(range(6))
    keyed = _MapDataPipeSerializationWrapper(SequenceWrapper([5, 6]))
    assert (keyed[1], len(keyed), pickle.loads(pickle.dumps(keyed))[0]) == (6, 2, 5)


def test_a_wrapped_datapipe_is_shared_out(monkeypatch):
    pipe = _IterDataPipeSerializationWrapper(IterableWrapper(range(6)).sharding_filter())
    monkeypatch.setattr(worker, "_worker_info", worker.WorkerInfo(1, 2, 0, pipe))
    called = []
    _sharding_worker_init_fn(called.append, 1, 0, 1)
    assert list(pipe) == [1, 3, 5] and called == [1]


def test_marks_and_the_watchdog():
    assert worker._ResumeIteration().seed is None and worker._ResumeIteration(3).seed == 3
    assert worker._IterableDatasetStopIteration(2).worker_id == 2
    assert pickle.loads(pickle.dumps(worker._ResumeIteration(3))) == worker._ResumeIteration(3)
    assert worker.ManagerWatchdog().is_alive()


def _end_badly(how):
    if how == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    os._exit(3)


@pytest.mark.parametrize("how, said", [("killed", "SIGKILL"), ("ended", "status 3")])
def test_a_worker_that_dies_is_noticed(how, said):
    before = signal.getsignal(signal.SIGCHLD)
    process = multiprocessing.get_context("fork").Process(target=_end_badly, args=(how,))
    process.start()
    try:
        with pytest.raises(RuntimeError, match=said):
            signal_handling._set_worker_pids(1, (process.pid,))
            signal_handling._set_SIGCHLD_handler()
            for _ in range(500):
                signal_handling._error_if_any_worker_fails()
                time.sleep(0.01)
    finally:
        process.join()
        signal_handling._remove_worker_pids(1)
        signal.signal(signal.SIGCHLD, before)
        signal_handling._handling.clear()


def _send_and_end(queue):
    signal_handling._set_worker_signal_handlers()
    queue.put(flambeau.ones(8))


def test_a_worker_does_not_wait_for_batches_to_be_received():
    context = flambeau.multiprocessing.get_context("fork")
    queue = context.Queue()
    process = context.Process(target=_send_and_end, args=(queue,))
    process.start()
    process.join(4)  # others wait 5 seconds at their end
    assert process.exitcode == 0


def test_workers_are_watched_once():
    signal_handling._set_worker_pids(2, ())
    with pytest.raises(ValueError, match="watched already"):
        signal_handling._set_worker_pids(2, ())
    signal_handling._remove_worker_pids(2)
    with pytest.raises(ValueError, match="no workers"):
        signal_handling._remove_worker_pids(2)
