"""Sentences and code are our own: no long run of words or statements also stands in PyTorch's files or libraries."""

import subprocess
import warnings
from pathlib import Path

import pytest

from .wording import READERS, SCHEMA, Runs, functions, library_words, source_words, words

pytestmark = pytest.mark.parity

ROOT = Path(__file__).parents[2]
LIBRARIES = ("libtorch_cpu.so", "libtorch_python.so", "libc10.so")
WORDS, STATEMENTS = 12, 6


@pytest.fixture(scope="session")
def torch_folder(torch_python):
    """Where PyTorch is installed."""
    found = subprocess.run([torch_python, "-c", "import torch; print(torch.__path__[0])"], capture_output=True,
                           text=True, check=True)
    return Path(found.stdout.strip())


def ours(*folders):
    """(file as named in the project, its text) of every source file in the folders."""
    for folder in folders:
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix in READERS:
                yield path, path.read_text("utf-8")


def test_sentences(torch_folder):
    runs = Runs(WORDS)
    for path, source in ours("src", "native"):
        for line, text in READERS[path.suffix](source):
            if not SCHEMA.search(text):
                runs.add(f"{path.relative_to(ROOT)}:{line}", words(text))
    for pattern in ("*.py", "*.h"):
        for path in torch_folder.rglob(pattern):
            runs.meet(str(path.relative_to(torch_folder)), source_words(path))
    for name in LIBRARIES:
        for sequence in library_words(torch_folder / "lib" / name):
            runs.meet(name, sequence)
    shared = [f"{label}  {' '.join(run)}  | {origin}" for label, run, origin in runs.shared()]
    assert not shared, "\n".join(["texts shared with PyTorch:", *shared])


def test_statements(torch_folder):
    runs = Runs(STATEMENTS)
    for path, source in ours("src"):
        if path.suffix == ".py":
            for line, name, body in functions(source):
                runs.add(f"{path.relative_to(ROOT)}:{line} {name}", body)
    for path in torch_folder.rglob("*.py"):
        for _, name, body in _functions(path):
            runs.meet(f"{path.relative_to(torch_folder)} {name}", body)
    shared = [f"{label}  {len(run)} statements  | {origin}" for label, run, origin in runs.shared()]
    assert not shared, "\n".join(["statements shared with PyTorch:", *shared])


def _functions(path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # escapes in their strings
        try:
            return list(functions(path.read_text("utf-8", "replace")))
        except (SyntaxError, ValueError):  # templates and test data that are no Python
            return []


def test_a_copied_sentence_would_be_found(tmp_path):
    sentence = "the twelve words of this line stand in both of the two files"
    copied = tmp_path / "copied.cpp"
    copied.write_text('fail(c.name(), ": the twelve words of this line ", k,\n     " stand in both of the two files");'
                      f"  // {sentence}")
    theirs = tmp_path / "theirs.py"
    theirs.write_text('raise ValueError(f"the twelve words of this line {x} stand "\n'
                      '                 "in both of the two files")')
    runs = Runs(WORDS)
    for line, text in READERS[".cpp"](copied.read_text()):
        runs.add(line, words(text))
    runs.meet("theirs", source_words(theirs))
    assert [" ".join(run) for _, run, _ in runs.shared()] == [sentence, sentence]
    binary = tmp_path / "theirs.so"
    binary.write_bytes(b"\0\1" + sentence.encode() + b"\0\2")
    runs.origin.clear()
    for sequence in library_words(binary):
        runs.meet("library", sequence)
    assert len(list(runs.shared())) == 2


def test_copied_statements_would_be_found():
    body = "".join(f"    first_{k} = second_{k} + {k}\n" for k in range(STATEMENTS))
    runs = Runs(STATEMENTS)
    for _, name, statements in functions(f"def ours(x: int) -> int:\n    '''A docstring.'''\n{body}"):
        runs.add(name, statements)
    for _, name, statements in functions(f"@decorated\nasync def theirs(y):\n    pass\n{body}"):
        runs.meet(name, statements)
    assert [label for label, _, _ in runs.shared()] == ["ours"]
