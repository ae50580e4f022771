"""Devices of storages in files: the names that `save` gives them, and how `load` brings a storage there.

A package is a pair of functions: one names the device of a storage, or answers None; the other brings a storage to a
named device, or answers None. Those of lower priority numbers are asked first.
"""

import flambeau

from .. import _C
from .._shown import shown

_CPU, _CUDA, _META = 10, 20, 22


def validate_cuda_device(location):
    """The index of a CUDA device that a file names; RuntimeError where there is no such device."""
    count = _C._cuda.device_count() if _C._cuda.available() else 0
    index = flambeau.device(location).index or 0
    if index >= count:
        raise RuntimeError(f"load: a storage is wanted on {shown(location)}, and there are {count} CUDA devices; use "
                           "map_location='cpu'")
    return index


def validate_hpu_device(location):
    """Refuses: there are no such devices here."""
    raise RuntimeError(f"load: a storage is wanted on {shown(location)}, which this build does not know; use "
                       "map_location='cpu'")


def _tag(kind):
    def tag(storage):
        device = storage.device
        return str(device) if device.type == kind else None
    return tag


def _to_cpu(storage, location):
    return storage.cpu() if location == "cpu" else None


def _to_cuda(storage, location):
    if not location.startswith("cuda"):
        return None
    validate_cuda_device(location)
    return storage.to(device=location)


def _to_meta(storage, location):
    return flambeau.UntypedStorage(storage.nbytes(), device="meta") if location.startswith("meta") else None


#: (priority, names the device or None, brings a storage there or None)
_OURS = ((_CPU, _tag("cpu"), _to_cpu), (_CUDA, _tag("cuda"), _to_cuda), (_META, _tag("meta"), _to_meta))
_KINDS = {_CPU: "cpu", _CUDA: "cuda", _META: "meta"}
_packages = list(_OURS)


def register_package(priority, tagger, deserializer):
    """From now on `save` asks `tagger(storage)` for the name of a storage's device, and `load` asks
    `deserializer(storage, name)` for the storage there. None means that another package is asked; smaller priorities
    come first, and those of this library are 10 (cpu), 20 (cuda) and 22 (meta).

    >>> import io, flambeau
    >>> from flambeau.serialization import register_package
    >>> register_package(30, lambda storage: None, lambda storage, name: storage if name == "tape" else None)
    >>> file = io.BytesIO()
    >>> flambeau.save(flambeau.ones(2), file)
    >>> flambeau.load(file, map_location="tape")
    tensor([1., 1.])
    """
    if not callable(tagger) or not callable(deserializer):
        raise TypeError("register_package: expected two functions, tagger(storage) and deserializer(storage, name)")
    _packages.append((priority, tagger, deserializer))
    _packages.sort(key=lambda package: package[0])


def location_tag(storage):
    """The name of the device that a storage is on, as files have it.

    >>> import flambeau
    >>> flambeau.serialization.location_tag(flambeau.ones(2).untyped_storage())
    'cpu'
    """
    for _, tagger, _ in _packages:
        found = tagger(storage)
        if found is not None:
            return found
    raise RuntimeError(f"save: no package knows the device of {shown(storage)}; register_package adds one")


def default_restore_location(storage, location):
    """The storage on the device that a file names; RuntimeError where there is none of that name."""
    for _, _, deserializer in _packages:
        found = deserializer(storage, location)
        if found is not None:
            return found
    raise RuntimeError(f"load: no package brings a storage to {shown(location)}; use map_location='cpu', or "
                       "register_package")


def tag_of(tensor):
    """The name of a tensor's device; only packages of the user see its storage."""
    if len(_packages) == len(_OURS):
        return str(tensor.device) if tensor.is_cuda else "cpu"
    return location_tag(tensor.untyped_storage())


def restored(memory, location):
    """The bytes of a storage (a uint8 tensor) where a package of the user brings them; None where none does."""
    if len(_packages) == len(_OURS):
        return None
    storage = memory.untyped_storage()
    for package in _packages:
        if package in _OURS:
            if location.partition(":")[0] == _KINDS[package[0]]:
                return None
        elif (found := package[2](storage, location)) is not None:
            return flambeau.empty(0, dtype=flambeau.uint8, device=found.device).set_(found.untyped())
    return None
