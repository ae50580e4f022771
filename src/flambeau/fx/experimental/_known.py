"""What a trace of operators knows of values: which Node stands for which memory, and what its meta says of them."""

import flambeau

from ... import _C
from ..._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from ..._subclasses.symbolic_tensor import SymbolicTensor
from ..._tensor.overriding import disable_torch_dispatch
from ...ops import OPS
from ..passes.shape_prop import _extract_tensor_metadata


class Known:
    """Which Node stands for which memory: tensors that autograd makes of others (detached, saved) are those others."""

    def __init__(self):
        self._found = {}

    @staticmethod
    def _key(tensor):
        """Equal for two tensors that show the same memory in the same way."""
        if isinstance(tensor, FakeTensor):
            return id(tensor.meta)
        if tensor.layout is not _C.strided or tensor.device.type == "meta" or type(tensor) not in (
                _C.Tensor, flambeau.nn.Parameter):
            return id(tensor)
        with disable_torch_dispatch():
            return tensor.data_ptr() or id(tensor), tuple(tensor.shape), tuple(tensor.stride()), tensor.dtype

    def __setitem__(self, tensor, proxy):
        self._found[self._key(tensor)] = (tensor, proxy)  # kept alive: its memory must not become another tensor's

    def tensors(self):
        """(tensor, Proxy) of all."""
        return list(self._found.values())

    def get(self, tensor):
        """The Proxy of a tensor, or None."""
        found = self._found.get(self._key(tensor))
        return None if found is None else found[1]


def public_operator(op):
    """The operator by its public name: forms ("max.dim") are those of `max`, in-place forms their own."""
    base = OPS.get(op.name.partition(".")[0])
    return base if "." in op.name and base is not None else op


def describe(node, value):
    """Writes into meta what is known of a Node's value: "val" (shape and dtype without memory), "tensor_meta"."""
    if isinstance(value, _C.Tensor):
        node.meta["val"] = snapshot(value)
        if value.layout is _C.strided:
            node.meta["tensor_meta"] = _extract_tensor_metadata(value)
    elif isinstance(value, (tuple, list)):
        node.meta["val"] = type(value)(map(snapshot, value)) if type(value) in (tuple, list) else value
    else:
        node.meta["val"] = value
    node.meta["type"] = type(value)


def snapshot(value):
    """A tensor's shape, dtype and device without its values; anything else as it is."""
    if not isinstance(value, _C.Tensor) or value.layout is not _C.strided:
        return value
    if isinstance(value, SymbolicTensor):
        return value._again(value.meta)
    with disable_torch_dispatch():
        meta = value.meta if isinstance(value, FakeTensor) else _C.Tensor.detach(value)
        meta = meta if meta.device.type == "meta" else meta.to("meta")
        return FakeTensor(meta.detach(), value.device, _SNAPSHOTS)


_SNAPSHOTS = FakeTensorMode()
