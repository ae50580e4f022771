"""The file of a checkpoint's metadata: PyTorch's own pickle, written and read as data, without running any of it."""

import flambeau

from ..._files.collector import Collector
from ..._files.extent import PickleError
from ..._files.loader import Loader, UnpicklingError
from ..._files.objects import Refused
from ..._files.pickle_reader import Allowed
from ..._files.pickle_writer import Writer
from ..._shown import shown
from . import metadata as kinds
from ._storage_info import _StorageInfo

_MODULE = "torch.distributed.checkpoint.metadata"
_INTS = (int, type(None))


def _is_index(state):
    """Only then is it hashed and compared like plain data."""
    offset = state.get("offset")
    return (state.keys() <= {"fqn", "offset", "index"} and type(state.get("fqn")) is str
            and type(state.get("index")) in _INTS and (offset is None or type(offset) is flambeau.Size))


#: class -> what its attributes must be
_CLASSES = {
    kinds.ChunkStorageMetadata: {"offsets": flambeau.Size, "sizes": flambeau.Size},
    kinds.TensorStorageMetadata: {"properties": kinds.TensorProperties, "size": flambeau.Size, "chunks": list},
    kinds.BytesStorageMetadata: {},
    kinds.StorageMeta: {},
    kinds.Metadata: {"state_dict_metadata": dict},
    _StorageInfo: {"relative_path": str, "offset": int, "length": int},
}
_TUPLE = (flambeau.dtype, flambeau.layout, bool, kinds._MEM_FORMAT_ENCODING, bool)


class _One:
    """The only entry of what the loader takes for an archive."""

    def __init__(self, data, name):
        self.data, self.name = data, name

    def read(self, entry):
        return self.data


class _MetadataLoader(Loader):
    def __init__(self, data, name):
        super().__init__(_One(data, name), None, None)
        for kind in (*_CLASSES, kinds.MetadataIndex, kinds.TensorProperties):
            module = _MODULE if kind is not _StorageInfo else "torch.distributed.checkpoint.filesystem"
            self.table[f"{module}.{kind.__name__}"] = Allowed(value=kind, new=self.maker(kind))
        self.table[f"{_MODULE}._MEM_FORMAT_ENCODING"] = Allowed(call=_form, value=kinds._MEM_FORMAT_ENCODING)

    def maker(self, kind):
        return lambda: self.objects.fresh(kind.__new__(kind), _set)

    def hashable(self, kind):
        return kind is kinds.MetadataIndex or super().hashable(kind)

    def outside(self, key):
        raise PickleError(f"a storage {shown(key)} in metadata")


def _form(value):
    if type(value) is not int or value not in kinds._MEM_FORMAT_ENCODING._value2member_map_:
        raise PickleError(f"a memory format {shown(value)}")
    return kinds._MEM_FORMAT_ENCODING(value)


def _set(target, state):
    kind = type(target)
    if kind is kinds.TensorProperties:
        if not isinstance(state, tuple) or len(state) != len(_TUPLE) or not all(map(isinstance, state, _TUPLE)):
            raise PickleError(f"the properties {shown(state)}")
        return target.__setstate__(state)
    fits = isinstance(state, dict) and (_is_index(state) if kind is kinds.MetadataIndex else all(
        isinstance(state.get(name), wanted) for name, wanted in _CLASSES[kind].items()))
    if not fits:
        raise PickleError(f"a {kind.__name__} of {shown(state)}")
    target.__dict__.update(state)


def write_metadata(metadata, file):
    """Writes a Metadata in the form that PyTorch reads. TypeError: a planner's data are no plain data."""
    collector = Collector()
    file.write(Writer(collector.special).dump(metadata))
    if collector.storages:
        raise TypeError("save: planner_data has tensors; a checkpoint's metadata are numbers, texts and containers")


def read_metadata(data, name):
    """The Metadata in the bytes of the file called `name`. Nothing that a file names is run or imported."""
    loader = _MetadataLoader(data, name)
    try:
        found = loader.reader(data).load()
    except PickleError as error:
        kind = UnpicklingError if isinstance(error, Refused) else RuntimeError
        raise kind(f"load: {name}: {error}") from error.__cause__
    if not isinstance(found, kinds.Metadata):
        raise RuntimeError(f"load: {name} has {shown(found)}, expected the metadata of a checkpoint")
    _check_places(found, name)
    return found


def _check_places(found, name):
    """Places are files of the checkpoint's own folder, and chunks are chunks."""
    for stored in found.state_dict_metadata.values():
        chunks = stored.chunks if isinstance(stored, kinds.TensorStorageMetadata) else []
        if not isinstance(stored, kinds.STORAGE_TYPES) or not all(
                isinstance(c, kinds.ChunkStorageMetadata) and len(c.offsets) == len(c.sizes) == len(stored.size)
                and min((*c.offsets, *c.sizes), default=0) >= 0 for c in chunks):
            raise RuntimeError(f"load: {name}: the chunks of a tensor are damaged")
    for key, place in (found.storage_data or {}).items():
        if not isinstance(key, kinds.MetadataIndex) or not isinstance(place, _StorageInfo) or min(
                place.offset, place.length) < 0 or place.leaves_folder():
            raise RuntimeError(f"load: {name}: {shown(key)} lies at {shown(place)}, expected a place in a file of the "
                               "same folder")
