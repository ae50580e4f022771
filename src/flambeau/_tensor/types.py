"""Tensor types by dtype (FloatTensor, LongTensor, …): constructors, and classes for isinstance."""

from .. import _C
from .creation import told
from .methods import TYPE_NAMES


class TensorType(type):
    """`FloatTensor` and its like: every float32 tensor is an instance; calling one makes a tensor.

    >>> import flambeau
    >>> isinstance(flambeau.ones(2), flambeau.FloatTensor), isinstance(flambeau.ones(2), flambeau.LongTensor)
    (True, False)
    >>> flambeau.LongTensor([1, 2])
    tensor([1, 2])
    """

    def __new__(cls, name, dtype, device="cpu"):
        if isinstance(dtype, tuple):  # a class statement gives its bases here
            raise TypeError(f"{name}: {dtype[0].__name__} tells tensors by their dtype and has no subclasses; subclass "
                            "Tensor")
        module = "torch" if device == "cpu" else f"torch.{device}"
        kind = super().__new__(cls, name, (), {"__module__": module})
        kind.is_cuda, kind.is_sparse = device.startswith("cuda"), device.endswith("sparse")
        kind.dtype, kind.layout = dtype, _C.sparse_coo if kind.is_sparse else _C.strided
        kind.__doc__ = f"Tensors of dtype {dtype} on device {device}."
        return kind

    def __init__(cls, name, dtype, device="cpu"):
        """The class is complete."""

    def __instancecheck__(cls, instance):
        return isinstance(instance, _C.Tensor) and instance.dtype is cls.dtype and instance.layout is cls.layout \
            and instance.is_cuda == cls.is_cuda and not instance.is_meta

    def __call__(cls, *args, **kwargs):
        if cls.is_cuda and not _C._cuda.available():
            raise TypeError(f"type {cls.__module__}.{cls.__name__} not available: there is no CUDA device")
        return cls._make(*args, **kwargs)

    def _make(cls, *args, **kwargs):
        """A tensor of this type, whose device is there."""
        if not cls.is_cuda:
            return told(_C._legacy_tensor(cls.dtype, args, kwargs))
        there = tuple(a.cpu() if isinstance(a, _C.Tensor) else a for a in args)
        return _C._legacy_tensor(cls.dtype, there, kwargs).to("cuda")


#: "FloatTensor" -> its class
TYPES = {name: TensorType(name, dtype) for dtype, name in TYPE_NAMES.items() if not name.startswith("UInt")}
CUDA_TYPES = {name: TensorType(name, kind.dtype, "cuda") for name, kind in TYPES.items()}
globals().update(TYPES)
