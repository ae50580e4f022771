"""Both sharing strategies, programs run as scripts, and the check that nothing is left in /dev/shm."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import flambeau.multiprocessing as mp
from flambeau._tensor import handover, shared_memory

SOURCES = str(Path(mp.__file__).resolve().parents[2])


def forget_sent():
    """Lets go of what was sent to processes that are gone."""
    with shared_memory.lock:
        handover._pending.clear()


@pytest.fixture(params=["file_descriptor", "file_system"])
def strategy(request):
    before = mp.get_sharing_strategy()
    mp.set_sharing_strategy(request.param)
    yield request.param
    mp.set_sharing_strategy(before)


@pytest.fixture(autouse=True)
def nothing_is_left():
    """No test leaves a process, a name in /dev/shm, or a tensor on its way; other tests' processes may go on."""
    before, others = set(os.listdir("/dev/shm")), set(mp.active_children())
    yield
    for process in set(mp.active_children()) - others:
        process.join(30)
    assert not set(mp.active_children()) - others
    handover.look()
    assert not {name for name in set(os.listdir("/dev/shm")) - before if "flambeau" in name}
    forget_sent()


@pytest.fixture
def started(tmp_path):
    """Begins to run a text as a script, whose output can be read."""
    running = []

    def start(text, *args):
        path = tmp_path / f"program{len(running)}.py"
        path.write_text(text)
        running.append(subprocess.Popen([sys.executable, str(path), *args], stdout=subprocess.PIPE,
                                        stderr=subprocess.DEVNULL, env={**os.environ, "PYTHONPATH": SOURCES}))
        return running[-1]

    yield start
    for process in running:
        process.kill()
        process.wait()
        process.stdout.close()


@pytest.fixture
def program(tmp_path):
    """Runs a text as a script; returns what it printed."""
    def run(text, *args, timeout=120, **environment):
        path = tmp_path / "program.py"
        path.write_text(text)
        found = subprocess.run(
            [sys.executable, str(path), *args], capture_output=True, text=True, timeout=timeout,
            env={**os.environ, "PYTHONPATH": SOURCES, **environment})
        assert found.returncode == 0, (found.returncode, found.stdout[-2000:], found.stderr[-4000:])
        assert "Traceback" not in found.stderr, found.stderr[-4000:]
        return found.stdout
    return run
