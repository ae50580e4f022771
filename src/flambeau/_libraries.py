"""Finds the library that the extension does not link to: LAPACK, when the first decomposition needs it."""

import importlib.util
from pathlib import Path


def find_lapack():
    """The path of the LAPACK library, asked for by the first decomposition."""
    spec = importlib.util.find_spec("scipy_openblas32")
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        for path in sorted(Path(folder, "lib").glob("libscipy_openblas*.so")):
            return str(path)
    raise ImportError("flambeau.linalg needs LAPACK, which the package scipy-openblas32 brings: "
                      "pip install scipy-openblas32")
