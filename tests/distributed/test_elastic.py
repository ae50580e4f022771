"""Functions in several processes: results, restarts, and errors that are told; local SGD, whose models are averaged."""

import json
import os
import signal
import sys
import time

import pytest

import flambeau
import flambeau.distributed as dist
from flambeau import nn
from flambeau.distributed.algorithms.ddp_comm_hooks.post_localSGD_hook import PostLocalSGDState, post_localSGD_hook
from flambeau.distributed.algorithms.model_averaging.averagers import PeriodicModelAverager
from flambeau.distributed.algorithms.model_averaging.hierarchical_model_averager import HierarchicalModelAverager
from flambeau.distributed.elastic.multiprocessing import DefaultLogsSpecs, Std
from flambeau.distributed.elastic.multiprocessing.errors import ChildFailedError, ProcessFailure, record
from flambeau.distributed.launcher import LaunchConfig, elastic_launch
from flambeau.distributed.optim import PostLocalSGDOptimizer
from flambeau.distributed.run import launched, parse_args


def config(**options):
    return LaunchConfig(1, 1, 2, start_method="fork", **{"max_restarts": 0} | options)


def add_up(number):
    dist.init_process_group()
    x = flambeau.tensor(number + dist.get_rank())
    dist.all_reduce(x)
    dist.destroy_process_group()
    print("rank", os.environ["RANK"], flush=True)
    return int(x), "y" * 200_000  # more than a pipe holds


def fail_at_first(place):
    if os.environ["RANK"] == "1" and os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
        raise KeyError("at first")
    return os.environ["TORCHELASTIC_RESTART_COUNT"]


def fail(how):
    if os.environ["RANK"] == "0":
        time.sleep(30)
    if how == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    raise ValueError("no such number")


def test_functions_return(tmp_path):
    logs = DefaultLogsSpecs(tmp_path, redirects={1: Std.OUT})
    found = elastic_launch(config(logs_specs=logs, run_id="r"), add_up)(10)
    assert found == dict.fromkeys((0, 1), (21, "y" * 200_000))
    assert (tmp_path / "r/attempt_0/1/stdout.log").read_text() == "rank 1\n"
    assert elastic_launch(config(max_restarts=1), fail_at_first)(3) == {0: "1", 1: "1"}
    assert elastic_launch(config(), sys.executable)("-c", "pass") == {0: None, 1: None}


def test_failures_are_told():
    begin = time.monotonic()
    with pytest.raises(ChildFailedError, match=r"trainer: rank 1 \(local rank 1(.|\n)*ValueError: no such") as found:
        elastic_launch(config(role="trainer"), fail)("raise")
    rank, failure = found.value.get_first_failure()
    assert rank == 1 and failure.exitcode == 1 and failure.message["message"] == "ValueError: no such number"
    with pytest.raises(ChildFailedError, match="ended by SIGKILL") as found:
        elastic_launch(config(), fail)("kill")
    assert found.value.failures[1].signal_name() == "SIGKILL" and time.monotonic() - begin < 10


def test_a_recorded_error_is_a_file(tmp_path, monkeypatch, capfd):
    def main(code=None):
        if code is not None:
            sys.exit(code)
        return {}["key"]

    monkeypatch.setenv("TORCHELASTIC_ERROR_FILE", str(tmp_path / "error.json"))
    with pytest.raises(KeyError):
        record(main)()
    told = json.loads((tmp_path / "error.json").read_text())["message"]
    assert told["message"] == "KeyError: 'key'" and "in main" in told["extraInfo"]["py_callstack"]
    assert record(main)(0) is None
    with pytest.raises(SystemExit):
        record(main)(3)

    def parent():
        raise ChildFailedError("child", {0: ProcessFailure(0, 1, 9, str(tmp_path / "error.json"))})

    monkeypatch.setenv("TORCHELASTIC_ERROR_FILE", str(tmp_path / "handed_on.json"))
    with pytest.raises(ChildFailedError):
        record(parent)()
    assert json.loads((tmp_path / "handed_on.json").read_text())["message"]["errorCode"] == 9

    program = tmp_path / "program.py"
    program.write_text("from flambeau.distributed.elastic.multiprocessing.errors import record\n"
                       "@record\ndef main():\n    raise OSError('nothing there')\nmain()")
    assert launched(parse_args([str(program)])) == 1
    assert "ended with code 1: OSError: nothing there" in capfd.readouterr().err


@pytest.mark.parametrize(("options", "error"), [
    ({"virtual_local_rank": True}, "virtual_local_rank is not"), ({"shutdown_timeout": -1}, "negative, got -1"),
    ({"event_log_handler": "console"}, "cannot be chosen"),
    ({"max_nodes": 2, "min_nodes": 2, "rdzv_backend": "etcd"}, "use c10d"),
    ({"logs_specs": DefaultLogsSpecs("/tmp", tee=Std.ALL)}, "not both")])
def test_what_is_not_available_says_so(options, error):
    with pytest.raises((NotImplementedError, ValueError), match=error):
        elastic_launch(LaunchConfig(**{"min_nodes": 1, "max_nodes": 1, "nproc_per_node": 1} | options), print)()


# --- local SGD --------------------------------------------------------------------------------------------------------

def step_by_step(period, warmup, hook):
    """The weight after each of six steps; rank r's gradient is r."""
    rank = dist.get_rank()
    w = nn.Parameter(flambeau.zeros(1, dtype=flambeau.float64))
    averager = PeriodicModelAverager(period, warmup) if period else HierarchicalModelAverager({1: 2, 3: 4}, warmup)
    optimizer = PostLocalSGDOptimizer(flambeau.optim.SGD([w], lr=1.0), averager)
    model = nn.Module()
    model.w, model.forward = w, lambda: (w * -rank).sum()
    if hook:
        module = model
        model = nn.parallel.DistributedDataParallel(module)
        pairs, _ = dist.new_subgroups(2)
        model.register_comm_hook(PostLocalSGDState(None, pairs, 2, hook == "pairs"), post_localSGD_hook)
    seen = []
    for _ in range(6):
        optimizer.zero_grad()
        model().backward()
        optimizer.step()
        seen.append(float(w))
    state = optimizer.state_dict()
    assert state["step"] == 6
    averager.step = 0
    optimizer.load_state_dict(state)
    assert averager.step == 6
    return seen


def test_models_are_averaged_now_and_then(ranks):
    found = ranks.run(step_by_step, 3, 1, None)  # after steps 1 and 4, counted from 0
    for rank in range(4):
        assert found[rank] == [rank, 3, 3 + rank, 3 + 2 * rank, 7.5, 7.5 + rank]
    found = ranks.run(step_by_step, None, 0, None)  # in pairs after every step, all after steps 0 and 3
    assert found[0] == found[1] == [1.5, 2.0, 2.5, 6.0, 6.5, 7.0] and found[2] == found[3] == [1.5, 4, 6.5, 6, 8.5, 11]


def test_gradients_in_pairs_or_not_at_all(ranks):
    found = ranks.run(step_by_step, 100, 100, "pairs")  # two steps together, then in pairs
    assert found == [[1.5, 3.0, 3.5, 4.0, 4.5, 5.0]] * 2 + [[1.5, 3.0, 5.5, 8.0, 10.5, 13.0]] * 2
    found = ranks.run(step_by_step, 100, 100, "alone")
    assert found == [[1.5, 3.0, *(3 + r * k for k in range(1, 5))] for r in range(4)]


def test_averagers_say_what_they_expect():
    with pytest.raises(ValueError, match="period must be at least 1"):
        PeriodicModelAverager(0)
    dist.init_process_group(store=dist.HashStore(), rank=0, world_size=1)
    with pytest.raises(ValueError, match="both ascending"):
        HierarchicalModelAverager({2: 2})
    dist.destroy_process_group()
