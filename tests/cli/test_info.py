"""`flambeau info`, `flambeau --version`, `python -m flambeau`."""

import re

import pytest

import flambeau

from .helpers import start


def test_info_says_what_it_runs_on(run):
    code, out, _ = run("info")
    assert code == 0
    for word in ("flambeau", "python", "processor", "features", "threads", "libraries", "memory"):
        assert re.search(rf"^{word} +\S", out, re.MULTILINE), word
    assert "numpy" in out and flambeau.__version__ in out


def test_version(run, capsys):
    with pytest.raises(SystemExit) as exit:
        run("--version")
    assert exit.value.code == 0
    assert capsys.readouterr().out == f"flambeau {flambeau.__version__}\n"


def test_as_a_module():
    process = start("--version")
    out, _ = process.communicate(timeout=60)
    assert process.returncode == 0 and flambeau.__version__ in out
