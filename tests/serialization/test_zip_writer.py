"""The archives that save writes: checksums as zlib has them, readable by the standard library, in one pass."""

import io
import itertools
import os
import random
import threading
import time
import zipfile
import zlib

import pytest

import flambeau
from flambeau import _C
from flambeau._files import zip_writer
from flambeau._files.zip_writer import ZipWriter


def test_checksums_are_zlibs():
    """Every length around the block sizes, every alignment, continued anywhere."""
    data = random.Random(0).randbytes(3000)
    for size in [*range(300), 1023, 1024, 1025, 2900]:
        for start in range(0, 17, 3):
            piece = memoryview(data)[start : start + size]
            assert _C.crc32(piece) == zlib.crc32(piece)
            assert _C.crc32(piece, 0xDEADBEEF) == zlib.crc32(piece, 0xDEADBEEF)
    for cut in range(0, 3000, 97):
        assert _C.crc32(data[cut:], _C.crc32(data[:cut])) == zlib.crc32(data)


def test_checksums_of_any_buffer():
    data = bytes(range(256)) * 40
    for buffer in (
        bytearray(data),
        memoryview(data)[::1],
        memoryview(flambeau.frombuffer(bytearray(data), dtype=flambeau.uint8)),
    ):
        assert _C.crc32(buffer) == zlib.crc32(data)
    with pytest.raises(TypeError):
        _C.crc32("text")
    with pytest.raises(BufferError):
        _C.crc32(memoryview(data)[::2])


def test_the_standard_library_reads_the_archives():
    entries = {"a/é": b"x" * 1000, "empty": b"", "a/b": os.urandom(5000)}
    file = io.BytesIO()
    archive = ZipWriter(file)
    for name, data in entries.items():
        archive.put(name, data)
    archive.finish()
    with zipfile.ZipFile(file) as found:
        assert found.testzip() is None and {name: found.read(name) for name in found.namelist()} == entries


def test_archives_of_many_entries():
    file = io.BytesIO()
    archive = ZipWriter(file)
    for k in range(70_000):
        archive.put(str(k), b"")
    archive.finish()
    with zipfile.ZipFile(file) as found:
        assert len(found.namelist()) == 70_000


@pytest.mark.parametrize("large", [0, 100, 5000])
def test_places_of_64_bits(large, monkeypatch):
    monkeypatch.setattr(zip_writer, "_LARGE", large)
    file = io.BytesIO()
    archive = ZipWriter(file)
    entries = {str(k): os.urandom(k) for k in range(0, 300, 50)}
    for name, data in entries.items():
        archive.put(name, data)
    archive.finish()
    with zipfile.ZipFile(file) as found:
        assert found.testzip() is None and {name: found.read(name) for name in found.namelist()} == entries


def test_equal_objects_make_equal_files():
    def written():
        file = io.BytesIO()
        flambeau.save({"w": flambeau.arange(10.0), "n": [1, "x"]}, file)
        return file.getvalue()

    first = written()
    time.sleep(0.01)
    assert written() == first


def test_a_stream_is_written_without_a_copy_of_the_whole():
    """A pipe gets the file piece by piece."""
    reading, writing = os.pipe()
    state, pieces = {"w": flambeau.arange(3_000_000.0)}, []

    def read():
        with open(reading, "rb", buffering=0) as file:
            while piece := file.read(1 << 20):
                pieces.append(piece)

    reader = threading.Thread(target=read)
    reader.start()
    with open(writing, "wb", buffering=0) as file:
        flambeau.save(state, file)
    reader.join()
    assert (flambeau.load(io.BytesIO(b"".join(pieces)))["w"] == state["w"]).all()


def test_large_files_are_on_their_way_to_the_disk_early(tmp_path, monkeypatch):
    asked = []
    monkeypatch.setattr(zip_writer, "_EARLY", 1 << 22)
    monkeypatch.setattr(_C, "start_writing", lambda *part: asked.append(part[1:]))
    flambeau.save({"w": flambeau.zeros(5 << 20)}, tmp_path / "x.pt")
    assert len(asked) >= 4 and asked[0][0] == 0
    assert all(a + n == b for (a, n), (b, _) in itertools.pairwise(asked))
    flambeau.save({"w": flambeau.zeros(5 << 20)}, io.BytesIO())
