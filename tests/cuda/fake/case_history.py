"""What happened to device memory, as it is recorded on request."""

import pickle

import pytest

import flambeau as fb
from flambeau import cuda
from flambeau.cuda import memory

MB = 1 << 20


@pytest.fixture(autouse=True)
def recorded():
    cuda.empty_cache()
    yield
    memory._record_memory_history(None, clear_history=True)


def bytes_on(n):
    return fb.empty(n, dtype=fb.uint8, device="cuda")


def actions(device=0):
    return [e["action"] for e in memory._snapshot()["device_traces"][device]]


def test_nothing_is_recorded_unless_asked_for():
    x = bytes_on(1000)
    assert actions() == [] and all(b["frames"] == [] for s in cuda.memory_snapshot() for b in s["blocks"])
    del x


def test_events_in_order_with_where_they_happened():
    memory._record_memory_history()
    x = bytes_on(30 * MB)
    address = x.data_ptr()
    del x
    cuda.empty_cache()
    assert actions() == ["segment_alloc", "alloc", "free_requested", "free_completed", "segment_free"]
    trace = memory._snapshot()["device_traces"][0]
    assert all(e["addr"] == address and e["size"] == 30 * MB and e["stream"] == 0 for e in trace)
    assert sorted(e["time_us"] for e in trace) == [e["time_us"] for e in trace]
    frames = trace[1]["frames"]
    assert [f["name"] for f in frames[:2]] == ["bytes_on", "test_events_in_order_with_where_they_happened"]
    assert frames[0]["filename"] == __file__ and frames[0]["line"] == bytes_on.__code__.co_firstlineno + 1
    memory._record_memory_history(None)
    bytes_on(10)
    assert len(memory._snapshot()["device_traces"][0]) == 5
    memory._record_memory_history(None, clear_history=True)
    assert actions() == []


def test_blocks_in_use_know_their_stack():
    memory._record_memory_history("state")
    kept, gone = bytes_on(5000), bytes_on(5000)
    del gone
    blocks = {b["address"]: b for s in memory._snapshot()["segments"] for b in s["blocks"]}
    assert blocks.pop(kept.data_ptr())["frames"][0]["name"] == "bytes_on"
    assert all(b["frames"] == [] for b in blocks.values()) and actions() == []
    assert all("frames" not in b for s in cuda.memory_snapshot(include_traces=False) for b in s["blocks"])


def test_how_much_is_recorded():
    memory._record_memory_history(max_entries=3, context=None)
    for _ in range(5):
        bytes_on(100)
    assert actions() == ["alloc", "free_requested", "free_completed"]
    assert all(e["frames"] == [] for e in memory._snapshot()["device_traces"][0])
    assert memory._snapshot(device=1)["device_traces"][0] == []


def test_out_of_memory_is_an_event(fake):
    memory._record_memory_history()
    fake.limit(4 * MB)
    with pytest.raises(cuda.OutOfMemoryError):
        bytes_on(64 * MB)
    event = memory._snapshot()["device_traces"][0][-1]
    assert event["action"] == "oom" and event["size"] == 64 * MB and event["device_free"] > 0


def test_a_file_for_the_viewer(tmp_path):
    memory._record_memory_history(context="all")
    x = bytes_on(700)
    memory._dump_snapshot(tmp_path / "memory.pickle")
    found = pickle.loads((tmp_path / "memory.pickle").read_bytes())
    assert set(found) == {"segments", "device_traces", "allocator_settings", "external_annotations"}
    assert found["device_traces"][0][-1]["addr"] == x.data_ptr()


def test_what_is_asked_for_is_checked():
    for options in ({"enabled": "some"}, {"context": "none"}, {"stacks": "cpp"}, {"max_entries": 0}):
        with pytest.raises(ValueError, match="_record_memory_history: "):
            memory._record_memory_history(**options)
