"""The zip archives of `save` and `load`: how entries are stored, and what the reader checks.

The archive is read without the standard library's reader, which believes the directory at the end where it differs
from the headers before the entries: here every byte of an entry is bounded by what comes after it, and both must agree.
"""

import os
import zlib
from struct import Struct
from sys import byteorder

from .. import _C
from .._shown import shown
from .settings import order_of
from .skipping import Zeros
from .zip_writer import ALIGNMENT, CHUNK, ZipWriter

# Signature first; the field names of the zip format are beside the places that use them.
_END = Struct("<4s4H2LH")
_LOCATOR = Struct("<4sLQL")
_END64 = Struct("<4sQ2H2L4Q")
_CENTRAL = Struct("<4s6H3L5H2L")
_LOCAL = Struct("<4s5H3L2H")
_SMALL = 4096
_MOST_PACKED = 1040  # Deflate makes no more than so many bytes of one
_FULL32 = 0xFFFFFFFF  # "the number stands in the zip64 field"
_ENCRYPTED, _SIZES_FOLLOW, _UTF8 = 0x1 | 0x40 | 0x2000, 0x8, 0x800


def write_archive(file, top, stream, storages):
    """An archive of an object: the stream that describes it, and its storages, {number: bytes}."""
    archive = ZipWriter(file)
    archive.put(f"{top}/data.pkl", stream)
    archive.put(f"{top}/.format_version", b"1")
    archive.put(f"{top}/.storage_alignment", str(ALIGNMENT).encode())
    archive.put(f"{top}/byteorder", byteorder.encode())
    for number, memory in storages.items():
        archive.put(f"{top}/data/{number}", as_bytes(memory))
    archive.put(f"{top}/version", b"3\n")
    archive.put(f"{top}/.data/serialization_id", f"{_C.crc32(stream):040d}".encode())
    archive.finish()


def as_bytes(memory):
    """The bytes of a storage, without a copy."""
    if isinstance(memory, Zeros):
        return memory
    return memoryview(memory) if memory.numel() else b""


class _Entry:
    """What the directory says of an entry; `limit` is where the next one begins."""

    __slots__ = ("crc", "flags", "limit", "method", "name", "packed", "size", "start")

    def __init__(self, name, flags, method, crc, packed, size, start):
        self.name = name  # as bytes
        self.flags = flags
        self.method = method
        self.crc = crc
        self.packed = packed  # bytes in the file
        self.size = size
        self.start = start


class Zip:
    """The entries of a file. Its directory is checked at once, an entry's own header when the entry is used."""

    methods = (0,)  # how entries may be stored: as they are
    top = ""        # what the names of all entries begin with
    order = byteorder

    def __init__(self, file, name):
        self.name = name
        self.file = file
        file.seek(0, os.SEEK_END)
        self.bytes = file.tell()
        if self._at(0, min(4, self.bytes)) != b"PK\x03\x04":
            empty = " (the file is empty)" if self.bytes == 0 else ""
            raise RuntimeError(f"load: {name} is not a zip archive as written by save{empty}, nor in any other format "
                               "that load knows: PyTorch's before 1.6, .npy, .npz, safetensors")
        self.entries = {}
        self._read_directory()
        self.checked = any(entry.crc for entry in self.entries.values())  # else it was written without checksums

    # --- the directory

    def _at(self, start, count):
        """That many bytes of the file from `start`, or fewer at its end."""
        self.file.seek(start)
        data = self.file.read(count)
        while len(data) < count and (more := self.file.read(count - len(data))):
            data += more
        return data

    def _damaged(self, what):
        raise RuntimeError(f"load: {self.name} is truncated or damaged: {what}")

    def _ending(self):
        """Where the directory begins, its length, and the number of entries in it."""
        tail_start = max(0, self.bytes - _END.size - 0xFFFF)
        tail = self._at(tail_start, self.bytes - tail_start)
        at = tail.rfind(b"PK\x05\x06")
        if at < 0 or len(tail) - at < _END.size:
            self._damaged("a zip archive's end is missing")
        _, disk, first_disk, here, count, size, start, comment = _END.unpack_from(tail, at)
        end = tail_start + at
        if disk or first_disk or here != count or end + _END.size + comment != self.bytes:
            self._damaged("the zip archive's end does not fit the file")
        large = self._ending64(end)
        if large is not None:
            for short, full, long in zip((count, size, start), (0xFFFF, _FULL32, _FULL32), large):
                if short not in (full, long):
                    self._damaged("the two ends of its directory differ")
            count, size, start, end = large
        if start + size != end:
            self._damaged(f"its directory, {size} bytes at {start}, does not end at {end}")
        return start, size, count

    def _ending64(self, end):
        """(count, size, start, where it ends) of a large archive's directory; None for others."""
        found = self._at(end - _LOCATOR.size, _LOCATOR.size) if end >= _LOCATOR.size else b""
        if found[:4] != b"PK\x06\x07":
            return None
        _, disk, at, disks = _LOCATOR.unpack(found)
        record = self._at(at, _END64.size) if at + _END64.size <= end else b""
        if len(record) < _END64.size or record[:4] != b"PK\x06\x06":
            self._damaged("its directory's end is not where it should be")
        _, length, _, _, here, first, count, total, size, start = _END64.unpack(record)
        if disk or disks > 1 or here or first or count != total or at + 12 + length != end - _LOCATOR.size:
            self._damaged("its directory's end does not fit the file")
        return count, size, start, at

    def _read_directory(self):
        start, size, count = self._ending()
        directory = self._at(start, size)
        at = 0
        while at < size:
            at = self._read_entry(directory, at)
        if len(self.entries) != count:
            self._damaged(f"its directory has {len(self.entries)} entries instead of {count}")
        limit = start
        for entry in sorted(self.entries.values(), key=lambda entry: entry.start, reverse=True):
            entry.limit = limit
            if entry.start + _LOCAL.size + len(entry.name) + entry.packed > limit:
                raise RuntimeError(f"load: {self.name}: its entries claim more bytes than the file has ({self.bytes}): "
                                   f"{shown(entry.name)} has no room for {entry.packed}")
            limit = entry.start

    def _read_entry(self, directory, at):
        """Takes one entry in; where the next one begins."""
        fields = directory[at:at + _CENTRAL.size]
        if len(fields) < _CENTRAL.size or fields[:4] != b"PK\x01\x02":
            self._damaged(f"no entry of its directory at byte {at}")
        _, _, _, flags, method, _, _, crc, packed, size, names, extras, comments, disk, _, _, start = \
            _CENTRAL.unpack(fields)
        first = at + _CENTRAL.size
        raw = directory[first:first + names]
        after = first + names + extras + comments
        if after > len(directory):
            self._damaged(f"an entry of its directory reaches past its end, at byte {at}")
        size, packed, start = self._wide(directory[first + names:first + names + extras], (size, packed, start))
        path = self._path(raw, flags)
        stored = packed == size if method == 0 else size <= _MOST_PACKED * (packed + 1)
        if method not in self.methods or not stored or flags & _ENCRYPTED or disk not in (0, 0xFFFF):
            self._refuse(path)
        if path in self.entries:
            raise RuntimeError(f"load: {self.name}: entry {shown(path)} stands there twice")
        self.entries[path] = _Entry(raw, flags, method, crc, packed, size, start)
        return after

    def _refuse(self, path):
        raise RuntimeError(f"load: {self.name}: entry {shown(path)} is compressed or encrypted; entries must be stored "
                           "as they are")

    def _wide(self, extra, numbers):
        """The numbers, those that do not fit 32 bits taken from the zip64 field."""
        if _FULL32 not in numbers:
            return numbers
        field, at = b"", 0
        while at + 4 <= len(extra) and not field:
            kind, length = int.from_bytes(extra[at:at + 2], "little"), int.from_bytes(extra[at + 2:at + 4], "little")
            field = extra[at + 4:at + 4 + length] if kind == 1 else b""
            at += 4 + length
        values = []
        for number in numbers:
            if number == _FULL32:
                if len(field) < 8:
                    self._damaged("a size of 64 bits is missing")
                number, field = int.from_bytes(field[:8], "little"), field[8:]
            values.append(number)
        return tuple(values)

    def _path(self, raw, flags):
        try:
            path = raw.decode("utf-8" if flags & _UTF8 else "cp437")
        except UnicodeDecodeError:
            self._damaged(f"{shown(raw)} is not a name")
        if "\0" in path or path.startswith("/") or ".." in path.split("/"):
            raise RuntimeError(f"load: {self.name}: {shown(path)} is not the name of an entry as written by save")
        return path

    # --- entries

    def size(self, entry):
        found = self.entries.get(self.top + entry)
        if found is None:
            raise RuntimeError(f"load: {self.name}: entry {shown(entry)} is missing")
        return found.size

    def offset(self, entry):
        """Where the entry's bytes begin in the file, once its own header has been compared with the directory."""
        self.size(entry)
        found = self.entries[self.top + entry]
        head = self._at(found.start, _LOCAL.size + len(found.name))
        if len(head) < _LOCAL.size or head[:4] != b"PK\x03\x04":
            self._wrong(entry, f"no header at byte {found.start}")
        _, _, flags, method, _, _, crc, packed, size, names, extras = _LOCAL.unpack_from(head)
        start = found.start + _LOCAL.size + names + extras
        if _FULL32 in (size, packed):
            size, packed = self._wide(self._at(start - extras, extras), (size, packed))
        later = flags & _SIZES_FOLLOW  # these fields may then be empty
        same = all(here == there or (later and here == 0)
                   for here, there in ((crc, found.crc), (size, found.size), (packed, found.packed)))
        named = names == len(found.name) and head[_LOCAL.size:] == found.name
        if not (same and named) or method != found.method or flags != found.flags:
            self._wrong(entry, "its header differs from the archive's directory")
        if start + found.packed > found.limit:
            self._wrong(entry, "it reaches into the next entry")
        return start

    def _wrong(self, entry, what):
        raise RuntimeError(f"load: {self.name}: entry {shown(entry)} is damaged: {what}")

    def read(self, entry):
        data = bytearray(self.size(entry))
        self.read_into(entry, memoryview(data))
        return data

    def unpacked(self, entry):
        """The bytes of an entry that may be compressed."""
        found = self.entries[self.top + entry]
        if found.method == 0:
            return self.read(entry)
        packed = self._at(self.offset(entry), found.packed)
        unpacker = zlib.decompressobj(-15)
        try:
            data = bytearray(unpacker.decompress(packed, found.size + 1))
        except zlib.error as error:
            self._wrong(entry, error)
        if len(data) != found.size or not unpacker.eof or unpacker.unused_data or _C.crc32(data) != found.crc:
            self._wrong(entry, "Bad CRC-32: its bytes are not those that were written")
        return data

    def _fill(self, memory):
        """Reads into `memory`, without a copy where the file can do that; how many bytes came."""
        if hasattr(self.file, "readinto"):
            return self.file.readinto(memory) or 0
        piece = self.file.read(len(memory))
        memory[:len(piece)] = piece
        return len(piece)

    def read_into(self, entry, memory):
        """Fills `memory` with the entry, whose size has been compared with it, and verifies the checksum."""
        try:
            self.file.seek(self.offset(entry))
            crc = done = 0
            while done < len(memory):
                count = self._fill(memory[done:done + CHUNK])
                if not count:
                    self._wrong(entry, "it ends early")
                crc = _C.crc32(memory[done:done + count], crc)
                done += count
        except OSError as error:
            self._wrong(entry, error)
        if self.checked and crc != self.entries[self.top + entry].crc:
            self._wrong(entry, "Bad CRC-32: its bytes are not those that were written")


_PROGRAM = "load: {} is a TorchScript archive, which is a program and not data: read it by jit.load"


class Archive(Zip):
    """The archive of an object: all its entries lie in one folder, beside `data.pkl`."""

    complete = True

    def __init__(self, file, name):
        super().__init__(file, name)
        tops = [path[:-len("data.pkl")] for path in self.entries if path.count("/") == 1 and path.endswith("/data.pkl")]
        if len(tops) != 1:
            raise RuntimeError(f"load: {name}: expected one entry data.pkl, found {len(tops)}")
        self.top = tops[0]
        if self.top + "constants.pkl" in self.entries:
            raise RuntimeError(_PROGRAM.format(name))
        small = {name: self.read(name) for name in self._small()}
        self.order = order_of(small.get("byteorder"))
        if self.order not in ("little", "big"):
            raise RuntimeError(f"load: {name}: its byte order is {shown(self.order)}, known are 'little' and 'big'")

    def _refuse(self, path):
        if path.partition("/")[2].startswith("code/"):
            raise RuntimeError(_PROGRAM.format(self.name))
        super()._refuse(path)

    def _small(self):
        """Entries besides the object's, which say a few bytes of the archive: a damaged one is noticed here."""
        stray = next((path for path in self.entries if not path.startswith(self.top)), None)
        if stray is not None:
            raise RuntimeError(f"load: {self.name}: entry {shown(stray)} is not in the folder {shown(self.top)}")
        names = [path[len(self.top):] for path in self.entries]
        return [name for name in names if not name.startswith("data/") and name != "data.pkl"
                and self.size(name) <= _SMALL]
