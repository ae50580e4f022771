"""The engine for ranks that Ray has placed on several hosts: values go through Ray's object store.

A Switchboard, an actor, tells each rank which objects the others have for it. Every collective is one exchange of
parts, or two; what is reduced is reduced in the order of the ranks, with the same bits everywhere.
"""

import asyncio
import functools
import importlib
import threading

import flambeau

from .. import _C
from ._engine import Engine
from ._errors import DistBackendError
from ._values import RedOpType

_HALVES = {_C.float16, _C.bfloat16}
_REDUCE = {RedOpType.SUM: "add", RedOpType.AVG: "add", RedOpType.PRODUCT: "mul", RedOpType.MIN: "minimum",
           RedOpType.MAX: "maximum", RedOpType.BAND: "bitwise_and", RedOpType.BOR: "bitwise_or",
           RedOpType.BXOR: "bitwise_xor"}
#: of truth values, which are numbers of one bit
_LOGICAL = {RedOpType.SUM: "bitwise_or", RedOpType.MAX: "bitwise_or", RedOpType.PRODUCT: "bitwise_and",
            RedOpType.MIN: "bitwise_and"}


def _ray():
    return importlib.import_module("ray")


class Switchboard:
    """An actor that hands references of objects on. References are in lists, which Ray does not resolve."""

    def __init__(self):
        self.rounds, self.queues, self.changed = {}, {}, asyncio.Condition()

    async def swap(self, key, rank, size, call, parcels):
        """Leaves a rank's parcels, {receiver: [reference]}, and waits for those for it: {sender: [reference]}, or a
        text where the ranks make different calls.
        """
        async with self.changed:
            found = self.rounds.setdefault(key, ({}, {}, set()))
            found[0][rank], found[1][rank] = parcels, call
            self.changed.notify_all()
            await self.changed.wait_for(lambda: len(found[0]) == size)
            found[2].add(rank)
            if len(found[2]) == size:
                self.rounds.pop(key, None)
        if len({kind for kind, _ in found[1].values()}) > 1:
            told = ", ".join(f"rank {r} is in {where}" for r, (_, where) in sorted(found[1].items()))
            return f"the ranks of the group are in different collectives: {told}; every rank must make the same " \
                   "calls in the same order"
        return {sender: own[rank] for sender, own in found[0].items() if rank in own}

    async def deliver(self, key, sender, receiver, tag, parcel):
        """Leaves a message."""
        async with self.changed:
            self.queues.setdefault((key, receiver, tag), []).append((sender, parcel))
            self.changed.notify_all()

    async def fetch(self, key, sender, receiver, tag):
        """(who sent it, [reference]) of the first message from a rank, or from anyone; it waits for one."""
        async with self.changed:
            queue = self.queues.setdefault((key, receiver, tag), [])

            def first():
                return next((k for k, (by, _) in enumerate(queue) if sender in (None, by)), None)

            await self.changed.wait_for(lambda: first() is not None)
            return queue.pop(first())


class RayEngine(Engine):
    """Ranks that know the same Switchboard; `key` is the group's."""

    name = "Ray"

    def __init__(self, rank, size, board, key):
        super().__init__(rank, size)
        self._board, self._key, self._count = board, key, 0

    def _get(self, reference, where, timeout):
        ray = _ray()
        try:
            return ray.get(reference, timeout=timeout)
        except ray.exceptions.GetTimeoutError:
            raise DistBackendError(f"{where}: timed out after {timeout:g} seconds; not all of the ranks have made this "
                                   "call") from None
        except ray.exceptions.RayError as error:
            raise DistBackendError(f"{where}: {str(error).splitlines()[0]}") from None

    def _swap(self, parts, where, timeout, kind):
        """Gives each rank its part, {receiver: tensor}; {sender: bytes} of those for this one."""
        self._count += 1
        parcels = {receiver: [_ray().put(_bytes(part))] for receiver, part in parts.items()}
        call = f"{where.split(' ', 1)[0]} {kind}", where
        found = self._get(self._board.swap.remote((self._key, self._count), self.rank, self.size, call, parcels), where,
                          timeout)
        if isinstance(found, str):
            raise DistBackendError(found)
        return {sender: self._get(parcel[0], where, timeout) for sender, parcel in found.items()}

    # --- collectives --------------------------------------------------------------------------------------------------

    def barrier(self, where, timeout):
        self._swap({}, where, timeout, "")

    def broadcast(self, tensor, root, where, timeout):
        parts = dict.fromkeys(range(self.size), tensor) if self.rank == root else {}
        _fill(tensor, self._swap(parts, where, timeout, f"from {root} {tensor.nbytes}")[root], where, root)

    def all_reduce(self, tensor, op, where, timeout):
        """Each rank reduces its share of the elements, and gives it to all."""
        flat = tensor.view(-1)
        shares = flat.tensor_split(self.size)
        found = self._swap(dict(enumerate(shares)), where, timeout, f"{op} {tensor.dtype} {tensor.nbytes}")
        own = reduced([_of(found[r], shares[self.rank]) for r in range(self.size)], op)
        found = self._swap(dict.fromkeys(range(self.size), own), where, timeout, "again")
        for r, share in enumerate(shares):
            _fill(share, found[r], where, r)

    def reduce(self, tensor, op, root, where, timeout):
        found = self._swap({root: tensor}, where, timeout, f"to {root} {op} {tensor.dtype} {tensor.nbytes}")
        if self.rank == root:
            tensor.copy_(reduced([_of(found[r], tensor) for r in range(self.size)], op).view(tensor.shape))

    def all_gather(self, outputs, tensor, where, timeout):
        self._exchange(outputs, dict.fromkeys(range(self.size), tensor), where, timeout, tensor.nbytes)

    def gather(self, outputs, tensor, root, where, timeout):
        self._exchange(outputs or [], {root: tensor}, where, timeout, f"to {root} {tensor.nbytes}")

    def scatter(self, tensor, inputs, root, where, timeout):
        found = self._swap(dict(enumerate(inputs or [])), where, timeout, f"from {root} {tensor.nbytes}")
        _fill(tensor, found[root], where, root)

    def reduce_scatter(self, tensor, inputs, op, where, timeout):
        found = self._swap(dict(enumerate(inputs)), where, timeout, f"{op} {tensor.dtype} {tensor.nbytes}")
        tensor.copy_(reduced([_of(found[r], tensor) for r in range(self.size)], op).view(tensor.shape))

    def all_to_all(self, outputs, inputs, where, timeout):
        self._exchange(outputs, dict(enumerate(inputs)), where, timeout, "")

    def _exchange(self, outputs, parts, where, timeout, kind):
        found = self._swap(parts, where, timeout, kind)
        for r, output in enumerate(outputs):
            _fill(output, found[r], where, r)

    def reduces(self, dtype, op):
        return _C.SharedGroup.reduces(dtype, op)

    # --- messages -----------------------------------------------------------------------------------------------------

    def send(self, tensor, peer, tag, where):
        self._board.deliver.remote(self._key, self.rank, peer, tag, [_ray().put(_bytes(tensor))])
        return _Message(None, None, where, peer)

    def receive(self, tensor, peer, tag, where):
        return _Message(self._board.fetch.remote(self._key, peer, self.rank, tag), tensor, where, peer)

    def finish(self, message, timeout):
        with message.lock:
            if message.coming is not None:
                message.peer, parcel = self._get(message.coming, message.where, timeout)
                _fill(message.tensor, self._get(parcel[0], message.where, timeout), message.where, message.peer)
                message.coming = None
        return message.peer

    def finished(self, message):
        return message.coming is None or bool(_ray().wait([message.coming], timeout=0)[0])

    def leave(self):
        """Nothing of this rank's is left to be taken."""


class _Message:
    def __init__(self, coming, tensor, where, peer):
        self.lock, self.coming, self.tensor, self.where, self.peer = threading.Lock(), coming, tensor, where, peer


def _bytes(tensor):
    """The bytes of a dense tensor, as an array that Ray copies."""
    return tensor.detach().reshape(-1).view(_C.uint8).numpy()


def _of(content, like):
    """The flat tensor whose bytes these are; it is not to be written to."""
    return flambeau.frombuffer(bytearray(content), dtype=like.dtype) if len(content) else like.new_empty(0)


def _fill(tensor, content, where, sender):
    if len(content) != tensor.nbytes:
        raise DistBackendError(f"{where}: rank {sender} sent {len(content)} bytes, and the tensor to receive into has "
                               f"{tensor.nbytes}")
    if len(content):
        tensor.view(-1).copy_(_of(content, tensor))


def reduced(parts, op):
    """The reduction of tensors, one after the other; half precision is rounded once.

    >>> import flambeau
    >>> from flambeau.distributed import ReduceOp
    >>> from flambeau.distributed._through_ray import reduced
    >>> reduced([flambeau.tensor([1, 5]), flambeau.tensor([4, 2])], ReduceOp.AVG)
    tensor([2, 3])
    """
    dtype = parts[0].dtype
    wide = [part.float() for part in parts] if dtype in _HALVES else parts
    name = _LOGICAL.get(op, _REDUCE[op]) if dtype is _C.bool else _REDUCE[op]
    result = functools.reduce(getattr(flambeau, name), wide)
    if op == RedOpType.AVG and dtype is not _C.bool:
        whole = not (dtype.is_floating_point or dtype.is_complex)
        result = result.div(len(parts), rounding_mode="trunc") if whole else result / len(parts)
    return result.to(dtype)
