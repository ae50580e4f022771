"""The engine for GPUs against a libnccl that is compiled here: pointers of the host, streams that are threads.

It never runs NVIDIA's library: what is tested is which calls are made, in which order, on which memory, what waits for
what, and what happens when a rank fails.
"""

import contextlib
import ctypes
import fcntl
import itertools
import os
import shutil
import subprocess
import time
from datetime import timedelta
from pathlib import Path

import pytest

import flambeau
import flambeau.distributed as dist
from flambeau.distributed import ReduceOp, _backends, _nccl, _nccl_engine

from .pool import Ranks
from .test_collectives import check_managed

if shutil.which("g++") is None:
    pytest.skip("the fake libnccl needs g++", allow_module_level=True)


class Cuda:
    """What the engine uses of `flambeau.cuda`, made of the fake's threads; the program's own stream is the host."""

    def __init__(self, path):
        self.fake, self.numbers = ctypes.CDLL(path), itertools.count(1)
        self.fake.fake_record.argtypes, self.fake.fake_record.restype = (ctypes.c_void_p,), ctypes.c_uint64
        self.fake.fake_done.argtypes = (ctypes.c_void_p, ctypes.c_uint64)
        self.waits = 0
        cuda = self

        class Stream:
            def __init__(self, device=None, stream=None):
                self.cuda_stream = stream or next(cuda.numbers)

            def wait_stream(self, other):
                cuda.waits += 1

        class Event:
            def record(self, stream):
                self.place, self.number = stream.cuda_stream, cuda.fake.fake_record(stream.cuda_stream)

            def query(self):
                return bool(cuda.fake.fake_done(self.place, self.number))

        class Host:
            cuda_stream = 0

            def wait_event(self, event):  # the host's operators run at once, so its stream waits now
                while not event.query():
                    time.sleep(1e-4)

        self.Stream, self.Event, self.host = Stream, Event, Host()

    def current_stream(self):
        return self.host

    def current_device(self):
        return 0

    def set_device(self, index):
        assert index in (0, None)

    def is_available(self):
        return True

    def stream(self, stream):
        return contextlib.nullcontext()


class Immediate(_nccl.Communicator):
    """Waits for each call, so that what a program puts on a stream behind it comes after it on the host, too."""

    def put(self, name, *args, stream, timeout):
        super().put(name, *args, stream=stream, timeout=timeout)
        self._await(stream)

    def end(self, timeout):
        super().end(timeout)
        self._await(self.stream)

    def _await(self, stream):
        self.stream = stream
        event = self.cuda.Event()
        event.record(self.cuda.Stream(stream=stream))
        while not (self._deep or self._ended or event.query()):
            time.sleep(1e-5)


def begin(path, ahead):
    """Groups of this process exchange tensors of the CPU as if it were a GPU, on the fake."""
    cuda, library = Cuda(path), _nccl.Library(path)
    os.environ["TMPDIR"] = str(Path(path).parent)
    if not ahead:
        _nccl.Communicator, Immediate.cuda = Immediate, cuda
    _backends.gpus = lambda rank, size, store, timeout, index: _nccl_engine.NCCLEngine(
        rank, size, store, timeout, cuda, library, "cpu", index)
    _backends._PLACES["nccl"] = "cpu"


def in_group(ranks, timeout=20.0):
    made = dist.new_group(ranks, backend="nccl", timeout=timedelta(seconds=timeout))
    return None if dist.get_rank() not in ranks else made


@pytest.fixture(scope="session")
def fake(tmp_path_factory):
    """The library's path: whichever process of the tests is first compiles it for all."""
    place = tmp_path_factory.getbasetemp()
    place = (place.parent if "PYTEST_XDIST_WORKER" in os.environ else place) / "nccl"
    place.mkdir(exist_ok=True)
    path, source = place / "libnccl.so.2", Path(__file__).with_name("fake_nccl.cpp")
    with (place / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not path.exists():
            subprocess.run(["g++", "-std=c++20", "-O0", "-shared", "-fPIC", "-pthread", "-o", path, source], check=True)
    return str(path)


@pytest.fixture(scope="module")
def ranks(fake):
    made = Ranks(3)
    made.run(begin, fake, False)
    yield made
    made.end()


@pytest.fixture
def ahead(fake, few):
    def start(size):
        made = few(size)
        made.run(begin, fake, True)
        return made

    return start


# --- in the ranks -----------------------------------------------------------------------------------------------------

def values(shape, dtype, rank):
    x = (flambeau.arange(max(1, flambeau.Size(shape).numel()))[:flambeau.Size(shape).numel()] * (rank + 1)) % 5
    return x.to(dtype).reshape(shape)


LAYOUTS = {"dense": lambda x: x.clone(), "strided": lambda x: x.repeat_interleave(2, -1)[..., ::2]}


def laws(dtype, layout):
    """Each collective on the fake equals the one on shared memory."""
    group = laws.__dict__.setdefault("group", in_group([0, 1, 2]))
    for shape in [(0,), (1,), (5, 6), (4000,)]:
        law(group, shape, getattr(flambeau, dtype), LAYOUTS[layout])


def law(group, shape, dtype, lay):
    me, size = dist.get_rank(), dist.get_world_size()
    x, every = values(shape, dtype, me), [values(shape, dtype, r) for r in range(size)]
    long = flambeau.cat([x] * size)

    def both(call, make):
        found = [make() for _ in range(2)]
        for each, where in zip(found, (group, None)):
            call(each, where)
        assert flambeau.equal(*[flambeau.stack(f) if isinstance(f, list) else f for f in found])

    def parts():
        return [lay(x) for _ in range(size)]

    both(lambda t, g: dist.broadcast(t, 1, group=g), lambda: lay(x))
    both(lambda t, g: dist.all_gather(t, lay(x), group=g), parts)
    both(lambda t, g: dist.all_gather_into_tensor(t, lay(x), group=g), lambda: lay(long))
    both(lambda t, g: dist.gather(lay(x), t if me == 0 else None, 0, group=g), parts)
    both(lambda t, g: dist.scatter(t, [lay(e) for e in every] if me == 2 else None, 2, group=g), lambda: lay(x))
    both(lambda t, g: dist.all_to_all(t, [lay((x + r).to(dtype)) for r in range(size)], group=g), parts)
    both(lambda t, g: dist.all_to_all_single(t, lay(long), group=g), lambda: lay(long))
    for op in (ReduceOp.SUM, ReduceOp.MAX, ReduceOp.MIN, ReduceOp.PRODUCT, ReduceOp.AVG):
        if group.engine.reduces(dtype, op) and not (dtype is flambeau.bool and op == ReduceOp.AVG):
            reductions(both, op, lambda: lay(x), [lay((e + me).to(dtype)) for e in every], lay(flambeau.cat(every)))


def reductions(both, op, make, parts, whole):
    both(lambda t, g: dist.all_reduce(t, op, group=g), make)
    both(lambda t, g: dist.reduce(t, 1, op, group=g), make)
    both(lambda t, g: dist.reduce_scatter(t, parts, op, group=g), make)
    both(lambda t, g: dist.reduce_scatter_tensor(t, whole, op, group=g), make)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16", "int8", "uint8", "int32", "int64",
                                   "bool", "complex64"])
def test_collectives_equal_those_in_shared_memory(ranks, dtype, layout):
    ranks.run(laws, dtype, layout)


def several():
    me, group = dist.get_rank(), in_group([0, 1, 2])
    xs = [flambeau.full((k + 1,), float(me)) for k in range(3)]
    dist.all_reduce_coalesced(xs, group=group)
    assert all((x == 3).all() for x in xs)
    outs = [[flambeau.empty(k + 1) for k in range(3)] for _ in range(3)]
    dist.all_gather_coalesced(outs, [flambeau.full((k + 1,), float(me)) for k in range(3)], group=group)
    assert all((x == r).all() for r, row in enumerate(outs) for x in row)
    x = flambeau.full((2,), 2.0)
    dist.all_reduce(x, dist._make_nccl_premul_sum(0.5), group=group)
    assert (x == 3).all()
    objects = [None] * 3
    dist.all_gather_object(objects, {"rank": me}, group=group)
    assert objects == [{"rank": 0}, {"rank": 1}, {"rank": 2}]
    box = [("from", me)]
    dist.broadcast_object_list(box, 2, group=group)
    assert box == [("from", 2)]
    dist.barrier(group=group)
    assert dist.get_backend(group) == "nccl" and dist.get_backend_config(group) == "cpu:nccl"


def test_several_at_once_and_objects(ranks):
    ranks.run(several)


def managed():
    group = in_group([0, 1, 2])
    return check_managed(group)


def test_calls_that_a_manager_makes_one_of(ranks):
    assert ranks.run(managed) == [True] * 3


def messages():
    me, group = dist.get_rank(), in_group([0, 1, 2])
    x, y = flambeau.full((30_000,), float(me)), flambeau.empty(30_000)  # more than a channel holds
    works = dist.batch_isend_irecv([dist.P2POp(dist.isend, x, (me + 1) % 3, group),
                                    dist.P2POp(dist.irecv, y, (me - 1) % 3, group)])
    for work in works:
        work.wait()
    assert (y == (me - 1) % 3).all()
    if me == 0:
        dist.send(x, 1, group=group)
    elif me == 1:
        part = flambeau.ones(60_000)[::2]
        assert dist.recv(part, 0, group=group) == 0 and (part == 0).all()
    texts = []
    for call in (lambda: dist.recv(y, group=group), lambda: dist.send(x, (me + 1) % 3, group=group, tag=4)):
        with pytest.raises(NotImplementedError) as error:
            call()
        texts.append(str(error.value))
    with pytest.raises(TypeError, match="BXOR is not defined"):
        dist.all_reduce(x.int(), ReduceOp.BXOR, group=group)
    return texts


def test_messages(ranks):
    for first, second in ranks.run(messages):
        assert "give the sender's rank" in first and "leave tag out" in second


def runs_ahead():
    """Calls return before they are carried out; `wait` is what orders them."""
    me, group = dist.get_rank(), in_group([0, 1])
    dist.barrier(group=group)
    x = flambeau.ones(1 << 18)
    if me == 1:
        time.sleep(0.5)
    start = time.monotonic()
    work = dist.all_reduce(x, group=group, async_op=True)
    begun, done = time.monotonic() - start, work.is_completed()
    work.wait()
    assert (x == 2).all() and work.get_future().wait()[0] is x
    work.synchronize()
    assert work.is_completed() and work.is_success() and group.engine.cuda.waits >= 2
    works = [dist.all_reduce(x, group=group, async_op=True) for _ in range(5)]
    works[-1].wait()
    assert (x == 64).all()
    dist.destroy_process_group(group)
    return begun, done


def test_calls_go_on_while_the_program_does(ahead):
    (begun, done), _ = ahead(2).run(runs_ahead)
    assert begun < 0.3 and not done


def hangs(how):
    me, group = dist.get_rank(), in_group(list(range(dist.get_world_size())), timeout=1.0)
    dist.all_reduce(flambeau.ones(3), group=group, async_op=True).synchronize()
    if how == "absent" and me == 1:
        time.sleep(6)
    elif how == "absent" and me == 3:
        os._exit(0)
    elif how == "trouble" and me == 0:
        engine = group.engine
        engine._library._lib.fake_trouble(engine._communicator._handle, 6)
    start = time.monotonic()
    try:
        for _ in range(100 if how == "trouble" else 1):  # what is under way when trouble comes may still succeed
            dist.all_reduce(flambeau.ones(3), group=group, async_op=True).synchronize()
            time.sleep(0.01)
    finally:
        assert time.monotonic() - start < 8
    with pytest.raises(dist.DistBackendError):
        dist.all_reduce(flambeau.ones(3), group=group)


def test_ranks_that_do_not_come_are_named_after_the_timeout(ahead):
    """One sleeps, one is dead."""
    made = ahead(4)
    made.begin(hangs, "absent")
    for text in made.errors(12, [0, 2]):
        assert text.startswith("all_reduce #2 [3] float32") and "timed out after 1 seconds" in text
        assert "rank 1 is at all_reduce #1" in text and "rank 3 gives no sign" in text, text


def test_what_nccl_reports_ends_the_group_on_all_ranks(ahead):
    made = ahead(3)
    made.begin(hangs, "trouble")
    for text in made.errors(12, [0, 1, 2]):
        assert "remote process exited" in text and "the fake's last words" in text


def ends():
    group = in_group([0, 1])
    dist.all_reduce(flambeau.ones(3), group=group)
    communicator = group.engine._communicator
    communicator.abort("for a reason")
    with pytest.raises(dist.DistBackendError, match="has ended: for a reason"):
        communicator.put("ncclAllReduce", stream=None, timeout=1.0)


def test_who_comes_after_the_end_hears_why(ahead):
    """The end may come while another thread is on its way to the library."""
    ahead(2).run(ends)


def nobody_comes():
    group = in_group([0, 1], timeout=0.5)
    if dist.get_rank() == 0:
        dist.all_reduce(flambeau.ones(1), group=group)


def test_ranks_that_do_not_meet(ahead):
    made = ahead(2)
    made.begin(nobody_comes)
    assert "the ranks have not met on their GPUs" in made.errors(8, [0])[0]


def trains():
    me, group = dist.get_rank(), in_group([0, 1])
    flambeau.manual_seed(0)
    model = flambeau.nn.Sequential(flambeau.nn.Linear(4, 8), flambeau.nn.Tanh(), flambeau.nn.Linear(8, 1)).double()
    other = flambeau.nn.parallel.DistributedDataParallel(model, process_group=group, bucket_cap_mb=1e-5)
    batches = [flambeau.rand(6, 4).double() for _ in range(2)]
    other(batches[me]).square().mean().backward()
    found = [p.grad.clone() for p in model.parameters()]
    model.zero_grad()
    model(flambeau.cat(batches)).square().mean().backward()
    return max((a - p.grad).abs().max().item() for a, p in zip(found, model.parameters()))


def test_training_equals_that_in_one_process(ahead):
    assert max(ahead(2).run(trains)) < 1e-12


# --- here -------------------------------------------------------------------------------------------------------------

def test_without_the_library_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setattr(_nccl, "NCCL_PACKAGES", ("no-such-package", "nor-this-one"))
    assert not dist.is_nccl_available() and not dist.is_backend_available("nccl")
    for call in (_nccl.library, lambda: dist.init_process_group("nccl")):
        with pytest.raises(RuntimeError, match=r"pip install nvidia-nccl-cu13"):
            call()


def test_the_library_is_found_in_its_package(monkeypatch, tmp_path):
    (tmp_path / "nvidia_nccl_cu13-2.30.dist-info").mkdir()
    (tmp_path / "nvidia/nccl/lib").mkdir(parents=True)
    (tmp_path / "nvidia/nccl/lib/libnccl.so.2").touch()
    (tmp_path / "nvidia_nccl_cu13-2.30.dist-info" / "METADATA").write_text("Name: nvidia-nccl-cu13\nVersion: 2.30\n")
    (tmp_path / "nvidia_nccl_cu13-2.30.dist-info" / "RECORD").write_text("nvidia/nccl/lib/libnccl.so.2,,\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert _nccl.find() == str(tmp_path / "nvidia/nccl/lib/libnccl.so.2")


def test_the_table(fake):
    library = _nccl.Library(fake)
    number = library.unique_id()
    assert library.version() == (2, 14, 5) and len(number) == 128
    Path(number.rstrip(b"\0").decode()).unlink()
    with pytest.raises(RuntimeError, match="has no function ncclGetVersion"):
        _nccl.Library("libc.so.6")
