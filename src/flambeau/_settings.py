"""Settings of the process and of the thread: default dtype and device, threads, precision, determinism, warnings."""

import importlib

from . import _C
from ._shown import shown
from ._tensor.methods import _type_named
from .backends import _switches

_STATE = {"precision": "highest", "warn_always": False, "interop": None}
_PRECISIONS = ("highest", "high", "medium")
_DEVICE_MODULES = {"cpu": "flambeau.cpu", "cuda": "flambeau.cuda"}


# --- what tensors are made with ---------------------------------------------------------------------------------------

def get_default_dtype():
    """The dtype of new floating-point tensors."""
    return _C.default_dtype()


def set_default_dtype(d):
    """Sets the dtype of new floating-point tensors: float32, float64, float16 or bfloat16."""
    if not isinstance(d, _C.dtype):
        raise TypeError(f"set_default_dtype: expected a floating-point dtype, got {type(d).__name__}")
    if not d.is_floating_point or d.itemsize < 2:
        raise TypeError(f"set_default_dtype: {d} cannot be the default, because it is not floating point of 16 bits or "
                        "more")
    _C.set_default_dtype(d)


def get_default_device():
    """Where tensors are made that name no device: set by set_default_device, or by `with flambeau.device(...)`.

    >>> import flambeau
    >>> with flambeau.device("meta"):
    ...     flambeau.get_default_device()
    device(type='meta')
    """
    return _C.default_device()


def set_default_device(device):
    """From now on tensors are made on `device` unless they name another; None: the CPU. Also in `with device:`.

    Memory taken over from elsewhere (from_numpy, frombuffer) and legacy constructors stay on the CPU.

    >>> import flambeau
    >>> flambeau.set_default_device("meta")
    >>> flambeau.ones(2).device
    device(type='meta')
    >>> flambeau.set_default_device(None)
    """
    _C.set_default_device("cpu" if device is None else device)


def set_default_tensor_type(t):
    """Sets the default dtype and device by a tensor type, as flambeau.DoubleTensor or "torch.cuda.FloatTensor"."""
    dtype, device = _type_named(t) if isinstance(t, str) else (
        getattr(t, "dtype", None), "cuda" if getattr(t, "is_cuda", False) else "cpu")
    if not isinstance(dtype, _C.dtype):
        raise TypeError(f"set_default_dtype: expected a floating-point dtype, got {type(dtype).__name__}")
    if device == "cuda" and not _C._cuda.available():
        raise TypeError(f"set_default_tensor_type: type {shown(t)} not available: there is no CUDA device")
    set_default_dtype(dtype)
    if device != _C.default_device().type:
        _C.set_default_device(device)


# --- numbers ----------------------------------------------------------------------------------------------------------

def get_float32_matmul_precision():
    """The precision asked for: "highest", "high" or "medium"."""
    if not _switches.get("matmul_tf32"):
        return "highest"
    return "medium" if _STATE["precision"] == "medium" else "high"


def set_float32_matmul_precision(precision):
    """How exact float32 products must be: "highest" is as exact as float32; "high" and "medium" allow TF32 on CUDA
    devices.

    On processors that multiply matrices of bfloat16 in registers (AMX), large products then take 16 bits of each factor
    ("high") or 8 ("medium"), and two to four times less time; on others "highest" is what they are in any case.

    >>> import flambeau
    >>> flambeau.set_float32_matmul_precision("high")
    >>> flambeau.get_float32_matmul_precision()
    'high'
    >>> flambeau.set_float32_matmul_precision("highest")
    """
    if precision not in _PRECISIONS:
        raise ValueError(f"set_float32_matmul_precision: expected one of {_PRECISIONS}, got {shown(precision)}")
    _STATE["precision"] = precision
    _switches.set_precision("matmul", "ieee" if precision == "highest" else "tf32")
    _switches.set_precision("cpu", {"highest": "none", "high": "tf32", "medium": "bf16"}[precision])


def set_flush_denormal(mode):
    """True: numbers too small to be normal count as zero (faster where they are many). Returns whether that works.

    >>> import flambeau
    >>> tiny = flambeau.tensor([1e-310], dtype=flambeau.float64)
    >>> flambeau.set_flush_denormal(True)
    True
    >>> (tiny * 1.0).item()
    0.0
    >>> flambeau.set_flush_denormal(False)
    True
    """
    if not isinstance(mode, bool):
        raise TypeError(f"set_flush_denormal expects a bool, but got {type(mode).__name__}")
    _C.set_flush_denormal(mode)
    return True


# --- determinism: operators give the same numbers in every run anyway; memory that nobody has written is filled -------

_mode = [False, False]  # asked for; only warnings asked for
_fills = [True]  # whether memory that nobody has written is filled then


def fill_uninitialized_memory(on=None):
    """Whether `empty` and its kind fill their results while deterministic algorithms are asked for; sets it, if given.

    Floating-point numbers are NaN then, integers the largest of their dtype, so that a program which reads what it
    has not written gives the same in every run.
    """
    if on is not None:
        _fills[0] = on
        _C.fill_unwritten(_fills[0] and _mode[0])
    return _fills[0]


def _deterministic(mode=None, warn_only=None):
    """Sets what was asked for, where given; returns it as (deterministic, warn only)."""
    if mode is not None:
        _mode[:] = mode, warn_only
        _C.fill_unwritten(_fills[0] and mode)
        _switches.put("only_deterministic", mode and not warn_only)
    return tuple(_mode)


def use_deterministic_algorithms(mode, *, warn_only=False):
    """Asks for deterministic algorithms: every operator's is on the CPU; of cuDNN's only such are taken then. `empty`
    fills its results, unless utils.deterministic.fill_uninitialized_memory is False.

    Sums of atomic additions on CUDA devices (`index_add`, `scatter_add`) are neither refused nor warned of.

    >>> import flambeau
    >>> flambeau.use_deterministic_algorithms(True)
    >>> flambeau.are_deterministic_algorithms_enabled()
    True
    >>> flambeau.use_deterministic_algorithms(False)
    """
    for name, value in (("mode", mode), ("warn_only", warn_only)):
        if not isinstance(value, bool):
            raise TypeError(f"use_deterministic_algorithms: {name} must be a bool, got {type(value).__name__}")
    _deterministic(mode, warn_only)


def are_deterministic_algorithms_enabled():
    """Whether deterministic algorithms were asked for."""
    return _mode[0]


def is_deterministic_algorithms_warn_only_enabled():
    """Whether an algorithm that is not deterministic would only warn: there is none."""
    return _mode[1]


def set_deterministic_debug_mode(debug_mode):
    """0 or "default", 1 or "warn", 2 or "error": use_deterministic_algorithms by level."""
    names = {"default": 0, "warn": 1, "error": 2}
    if not isinstance(debug_mode, (int, str)):
        raise TypeError(f"set_deterministic_debug_mode: expected a str or an int, got {type(debug_mode).__name__}")
    if isinstance(debug_mode, str):
        if debug_mode not in names:
            raise RuntimeError("set_deterministic_debug_mode: the levels are 'default', 'warn' and 'error', got "
                               f"{shown(debug_mode)}")
        debug_mode = names[debug_mode]
    if debug_mode not in (0, 1, 2):
        raise RuntimeError(f"set_deterministic_debug_mode: the levels are 0, 1 and 2, got {debug_mode}")
    _deterministic(debug_mode > 0, debug_mode == 1)


def get_deterministic_debug_mode():
    """The level: 0, 1 (warn) or 2 (error)."""
    enabled, warn_only = _deterministic()
    return 0 if not enabled else 1 if warn_only else 2


# --- threads and warnings ---------------------------------------------------------------------------------------------

def get_num_threads():
    """How many threads large operations use."""
    return _C.num_threads()


def set_num_threads(n):
    """Sets how many threads large operations use; results do not depend on it."""
    if not isinstance(n, int) or n < 1:
        raise RuntimeError(f"set_num_threads: the number of threads must be an int from 1 on, got {shown(n)}")
    _C.set_num_threads(n)


def get_num_interop_threads():
    """How many operators may run side by side when a program asks for it (`fork`): one unless set otherwise."""
    return _STATE["interop"] or 1


def set_num_interop_threads(n):
    """Sets that number, once."""
    if not isinstance(n, int) or isinstance(n, bool) or n < 1:
        raise RuntimeError(f"set_num_interop_threads: the number of threads must be an int from 1 on, got {shown(n)}")
    if _STATE["interop"] is not None:
        raise RuntimeError("set_num_interop_threads: the number is fixed once it has been set or parallel work has "
                           "begun; call it once, at the start of the program")
    _STATE["interop"] = n


def init_num_threads():
    """The threads are ready: nothing to do."""


def is_warn_always_enabled():
    """Whether warnings that are given once are given every time."""
    return _STATE["warn_always"]


def set_warn_always(b):
    """Whether warnings that are given once are given every time; here every warning always is."""
    if not isinstance(b, bool):
        raise RuntimeError(f"set_warn_always: expected a bool, got {type(b).__name__}")
    _STATE["warn_always"] = b


def compiled_with_cxx11_abi():
    """Whether the native code uses the C++11 ABI: always."""
    return True


def get_device_module(device=None):
    """The module of a device's kind: flambeau.cpu, or flambeau.cuda."""
    kind = "cpu" if device is None else _C.device(device).type
    if kind not in _DEVICE_MODULES:
        raise RuntimeError(f"get_device_module: device {shown(kind)} has no module; 'cpu' and 'cuda' have")
    return importlib.import_module(_DEVICE_MODULES[kind])
