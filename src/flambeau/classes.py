"""Classes of compiled extensions: there are none, since extensions are written against PyTorch's C++ interface."""

loaded_libraries = set()


def load_library(path):
    """OSError: see `ops.load_library`."""
    raise OSError(f"classes.load_library: {path} is compiled against PyTorch's C++ interface, which is not here")
