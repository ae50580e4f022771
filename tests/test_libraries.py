"""oneDNN is found by the installer's records, or the error says what to install."""

import pytest

from flambeau import _libraries

MISSING = ImportError("libdnnl.so.3: cannot open shared object file: No such file or directory")


def test_found_by_the_records():
    assert [path.name for path in _libraries.recorded_places()][:1] == [_libraries.LIBRARY]
    _libraries.load_onednn(MISSING)


def test_not_installed(monkeypatch):
    monkeypatch.setattr(_libraries, "PACKAGES", ("no-such-package-of-that-name",))
    with pytest.raises(ImportError, match=r"pip install .*onednn-cpu-gomp"):
        _libraries.load_onednn(MISSING)


def test_other_errors_are_passed_on():
    other = ImportError("undefined symbol: something")
    with pytest.raises(ImportError) as raised:
        _libraries.load_onednn(other)
    assert raised.value is other
