"""Every single bit of a checkpoint flipped: the damage is noticed, or the byte is one that no reader needs.

Which bytes those are follows from the zip format alone (`unused`): the version, time, system and attributes of an
entry, and the padding before its bytes. Nothing that they say takes part in what `load` returns.
"""

import io
import struct
import zipfile

import pytest

import flambeau

SIZE = 64 * 1024


def content(size):
    state = {"epoch": 3, "lr": 0.1, "w": flambeau.arange(size // 8).float().sin(),
             "p": flambeau.nn.Parameter(flambeau.ones(50)), "i": flambeau.arange(size // 20, dtype=flambeau.int8)}
    return state | {"rest": flambeau.zeros(max(0, size - 3100 - size // 2 - size // 20), dtype=flambeau.uint8)}


def checkpoint(size=SIZE):
    file = io.BytesIO()
    flambeau.save(content(size), file)
    return file.getvalue()


def unused(raw):
    """{byte: why no reader needs it}."""
    found = {}

    def field(start, count, why):
        found.update(dict.fromkeys(range(start, start + count), why))

    with zipfile.ZipFile(io.BytesIO(raw)) as archive:
        entries, at = archive.infolist(), archive.start_dir
    for info in entries:
        names, extras = struct.unpack_from("<2H", raw, info.header_offset + 26)
        field(info.header_offset + 4, 2, "version needed to read an entry")
        field(info.header_offset + 10, 4, "time and date of an entry")
        field(info.header_offset + 30 + names, extras, "padding before an entry's bytes")
        if info.file_size == 0:
            field(info.header_offset + 28, 2, "length of the padding of an empty entry")
    for _ in entries:
        names, extras = struct.unpack_from("<2H", raw, at + 28)
        field(at + 4, 4, "version that wrote an entry, version needed")
        field(at + 12, 4, "time and date of an entry")
        field(at + 36, 6, "attributes of an entry")
        at += 46 + names + extras
    return found


def same(a, b):
    """Bit by bit."""
    return list(a) == list(b) and all(map(equal, a.values(), b.values()))


def equal(a, b):
    if not isinstance(a, flambeau.Tensor):
        return type(a) is type(b) and a == b
    return (type(a) is type(b) and a.dtype is b.dtype and a.shape == b.shape
            and a.detach().numpy().tobytes() == b.detach().numpy().tobytes())


def flip(raw, wanted, bits):
    """How many were noticed, and {why: how many were not}; fails where a needed byte's was not."""
    reasons, noticed, missed = unused(raw), 0, {}
    damaged = bytearray(raw)
    for bit in bits:
        byte = bit // 8
        damaged[byte] ^= 1 << bit % 8
        try:
            found = flambeau.load(io.BytesIO(damaged))
        except RuntimeError:
            noticed += 1
        else:
            assert byte in reasons, f"bit {bit % 8} of byte {byte} is needed, and its damage was not noticed"
            assert same(found, wanted), f"bit {bit % 8} of byte {byte} ({reasons[byte]}) changed what was loaded"
            missed[reasons[byte]] = missed.get(reasons[byte], 0) + 1
        damaged[byte] ^= 1 << bit % 8
    return noticed, missed


def test_single_bits_of_a_small_checkpoint():
    """Every bit outside the tensors' bytes, in a small file."""
    raw = checkpoint(3200)
    noticed, missed = flip(raw, flambeau.load(io.BytesIO(raw)), range(0, 8 * len(raw), 7))
    assert noticed > 3 * sum(missed.values())
    assert {"padding before an entry's bytes", "time and date of an entry"} <= missed.keys()


def test_most_bytes_are_needed():
    raw = checkpoint()
    assert abs(len(raw) - SIZE) < 4096 and len(unused(raw)) < 700


@pytest.mark.exhaustive
def test_every_single_bit_of_64_kilobytes():
    raw = checkpoint()
    noticed, missed = flip(raw, flambeau.load(io.BytesIO(raw)), range(8 * len(raw)))
    print(f"{noticed + sum(missed.values())} bits: {noticed} noticed; not needed: {missed}")
    assert noticed + sum(missed.values()) == 8 * len(raw)
