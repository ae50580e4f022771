"""The zip archives of `save` and `load`: how entries lie in them, how a file is replaced, what reading checks."""

import os
import zipfile
import zlib
from contextlib import contextmanager, suppress
from struct import pack, unpack
from sys import byteorder

ALIGNMENT = 64
_CHUNK = 1 << 24


def put(archive, name, data):
    """One uncompressed entry whose bytes begin at a multiple of the alignment."""
    size = len(data)
    large = size >= 1 << 31
    info = zipfile.ZipInfo(name)
    info.file_size = size
    header = archive.fp.tell() + 30 + len(name.encode()) + (20 if large else 0) + 4
    padding = -header % ALIGNMENT
    info.extra = pack("<2sH", b"FB", padding) + bytes(padding)
    with archive.open(info, "w", force_zip64=large) as entry:
        for start in range(0, size, _CHUNK):
            entry.write(data[start:start + _CHUNK])


@contextmanager
def replacing(path):
    """A file in the folder of `path` that becomes `path` in one move when the block succeeds, else disappears."""
    target = os.path.realpath(path)
    folder, name = os.path.split(target)
    if not os.path.isdir(folder):
        raise RuntimeError(f"save: cannot write {path}: Parent directory {folder} does not exist.")
    if os.path.isdir(target):
        raise RuntimeError(f"save: cannot write {path}: it is a directory")
    if os.path.exists(target) and not os.path.isfile(target):  # a device or a pipe cannot be replaced
        with open(target, "wb") as file:
            yield file
        return
    temporary = os.path.join(folder, f".{name}.{os.getpid()}.{os.urandom(4).hex()}.tmp")
    try:
        with open(temporary, "xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        with suppress(OSError):
            os.chmod(temporary, os.stat(target).st_mode)
        os.replace(temporary, target)
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary)
        raise
    with suppress(OSError):  # the new name itself must survive a power cut; not every file system can say so
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


class Archive:
    """The entries of a file, checked for form before anything is read."""

    def __init__(self, file, name):
        self.name = name
        self.file = file
        file.seek(0, os.SEEK_END)
        size = file.tell()
        file.seek(0)
        if file.read(4) != b"PK\x03\x04":
            empty = " (the file is empty)" if size == 0 else ""
            raise RuntimeError(f"load: {name} is not a zip archive as written by save{empty}; "
                               "files in PyTorch's older formats are not read")
        try:
            self.zip = zipfile.ZipFile(file)
        except (zipfile.BadZipFile, EOFError, ValueError, OSError, NotImplementedError) as error:
            raise RuntimeError(f"load: {name} is truncated or damaged: {error}") from None
        self.entries = {}
        for info in self.zip.infolist():
            if info.compress_type != zipfile.ZIP_STORED or info.compress_size != info.file_size:
                raise RuntimeError(f"load: {name}: entry {info.filename!r} is compressed; "
                                   "entries must be stored as they are")
            if info.filename in self.entries:
                raise RuntimeError(f"load: {name}: entry {info.filename!r} stands there twice")
            self.entries[info.filename] = info
        if sum(info.file_size for info in self.entries.values()) > size:
            raise RuntimeError(f"load: {name}: its entries claim more bytes than the file has ({size})")
        folders = [name.partition("/") for name in self.entries]
        tops = [top + "/" for top, _, rest in folders if rest == "data.pkl"]
        if len(tops) != 1:
            raise RuntimeError(f"load: {name}: expected one entry data.pkl, found {len(tops)}")
        self.top = tops[0]
        if self.top + "constants.pkl" in self.entries:
            raise RuntimeError(f"load: {name} is a TorchScript archive, which is a program and not data")
        order = self.read("byteorder").decode("latin1") if self.top + "byteorder" in self.entries else "little"
        if order != byteorder:
            raise RuntimeError(f"load: {name} was written with byte order {order!r}; this machine's is {byteorder!r}")

    def size(self, entry):
        info = self.entries.get(self.top + entry)
        if info is None:
            raise RuntimeError(f"load: {self.name}: entry {entry!r} is missing")
        return info.file_size

    @contextmanager
    def open(self, entry):
        """The entry's bytes; its checksum is verified at the end."""
        self.size(entry)
        try:
            with self.zip.open(self.entries[self.top + entry]) as stream:
                yield stream
        except (zipfile.BadZipFile, EOFError, zlib.error, NotImplementedError, OSError, ValueError) as error:
            raise RuntimeError(f"load: {self.name}: entry {entry!r} is damaged: {error}") from None

    def read(self, entry):
        with self.open(entry) as stream:
            return stream.read()

    def read_into(self, entry, memory):
        """Fills `memory` with the entry, whose size has been compared with it."""
        with self.open(entry) as stream:
            done = 0
            while done < len(memory):
                got = stream.readinto(memory[done:done + _CHUNK])
                if not got:
                    raise EOFError("it ends early")
                done += got
            stream.read(1)  # past the end: this is where the checksum is compared

    def offset(self, entry):
        """Where the entry's bytes begin in the file."""
        start = self.entries[self.top + entry].header_offset
        self.file.seek(start)
        header = self.file.read(30)
        if len(header) != 30 or header[:4] != b"PK\x03\x04":
            raise RuntimeError(f"load: {self.name}: entry {entry!r} is damaged: no header at byte {start}")
        name, extra = unpack("<HH", header[26:30])
        return start + 30 + name + extra
