"""Saving in the background: the values of the call, in the order of the calls, whole files, errors in the result."""

import concurrent.futures
import io
import os
import subprocess
import sys

import pytest

import flambeau
from flambeau import serialization


def test_the_result_is_a_future(tmp_path):
    future = flambeau.save({"w": flambeau.ones(3)}, tmp_path / "x.pt", background=True)
    assert isinstance(future, concurrent.futures.Future) and future.result(60) is None
    assert flambeau.load(tmp_path / "x.pt")["w"].tolist() == [1, 1, 1]
    assert os.listdir(tmp_path) == ["x.pt"]


def test_values_are_those_of_the_call(tmp_path):
    """Changes while the file is written, in place and of the dict, are not in it; what is shared stays shared."""
    w, plain = flambeau.zeros(1 << 20), {"n": 1}
    state = {"w": w, "part": w[:2], "plain": plain}
    futures = []
    for k in range(10):
        w.fill_(k)
        plain["n"] = k
        futures.append(flambeau.save(state, tmp_path / f"{k}.pt", background=True))
    w.fill_(-1)
    for k, future in enumerate(futures):
        future.result(60)
        found = flambeau.load(tmp_path / f"{k}.pt")
        assert found["plain"] == {"n": k} and (found["w"] == k).all()
        assert found["part"].data_ptr() == found["w"].data_ptr()


def test_one_file_is_replaced_in_the_order_of_the_calls(tmp_path):
    path = tmp_path / "x.pt"
    futures = [flambeau.save(flambeau.full((100_000,), k), path, background=True) for k in range(20)]
    last = -1
    while not futures[-1].done():
        if path.exists():
            seen = flambeau.load(path)
            assert (seen == seen[0]).all() and seen[0] >= last, "a torn file, or an older one"
            last = seen[0].item()
    assert (flambeau.load(path) == 19).all() and os.listdir(tmp_path) == ["x.pt"]


def test_each_storage_is_copied_once(tmp_path, monkeypatch):
    copied = []
    clone = flambeau.Tensor.clone
    monkeypatch.setattr(flambeau.Tensor, "clone", lambda t: copied.append(t.nbytes) or clone(t))
    x = flambeau.zeros(1000)
    flambeau.save([x, x[1:], x.view(10, 100), flambeau.ones(3)], tmp_path / "x.pt", background=True).result(60)
    assert copied == [4000, 12]


def test_what_cannot_be_stored_is_said_at_once(tmp_path):
    with pytest.raises(TypeError, match="cannot be stored"):
        flambeau.save(lambda: 1, tmp_path / "x.pt", background=True)


def test_what_goes_wrong_while_writing_is_in_the_result(tmp_path):
    future = flambeau.save(1, tmp_path / "none" / "x.pt", background=True)
    with pytest.raises(RuntimeError, match="there is no folder"):
        future.result(60)
    assert flambeau.save(2, tmp_path / "x.pt", background=True).result(60) is None


def test_streams_legacy_and_skipped_data(tmp_path):
    file = io.BytesIO()
    flambeau.save(flambeau.ones(2), file, background=True, _use_new_zipfile_serialization=False).result(60)
    assert flambeau.load(file).tolist() == [1, 1]
    with serialization.skip_data():
        future = flambeau.save(flambeau.ones(2), tmp_path / "x.pt", background=True)
    future.result(60)
    assert flambeau.load(tmp_path / "x.pt").tolist() == [0, 0]


def test_a_program_that_ends_waits_for_its_files(tmp_path):
    program = "import sys, flambeau; flambeau.save(flambeau.ones(5_000_000), sys.argv[1], background=True)"
    subprocess.run([sys.executable, "-c", program, str(tmp_path / "x.pt")], check=True)
    assert flambeau.load(tmp_path / "x.pt").numel() == 5_000_000


def test_the_child_of_a_fork_has_a_thread_of_its_own(tmp_path):
    program = """
import os, sys, flambeau
flambeau.save(1, sys.argv[1] + "/a.pt", background=True).result(60)
if (child := os.fork()) == 0:
    flambeau.save(2, sys.argv[1] + "/b.pt", background=True).result(60)
    os._exit(0)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    subprocess.run([sys.executable, "-c", program, str(tmp_path)], check=True, timeout=120)
    assert flambeau.load(tmp_path / "b.pt") == 2
