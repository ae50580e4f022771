"""Tensor methods by which other libraries and processes reach a tensor's memory: NumPy, DLPack, shared memory."""

import functools
import importlib

from .. import _C
from .._C import Tensor
from .methods import method


@method
def numpy(self, *, force=False):
    """A NumPy array over the same memory. force=True: of detach().cpu(), copying where memory cannot be shared.

    >>> import flambeau
    >>> a = flambeau.zeros(2)
    >>> a.numpy()[0] = 7
    >>> a
    tensor([7., 0.])
    """
    if force:
        self = self.detach().resolve_conj().resolve_neg()
        if self.dtype is _C.bfloat16:
            self = self.float()
    try:
        return _numpy().asarray(memoryview(self))
    except BufferError as error:
        raise _refusal(self, error) from None


@functools.cache
def _numpy():
    """NumPy, loaded with the first array, so that importing flambeau does not load it."""
    return importlib.import_module("numpy")


def _refusal(x, error):
    """What numpy() raises where a tensor does not give its memory away."""
    if x.requires_grad and _C.is_grad_enabled():
        return RuntimeError("numpy: this tensor requires grad, and a NumPy array would lose its history; call "
                            "x.detach().numpy()")
    if x.is_conj() or x.is_neg():
        return RuntimeError("numpy: this tensor's memory holds the conjugate or the negative of its values; call "
                            "x.resolve_conj().resolve_neg().numpy(), which copies, or numpy(force=True)")
    if x.is_meta:
        return TypeError("numpy: a tensor on the meta device has a shape and no values; make it with device=\"cpu\"")
    if _C.level_of(x):
        return RuntimeError("numpy: a tensor inside a transform (vmap, jvp …) has no values of its own there")
    if type(x).__dict__.get("__torch_dispatch__") is not None and not x._storage_ptr():
        return RuntimeError(f"numpy: a {type(x).__name__} holds no memory of its own that an array could share; "
                            "convert the tensors it wraps")
    return TypeError(f"numpy: no array of {x.dtype} on {x.device} ({error}); convert or copy the tensor first")


@method
def __array__(self, dtype=None, copy=None):
    array = self.numpy()
    if dtype is not None and array.dtype != dtype:
        return array.astype(dtype)
    return array.copy() if copy else array


@method
def __array_wrap__(self, array, context=None, return_scalar=False):
    return _C.from_numpy(array)


Tensor.__array_priority__ = 1000  # NumPy leaves `array + tensor` to the tensor


# --- DLPack -----------------------------------------------------------------------------------------------------------

def _interchange():
    return importlib.import_module("flambeau._tensor.dlpack")


@method
def __dlpack__(self, *, stream=-1, max_version=None, dl_device=None, copy=None):
    """A DLPack capsule over this tensor's memory: of version 1.x where the caller's `max_version` knows it.

    >>> import flambeau, numpy
    >>> numpy.from_dlpack(flambeau.tensor([1.0, 2.0]))
    array([1., 2.], dtype=float32)
    """
    return _interchange().dlpack(self, stream, max_version, dl_device, copy)


@method
def __dlpack_device__(self):
    """(device type, device number) in DLPack's numbers."""
    return _interchange().dlpack_device(self)


def _cuda_array_interface(self):
    """The memory of a CUDA tensor as other libraries of arrays describe it (version 2)."""
    if not self.is_cuda:
        raise AttributeError(f"{self.type()} has no __cuda_array_interface__: its memory is not on a CUDA device")
    return _interchange().cuda_array_interface(self)


Tensor.__cuda_array_interface__ = property(_cuda_array_interface)
