"""async_save in a process of its own: this side starts it, hands states over, and waits for what comes of them."""

import atexit
import os
import pickle
import socket
import subprocess
import sys
import tempfile
from multiprocessing import reduction
from multiprocessing.connection import Connection
from pathlib import Path

from .. import _groups as groups
from .. import _objects as objects
from ._shared_copy import Room, stored

_MODULE = "flambeau.distributed.checkpoint._process_worker"
_SECONDS = 10.0  # that the process has to end
_writers = {}  # group, or None -> its Writer


class Writer:
    """The process that saves for this one; those of all ranks are in a group."""

    def __init__(self, group):
        mine, theirs = socket.socketpair()
        self._pipe, self._free = Connection(mine.detach()), []
        source = str(Path(__file__).resolve().parents[3])
        path = os.pathsep.join(filter(None, [source, os.environ.get("PYTHONPATH")]))
        self._process = subprocess.Popen([sys.executable, "-m", _MODULE, str(theirs.fileno())],
                                         pass_fds=[theirs.fileno()], env={**os.environ, "PYTHONPATH": path})
        theirs.close()
        place = [None]
        if group is not None:
            if group.engine.name != "shared memory":
                raise NotImplementedError("async_save: AsyncCheckpointerType.PROCESS is for ranks of one host; THREAD "
                                          "saves from several")
            if group.rank() == 0:
                place[0] = tempfile.mkdtemp(prefix="flambeau-checkpoint-")
            objects.broadcast_object_list(place, group=group, group_src=0)
        self._pipe.send_bytes(pickle.dumps((sys.path, place[0], 0 if group is None else group.rank(),
                                            1 if group is None else group.size())))

    def stage(self, state, rest):
        """A copy that the process can read."""
        return stored(state, rest, self._room)

    def _room(self, nbytes):
        for room in self._free:
            if room.size >= nbytes:
                self._free.remove(room)
                return room
        self._free.clear()
        return Room(max(nbytes, 1))

    def save(self, staged):
        """Has it saved: the Metadata; raises what went wrong."""
        content, room = staged
        try:
            self._pipe.send_bytes(content)
            reduction.send_handle(self._pipe, room.file, self._process.pid)
            failed, result = pickle.loads(self._pipe.recv_bytes())
        except (EOFError, OSError):
            raise RuntimeError(f"async_save: the process that saves has ended (exit code "
                               f"{self._process.wait(_SECONDS)}); nothing was saved") from None
        self._free.append(room)
        if failed:
            raise result
        return result

    def has_ended(self):
        """Whether it can save no more."""
        return self._process.poll() is not None

    def end(self):
        """It saves no more."""
        self._pipe.close()
        try:
            self._process.wait(_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def forget(self):
        """In the child of a fork it is none of its business."""
        self._process.returncode = 0


def writer_of(group):
    """The Writer of this rank for a group, which lasts as long as the program."""
    if group is None and None in _writers and _writers[None].has_ended():
        _writers.pop(None).end()
    if group not in _writers:
        for known in [known for known in _writers if known is not None and known not in groups._groups]:
            _writers.pop(known).end()
        _writers[group] = Writer(group)
    return _writers[group]


def _end():
    while _writers:
        _writers.popitem()[1].end()


def _forget():
    for writer in _writers.values():
        writer.forget()
    _writers.clear()


atexit.register(_end)
os.register_at_fork(after_in_child=_forget)
