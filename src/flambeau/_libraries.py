"""Finds libraries that the extension does not link to, in the packages that bring them, when they are first wanted."""

import importlib.metadata
import importlib.util
import re
from pathlib import Path


def in_packages(packages, pattern):
    """The paths of the files of installed packages whose names match a pattern as a whole, in the packages' order."""
    for package in packages:
        try:
            files = importlib.metadata.files(package) or ()
        except importlib.metadata.PackageNotFoundError:
            continue
        yield from (str(file.locate()) for file in files if re.fullmatch(pattern, file.name))


def find_lapack():
    """The path of the LAPACK library, asked for by the first decomposition."""
    spec = importlib.util.find_spec("scipy_openblas32")
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        for path in sorted(Path(folder, "lib").glob("libscipy_openblas*.so")):
            return str(path)
    raise ImportError("flambeau.linalg needs LAPACK, which the package scipy-openblas32 brings: "
                      "pip install scipy-openblas32")
