"""Writes zip archives of uncompressed entries, front to back: each checksum is known before its entry begins."""

from struct import pack

from .. import _C
from .settings import get_crc32_options

ALIGNMENT = 64
#: bytes at a time: still in the cache when they are used again. Writes of 4 MB and more take two to four times as long
#: under Linux 6.18, whose page cache then asks for memory in pieces of 2 MB
CHUNK = 1 << 20
_EARLY = 1 << 25  # bytes after which the system is told to begin
_LARGE = 1 << 31  # sizes and places from here on are written as 64 bits
_FULL32, _FULL16 = 0xFFFFFFFF, 0xFFFF
_DATE = 1 << 5 | 1  # 1980-01-01: a file says the same whenever it is written
_UTF8 = 0x800


class Output:
    """Writes everything it is given, to a file where it stands, and has the system bring it to the disk meanwhile.

    To wait for the disk only at the end would take up to twice as long.
    """

    def __init__(self, file):
        self.file = file
        self.at = 0      # bytes written
        self.begun = 0   # of them, those on their way to the disk
        try:
            self.descriptor, self.first = file.fileno(), file.tell()
        except (AttributeError, OSError, ValueError):  # no file on a disk
            self.descriptor = None

    def write(self, data):
        done, size = 0, len(data)
        while done < size:
            written = self.file.write(data[done:done + CHUNK])
            count = min(CHUNK, size - done) if written is None else written  # a raw stream may take less
            done += count
            self.at += count
            if self.at - self.begun >= _EARLY and self.descriptor is not None:
                _C.start_writing(self.descriptor, self.first + self.begun, self.at - self.begun)
                self.begun = self.at


class ZipWriter:
    """An archive that begins where `file` stands, which need not be able to seek."""

    def __init__(self, file):
        self.out = Output(file)
        self.directory = []

    def put(self, name, data):
        """One entry whose bytes begin at a multiple of the alignment."""
        raw, size = name.encode(), len(data)
        crc = 0
        for start in range(0, size, CHUNK) if get_crc32_options() else ():
            crc = _C.crc32(data[start:start + CHUNK], crc)
        large = size >= _LARGE
        wide = pack("<2H2Q", 1, 16, size, size) if large else b""
        padding = -(self.at + 30 + len(raw) + len(wide) + 4) % ALIGNMENT
        shown = _FULL32 if large else size
        flags = 0 if name.isascii() else _UTF8
        fixed = pack("<4H3L", flags, 0, 0, _DATE, crc, shown, shown)
        extra = wide + pack("<2sH", b"FB", padding) + bytes(padding)
        self.write(pack("<4sH", b"PK\x03\x04", 45 if large else 20) + fixed + pack("<2H", len(raw), len(extra)) + raw
                   + extra)
        self.directory.append((raw, fixed, size, self.at - 30 - len(raw) - len(extra)))
        self.write(data)

    def write(self, data):
        self.out.write(data)

    @property
    def at(self):
        return self.out.at

    def finish(self):
        """The directory, and where it is."""
        start = self.at
        self.write(b"".join(map(self._entry, self.directory)))
        count, size = len(self.directory), self.at - start
        if count >= _FULL16 or start + size >= _LARGE:
            record = pack("<4sQ2H2L4Q", b"PK\x06\x06", 44, 45, 45, 0, 0, count, count, size, start)
            self.write(record + pack("<4sLQL", b"PK\x06\x07", 0, self.at, 1))
        count, size, start = min(count, _FULL16), min(size, _FULL32), _FULL32 if start >= _LARGE else start
        self.write(pack("<4s4H2LH", b"PK\x05\x06", 0, 0, count, count, size, start, 0))

    def _entry(self, entry):
        raw, fixed, size, start = entry
        numbers = [number for number, large in ((size, size >= _LARGE), (size, size >= _LARGE),
                                                (start, start >= _LARGE)) if large]
        extra = pack(f"<2H{len(numbers)}Q", 1, 8 * len(numbers), *numbers) if numbers else b""
        head = pack("<4sBBH", b"PK\x01\x02", 45 if numbers else 20, 3, 45 if numbers else 20)
        tail = pack("<5H2L", len(raw), len(extra), 0, 0, 0, 0o600 << 16, _FULL32 if start >= _LARGE else start)
        return head + fixed + tail + raw + extra
