"""Groups split into parts and without ranks that are gone; reports, titles of calls, a debugger in one rank."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import flambeau
import flambeau.distributed as dist

from .pool import Ranks

SOURCES = str(Path(flambeau.__file__).resolve().parents[1])


def summed(group=None):
    x = flambeau.ones(1)
    dist.all_reduce(x, group=group)
    return x.item()


def split():
    me = dist.get_rank()
    halves = dist.split_group(split_ranks=[[0, 2], [3, 1]], group_desc="halves")
    single = dist.split_group(halves, [[1]])  # ranks of that group
    one = dist.split_group(split_ranks=[[2, 0]], backend="cpu:gloo")
    for wrong, error in (([[0, 1], [1]], "each at most once"), ([[4]], "from 0 to 3"), ([[]], "none of them empty"),
                         (None, "none of them empty")):
        with pytest.raises(ValueError, match=error):
            dist.split_group(split_ranks=wrong)
    with pytest.raises(ValueError, match="no backend 'cpu:mpi'"):
        dist.split_group(split_ranks=[[0]], backend="mpi")
    return (halves.group_desc, halves.ranks, summed(halves), single and single.ranks, one and summed(one), me)


def shrunk():
    me = dist.get_rank()
    pair = dist.new_group([0, 2])
    if me == 1:
        with pytest.raises(RuntimeError, match="rank 1 is excluded"):
            dist.shrink_group([1])
        return None
    for wrong in ([], [3], [0, 0]):
        with pytest.raises(ValueError, match="different ranks"):
            dist.shrink_group(wrong)
    with pytest.raises(ValueError, match="nobody would be left"):
        dist.shrink_group([0, 1, 2])
    world = dist.shrink_group([1], shrink_flags=dist.SHRINK_ABORT)
    with pytest.raises(ValueError, match="destroyed"):
        dist.barrier(pair)
    assert world is dist.group.WORLD
    return dist.get_rank(), dist.get_world_size(), summed()


def shrunk_part():
    group = dist.new_group([0, 1, 2])
    if dist.get_rank() == 2:
        return None
    smaller = dist.shrink_group([2], group)
    return smaller.ranks, summed(smaller), dist.get_world_size()


def titled(path):
    with dist.timeline(path):
        with dist.record_comm("gradients of layer 1"):
            work = dist.all_reduce(flambeau.ones(3), async_op=True)
        work.wait()
        dist.all_reduce(flambeau.ones(2))


def test_parts_of_a_group(ranks):
    found = ranks.run(split)
    assert [f[:3] for f in found] == [("halves", [0, 2], 2.0), ("halves", [1, 3], 2.0)] * 2
    assert [f[3] for f in found] == [None, None, [2], [3]]
    assert [f[4] for f in found] == [2.0, None, 2.0, None]


def test_groups_without_ranks_that_are_gone():
    three = Ranks(3)
    try:
        assert three.run(shrunk_part) == [([0, 1], 2.0, 3), ([0, 1], 2.0, 3), None]
        assert three.run(shrunk) == [(0, 2, 2.0), None, (1, 2, 2.0)]
    finally:
        three.end()


def test_titles_of_calls(ranks, tmp_path):
    ranks.run(titled, str(tmp_path / "trace.json"))
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    mine = [e for e in events if e["pid"] == 0 and e["ph"] == "X"]
    assert sorted(e["name"] for e in mine) == ["all_reduce", "gradients of layer 1"]
    assert all("test_splitting.py" in e["args"]["at"] and "gradients" not in e["args"]["at"] for e in mine)


def test_levels_of_reports(monkeypatch):
    assert dist.get_debug_level() is dist.DebugLevel.OFF
    try:
        dist.set_debug_level(dist.DebugLevel.DETAIL)
        assert dist.get_debug_level() is dist.DebugLevel.DETAIL
        monkeypatch.setenv("TORCH_DISTRIBUTED_DEBUG", "info")
        dist.set_debug_level_from_env()
        assert dist.get_debug_level() is dist.DebugLevel.INFO
        monkeypatch.setenv("TORCH_DISTRIBUTED_DEBUG", "much")
        with pytest.raises(ValueError, match="'MUCH'"):
            dist.set_debug_level_from_env()
        with pytest.raises(TypeError, match="DebugLevel"):
            dist.set_debug_level(1)
    finally:
        dist.set_debug_level(dist.DebugLevel.OFF)


@pytest.mark.parametrize("text, kinds", [
    ("gloo", {"cpu": "gloo", "cuda": "gloo"}), ("nccl", {"cuda": "nccl"}), ("mpi", {"cpu": "mpi", "cuda": "mpi"}),
    ("cpu:gloo,cuda:nccl", {"cpu": "gloo", "cuda": "nccl"})])
def test_backends_of_kinds_of_devices(text, kinds):
    assert dist.BackendConfig(dist.Backend(text)).get_device_backend_map() == kinds
    assert repr(dist.BackendConfig("cpu:gloo,cuda:nccl")) == "cpu:gloo,cuda:nccl"
    with pytest.raises(ValueError, match="two backends"):
        dist.BackendConfig("cpu:gloo,cpu:mpi")
    assert dist.GroupName("x") == "x"


def test_a_debugger_in_one_rank():
    program = ("import flambeau.distributed as dist\n"
               "dist.init_process_group('gloo', store=dist.HashStore(), rank=0, world_size=1)\n"
               "dist.breakpoint(0, skip=1)\n"
               "inside = 'the program'\n"
               "dist.breakpoint(0)\n"
               "print('over')\n")
    done = subprocess.run([sys.executable, "-c", program], input="up\np inside\nc\n", capture_output=True, text=True,
                          timeout=60, env={**os.environ, "PYTHONPATH": SOURCES})
    assert done.stdout.count("(Pdb)") == 3 and "'the program'" in done.stdout and "over" in done.stdout, done.stderr
