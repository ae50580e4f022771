"""The engine for ranks of one host: collectives are copies within shared memory (native/distributed).

The memory is an anonymous file that rank 0 makes and the others open through /proc, so it has no name that could be
left behind; the kernel lets only processes of the same user open it.
"""

import os
import time

from .. import _C
from ._engine import Engine
from ._errors import DistBackendError

_ENDED = -2  # in a descriptor's place: the process is gone
_LOOK = 0.05  # seconds between two looks at ranks that are not here yet
(_BARRIER, _BROADCAST, _ALL_REDUCE, _REDUCE, _ALL_GATHER, _GATHER, _SCATTER, _REDUCE_SCATTER,
 _ALL_TO_ALL) = range(9)


def host():
    """What processes that can share memory have in common: the running kernel, its numbers of processes, the user."""
    with open("/proc/sys/kernel/random/boot_id") as file:
        return f"{os.uname().nodename} {file.read().strip()} {os.readlink('/proc/self/ns/pid')} uid {os.geteuid()}"


def started(pid):
    """When a process was started, by the kernel's clock; None where there is no such process, or it has ended."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            fields = file.read().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] in "ZX" else fields[19]


class SharedMemoryEngine(Engine):
    """All ranks of a group on one host."""

    name = "shared memory"
    joins = True

    def __init__(self, rank, size, store, timeout):
        super().__init__(rank, size)
        self._store, self._end = store, time.monotonic() + timeout
        self._known = {}  # rank -> (pid, when it was started), of those that have said so
        store.set(f"rank{rank}", f"{os.getpid()} {started(os.getpid())} {host()}")
        self._group = None
        self._group = self._made() if rank == 0 else self._opened()
        self._group.attach(os.getpid())
        self._wait_for("attached", lambda: all(map(self._group.attached, range(size))))
        for r in range(size):
            self._watch(r)
        if rank == 0:
            os.close(self._file)

    # --- finding each other -------------------------------------------------------------------------------------------

    def _made(self):
        room = _C.SharedGroup.room(self.size)
        self._file = os.memfd_create("flambeau-group", os.MFD_CLOEXEC)
        os.ftruncate(self._file, room)
        group = _C.SharedGroup(self._file, 0, self.size, True)
        self._store.set("memory", f"{os.getpid()} {self._file}")
        return group

    def _opened(self):
        self._wait_for("memory", lambda: self._store.check(["memory"]))
        self._meet(0)
        pid, number = self._store.get("memory").split()
        try:
            file = os.open(f"/proc/{int(pid)}/fd/{int(number)}", os.O_RDWR | os.O_CLOEXEC)
        except OSError as error:
            raise DistBackendError(f"init_process_group: rank {self.rank} cannot open the memory of rank 0 (process "
                                   f"{int(pid)}): {error.strerror}") from None
        try:
            return _C.SharedGroup(file, self.rank, self.size, False)
        finally:
            os.close(file)

    def _meet(self, r):
        """What rank r has said about itself is known from now on, if it has; it must be on this host."""
        if r in self._known or not self._store.check([f"rank{r}"]):
            return
        pid, when, theirs = self._store.get(f"rank{r}").decode().split(" ", 2)
        if theirs != host():
            raise DistBackendError(
                f"init_process_group: rank {self.rank} is on host {host().split()[0]} and rank {r} on "
                f"{theirs.split()[0]}, or they are of different users or containers, and share no memory; start them "
                "with MPI (pip install mpi4py mpich): mpiexec -n N -hosts A,B python script.py, or all of them on one "
                "host: flambeau launch --nproc-per-node N script.py")
        self._known[r] = int(pid), when

    def _wait_for(self, what, ready):
        while not ready():
            for r in range(self.size):
                self._meet(r)
                here = self._group is not None and self._group.attached(r)
                if r in self._known and not here and started(self._known[r][0]) != self._known[r][1]:
                    self._fail(f"rank {r} (process {self._known[r][0]}) has ended before the group was complete")
            if time.monotonic() > self._end:
                missing = [r for r in range(self.size) if r not in self._known]
                self._fail(f"timed out; ranks {missing} have not come" if missing else f"timed out at {what!r}")
            time.sleep(_LOOK if len(self._known) < self.size else 0.001)

    def _fail(self, text):
        if self._group is not None:
            self._group.break_up(f"init_process_group: {text}")
        raise DistBackendError(f"init_process_group: {text}")

    def _watch(self, r):
        if r == self.rank:
            return
        self._meet(r)
        pid, when = self._known[r]
        try:
            descriptor = os.pidfd_open(pid)
        except ProcessLookupError:
            descriptor = _ENDED
        if descriptor >= 0 and started(pid) != when:  # another process has its number now
            os.close(descriptor)
            descriptor = _ENDED
        self._group.watch(r, descriptor)  # one that has ended may have done its part before

    # --- collectives --------------------------------------------------------------------------------------------------

    def _run(self, kind, where, root, op, inputs, outputs, timeout):
        broken = self._group.run(kind, where, root, op, inputs, outputs, timeout)
        if broken is not None:
            raise DistBackendError(broken)

    def barrier(self, where, timeout):
        self._run(_BARRIER, where, 0, 0, (), (), timeout)

    def broadcast(self, tensor, root, where, timeout):
        tensors = (tensor,)
        self._run(_BROADCAST, where, root, 0, tensors if root == self.rank else (),
                  () if root == self.rank else tensors, timeout)

    def all_reduce(self, tensor, op, where, timeout):
        tensors = (tensor,)
        broken = self._group.run(_ALL_REDUCE, where, 0, op, tensors, tensors, timeout)
        if broken is not None:
            raise DistBackendError(broken)

    def all_reduce_coalesced(self, tensors, op, where, timeout):
        self._run(_ALL_REDUCE, where, 0, op, tensors, tensors, timeout)

    def reduce(self, tensor, op, root, where, timeout):
        self._run(_REDUCE, where, root, op, (tensor,), (tensor,) if root == self.rank else (), timeout)

    def all_gather(self, outputs, tensor, where, timeout):
        self._run(_ALL_GATHER, where, 0, 0, (tensor,), outputs, timeout)

    def gather(self, outputs, tensor, root, where, timeout):
        self._run(_GATHER, where, root, 0, (tensor,), outputs, timeout)

    def scatter(self, tensor, inputs, root, where, timeout):
        self._run(_SCATTER, where, root, 0, inputs, (tensor,), timeout)

    def reduce_scatter(self, tensor, inputs, op, where, timeout):
        self._run(_REDUCE_SCATTER, where, 0, op, inputs, (tensor,), timeout)

    def all_to_all(self, outputs, inputs, where, timeout):
        self._run(_ALL_TO_ALL, where, 0, 0, inputs, outputs, timeout)

    def reduces(self, dtype, op):
        return _C.SharedGroup.reduces(dtype, op)

    # --- messages -----------------------------------------------------------------------------------------------------

    def _post(self, receives, peer, tag, tensor, where):
        message = self._group.post(receives, peer, tag, tensor, where)
        if isinstance(message, str):
            raise DistBackendError(message)
        return message

    def send(self, tensor, peer, tag, where):
        return self._post(False, peer, tag, tensor, where)

    def receive(self, tensor, peer, tag, where):
        return self._post(True, -1 if peer is None else peer, tag, tensor, where)

    def finish(self, message, timeout):
        broken = self._group.finish(message, timeout)
        if broken is not None:
            raise DistBackendError(broken)
        return message.peer

    def finished(self, message):
        if not message.done:
            self._group.advance()
        return message.done

    def leave(self):
        self._group.leave()
