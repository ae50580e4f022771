"""Streams and events: order, waiting, which is current."""

import pytest

import flambeau as fb
from flambeau import cuda


def test_which_is_current():
    default = cuda.default_stream()
    assert cuda.current_stream() == default and default.cuda_stream == 0
    side = cuda.Stream()
    assert side != default and side.device == fb.device("cuda:0") and side.device_index == 0
    with cuda.stream(side):
        assert cuda.current_stream() == side
        with cuda.stream(None):
            assert cuda.current_stream() == side
    assert cuda.current_stream() == default
    with side:
        assert cuda.current_stream() == side
    cuda.set_stream(side)
    assert cuda.current_stream() == side
    cuda.set_stream(default)
    other = cuda.Stream("cuda:1")
    with cuda.stream(other):
        assert cuda.current_device() == 1 and cuda.current_stream() == other
        assert fb.ones(2, device="cuda").device == fb.device("cuda:1")
    assert cuda.current_device() == 0
    assert len({cuda.Stream() for _ in range(100)}) == 32
    assert cuda.Stream.priority_range() == (0, -5) and cuda.Stream(priority=-1).priority == -1
    assert cuda.ExternalStream(side.cuda_stream) == side


def test_work_waits_for_events(fake):
    fake.delay(True)
    a, b = cuda.Stream(), cuda.Stream()
    x = fb.zeros(4, device="cuda")
    cuda.synchronize()
    with cuda.stream(a):
        x.fill_(1)
        happened = a.record_event()
    b.wait_event(happened)
    with cuda.stream(b):
        y = x.clone()
    assert not happened.query() and not a.query() and not b.query()
    assert not fake.advance(b)  # it waits for a
    while fake.waiting(a):
        assert fake.advance(a)
    assert happened.query() and a.query()
    b.synchronize()
    assert y.tolist() == [1] * 4


def test_without_waiting_the_order_is_open(fake):
    fake.delay(True)
    a, b = cuda.Stream(), cuda.Stream()
    x = fb.zeros(4, device="cuda")
    cuda.synchronize()
    with cuda.stream(a):
        x.fill_(1)
    with cuda.stream(b):
        y = x.clone()
        b.synchronize()
        assert y.tolist() == [0] * 4
    a.synchronize()
    assert x.tolist() == [1] * 4


def test_four_streams_give_what_one_gives(fake):
    fake.delay(True)
    x = fb.arange(1000.0).cuda()
    cuda.synchronize()
    streams, results = [cuda.Stream() for _ in range(4)], []
    for k, s in enumerate(streams):
        s.wait_stream(cuda.current_stream())
        with cuda.stream(s):
            y = x * float(k)
            for _ in range(5):
                y = y + x
            results.append(y)
    for k, s in enumerate(streams):
        cuda.current_stream().wait_stream(s)
        results[k].record_stream(cuda.current_stream())
    for k, y in enumerate(results):
        assert y.tolist() == [(k + 5.0) * v for v in range(1000)]


def test_copies_to_the_host_wait_for_their_stream(fake):
    fake.delay(True)
    x = fb.arange(10.0).cuda()
    for _ in range(3):
        x = x + x
    assert x.tolist() == [8.0 * k for k in range(10)]
    y = (x + 1).to("cpu", non_blocking=True)  # into pageable memory: complete when it returns
    assert y.tolist() == [8.0 * k + 1 for k in range(10)]


def test_non_blocking_into_pinned_memory(fake):
    fake.delay(True)
    x = fb.ones(10, device="cuda")
    out = fb.zeros(10, pin_memory=True)
    out.copy_(x, non_blocking=True)
    assert out.tolist() == [0] * 10
    cuda.current_stream().synchronize()
    assert out.tolist() == [1] * 10


def test_times():
    a, b = cuda.Event(enable_timing=True), cuda.Event(enable_timing=True)
    assert a.query() and a.device is None
    a.record()
    b.record()
    assert a.elapsed_time(b) > 0 and b.elapsed_time(a) < 0 and a.device == fb.device("cuda:0")
    with pytest.raises(RuntimeError, match="enable_timing"):
        a.elapsed_time(cuda.Event())
    with pytest.raises(RuntimeError, match="cuda:1"):
        a.record(cuda.Stream("cuda:1"))


def test_between_devices_in_order(fake):
    fake.delay(True)
    x = fb.zeros(100, device="cuda:0")
    x.fill_(3)
    y = x.to("cuda:1")
    assert (y + 1).tolist() == [4] * 100


def test_devices():
    assert cuda.device_count() == 2 and cuda.get_device_name(1) == "emulated device 1"
    assert cuda.get_device_capability() == (9, 0) and cuda.get_arch_list() == ["sm_90"]
    properties = cuda.get_device_properties("cuda:1")
    assert properties.total_memory == 1 << 30 and properties.multi_processor_count == 132
    with cuda.device(1):
        assert cuda.current_device() == 1 and fb.ones(1, device="cuda").get_device() == 1
        with cuda.device("cuda:0"), cuda.device(None), cuda.device(-1):
            assert cuda.current_device() == 0
    cuda.set_device("cuda:1")
    assert fb.ones(2).cuda().device == fb.device("cuda:1") and fb.ones(2).cuda(0).device.index == 0
    cuda.set_device(0)
    with cuda.device_of(fb.ones(1, device="cuda:1")):
        assert cuda.current_device() == 1
    for bad in (7, "cuda:7"):
        with pytest.raises(RuntimeError, match="ordinal"):
            fb.ones(1, device=bad)
        with pytest.raises(RuntimeError, match="ordinal"):
            cuda.set_device(bad)
    with pytest.raises(ValueError, match="CUDA device"):
        cuda.synchronize("cpu")
    assert cuda.can_device_access_peer(0, 1) and cuda.is_initialized() and cuda.mem_get_info()[1] == 1 << 30
    assert fb.device(0) == fb.device("cuda:0") and fb.ones(2, device=1).device == fb.device("cuda:1")
