"""ExecutionTraceObserver: the nodes of a trace, how they hang together, and when it observes; counters of steps."""

import json
import os
import threading
from types import SimpleNamespace

import pytest

import flambeau
from flambeau.autograd.profiler import EnforceUnique, KinetoStepTracker, MemRecordsAcc, load_nvprof
from flambeau.profiler import ExecutionTraceObserver, profile, record_function


def observed(path, run):
    observer = ExecutionTraceObserver().register_callback(path)
    observer.start()
    try:
        run()
    finally:
        observer.stop()
        observer.unregister_callback()
    trace = json.loads(path.read_text())
    return trace, {node["name"]: node for node in reversed(trace["nodes"])}  # the first of each name


def test_nodes_of_a_program(tmp_path):
    x = flambeau.ones(2, 3, requires_grad=True)

    def run():
        with record_function("step"):
            y = flambeau.cat([x, x[:1]]).transpose(0, 1).double()
            y.sum().backward()
    trace, nodes = observed(tmp_path / "t.json", run)
    assert trace["schema"] == "1.1.1-chakra.0.0.4" and trace["pid"] == os.getpid()
    assert trace["start_ts"] <= trace["finish_ts"]
    numbers = [node["id"] for node in trace["nodes"]]
    assert len(set(numbers)) == len(numbers) and numbers[-1] == 1
    assert all(node["ctrl_deps"] in numbers for node in trace["nodes"])
    assert nodes["step"]["ctrl_deps"] == trace["nodes"][0]["id"]
    cat, turned = nodes["aten::cat"], nodes["aten::transpose"]
    assert cat["ctrl_deps"] == nodes["step"]["id"]
    assert cat["inputs"]["types"] == ["GenericList[Tensor(float),Tensor(float)]", "Int"]
    assert cat["inputs"]["shapes"] == [[[2, 3], [1, 3]], []]
    (number, memory, *rest), = cat["outputs"]["values"]
    assert rest == [0, 9, 4, "cpu"] and cat["outputs"]["strides"] == [[3, 1]]
    assert turned["inputs"]["values"][0] == [number, memory, *rest]  # the same tensor
    assert turned["outputs"]["values"][0][1] == memory  # a view
    assert {a["name"] for a in cat["attrs"]} >= {"rf_id", "seq_id", "scope", "tid", "op_schema"}
    assert any(name.startswith("aten::") and name not in ("aten::cat", "aten::transpose") for name in nodes)


def test_values_of_other_kinds(tmp_path):
    def run():
        flambeau.full((2,), 1.5, dtype=flambeau.float16, device="meta")
        flambeau.einsum("i,i", flambeau.ones(2, dtype=flambeau.complex64), flambeau.ones(2, dtype=flambeau.complex64))
        flambeau.eye(2).to_sparse()
        flambeau.ones(2).split([1, 1])
    nodes = observed(tmp_path / "t.json", run)[1]
    assert nodes["aten::full"]["outputs"]["types"] == ["Tensor(c10::Half)"]
    assert nodes["aten::full"]["outputs"]["values"][0][1] == 0
    assert "String" in nodes["aten::einsum"]["inputs"]["types"]
    assert nodes["aten::split"]["outputs"]["types"] in (["Tensor(float)", "Tensor(float)"],
                                                       ["GenericList[Tensor(float),Tensor(float)]"])


def test_custom_operators_and_errors(tmp_path):
    flambeau.library.define("traced::twice", "(Tensor x) -> Tensor")
    flambeau.library.impl("traced::twice", "cpu", lambda x: x * 2)

    def run():
        flambeau.ops.traced.twice(flambeau.ones(1))
        with pytest.raises(RuntimeError):
            flambeau.ones(2) @ flambeau.ones(3)
        flambeau.zeros(1)
    trace, nodes = observed(tmp_path / "t.json", run)
    assert nodes["traced::twice"]["inputs"]["shapes"] == [[1]]
    assert nodes["aten::zeros"]["ctrl_deps"] == trace["nodes"][0]["id"]  # nothing of what failed stays open


def test_it_observes_between_start_and_stop_and_its_own_thread(tmp_path):
    observer = ExecutionTraceObserver()
    observer.start()
    assert not observer.is_running() and not observer.is_registered and observer.get_output_file_path() is None
    observer.register_callback(tmp_path / "t.json")
    flambeau.ones(1)
    observer.start()
    flambeau.zeros(1)
    other = threading.Thread(target=lambda: flambeau.eye(1))
    other.start()
    other.join()
    observer.stop()
    flambeau.ones(1)
    observer.start()
    flambeau.arange(1)
    observer.cleanup()
    names = [node["name"] for node in json.loads((tmp_path / "t.json").read_text())["nodes"]]
    assert names[1:-1] == ["aten::zeros", "aten::arange"]
    assert not observer.is_running() and not observer.is_registered


def test_a_profile_takes_one(tmp_path):
    path = tmp_path / "t.json"
    observer = ExecutionTraceObserver().register_callback(str(path))
    plan = flambeau.profiler.schedule(wait=1, warmup=0, active=1, repeat=1)
    with profile(schedule=plan, execution_trace_observer=observer) as prof:
        for step in range(3):
            flambeau.full((step + 1,), 0.0)
            prof.step()
    nodes = json.loads(path.read_text())["nodes"]
    assert [n["outputs"]["shapes"] for n in nodes if n["name"] == "aten::full"] == [[[2]]]
    assert any(n["name"] == "ProfilerStep#1" for n in nodes)


def test_places_beside_a_trace(tmp_path, monkeypatch):
    observer = ExecutionTraceObserver().register_callback(str(tmp_path / "t.json"))
    assert observer.get_resources_dir() is None
    observer.set_extra_resource_collection(True)
    assert observer.get_resources_dir() == str(tmp_path / "t_resources")
    assert ExecutionTraceObserver.get_resources_dir_for_et_path(str(tmp_path / "u.json")) is None
    assert ExecutionTraceObserver.build_execution_trace_obs_from_env() is None
    monkeypatch.setenv("ENABLE_PYTORCH_EXECUTION_TRACE", "1")
    made = ExecutionTraceObserver.build_execution_trace_obs_from_env()
    assert made.is_registered and made.get_output_file_path().endswith(".et.json")
    made.cleanup()
    os.remove(made.get_output_file_path())


def test_counters_of_steps():
    first = KinetoStepTracker.current_step()
    KinetoStepTracker.init_step_count("a")
    assert KinetoStepTracker.increment_step("a") == first + 1
    KinetoStepTracker.init_step_count("b")
    assert KinetoStepTracker.increment_step("a") == KinetoStepTracker.increment_step("b") == first + 2
    assert KinetoStepTracker.erase_step_count("a") and KinetoStepTracker.erase_step_count("b")
    assert not KinetoStepTracker.erase_step_count("a") and KinetoStepTracker.current_step() == first + 2


def test_what_else_programs_take_from_the_profiler():
    unique = EnforceUnique()
    unique.see("a", 1)
    unique.see("a", 2)
    with pytest.raises(RuntimeError, match="came before"):
        unique.see("a", 1)
    records = [(SimpleNamespace(start_ns=lambda at=at: at), at) for at in (5000, 1000, 3000)]
    assert [at for _, at in MemRecordsAcc(records).in_interval(1, 3)] == [1000, 3000]
    with pytest.raises(NotImplementedError, match="nvprof"):
        load_nvprof("trace.nvvp")
    with flambeau.autograd.profiler.emit_nvtx(enabled=False), pytest.raises(NotImplementedError, match="NVTX"):
        flambeau.autograd.profiler.emit_nvtx()
