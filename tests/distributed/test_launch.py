"""The launcher: what processes are told, logs, restarts, and that all end together."""

import json
import multiprocessing
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import flambeau
from flambeau.as_torch import PATH
from flambeau.distributed.run import Launch, UsageError, launched, main, parse_args

SOURCES = str(Path(flambeau.__file__).resolve().parents[1])
TELLS = """
import json, os, sys
keys = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "TORCHELASTIC_RUN_ID")
told = [{k: os.environ[k] for k in keys}, sys.argv[1:], bool(os.environ["FLAMBEAU_STORE_KEY"])]
sys.stdout.write(json.dumps(told) + "\\n")  # at once: another process writes, too
"""
SLEEPS = """
import os, subprocess, sys, time
child = subprocess.Popen(["sleep", "60"])
sys.stdout.write(f"{os.getpid()} {child.pid}\\n")
if "fail" in sys.argv and os.environ["RANK"] == "1":
    sys.exit(7)
time.sleep(60)
"""


@pytest.fixture
def script(tmp_path):
    def write(text):
        path = tmp_path / "program.py"
        path.write_text(text)
        return str(path)
    return write


def gone(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "ZX"
    except OSError:
        return True


def all_gone(pids, seconds=10):
    end = time.monotonic() + seconds
    while time.monotonic() < end and not all(map(gone, pids)):
        time.sleep(0.02)
    return all(map(gone, pids))


def test_what_processes_are_told(script, capfd):
    assert launched(parse_args(["--nproc_per_node=2", "--rdzv-id", "run7", script(TELLS), "--lr", "1"])) == 0
    found = sorted((json.loads(line) for line in capfd.readouterr().out.splitlines()), key=lambda x: x[0]["RANK"])
    for rank, (variables, arguments, key) in enumerate(found):
        assert variables == {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2",
                             "MASTER_ADDR": "localhost", "TORCHELASTIC_RUN_ID": "run7"}
        assert arguments == ["--lr", "1"] and key


def test_logs(script, tmp_path, capfd):
    program = script("import os, sys; print('out', os.environ['RANK']); print('err', file=sys.stderr)")
    logs = tmp_path / "logs"
    assert launched(parse_args(["--nproc-per-node", "2", "--log-dir", str(logs), program])) == 0
    out, err = capfd.readouterr()
    assert sorted(out.splitlines()) == ["[0] out 0", "[1] out 1"] and err.count("err\n") == 2
    assert (logs / "none/attempt_0/1/stdout.log").read_text() == "out 1\n"
    assert launched(parse_args(["--nproc-per-node", "2", "--log-dir", str(logs), "-r", "0:3", program])) == 0
    out, _ = capfd.readouterr()
    assert out == "out 1\n" and (logs / "none/attempt_0/0/stderr.log").read_text() == "err\n"


def test_restarts(script, capfd):
    program = script("import os, sys; sys.exit(int(os.environ['TORCHELASTIC_RESTART_COUNT']) < 2)")
    assert launched(parse_args(["--max-restarts", "1", program])) == 1
    assert "all start anew, 1 more time at most" in capfd.readouterr().err
    assert launched(parse_args(["--max-restarts", "2", program])) == 0


def test_one_failure_ends_all(script, capfd):
    start = time.monotonic()
    assert launched(parse_args(["--nproc-per-node", "3", script(SLEEPS), "fail"])) == 7
    out, err = capfd.readouterr()
    assert "rank 1 (process" in err and "ended with code 7" in err and time.monotonic() - start < 15
    assert all_gone([int(pid) for line in out.splitlines() for pid in line.split()])


def as_program(arguments, out):
    """What `flambeau launch` does, without the time that a new Python takes to begin."""
    os.dup2(out, 1)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.environ["PYTHONPATH"] = f"{SOURCES}{os.pathsep}{PATH}"
    main(arguments)


def launcher(*arguments):
    """(a process that launches, what it prints)"""
    reads, writes = os.pipe()
    process = multiprocessing.get_context("fork").Process(target=as_program, args=(arguments, writes))
    process.start()
    os.close(writes)
    return process, open(reads)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_no_process_outlives_the_launcher(script, number):
    process, lines = launcher("--nproc-per-node", "2", script(SLEEPS))
    with lines:
        pids = [int(lines.readline().split()[0]) for _ in range(2)]
        os.kill(process.pid, number)
        process.join(20)
    assert process.exitcode == {signal.SIGINT: 130, signal.SIGTERM: 143, signal.SIGKILL: -9}[number]
    assert all_gone(pids)


TRAINS = """
import sys, torch, torch.distributed as dist
dist.init_process_group("gloo")
x = torch.ones(1)
dist.all_reduce(x)
sys.stdout.write(f"{x.item()} {dist.is_torchelastic_launched()}\\n")
dist.destroy_process_group()
"""


@pytest.mark.parametrize("command, size", [("torch.distributed.run", 2), ("torch.distributed.launch --use_env", 1),
                                           ("flambeau launch", 1)])
def test_programs_meet(script, command, size):
    path = SOURCES if command.startswith("flambeau") else f"{SOURCES}{os.pathsep}{PATH}"
    done = subprocess.run([sys.executable, "-m", *command.split(), "--nproc_per_node", str(size), script(TRAINS)],
                          check=False, capture_output=True, text=True, timeout=60,
                          env={**os.environ, "PYTHONPATH": path})
    assert done.returncode == 0 and done.stdout == f"{size}.0 True\n" * size, done.stderr[-2000:]


@pytest.mark.parametrize("arguments, text", [
    (["--nproc-per-node", "gpu", "x"], "no such devices"), (["--nproc-per-node", "0", "x"], "expected a number"),
    (["--nnodes", "1:4", "x"], "cannot change"), (["--standalone", "--nnodes", "2", "x"], "one launcher"),
    (["--rdzv-backend", "etcd", "x"], "static or c10d"), (["-r", "7", "x"], "expected 0, 1, 2 or 3"),
    (["--no-python", "-m", "x"], "do not go together")])
def test_wrong_options(arguments, text):
    with pytest.raises(UsageError, match=text):
        Launch(parse_args(arguments))
    with pytest.raises(UsageError, match="--nnodes needs --node-rank"):
        Launch(parse_args(["--nnodes", "2", "x"])).store()


def test_two_launchers(script):
    """On one host: each starts its own processes, and all are in one group."""
    program, port = script(TRAINS), flambeau.distributed.TCPStore("localhost", 0, is_master=True)
    port.close()
    both = [launcher("--nnodes", "2", "--rdzv-backend", "c10d", "--rdzv-endpoint", f"localhost:{port.port}", program)
            for _ in range(2)]
    for process, lines in both:
        with lines:
            assert lines.read() == "2.0 True\n"
        process.join(60)
        assert process.exitcode == 0
