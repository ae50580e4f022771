"""NumPy's files: one array (.npy), or an archive of them (.npz), as tensors; without Python objects."""

import importlib
import io
from math import prod

import flambeau

from .._shown import shown
from .archive import Zip
from .extent import PickleError
from .replacing import replacing
from .zip_writer import Output, ZipWriter

MAGIC = b"\x93NUMPY"
_ALIGNED = 16


class Arrays(Zip):
    """An archive of arrays, which may be compressed."""

    methods = (0, 8)

    def load(self, mapped):
        return {name.removesuffix(".npy"): self.array(name, mapped) for name in self.entries}

    def array(self, name, mapped):
        if not name.endswith(".npy"):
            raise RuntimeError(f"load: {self.name}: entry {shown(name)} is no .npy file")
        if mapped is not None and self.entries[name].method == 0:
            start = self.offset(name)
            return read_npy(mapped, start, start + self.size(name), f"{self.name}: {name}", True)
        data = self.unpacked(name)
        return read_npy(data, 0, len(data), f"{self.name}: {name}", True)


def header(data, start, end, name):
    """(shape, whether its first index runs fastest, dtype, where its bytes begin) of an array in a file's memory."""
    from numpy.lib import format as npy
    readers = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}
    head = io.BytesIO(data[start:min(end, start + (1 << 16))])
    try:
        shape, fortran, dtype = readers[npy.read_magic(head)](head)
    except KeyError:
        raise RuntimeError(f"load: {name}: a .npy file of an unknown version") from None
    except Exception as error:  # whatever the parser of the header meets
        raise RuntimeError(f"load: {name} is no .npy file, or a damaged one: {type(error).__name__}") from error
    if dtype.hasobject:
        raise RuntimeError(f"load: {name} holds Python objects, which only run as programs")
    if not all(type(n) is int and n >= 0 for n in shape) or len(shape) > 64:
        raise RuntimeError(f"load: {name} has the shape {shown(shape)}")
    begin = start + head.tell()
    if begin + prod(shape) * dtype.itemsize != end or (dtype.itemsize == 0 and prod(shape)):
        raise RuntimeError(f"load: {name} is truncated or damaged: shape {shown(shape)} of {dtype!s:.60} does not fit "
                           f"its {end - begin} bytes")
    return shape, fortran, dtype, begin


def read_npy(data, start, end, name, shared):
    """A tensor of the array in data[start:end]; `shared`: it may lie in that memory. Other dtypes stay NumPy's."""
    import numpy
    arrays = importlib.import_module("flambeau._files.arrays")  # which needs NumPy to be imported
    shape, fortran, dtype, begin = header(data, start, end, name)
    if not shared or begin % _ALIGNED:
        data, begin = bytearray(data[begin:end]), 0
    if not prod(shape):
        data, begin = bytearray(dtype.itemsize or 1), 0
    found = numpy.ndarray(shape, dtype, data, begin, order="F" if fortran else "C")
    if not dtype.isnative:
        found = found.astype(dtype.newbyteorder("="))
    try:
        arrays.check_texts(found)
    except PickleError as error:
        raise RuntimeError(f"load: {name}: {error}") from None
    try:
        return flambeau.from_numpy(found)
    except TypeError:
        return found


def save_npy(file, tensor):
    """Writes a tensor as a .npy file, whole or not at all.

    >>> import flambeau, io, numpy
    >>> file = io.BytesIO()
    >>> flambeau.serialization.save_npy(file, flambeau.arange(3))
    >>> _ = file.seek(0)
    >>> numpy.load(file)
    array([0, 1, 2])
    """
    _write(file, lambda out: Output(out).write(as_npy(tensor, "save_npy")))


def save_npz(file, *tensors, **named):
    """Writes tensors as a .npz archive, whole or not at all: under their names, or as arr_0, arr_1, … in order.

    >>> import flambeau, io
    >>> file = io.BytesIO()
    >>> flambeau.serialization.save_npz(file, flambeau.zeros(2), w=flambeau.ones(1))
    >>> flambeau.load(file)
    {'arr_0': tensor([0., 0.]), 'w': tensor([1.])}
    """
    parts = {f"arr_{k}": tensor for k, tensor in enumerate(tensors)}
    if parts.keys() & named.keys():
        raise ValueError(f"save_npz: the name {min(parts.keys() & named.keys())} is that of a tensor without name too")
    parts = {name: as_npy(tensor, "save_npz") for name, tensor in (parts | named).items()}

    def write(out):
        archive = ZipWriter(out)
        for name, data in parts.items():
            archive.put(name + ".npy", data)
        archive.finish()

    _write(file, write)


def _write(file, write):
    if hasattr(file, "write"):
        write(file)
        return
    try:
        with replacing(file) as out:
            write(out)
    except OSError as error:
        raise RuntimeError(f"save: cannot write {shown(file)}: {error.strerror or error}") from error


def as_npy(tensor, name):
    import numpy
    from numpy.lib import format as npy
    array = tensor.detach().numpy() if isinstance(tensor, flambeau.Tensor) else numpy.asarray(tensor)
    if array.dtype.hasobject:
        raise TypeError(f"{name}: an array of Python objects cannot be written")
    out = io.BytesIO()
    npy.write_array(out, array, allow_pickle=False)
    return out.getbuffer()
