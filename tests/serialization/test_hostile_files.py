"""Files made to hang the reader, to eat memory or to deceive it: each ends soon, in an error that names the file."""

import io
import itertools
import struct
import sys
import zipfile
import zlib
from collections import OrderedDict

import pytest

import flambeau
from flambeau._files import zip_writer
from flambeau._files.pickle_writer import Global, Persistent, Writer

from .sandbox import Sandbox


@pytest.fixture(scope="module")
def sandbox(tmp_path_factory):
    box = Sandbox(tmp_path_factory.mktemp("sandbox"))
    yield box
    box.close()


def archive(stream, entries=()):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as out:
        out.writestr("a/data.pkl", stream)
        for name, content in entries:
            out.writestr("a/" + name, content)
    return file.getvalue()


# --- streams


def text(value):
    data = value.encode()
    return b"X" + struct.pack("<I", len(data)) + data


def get(number):
    return b"j" + struct.pack("<I", number)


def put(number):
    return b"r" + struct.pack("<I", number)


def pickled(obj):
    return Writer(lambda obj, place: None).dump(obj)[2:-1]


def call(module, name, arguments):
    return f"c{module}\n{name}\n".encode() + arguments + b"R"


TWICE = b")" + b"2\x86" * 200  # a tuple that holds the previous one twice, 200 times: 2^200 when written out
DEEP = b")" + b"\x85" * 10**6
LISTS = b"]" + put(0) + b"".join(b"]" + get(k) + b"a" + get(k) + b"a" + put(k + 1) for k in range(200))
STORAGE = Persistent(("storage", Global("torch", "FloatStorage"), "0", "cpu", 4))


def tensor(**change):
    """A tensor of four elements; a change is given as the bytes of a stream, or as an object."""
    parts = {"storage": STORAGE, "offset": 0, "size": (4,), "stride": (1,), "grad": False, "hooks": OrderedDict()}
    stream = b"".join(value if isinstance(value, bytes) else pickled(value) for value in (parts | change).values())
    return b"ctorch._utils\n_rebuild_tensor_v2\n(" + stream + b"tR"


def many(prefix, each, count, suffix=b""):
    """`each` again and again as the items of a list."""
    return prefix + b"](" + each * count + b"e" + suffix


def colliding(count):
    """A dict whose keys, all different, have the hash 0."""
    keys = ((k * (2**61 - 1)).to_bytes(12, "little") for k in range(1, count))
    return b"}(" + b"".join(b"\x8a\x0c" + key + b"N" for key in keys) + b"u"


BOMBS = {
    "tuple as dict key": b"}" + TWICE + b"Ns",
    "tuple among dict keys": b"}(" + TWICE + b"Nu",
    "tuple in a set": b"\x8f(" + TWICE + b"\x90",
    "tuple in a frozenset": b"(" + TWICE + b"\x91",
    "tuple through set(list)": call("__builtin__", "set", b"]" + TWICE + b"a\x85"),
    "tuple through dict(pairs)": call("__builtin__", "dict", b"]" + TWICE + b"N\x86a\x85"),
    "tuple through OrderedDict(pairs)": call("collections", "OrderedDict", b"]" + TWICE + b"N\x86a\x85"),
    "tuple through Counter(pairs)": call("collections", "Counter", b"]" + TWICE + b"N\x86a\x85"),
    "frozensets of pairs": b"(" + b"(" * 60 + b")" + b"K\x00\x86\x91" * 60 + b"\x91",
    "tuple as size": call("torch", "Size", TWICE + b"\x85"),
    "tuple as dims of a size": call("torch", "Size", TWICE),
    "tuple as persistent id": TWICE + b"Q",
    "tuple inside a persistent id": b"(" + text("storage") + TWICE + text("0") + text("cpu") + b"K\x04tQ",
    "list as persistent id": LISTS + b"Q",
    "tuple as factory": call("collections", "defaultdict", TWICE + b"\x85"),
    "tuple as encoding": call("_codecs", "encode", text("x") + TWICE + b"\x86"),
    "tuple as device": call("torch", "device", TWICE + b"\x85"),
    "tuple as attribute": call("collections", "OrderedDict", b")") + b"}" + TWICE + b"Nsb",
    "tuple as pair": call("collections", "OrderedDict", LISTS + b"\x85"),
    "tuple as requires_grad": tensor(grad=TWICE),
    "tuple as shape": tensor(size=TWICE),
    "tuple as offset": tensor(offset=TWICE),
    "tuple as metadata": tensor(more=TWICE),
    "tuple in metadata": tensor(more=b"}" + text("neg") + TWICE + b"s"),
    "tuple as parameter's attribute": call("torch._utils", "_rebuild_parameter_with_state",
                                           b"(" + tensor() + b"\x88N}" + TWICE + b"Nst"),
    "tuple where a name is expected": TWICE + text("x") + b"\x93",
    "tuple called": TWICE + b")R",
    "deep tuple as key": b"}" + DEEP + b"Ns",
    "deep tuple in a set": b"\x8f(" + DEEP + b"\x90",
    "deep tuple as result": DEEP,
    "deep dicts": b"}K\x00" * 10**5 + b"N" + b"s" * 10**5,
    "deep lists": b"]" * 10**5 + b"a" * (10**5 - 1),
    "deep attributes": (call("collections", "OrderedDict", b")") + b"}" + text("x")) * 5000 + b"N" + b"sb" * 5000,
    "deep attributes of parameters": tensor() + put(0) + b"0ctorch._utils\n_rebuild_parameter_with_state\n" + put(1)
    + b"0" + (get(1) + b"(" + get(0) + b"\x88N}" + text("x")) * 5000 + b"N" + b"stR" * 5000,
    "lists holding lists twice": LISTS,
    "lists that hold each other": b"".join(b"]" + put(k) for k in range(40)) + b"0" * 40
    + b"".join(get(k) + b"".join(get(j) + b"a" for j in range(40)) + b"0" for k in range(40)) + get(0),
    "text again and again": many(text("x" * 10**5) + put(0) + b"0", get(0), 10**5),
    "copies of a list": many(b"](" + b"N" * 10**4 + b"e" + put(0) + b"0c__builtin__\nlist\n" + put(1) + b"0",
                             get(1) + get(0) + b"\x85R", 10**4),
    "copies of a set": many(b"](" + b"N" * 10**4 + b"e" + put(0) + b"0c__builtin__\nset\n" + put(1) + b"0",
                            get(1) + get(0) + b"\x85R", 10**4),
    "copies of a text": many(text("x" * 10**5) + put(0) + b"0c_codecs\nencode\n" + put(1) + b"0",
                             get(1) + get(0) + b"\x85R", 10**4),
    "copies of bytes": many(call("_codecs", "encode", text("x" * 10**5) + b"\x85") + put(0)
                            + b"0c__builtin__\nbytearray\n" + put(1) + b"0", get(1) + get(0) + b"\x85R", 10**4),
    "copies of a dict": many(b"}(" + b"".join(b"M" + struct.pack("<H", k) + b"N" for k in range(10**4)) + b"u" + put(0)
                             + b"0ccollections\nCounter\n" + put(1) + b"0", get(1) + get(0) + b"\x85R", 10**4),
    "attributes again and again": many(b"}(" + b"".join(text(f"a{k}") + b"N" for k in range(10**4)) + b"u" + put(0)
                                       + b"0ccollections\nOrderedDict\n" + put(1) + b"0",
                                       get(1) + b")R" + get(0) + b"b", 10**4),
    "long int as key": b"\x8b" + struct.pack("<i", 10**6) + b"\x55" * 10**6 + put(0) + b"0"
    + b"}(" + (get(0) + b"N") * 10**5 + b"u",
    "long texts as keys": text("x" * 10**6) + put(0) + b"0" + text("x" * 10**6) + put(1) + b"0"
    + b"}(" + (get(0) + b"N" + get(1) + b"N") * 10**5 + b"u",
    "keys of one hash": colliding(50_000),
    "long names": text("x" * 10**6) + put(0) + b"0" + (get(0) + get(0) + b"\x930") * 10**4 + b"N",
    "negated and expanded": tensor(size=(2**31,), stride=(0,), more={"neg": True}),
    "conjugated and expanded": tensor(storage=Persistent(("storage", Global("torch", "ComplexFloatStorage"), "0", "cpu",
                                                          2)), size=(2**31,), stride=(0,), more={"conj": True}),
    "elements without number": tensor(size=(2**31, 2**31), stride=(0, 0)),
    "an expanded tensor's mH": call("torch._utils", "_rebuild_parameter_with_state",
                                    b"(" + tensor(size=(2**16, 2**16), stride=(0, 0)) + b"\x88N}" + text("mH")
                                    + b"Nst"),
    "sizes of many dims": tensor(size=b"(" + b"K\x01" * 10**5 + b"t", stride=b"(" + b"K\x00" * 10**5 + b"t"),
    "long device": call("torch", "device", text("x" * 10**6) + b"\x85"),
    "storage as result": pickled(STORAGE),
    "storage as key": b"}" + pickled(STORAGE) + b"Ns",
    "storage in a list": b"]" + pickled(STORAGE) + b"a",
    "quantized tensor": b"ctorch._utils\n_rebuild_qtensor\n)R",
    "sparse tensor": b"ctorch._utils\n_rebuild_sparse_tensor\n)R",
}
#: those that are harmless once they are loaded, or where the point is that they are
HARMLESS = {"negated and expanded", "conjugated and expanded", "storage as result", "storage in a list"}


@pytest.mark.parametrize("name", BOMBS)
def test_bombs_are_refused_soon_and_in_short(name, sandbox):
    file = archive(b"\x80\x04" + BOMBS[name] + b".", [("data/0", bytes(16))])
    kind, answer = sandbox.load(file)
    if name in HARMLESS:
        assert kind == "loaded"
    else:
        assert kind in ("RuntimeError", "UnpicklingError"), (kind, answer)
        assert answer.startswith("load: the file: ") and len(answer) < 600


def test_what_refers_to_itself_is_loaded():
    loop = {"list": [1]}
    loop["self"] = loop
    loop["list"].append(loop["list"])
    found = through(loop)
    assert found["self"] is found and found["list"][1] is found["list"]


def through(obj):
    file = io.BytesIO()
    flambeau.save(obj, file)
    return flambeau.load(file)


@pytest.mark.parametrize("obj", [
    {(1, (2, (3, "x"))): 1, frozenset([(1, 2), (3,)]): 2, 2.5: 3, 1j: 4, b"k": 5, None: 6, flambeau.float32: 7},
    {k * 2**61: k for k in range(40)},
    dict.fromkeys(itertools.product((-2, -1), repeat=8)),
    [{"exp_avg": k, "exp_avg_sq": k, "long name " * 30: k} for k in range(3000)],
    [{(3, k % 7): k, (1, 2, 3, 4, 5, 6, 7, 8): k} for k in range(3000)],
    [set(range(3000)), bytearray(300_000), bytes(300_000), OrderedDict((str(k), k) for k in range(3000))],
    [["shared"] * 1000] * 1000,
    [[k] for k in range(100_000)],
], ids=["keys", "large ints", "tuples of one hash", "dicts", "tuples as keys", "copies", "shared", "many lists"])
def test_budgets_leave_room_for_honest_files(obj):
    assert through(obj) == obj


def test_what_could_not_be_read_again_is_not_written():
    deep = []
    for _ in range(10):
        deep = (deep,) if deep else (1,)
    with pytest.raises(TypeError, match=r"obj\['a'\] has a key nested more than 8 deep"):
        through({"a": {deep: 1}})
    with pytest.raises(TypeError, match="has a key nested"):
        through({deep})
    twice = [[]]
    for _ in range(60):
        twice = [twice, twice]
    with pytest.raises(ValueError, match="save: the object cannot be stored: its parts refer to each other so often"):
        through(twice)
    nested = []
    for _ in range(1500):
        nested = [nested]
    limit = sys.getrecursionlimit()
    try:
        sys.setrecursionlimit(20_000)
        with pytest.raises(ValueError, match="nested more than 1000 deep"):
            through(nested)
    finally:
        sys.setrecursionlimit(limit)


def test_negated_views_share_one_computed_storage():
    stream = b"](" + tensor(more={"neg": True}) + tensor(size=(2,), offset=1, more={"neg": True}) + tensor() + b"e"
    whole, part, plain = flambeau.load(io.BytesIO(archive(stream + b".", [("data/0", struct.pack("4f", 1, 2, 3, 4))])))
    assert whole.tolist() == [-1, -2, -3, -4] and part.tolist() == [-2, -3] and plain.tolist() == [1, 2, 3, 4]
    assert part.data_ptr() == whole.data_ptr() + 4


# --- archives


def saved(obj=None, name="m"):
    file = io.BytesIO()
    flambeau.save({"w": flambeau.arange(20.0), "v": flambeau.ones(3)} if obj is None else obj, file)
    return bytearray(file.getvalue())


def headers(raw, entry):
    """Where the entry's own header is, and where the directory's."""
    with zipfile.ZipFile(io.BytesIO(raw)) as found:
        start = found.getinfo("archive/" + entry).header_offset
    at = -1
    while True:
        at = raw.index(b"PK\x01\x02", at + 1)
        if int.from_bytes(raw[at + 42:at + 46], "little") == start:
            return start, at


def local(offset, form, value):
    def change(raw):
        struct.pack_into(form, raw, headers(raw, "data/0")[0] + offset, value)
    return change


def central(offset, form, value, entry="data/0"):
    def change(raw):
        struct.pack_into(form, raw, headers(raw, entry)[1] + offset, value)
    return change


def both(first, second):
    def change(raw):
        first(raw)
        second(raw)
    return change


def renamed(raw):
    start, _ = headers(raw, "data/0")
    raw[start + 30:start + 44] = b"archive/data/9"


def overlapping(raw):
    """The second storage's entry begins where the first one's does."""
    first, _ = headers(raw, "data/0")
    struct.pack_into("<I", raw, headers(raw, "data/1")[1] + 42, first)


def inside(raw):
    """An entry's extra field is made so long that its data would begin in the next entry."""
    start, _ = headers(raw, "data/0")
    struct.pack_into("<H", raw, start + 28, struct.unpack_from("<H", raw, start + 28)[0] + 128)


def named(old, new):
    def change(raw):
        assert len(old) == len(new)
        raw[:] = raw.replace(old, new)
    return change


def end(offset, form, value):
    def change(raw):
        struct.pack_into(form, raw, raw.rindex(b"PK\x05\x06") + offset, value)
    return change


ARCHIVES = {
    "local checksum": (local(14, "<I", 7), "differs"),
    "local size": (local(18, "<I", 3), "differs"),
    "local uncompressed size": (local(22, "<I", 3), "differs"),
    "local method": (local(8, "<H", 8), "differs"),
    "local flags": (local(6, "<H", 8), "differs"),
    "local name": (renamed, "differs"),
    "local signature": (local(0, "<I", 0), "no header"),
    "local size of 64 bits": (local(22, "<I", 0xFFFFFFFF), "64 bits"),
    "longer extra field": (inside, "next entry"),
    "directory's size": (central(24, "<I", 2**31), "compressed"),
    "directory's sizes": (both(central(20, "<I", 2**31), central(24, "<I", 2**31)), "claim more"),
    "wrapped sizes": (both(central(20, "<I", 2**32 - 2), central(24, "<I", 2**32 - 2)), "claim more"),
    "directory's size of 64 bits": (central(24, "<I", 2**32 - 1), "64 bits"),
    "directory's method": (central(10, "<H", 8), "compressed"),
    "encrypted": (central(8, "<H", 1), "encrypted"),
    "another disk": (central(34, "<H", 1), "compressed"),
    "offset past the end": (central(42, "<I", 2**31), "claim more|no room"),
    "overlapping": (overlapping, "no room"),
    "twice": (named(b"archive/data/1", b"archive/data/0"), "twice"),
    "NUL in a name": (named(b"archive/data/1", b"archive/data\x001"), "not the name"),
    "absolute": (named(b"archive/data/1", b"/rchive/data/1"), "not the name"),
    "upwards": (named(b"archive/version", b"../hive/version"), "not the name"),
    "name not UTF-8": (both(named(b"archive/data/1", b"archive/dat\xff/1"), central(8, "<H", 0x800, "version")),
                       "missing|not a name|differs"),
    "number of entries": (end(10, "<H", 3), "does not fit|instead of"),
    "numbers of entries": (both(end(8, "<H", 3), end(10, "<H", 3)), "instead of"),
    "directory's length": (end(12, "<I", 46), "does not end"),
    "directory's place": (end(16, "<I", 0), "does not end"),
    "comment": (end(20, "<H", 5), "does not fit"),
    "bytes after the end": (lambda raw: raw.extend(b"x"), "does not fit"),
    "bytes before the start": (lambda raw: raw.__setitem__(slice(0, 0), raw[:64]), "does not end"),
}


@pytest.mark.parametrize("mmap", [False, True], ids=["read", "mapped"])
@pytest.mark.parametrize("name", ARCHIVES)
def test_archives_that_contradict_themselves(name, mmap, tmp_path):
    change, answer = ARCHIVES[name]
    raw = saved()
    change(raw)
    path = tmp_path / "m.pt"
    path.write_bytes(raw)
    with pytest.raises(RuntimeError, match=f"m.pt.*({answer})"):
        flambeau.load(path, mmap=mmap)


@pytest.mark.parametrize("mmap", [False, True], ids=["read", "mapped"])
def test_large_archives_in_the_64_bit_form(mmap, tmp_path):
    """What other writers use above 4 GiB, in a small file; both ends must say the same."""
    raw = saved()
    at = raw.rindex(b"PK\x05\x06")
    count, size, start = struct.unpack_from("<HII", raw, at + 10)
    large = struct.pack("<4sQ2H2L4Q", b"PK\x06\x06", 44, 45, 45, 0, 0, count, count, size, start)
    large += struct.pack("<4sLQL", b"PK\x06\x07", 0, at, 1)
    path = tmp_path / "m.pt"
    path.write_bytes(raw[:at] + large + raw[at:])
    assert flambeau.load(path, mmap=mmap)["v"].tolist() == [1, 1, 1]
    for position, text in (4, "fit"), (16, "fit"), (24, "fit"), (32, "fit"), (40, "differ"), (48, "differ"):
        wrong = bytearray(large)
        wrong[position] ^= 1
        path.write_bytes(raw[:at] + wrong + raw[at:])
        with pytest.raises(RuntimeError, match=text):
            flambeau.load(path, mmap=mmap)


@pytest.mark.parametrize("mmap", [False, True], ids=["read", "mapped"])
def test_large_entries_in_the_64_bit_form(mmap, tmp_path, monkeypatch):
    """What save writes from 2 GiB on, in a small file."""
    path = tmp_path / "m.pt"
    with monkeypatch.context() as patch:
        patch.setattr(zip_writer, "_LARGE", 60)
        flambeau.save({"w": flambeau.arange(20.0), "v": flambeau.ones(3)}, path)
    with zipfile.ZipFile(path) as archive:
        assert archive.testzip() is None and archive.getinfo("m/data/0").file_size == 80
    assert b"\xff" * 8 + struct.pack("<H", len("m/data/0")) in path.read_bytes()
    found = flambeau.load(path, mmap=mmap)
    assert found["w"].tolist() == list(range(20)) and found["v"].tolist() == [1, 1, 1]


def test_a_storage_of_a_mapped_file_may_not_reach_past_it(tmp_path):
    raw = saved()
    path = tmp_path / "m.pt"
    for cut in range(len(raw) - 1, 0, -97):
        path.write_bytes(raw[:cut])
        with pytest.raises(RuntimeError):
            flambeau.load(path, mmap=True)


def test_sizes_that_follow_the_data_are_read():
    """Writers that cannot go back leave the fields of an entry's own header empty."""
    class Pipe(io.RawIOBase):
        data = b""

        def writable(self):
            return True

        def write(self, data):
            self.data += bytes(data)
            return len(data)

    pipe = Pipe()
    with zipfile.ZipFile(pipe, "w") as out:
        out.writestr("a/data.pkl", b"]K\x01a.")
    assert zlib.crc32(b"]K\x01a.") and flambeau.load(io.BytesIO(pipe.data)) == [1]
