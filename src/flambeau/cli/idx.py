"""Reads files in MNIST's idx format, plain or gzipped, and checks magic number, sizes and length first."""

import gzip
import math
import struct
import zlib

import numpy

from .errors import UserError, reason

KINDS = {  # magic number -> what the file holds, how many sizes follow
    0x00000801: ("labels", 1),
    0x00000803: ("pictures", 3),
}


def read_bytes(path):
    """The file's bytes, unpacked if they are gzip'ed (told by the content, not by the name)."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise UserError(f"{path}: cannot be read: {reason(error)}") from error
    if data[:2] != b"\x1f\x8b":
        return data
    try:
        return gzip.decompress(data)
    except (OSError, EOFError, zlib.error) as error:
        raise UserError(f"{path}: damaged gzip file: {reason(error)}") from error


def read_idx(path):
    """uint8 array of one (labels) or three (pictures) dimensions; a UserError names the file and what is wrong."""
    data = read_bytes(path)
    if len(data) < 4:
        raise UserError(f"{path}: not an idx file: it holds {len(data)} bytes")
    magic, = struct.unpack(">I", data[:4])
    if magic not in KINDS:
        raise UserError(f"{path}: not an idx file of bytes: it begins with 0x{magic:08x}, expected 0x00000801 (labels) "
                        "or 0x00000803 (pictures)")
    _, ndim = KINDS[magic]
    header = 4 + 4 * ndim
    if len(data) < header:
        raise UserError(f"{path}: cut short within its header ({len(data)} of {header} bytes)")
    shape = struct.unpack(f">{ndim}I", data[4:header])
    expected = header + math.prod(shape)
    if len(data) != expected:
        what = "cut short" if len(data) < expected else "too long"
        raise UserError(f"{path}: {what}: its sizes {list(shape)} ask for {expected} bytes, it has {len(data)}")
    return numpy.frombuffer(data, numpy.uint8, offset=header).reshape(shape)
