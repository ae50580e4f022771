"""Loads mutated files of `save` and `torch.save`: each must end in a value or a RuntimeError, soon, in little memory.

Run as `python -m tests.serialization.mutate FIRST LAST LOG`. File number n depends on n alone. Its number is written to
LOG before it is loaded, so that the log of a process that died names it; `content(n)` makes it again. Prints how many
files were loaded and refused, the most memory that came on top, and the files per second.
"""

import contextlib
import functools
import io
import pickle
import random
import resource
import struct
import sys
import time
import zipfile
import zlib
from collections import Counter, OrderedDict, defaultdict
from pathlib import Path

import flambeau

from .sandbox import limits

HERE = Path(__file__).parent
MOVED = 8   # stream numbers that a mutation draws near
EVERY = 50  # one file in so many is mapped instead of read, and one that loads is printed


# --- what is mutated


def objects():
    nn, base = flambeau.nn, flambeau.arange(24.0).reshape(4, 6)
    module = nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2))
    optimizer = flambeau.optim.Adam(module.parameters(), lr=0.1)
    module(flambeau.ones(4, 3)).sum().backward()
    optimizer.step()
    shared = [1, "two", 3.0]
    loop = {"shared": [shared, shared]}
    loop["self"] = loop
    tagged = nn.Parameter(flambeau.ones(2))
    tagged.tag = {"name": shared}
    yield {"model": module.state_dict(), "optimizer": optimizer.state_dict(), "epoch": 3}
    yield [base, base[1], base.t(), base[:, ::2], base[0, :1].expand(5), flambeau.empty(0, 3), base.to("meta")]
    yield {"complex": flambeau.ones(3) * (1 + 2j), "bfloat16": flambeau.ones(5).bfloat16(), "bool": base > 3,
           "float8": flambeau.ones(4).to(flambeau.float8_e4m3fn), "uint16": flambeau.ones(2).to(flambeau.uint16)}
    yield [None, True, 70000, -2**70, 1.5, 2j, "é", b"\xff", bytearray(b"x"), {1, "a", (2, 3)}, frozenset([(1, (2,))]),
           OrderedDict(a=1), Counter("aab"), defaultdict(list, a=[1]), (1, (2, (3, ()))), flambeau.Size([2, 3]),
           flambeau.float16, flambeau.device("cpu"), loop, {(1, 2): 3, None: 4, 2.5: 5, 2**80: 6}]
    yield [tagged, nn.Parameter(flambeau.ones(2), requires_grad=False)]


class File:
    """The parts of an archive."""

    def __init__(self, raw):
        self.raw = bytes(raw)
        with zipfile.ZipFile(io.BytesIO(raw)) as archive:
            self.entries = [(info.filename, archive.read(info)) for info in archive.infolist()
                            if "/data" in info.filename or info.filename.endswith("byteorder")]


def newer(obj, protocol):
    """A file whose stream Python's own pickle wrote."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as out:
        out.writestr("a/data.pkl", pickle.dumps(obj, protocol))
    return file.getvalue()


def corpus():
    for obj in objects():
        file = io.BytesIO()
        flambeau.save(obj, file)
        yield File(file.getvalue())
    for protocol in (2, 4, 5):
        yield File(newer([1, {"a": (2, 3.5)}, {4, 5}, frozenset("x"), b"bytes", 2**100, [[]] * 3], protocol))
    yield File((HERE / "torch_written.pt").read_bytes())


@functools.cache
def files():
    """The corpus, the same in every process."""
    flambeau.manual_seed(0)
    return list(corpus())


# --- mutations of bytes


def flip(r, data):
    for _ in range(r.choice((1, 1, 2, 5))):
        data[r.randrange(len(data))] ^= 1 << r.randrange(8)


def overwrite(r, data):
    data[r.randrange(len(data))] = r.randrange(256)


def extreme(r, data):
    """A number in the file becomes an extreme one."""
    form, values = r.choice((("<H", (0, 1, 0xFFFF)), ("<I", (0, 1, 2**31, 2**32 - 1, 2**32 - 2, 1 << 20)),
                             ("<Q", (0, 2**32, 2**63, 2**64 - 1, 2**40))))
    at = r.randrange(len(data))
    data[at:at + struct.calcsize(form)] = struct.pack(form, r.choice(values))


def cut(r, data):
    at = r.randrange(len(data))
    del data[at:at + r.choice((1, 2, 8, len(data)))]


def repeat(r, data):
    at = r.randrange(len(data))
    piece = data[at:at + r.choice((1, 2, 4, 16, 60))]
    data[at:at] = piece * r.choice((1, 2, 10, 100))


def swap(r, data):
    a, b, n = r.randrange(len(data)), r.randrange(len(data)), r.choice((1, 2, 4, 12))
    data[a:a + n], data[b:b + n] = data[b:b + n], data[a:a + n]


BYTES = flip, overwrite, extreme, cut, repeat, swap


# --- mutations of streams


PIECES = [  # what a stream is made of, hostile where it can be
    b"]", b"}", b"\x8f", b")", b"N", b"\x88", b"(", b"a", b"e", b"s", b"u", b"t", b"\x85", b"\x86", b"\x87", b"R", b"b",
    b"Q", b"0", b"1", b"2", b"2\x86", b"\x90", b"\x91", b"\x93", b"\x94", b".", b"K\x00", b"M\xff\xff",
    b"J\xff\xff\xff\x7f", b"J\x00\x00\x00\x80", b"\x8a\x09" + bytes(8) + b"\x01", b"\x8b\xff\xff\xff\x7f",
    b"X\xff\xff\xff\xff", b"X\x01\x00\x00\x00a", b"G\x7f\xf8" + bytes(6), b"q\x00", b"h\x00", b"h\x01", b"h\x05",
    b"r\xff\xff\xff\xff", b"j\xff\xff\xff\xff", b"ccollections\nOrderedDict\n", b"ccollections\nCounter\n",
    b"ccollections\ndefaultdict\n", b"c__builtin__\nlist\n", b"c__builtin__\nset\n", b"c__builtin__\ndict\n",
    b"c__builtin__\ntuple\n", b"c__builtin__\nbytearray\n", b"c__builtin__\ncomplex\n", b"c_codecs\nencode\n",
    b"ctorch\nSize\n", b"ctorch\ndevice\n", b"ctorch\nfloat32\n", b"ctorch\nFloatStorage\n",
    b"ctorch._utils\n_rebuild_tensor_v2\n", b"ctorch._utils\n_rebuild_tensor_v3\n",
    b"ctorch._utils\n_rebuild_parameter\n", b"ctorch._utils\n_rebuild_parameter_with_state\n",
    b"ctorch._utils\n_rebuild_meta_tensor_no_storage\n", b"cos\nsystem\n", b"X\x03\x00\x00\x00neg", b"\x8c\x04conj",
]
TOWERS = b"2\x86", b"\x85", b"]a", b"2\x87", b"\x94h\x00\x86", b")\x91", b"}K\x00", b"(", b"]", b"\x8f", b"2"


@functools.cache
def borders(stream):
    """Where the opcodes of a stream begin: by the lengths that follow them."""
    after = {0x80: 1, 0x95: 8, **dict.fromkeys(b"KqhC", 1), ord("M"): 2, **dict.fromkeys(b"JrjB", 4), ord("G"): 8}
    found, at = [], 0
    while at < len(stream):
        found.append(at)
        code = stream[at]
        if code == ord("X"):
            at += 5 + int.from_bytes(stream[at + 1:at + 5], "little")
        elif code in (0x8A, 0x8C, ord("C")):
            at += 2 + (stream[at + 1] if at + 1 < len(stream) else 0)
        elif code == ord("c"):
            at = stream.find(b"\n", stream.find(b"\n", at) + 1) + 1 or len(stream)
        else:
            at += 1 + after.get(code, 0)
    return found


def insert(r, stream, places):
    at = r.choice(places)
    stream[at:at] = b"".join(r.choice(PIECES) for _ in range(r.choice((1, 1, 2, 4))))


def replace(r, stream, places):
    k = r.randrange(len(places))
    end = places[k + 1] if k + 1 < len(places) else len(stream)
    stream[places[k]:end] = r.choice(PIECES)


def transplant(r, stream, places):
    """A run of opcodes is copied or moved to another place."""
    a = r.randrange(len(places))
    b = min(len(places) - 1, a + r.randrange(1, 2 * MOVED))
    piece = stream[places[a]:places[b]]
    at = r.choice(places)
    stream[at:at] = piece * r.choice((1, 1, 2, 30))


def tower(r, stream, places):
    """An opcode that nests or doubles, many times."""
    at = r.choice(places)
    stream[at:at] = r.choice(TOWERS) * r.choice((3, 3, 10, 30, 30, 100, 300, 1500))


def operand(r, stream, places):
    """A number after an opcode changes: sizes, strides, offsets, counts, memo numbers."""
    for _ in range(8):
        at = r.choice(places)
        if stream[at] in b"KMJGqrhjX\x8a\x8b\x8c":
            break
    width = {ord("K"): 1, ord("M"): 2, ord("q"): 1, ord("h"): 1, 0x8A: 1, 0x8C: 1}.get(stream[at], 4)
    near = stream[at + 1] ^ 1 << r.randrange(8) if at + 1 < len(stream) else 0
    stream[at + 1:at + 1 + width] = r.choice((bytes([near]) + stream[at + 2:at + 1 + width], bytes(width),
                                              b"\xff" * width, b"\xff" * (width - 1) + b"\x7f"))


def number(r, stream, places):
    """A small number becomes a long one."""
    small = [at for at in places if stream[at] == ord("K")] or places
    at = r.choice(small)
    stream[at:at + 2] = r.choice((b"J\xff\xff\xff\x7f", b"J\xff\xff\xff\xff", b"\x8a\x08" + bytes(7) + b"\x40",
                                  b"\x8a\x08" + b"\xff" * 7 + b"\x7f", b"\x88", b"N", b"G\x40\x00" + bytes(6),
                                  b"M\x00\x80"))


STREAM = insert, replace, transplant, tower, operand, number


# --- archives


def packed(entries, r):
    """The entries as an archive with correct checksums; now and then with headers that disagree."""
    parts, directory, at = [], [], 0
    liar = r.randrange(4 * len(entries))
    for k, (name, data) in enumerate(entries):
        name = name.encode()
        head = [20, 0, 0, 0, 0, zlib.crc32(data), len(data), len(data), len(name), 0]
        entry = [20, *head, 0, 0, 0, 0, at]
        parts += struct.pack("<4s5H3L2H", b"PK\x03\x04", *head), name, data
        if k == liar:
            field = r.choice((2, 3, 6, 7, 8, 9, 10, 12, 15))
            entry[field] = r.choice((0, 1, entry[field] + 1, 2**31)) if field in (6, 7, 8, 15) else r.choice((0, 1, 8))
        directory += struct.pack("<4s6H3L5H2L", b"PK\x01\x02", *entry), name
        at += 30 + len(name) + len(data)
    central = b"".join(directory)
    ending = struct.pack("<4s4H2LH", b"PK\x05\x06", 0, 0, len(entries), len(entries), len(central), at, 0)
    return b"".join(parts) + central + ending


def content(n):
    """File number n."""
    r = random.Random(n)
    file = r.choice(files())
    kind = r.random()
    if kind < 0.25:  # anywhere: mostly caught by the checks of the archive
        data = bytearray(file.raw)
        for _ in range(r.choice((1, 1, 2, 4))):
            r.choice(BYTES)(r, data)
            data = data or bytearray(b"P")
        return bytes(data)
    entries = list(file.entries)
    stream = bytearray(entries[0][1])
    places = borders(entries[0][1])
    for _ in range(r.choice((1, 1, 1, 2, 3, 6))):
        if kind < 0.4:
            r.choice(BYTES)(r, stream)
        else:
            r.choice(STREAM)(r, stream, places)
        stream = stream or bytearray(b".")
        if places[-1] >= len(stream):
            places = [at for at in places if at < len(stream)]
    entries[0] = entries[0][0], bytes(stream)
    if kind > 0.95 and len(entries) > 1:
        k = r.randrange(1, len(entries))
        entries[k] = entries[k][0], entries[k][1][:r.choice((0, 1, 8))]
    return packed(entries, r)


# --- the run


def load(raw, n, path):
    """Whether file n was loaded; what is wrong with it must be a RuntimeError."""
    try:
        if n % EVERY == 0:
            path.write_bytes(raw)
            found = flambeau.load(path, mmap=True)
        else:
            found = flambeau.load(io.BytesIO(raw))
    except RuntimeError as error:
        if len(str(error)) > 1000:
            raise AssertionError(f"file {n}: a message of {len(str(error))} characters") from error
        return False
    if n % EVERY == 1:
        with contextlib.suppress(RecursionError):
            repr(found)
    return True


def run(first, last, log):
    path = log.with_suffix(".pt")
    counts = [0, 0]
    files()
    load(content(0), 0, path)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    started, used = time.perf_counter(), time.process_time()
    with open(log, "r+b" if log.exists() else "w+b", buffering=0) as place:
        for n in range(first, last):
            raw = content(n)
            place.seek(0)
            place.write(b"%-20d" % n)
            with limits(len(raw)):
                try:
                    counts[load(raw, n, path)] += 1
                except RuntimeError:
                    raise
                except BaseException as error:
                    raise SystemExit(f"file {n}: {type(error).__name__}: {error}") from error
    more = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    seconds, used = time.perf_counter() - started, time.process_time() - used
    print(f"{last - first} files: {counts[1]} loaded, {counts[0]} refused; {more >> 10} MiB more at most; "
          f"{(last - first) / seconds:.0f} files/s, {(last - first) / used:.0f} per second of the processor")


if __name__ == "__main__":
    run(int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3]))
