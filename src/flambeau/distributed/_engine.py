"""Engines: how tensors get from one process to another. Every engine has these methods, and groups use no others.

All of them block until this rank's part is done, are called by one thread at a time, and take dense, contiguous tensors
that have the same dtype and size on all ranks (`all_to_all`: sizes of their own). `where` says what the call is and
where it stands in the program; `timeout` is in seconds. What goes wrong is a DistBackendError that names the rank.
"""

import contextlib

import flambeau


class Engine:
    """The interface, for one group of processes; `rank` and `size` are this process's place in it."""

    name = "none"
    joins = False  # whether several tensors are reduced as quickly as one of as many elements
    launches = False  # whether a call only begins what a stream carries out; such an engine has `launch`

    def __init__(self, rank, size):
        self.rank, self.size = rank, size

    def barrier(self, where, timeout):
        """Waits until all ranks are here."""
        raise NotImplementedError(f"{self.name}: barrier")

    def broadcast(self, tensor, root, where, timeout):
        """The tensor of the root goes into that of every other rank."""
        raise NotImplementedError(f"{self.name}: broadcast")

    def all_reduce(self, tensor, op, where, timeout):
        """All tensors become their reduction, with the same bits everywhere."""
        raise NotImplementedError(f"{self.name}: all_reduce")

    def all_reduce_coalesced(self, tensors, op, where, timeout):
        """`all_reduce` of several tensors of one dtype."""
        with self.grouped():
            for tensor in tensors:
                self.all_reduce(tensor, op, where, timeout)

    def reduce(self, tensor, op, root, where, timeout):
        """The root's tensor becomes the reduction of all."""
        raise NotImplementedError(f"{self.name}: reduce")

    def all_gather(self, outputs, tensor, where, timeout):
        """Output r becomes the tensor of rank r."""
        raise NotImplementedError(f"{self.name}: all_gather")

    def gather(self, outputs, tensor, root, where, timeout):
        """Output r of the root becomes the tensor of rank r; others have no outputs."""
        nothing = tensor.view(-1)[:0]
        self.all_to_all(outputs or [nothing] * self.size, [tensor if r == root else nothing for r in range(self.size)],
                        where, timeout)

    def scatter(self, tensor, inputs, root, where, timeout):
        """The tensor of rank r becomes input r of the root; others have no inputs."""
        nothing = tensor.view(-1)[:0]
        self.all_to_all([tensor if r == root else nothing for r in range(self.size)], inputs or [nothing] * self.size,
                        where, timeout)

    def reduce_scatter(self, tensor, inputs, op, where, timeout):
        """The tensor of rank r becomes the reduction of everybody's input r."""
        raise NotImplementedError(f"{self.name}: reduce_scatter")

    def all_to_all(self, outputs, inputs, where, timeout):
        """Output r becomes the input of rank r that is for this rank."""
        raise NotImplementedError(f"{self.name}: all_to_all")

    def reduces(self, dtype, op):
        """Whether elements of this dtype are reduced in this way."""
        raise NotImplementedError(f"{self.name}: reduces")

    def send(self, tensor, peer, tag, where):
        """Begins to send; returns a message for `finish`."""
        raise NotImplementedError(f"{self.name}: send")

    def receive(self, tensor, peer, tag, where):
        """Begins to receive (peer None: from whoever comes first); returns a message for `finish`."""
        raise NotImplementedError(f"{self.name}: receive")

    def finish(self, message, timeout):
        """Waits until a message is there; returns the rank at its other side."""
        raise NotImplementedError(f"{self.name}: finish")

    def finished(self, message):
        """Whether `finish` would return at once."""
        raise NotImplementedError(f"{self.name}: finished")

    def device(self):
        """Where its tensors are."""
        return flambeau.device("cpu")

    def together(self):
        """Context in which messages begin all at once when it ends, where that makes a difference."""
        return contextlib.nullcontext()

    def grouped(self):
        """Context in which collectives are one, where that makes a difference."""
        return contextlib.nullcontext()

    def leave(self):
        """This rank takes no further part."""
        raise NotImplementedError(f"{self.name}: leave")
