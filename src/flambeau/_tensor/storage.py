"""Storages: the memory behind a tensor, as bytes or as elements."""

from .. import _C
from .._shown import shown
from . import shared_memory
from .creation import tensor
from .mapped import map_file
from .methods import TYPE_NAMES

_DTYPES = {name.removesuffix("Tensor"): dtype for dtype, name in TYPE_NAMES.items()}
_CONVERSIONS = {
    "bool": _C.bool, "byte": _C.uint8, "char": _C.int8, "short": _C.int16, "int": _C.int32, "long": _C.int64,
    "half": _C.float16, "bfloat16": _C.bfloat16, "float": _C.float32, "double": _C.float64,
    "complex_float": _C.complex64, "complex_double": _C.complex128, "float8_e4m3fn": _C.float8_e4m3fn,
    "float8_e5m2": _C.float8_e5m2,
}


class _Storage:
    """What both kinds share: `_owner` is a tensor with this storage, `_memory` what it holds by this kind's dtype."""

    is_hpu = is_sparse = is_sparse_csr = False

    @property
    def is_cuda(self):
        """Whether the memory is on a CUDA device."""
        return self._owner.is_cuda

    @property
    def device(self):
        """Where the memory is."""
        return self._owner.device

    @property
    def _memory(self):
        if self._owner.is_meta:
            raise NotImplementedError("a storage on the meta device has no memory")
        memory = _C.storage_bytes(self._owner.detach())
        if self.dtype is _C.uint8:
            return memory
        return _C.storage_view(memory, self.dtype, 0, (memory.numel() // self.dtype.itemsize,), (1,))

    def _as_tensor(self, dtype):
        """All of the memory as a tensor of that dtype, which is None for a storage's own (integers, of bytes)."""
        own = self.dtype if isinstance(self, TypedStorage) else None
        if own is not None and dtype not in (None, own):
            raise RuntimeError(f"a storage of {own} is no tensor of {dtype}; use its untyped(), or convert the tensor")
        return self._elements(dtype or own or _C.int64)

    def _elements(self, dtype):
        """All of the memory as a 1-d tensor."""
        memory = _C.storage_bytes(self._owner.detach())
        return _C.storage_view(memory, dtype, 0, (memory.numel() // dtype.itemsize,), (1,))

    def nbytes(self):
        """Number of bytes."""
        return self._owner._storage_nbytes()

    def __sizeof__(self):
        return super().__sizeof__() + self.nbytes()

    @property
    def _cdata(self):
        return _C.storage_id(self._owner)  # programs tell by it which storages are one

    def element_size(self):
        """Bytes per element."""
        return self.dtype.itemsize

    def size(self):
        """Number of elements."""
        return self.nbytes() // self.dtype.itemsize

    def __len__(self):
        return self.size()

    def data_ptr(self):
        """Address of the first byte."""
        return self._owner._storage_ptr()

    def get_device(self):
        """Index of the device; -1 on the CPU."""
        return -1

    def tolist(self):
        """The elements as numbers."""
        return self._memory.tolist()

    def __iter__(self):
        return iter(self.tolist())

    def __setitem__(self, index, value):
        if not isinstance(index, (int, slice)):
            raise TypeError(f"can't index a {type(self).__name__} with {type(index)}")
        self._memory[index] = value

    def fill_(self, value):
        """Sets every element."""
        self._memory.fill_(value)
        return self

    def copy_(self, source, non_blocking=None):
        """Takes over the elements of a storage of the same size."""
        self._memory.copy_(source._memory, bool(non_blocking))
        return self

    def cpu(self):
        """This storage on the CPU: itself where it is there."""
        return self.to(device="cpu")

    def cuda(self, device=None, non_blocking=False):
        """A copy of this storage on a CUDA device, the current one where none is named."""
        return self.to(device="cuda" if device is None else device, non_blocking=non_blocking)

    def to(self, *, device=None, non_blocking=False):
        """This storage on a device: itself where it is there."""
        wanted = self.device if device is None else _C.placed_device(device)
        if wanted == self.device:
            return self
        if self.device.type == "meta":
            raise NotImplementedError(f"storage: one of the meta device has no values to copy to {device}")
        if "cuda" not in (wanted.type, self.device.type) or not _C._cuda.available():
            raise RuntimeError(f"storage: device {device} is not available in this build")
        return _over(type(self), self._memory.to(wanted, non_blocking=non_blocking))

    def is_pinned(self, device=None):
        """Whether CUDA devices can copy from it directly."""
        return self._owner.is_pinned(device)

    def pin_memory(self, device=None):
        """A copy that CUDA devices copy from directly; RuntimeError where there are none."""
        return _over(type(self), self._memory.pin_memory(device))

    def is_shared(self):
        """Whether the memory is shared between processes."""
        return self._owner.is_shared()

    def share_memory_(self):
        """Moves the memory to where other processes can use it."""
        self._owner.share_memory_()
        return self

    @property
    def filename(self):
        """The name of the file it is mapped from, where it has one."""
        return getattr(self, "_filename", None)

    def resizable(self):
        """Whether the memory can grow: not where it belongs to another library."""
        return _C.storage_resizable(self._owner)

    def resize_(self, size):
        """Memory for that many elements (bytes, of an UntypedStorage).

        What is given up goes back to the system: tensors that still reach there read zeros, until the storage has its
        size again. One that becomes larger than it ever was moves with the tensor it was taken from; others stay.
        """
        nbytes = int(size) * self.dtype.itemsize
        if nbytes < 0:
            raise RuntimeError(f"resize_: expected a size of at least 0, got {shown(size)}")
        if not self._owner.is_meta and _C.storage_resize(self._owner, nbytes):
            return self
        if nbytes < self.nbytes():
            raise NotImplementedError(f"resize_: the memory of this storage ({self.nbytes()} bytes, {nbytes} asked "
                                      "for) is not on the CPU, or belongs to another library, and only grows")
        t = self._owner
        shape, strides, offset = tuple(t.shape), tuple(t.stride()), t.storage_offset()
        memory = _C.array([], _C.uint8, True)
        memory.set_(self)
        memory.resize_(nbytes)
        t._set_storage(_C.storage_view(memory, t.dtype, 0, (nbytes // t.itemsize,), (1,)), offset, shape, strides)
        return self

    def __eq__(self, other):
        return isinstance(other, _Storage) and self.data_ptr() == other.data_ptr() and self.nbytes() == other.nbytes()

    def __hash__(self):
        return hash(self.data_ptr())

    def __reduce__(self):
        return _rebuild, (type(self), self.dtype, self._memory.clone())

    def __copy__(self):
        return self.clone()

    def __deepcopy__(self, memo):
        key = ("storage", _C.storage_id(self._owner))
        if key not in memo:
            memo[key] = _C.storage_bytes(self._owner.detach()).clone()
        return _over(type(self), memo[key].view(self.dtype) if self.dtype is not _C.uint8 else memo[key])

    def clone(self):
        """A storage of its own with the same elements."""
        return _over(type(self), self._memory.clone())


def _over(kind, owner):
    """A storage of `kind` over the memory of a tensor."""
    made = kind.__new__(kind)
    made._owner = owner
    if issubclass(kind, TypedStorage):
        made.dtype = owner.dtype
    return made


def _rebuild(kind, dtype, memory):
    return _over(kind, memory)


class StorageBase(_Storage):
    """What holds the memory of tensors itself: every UntypedStorage is one.

    >>> import flambeau
    >>> x = flambeau.zeros(4)
    >>> isinstance(x.untyped_storage(), flambeau.StorageBase), isinstance(x.storage(), flambeau.StorageBase)
    (True, False)
    """


class UntypedStorage(StorageBase):
    """The bytes of a tensor's memory, shared with it; or new ones: of a number of bytes, or with given values.

    >>> import flambeau
    >>> x = flambeau.zeros(4)
    >>> s = x[1:].untyped_storage()
    >>> len(s), s.data_ptr() == x.data_ptr()
    (16, True)
    """

    dtype = _C.uint8

    def __init__(self, source=0, *, device=None):
        if isinstance(source, _C.Tensor):
            self._owner = source
        elif isinstance(source, int):
            self._owner = tensor([], dtype=_C.uint8).new_empty((source,), device=device)
        else:
            self._owner = tensor([int(value) & 0xFF for value in source], dtype=_C.uint8, device=device)

    def __getitem__(self, index):
        if isinstance(index, int):
            return self._memory[index].item()
        if not isinstance(index, slice):
            raise TypeError(f"can't index a {type(self).__name__} with {type(index)}")
        if index.step not in (None, 1):
            raise RuntimeError(f"UntypedStorage: a slice takes every byte between its ends, got step {index.step}")
        part = self._memory[index]
        return _over(type(self), _C.from_dlpack(part.__dlpack__()) if part.numel() else part.clone())

    def untyped(self):
        """This storage."""
        return self

    def new(self):
        """An empty storage."""
        return UntypedStorage(0)

    def byteswap(self, dtype):
        """Reverses the bytes of every element of that dtype, in place."""
        size = (dtype.to_real() if dtype.is_complex else dtype).itemsize
        memory = self._memory
        memory.copy_(memory.reshape(-1, size).flip(1).reshape(-1))

    @classmethod
    def _new_shared(cls, size, *, device="cpu"):  # collate functions call it
        if _C.device(device).type != "cpu":
            raise NotImplementedError(f"_new_shared: memory can be shared on the CPU alone, not on {device}")
        return _over(cls, shared_memory.create(int(size)).tensor())

    @staticmethod
    def from_file(filename, shared=False, nbytes=0):
        """The first `nbytes` bytes of a file, mapped into memory; with `shared` writes go to the file."""
        made = UntypedStorage(_C.frombuffer(map_file(filename, shared, nbytes), dtype=_C.uint8))
        made._filename = str(filename) if shared else None
        return made

    @staticmethod
    def from_buffer(buffer, count=-1, byte_order=None, offset=0, dtype=_C.uint8, shared=False):
        """The bytes of a buffer, copied."""
        if shared:
            raise NotImplementedError("from_buffer: shared=True is not available; use share_memory_() of the result")
        view = memoryview(buffer).cast("B")[offset:]
        view = view if count < 0 else view[:count * dtype.itemsize]
        made = UntypedStorage(_C.frombuffer(bytearray(view), dtype=_C.uint8))
        if byte_order == "big":
            made.byteswap(dtype)
        return made

    def type(self, dtype=None, non_blocking=False):
        """The type's name."""
        if dtype is not None:
            raise NotImplementedError("UntypedStorage.type: bytes have no dtype to convert from; use a tensor")
        return "torch.storage.UntypedStorage"

    def __repr__(self):
        body = "".join(f" {value}\n" for value in self.tolist()) if not self._owner.is_meta else "...\n"
        return f"{body}[torch.storage.UntypedStorage(device={self.device}) of size {len(self)}]"


class TypedStorage(_Storage):
    """A tensor's memory by elements of its dtype.

    >>> import flambeau
    >>> flambeau.tensor([1.5, 2.5])[1:].storage().tolist()
    [1.5, 2.5]
    """

    def __init__(self, source=0, *, wrap_storage=None, dtype=None, device=None, _internal=False):
        self.dtype = dtype or getattr(type(self), "dtype", None) or _C.default_dtype()
        if wrap_storage is not None:
            self._owner = wrap_storage._elements(self.dtype)
        elif isinstance(source, _C.Tensor):
            self._owner = source
            self.dtype = source.dtype
        elif isinstance(source, int):
            self._owner = tensor([], dtype=self.dtype).new_empty((source,), device=device)
        else:
            self._owner = tensor(list(source), dtype=self.dtype, device=device)

    def __getitem__(self, index):
        if isinstance(index, slice):
            raise RuntimeError("TypedStorage: an index must be an int here; take slices of untyped()")
        return self._memory[index].item()

    def untyped(self):
        """The same memory by bytes."""
        return UntypedStorage(self._owner)

    _untyped_storage = property(untyped, doc="The same memory by bytes.")

    def pickle_storage_type(self):
        """The name files keep for this dtype, as 'FloatStorage'."""
        return TYPE_NAMES[self.dtype].removesuffix("Tensor") + "Storage"

    @classmethod
    def from_file(cls, filename, shared=False, size=0, dtype=None):
        """The first `size` elements of a file, mapped into memory; with `shared` writes go to the file."""
        dtype = dtype or getattr(cls, "dtype", None) or _C.default_dtype()
        memory = UntypedStorage.from_file(filename, shared, size * dtype.itemsize)
        made = TypedStorage(wrap_storage=memory, dtype=dtype)
        made._filename = memory.filename
        return made

    @classmethod
    def from_buffer(cls, buffer, byte_order=None, count=-1, offset=0, *, dtype=None):
        """The elements of a buffer, copied; byte_order: "little", "big" or "native", needed beyond one byte."""
        dtype = dtype or getattr(cls, "dtype", None) or _C.default_dtype()
        if (byte_order is None and dtype.itemsize > 1) or byte_order not in (None, "native", "little", "big"):
            raise RuntimeError(f"from_buffer: byte_order must be 'little', 'big' or 'native' for elements of {dtype}, "
                               f"got {shown(byte_order)}")
        return TypedStorage(wrap_storage=UntypedStorage.from_buffer(buffer, count, byte_order, offset, dtype),
                            dtype=dtype)

    def type(self, dtype=None, non_blocking=False):
        """The type's name, or these elements in another dtype."""
        if dtype is None:
            return f"torch.{self.pickle_storage_type()}"
        name = dtype.rpartition(".")[2].removesuffix("Storage") if isinstance(dtype, str) else None
        target = _DTYPES[name] if name is not None else getattr(dtype, "dtype", dtype)
        return _over(TypedStorage, self._memory.to(target))

    def __repr__(self):
        body = "".join(f" {value}\n" for value in self.tolist()) if not self._owner.is_meta else "...\n"
        return f"{body}[torch.storage.TypedStorage(dtype={self.dtype}, device={self.device}) of size {len(self)}]"


def _conversion(name, dtype):
    def convert(self):
        return _over(TypedStorage, self._memory.to(dtype, copy=True))

    convert.__name__ = name
    convert.__doc__ = f"The elements as {dtype}, in a storage of their own."
    return convert


for _name, _dtype in _CONVERSIONS.items():
    setattr(_Storage, _name, _conversion(_name, _dtype))


class _StorageType(type):
    """`FloatStorage` and its like: every TypedStorage of that dtype on that device is an instance."""

    def __instancecheck__(cls, instance):
        return isinstance(instance, TypedStorage) and instance.dtype is cls.dtype \
            and (instance.device.type == "cuda") == (cls.device == "cuda")

    def from_file(cls, filename, shared=False, size=0):
        return TypedStorage.from_file(filename, shared, size, cls.dtype)

    def from_buffer(cls, buffer, byte_order=None, count=-1, offset=0):
        return TypedStorage.from_buffer(buffer, byte_order, count, offset, dtype=cls.dtype)

    def __call__(cls, *args, **kwargs):
        return TypedStorage(*args, **{"dtype": cls.dtype, "device": cls.device, **kwargs})


def _types(device, module):
    return {f"{name}Storage": _StorageType(f"{name}Storage", (), {
        "__module__": module, "dtype": dtype, "device": device, "__doc__": f"Memory of {dtype} elements."})
        for name, dtype in _DTYPES.items()}


TYPES, CUDA_TYPES = _types(None, "torch"), _types("cuda", "torch.cuda")
globals().update(TYPES)
Storage = FloatStorage = TYPES["FloatStorage"]


def is_storage(obj):
    """Whether `obj` is a storage."""
    return isinstance(obj, _Storage)
