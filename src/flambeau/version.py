"""The version, which the build reads here, and what is used beside it."""

import importlib.metadata as _metadata

__version__ = "0.1.0"
hip = None
xpu = None
git_version = "unknown"
debug = False


def __getattr__(name):
    if name == "cuda":  # the release of the compiler that makes CUDA's kernels, "12.9"; None where it is not installed
        try:
            return ".".join(_metadata.version("nvidia-cuda-nvrtc-cu12").split(".")[:2])
        except _metadata.PackageNotFoundError:
            return None
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
