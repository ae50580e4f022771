"""PyTorch's format before 1.6: pickles one after the other, then the bytes of the storages, without checksums."""

from struct import Struct
from sys import byteorder

from .._shown import shown
from .archive import as_bytes
from .extent import PickleError
from .inspecting import Inspector
from .pickle_reader import Reader
from .pickle_writer import Writer
from .zip_writer import CHUNK, Output

_MAGIC, _VERSION = 0x1950A86A20F9469CFC6C, 1001
START = b"\x80\x02\x8a\x0a" + _MAGIC.to_bytes(10, "little") + b"."
_COUNT = Struct("<q")


def write_legacy(file, stream, storages, items):
    """`items`: the bytes of one element of each storage, since the file counts elements."""
    info = {"protocol_version": _VERSION, "little_endian": byteorder == "little",
            "type_sizes": {"short": 2, "int": 4, "long": 4}}
    head = b"".join(map(_plain, (_MAGIC, _VERSION, info)))
    out = Output(file)
    out.write(head + stream + _plain([str(number) for number in storages]))
    for number, memory in storages.items():
        size = memory.numel()
        out.write(_COUNT.pack(size // items[number]))
        out.write(as_bytes(memory))


def _plain(value):
    return Writer(lambda obj, place: None).dump(value)


def _refuse(*_):
    raise PickleError("a name or reference where there are numbers only")


class LegacyArchive:
    """The parts of such a file under the names that an archive's entries have. `data`: its memory, or all its bytes."""

    complete = False  # until the sizes of the storages are known
    order = byteorder

    def __init__(self, data, name):
        self.data = data
        self.name = name
        self.bytes = len(data)
        self.at = 0
        try:
            self.read_parts()
        except PickleError as error:
            raise RuntimeError(f"load: {name}: {error}") from error.__cause__
        self.complete = True

    def read_parts(self):
        magic, version, info = self.plain(), self.plain(), self.plain()
        if magic != _MAGIC or version != _VERSION or not isinstance(info, dict):
            raise PickleError(f"version {shown(version)} of the format before PyTorch 1.6, known is {_VERSION}")
        if info.get("little_endian") is not (byteorder == "little"):
            raise PickleError("it was written with the other byte order")
        start, inspector = self.at, Inspector(self)
        reader = inspector.reader(self.data, start)
        reader.load()
        self.stream, self.at = (start, reader.at), reader.at
        self.entries = {}
        keys = self.plain()
        if type(keys) is not list or not all(type(key) is str for key in keys):
            raise PickleError(f"the list of its storages is {shown(keys)}")
        for key in keys:
            self.locate(key, inspector.kinds.get(key))
        if self.at != self.bytes:
            raise PickleError(f"truncated or damaged: it has {self.bytes} bytes, its parts {self.at}")

    def plain(self):
        """The next pickle, of plain data."""
        reader = Reader(self.data, _refuse, _refuse, at=self.at)
        value = reader.load()
        self.at = reader.at
        return value

    def locate(self, key, item):
        if item is None or "data/" + key in self.entries:
            raise PickleError(f"storage {shown(key)} is listed twice, or belongs to no tensor")
        start = self.at + _COUNT.size
        if start > self.bytes:
            raise PickleError(f"truncated: storage {shown(key)} is missing")
        count, = _COUNT.unpack(self.data[self.at:start])
        if count < 0 or start + count * item > self.bytes:
            raise PickleError(f"truncated or damaged: storage {shown(key)} has {count} elements of {item} bytes, more "
                              f"than the file")
        self.entries["data/" + key] = start, count * item
        self.at = start + count * item

    # --- as an archive

    def size(self, entry):
        if entry not in self.entries:
            raise RuntimeError(f"load: {self.name}: {shown(entry)} is missing")
        return self.entries[entry][1]

    def offset(self, entry):
        self.size(entry)
        return self.entries[entry][0]

    def read(self, entry):
        assert entry == "data.pkl", entry
        return self.data[slice(*self.stream)]

    def read_into(self, entry, memory):
        start, size = self.entries[entry]
        for at in range(0, size, CHUNK):
            end = min(size, at + CHUNK)
            memory[at:end] = self.data[start + at:start + end]
