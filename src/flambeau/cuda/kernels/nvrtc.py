"""CUDA C++ text to machine code by NVRTC, called through ctypes: no GPU, driver or toolkit is needed."""

import ctypes
from functools import cache
from pathlib import Path

from ..._libraries import NVRTC_PACKAGES, in_packages

_SONAMES = ("libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so")


class NvrtcMissing(ImportError):
    """There is no NVRTC on this machine."""


@cache
def library():
    """The loaded library, from NVIDIA's wheel or the system. Raises NvrtcMissing."""
    for path in (*in_packages(NVRTC_PACKAGES, r"libnvrtc\.so\.\d+"), *_SONAMES):
        try:
            if "/" in path:  # what it opens itself by name, and does not look for in its own folder
                for beside in Path(path).parent.glob("libnvrtc-builtins.so.*"):
                    ctypes.CDLL(str(beside))
            found = ctypes.CDLL(path)
        except OSError:
            continue
        found.nvrtcGetErrorString.restype = ctypes.c_char_p
        return found
    raise NvrtcMissing("kernels for CUDA are compiled by NVRTC, which is not on this machine: "
                       "pip install nvidia-cuda-nvrtc-cu12 (part of flambeau[cuda])")


def found():
    """Whether there is an NVRTC on this machine."""
    try:
        library()
    except NvrtcMissing:
        return False
    return True


@cache
def version():
    """(major, minor) of the library."""
    major, minor = ctypes.c_int(), ctypes.c_int()
    library().nvrtcVersion(ctypes.byref(major), ctypes.byref(minor))
    return major.value, minor.value


def _text(program, size_of, text_of):
    size = ctypes.c_size_t()
    getattr(library(), size_of)(program, ctypes.byref(size))
    text = ctypes.create_string_buffer(size.value)
    getattr(library(), text_of)(program, text)
    return text.raw


def _own_options():
    """What our own kernels are compiled with: without CUDA's textures and runtime, of which they use nothing."""
    return ("--minimal",) if version() >= (12, 4) else ()


def build(source, arch, name="", options=None, ptx=False):
    """The cubin of `source` for `arch` ("sm_90"), or its PTX; what NVRTC says about an error is in the exception.
    options: of a text that is not our own."""
    nvrtc, program = library(), ctypes.c_void_p()
    options = _own_options() if options is None else options
    nvrtc.nvrtcCreateProgram(ctypes.byref(program), source.encode(), b"flambeau.cu", 0, None, None)
    try:
        flags = [f"--gpu-architecture={arch.replace('sm_', 'compute_') if ptx else arch}",
                 "--device-as-default-execution-space", *options]
        if not any(option.lstrip("-").startswith("std") for option in options):
            flags.append("--std=c++17")
        array = (ctypes.c_char_p * len(flags))(*map(str.encode, flags))
        status = nvrtc.nvrtcCompileProgram(program, len(flags), array)
        if status:
            log = _text(program, "nvrtcGetProgramLogSize", "nvrtcGetProgramLog").rstrip(b"\0").decode(errors="replace")
            raise RuntimeError(f"{name or 'a kernel'}: NVRTC {'.'.join(map(str, version()))} refused the kernel's text "
                               f"for {arch} ({nvrtc.nvrtcGetErrorString(status).decode()}):\n{log.strip()}")
        if ptx:
            return _text(program, "nvrtcGetPTXSize", "nvrtcGetPTX").rstrip(b"\0")
        return _text(program, "nvrtcGetCUBINSize", "nvrtcGetCUBIN")
    finally:
        nvrtc.nvrtcDestroyProgram(ctypes.byref(program))
