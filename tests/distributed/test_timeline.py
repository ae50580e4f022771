"""The timeline: which calls of which rank are in it, and what remains of it after an error."""

import json
from pathlib import Path

import flambeau
import flambeau.distributed as dist


def recorded(path):
    pair = dist.new_group([0, 1])
    with dist.timeline(path):
        dist.all_reduce(flambeau.ones(3, 2))
        if dist.get_rank() < 2:
            dist.broadcast(flambeau.ones(4), 0, pair)
        work = dist.all_reduce(flambeau.ones(5), async_op=True)
        if dist.get_rank() == 2:
            dist.send(flambeau.ones(7), 3)
        elif dist.get_rank() == 3:
            dist.recv(flambeau.ones(7), 2)
        work.wait()
    dist.all_reduce(flambeau.ones(1))


def failing(path):
    try:
        with dist.timeline(path):
            dist.barrier()
            raise ZeroDivisionError
    except ZeroDivisionError:
        return True


def test_all_ranks_are_in_one_file(ranks, tmp_path):
    ranks.run(recorded, str(tmp_path / "trace.json"))
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    calls = {rank: [e for e in events if e["pid"] == rank and e["ph"] == "X"] for rank in range(4)}
    assert sorted(e["name"] for e in calls[0]) == ["all_reduce", "all_reduce", "broadcast"]
    assert sorted(e["name"] for e in calls[2]) == ["all_reduce", "all_reduce", "send"]
    assert sorted(e["name"] for e in calls[3]) == ["all_reduce", "all_reduce", "recv"]
    first = min(calls[0], key=lambda e: e["ts"])
    assert first["args"] == {"call": "all_reduce [3, 2] float32", "at": first["args"]["at"], "group": "world"}
    assert first["args"]["at"].startswith("test_timeline.py:") and first["dur"] > 0
    assert len({e["tid"] for e in calls[0]}) == 2  # the asynchronous call has its thread
    assert sum(e["ph"] == "M" for e in events) == 4


def test_after_an_error_each_rank_has_its_own(ranks, tmp_path):
    assert ranks.run(failing, str(tmp_path / "trace.json")) == [True] * 4
    assert sorted(path.name for path in Path(tmp_path).iterdir()) == [f"trace.json.rank{r}" for r in range(4)]
    events = json.loads((tmp_path / "trace.json.rank2").read_text())["traceEvents"]
    assert [e["name"] for e in events] == ["process_name", "barrier"]
