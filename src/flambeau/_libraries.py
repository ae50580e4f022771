"""Finds the libraries that the extension does not link to: oneDNN in an unusual place, LAPACK when it is first needed.

The oneDNN wheel puts `libdnnl.so.3` into the environment's `lib` folder, and `_C` looks there by a path relative to
itself. In an unusual layout (`pip install --target`, a development build moved elsewhere) the installer's records
still know the place; loading the library from there first is enough, since the linker then finds it by its name.
"""

import ctypes
import importlib.metadata
import importlib.util
from pathlib import Path

LIBRARY = "libdnnl.so.3"
PACKAGES = ("onednn-cpu-gomp", "onednn-devel-cpu-gomp")


def load_onednn(error):
    """After `import _C` failed with `error`: load oneDNN by its recorded place, or say what to install."""
    if "libdnnl" not in str(error):
        raise error
    for path in recorded_places():
        try:
            ctypes.CDLL(str(path), mode=ctypes.RTLD_GLOBAL)
            return
        except OSError:
            continue
    raise ImportError(f"flambeau needs oneDNN ({LIBRARY}), which is not where it was when flambeau was installed: "
                      "pip install --force-reinstall onednn-cpu-gomp") from error


def recorded_places():
    """Existing files of that name that the installer recorded."""
    for package in PACKAGES:
        try:
            files = importlib.metadata.files(package) or ()
        except importlib.metadata.PackageNotFoundError:
            continue
        for file in files:
            if file.name == LIBRARY:
                path = file.locate()
                if path.is_file():
                    yield path


def find_lapack():
    """The path of the LAPACK library, asked for by the first decomposition."""
    spec = importlib.util.find_spec("scipy_openblas32")
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        for path in sorted(Path(folder, "lib").glob("libscipy_openblas*.so")):
            return str(path)
    raise ImportError("flambeau.linalg needs LAPACK, which the package scipy-openblas32 brings: "
                      "pip install scipy-openblas32")
