"""The version, which the build reads here, and what the build used."""

__version__ = "0.1.0"
hip = None
xpu = None
git_version = "unknown"
debug = False


def __getattr__(name):
    """`cuda`: the CUDA version of the driver where there is a device, as "12.9"; else None."""
    if name != "cuda":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from . import _C  # not at the top: the build reads this file before there is one
    if not _C._cuda.available():
        return None
    number = _C._cuda.driver_version()
    return f"{number // 1000}.{number % 1000 // 10}"
