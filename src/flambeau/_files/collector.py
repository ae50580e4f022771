"""Tensors on their way into a file: each becomes a reference to a numbered storage."""

import enum
import importlib
from collections import OrderedDict

import flambeau

from .. import _C
from . import quantized
from .loader import DTYPES, LAYOUTS, STORAGES
from .objects import reduced
from .pickle_writer import Global, Persistent, Reduce
from .placing import tag_of

#: attributes of sparse, quantized and nested tensors that are their contents
SPARSE_PARTS = ("_pattern", "_held", "_codes", "_quantizer", "_form")
_STORAGE_OF = {name: storage for storage, name in STORAGES.items()}


def _dtype_name(dtype):
    return str(dtype).rpartition(".")[2]


class Collector:
    """Turns tensors into references to numbered storages, each kept once however many tensors share it."""

    def __init__(self, legacy=False):
        self.more = (None,) if legacy else ()  # the format before 1.6 also says which part of a storage it is
        self.types = {}     # number of a storage -> (its kind in the file, bytes of its elements)
        self.parts = {}     # id of an object -> its state and what it is made of
        self.storages = {}  # id of a storage -> (number, uint8 tensor over it)

    def special(self, obj, place):
        if isinstance(obj, flambeau.Tensor):
            return self.tensor(obj, place)
        if isinstance(obj, flambeau.Size):
            return Reduce(Global("torch", "Size"), (tuple(obj),))
        if isinstance(obj, flambeau.dtype):
            return Global("torch", _dtype_name(obj))
        if isinstance(obj, flambeau.device):
            return Reduce(Global("torch", "device"), (obj.type,) if obj.index is None else (obj.type, obj.index))
        if isinstance(obj, flambeau.layout) and str(obj) in LAYOUTS:
            return Reduce(Global("torch.serialization", "_get_layout"), (str(obj),))
        if type(obj) is flambeau.qscheme:
            return Global("torch", obj.name)
        if type(obj) is quantized.ScriptObject:
            state = obj.parts, obj.kind
            self.parts[id(obj)] = state
            return Reduce(Global("torch", "ScriptObject"), (), state=state, new=True)
        if flambeau.storage.is_storage(obj):
            return self.bare(obj, place)
        kind = type(obj)
        if isinstance(obj, flambeau.memory_format):
            raise TypeError(f"{place} is a {kind.__qualname__}, which cannot be stored as data; store a tensor")
        if isinstance(obj, (bool, int, float, str)) and kind.__module__ != "numpy" and not isinstance(obj, enum.Enum):
            return next(plain(obj) for plain in (bool, int, float, str) if isinstance(obj, plain))
        found = reduced(obj, place)
        if type(found) is Reduce:
            self.parts[id(obj)] = found.state, found.args
        return found

    def attributes(self, value):
        """What an object refers to besides its items."""
        return vars(value).values() if isinstance(value, flambeau.Tensor) else self.parts.get(id(value), ())

    def tensor(self, t, place):
        parameter = flambeau.nn.Parameter
        if hasattr(t, "_own_part"):
            raise TypeError(f"{place} is a {type(t).__qualname__}, of which this process has a part; store its "
                            "full_tensor(), or all parts with distributed.checkpoint.save")
        if type(t) is parameter or getattr(t, "_is_param", False):
            args = (self.data(t.detach(), False), t.requires_grad, OrderedDict())
            state = {name: value for name, value in t.__dict__.items() if name not in ("_is_param", *SPARSE_PARTS)}
            if state:
                return Reduce(Global("torch._utils", "_rebuild_parameter_with_state"), (*args, state))
            return Reduce(Global("torch._utils", "_rebuild_parameter"), args)
        if t.is_nested:
            return self.nested(t)
        if t.layout is not flambeau.strided:
            return self.sparse(t.detach())
        if t.is_quantized:
            return self.quantized(t)
        if type(t) is not flambeau.Tensor and not isinstance(t, getattr(flambeau.nn, "Buffer", parameter)):
            raise TypeError(f"{place} is a {type(t).__qualname__}: a Tensor subclass cannot be stored as data; "
                            "store x.as_subclass(flambeau.Tensor)")
        made = self.data(t.detach(), t.requires_grad)
        if not vars(t):
            return made
        args = (made.function, Global("torch", "Tensor"), made.args, dict(vars(t)))
        return Reduce(Global("torch._tensor", "_rebuild_from_type_v2"), args)

    def sparse(self, t):
        """The parts of a sparse tensor. As in PyTorch, the file does not keep whether it requires grad."""
        pattern = vars(t)["_pattern"]
        parts = (pattern.indices,) if pattern.plain is None else (pattern.indices, pattern.plain)
        args = [*(self.data(part, False) for part in (*parts, t._values())), flambeau.Size(t.shape)]
        if pattern.plain is None:
            args.append(pattern.coalesced)
        layout = Reduce(Global("torch.serialization", "_get_layout"), (str(t.layout),))
        return Reduce(Global("torch._utils", "_rebuild_sparse_tensor"), (layout, tuple(args)))

    def nested(self, t):
        """The values, and the tensors that say where the parts lie."""
        own = {name: value for name, value in vars(t).items() if name not in ("_is_param", *SPARSE_PARTS)}
        return importlib.import_module("flambeau._files.nested").written(t, self.data, own)

    def quantized(self, t):
        """The storage of the codes, and the scheme with its scale."""
        storage, offset, shape, strides, *_ = self.data(t._codes, False, _dtype_name(t.dtype)).args
        parts = quantized.parts_of(t)
        args = (storage, offset, shape, strides, (Global("torch", parts[0].name), *parts[1:]), False, OrderedDict())
        return Reduce(Global("torch._utils", "_rebuild_qtensor"), args)

    def data(self, t, requires_grad, name=None):
        if t.is_nested:
            return self.nested(t)
        if t.layout is not flambeau.strided:
            return self.sparse(t)
        if t.is_quantized:
            return self.quantized(t)
        name = name or _dtype_name(t.dtype)
        if name not in DTYPES:
            raise TypeError(f"a tensor of dtype {name} cannot be stored")
        shape, strides = tuple(t.shape), tuple(t.stride())
        if t.device.type == "meta":
            args = (Global("torch", name), shape, strides, requires_grad)
            return Reduce(Global("torch._utils", "_rebuild_meta_tensor_no_storage"), args)
        typed = _STORAGE_OF.get(name)
        storage, first = self.reference(t, typed, t.element_size() if typed else 1)
        args = (storage, t.storage_offset(), shape, strides, requires_grad, OrderedDict())
        bits = {key: True for key, is_set in (("conj", t.is_conj()), ("neg", t.is_neg())) if is_set}
        more = (bits,) if bits else ()
        if typed and typed == first:
            return Reduce(Global("torch._utils", "_rebuild_tensor_v2"), args + more)
        return Reduce(Global("torch._utils", "_rebuild_tensor_v3"), (*args, Global("torch", name), *more))

    def reference(self, t, typed, item):
        """The storage of t, and the kind that the file gives it: the one it was first met with."""
        number, memory = self.storages.setdefault(_C.storage_id(t), (len(self.storages), _C.storage_bytes(t).cpu()))
        first, item = self.types.setdefault(number, (typed, item))
        kind = Global("torch", first) if first else Global("torch.storage", "UntypedStorage")
        return Persistent(("storage", kind, str(number), tag_of(t), memory.numel() // item, *self.more)), first

    def bare(self, storage, place):
        """A storage by itself: elements of its dtype, or bytes."""
        if storage.device.type == "meta":
            raise TypeError(f"{place} is a storage on the meta device, which has no memory to store")
        untyped = isinstance(storage, flambeau.UntypedStorage) and not self.more  # which the old format does not know
        typed = None if untyped else _STORAGE_OF.get(_dtype_name(storage.dtype))
        made, first = self.reference(storage._owner.detach(), typed, storage.element_size() if typed else 1)
        if first != typed:
            raise RuntimeError(f"save: {place} is a storage whose memory is in the file already with another dtype; "
                               "store one of the two, or a clone() of one")
        return made
