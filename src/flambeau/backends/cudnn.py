"""cuDNN: whether it is there, and switches of what it computes on CUDA devices."""

import ctypes
import sys
from contextlib import contextmanager

from .. import _C
from .._libraries import nvidia_library
from . import _switches

benchmark_limit = 10
depthwise_kernel = "auto"
conv, rnn = _switches.Precision("conv"), _switches.Precision("rnn")


def is_available():
    """Whether there is a CUDA device, and cuDNN for it."""
    return _C._cuda.available() and nvidia_library("cudnn") is not None


def version():
    """The version in use, as 90100 for 9.1.0; None where there is none."""
    path = nvidia_library("cudnn")
    if path is None:
        return None
    asked = ctypes.CDLL(path).cudnnGetVersion
    asked.restype = ctypes.c_size_t
    return asked()


def is_acceptable(tensor):
    """Whether cuDNN computes with this tensor: on CUDA, of a dtype it has, where it is there and not turned off."""
    return (tensor.is_cuda and tensor.dtype in (_C.float16, _C.float32, _C.float64, _C.bfloat16)
            and is_available() and _switches.get("cudnn"))


@contextmanager
def flags(enabled=False, benchmark=False, benchmark_limit=10, deterministic=False, allow_tf32=True,
          fp32_precision="none", depthwise_kernel="auto"):
    """Context in which the switches have these values.

    >>> import flambeau
    >>> with flambeau.backends.cudnn.flags(deterministic=True):
    ...     flambeau.backends.cudnn.deterministic
    True
    """
    inside = {"enabled": enabled, "benchmark": benchmark, "benchmark_limit": benchmark_limit,
              "deterministic": deterministic, "depthwise_kernel": depthwise_kernel}
    module = sys.modules[__name__]
    with _switches.restored(module, inside):
        with _switches.thawed():
            for name, value in inside.items():
                setattr(module, name, value)
            module.fp32_precision = fp32_precision if fp32_precision != "none" else "tf32" if allow_tf32 else "none"
        yield


class _Switches(_switches.Module):
    enabled = _switches.switch("cudnn", "Whether cuDNN is used at all.")
    benchmark = _switches.switch("benchmark", "Whether the first call of a shape times the algorithms and keeps the "
                                              "fastest of `benchmark_limit`.")
    deterministic = _switches.switch("deterministic", "Whether only algorithms are used that give the same numbers in "
                                                      "every run.")
    fp32_precision = property(lambda self: _switches.precision("cudnn"),
                              lambda self, value: _switches.set_precision("cudnn", value))

    @property
    def allow_tf32(self):
        """Whether float32 convolutions and recurrent layers may compute in TF32."""
        return _switches.get("conv_tf32") and _switches.get("rnn_tf32")

    @allow_tf32.setter
    def allow_tf32(self, value):
        for part in ("conv", "rnn"):
            _switches.set_precision(part, "tf32" if value else "none")


sys.modules[__name__].__class__ = _Switches
