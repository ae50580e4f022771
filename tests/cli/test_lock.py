"""One training at a time writes into a folder: the second one is told which holds it."""

import os
import re
import signal

import pytest

import flambeau
from flambeau.cli import lock

from .helpers import start

LONG = "train", "digits", "--epochs", 500, "--batch-size", 20
QUICK = "train", "digits", "--epochs", 1, "--batch-size", 500


@pytest.fixture
def running(tmp_path):
    """A training in `tmp_path` that has written its first epoch."""
    process = start(*LONG, "--output", tmp_path)
    for line in process.stdout:
        if line.startswith("epoch "):
            break
    yield process
    process.kill()
    process.communicate()


def test_a_second_training_is_told_who_holds_the_folder(running, tmp_path, refused):
    for more in ([], ["--resume", tmp_path / "checkpoint.pt"]):
        arguments = QUICK if not more else ("train", "digits", *more)
        err = refused(*arguments, "--output", tmp_path)
        holder = f"process {running.pid} on {os.uname().nodename}, since 20"
        assert f"{tmp_path}: another training writes there ({holder}" in err
        assert f"flambeau train digits --epochs 500 --batch-size 20 --output {tmp_path}" in err and "--output" in err
    assert not (tmp_path / "checkpoint.old.pt").exists()
    running.send_signal(signal.SIGINT)
    running.communicate()
    assert running.returncode == 130 and not (tmp_path / ".lock").exists()


def test_the_kernel_frees_the_lock_of_a_killed_training(running, tmp_path, run):
    running.kill()
    running.communicate()
    assert (tmp_path / ".lock").exists()
    assert run(*QUICK, "--output", tmp_path)[0] == 0
    assert not (tmp_path / ".lock").exists()
    assert flambeau.load(tmp_path / "checkpoint.pt")["settings"]["epochs"] == 1


def test_another_folder_is_free(running, tmp_path, run):
    assert run("train", "digits", *QUICK[2:], "--output", tmp_path / "b")[0] == 0


def test_a_lock_removed_while_it_was_waited_for_does_not_count(tmp_path, monkeypatch):
    flock, calls = lock.fcntl.flock, []

    def late(file, how):
        if not calls:  # its holder ends just now
            (tmp_path / ".lock").unlink()
        calls.append(how)
        flock(file, how)

    monkeypatch.setattr(lock.fcntl, "flock", late)
    with lock.locked(tmp_path):
        assert len(calls) == 2
        assert re.match(rf"process {os.getpid()} on ", (tmp_path / ".lock").read_text())
        with pytest.raises(lock.UserError, match="another training"), lock.locked(tmp_path):
            pass
    assert os.listdir(tmp_path) == []


def test_a_file_system_without_locks_is_warned_of(run, tmp_path, monkeypatch):
    def none(file, how):
        raise OSError(37, "No locks available")

    monkeypatch.setattr(lock.fcntl, "flock", none)
    code, _, err = run(*QUICK, "--output", tmp_path)
    assert code == 0 and "warning: " in err and "no locks" in err


def test_a_checkpoint_replaced_while_it_was_read_is_not_continued(run, tmp_path, monkeypatch):
    assert run(*QUICK, "--output", tmp_path)[0] == 0
    checkpoint = tmp_path / "checkpoint.pt"
    held = lock.locked

    def after_another(folder):
        flambeau.save(flambeau.load(checkpoint), checkpoint)
        return held(folder)

    monkeypatch.setattr("flambeau.cli.output.locked", after_another)
    code, _, err = run("train", "digits", "--resume", checkpoint)
    assert code == 2 and "another training has replaced it" in err


def test_temporary_files_of_killed_trainings_are_cleared(run, tmp_path):
    for name in (".metrics.jsonl.1.0123abcd.tmp", ".checkpoint.pt.1.0123abcd.tmp"):
        (tmp_path / name).write_bytes(b"half")
    assert run(*QUICK, "--output", tmp_path)[0] == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["checkpoint.pt", "metrics.jsonl", "picture.png",
                                                                "time.json"]
