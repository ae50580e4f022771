"""Finds libraries that the extension does not link to, in the packages that bring them, when they are first wanted."""

import os
import re
from functools import cache


def in_packages(packages, pattern):
    """The paths of the files of installed packages whose names match a pattern as a whole, in the packages' order."""
    import importlib.metadata  # takes as long to load as everything else that `import flambeau` needs

    for package in packages:
        try:
            files = importlib.metadata.files(package) or ()
        except importlib.metadata.PackageNotFoundError:
            continue
        yield from (str(file.locate()) for file in files if re.fullmatch(pattern, file.name))


#: NVIDIA's libraries: name -> (the packages that bring it, names of its file with a version this is written for); those
#: of CUDA 13 first
NVIDIA = {
    "cublaslt": (("nvidia-cublas", "nvidia-cublas-cu12"), ("libcublasLt.so.13", "libcublasLt.so.12")),
    "cublas": (("nvidia-cublas", "nvidia-cublas-cu12"), ("libcublas.so.13", "libcublas.so.12")),
    "cudnn": (("nvidia-cudnn-cu13", "nvidia-cudnn-cu12"), ("libcudnn.so.9",)),
    "cufft": (("nvidia-cufft", "nvidia-cufft-cu12"), ("libcufft.so.12", "libcufft.so.11")),
    "cusolver": (("nvidia-cusolver", "nvidia-cusolver-cu12"), ("libcusolver.so.12", "libcusolver.so.11")),
}
#: the packages that bring NVRTC
NVRTC_PACKAGES = ("nvidia-cuda-nvrtc", "nvidia-cuda-nvrtc-cu12")


#: the packages that bring NCCL, the first of which there is
NCCL_PACKAGES = ("nvidia-nccl-cu13", "nvidia-nccl-cu12")


def nvidia_library(name):
    """The path of one of NVIDIA's libraries, in its package or by name on the system; None where it is not.

    FLAMBEAU_CUDA_LIBRARIES names a folder that is looked through instead. A test's driver, which
    FLAMBEAU_CUDA_DRIVER names, knows no other libraries than those.
    """
    import ctypes

    packages, files = NVIDIA[name]
    folder = os.environ.get("FLAMBEAU_CUDA_LIBRARIES")
    if folder or os.environ.get("FLAMBEAU_CUDA_DRIVER"):
        found = [os.path.join(folder, file) for file in files] if folder else []
        return next(filter(os.path.exists, found), None)
    for path in (*in_packages(packages, "|".join(map(re.escape, files))), *files):
        try:
            ctypes.CDLL(path)
        except OSError:
            continue
        return path
    return None


#: how NVIDIA's libraries are used (_C._cuda.library_switches): switch -> (its bit, whether it is on unless set
#: otherwise)
SWITCHES = {name: (1 << k, on) for k, (name, on) in enumerate({
    "matmul_tf32": False, "conv_tf32": True, "rnn_tf32": True, "cudnn": True, "benchmark": False,
    "deterministic": False, "float16_reduced": True, "bfloat16_reduced": True, "float16_accumulation": False,
    "only_deterministic": False}.items())}
#: those that keep recurrent layers from cuDNN where they are not as usual
NO_RECURRENT = sum(SWITCHES[name][0] for name in ("cudnn", "deterministic", "only_deterministic"))


@cache
def cudnn_library():
    """Whether cuDNN is there."""
    return nvidia_library("cublaslt") is not None and nvidia_library("cudnn") is not None


def find_lapack():
    """The path of the LAPACK library, asked for by the first decomposition."""
    import importlib.util
    from pathlib import Path

    spec = importlib.util.find_spec("scipy_openblas32")
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        for path in sorted(Path(folder, "lib").glob("libscipy_openblas*.so")):
            return str(path)
    raise ImportError("flambeau.linalg needs LAPACK, which the package scipy-openblas32 brings: "
                      "pip install scipy-openblas32")
