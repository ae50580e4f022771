"""The caching allocator: what it keeps, gives back, counts and refuses."""

import gc
import threading

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import flambeau as fb
from flambeau import cuda

MB = 1 << 20


def bytes_on(n, device="cuda"):
    return fb.empty(n, dtype=fb.uint8, device=device)


def check_invariants(live):
    """Segments tile into blocks, no two free blocks stand side by side, live tensors lie in blocks of their own."""
    segments = cuda.memory_snapshot()
    used = set()
    for s in segments:
        at, free_before = s["address"], False
        for b in s["blocks"]:
            assert b["address"] == at and b["size"] % 512 == 0 and b["size"] > 0
            at += b["size"]
            free = b["state"] == "inactive"
            assert not (free and free_before)
            free_before = free
            if b["state"] == "active_allocated":
                used.add((b["address"], b["requested_size"]))
        assert at == s["address"] + s["total_size"]
    assert used == {(t.data_ptr(), t.numel()) for t in live}
    stats = cuda.memory_stats()
    assert stats["reserved_bytes.all.current"] == sum(s["total_size"] for s in segments if s["device"] == 0)
    assert stats["allocated_bytes.all.current"] == sum(s["allocated_size"] for s in segments if s["device"] == 0)
    assert stats["segment.all.current"] == sum(s["device"] == 0 for s in segments)
    assert stats["requested_bytes.all.current"] == sum(t.numel() for t in live)
    for name in ("allocation", "segment", "active", "inactive_split", "allocated_bytes", "reserved_bytes",
                 "active_bytes", "inactive_split_bytes", "requested_bytes"):
        for part in ("current", "peak", "allocated", "freed"):
            kinds = [stats[f"{name}.{kind}.{part}"] for kind in ("all", "large_pool", "small_pool")]
            assert kinds[0] == kinds[1] + kinds[2] or (part == "peak" and kinds[0] <= kinds[1] + kinds[2])
        assert stats[f"{name}.all.current"] == stats[f"{name}.all.allocated"] - stats[f"{name}.all.freed"]


sizes = st.one_of(st.integers(1, 2000), st.integers(1, 3 * MB), st.sampled_from([512, MB, MB + 1, 10 * MB, 25 * MB]))


@settings(max_examples=60, deadline=None)
@given(st.lists(st.one_of(sizes, st.integers(-50, -1)), max_size=60))
def test_invariants_under_any_requests(requests):
    cuda.empty_cache()
    cuda.reset_accumulated_memory_stats()
    live = []
    for n in requests:
        if n > 0:
            live.append(bytes_on(n))
        elif live:
            live.pop(n % len(live))
    check_invariants(live)
    live.clear()
    assert cuda.memory_allocated() == 0
    cuda.empty_cache()
    assert cuda.memory_reserved() == 0 and cuda.memory_snapshot() == []


def test_what_is_counted():
    cuda.empty_cache()
    cuda.reset_accumulated_memory_stats()
    cuda.reset_peak_memory_stats()
    live = [bytes_on(n) for n in (1, 700, 3 * MB, 12 * MB, 100)]
    check_invariants(live)
    del live[1]
    check_invariants(live)
    assert cuda.max_memory_allocated() > cuda.memory_allocated()
    cuda.reset_peak_memory_stats()
    assert cuda.max_memory_allocated() == cuda.memory_allocated()
    nested = cuda.memory_stats_as_nested_dict()
    assert nested["allocated_bytes"]["all"]["current"] == cuda.memory_allocated()
    assert "In tensors" in cuda.memory_summary() and len(cuda.memory_summary(abbreviated=True)) < len(
        cuda.memory_summary())


def test_segments():
    cuda.empty_cache()
    small, medium, large = bytes_on(100), bytes_on(2 * MB), bytes_on(25 * MB)
    totals = sorted(s["total_size"] for s in cuda.memory_snapshot())
    assert totals == [2 * MB, 20 * MB, 26 * MB]
    del small, medium, large
    assert cuda.memory_reserved() == 48 * MB


def test_freed_memory_is_used_again_and_joined(fake):
    a = bytes_on(4 * MB)
    address = a.data_ptr()
    b = bytes_on(4 * MB)
    asked = fake.calls("cuMemAlloc")
    del a
    assert bytes_on(4 * MB).data_ptr() == address
    del b
    c = bytes_on(8 * MB)
    assert c.data_ptr() == address and fake.calls("cuMemAlloc") == asked


def test_memory_stays_flat(fake):
    x, y = fb.ones(300, device="cuda"), fb.ones(300, device="cuda")
    for _ in range(10):
        z = x + y * 2.0
    held, asked = cuda.memory_reserved(), fake.calls("cuMemAlloc")
    for _ in range(20_000):
        z = x + y * 2.0
    assert z.tolist() == [3] * 300
    assert cuda.memory_reserved() == held and fake.calls("cuMemAlloc") == asked


def test_out_of_memory_leaves_everything_usable(fake):
    cuda.empty_cache()
    fake.limit(64 * MB)
    keep = bytes_on(20 * MB).fill_(7)
    spare = bytes_on(30 * MB)
    del spare  # cached; must go for the next request
    other = bytes_on(40 * MB)
    with pytest.raises(cuda.OutOfMemoryError, match=r"cuda:0(.|\n)*in tensors") as caught:
        bytes_on(50 * MB)
    assert "47.6 MiB" in str(caught.value) or "50" in str(caught.value)
    assert isinstance(caught.value, RuntimeError)
    stats = cuda.memory_stats()
    assert stats["num_ooms"] >= 1 and stats["num_alloc_retries"] >= 2
    del other
    again = bytes_on(40 * MB).fill_(1)
    assert keep.cpu().eq(7).all() and again.cpu().eq(1).all()
    with pytest.raises(cuda.OutOfMemoryError):
        fb.ones(100, 1 << 20, device="cuda") + 1
    assert (fb.ones(3, device="cuda") + 1).tolist() == [2, 2, 2]


def test_a_fraction_of_the_memory():
    cuda.empty_cache()
    assert cuda.get_per_process_memory_fraction() == 1
    cuda.set_per_process_memory_fraction(0.05)
    try:
        kept = bytes_on(40 * MB)
        with pytest.raises(cuda.OutOfMemoryError):
            bytes_on(30 * MB)
    finally:
        cuda.set_per_process_memory_fraction(1.0)
    assert bytes_on(30 * MB).numel() and kept.numel()
    for bad in (-1, 2):
        with pytest.raises(ValueError, match="0 to 1"):
            cuda.set_per_process_memory_fraction(bad)
    with pytest.raises(TypeError):
        cuda.set_per_process_memory_fraction("half")


def test_memory_of_a_stream_stays_with_it():
    side = cuda.Stream()
    with cuda.stream(side):
        address = bytes_on(1000).data_ptr()
    assert bytes_on(1000).data_ptr() != address
    with cuda.stream(side):
        assert bytes_on(1000).data_ptr() == address


def test_memory_used_by_another_stream_waits_for_it(fake):
    fake.delay(True)
    side = cuda.Stream()
    source = fb.arange(1000, dtype=fb.uint8).cuda()
    cuda.synchronize()
    with cuda.stream(side):
        copy = source.clone()  # waits in the side stream
    source.record_stream(side)
    address = source.data_ptr()
    del source
    assert bytes_on(1000).data_ptr() != address  # the block waits
    assert any(b["state"] == "active_pending_free" for s in cuda.memory_snapshot() for b in s["blocks"])
    side.synchronize()
    assert copy.tolist() == list(fb.arange(1000, dtype=fb.uint8).tolist())
    taken = [bytes_on(1000) for _ in range(20)]
    assert address in [t.data_ptr() for t in taken]


def test_without_record_stream_the_block_is_taken_at_once(fake):
    fake.delay(True)
    side = cuda.Stream()
    source = fb.ones(1000, device="cuda")
    with cuda.stream(side):
        copy = source.clone()
    address = source.data_ptr()
    del source
    assert fb.empty(1000, device="cuda").data_ptr() == address
    side.synchronize()
    assert copy.numel() == 1000


def test_pinned_memory(fake):
    x = fb.arange(1000).float().pin_memory()
    assert x.is_pinned() and x[3:].is_pinned() and not fb.ones(3).is_pinned() and x.device.type == "cpu"
    assert x.pin_memory() is x and fb.ones(3, pin_memory=True).is_pinned() and x.tolist()[:3] == [0, 1, 2]
    assert fb.tensor([1, 2], pin_memory=True).is_pinned() and fb.empty_like(x, pin_memory=True).is_pinned()
    with pytest.raises(RuntimeError, match="CPU"):
        x.cuda().pin_memory()
    asked = fake.calls("cuMemHostAlloc")
    address = x.data_ptr()
    del x
    gc.collect()
    y = fb.zeros(1000, pin_memory=True)
    assert y.data_ptr() == address and fake.calls("cuMemHostAlloc") == asked
    assert cuda.host_memory_stats()["active_bytes.current"] >= 4000


def test_pinned_memory_is_kept_while_a_copy_reads_it(fake):
    fake.delay(True)
    x = fb.arange(1000).float().pin_memory()
    y = x.to("cuda", non_blocking=True)
    address = x.data_ptr()
    del x
    gc.collect()
    z = fb.zeros(1000, pin_memory=True)  # a block of its own: the copy has not happened yet
    assert z.data_ptr() != address
    assert y.cpu().tolist() == list(range(1000))
    del z
    taken = [fb.empty(1000, pin_memory=True) for _ in range(3)]
    assert address in [t.data_ptr() for t in taken]


def test_a_blocking_copy_of_pinned_memory_waits(fake):
    fake.delay(True)
    x = fb.arange(100).float().pin_memory()
    y = x.cuda()
    x.zero_()
    assert y.tolist() == list(range(100))
    out = fb.empty(100, pin_memory=True)
    out.copy_(y)
    assert out.tolist() == list(range(100))


def test_raw_memory():
    before = cuda.memory_allocated()
    address = cuda.caching_allocator_alloc(1000)
    assert cuda.memory_allocated() == before + 1024
    cuda.caching_allocator_delete(address)
    assert cuda.memory_allocated() == before
    with pytest.raises(ValueError, match="caching_allocator_alloc"):
        cuda.caching_allocator_delete(address)


def test_a_pool_of_its_own():
    pool = cuda.MemPool()
    outside = bytes_on(1000)
    with cuda.use_mem_pool(pool):
        inside = bytes_on(1000)
    found = pool.snapshot()
    assert len(found) == 1 and found[0]["address"] <= inside.data_ptr() < found[0]["address"] + found[0]["total_size"]
    assert outside.data_ptr() not in range(found[0]["address"], found[0]["address"] + found[0]["total_size"])


def test_threads():
    def work():
        for n in range(1, 200):
            x = fb.full((n,), 2.0, device="cuda")
            if (x + x).tolist() != [4] * n:
                wrong.append(n)

    wrong = []
    threads = [threading.Thread(target=work) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong
