"""Kernels compiled for the CPU by g++ from the text that NVRTC gets, and run there: numbers without a GPU.

An image is the bytes of a shared object behind the mark "EMU0". For each kernel NAME it exports
`emu_NAME(const unsigned grid[3], const unsigned block[3], unsigned shared, void** params)`, and the sizes of these
parameters.
"""

import contextlib
import ctypes
import hashlib
import os
import re
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path

import pytest

from flambeau.cuda.kernels import compiling

MARK = b"EMU0"
_HERE = Path(__file__).parent
_TEXTS = [_HERE / name for name in ("shim.h", "halves.h", "threads.h", "threads.cpp")]
_LIBRARY = "threads.so"
_FLAGS = ["-std=c++20", "-O1", "-fwrapv", "-fPIC", "-shared", "-w", "-fno-strict-aliasing"]


@cache
def _folder():
    """Where threads.cpp lies as a library, and shim.h compiled beforehand."""
    folder = compiling.folder().parent / f"emulate-{build.version[:16]}"
    if not folder.exists():
        folder.parent.mkdir(parents=True, exist_ok=True)
        flags = [f for f in _FLAGS if f != "-shared"]
        with tempfile.TemporaryDirectory(dir=folder.parent) as inner:
            made = Path(inner, "made")
            made.mkdir()
            for path in _TEXTS:
                shutil.copy(path, made)
            subprocess.run(["g++", *_FLAGS, "-Wl,--no-as-needed", "-lm", str(made / "threads.cpp"), "-o",
                            str(made / _LIBRARY)], check=True)
            subprocess.run(["g++", *flags, "-x", "c++-header", str(made / "shim.h")], check=True)
            with contextlib.suppress(OSError):  # another process was faster
                made.rename(folder)
    return folder


def build(source, name=""):
    """The image of CUDA text for the CPU; what the compiler says about an error is in the exception."""
    if not shutil.which("g++"):
        pytest.skip("no compiler")
    kernels = re.findall(r'extern "C" __global__ void (?:__launch_bounds__\([^)]*\) )?(\w+)\(', source)
    source = re.sub(r"(?=// --- conversion between any two types)", '#include "halves.h"\n', source, count=1)
    whole = '#include "shim.h"\n' + source + "".join(f"\nEMULATED({k})" for k in kernels) + "\n"
    with tempfile.TemporaryDirectory() as folder:
        out = os.path.join(folder, "k.so")
        files = ["-x", "c++", "-", "-x", "none", str(_folder() / _LIBRARY), "-lgcc", "-o", out]
        done = subprocess.run(["g++", *_FLAGS, "-nostdlib", "-I", str(_folder()), *files], input=whole.encode(),
                              capture_output=True)
        if done.returncode:
            raise RuntimeError(f"{name}: g++ refused the kernel's text:\n{done.stderr.decode(errors='replace')[:6000]}")
        return MARK + Path(out).read_bytes()


build.version = hashlib.sha256(b"".join(p.read_bytes() for p in _TEXTS) + repr(_FLAGS).encode()).hexdigest()
compiling.builders["emulate"] = build


@cache
def module(image):
    """The loaded shared object of an image."""
    assert image[:4] == MARK
    file = os.memfd_create("kernel")
    os.write(file, image[4:])
    return ctypes.CDLL(f"/proc/self/fd/{file}")


def launch(image, function, grid, block, params):
    """Runs a kernel; params are ctypes values (structs included), each passed by its address."""
    grid, block = (ctypes.c_uint * 3)(*grid), (ctypes.c_uint * 3)(*block)
    pointers = (ctypes.c_void_p * max(len(params), 1))(*(ctypes.addressof(p) for p in params))
    getattr(module(image), "emu_" + function)(grid, block, 0, pointers)
