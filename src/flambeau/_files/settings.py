"""Settings of `save` and `load`: whether checksums are computed, the byte order of files that do not say theirs, and
whether writing to the memory of a file changes it."""

import mmap
from enum import Enum
from sys import byteorder

from .._shown import shown


class LoadEndianness(Enum):
    """A byte order: that of the machine, least significant byte first, or last."""

    NATIVE = 1
    LITTLE = 2
    BIG = 3


_ORDERS = {None: byteorder, LoadEndianness.NATIVE: byteorder, LoadEndianness.LITTLE: "little",
           LoadEndianness.BIG: "big"}
_PRIVATE, _SHARED = getattr(mmap, "MAP_PRIVATE", 2), getattr(mmap, "MAP_SHARED", 1)
_now = {"crc32": True, "order": None, "mmap": _PRIVATE}


def get_crc32_options():
    """Whether `save` computes checksums."""
    return _now["crc32"]


def set_crc32_options(compute_crc32):
    """Whether `save` computes checksums: it then takes less time, and `load` cannot notice damage.

    >>> import flambeau
    >>> from flambeau import serialization
    >>> serialization.set_crc32_options(True)
    >>> serialization.get_crc32_options()
    True
    """
    _now["crc32"] = bool(compute_crc32)


def get_default_load_endianness():
    """What `set_default_load_endianness` was given; None before."""
    return _now["order"]


def set_default_load_endianness(endianness):
    """The byte order of files that do not say theirs (of PyTorch 1.6 to 2.0); None: that of this machine.

    >>> from flambeau import serialization
    >>> serialization.set_default_load_endianness(serialization.LoadEndianness.LITTLE)
    >>> serialization.get_default_load_endianness()
    <LoadEndianness.LITTLE: 2>
    >>> serialization.set_default_load_endianness(None)
    """
    if endianness is not None and not isinstance(endianness, LoadEndianness):
        raise TypeError(f"set_default_load_endianness: expected a LoadEndianness or None, got {shown(endianness)}")
    _now["order"] = endianness


def order_of(record):
    """The byte order, "little" or "big", of a file with this record (bytes, or None where it has none)."""
    return _ORDERS[_now["order"]] if record is None else record.decode("latin1")


def get_default_mmap_options():
    """mmap.MAP_PRIVATE or mmap.MAP_SHARED."""
    return _now["mmap"]


def shared():
    """Whether writing to a tensor of `load(…, mmap=True)` changes the file."""
    return _now["mmap"] == _SHARED


class set_default_mmap_options:
    """What writing to tensors of `load(…, mmap=True)` does: with `mmap.MAP_PRIVATE` the file stays as it is, with
    `mmap.MAP_SHARED` it changes. A call sets it; as a context, until its end.

    >>> import mmap
    >>> from flambeau import serialization
    >>> with serialization.set_default_mmap_options(mmap.MAP_SHARED):
    ...     serialization.get_default_mmap_options() == mmap.MAP_SHARED
    True
    >>> serialization.get_default_mmap_options() == mmap.MAP_PRIVATE
    True
    """

    def __init__(self, flags):
        if flags not in (_PRIVATE, _SHARED):
            raise ValueError("set_default_mmap_options: expected mmap.MAP_PRIVATE or mmap.MAP_SHARED, got "
                             f"{shown(flags)}")
        self._before = _now["mmap"]
        _now["mmap"] = flags

    def __enter__(self):
        return self

    def __exit__(self, *error):
        _now["mmap"] = self._before
