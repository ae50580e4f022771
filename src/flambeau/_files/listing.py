"""What is in a file, without loading it: a row per tensor (name, shape, dtype, size, checksum), and other values."""

import importlib
import re
from collections import deque
from math import prod

import flambeau

from .. import _C
from .._shown import shown
from . import numpy_format
from .extent import Unknown
from .inspecting import Inspector
from .legacy import LegacyArchive
from .mapping import mapped
from .opening import format_of, opened, start_of

_PIECE = 1 << 24
_FORMATS = {"npy": "NumPy array", "npz": "NumPy archive", "safetensors": "safetensors"}
_TABLES = ("_parameters", "_buffers", "_modules")
_HIDDEN = ("training",)


class Row:
    """A tensor of a file. `where`: the storage it lies in; `view`: its elements, in the file's memory."""

    def __init__(self, name, shape, dtype, where, known, view):
        self.name, self.shape, self.dtype, self.where = name, tuple(shape), dtype, where
        self.known = known
        self.view = view
        self.bytes = prod(self.shape) * itemsize(dtype)

    def checksum(self):
        """CRC-32 of the elements in their order: the file's own where it has it, else computed; None for no bytes."""
        if self.known is not None:
            return self.known
        found = self.view() if self.view is not None else None
        if found is None:
            return None
        data, crc = memoryview(found), 0
        for start in range(0, len(data), _PIECE):
            crc = _C.crc32(data[start:start + _PIECE], crc)
        return crc


def itemsize(dtype):
    """Bytes of an element; those of NumPy's own dtypes and of floats below a byte by their name."""
    kind = getattr(flambeau, dtype, None)
    return kind.itemsize if isinstance(kind, flambeau.dtype) else int(re.sub(r"\D", "", dtype) or 8) // 8


class Listing:
    """The rows of a file, its other values ({name: text}), the classes it names, and what it is."""

    def __init__(self, path):
        self.path = path
        self.rows, self.values, self.classes = [], {}, []
        with open(path, "rb") as file:
            self.bytes = file.seek(0, 2)
            self.kind = format_of(start_of(file), self.bytes)
            self.memory = mapped(file)
            if self.kind == "objects":
                self.objects(opened(file, path))
            else:
                getattr(self, self.kind)(file)
                self.kind = _FORMATS[self.kind]

    def add(self, name, shape, dtype, start, size, data=None):
        """A tensor whose elements lie one after the other in `data`, the file's memory where it is not given."""
        data = self.memory if data is None else data
        self.rows.append(Row(name, shape, dtype, None, None, lambda: data[start:start + size]))

    # --- files without objects

    def npy(self, *_):
        shape, _, dtype, start = numpy_format.header(self.memory, 0, self.bytes, self.path)
        self.add("(array)", shape, dtype.name, start, self.bytes - start)

    def npz(self, file):
        archive = numpy_format.Arrays(file, self.path)
        for name, entry in archive.entries.items():
            data = self.memory if entry.method == 0 else archive.unpacked(name)
            start = archive.offset(name) if entry.method == 0 else 0
            shape, _, dtype, begin = numpy_format.header(data, start, start + entry.size, name)
            self.add(name.removesuffix(".npy"), shape, dtype.name, begin, start + entry.size - begin, data)

    def safetensors(self, *_):
        safetensors = importlib.import_module("flambeau._files.safetensors_format")
        found = safetensors.File(self.path)
        for name, (code, shape, start, end) in found.tensors.items():
            self.add(name, shape, safetensors.DTYPES.get(code, code.lower()), start, end - start)
        self.values = {f"metadata: {key}": shown(value) for key, value in found.metadata.items()}

    # --- files of objects

    def objects(self, archive):
        self.kind = "PyTorch before 1.6" if isinstance(archive, LegacyArchive) else "PyTorch"
        self.archive, self.inspector = archive, Inspector(archive)
        root, seen = self.inspector.load(), set()
        self.classes = list(self.inspector.unknown)
        todo = deque([("", root)])
        while todo:
            name, value = todo.popleft()
            if isinstance(value, flambeau.Tensor):
                self.tensor(name or "(tensor)", value)
                continue
            parts = _parts(value)
            if parts is None:
                self.values[name or "(value)"] = shown(value)
            elif id(value) not in seen:
                seen.add(id(value))
                todo.extendleft((f"{name}.{key}" if name and key else name or key, part)
                                for key, part in reversed(parts))

    def tensor(self, name, value):
        dtype = str(value.dtype).rpartition(".")[2]
        place = self.inspector.places.get(id(value))
        if place is None:
            self.rows.append(Row(name, value.shape, dtype, "meta", None, None))
            return
        number, offset = place
        entry = self.archive.entries.get(f"{getattr(self.archive, 'top', '')}data/{number}")
        size = self.archive.size(f"data/{number}")
        whole = offset == 0 and value.is_contiguous() and value.nbytes == size
        known = entry.crc if whole and hasattr(entry, "crc") else None
        fits = value.nbytes <= max(self.bytes, size) * 16  # what is expanded may have no end
        start = self.archive.offset(f"data/{number}")
        view = (lambda: self.elements(start, size, value, offset)) if fits else None
        self.rows.append(Row(name, value.shape, dtype, str(number), known, view))

    def elements(self, start, size, value, offset):
        """The bytes of a tensor's elements in their order."""
        if not size or not value.numel():
            return b""
        memory = flambeau.frombuffer(self.memory[start:start + size], dtype=flambeau.uint8)
        found = _C.storage_view(memory, value.dtype, offset, tuple(value.shape), tuple(value.stride()))
        return memoryview(_C.storage_bytes(found.contiguous().clone()))


def _parts(value):
    """[(name, part)] of what has parts; None for a single value."""
    if isinstance(value, flambeau.nn.Module):
        return _of_module(vars(value))
    if isinstance(value, Unknown):
        return _of_unknown(value)
    if isinstance(value, dict):
        return [(_key(key), part) for key, part in dict.items(value)]
    for kind in (list, tuple, set, frozenset, deque):
        if isinstance(value, kind):
            return [(str(k), part) for k, part in enumerate(kind.__iter__(value))]
    return None


def _of_unknown(value):
    state = value.state
    if isinstance(state, dict) and all(isinstance(state.get(table), dict) for table in _TABLES):
        return _of_module(state)
    parts = [(str(k), part) for k, part in enumerate(value.args)]
    parts += [(_key(key), part) for key, part in value.pairs] + [(str(k), part) for k, part in enumerate(value.items)]
    state = [part for part in state if part] if isinstance(state, tuple) else [state]
    for each in state:
        parts += [(_key(key), part) for key, part in each.items()] if isinstance(each, dict) else [("", each)]
    return [(key, part) for key, part in parts if part is not None]


def _of_module(state):
    """The tensors of a module under the names that its state_dict has, then its settings."""
    parts = [(_key(key), part) for table in _TABLES for key, part in state[table].items() if part is not None]
    return parts + [(f"({_key(key)})", part) for key, part in state.items()
                    if key not in (*_TABLES, *_HIDDEN) and not str(key).endswith("hooks") and part is not None]


def _key(key):
    return key if type(key) is str and key.isprintable() and len(key) < 200 else shown(key)
