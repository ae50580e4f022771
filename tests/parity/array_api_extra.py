"""How far array-api-extra's tests pass with Flambeau as a backend: `python -m tests.parity.array_api_extra FOLDER`.

FOLDER is a checkout of data-apis/array-api-extra; the interpreter needs pytest, hypothesis and array-api-compat.
"""

import argparse
import importlib.util
import os
import sys
from pathlib import Path

SOURCES = Path(__file__).resolve().parents[2] / "src"
ENTRY = '    NUMPY = "numpy"\n'
#: asks for a library's own unique function, which the package calls for the libraries that it knows by name
LEFT_OUT = "tests/main/test_set.py::TestNUnique::test_delegates[flambeau]"


def add_backend():
    """One more backend in the package's list, and the default dtype that its tests expect of all libraries but
    PyTorch."""
    import flambeau
    name = "array_api_extra._lib._backends"
    spec = importlib.util.find_spec(name)
    text = Path(spec.origin).read_text(encoding="utf-8")
    assert ENTRY in text, f"{spec.origin} lists its backends in another way than this program knows"
    sys.modules[name] = module = importlib.util.module_from_spec(spec)
    exec(compile(text.replace(ENTRY, ENTRY + '    FLAMBEAU = "flambeau.array_api"\n'), spec.origin, "exec"),
         vars(module))
    flambeau.set_default_dtype(flambeau.float64)


def main():
    import pytest
    parser = argparse.ArgumentParser(prog="python -m tests.parity.array_api_extra", description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, help="a checkout of data-apis/array-api-extra")
    folder = parser.parse_args().folder.resolve()
    os.chdir(folder)
    sys.path[:] = [str(folder / "src"), str(SOURCES), *(p for p in sys.path if Path(p).resolve() != SOURCES.parent)]
    for name in [n for n in sys.modules if n.partition(".")[0] == "tests"]:  # the folder has a package of that name
        del sys.modules[name]
    add_backend()
    return pytest.main(["-q", "-p", "no:cacheprovider", "--tb=short", "-k", "flambeau", f"--deselect={LEFT_OUT}",
                        "tests/main"])


if __name__ == "__main__":
    sys.exit(main())
