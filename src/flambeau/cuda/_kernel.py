"""Kernels that a program writes itself in CUDA C++: compiled by NVRTC, launched on tensors."""

import ctypes
import importlib
import itertools
import os
from functools import cache
from pathlib import Path

from .. import _C
from .._libraries import in_packages
from .._shown import shown
from ._devices import device, index_of, need
from ._plans import arch_of, loaded
from .streams import stream as on_stream

_HEADERS = ("nvidia-cuda-runtime", "nvidia-cuda-runtime-cu12", "nvidia-cuda-runtime-cu13")


def _compiling():
    return importlib.import_module("flambeau.cuda.kernels.compiling")


@cache
def _headers():
    """Folders with CUDA's own headers, as far as they are installed: of CUDA_HOME, and of NVIDIA's wheels."""
    homes = (os.environ.get(name) for name in ("CUDA_HOME", "CUDA_PATH"))
    named = (Path(home, "include") for home in homes if home)
    found = itertools.chain(named, (Path(file).parent for file in in_packages(_HEADERS, r"cuda_fp16\.h")))
    return tuple(str(folder) for folder in found if folder.is_dir())


class _Kernel:
    """A compiled kernel: a call launches it. What it is given is not checked against its parameters."""

    def __init__(self, name, images):
        self.__name__, self._images, self._shared = name, images, 0

    def set_shared_memory_config(self, shared_mem_bytes):
        """How much dynamic shared memory launches may ask for; more than 48 KB has to be said."""
        self._shared = int(shared_mem_bytes)

    def __call__(self, grid=(1, 1, 1), block=(1, 1, 1), args=None, shared_mem=0, stream=None):
        """Launches it. args: tensors of the device or in pinned memory, which are passed by their addresses; integers,
        which are `int`; numbers with a fraction, which are `double`; and values of ctypes, for every other type."""
        where = index_of(None) if stream is None else stream.device_index
        handle = loaded(where, self._images(where), self.__name__, max(self._shared, shared_mem))
        given = [_given(value, k, where, self.__name__) for k, value in enumerate(args or ())]
        with device(where), on_stream(stream):
            _C._cuda.launch(self.__name__, where, handle, _triple(grid, "grid"), _triple(block, "block"), shared_mem,
                            *given)

    def __repr__(self):
        return f"<CUDA kernel {self.__name__}>"


def _triple(sizes, what):
    sizes = (sizes,) if isinstance(sizes, int) else tuple(sizes)
    if not 0 < len(sizes) <= 3 or not all(isinstance(n, int) and n > 0 for n in sizes):
        raise ValueError(f"expected up to 3 positive integers as {what}, got {shown(sizes)}")
    return sizes + (1,) * (3 - len(sizes))


def _given(value, k, where, name):
    """A tensor, or the bytes of a number."""
    if isinstance(value, _C.Tensor):
        if value.is_cuda and value.device.index != where:
            raise ValueError(f"{name}: argument {k} is on {value.device}, and the kernel is launched on cuda:{where}")
        if not value.is_cuda and not (value.device.type == "cpu" and value.is_pinned()):
            raise ValueError(f"{name}: argument {k} is a tensor on {value.device}; expected one on cuda:{where}, or in "
                             "pinned memory (x.pin_memory())")
        return value
    if isinstance(value, int):
        if not -2**31 <= value < 2**31:
            raise OverflowError(f"{name}: argument {k}, {value}, is no `int` of 32 bits; for another type pass "
                                "ctypes.c_int64(...) or what it is")
        return bytes(ctypes.c_int(value))
    if isinstance(value, float):
        return bytes(ctypes.c_double(value))
    if isinstance(value, (ctypes._SimpleCData, ctypes.Structure, ctypes.Array)):
        return bytes(value)
    raise TypeError(f"{name}: argument {k} is {shown(value)}; expected a tensor, an integer, a float or a value of "
                    "ctypes")


def _compile_kernel(kernel_source, kernel_name, compute_capability=None, cuda_include_dirs=None, nvcc_options=None):
    """A kernel by its text, to be called as `kernel(grid=(4, 1, 1), block=(256, 1, 1), args=[x, y, n])`.

    The kernel is declared `extern "C" __global__`. compute_capability ("90"): for which GPU it is compiled; by default
    for the one it is launched on. cuda_include_dirs: folders with headers, beside CUDA's own where these are installed.
    nvcc_options: options of NVRTC. Raises RuntimeError with the compiler's words where it refuses the text.
    """
    need("_compile_kernel")
    if kernel_name not in kernel_source:
        raise ValueError(f"_compile_kernel: the text has no kernel {shown(kernel_name)}")
    folders = tuple(map(os.fspath, cuda_include_dirs or ()))
    options = (*(nvcc_options or ()), *(f"-I{folder}" for folder in (*folders, *_headers())))

    @cache
    def image(where):
        arch = arch_of(where) if compute_capability is None else f"sm_{compute_capability}".replace(".", "")
        # headers of the program's own may change: then nothing is kept on disk
        make = _compiling().build if folders else _compiling().compile
        return make(kernel_source, arch, kernel_name, options)

    image(index_of(None))
    return _Kernel(kernel_name, image)


_SLEEP = """extern "C" __global__ void wait_cycles(long long cycles) {
  const long long begin = clock64();
  while (clock64() - begin < cycles) {}
}
"""


@cache
def _sleeper(where):
    return loaded(where, _compiling().compile(_SLEEP, arch_of(where), "_sleep"), "wait_cycles")


def _sleep(cycles):
    """Keeps the current stream busy for that many cycles of the device's clock: work for tests of streams."""
    need("_sleep")
    where = index_of(None)
    _C._cuda.launch("_sleep", where, _sleeper(where), (1, 1, 1), (1, 1, 1), 0, bytes(ctypes.c_longlong(cycles)))
