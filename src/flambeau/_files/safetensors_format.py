"""safetensors files, checked by their own library; the tensors lie in the file's memory until they are used."""

import json
import os
import re
from math import prod

import flambeau

from .. import _C
from .._shown import clipped, shown
from .mapping import mapped
from .replacing import replacing

DTYPES = {
    "F64": "float64", "F32": "float32", "F16": "float16", "BF16": "bfloat16", "F8_E4M3": "float8_e4m3fn",
    "F8_E5M2": "float8_e5m2", "I64": "int64", "I32": "int32", "I16": "int16", "I8": "int8", "U64": "uint64",
    "U32": "uint32", "U16": "uint16", "U8": "uint8", "BOOL": "bool", "C64": "complex64",
}
_NAMES = {name: code for code, name in DTYPES.items()}
_UNITS = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
_INDEX = ".index.json"


def library():
    """The package `safetensors`, where it is installed."""
    try:
        import safetensors
    except ImportError:
        raise ImportError("safetensors files need the package of that name: pip install 'safetensors>=0.8'") from None
    return safetensors


# --- reading


class File:
    """One file, checked by the library: `tensors` says {name: (dtype, shape, where its bytes begin and end)}."""

    def __init__(self, path):
        self.path = os.fsdecode(path)
        opened = _checked(self.path)
        self.metadata = opened.metadata() or {}
        with open(self.path, "rb") as file:
            self.memory = mapped(file)
        size = int.from_bytes(self.memory[:8], "little")
        start = 8 + size
        described = json.loads(bytes(self.memory[8:start]))
        self.tensors = {name: (entry["dtype"], entry["shape"], *(start + n for n in entry["data_offsets"]))
                        for name, entry in described.items() if name != "__metadata__"}
        self.tensors = {name: self.tensors[name] for name in opened.keys() if name in self.tensors}  # noqa: SIM118

    def tensor(self, name, device="cpu"):
        code, shape, start, end = self.tensors[name]
        if code not in DTYPES:
            raise RuntimeError(f"safe_open: {self.path}: tensor {shown(name)} has the dtype {shown(code)}, which is "
                               "not here")
        dtype = getattr(flambeau, DTYPES[code])
        if start == end:
            found = flambeau.empty(shape, dtype=dtype)
        elif start % dtype.itemsize:  # not where its elements may lie
            found = flambeau.frombuffer(bytearray(self.memory[start:end]), dtype=dtype).reshape(shape)
        else:
            found = flambeau.frombuffer(self.memory, dtype=dtype, count=prod(shape), offset=start).reshape(shape)
        return found if str(device) == "cpu" else found.to(device)


def _checked(path):
    safetensors = library()
    try:
        return safetensors.safe_open(path, framework="np")
    except FileNotFoundError:
        raise FileNotFoundError(f"safe_open: there is no file {path}") from None
    except Exception as error:
        raise RuntimeError(f"safe_open: {path} is no safetensors file, or a damaged one: {clipped(error)}") from error


class safe_open:
    """A safetensors file, or the index of one in several parts, whose tensors are read when they are asked for.

    What is returned lies in the file's memory: nothing is copied, and changing a tensor does not change the file.
    `framework` is accepted for programs written for PyTorch and must be "pt" or "flambeau".
    """

    def __init__(self, filename, framework="pt", device="cpu"):
        if framework not in ("pt", "torch", "flambeau"):
            raise ValueError(f"safe_open: framework {shown(framework)} is not here, expected 'pt' or 'flambeau'")
        self._device = device
        self._files, self._at = _opened(os.fsdecode(filename))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._files = {}

    def keys(self):
        """The names of the tensors."""
        return list(self._at)

    def offset_keys(self):
        """The names in the order of the bytes."""
        return sorted(self._at, key=lambda name: (self._at[name], self._file(name).tensors[name][2]))

    def metadata(self):
        """What the file says of itself: {str: str}; None where it says nothing."""
        return {key: value for file in self._files.values() for key, value in file.metadata.items()} or None

    def get_tensor(self, name):
        return self._file(name).tensor(name, self._device)

    def get_tensors(self):
        """All of them: {name: tensor}."""
        return {name: self.get_tensor(name) for name in self._at}

    def get_slice(self, name):
        """A tensor that is read when it is indexed."""
        return Slice(self._file(name), name, self._device)

    def _file(self, name):
        if name not in self._at:
            raise KeyError(f"safe_open: there is no tensor {shown(name)}")
        return self._files[self._at[name]]


class Slice:
    """A tensor of a file: its shape and dtype, and what indexing gives."""

    def __init__(self, file, name, device):
        self._file, self._name, self._device = file, name, device

    def get_shape(self):
        return list(self._file.tensors[self._name][1])

    def get_dtype(self):
        return self._file.tensors[self._name][0]

    def __getitem__(self, index):
        return self._file.tensor(self._name, self._device)[index]


def _opened(path):
    """({file: File}, {tensor: file}) of a file, or of an index."""
    if not path.endswith(_INDEX):
        file = File(path)
        return {path: file}, dict.fromkeys(file.tensors, path)
    with open(path, "rb") as index:
        try:
            places = json.loads(index.read())["weight_map"]
            names = {name: os.fspath(part) for name, part in places.items()}
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise RuntimeError(f"safe_open: {path} is no index of safetensors files: {clipped(error)}") from error
    folder, files = os.path.dirname(path), {}
    for part in dict.fromkeys(names.values()):
        if os.path.basename(part) != part or part in ("", ".", ".."):
            raise RuntimeError(f"safe_open: {path} names the file {shown(part)}, which is not beside it")
        files[part] = File(os.path.join(folder, part))
    for name, part in names.items():
        if name not in files[part].tensors:
            raise RuntimeError(f"safe_open: {path} says that tensor {shown(name)} is in {part}, and it is not")
    return files, names


def load_file(filename, device="cpu"):
    """{name: tensor} of a safetensors file, or of the index of one in several parts (`….safetensors.index.json`)."""
    return safe_open(filename, device=device).get_tensors()


def load(data):
    """{name: tensor} of the bytes of such a file."""
    try:
        found = library().deserialize(bytes(data))
    except ImportError:
        raise
    except Exception as error:
        raise RuntimeError(f"load: these are no bytes of a safetensors file: {clipped(error)}") from error
    return {name: _from_bytes(name, **entry) for name, entry in found}


def _from_bytes(name, dtype, shape, data):
    if dtype not in DTYPES:
        raise RuntimeError(f"load: tensor {shown(name)} has the dtype {shown(dtype)}, which is not here")
    dtype = getattr(flambeau, DTYPES[dtype])
    flat = flambeau.frombuffer(bytearray(data), dtype=dtype) if data else flambeau.empty(0, dtype=dtype)
    return flat.reshape(shape)


# --- writing


def _specs(tensors, name):
    """({name: what the library wants}, the tensors whose memory it reads)."""
    spec, kept, owners = library().TensorSpec, {}, {}
    if not isinstance(tensors, dict):
        raise ValueError(f"{name}: expected a dict of tensors, got {shown(tensors)}")
    for key, t in tensors.items():
        if not isinstance(t, flambeau.Tensor) or type(key) is not str:
            raise ValueError(f"{name}: expected a tensor under a text, got {shown(t)} under {shown(key)}")
        code = _NAMES.get(str(t.dtype).rpartition(".")[2])
        if code is None or t.layout is not flambeau.strided:
            raise ValueError(f"{name}: {shown(key)} is a {t.layout} tensor of dtype {t.dtype}, which safetensors do "
                             "not have")
        if not t.is_contiguous():
            raise ValueError(f"{name}: {shown(key)} is not contiguous; store its .contiguous()")
        other = owners.setdefault(_C.storage_id(t), key) if t.numel() else key
        if other != key:
            raise RuntimeError(f"{name}: {shown(other)} and {shown(key)} share memory, which safetensors cannot say: "
                               "store clones, or the model with save_model, which stores what is shared once")
        kept[key] = t.detach().resolve_conj().resolve_neg()
    return {key: spec(dtype=_spec_dtype(t), shape=list(t.shape), data_ptr=t.data_ptr(), data_len=t.nbytes)
            for key, t in kept.items()}, kept


def _spec_dtype(t):
    return str(t.dtype).rpartition(".")[2]


def save(tensors, metadata=None):
    """The bytes of a safetensors file of {name: tensor}."""
    specs, _kept = _specs(tensors, "save")
    return bytes(library().serialize(specs, metadata=metadata))


def save_file(tensors, filename, metadata=None):
    """Writes {name: tensor} as a safetensors file: whole or not at all. `metadata`: {str: str}."""
    _, kept = _specs(tensors, "save_file")
    if not all(type(text) is str for pair in (metadata or {}).items() for text in pair):
        raise TypeError(f"save_file: metadata must be texts under texts, got {shown(metadata)}")
    try:
        with replacing(os.fsdecode(filename)) as file:
            _write(kept, metadata, file)
    except OSError as error:
        raise RuntimeError(f"save_file: cannot write {shown(filename)}: {error.strerror or error}") from error


def _write(tensors, metadata, file):
    """The header and the bytes; by ourselves, because the library would put a file of its own in this one's place."""
    header, at = {} if metadata is None else {"__metadata__": metadata}, 0
    order = sorted(tensors, key=lambda name: (-tensors[name].itemsize, name))  # so that all begin where they may lie
    for name in order:
        t = tensors[name]
        header[name] = {"dtype": _NAMES[_spec_dtype(t)], "shape": list(t.shape), "data_offsets": [at, at + t.nbytes]}
        at += t.nbytes
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)
    file.write(len(text).to_bytes(8, "little") + text)
    for name in order:
        if tensors[name].numel():
            file.write(memoryview(tensors[name].reshape(-1).view(flambeau.uint8).numpy()))


def save_model(model, filename, metadata=None, force_contiguous=True):
    """Writes the state of a module; a tensor of several names is stored under the first, the others as metadata."""
    tensors, owners, metadata = {}, {}, dict(metadata or {})
    for name, t in model.state_dict().items():
        first = owners.setdefault((_C.storage_id(t), t.storage_offset(), tuple(t.shape)), name) if t.numel() else name
        if first != name:
            metadata[name] = first
        else:
            tensors[name] = t.contiguous() if force_contiguous else t
    save_file(tensors, filename, metadata)


def load_model(model, filename, strict=True, device="cpu"):
    """Reads what `save_model` wrote into a module; (names that the file lacks, names that the module lacks)."""
    state = load_file(filename, device)
    own = model.state_dict()
    missing, unexpected = model.load_state_dict(state, strict=False)
    given = {_C.storage_id(own[name]) for name in state if name in own}
    missing = [name for name in missing if _C.storage_id(own[name]) not in given]
    if strict and (missing or unexpected):
        raise RuntimeError(f"load_model: {shown(filename)} does not fit {type(model).__name__}: it lacks "
                           f"{shown(missing)}, and the module lacks {shown(list(unexpected))}")
    return missing, list(unexpected)


def save_sharded(tensors, folder, max_shard_size="5GB", metadata=None, filename="model.safetensors"):
    """Writes {name: tensor} into several files of at most `max_shard_size` bytes each, and the index of them.

    The files are called model-00001-of-00003.safetensors …, the index model.safetensors.index.json; what fits into one
    file becomes model.safetensors. The index is written last. It returns the path that `load_file` takes.
    """
    parts, total = _split(tensors, _bytes(max_shard_size)), sum(t.nbytes for t in tensors.values())
    stem, ending = os.path.splitext(filename)
    if len(parts) == 1:
        save_file(tensors, os.path.join(folder, filename), metadata)
        return os.path.join(folder, filename)
    places = {}
    for k, part in enumerate(parts, 1):
        name = f"{stem}-{k:05d}-of-{len(parts):05d}{ending}"
        save_file(part, os.path.join(folder, name), metadata)
        places |= dict.fromkeys(part, name)
    index = {"metadata": {"total_size": total} | (metadata or {}), "weight_map": places}
    path = os.path.join(folder, filename + _INDEX)
    with replacing(path) as file:
        file.write(json.dumps(index, indent=2).encode())
    return path


def _split(tensors, most):
    parts, room = [{}], most
    for name, t in tensors.items():
        if t.nbytes > room and parts[-1]:
            parts.append({})
            room = most
        parts[-1][name] = t
        room -= t.nbytes
    return parts


def _bytes(size):
    found = re.fullmatch(r"\s*(\d+)\s*([KMGT]?B|)\s*", str(size), re.IGNORECASE)
    if found is None or int(found[1]) == 0:
        raise ValueError(f"save_sharded: max_shard_size is {shown(size)}, expected a number of bytes or a text like "
                         "'5GB'")
    return int(found[1]) * _UNITS[found[2].upper()]
