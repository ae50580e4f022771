"""Messages between two ranks: send, receive, several at once."""

import threading

from .. import _C
from .._shown import shown
from . import _checks as checks
from ._checks import Dense
from ._groups import member
from ._stores import seconds_of
from ._where import where
from ._work import Work


class _Message(Work):
    """A tensor on its way."""

    def __init__(self, group, engine, message, dense, tensor):
        super().__init__([tensor])
        self._group, self._engine, self._message, self._dense = group, engine, message, dense
        self._end, self._from = threading.Lock(), None

    def _complete(self, seconds):
        """Waits for it; what has come goes into the tensor once."""
        peer = self._engine.finish(self._message, seconds)
        with self._end:
            if self._from is None:
                self._from = peer
                if self._dense is not None:
                    self._dense.back()

    def wait(self, timeout=None):
        """Waits until it is there: True; RuntimeError: it will not come, or time is up."""
        seconds = 0 if timeout is None else seconds_of(timeout, "Work.wait")
        self._complete(seconds if seconds > 0 else self._group.timeout)
        return True

    def is_completed(self):
        """Whether it is there."""
        return self._done.is_set() or self._engine.finished(self._message)

    def source_rank(self):
        """The rank it came from, as a number in the group of all."""
        self.wait()
        return self._group.ranks[self._from]

    _source_rank = source_rank


def _peer(group, number, place, name, what):
    peer = checks.rank(group, number, place, name, what)
    if peer == group.rank():
        raise ValueError(f"{name}: {what} is this rank itself ({shown(group.ranks[peer])}); copy the tensor instead")
    return peer


def _begun(name, tensor, group, peer, tag, receives):
    checks.tensor(tensor, name)
    dense, engine = Dense(tensor, read=not receives), group.engine_of(tensor, name)
    begin = engine.receive if receives else engine.send
    other = "anyone" if peer is None else f"rank {group.ranks[peer]}"
    text = where(name, tensor, f" {'from' if receives else 'to'} {other}" + (f" tag {tag}" if tag else ""))
    return _Message(group, engine, begin(dense.memory, peer, tag, text), dense if receives else None, tensor)


def send(tensor, dst=None, group=None, tag=0, group_dst=None):
    """Sends a tensor to a rank; returns when it may be written to again."""
    group = member(group, "send")
    if group is not None:
        _begun("send", tensor, group, _peer(group, dst, group_dst, "send", "dst"), tag, False).wait()


def recv(tensor, src=None, group=None, tag=0, group_src=None):
    """Receives a tensor of the same size and dtype from a rank, or from whoever sends first; returns who it was."""
    group = member(group, "recv")
    if group is None:
        return -1
    anyone = src is None and group_src is None
    peer = None if anyone else _peer(group, src, group_src, "recv", "src")
    return _begun("recv", tensor, group, peer, tag, True).source_rank()


def isend(tensor, dst=None, group=None, tag=0, group_dst=None):
    """`send` that goes on by itself; the tensor must stay as it is until the Work is done."""
    group = member(group, "isend")
    if group is None:
        return None
    return _in_background(_begun("isend", tensor, group, _peer(group, dst, group_dst, "isend", "dst"), tag, False))


def irecv(tensor, src=None, group=None, tag=0, group_src=None):
    """`recv` that goes on by itself; the tensor has its values when the Work is done."""
    group = member(group, "irecv")
    if group is None:
        return None
    anyone = src is None and group_src is None
    peer = None if anyone else _peer(group, src, group_src, "irecv", "src")
    return _in_background(_begun("irecv", tensor, group, peer, tag, True))


def _in_background(work):
    if work._engine.launches:
        return work
    return work._group.message(lambda: work._complete(work._group.timeout), work)


class P2POp:
    """One isend or irecv for `batch_isend_irecv`."""

    def __init__(self, op, tensor, peer=None, group=None, tag=0, group_peer=None):
        if op not in (isend, irecv):
            raise ValueError(f"P2POp: op must be distributed.isend or distributed.irecv, got {shown(op)}")
        if not isinstance(tensor, _C.Tensor):
            raise TypeError(f"P2POp: tensor must be a Tensor, got {type(tensor).__name__}")
        self.op, self.tensor, self.tag, self.group = op, tensor, tag, member(group, "P2POp")
        self.group_peer = _peer(self.group, peer, group_peer, "P2POp", "peer")
        self.peer = self.group.ranks[self.group_peer]


def batch_isend_irecv(p2p_op_list):
    """Begins all of them, in any order; returns their Works."""
    if not p2p_op_list or not all(isinstance(each, P2POp) for each in p2p_op_list):
        raise ValueError("batch_isend_irecv: expected a list of P2POp, at least one")
    if len({each.group for each in p2p_op_list}) > 1:
        raise ValueError("batch_isend_irecv: all must be in one group")
    first = p2p_op_list[0]
    with first.group.engine_of(first.tensor, "batch_isend_irecv").together():
        return [each.op(each.tensor, group=each.group, tag=each.tag,
                        **{"group_dst" if each.op is isend else "group_src": each.group_peer}) for each in p2p_op_list]
