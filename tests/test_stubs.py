"""The type stubs say what the operator records say."""

import importlib.util
import re
from pathlib import Path

import pytest

import flambeau

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="module")
def make_stubs():
    spec = importlib.util.spec_from_file_location("make_stubs", ROOT / "tools" / "make_stubs.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_stubs_match_the_records(make_stubs):
    """Written anew by `python tools/make_stubs.py` whenever a record changes."""
    assert (ROOT / "src/flambeau/_C.pyi").read_text() == make_stubs.extension_stub()
    assert (ROOT / "src/flambeau/__init__.pyi").read_text() == make_stubs.package_stub()


def test_every_public_name_has_a_stub(make_stubs):
    text = make_stubs.package_stub()
    named = set(re.findall(r"^(?:def |class )?(\w+)\b", text, re.M)) | set(re.findall(r"\bas (\w+)", text))
    missing = [n for n in dir(flambeau) if not n.startswith("_") and n not in named]
    assert not missing


def test_varargs_forms_are_offered(make_stubs):
    assert "def view(self, *size: builtins.int) -> Tensor: ..." in make_stubs.extension_stub()
