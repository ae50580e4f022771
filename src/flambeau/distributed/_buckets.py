"""Several tensors in one piece of memory, and GradBucket: gradients laid out so, as communication hooks see them."""

import flambeau


def joined(tensors):
    """A copy of all elements, one tensor after the other, in one dimension; they have one dtype."""
    return flambeau.cat([x.detach().reshape(-1) for x in tensors])


def cut(buffer, tensors):
    """The parts of such memory, in the shapes of the tensors."""
    return [part.view(x.shape) for part, x in zip(buffer.split([x.numel() for x in tensors]), tensors)]


class GradBucket:
    """Gradients that are exchanged together; `buffer()` has them one after the other, in `dtype` if it is given.

    sparse: there is one parameter, whose gradients are sparse tensors and have no buffer.
    """

    def __init__(self, index, parameters, dtype=None, sparse=False):
        self._index, self._parameters, self._last = index, parameters, False
        self._dtype, self.sparse = parameters[0].dtype if dtype is None else dtype, sparse
        self._elements = sum(p.numel() for p in parameters)
        self.leave_memory()
        self.parts = [None] * len(parameters)  # what is exchanged where the gradients stay in their own memory
        self.waiting, self.result = 0, None  # parameters without a gradient yet; what the exchange returned

    def leave_memory(self):
        """The gradients keep the memory; the bucket takes another piece when it is next asked for."""
        self._buffer = self._views = None

    def _cut(self, buffer):
        return cut(buffer, self._parameters)

    def index(self):
        """Its number: buckets are exchanged from 0 on, which has the parameters that are used last."""
        return self._index

    def buffer(self):
        """All gradients, as one dimension."""
        if self._buffer is None:
            self._buffer = flambeau.empty(self._elements, dtype=self._dtype, device=self._parameters[0].device)
            self._views = self._cut(self._buffer)
        return self._buffer

    def gradients(self):
        """The parts of the buffer, in the shapes of the parameters."""
        self.buffer()
        return self._views

    def parameters(self):
        """The parameters that the gradients are of."""
        return self._parameters

    def is_last(self):
        """Whether no other bucket comes after it."""
        return self._last

    def set_buffer(self, buffer):
        """Puts other gradients into the buffer's place."""
        if buffer.numel() != self._elements:
            raise ValueError(f"GradBucket.set_buffer: expected {self._elements} elements, got {buffer.numel()}")
        self.buffer().copy_(buffer.view(-1))
