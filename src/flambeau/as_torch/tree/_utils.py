"""torch._utils: helpers that packages take from there."""

import importlib
import sys
import traceback
from types import ModuleType

import flambeau

from ... import _C
from ..._shown import shown
from ...nn.parameter import _rebuild_parameter as _rebuild_parameter
from ...nn.utils.convert_parameters import parameters_to_vector as _flatten_all


class ExceptionWrapper:
    """An exception and its traceback as text, to be raised in another thread or process.

    >>> from flambeau.as_torch.tree._utils import ExceptionWrapper
    >>> try:
    ...     1 / 0
    ... except ZeroDivisionError:
    ...     kept = ExceptionWrapper(where="in worker 3")
    >>> kept.where
    'in worker 3'
    """

    def __init__(self, exc_info=None, where="in background"):
        kind, value, trace = exc_info or sys.exc_info()
        self.exc_type, self.where = kind, where
        self.exc_msg = "".join(traceback.format_exception(kind, value, trace))

    def reraise(self):
        """Raises an exception of that type whose message tells where it came from."""
        message = f"{self.exc_type.__name__} {self.where}, which raised:\n{self.exc_msg}"
        try:
            error = self.exc_type(message)
        except TypeError:  # it wants other arguments
            error = RuntimeError(message)
        raise error from None


def _flatten_dense_tensors(tensors):
    """The elements of all tensors in one dimension."""
    return _flatten_all(tensors)


def _unflatten_dense_tensors(flat, tensors):
    """Views of `flat` shaped as these tensors, one after another."""
    parts = flat.split([t.numel() for t in tensors])
    return tuple(part.view_as(t) for part, t in zip(parts, tensors))


def _get_device_index(device, optional=False, allow_cpu=False):
    """The number of a device: -1 for a CPU where that is allowed."""
    device = _C.device(device) if isinstance(device, str) else device
    if isinstance(device, int):
        return device
    if device is None and optional:
        return 0
    if getattr(device, "type", None) == "cpu" and allow_cpu:
        return -1
    raise ValueError(f"_get_device_index: expected a device with a number, got {shown(device)}")


def _get_available_device_type():
    """The kind of accelerator of this machine: none that this build can use."""
    return None


def _get_device_module(device_type):
    """The module of a kind of device, as torch.cuda.

    >>> from flambeau.as_torch.tree._utils import _get_device_module
    >>> _get_device_module("cpu").__name__
    'flambeau.cpu'
    """
    module = getattr(flambeau, device_type, None)
    if not isinstance(module, ModuleType):
        raise RuntimeError(f"_get_device_module: there is no module for devices of kind {shown(device_type)}")
    return module


def _element_size(dtype):
    """Bytes of one element."""
    return dtype.itemsize


def _import_dotted_name(name):
    """What a name such as "torch.float32" stands for: the first part is imported, the others are attributes."""
    first, *rest = name.split(".")
    found = importlib.import_module(first)
    for part in rest:
        found = getattr(found, part)
    return found


def _get_all_device_indices():
    """The numbers of all devices of the accelerator: None where there is none."""


def _rebuild_tensor(storage, storage_offset, size, stride):
    """A tensor of the storage's dtype over its memory."""
    empty = flambeau.empty(0, dtype=getattr(storage, "dtype", _C.uint8))
    return empty.set_(storage, storage_offset, size, stride)


def _rebuild_tensor_v2(storage, storage_offset, size, stride, requires_grad, backward_hooks, metadata=None):
    """A tensor over a storage's memory with its hooks, as files of tensors describe it."""
    tensor = _rebuild_tensor(storage, storage_offset, size, stride)
    metadata = dict(metadata or {})
    tensor = tensor.conj() if metadata.pop("conj", False) else tensor
    tensor = tensor._neg_view() if metadata.pop("neg", False) else tensor
    if metadata:
        raise NotImplementedError(f"_rebuild_tensor_v2: metadata {shown(metadata)} is not understood; load the file "
                                  "with flambeau.load")
    tensor.requires_grad_(requires_grad)
    for hook in (backward_hooks or {}).values():
        tensor.register_hook(hook)
    return tensor


def _rebuild_parameter_with_state(data, requires_grad, backward_hooks, state):
    """A parameter with attributes of its own."""
    return _rebuild_parameter(data, requires_grad, backward_hooks, state)
