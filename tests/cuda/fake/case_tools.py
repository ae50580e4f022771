"""NVIDIA's tools: what the management library says, marks for timelines, when the profiler looks."""

import ctypes

import pytest

import flambeau as fb
from flambeau import cuda
from flambeau.cuda import _nvml, nvtx

from . import build


@pytest.fixture
def library(monkeypatch):
    path = str(build("nvml", "-O1", "-fvisibility=hidden"))
    monkeypatch.setattr(_nvml, "_NAMES", (path,))
    monkeypatch.setattr(nvtx, "_NAMES", (path,))
    monkeypatch.setattr(nvtx, "_PACKAGES", ())
    for module in (_nvml, nvtx):
        module._library.cache_clear()
    yield ctypes.CDLL(path)
    for module in (_nvml, nvtx):
        module._library.cache_clear()


def test_what_the_management_library_says(library):
    assert (cuda.utilization(), cuda.memory_usage()) == (71, 23)
    assert (cuda.temperature(), cuda.power_draw(), cuda.clock_rate("cuda:0")) == (45, 123456, 1001)
    assert cuda.list_gpu_processes() == "GPU:0\nprocess       4321 uses        3.000 MB GPU memory"


def test_without_the_library(monkeypatch):
    for module in (_nvml, nvtx):
        monkeypatch.setattr(module, "_NAMES", ("libnot-there.so",))
        module._library.cache_clear()
    monkeypatch.setattr(nvtx, "_PACKAGES", ())
    with pytest.raises(RuntimeError, match=r"libnot-there\.so.*comes with the driver"):
        cuda.temperature()
    with pytest.raises(RuntimeError, match="pip install nvidia-nvtx-cu12"):
        nvtx.mark("here")


def test_marks_and_ranges(library):
    library.fake_marked.restype = ctypes.c_char_p
    assert nvtx.range_push("a") == 0 and nvtx.range_push("b") == 1 and nvtx.range_pop() == 1
    nvtx.mark("c")
    with nvtx.range("{}-{x}", 1, x=2):
        pass
    number = nvtx.range_start("d")
    nvtx.range_end(number)

    @nvtx.range("e")
    def f():
        raise ValueError

    with pytest.raises(ValueError):
        f()
    assert nvtx.range_pop() == 0
    assert library.fake_marked() == b"<a<b>!c<1-2>(d)<e>>"


def test_the_profiler_looks_while_it_is_told_to(fake):
    with cuda.profiler.profile():
        assert (fake.calls("cuProfilerStart"), fake.calls("cuProfilerStop")) == (1, 0)
    assert fake.calls("cuProfilerStop") == 1


def test_streams_and_events_of_whichever_device():
    s, e = fb.Stream(), fb.Event(enable_timing=True)
    assert isinstance(s, cuda.Stream) and isinstance(e, cuda.Event) and s.device == fb.device("cuda:0")
    assert isinstance(cuda.Stream(), fb.Stream) and isinstance(cuda.Event(), fb.Event)
    for device in ("cuda", 0, fb.device("cuda:0")):
        assert isinstance(fb.Stream(device, priority=-1), cuda.Stream)
        assert fb.Event(device).device == fb.device("cuda:0")
    with s:
        assert cuda.current_stream() == s
        x = fb.ones(3, device="cuda")
        e.record()
    end = s.record_event(fb.Event(enable_timing=True))
    cuda.current_stream().wait_event(e)
    s.synchronize()
    assert e.query() and e.elapsed_time(end) >= 0 and x.tolist() == [1] * 3
    on_cpu = fb.Stream("cpu")
    assert not isinstance(on_cpu, cuda.Stream) and on_cpu.query() and fb.Event("cpu").query()
    with pytest.raises(RuntimeError, match="no device"):
        fb.Stream("meta")
