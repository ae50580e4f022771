"""The engine for tensors on GPUs: every collective is one of NCCL's, or a few that go together."""

import contextlib
import itertools
import time

import flambeau

from .. import _C
from . import _nccl
from ._engine import Engine
from ._errors import DistBackendError
from ._streamed import StreamWork, Watch
from ._values import RedOpType

#: numbers of NCCL's interface
_TYPES = {_C.int8: 0, _C.uint8: 1, _C.int32: 2, _C.uint32: 3, _C.int64: 4, _C.uint64: 5, _C.float16: 6, _C.float32: 7,
          _C.float64: 8, _C.bfloat16: 9}
_BYTE = 1
_SUM, _PRODUCT, _MAX, _MIN, _AVERAGE = range(5)
_OPS = {RedOpType.SUM: _SUM, RedOpType.AVG: _AVERAGE, RedOpType.PRODUCT: _PRODUCT, RedOpType.MIN: _MIN,
        RedOpType.MAX: _MAX}
#: of truth values, which are numbers of one bit
_LOGICAL = {RedOpType.SUM: _MAX, RedOpType.MAX: _MAX, RedOpType.BOR: _MAX, RedOpType.PRODUCT: _MIN,
            RedOpType.MIN: _MIN, RedOpType.BAND: _MIN}
_PARTS = {_C.complex64: _C.float32, _C.complex128: _C.float64}  # added up as pairs of real numbers


class NCCLEngine(Engine):
    """All ranks of a group, a GPU each. Calls go on a stream of the engine's, in the order in which they are made.

    `cuda` is the module whose streams and events are used, `library` the opened libnccl, `kind` the type of the
    tensors' device and `index` its number. Without one, it is what the program has chosen when the first call comes,
    with which the ranks meet.
    """

    name = "NCCL"
    launches = True

    def __init__(self, rank, size, store, timeout, cuda, library, kind="cuda", index=None):
        super().__init__(rank, size)
        self.cuda, self.broken, self.last = cuda, None, "no call so far"
        self._library, self._store, self._timeout = library, store, timeout
        self._communicator = self._side = self._watch = self._one = None
        self._kind, self._index, self._number = kind, index, itertools.count(1)
        self._together = None  # works whose messages have not begun

    # --- meeting ------------------------------------------------------------------------------------------------------

    def _meet(self):
        if self.rank == 0:
            self._store.set("nccl", self._library.unique_id().hex())
        if self._index is None:
            self._index = self.cuda.current_device()
        number = bytes.fromhex(self._store.get("nccl").decode())
        self._communicator = _nccl.Communicator(self._library, self.size, number, self.rank, self._timeout)
        self._side = self.cuda.Stream(self._index)
        self._one = flambeau.zeros(1, dtype=_C.uint8, device=self.device())
        self._watch = Watch(self, self._store.clone())

    def device(self):
        """Where this rank's tensors are."""
        index = self.cuda.current_device() if self._index is None else self._index
        return flambeau.device(self._kind, index)

    def enter_thread(self):
        """A thread of the engine's looks at the same device."""
        self.cuda.set_device(self._index)

    # --- going wrong --------------------------------------------------------------------------------------------------

    def check(self):
        """DistBackendError where the group has failed."""
        if self.broken is not None:
            raise DistBackendError(self.broken)

    def trouble(self):
        """What NCCL has noticed."""
        return self._communicator.trouble()

    def fail(self, text):
        """The group cannot be used from now on; what is under way ends."""
        self.broken = text
        self._communicator.abort(text)

    # --- streams ------------------------------------------------------------------------------------------------------

    def launch(self, function, result, timeout):
        """Puts what the function does on the engine's stream, behind what the program has put on its own."""
        self._open()
        with self.cuda.stream(self._side):
            rest = function(timeout)
            if rest is not None:
                rest()
        return self._watched(StreamWork(self, self.last, timeout, result, function))

    def _open(self):
        self.check()
        if self._communicator is None:
            self._meet()
        self._side.wait_stream(self.cuda.current_stream())

    def _watched(self, *works):
        event = self.cuda.Event()
        event.record(self._side)
        for work in works:
            work.event = event
            self._watch.add(work)
        return works[0]

    def _put(self, name, *args, where, timeout):
        self.last = f"{where.split(' ')[0]} #{next(self._number)} {where.partition(' ')[2]}".rstrip()
        self._communicator.put(f"nccl{name}", *args, stream=self._side.cuda_stream, timeout=timeout)

    @contextlib.contextmanager
    def together(self):
        self._open()
        self._together = []
        try:
            with self.grouped():
                yield
        finally:
            works, self._together = self._together, None
        if works:
            self._watched(*works)

    @contextlib.contextmanager
    def grouped(self):
        self._communicator.begin()
        try:
            yield
        finally:
            self._communicator.end(self._timeout)

    # --- collectives --------------------------------------------------------------------------------------------------

    def barrier(self, where, timeout):
        place = self._one.data_ptr()
        self._put("AllReduce", place, place, 1, _BYTE, _MAX, where=where, timeout=timeout)

    def broadcast(self, tensor, root, where, timeout):
        self._put("Broadcast", tensor.data_ptr(), tensor.data_ptr(), tensor.nbytes, _BYTE, root, where=where,
                  timeout=timeout)

    def all_reduce(self, tensor, op, where, timeout):
        count, kind, how = _numbers(tensor, op)
        self._put("AllReduce", tensor.data_ptr(), tensor.data_ptr(), count, kind, how, where=where, timeout=timeout)

    def reduce(self, tensor, op, root, where, timeout):
        count, kind, how = _numbers(tensor, op)
        self._put("Reduce", tensor.data_ptr(), tensor.data_ptr(), count, kind, how, root, where=where, timeout=timeout)

    def all_gather(self, outputs, tensor, where, timeout):
        if _in_a_row(outputs):
            self._put("AllGather", tensor.data_ptr(), outputs[0].data_ptr(), tensor.nbytes, _BYTE, where=where,
                      timeout=timeout)
        else:
            self.all_to_all(outputs, [tensor] * self.size, where, timeout)

    def reduce_scatter(self, tensor, inputs, op, where, timeout):
        count, kind, how = _numbers(tensor, op)
        if _in_a_row(inputs):
            self._put("ReduceScatter", inputs[0].data_ptr(), tensor.data_ptr(), count, kind, how, where=where,
                      timeout=timeout)
            return
        with self.grouped():
            for r, part in enumerate(inputs):
                self._put("Reduce", part.data_ptr(), tensor.data_ptr(), count, kind, how, r, where=where,
                          timeout=timeout)

    def all_to_all(self, outputs, inputs, where, timeout):
        with self.grouped():
            for r, (target, source) in enumerate(zip(outputs, inputs, strict=True)):
                if source.nbytes:
                    self._put("Send", source.data_ptr(), source.nbytes, _BYTE, r, where=where, timeout=timeout)
                if target.nbytes:
                    self._put("Recv", target.data_ptr(), target.nbytes, _BYTE, r, where=where, timeout=timeout)

    def reduces(self, dtype, op):
        if dtype is _C.bool:
            return op in _LOGICAL
        if dtype in _PARTS:
            return op in (RedOpType.SUM, RedOpType.AVG)
        return dtype in _TYPES and op in _OPS

    # --- messages -----------------------------------------------------------------------------------------------------

    def send(self, tensor, peer, tag, where):
        return self._message("Send", tensor, peer, tag, where)

    def receive(self, tensor, peer, tag, where):
        if peer is None:
            raise NotImplementedError(f"{where}: NCCL does not receive from whoever is first; give the sender's rank")
        return self._message("Recv", tensor, peer, tag, where)

    def _message(self, name, tensor, peer, tag, where):
        if tag:
            raise NotImplementedError(f"{where}: NCCL's messages have no tags, they come in the order in which they "
                                      "are sent; leave tag out")
        self._open()
        if tensor.nbytes:
            self._put(name, tensor.data_ptr(), tensor.nbytes, _BYTE, peer, where=where, timeout=self._timeout)
        work = StreamWork(self, self.last, self._timeout, [tensor], tensor)
        work.peer = peer
        if self._together is not None:
            self._together.append(work)
            return work
        return self._watched(work)

    def finish(self, message, timeout):
        message.deadline = min(message.deadline, time.monotonic() + timeout)
        message.wait()
        return message.peer

    def finished(self, message):
        return message.is_completed()

    def leave(self):
        if self._communicator is None:
            return
        for work in self._watch.under_way() if self.broken is None else ():
            with contextlib.suppress(DistBackendError):
                work.synchronize()
        self._watch.end()
        if self.broken is None:
            self._communicator.destroy(self._timeout)


def _numbers(tensor, op):
    """(how many numbers, of which type, reduced how)."""
    if tensor.dtype is _C.bool:
        return tensor.numel(), _BYTE, _LOGICAL[op]
    if tensor.dtype in _PARTS:
        return 2 * tensor.numel(), _TYPES[_PARTS[tensor.dtype]], _OPS[op]
    return tensor.numel(), _TYPES[tensor.dtype], _OPS[op]


def _in_a_row(tensors):
    """Whether they lie one after the other, as parts of one tensor."""
    return all(b.data_ptr() == a.data_ptr() + a.nbytes for a, b in itertools.pairwise(tensors))
