"""Tensors of an exported program's archive: one entry of plain bytes for each storage, and a text that says which part
of which entry a tensor is.

The bytes of an entry are stored as they are and begin at a multiple of 64 in the file; `write` returns where.
"""

import io
import json
from typing import NamedTuple

import flambeau

from .. import _C
from .._files.archive import as_bytes
from .._shown import shown
from ..serialization import load as load_tensors
from ..serialization import save as save_tensors
from ._schema import device_data, dtype_of, layout_number, number_of, read_device

#: {folder of the archive: (how its entries are called, where the text is)}
FOLDERS = {"weights": ("weight_{}", "{}_weights_config.json"), "constants": ("tensor_{}", "{}_constants_config.json")}


class Place(NamedTuple):
    """Where a tensor lies in the file: the entry, the first byte of that entry, and what the archive says of it."""

    entry: str
    start: int
    meta: dict


# ---- writing ---------------------------------------------------------------------------------------------------------

def _meta(t):
    """What the archive says of a tensor with a memory of its own."""
    def whole(numbers):
        return [{"as_int": n} for n in numbers]

    plain = t.layout is _C.strided
    strides, offset = (whole(t.stride()), t.storage_offset()) if plain else ([], 0)
    return {"dtype": number_of(t.dtype), "sizes": whole(t.shape), "requires_grad": t.requires_grad,
            "device": device_data(t.device), "strides": strides, "storage_offset": {"as_int": offset},
            "layout": layout_number(t.layout)}


def _as_it_is(name, t):
    if t.device.type == "meta":
        raise NotImplementedError(f"export.save: {shown(name)} is on the meta device and has no values to write")
    return t.layout is not _C.strided or t.is_quantized


def write(archive, folder, model, tensors):
    """Writes {name: tensor} into a folder of the archive; {name: Place}."""
    entry_name, config_name = FOLDERS[folder]
    config, places, known = {}, {}, {}
    for name, t in tensors.items():
        whole = _as_it_is(name, t)
        held = t if whole else t.detach().resolve_conj().resolve_neg()
        key = id(t) if whole else (_C.storage_id(held), held.dtype)
        if key not in known:
            path = entry_name.format(len(known))
            entry = f"data/{folder}/{path}"
            content = bytes_of(t) if whole else as_bytes(_C.storage_bytes(held).cpu())
            known[key] = path, entry, archive.put(entry, content)
        path, entry, start = known[key]
        meta = _meta(held) | {"requires_grad": t.requires_grad}
        config[name] = {"path_name": path, "is_param": isinstance(t, flambeau.nn.Parameter), "use_pickle": whole,
                        "tensor_meta": meta}
        places[name] = Place(entry, start, meta)
    archive.put(f"data/{folder}/{config_name.format(model)}", json.dumps({"config": config}).encode())
    return places


def bytes_of(value):
    """An object as a file of `flambeau.save`."""
    held = io.BytesIO()
    save_tensors(value, held)
    return held.getvalue()


# ---- reading ---------------------------------------------------------------------------------------------------------

def read(archive, folder, model):
    """{name: tensor} of a folder of the archive."""
    older = f"data/{folder}/{model}.pt"
    if archive.has(older):
        return dict(stored(archive, older))
    config = archive.json(f"data/{folder}/{FOLDERS[folder][1].format(model)}")["config"]
    memories, found = {}, {}
    for name, payload in config.items():
        path, meta = str(payload["path_name"]), payload["tensor_meta"]
        entry = f"data/{folder}/{path}"
        if path.startswith(("custom_obj", "opaque_obj")):
            raise NotImplementedError(f"export.load: {shown(name)} is an object of a class of PyTorch's own C++ or of "
                                      "a program's, which is not read as data; replace it by tensors")
        if payload["use_pickle"]:
            found[name] = stored(archive, entry)
            continue
        key = path, meta["dtype"]
        if key not in memories:
            memories[key] = _memory(archive, entry).view(dtype_of(meta["dtype"]))
        found[name] = _part(name, memories[key], meta, payload["is_param"])
    return found


def stored(archive, entry):
    """The object of an entry that is a file of `flambeau.save` or `torch.save` itself."""
    return load_tensors(io.BytesIO(archive.read(entry)))


def _memory(archive, entry):
    memory = flambeau.empty(archive.size(entry), dtype=flambeau.uint8, device="cpu")
    archive.read_into(entry, memoryview(memory) if memory.numel() else b"")
    return memory


def _whole(data):
    number = data["as_int"]
    if type(number) is not int or not -1 << 62 < number < 1 << 62:
        raise ValueError(f"export.load: {shown(number)} is no size")
    return number


def _part(name, memory, meta, is_param):
    """A tensor over a part of an entry's memory."""
    sizes, strides = ([_whole(n) for n in meta[row]] for row in ("sizes", "strides"))
    offset = _whole(meta["storage_offset"])
    last = offset + sum((n - 1) * step for n, step in zip(sizes, strides, strict=True))
    inside = 0 in sizes or 0 <= last < memory.numel()
    if min([offset, *sizes, *strides]) < 0 or not inside:
        raise ValueError(f"export.load: {shown(name)} does not fit its entry of {memory.numel()} elements: sizes "
                         f"{sizes}, strides {strides}, beginning at {offset}")
    t = memory.as_strided(sizes, strides, offset if 0 not in sizes else 0)
    device = read_device(meta["device"])
    t = t if device.type == "cpu" else t.to(device)
    if is_param:
        return flambeau.nn.Parameter(t, requires_grad=bool(meta["requires_grad"]))
    return t.requires_grad_() if meta["requires_grad"] else t
