"""Tensor methods by which other libraries and processes reach a tensor's memory: NumPy, DLPack, shared memory."""

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
    np = importlib.import_module("numpy")  # only here, so that importing flambeau does not load NumPy
    if force:
        self = self.detach().resolve_conj().resolve_neg()
    if self.requires_grad and _C.is_grad_enabled():
        raise RuntimeError("numpy: this tensor requires grad, and a NumPy array would lose its history; call "
                           "x.detach().numpy()")
    if self.is_conj() or self.is_neg():
        raise RuntimeError("numpy: this tensor's memory holds the conjugate or the negative of its values; call "
                           "x.resolve_conj().resolve_neg().numpy(), which copies, or numpy(force=True)")
    if self.is_meta:
        raise TypeError("can't convert meta device type tensor to numpy: it has no data")
    if _C.level_of(self):
        raise RuntimeError("numpy(): a tensor inside a transform (vmap, jvp …) has no values of its own there")
    if self.dtype is _C.bfloat16 and force:
        self = self.float()
    if type(self).__dict__.get("__torch_dispatch__") is not None and not self._storage_ptr():
        raise RuntimeError(f"numpy: a {type(self).__name__} holds no memory of its own that an array could share; "
                           "convert the tensors it wraps")
    try:
        return np.asarray(memoryview(self))
    except BufferError as error:
        raise TypeError(f"numpy(): got unsupported type {self.dtype}: {error}") from None


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
