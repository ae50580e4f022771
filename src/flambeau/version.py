"""The version, which the build reads here, and what is used beside it."""

from ._libraries import NVRTC_PACKAGES

__version__ = "0.1.0"
hip = None
xpu = None
git_version = "unknown"
debug = False


def __getattr__(name):
    if name == "cuda":  # the release of the compiler that makes CUDA's kernels, "12.9"; None where it is not installed
        from importlib import metadata  # not at the top: `import flambeau` comes here and has no use for it
        for package in NVRTC_PACKAGES:
            try:
                return ".".join(metadata.version(package).split(".")[:2])
            except metadata.PackageNotFoundError:
                continue
        return None
    raise AttributeError(f"module {__name__!r} has no attribute '{name}'")
