"""Files without their values: `skip_data` writes room for them, or reads the room only."""

import threading
from contextlib import contextmanager

_here = threading.local()


class Zeros:
    """Bytes that are all zero, without their memory."""

    def __init__(self, size):
        self.size = size

    def numel(self):
        return self.size

    def clone(self):
        return self

    def __len__(self):
        return self.size

    def __getitem__(self, part):
        return bytes(len(range(*part.indices(self.size))))


@contextmanager
def skip_data(materialize_fake_tensors=False):
    """In this block `save` leaves room for the values of tensors (zeros), and `load` gives tensors of any values.

    A file made this way is filled by other means, for example by several processes at once.

    >>> import flambeau, io
    >>> file = io.BytesIO()
    >>> with flambeau.serialization.skip_data():
    ...     flambeau.save(flambeau.ones(3), file)
    >>> flambeau.load(file)
    tensor([0., 0., 0.])
    """
    if materialize_fake_tensors:
        raise NotImplementedError("skip_data: there are no fake tensors to materialize; use tensors on the meta device")
    before = skipping()
    _here.on = True
    try:
        yield
    finally:
        _here.on = before


def skipping():
    """Whether this thread is in such a block."""
    return getattr(_here, "on", False)
