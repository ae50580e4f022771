"""save replaces a file whole or not at all: whatever fails, or kills the process, and whatever the target is."""

import errno
import fcntl
import io
import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest

import flambeau
from flambeau._files import replacing as _replacing

SAVING = """
import os, sys, time, flambeau
from flambeau._files import replacing as _replacing
def stop(*_):
    print("writing", flush=True)
    time.sleep(60)
_replacing.os.fsync = stop
flambeau.save({"epoch": 2}, sys.argv[1])
"""


@pytest.fixture
def target(tmp_path):
    path = tmp_path / "x.pt"
    flambeau.save({"epoch": 1}, path)
    return path


def saving(path):
    """A process that stops in the middle of saving to `path`."""
    process = subprocess.Popen([sys.executable, "-c", SAVING, str(path)], stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "writing\n"
    return process


def killed(process):
    process.send_signal(signal.SIGKILL)
    process.communicate()


def names(folder):
    return sorted(os.listdir(folder))


# --- killed processes


def test_what_a_killed_process_leaves_is_cleared_by_the_next_save_into_the_folder(target):
    killed(saving(target))
    left = [name for name in names(target.parent) if name != "x.pt"]
    assert len(left) == 1 and left[0].startswith(".x.pt.") and left[0].endswith(".tmp")
    assert flambeau.load(target) == {"epoch": 1}
    flambeau.save(3, target.parent / "other.pt")
    assert names(target.parent) == ["other.pt", "x.pt"]


def test_the_temporary_file_of_a_living_process_stays(target):
    process = saving(target)
    flambeau.save({"epoch": 3}, target)
    assert len(names(target.parent)) == 2
    killed(process)
    flambeau.save({"epoch": 4}, target)
    assert names(target.parent) == ["x.pt"]


def test_a_process_with_the_number_of_a_dead_one_does_not_protect_its_file(target):
    left = target.parent / f".x.pt.{os.getpid()}.0123abcd.tmp"
    left.write_bytes(b"left")
    flambeau.save(2, target)
    assert not left.exists()


@pytest.mark.parametrize("name", [".x.pt.12.tmp", "x.pt.12.0123abcd.tmp", ".x.pt.12.0123abcd.tmp.gz", "x.tmp",
                                  ".x.pt.a.0123abcd.tmp", ".x.pt.12.0123ABCD.tmp"])
def test_files_of_others_are_left_alone(name, target):
    (target.parent / name).write_bytes(b"mine")
    flambeau.save(2, target)
    assert (target.parent / name).read_bytes() == b"mine"


def test_what_looks_like_a_temporary_file_but_is_none_is_left_alone(target):
    folder, link, pipe = (target.parent / f".x.{k}.0123abcd.tmp" for k in range(3))
    folder.mkdir()
    link.symlink_to(target)
    os.mkfifo(pipe)
    flambeau.save(2, target)
    assert folder.is_dir() and link.is_symlink() and pipe.exists() and flambeau.load(target) == 2


def test_a_temporary_file_taken_for_abandoned_before_it_was_locked_is_made_again(target, monkeypatch):
    flock, calls = fcntl.flock, []

    def late(file, how):
        calls.append(how)
        if calls.count(fcntl.LOCK_EX) == 1:  # another process was faster
            os.unlink(next(path for path in target.parent.iterdir() if path.name.endswith(".tmp")))
        flock(file, how)

    monkeypatch.setattr(_replacing.fcntl, "flock", late)
    flambeau.save(2, target)
    assert calls.count(fcntl.LOCK_EX) == 2
    assert flambeau.load(target) == 2 and names(target.parent) == ["x.pt"]


def test_another_save_into_the_folder_comes_between_writing_and_moving(target, monkeypatch):
    """The file is locked until it has its name."""
    move = os.replace

    def late(source, place):
        _replacing._clear_abandoned(target.parent)  # as the other save does first
        move(source, place)

    monkeypatch.setattr(_replacing.os, "replace", late)
    flambeau.save(2, target)
    assert flambeau.load(target) == 2 and names(target.parent) == ["x.pt"]


def test_a_file_system_without_locks_serves(target, monkeypatch):
    def none(*_):
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    left = target.parent / ".x.pt.12.0123abcd.tmp"
    left.write_bytes(b"of a living process, as far as can be known")
    monkeypatch.setattr(_replacing.fcntl, "flock", none)
    flambeau.save(2, target)
    assert flambeau.load(target) == 2 and left.exists()


# --- failures


@pytest.mark.parametrize("call", ["fchmod", "fsync", "replace"])
@pytest.mark.parametrize("code", [errno.EPERM, errno.EIO, errno.ENOSPC])
def test_a_failing_system_call_leaves_the_old_file_and_no_other(call, code, target, monkeypatch):
    target.chmod(0o640)

    def failing(*_):
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(os, call, failing)
    with pytest.raises(RuntimeError, match=rf"save: cannot write .*x\.pt: {os.strerror(code)}"):
        flambeau.save({"epoch": 2}, target)
    monkeypatch.undo()
    assert flambeau.load(target) == {"epoch": 1}
    assert names(target.parent) == ["x.pt"]


def test_a_folder_that_cannot_be_synchronised(target, monkeypatch):
    fsync = os.fsync

    def only_files(handle, code):
        if stat.S_ISDIR(os.fstat(handle).st_mode):
            raise OSError(code, os.strerror(code))
        fsync(handle)

    monkeypatch.setattr(os, "fsync", lambda handle: only_files(handle, errno.EINVAL))
    flambeau.save(2, target)
    monkeypatch.setattr(os, "fsync", lambda handle: only_files(handle, errno.EIO))
    with pytest.raises(RuntimeError, match=os.strerror(errno.EIO)):  # the new file may not survive a power cut
        flambeau.save(3, target)


def test_a_read_only_folder(target, monkeypatch):
    def refused(path, mode):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)

    monkeypatch.setattr(_replacing, "open", refused, raising=False)  # root may write anywhere
    with pytest.raises(RuntimeError, match=r"cannot write .*x\.pt: Permission denied"):
        flambeau.save(2, target)
    assert flambeau.load(target) == {"epoch": 1}


def test_a_refused_object_touches_nothing(target):
    with pytest.raises(TypeError):
        flambeau.save(lambda: 1, target)
    assert names(target.parent) == ["x.pt"] and flambeau.load(target) == {"epoch": 1}


# --- targets


def test_the_mode_of_the_old_file_or_of_the_umask(tmp_path):
    mask = os.umask(0o027)
    try:
        flambeau.save(1, tmp_path / "new.pt")
        assert stat.S_IMODE((tmp_path / "new.pt").stat().st_mode) == 0o640
        (tmp_path / "new.pt").chmod(0o604)
        flambeau.save(2, tmp_path / "new.pt")
        assert stat.S_IMODE((tmp_path / "new.pt").stat().st_mode) == 0o604
    finally:
        os.umask(mask)


def test_links_to_nothing_yet_and_into_another_folder(tmp_path):
    (tmp_path / "there").mkdir()
    link = tmp_path / "link.pt"
    link.symlink_to(tmp_path / "there" / "real.pt")
    flambeau.save(1, link)
    assert link.is_symlink() and flambeau.load(tmp_path / "there" / "real.pt") == 1
    assert names(tmp_path / "there") == ["real.pt"] and names(tmp_path) == ["link.pt", "there"]


NAMES = {"long": "x" * 252 + ".pt", "é": "é" * 120 + ".pt", "ending": ".pt", "dots": "..pt", "line": "a b\nc.pt",
         "no ending": "x", "not UTF-8": os.fsdecode(b"\xff\xfe.pt")}


@pytest.mark.parametrize("name", NAMES.values(), ids=NAMES)
@pytest.mark.parametrize("kind", [str, os.fsencode, Path], ids=["str", "bytes", "Path"])
def test_names_of_any_kind(name, kind, tmp_path):
    path = kind(os.path.join(tmp_path, name))
    flambeau.save({"w": flambeau.ones(2)}, path)
    assert flambeau.load(path)["w"].tolist() == [1, 1]
    assert names(tmp_path) == [name]


def test_devices_and_pipes_are_written_not_replaced(tmp_path):
    flambeau.save(1, "/dev/null")
    assert not Path("/dev/null").is_file()
    with pytest.raises(RuntimeError, match="No space left"):
        flambeau.save(flambeau.zeros(100_000), "/dev/full")
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = subprocess.Popen(["cat", str(pipe)], stdout=subprocess.PIPE)
    flambeau.save({"w": flambeau.ones(2)}, pipe)
    assert flambeau.load(io.BytesIO(reader.communicate()[0]))["w"].tolist() == [1, 1]
    assert stat.S_ISFIFO(pipe.stat().st_mode)


def test_raw_streams_that_take_little_at_a_time():
    class Slow(io.RawIOBase):
        def __init__(self):
            self.data = b""

        def writable(self):
            return True

        def write(self, data):
            self.data += bytes(data[:100])
            return min(len(data), 100)

    slow = Slow()
    flambeau.save({"a": flambeau.ones(2)}, slow)
    assert flambeau.load(io.BytesIO(slow.data))["a"].tolist() == [1, 1]


def test_a_file_object_that_fails_says_so():
    with open("/dev/full", "wb", buffering=0) as full, pytest.raises(OSError, match="No space left"):
        flambeau.save(flambeau.zeros(1000), full)
