"""The programs of docs/ run as they stand there, and print what their comments say."""

import contextlib
import doctest
import io
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PAGES = sorted((ROOT / "docs").glob("*.md"))


def blocks(page):
    return re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)


#: page -> the optional package that its examples need
NEEDED = {"onnx.md": "onnx"}


@pytest.mark.parametrize("page", [p for p in PAGES if blocks(p)], ids=lambda p: p.name)
def test_page(page, tmp_path, monkeypatch):
    if page.name in NEEDED:
        pytest.importorskip(NEEDED[page.name])
    monkeypatch.chdir(tmp_path)  # examples write files
    code = "\n".join(blocks(page))
    if ">>>" in code:
        found = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
        found.run(doctest.DocTestParser().get_doctest(code, {}, page.name, str(page), 0))
        assert not found.failures
        return
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(code, str(page), "exec"), {"__name__": "docs"})
    assert printed.getvalue().splitlines() == re.findall(r"^print\(.*\)  # (.*)$", code, re.MULTILINE)


@pytest.mark.parametrize("page", [*PAGES, ROOT / "CONTRIBUTING.md"], ids=lambda p: p.name)
def test_files_that_a_page_names_exist(page):
    """`engine.cpp`, `autograd/record.cpp`, `src/flambeau/ops/kinds.py`: the end of some file's path."""
    folders = ("src", "native", "tests", "cmake", "examples", "benchmarks", "docs")
    files = ["/" + str(p.relative_to(ROOT)) for f in folders for p in (ROOT / f).rglob("*") if p.is_file()]
    named = re.findall(r"`((?:[\w.-]+/)*[\w*-]+\.(?:py|cpp|h|supp))`", page.read_text(encoding="utf-8"))
    for name in named:
        pattern = re.compile("/" + re.escape(name).replace(r"\*", "[^/]*") + "$")
        assert any(map(pattern.search, files)), f"{page.name} names {name}, which does not exist"
