"""The libraries beside the extension: oneDNN in the package itself, LAPACK from the package that brings it."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

from flambeau import _C, _libraries


def mapped_libraries():
    code = "import flambeau; print(open('/proc/self/maps').read())"
    maps = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    return {line.split()[-1] for line in maps.splitlines() if "libdnnl" in line}


@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="needs /proc")
def test_onednn_is_the_package_s_own_copy():
    """Installed, editable or not, it lies beside the extension, with its licence; in place, in the build folder."""
    extension = Path(_C.__file__).parent
    for path in map(Path, mapped_libraries()):
        if path.parent == extension:
            assert (extension / "licenses/oneDNN/LICENSE").is_file()
        else:
            assert path.parent.name == "onednn" and not (extension / path.name).exists()


def test_files_of_packages_are_found_by_name():
    """In the packages' order, by the whole name; packages that are not there are passed over."""
    found = list(_libraries.in_packages(("no such package", "pytest", "numpy"), r"__init__\.py"))
    assert found and all(Path(path).is_file() and Path(path).name == "__init__.py" for path in found)
    packages = ("_pytest", "pytest", "numpy")
    folders = [next(part for part in Path(path).parts[::-1] if part in packages) for path in found]
    assert folders.index("numpy") > folders.index("pytest") and folders[-1] == "numpy"
    assert list(_libraries.in_packages(("numpy",), r"init")) == []


def test_lapack_is_found():
    assert Path(_libraries.find_lapack()).is_file()


def test_without_lapack_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ImportError, match="pip install scipy-openblas32"):
        _libraries.find_lapack()
