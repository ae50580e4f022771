"""Both sharing strategies, programs run as scripts, and the check that nothing is left in /dev/shm."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import flambeau.multiprocessing as mp
from flambeau._tensor import handover

SOURCES = str(Path(mp.__file__).resolve().parents[2])


@pytest.fixture(params=["file_descriptor", "file_system"])
def strategy(request):
    before = mp.get_sharing_strategy()
    mp.set_sharing_strategy(request.param)
    yield request.param
    mp.set_sharing_strategy(before)


@pytest.fixture(autouse=True)
def nothing_is_left():
    """No test leaves a process, a name in /dev/shm, or a tensor on its way."""
    before = set(os.listdir("/dev/shm"))
    yield
    for process in mp.active_children():
        process.join(30)
    assert not mp.active_children()
    handover.look()
    assert not {name for name in set(os.listdir("/dev/shm")) - before if "flambeau" in name}
    handover.abandon()


@pytest.fixture
def program(tmp_path):
    """Runs a text as a script; returns what it printed."""
    def run(text, *args, timeout=120, code=0, **environment):
        path = tmp_path / "program.py"
        path.write_text(text)
        found = subprocess.run(
            [sys.executable, str(path), *args], capture_output=True, text=True, timeout=timeout,
            env={**os.environ, "PYTHONPATH": SOURCES, **environment})
        assert found.returncode == code, (found.returncode, found.stdout[-2000:], found.stderr[-4000:])
        assert "Traceback" not in found.stderr or code, found.stderr[-4000:]
        return found.stdout
    return run
