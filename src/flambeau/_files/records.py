"""PyTorchFileReader and PyTorchFileWriter: the records of an archive by name, for programs that lay out their own."""

import io
import os
from sys import byteorder

import flambeau

from .. import _C
from .._shown import shown
from .._tensor.storage import TypedStorage, UntypedStorage
from .archive import Zip
from .zip_writer import ALIGNMENT, ZipWriter


class _Records(Zip):
    """An archive of any records, which all lie in one folder."""

    methods = (0, 8)

    def __init__(self, file, name):
        super().__init__(file, name)
        tops = {path.partition("/")[0] for path in self.entries}
        if len(tops) != 1 or not all("/" in path for path in self.entries):
            raise RuntimeError(f"PyTorchFileReader: {name}: expected records in one folder, found {len(tops)}")
        self.top = f"{tops.pop()}/"


class PyTorchFileReader:
    """Reads the records of an archive, of a path or of a binary file: each is checked as `load` checks it.

    >>> import flambeau, io
    >>> file = io.BytesIO()
    >>> writer = flambeau.PyTorchFileWriter(file)
    >>> writer.write_record("note", b"four", 4)
    >>> writer.write_end_of_file()
    >>> flambeau.PyTorchFileReader(io.BytesIO(file.getvalue())).get_record("note")
    b'four'
    """

    def __init__(self, name_or_buffer):
        path, self._own = isinstance(name_or_buffer, str | os.PathLike), None
        try:
            self._own = open(name_or_buffer, "rb") if path else None  # noqa: SIM115
        except OSError as error:
            raise RuntimeError(f"PyTorchFileReader: {error}") from error
        self._zip = _Records(self._own if path else name_or_buffer, shown(name_or_buffer) if path else "the file")

    def __del__(self):
        if self._own is not None:
            self._own.close()

    def get_all_records(self):
        """The names of the records, in the order of the directory."""
        return [path[len(self._zip.top):] for path in self._zip.entries]

    def has_record(self, name):
        """Whether there is a record of this name."""
        return self._zip.top + name in self._zip.entries

    def get_record(self, name):
        """Its bytes."""
        self._zip.size(name)
        return bytes(self._zip.unpacked(name))

    def get_record_size(self, name):
        """How many bytes it has."""
        return self._zip.size(name)

    def get_record_offset(self, name):
        """Where its bytes begin in the file."""
        return self._zip.offset(name)

    def get_record_header_offset(self, name):
        """Where its header begins in the file."""
        self._zip.size(name)
        return self._zip.entries[self._zip.top + name].start

    def get_storage_from_record(self, name, numel, dtype):
        """A tensor of `numel` elements, of that dtype, with the bytes of the record."""
        dtype = dtype if isinstance(dtype, _C.dtype) else flambeau.uint8
        data = bytearray(self.get_record(name))
        if len(data) != numel * dtype.itemsize:
            raise RuntimeError(f"get_storage_from_record: {shown(name)} has {len(data)} bytes, and {numel} elements of "
                               f"{dtype} have {numel * dtype.itemsize}")
        return flambeau.frombuffer(data, dtype=dtype) if data else flambeau.empty(0, dtype=dtype)

    def serialization_id(self):
        """A number that tells archives of other contents apart, as text; "" where the writer has given none."""
        name = ".data/serialization_id"
        return self.get_record(name).decode("latin1") if self.has_record(name) else ""


class PyTorchFileWriter:
    """Writes records into an archive: to a path, to a binary file, or to a function that takes bytes.

    They begin at multiples of `storage_alignment` (64). Checksums are always written, as a reader needs them.
    """

    def __init__(self, file_name, compute_crc32=True, storage_alignment=ALIGNMENT):
        if not compute_crc32 or storage_alignment != ALIGNMENT:
            raise NotImplementedError("PyTorchFileWriter: records have a checksum and begin at multiples of "
                                      f"{ALIGNMENT}; leave compute_crc32 and storage_alignment out")
        self._path = isinstance(file_name, str | os.PathLike)
        name = os.path.splitext(os.path.basename(os.fspath(file_name)))[0] if self._path else "archive"
        self._name, self._version, self._done = name, 0, False
        self._file = open(file_name, "wb") if self._path else _writable(file_name)  # noqa: SIM115
        self._zip, self._records, self._crc, self._number = ZipWriter(self._file), {}, 0, ""

    def __del__(self):
        if getattr(self, "_path", False) and hasattr(self, "_file"):
            self._file.close()

    def archive_name(self):
        """The folder of the records: the file's name without its ending."""
        return self._name

    def write_record(self, name, data, size):
        """One record: `size` bytes of text, bytes, or a storage."""
        self._check(name)
        data = _bytes_of(data)
        if len(data) < size:
            raise RuntimeError(f"write_record: {shown(name)} has {len(data)} bytes, fewer than size={size}")
        data = data[:size]
        self._zip.put(f"{self._name}/{name}", data)
        self._records[name] = None
        self._crc = _C.crc32(data, self._crc)

    def write_record_metadata(self, name, size):
        """A record of `size` bytes that somebody else fills in: zeros."""
        self.write_record(name, bytes(size), size)

    def _check(self, name):
        if self._done:
            raise RuntimeError(f"write_record: {shown(name)} comes after write_end_of_file(), which ends the archive")
        if name in self._records:
            raise RuntimeError(f"write_record: {shown(name)} is written already; names of records differ")

    def get_all_written_records(self):
        """The names of the records so far."""
        return set(self._records)

    def set_min_version(self, version):
        """The least version of the format that the archive names; the usual one is 3."""
        self._version = max(self._version, int(version))

    def serialization_id(self):
        """A number made of the records' contents, as text; "" before the archive is ended."""
        return self._number

    def write_end_of_file(self):
        """Adds what every archive says of itself, and ends it."""
        self._number = f"{self._crc:040d}"
        for name, data in (("version", f"{max(3, self._version)}\n"), ("byteorder", byteorder),
                           (".data/serialization_id", self._number)):
            if name not in self._records:
                self.write_record(name, data, len(data))
        self._zip.finish()
        self._done = True
        self._file.close() if self._path else self._file.flush()


def _bytes_of(data):
    if isinstance(data, str):
        return data.encode()
    if isinstance(data, bytes | bytearray | memoryview):
        return data
    if not isinstance(data, TypedStorage | UntypedStorage):
        raise TypeError(f"write_record: expected text, bytes or a storage, got {type(data).__name__}")
    memory = flambeau.empty(0, dtype=flambeau.uint8).set_(data if isinstance(data, UntypedStorage) else data.untyped())
    return memoryview(memory) if memory.numel() else b""


class _Sink(io.RawIOBase):
    """A function that takes bytes, as a file."""

    def __init__(self, function):
        self._take = function

    def writable(self):
        """Yes."""
        return True

    def write(self, data):
        """Gives them to the function."""
        self._take(bytes(data))
        return len(data)


def _writable(target):
    return target if hasattr(target, "write") else _Sink(target)
