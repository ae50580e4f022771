"""What becomes of the PyTorch names that programs use: which are here, differ, refuse, or are missing."""

import json
import os
import subprocess
import sys
from collections import namedtuple
from importlib.machinery import PathFinder
from pathlib import Path

from ._differences import METHODS, difference, instead
from ._install import environment
from ._uses import uses

#: from good to bad; "expected" are names whose absence the program is prepared for
STATES = ("here", "differs", "expected", "refuses", "missing")
#: name: PyTorch's; state: one of STATES; note: a sentence; uses: [(file, line)]
Found = namedtuple("Found", "name state note uses")
_LEFT_OUT = {"__pycache__", "node_modules", "site-packages"}
_DESCRIBE = str(Path(__file__).with_name("_describe.py"))


def sources(target):
    """The Python files of a script, a folder, or an installed package, which is found without importing it.

    FileNotFoundError where there is no such thing.
    """
    path = Path(target)
    if path.is_file():
        return [path]
    if not path.is_dir():
        path = _package(str(target))
    if path.is_file():
        return [path]
    return [file for file in sorted(path.rglob("*.py"))
            if not any(part in _LEFT_OUT or part.startswith(".") for part in file.relative_to(path).parts)]


def _package(name):
    """The file or folder of an importable name."""
    places = None
    for depth, part in enumerate(name.split("."), start=1):
        spec = PathFinder.find_spec(".".join(name.split(".")[:depth]), places) if part.isidentifier() else None
        if spec is None:
            raise FileNotFoundError(f"{name}: no such file or folder, and no package of this name is installed")
        places = spec.submodule_search_locations
    return Path(places[0] if places else spec.origin)


def described(names):
    """{name: what it is here}, asked of a process in which `import torch` gives this library."""
    done = subprocess.run([sys.executable, _DESCRIBE], input="\n".join(names), capture_output=True, text=True,
                          env=environment(_variables()), check=False)
    if done.returncode:
        raise RuntimeError(f"doctor: the names could not be looked up: {done.stderr[-300:]}")
    return json.loads(done.stdout.splitlines()[-1])


def _variables():
    """This process's environment, in which its own library is found first."""
    parts = [str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH")]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, parts))}


def examined(files):
    """([Found], worst first, then most used; {file: why it cannot be read})."""
    places, expected, unread = {}, {}, {}
    for file in files:
        try:
            found = uses(file.read_text("utf-8"), str(file), METHODS)
        except (SyntaxError, ValueError, OSError, RecursionError) as error:
            unread[str(file)] = f"line {error.lineno}: {error.msg}" if isinstance(error, SyntaxError) else str(error)
            continue
        for use in found:
            places.setdefault(use.name, []).append((str(file), use.line))
            expected[use.name] = expected.get(use.name, True) and use.guarded
    known = described(sorted(places))
    result = [Found(name, *_state(name, known[name], expected[name]), places[name]) for name in places]
    kept = [each for each in result if each.state]
    return sorted(kept, key=lambda each: (-STATES.index(each.state), -len(each.uses), each.name)), unread


def _state(name, here, guarded):
    """(state, note); no state for what is no name of PyTorch's: attributes that a program gives its own tensors."""
    if here is None or ": " in here["kind"]:
        if name.startswith("torch.Tensor."):
            return None, ""
        why = "" if here is None or "ModuleNotFound" in here["kind"] else f"{here['kind']}; "
        return ("expected" if guarded else "missing"), why + instead(name)
    if here["refused"]:
        return "refuses", here["refused"]
    note = difference(name)
    return ("differs", note) if note else ("here", "")
