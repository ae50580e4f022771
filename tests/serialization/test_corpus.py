"""The inputs that coverage-guided fuzzing has found: each ends in a value or a RuntimeError, soon.

`corpus.zip` holds PARSER/NAME; to fuzz on, unpack it and give its folders to `fuzz_load.py`.
"""

import zipfile

import pytest

from .conftest import HERE
from .fuzz_load import PARSERS

LEAST = {"pickle": 300, "zip": 30, "legacy": 200, "npy": 6, "safetensors": 150}


@pytest.mark.parametrize("parser", PARSERS)
def test_inputs_found_by_fuzzing(parser):
    if parser == "safetensors":
        pytest.importorskip("safetensors", reason="safetensors is not installed")
    with zipfile.ZipFile(HERE / "corpus.zip") as corpus:
        names = [name for name in corpus.namelist() if name.startswith(parser + "/")]
        assert len(names) >= LEAST[parser], "the corpus has been lost"
        for name in names:
            PARSERS[parser](corpus.read(name))
