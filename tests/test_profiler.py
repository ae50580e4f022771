"""The profiler: what it records, and what it writes."""

import gzip
import json

import pytest

import flambeau
from flambeau.autograd import profiler as plain
from flambeau.profiler import (
    ProfilerAction,
    ProfilerActivity,
    profile,
    record_function,
    schedule,
    tensorboard_trace_handler,
)


def work():
    x = flambeau.rand(32, 32, requires_grad=True)
    (x @ x).tanh().sum().backward()


def test_operators_and_backward_nodes_are_recorded():
    with profile(activities=[ProfilerActivity.CPU], record_shapes=True) as prof:
        work()
    names = [e.name for e in prof.events()]
    assert {"aten::rand", "aten::matmul", "aten::tanh", "aten::sum"} <= set(names)
    node = next(e for e in prof.events() if e.name == "autograd::engine::evaluate_function: TanhBackward0")
    assert node.cpu_children and node.cpu_time_total >= sum(c.cpu_time_total for c in node.cpu_children)
    assert any("AccumulateGrad" in n for n in names)
    product = next(e for e in prof.events() if e.name == "aten::matmul")
    assert product.input_shapes[:2] == [[32, 32], [32, 32]]


def test_averages_and_table():
    with profile(record_shapes=True, profile_memory=True) as prof:
        a = flambeau.ones(1000)
        for _ in range(5):
            a = a + 1
        b = flambeau.ones(10) + 1  # noqa: F841
    averages = prof.key_averages()
    add = next(a for a in averages if a.key == "aten::add")
    assert add.count == 6 and add.self_cpu_time_total > 0
    assert add.cpu_time == pytest.approx(add.cpu_time_total / 6)
    by_shape = [a for a in prof.key_averages(group_by_input_shape=True) if a.key == "aten::add"]
    assert sorted(a.count for a in by_shape) == [1, 5]
    text = averages.table(sort_by="self_cpu_time_total", row_limit=3)
    for column in ("Name", "Self CPU %", "CPU total", "CPU time avg", "CPU Mem", "# of Calls", "Self CPU time total:"):
        assert column in text
    assert "aten::add" in text
    with pytest.raises(AttributeError, match="sort_by"):
        averages.table(sort_by="colour")


def test_memory_is_the_allocators():
    with plain.profile(profile_memory=True) as prof:
        kept = flambeau.zeros(1 << 16)  # noqa: F841
    event = next(e for e in prof.function_events if e.name == "aten::zeros")
    # a block of its size, or one of up to half as much again that was waiting
    assert 4 << 16 <= event.cpu_memory_usage <= 6 << 16


def test_ranges_nest_and_decorate():
    @record_function("decorated")
    def f():
        return flambeau.ones(2)
    with plain.profile() as prof, record_function("outer"):
        f()
    outer, inner, op = prof.function_events[:3]
    assert (outer.name, inner.name, op.name) == ("outer", "decorated", "aten::ones")
    assert inner.cpu_parent is outer and op.cpu_parent is inner
    assert outer.self_cpu_time_total == pytest.approx(outer.cpu_time_total - inner.cpu_time_total)


def test_schedule_and_handler():
    recorded = []
    plan = schedule(wait=1, warmup=1, active=2, repeat=2, skip_first=1)
    actions = [plan(k) for k in range(11)]
    assert [a.name for a in actions[:5]] == ["NONE", "NONE", "WARMUP", "RECORD", "RECORD_AND_SAVE"]
    assert actions[9] is ProfilerAction.NONE
    with profile(schedule=plan, on_trace_ready=lambda p: recorded.append((p.step_num, list(p.events())))) as prof:
        for _ in range(11):
            flambeau.ones(3) + 1
            prof.step()
    assert [step for step, _ in recorded] == [5, 9]
    steps = [e.name for e in recorded[0][1] if e.name.startswith("ProfilerStep")]
    assert steps == ["ProfilerStep#3", "ProfilerStep#4"]


def test_chrome_trace_is_the_trace_event_format(tmp_path):
    with profile(record_shapes=True, with_stack=True, profile_memory=True) as prof:
        work()
    prof.add_metadata("who", "me")
    path = tmp_path / "trace.json"
    prof.export_chrome_trace(str(path))
    trace = json.loads(path.read_text())
    assert trace["who"] == "me"
    events = [e for e in trace["traceEvents"] if e["ph"] == "X"]
    assert len(events) == len(prof.events())
    assert all(e["dur"] >= 0 and e["ts"] >= 0 and {"name", "pid", "tid"} <= e.keys() for e in events)
    assert any("test_profiler.py" in e["args"].get("Call stack", "") for e in events)
    parents = sorted((e["ts"], -e["dur"], e["tid"]) for e in events)
    assert parents
    prof.export_stacks(str(tmp_path / "stacks.txt"))
    assert "work" in (tmp_path / "stacks.txt").read_text()


def test_tensorboard_handler(tmp_path):
    with profile(on_trace_ready=tensorboard_trace_handler(str(tmp_path / "logs"), "worker0", use_gzip=True)):
        work()
    (path,) = (tmp_path / "logs").iterdir()
    assert path.name.startswith("worker0.") and path.name.endswith(".pt.trace.json.gz")
    with gzip.open(path, "rt") as f:
        assert json.load(f)["traceEvents"]


def test_flops_and_modules():
    layer = flambeau.nn.Sequential(flambeau.nn.Linear(8, 16))
    with profile(with_flops=True, with_modules=True) as prof:
        layer(flambeau.ones(4, 8))
    event = next(e for e in prof.events() if e.name == "aten::linear")
    assert event.flops == 2 * 4 * 8 * 16
    assert event.module_hierarchy == ["Sequential", "Linear"]


def test_an_error_inside_leaves_the_profiler_usable():
    x = flambeau.ones(2, requires_grad=True)

    class Bad(flambeau.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            raise ValueError("no")
    with plain.profile() as prof:
        with pytest.raises(ValueError, match="no"):
            Bad.apply(x).sum().backward()
        with pytest.raises(RuntimeError):
            flambeau.ones(2) @ flambeau.ones(3)
        flambeau.ones(3)
    assert prof.function_events[-1].name == "aten::ones" and prof.function_events[-1].cpu_parent is None
    assert not flambeau._C.profile_on()


def test_two_at_once_are_refused():
    with plain.profile(), pytest.raises(RuntimeError, match="another profiler"), plain.profile():
        pass


def test_further_settings():
    config = flambeau.profiler._ExperimentalConfig(verbose=True, profile_all_threads=True)
    with flambeau.profiler.profile(with_stack=True, experimental_config=config) as prof:
        flambeau.ones(1)
    assert prof.events()[0].stack
    for asked in ({"profiler_metrics": ["cycles"]}, {"record_python_gc_info": True}):
        with pytest.raises(NotImplementedError, match=next(iter(asked))):
            flambeau.profiler.profile(experimental_config=flambeau.profiler._ExperimentalConfig(**asked))
