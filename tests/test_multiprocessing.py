"""Tensors in memory of several processes."""

import pytest

import flambeau
import flambeau.multiprocessing as mp


def _double(queue, back, read):
    x = queue.get(timeout=60)
    x.mul_(2)
    back.put((x.is_shared(), flambeau.nn.Parameter(flambeau.ones(2))))
    read.wait(60)  # memory is handed over by the process that sends it


@pytest.fixture(params=["file_descriptor", "file_system"])
def strategy(request):
    before = mp.get_sharing_strategy()
    mp.set_sharing_strategy(request.param)
    yield request.param
    mp.set_sharing_strategy(before)


def test_queues_share_memory(strategy):
    context = mp.get_context("fork")
    queue, back, read = context.Queue(), context.Queue(), context.Event()
    x = flambeau.arange(3.0)
    process = context.Process(target=_double, args=(queue, back, read))
    process.start()
    queue.put(x)
    shared, parameter = back.get(timeout=60)
    read.set()
    process.join()
    assert process.exitcode == 0 and shared
    assert x.is_shared() and x.tolist() == [0, 2, 4]
    assert isinstance(parameter, flambeau.nn.Parameter) and parameter.requires_grad


def test_share_memory():
    x = flambeau.ones(2, 3)
    view = x[0]
    assert x.share_memory_() is x and x.is_shared() and x.tolist() == [[1.0] * 3] * 2
    view[0] = 5  # still a view of it
    assert view.is_shared() and x.tolist() == [[5, 1, 1], [1, 1, 1]]
    assert flambeau.nn.Linear(2, 2).share_memory().weight.is_shared()
    with pytest.raises(NotImplementedError):
        flambeau.ones(1, device="meta").share_memory_()


def test_what_cannot_be_sent():
    queue = mp.get_context("fork").SimpleQueue()
    with pytest.raises(RuntimeError, match="requires grad; it cannot be sent"):
        queue.put(flambeau.ones(1, requires_grad=True) * 2)
    with pytest.raises(AssertionError):
        mp.set_sharing_strategy("none")
    assert mp.get_all_sharing_strategies() == {"file_descriptor", "file_system"}


def _fail(rank, what):
    if rank == 1:
        raise ValueError(what)


def test_spawn():
    mp.start_processes(_fail, args=("unused",), nprocs=1, start_method="fork")
    with pytest.raises(mp.ProcessRaisedException, match="the reason"):
        mp.start_processes(_fail, args=("the reason",), nprocs=2, start_method="fork")
