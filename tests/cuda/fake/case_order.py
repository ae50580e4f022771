"""Memory and streams in the order that a device keeps: recordings of several streams, pinned memory beside a recording,
offsets beyond 31 bits, plans that sizes and numbers tell apart."""

import random

import pytest

import flambeau as fb
from flambeau import cuda
from flambeau.cuda.kernels import products


def pools_of(*tensors):
    """The pool of memory that each tensor lies in."""
    found = []
    for t in tensors:
        found += [s["segment_pool_id"] for s in cuda.memory_snapshot()
                  if s["address"] <= t.data_ptr() < s["address"] + s["total_size"]]
    return found


def test_streams_that_join_a_recording_take_its_memory():
    """What lies in between on the second stream is written at each replay: nobody else may have it."""
    side, x = cuda.Stream(), fb.ones(1000, device="cuda")
    x + x
    g = cuda.CUDAGraph()
    with cuda.graph(g):
        y = x + x
        side.wait_stream(cuda.current_stream())
        with cuda.stream(side):
            between = y + y
            z = between + between
            place = pools_of(between)
            del between
        cuda.current_stream().wait_stream(side)
    assert [*place, *pools_of(y, z)] == [g.pool()] * 3
    with cuda.stream(side):
        others = [fb.full((1000,), 7.0, device="cuda") for _ in range(20)]
    g.replay()
    cuda.synchronize()
    assert z.tolist() == [8] * 1000 and all(t.cpu().eq(7).all() for t in others)
    assert set(pools_of(*others)) == {(0, 0)}


def test_two_recordings_at_once_keep_their_memory_apart():
    x, streams = fb.ones(10, device="cuda"), [cuda.Stream(), cuda.Stream()]
    x + x
    graphs, results = [cuda.CUDAGraph(), cuda.CUDAGraph()], []
    for g, s in zip(graphs, streams, strict=True):
        with cuda.stream(s):
            g.capture_begin(capture_error_mode="relaxed")
    for s in streams:
        with cuda.stream(s):
            results.append(x + x)
    for g, s in zip(graphs, streams, strict=True):
        with cuda.stream(s):
            g.capture_end()
    assert pools_of(*results) == [g.pool() for g in graphs]


def test_a_pool_used_inside_itself_goes_on_afterwards():
    pool = cuda.MemPool()
    assert pool.use_count() == 1
    with cuda.use_mem_pool(pool):
        with cuda.use_mem_pool(pool):
            assert pool.use_count() == 3
        x = fb.ones(10, device="cuda")
    y = fb.ones(10, device="cuda")
    assert pools_of(x, y) == [pool.id, (0, 0)] and pool.use_count() == 1


def test_pinned_memory_is_kept_while_another_stream_is_recorded(fake):
    x = fb.zeros(1000, device="cuda")
    x + x
    cuda.synchronize()
    fake.delay(True)
    recorded, copying, g = cuda.Stream(), cuda.Stream(), cuda.CUDAGraph()
    with cuda.stream(recorded):
        g.capture_begin(capture_error_mode="relaxed")
    source = fb.ones(1000).pin_memory()
    with cuda.stream(copying):
        x.copy_(source, non_blocking=True)
    del source
    with cuda.stream(recorded):
        x + x
        g.capture_end()
    again = fb.full((1000,), 5.0).pin_memory()  # must not be the memory that is still to be read
    copying.synchronize()
    assert x.tolist() == [1] * 1000 and again.tolist() == [5] * 1000


# --- backward passes --------------------------------------------------------------------------------------------------

def test_nodes_run_on_the_streams_of_their_operations(fake):
    """Their saved tensors are free for the next operation of that stream as soon as the pass has used them."""
    side, x = cuda.Stream(), fb.ones(1000, device="cuda").requires_grad_()
    y = x * x
    cuda.synchronize()
    side.wait_stream(cuda.current_stream())
    with cuda.stream(side):
        z = y * y
        seen = []
        z.register_hook(lambda g: seen.append(cuda.current_stream()))
    y.register_hook(lambda g: seen.append(cuda.current_stream()))
    cuda.current_stream().wait_stream(side)
    cuda.synchronize()
    fake.delay(True)
    z.backward(fb.ones(1000, device="cuda"))
    assert seen == [side, cuda.default_stream()] and cuda.current_stream() == cuda.default_stream()
    del z
    with cuda.stream(side):  # before any of the pass has run: none of this may get memory that it still reads
        others = [fb.full((1000,), 7.0, device="cuda") for _ in range(8)]
    while fake.advance(side):
        pass
    cuda.synchronize()
    assert x.grad.tolist() == [4] * 1000 and all(o.cpu().eq(7).all() for o in others)


@pytest.mark.parametrize("seed", range(4))
def test_branches_on_streams_of_their_own(fake, seed):
    """Work is done in any order that streams and events allow; gradients meet where branches do, and at the caller."""
    chance = random.Random(seed)
    streams, home = [cuda.Stream() for _ in range(3)], cuda.Stream()
    x, w = (fb.full((100,), v, device="cuda").requires_grad_() for v in (2.0, 3.0))
    cuda.synchronize()
    fake.delay(True)
    with cuda.stream(home):
        for _ in range(3):
            x.grad = w.grad = None
            y, branches = x * w, []
            for s in streams:
                s.wait_stream(home)
                with cuda.stream(s):
                    branches.append(y * y * w)
                home.wait_stream(s)
            total = branches[0] + branches[1] + branches[2]
            del branches
            (dy,) = fb.autograd.grad(total, y, fb.ones(100, device="cuda"), retain_graph=True)
            total.backward(fb.ones(100, device="cuda"))
            del total, y
            for _ in range(60):
                fake.advance(chance.choice([*streams, home, cuda.default_stream()]))
            found = [t.clone() for t in (dy, x.grad, w.grad)]  # no waiting: the caller's stream follows the pass
    cuda.synchronize()
    # total = 3 (x w)^2 w: its derivatives by x w, x and w
    assert [t.cpu().unique().tolist() for t in found] == [[108], [324], [324]]


def test_a_recorded_pass_over_nodes_from_outside_stays_in_the_recording():
    x = fb.full((10,), 3.0, device="cuda").requires_grad_()
    y, one = x * x, fb.ones(10, device="cuda")
    fb.autograd.grad(y, x, one, retain_graph=True)
    g = cuda.CUDAGraph()
    with cuda.graph(g):
        (dx,) = fb.autograd.grad(y, x, one)
    g.replay()
    assert dx.tolist() == [6] * 10


# --- offsets and numbers ----------------------------------------------------------------------------------------------

def test_pointwise_offsets_have_64_bits_before_32_run_out(fresh, fake):
    """The last threads of a launch look at places behind the end: these must not wrap either."""
    fake.limit(1 << 34)
    for n, bits in ((2**31 - 8192 - 1, 32), (2**31 - 1000, 64)):
        x = fb.empty(n, dtype=fb.uint8, device="cuda")
        with pytest.raises(NotImplementedError):
            x + x  # hand-made kernels have no bytes: the call is what is looked at
        assert fresh.asked[-1].index == bits
        del x
        cuda.empty_cache()


@pytest.mark.usefixtures("own_kernels")
def test_groups_of_far_apart_elements(fake):
    fake.limit(1 << 34)
    far = fb.empty(2**31 + 2**21, dtype=fb.uint8, device="cuda")[::2**20]
    far.copy_(fb.arange(len(far)).to(fb.uint8))
    f = fb.compile(lambda x: (x + 1) * 2 - 1)
    assert fb.equal(f(far).cpu(), (far.cpu() + 1) * 2 - 1)


@pytest.mark.usefixtures("own_kernels")
def test_numbers_beyond_63_bits_have_plans_of_their_own():
    x, mask = fb.zeros(2, 3), fb.tensor([True, False, True])
    for value in (-1, 2**64 - 1, -1):
        assert fb.equal(fb.nn.functional.pad(x.cuda(), (1, 1), value=value).cpu(),
                        fb.nn.functional.pad(x, (1, 1), value=value))
        assert fb.equal(x.cuda().masked_fill(mask.cuda(), value).cpu(), x.masked_fill(mask, value))


@pytest.mark.usefixtures("own_kernels")
def test_complex_numbers_pad():
    x = fb.arange(3).to(fb.complex64)
    padded = [fb.nn.functional.pad(t, (1, 2), value=1 + 2j).tolist() for t in (x, x.cuda())]
    assert padded[0] == padded[1]


@pytest.mark.usefixtures("own_kernels")
def test_products_of_more_rows_than_a_grid_has_blocks(monkeypatch):
    plain = products._grid
    assert plain(5, 2**23)[1] == 65535
    monkeypatch.setattr(products, "_grid", lambda *sizes: (plain(*sizes)[0], 1, *plain(*sizes)[2:]))
    a, b = fb.arange(400).reshape(2, 200, 1), fb.arange(6).reshape(2, 1, 3)
    assert fb.equal((a.cuda() @ b.cuda()).cpu(), a @ b)


# --- what waits, and what does not ------------------------------------------------------------------------------------

def test_waiting_can_be_told_of_or_refused():
    x = fb.ones(3, device="cuda")
    cuda.set_sync_debug_mode("warn")
    try:
        assert cuda.get_sync_debug_mode() == 1
        with pytest.warns(UserWarning, match="the CPU waits"):
            x.tolist()
        cuda.set_sync_debug_mode("error")
        for call in (x.sum().item, lambda: fb.ones(3).cuda(), lambda: x[::2].cpu()):
            with pytest.raises(RuntimeError, match="the CPU waits here"):
                call()
        y = x * 2.0
        x.copy_(fb.ones(3).pin_memory(), non_blocking=True)
        cuda.synchronize()
    finally:
        cuda.set_sync_debug_mode(0)
    assert y.tolist() == [2] * 3
    with pytest.raises(RuntimeError, match="default, warn, error"):
        cuda.set_sync_debug_mode("loud")


def test_events_of_a_graph_that_others_follow(fake):
    x = fb.ones(3, device="cuda")
    x + x
    event, g = cuda.Event(enable_timing=True, external=True), cuda.CUDAGraph()
    event.record()  # outside of recorded work it is an event as any
    with cuda.graph(g):
        x + x
        event.record()
        event.wait()
    assert fake.calls("cuEventRecordWithFlags") == 1
    g.replay()
    cuda.current_stream().wait_event(event)
    assert event.query()
