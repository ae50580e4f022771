"""Tensors in memory of several processes: what arrives, what is shared, what keeps its identity."""

import gc
import os
import pickle
import weakref
from multiprocessing.reduction import ForkingPickler

import pytest

import flambeau
import flambeau.multiprocessing as mp
from flambeau._tensor import shared_memory

DTYPES = ["bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32", "float64", "complex64",
          "complex128", "float8_e4m3fn", "uint16", "uint32", "uint64"]


def sent(x):
    """What another receiver in this process gets."""
    return ForkingPickler.loads(ForkingPickler.dumps(x))


def through_child(x, work=None):
    """Sends x to a child and back; `work` happens there."""
    context = mp.get_context("fork")
    there, back = context.Queue(), context.Queue()

    def child():
        got = there.get(timeout=60)
        if work is not None:
            work(got)
        back.put(got)

    process = context.Process(target=child)
    process.start()
    there.put(x)
    got = back.get(timeout=60)
    process.join(60)
    assert process.exitcode == 0
    return got


def double(t):
    assert t.is_shared()
    t.mul_(2)


# --- what arrives ----------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("name", DTYPES)
def test_every_dtype_arrives(name, strategy):
    dtype = getattr(flambeau, name)
    x = flambeau.arange(6).to(dtype).reshape(2, 3)
    y = sent(x)
    assert y.dtype is dtype and y.is_shared() and y.shape == x.shape
    assert flambeau.equal(flambeau._C.storage_bytes(x), flambeau._C.storage_bytes(y))


LAYOUTS = {
    "empty": lambda: flambeau.empty(0, 3),
    "scalar": lambda: flambeau.tensor(4.0),
    "transposed": lambda: flambeau.arange(6.0).reshape(2, 3).T,
    "every second": lambda: flambeau.arange(8.0)[1::2],
    "expanded": lambda: flambeau.arange(3.0).expand(4, 3),
    "channels last": lambda: flambeau.randn(2, 3, 4, 4).to(memory_format=flambeau.channels_last),
    "large": lambda: flambeau.randn(1 << 19),
}


@pytest.mark.parametrize("name", LAYOUTS)
def test_every_layout_arrives(name, strategy):
    x = LAYOUTS[name]()
    y = through_child(x)
    assert y.shape == x.shape and flambeau.equal(x, y) and y.is_shared()
    assert y.stride() == x.stride() or name == "every second"


def test_queues_share_memory(strategy):
    x = flambeau.arange(3.0)
    y = through_child(x, double)
    assert x.is_shared() and x.tolist() == [0, 2, 4]
    assert y.data_ptr() == x.data_ptr()  # it comes back as the same memory


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_pipes_and_simple_queues(method, strategy):
    context = mp.get_context(method)
    ours, theirs = context.Pipe()
    queue = context.SimpleQueue()
    process = context.Process(target=_over_pipe, args=(theirs, queue))
    process.start()
    x = flambeau.ones(3)
    ours.send(x)
    assert ours.poll(60) and ours.recv().tolist() == [2, 2, 2] and x.tolist() == [2, 2, 2]
    assert queue.get().tolist() == [7]
    process.join(60)
    assert process.exitcode == 0


def _over_pipe(pipe, queue):
    x = pipe.recv()
    x += 1
    pipe.send(x)
    queue.put(flambeau.tensor([7]))


def _square(x):
    return x * x, x.is_shared()


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_pools(method):
    with mp.get_context(method).Pool(2) as pool:
        results = pool.map(_square, [flambeau.full((40,), float(k)) for k in range(12)])
    assert [r[0].tolist() for r in results] == [[float(k * k)] * 40 for k in range(12)]
    assert all(shared and r.is_shared() for r, shared in results)


def test_parameters_buffers_and_gradients_keep_their_kind():
    parameter = flambeau.nn.Parameter(flambeau.ones(2), requires_grad=False)
    leaf = flambeau.ones(2, requires_grad=True)
    buffer = flambeau.nn.Buffer(flambeau.ones(2), persistent=False)
    leaf.note = "mine"
    parameter_there, leaf_there, buffer_there = sent((parameter, leaf, buffer))
    assert type(parameter_there) is flambeau.nn.Parameter and not parameter_there.requires_grad
    assert type(leaf_there) is flambeau.Tensor and leaf_there.requires_grad and leaf_there.note == "mine"
    assert isinstance(buffer_there, flambeau.nn.Buffer) and not buffer_there.persistent
    assert sent(flambeau.nn.Parameter(flambeau.ones(2))).requires_grad
    assert repr(sent(flambeau.nn.LazyLinear(2).weight)) == "<UninitializedParameter>"


class Marked(flambeau.Tensor):
    pass


def test_subclasses_share_memory():
    x = flambeau.ones(3).as_subclass(Marked)
    y = sent(x)
    assert type(y) is Marked and y.is_shared() and y.tolist() == [1, 1, 1]


def test_storages_are_sent_by_place(strategy):
    for storage in (flambeau.arange(4.0).untyped_storage(), flambeau.arange(4.0).storage()):
        there = sent(storage)
        assert type(there) is type(storage) and there == storage and there.is_shared() and storage.is_shared()
        storage.fill_(1)
        assert there.tolist() == storage.tolist()
    assert flambeau.arange(3).untyped_storage().share_memory_().is_shared()


def test_collate_functions_make_their_batch_in_shared_memory():
    rows = [flambeau.full((3,), float(k)) for k in range(4)]
    storage = rows[0].untyped_storage()._new_shared(12 * rows[0].element_size(), device=rows[0].device)
    out = rows[0].new(storage).resize_(4, 3)
    batch = flambeau.stack(rows, 0, out=out)
    assert batch.is_shared() and batch.tolist() == [[k] * 3 for k in range(4)]
    with pytest.raises(NotImplementedError):
        flambeau.UntypedStorage._new_shared(4, device="cuda")


def test_modules_share_their_memory(strategy):
    model = flambeau.nn.Sequential(flambeau.nn.Linear(2, 3), flambeau.nn.BatchNorm1d(3))
    assert model.share_memory() is model
    assert all(t.is_shared() for t in (*model.parameters(), *model.buffers()))
    assert all(p.requires_grad and p.is_leaf for p in model.parameters())
    tied = flambeau.nn.Sequential(flambeau.nn.Linear(3, 3), flambeau.nn.Linear(3, 3))
    tied[1].weight = tied[0].weight
    there = sent(tied.share_memory())
    assert there[0].weight is there[1].weight and there[0].weight.data_ptr() == tied[0].weight.data_ptr()


def test_the_gradient_of_a_shared_module_stays_private():
    model = flambeau.nn.Linear(2, 1).share_memory()
    model(flambeau.ones(1, 2)).backward()
    assert model.weight.grad is not None and not model.weight.grad.is_shared()


# --- what keeps its identity -----------------------------------------------------------------------------------------

def test_views_in_one_message_share_their_memory(strategy):
    x = flambeau.zeros(2, 3)
    row = x[1]
    for message in ((x, row), (row, x), {"row": row, "whole": x}):
        parts = sent(message)
        a, b = parts.values() if isinstance(parts, dict) else parts
        a.view(-1)[-1] += 1
        assert b.view(-1)[-1] == a.view(-1)[-1] == x[1, 2] == row[2]


def test_sharing_moves_views_along():
    x = flambeau.zeros(4)
    views = [x[:2], {"deep": x[2:]}]

    def another():
        hidden = x.view(2, 2)
        x.share_memory_()
        hidden[0, 0] = 5
        return hidden

    assert another().is_shared() and views[0].is_shared() and views[1]["deep"].is_shared()
    assert x.tolist() == [5, 0, 0, 0] and views[0].tolist() == [5, 0]
    views[1]["deep"].fill_(3)
    assert x.tolist() == [5, 0, 3, 3]


def test_looking_for_views_keeps_no_variable_alive_and_no_dict_of_variables_empty():
    def holder():
        big = flambeau.zeros(9)
        x = flambeau.zeros(4)
        view = x[:2]
        named = locals()
        x.share_memory_()
        assert named["view"] is view and view.is_shared()

    def dropper():
        big = flambeau.zeros(9)
        gone = weakref.ref(big)
        x = flambeau.zeros(4)
        view = x[:2]
        x.share_memory_()
        del big
        return gone() is None and view.is_shared()

    holder()
    assert dropper()


def test_a_graph_survives_sharing():
    x = flambeau.ones(3, requires_grad=True)
    y = x.exp()
    z = y[1:].share_memory_()
    (2 * y.sum() + z.sum()).backward()
    assert y.is_shared() and flambeau.allclose(x.grad, flambeau.tensor([2.0, 3, 3]) * flambeau.ones(3).exp())


def test_a_view_sent_alone_shares_its_base():
    x = flambeau.zeros(2, 3)
    through_child(x[1], lambda t: t.fill_(4))
    assert x.tolist() == [[0, 0, 0], [4, 4, 4]]


def test_views_that_cannot_be_found_keep_their_memory():
    """Here a generator's C code holds one: the tensor that is sent is a copy, and nobody's view breaks."""
    x = flambeau.zeros(2, 3)
    hold = memoryview(x[0])  # an exported buffer: its tensor is in no container
    y = sent(x[1])
    y.fill_(1)
    x[0] = 2
    assert hold.tolist() == [2, 2, 2] and not x.is_shared() and x[1].tolist() == [0, 0, 0]


def test_one_storage_sent_twice_is_one_storage(strategy):
    x = flambeau.arange(4.0).share_memory_()
    first, second, part = sent(x), sent(x), sent(x[1:])
    assert first.data_ptr() == second.data_ptr() == x.data_ptr() and part.data_ptr() == x.data_ptr() + 4
    assert first.untyped_storage() == second.untyped_storage()


def _two(queue, pipe):
    first, second = queue.get(), queue.get()
    second.fill_(3)
    pipe.send((first.data_ptr() == second.data_ptr(), first.tolist(), len(os.listdir("/proc/self/fd"))))
    for _ in range(50):
        first = queue.get()
    pipe.send(len(os.listdir("/proc/self/fd")))


def test_a_receiver_maps_a_storage_once(strategy):
    context = mp.get_context("fork")
    queue, (ours, theirs) = context.SimpleQueue(), context.Pipe()
    process = context.Process(target=_two, args=(queue, theirs))
    process.start()
    theirs.close()  # a child that fails is heard
    x = flambeau.zeros(2)
    queue.put(x)
    queue.put(x)
    same, values, files = ours.recv()
    for _ in range(50):
        queue.put(x)
    assert same and values == [3, 3] and x.tolist() == [3, 3] and ours.recv() == files
    process.join(60)


def test_what_is_shared_is_sent_without_a_copy(monkeypatch):
    x = flambeau.ones(1 << 16).share_memory_()
    monkeypatch.setattr(shared_memory, "create", None)  # nothing new may be made
    message = ForkingPickler.dumps([x, x[3:], x.view(4, -1).T])
    assert len(message) < 2000
    assert all(part.data_ptr() in (x.data_ptr(), x.data_ptr() + 12) for part in pickle.loads(message))


def test_plain_pickle_still_copies():
    x = flambeau.ones(3).share_memory_()
    y = pickle.loads(pickle.dumps(x))
    assert not y.is_shared() and y.tolist() == [1, 1, 1]


def test_a_copy_of_a_shared_tensor_is_private():
    x = flambeau.ones(3).share_memory_()
    for y in (x.clone(), x + 0, x.to(flambeau.float64), flambeau.nn.Parameter(x.clone())):
        assert not y.is_shared()
    assert x.detach().is_shared() and x[1:].is_shared() and flambeau.nn.Parameter(x).is_shared()


# --- what is refused -------------------------------------------------------------------------------------------------

def test_what_cannot_be_sent():
    with pytest.raises(RuntimeError, match=r"comes from MulBackward0 .* send x.detach\(\)"):
        sent(flambeau.ones(1, requires_grad=True) * 2)
    with pytest.raises(AssertionError, match="expected one of"):
        mp.set_sharing_strategy("none")
    with pytest.raises(NotImplementedError, match="meta device has no memory"):
        flambeau.ones(1, device="meta").share_memory_()
    assert sent(flambeau.ones(2, device="meta")).is_meta


def test_strategies():
    assert mp.get_all_sharing_strategies() == {"file_descriptor", "file_system"}
    assert mp.get_sharing_strategy() == "file_descriptor"


def test_a_shared_storage_keeps_its_size():
    x = flambeau.ones(2).share_memory_()
    with pytest.raises(RuntimeError):
        x.resize_(1 << 20)
    gc.collect()
    assert x.tolist() == [1, 1]
