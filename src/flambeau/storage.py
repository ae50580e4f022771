"""Storages as programs see them: the memory behind a tensor, by bytes or by elements."""

from . import _C
from .construct import tensor


class UntypedStorage:
    """The bytes of a tensor's memory, shared with it.

    >>> import flambeau
    >>> x = flambeau.zeros(4)
    >>> s = x[1:].untyped_storage()
    >>> len(s), s.data_ptr() == x.data_ptr()
    (16, True)
    """

    def __init__(self, source=0):
        if isinstance(source, int):
            source = tensor([0] * source, dtype=_C.uint8)
        self._owner = source
        self._bytes = None if source.is_meta else _C.storage_bytes(source.detach())

    @property
    def device(self):
        """Where the memory is."""
        return self._owner.device

    def nbytes(self):
        """Number of bytes."""
        return self._owner._storage_nbytes()

    size = __len__ = nbytes

    def element_size(self):
        """Bytes per element: 1."""
        return 1

    def data_ptr(self):
        """Address of the first byte."""
        return self._owner._storage_ptr()

    def tolist(self):
        """The bytes as numbers."""
        return self._bytes.tolist()

    def __getitem__(self, index):
        return self._bytes[index].item() if isinstance(index, int) else UntypedStorage(self._bytes[index].clone())

    def __setitem__(self, index, value):
        self._bytes[index] = value

    def __iter__(self):
        return iter(self.tolist())

    def fill_(self, value):
        """Sets every byte."""
        self._bytes.fill_(value)
        return self

    def copy_(self, source, non_blocking=False):
        """Takes over the bytes of a storage of the same size."""
        self._bytes.copy_(source._bytes)
        return self

    def clone(self):
        """A storage of its own with the same bytes."""
        return UntypedStorage(self._bytes.clone())

    def cpu(self):
        """This storage: it is on the CPU."""
        return self

    def is_shared(self):
        """Whether other processes use it: no."""
        return False

    def __repr__(self):
        return f"{type(self).__name__}(device={self.device}) of size {len(self)}"


class TypedStorage(UntypedStorage):
    """A tensor's memory by elements of its dtype."""

    def __init__(self, source):
        super().__init__(source)
        self.dtype = source.dtype
        count = self.nbytes() // source.element_size()
        self._bytes = None if source.is_meta else _C.storage_view(self._bytes, self.dtype, 0, (count,), (1,))

    def element_size(self):
        """Bytes per element."""
        return self.dtype.itemsize

    def size(self):
        """Number of elements."""
        return self.nbytes() // self.dtype.itemsize

    __len__ = size

    def untyped(self):
        """The same memory by bytes."""
        return UntypedStorage(self._owner)

    def clone(self):
        """A storage of its own with the same elements."""
        return TypedStorage(self._bytes.clone())


def is_storage(obj):
    """Whether `obj` is a storage."""
    return isinstance(obj, UntypedStorage)
