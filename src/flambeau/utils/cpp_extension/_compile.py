"""How sources become a shared library: the compiler, the flags, the file in the cache; once for all processes."""

import contextlib
import fcntl
import hashlib
import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from ..._shown import shown

_FLAGS = ("-std=c++17", "-O2", "-fPIC", "-fvisibility=hidden")
_PACKAGE = Path(__file__).resolve().parents[2]


def get_cxx_compiler():
    """The compiler: what the variable CXX names, else c++.

    >>> from flambeau.utils import cpp_extension
    >>> bool(cpp_extension.get_cxx_compiler())
    True
    """
    return os.environ.get("CXX") or "c++"


def include_paths(device_type="cpu", torch_include_dirs=True):
    """The folder that holds `flambeau/extension.h`.

    >>> from pathlib import Path
    >>> from flambeau.utils import cpp_extension
    >>> (Path(cpp_extension.include_paths()[0]) / "flambeau" / "extension.h").exists()
    True
    """
    _cpu_only("include_paths", device_type)
    return [str(_PACKAGE / "include")] if torch_include_dirs else []


def library_paths(device_type="cpu", torch_include_dirs=True, cross_target_platform=None):
    """No folder: an extension is linked with no library of Flambeau.

    >>> from flambeau.utils import cpp_extension
    >>> cpp_extension.library_paths()
    []
    """
    _cpu_only("library_paths", device_type)
    if cross_target_platform is not None:
        raise NotImplementedError("library_paths: extensions are built for this machine only")
    return []


def _cpu_only(what, device_type):
    if device_type != "cpu":
        raise NotImplementedError(f"{what}: extensions run on the CPU, got {shown(device_type)}")


def get_default_build_root():
    """The folder of compiled extensions: TORCH_EXTENSIONS_DIR, or `flambeau/extensions` in the user's cache.

    >>> from flambeau.utils import cpp_extension
    >>> bool(cpp_extension.get_default_build_root())
    True
    """
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.join("~", ".cache")
    folder = os.environ.get("TORCH_EXTENSIONS_DIR") or os.path.join(cache, "flambeau", "extensions")
    return os.path.realpath(os.path.expanduser(folder))


def is_ninja_available():
    """Whether the program ninja is here. Extensions do not need it: the compiler is called directly.

    >>> from flambeau.utils import cpp_extension
    >>> cpp_extension.is_ninja_available() in (True, False)
    True
    """
    return shutil.which("ninja") is not None


def verify_ninja_availability():
    """A RuntimeError where ninja is not here."""
    if not is_ninja_available():
        raise RuntimeError("ninja is not installed (pip install ninja); load and load_inline do not need it")


def _version(compiler):
    """What the compiler says about itself; a RuntimeError where there is none."""
    try:
        return subprocess.run([*shlex.split(compiler), "--version"], capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError) as error:
        raise RuntimeError(f"cpp_extension: no C++ compiler {shown(compiler)} here; install g++ or clang++, or name "
                           f"one in the variable CXX ({error})") from error


def check_compiler_is_gcc(compiler):
    """Whether a compiler is GCC's.

    >>> from flambeau.utils import cpp_extension
    >>> cpp_extension.check_compiler_is_gcc("no such program")
    False
    """
    try:
        return "Free Software Foundation" in _version(compiler)
    except RuntimeError:
        return False


def check_compiler_ok_for_platform(compiler):
    """Whether a compiler can be run; any with C++17 will do, since no C++ library is shared with the extension.

    >>> from flambeau.utils import cpp_extension
    >>> cpp_extension.check_compiler_ok_for_platform("no such program")
    False
    """
    try:
        return bool(_version(compiler))
    except RuntimeError:
        return False


def get_compiler_abi_compatibility_and_version(compiler):
    """(whether it can be used, its version as text).

    >>> from flambeau.utils import cpp_extension
    >>> cpp_extension.get_compiler_abi_compatibility_and_version("no such program")
    (False, '0.0.0')
    """
    if not check_compiler_ok_for_platform(compiler):
        return False, "0.0.0"
    done = subprocess.run([*shlex.split(compiler), "-dumpfullversion", "-dumpversion"], capture_output=True, text=True)
    return True, done.stdout.strip() or "0.0.0"


@contextlib.contextmanager
def _alone(path):
    """One thread of one process at a time."""
    with open(path, "a") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        yield


def _hash(path):
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()


def _unchanged(record):
    """Whether every file that a library was made of is as it was."""
    try:
        return all(_hash(path) == known for path, known in json.loads(record.read_text()).items())
    except (OSError, ValueError):
        return False


def _dependencies(text):
    """The files that a compiler's list names (`target: file file \\`)."""
    return shlex.split(text.partition(":")[2].replace("\\\n", " "))


def _run(command, folder, verbose):
    if verbose:
        print(shlex.join(command), file=sys.stderr)
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, errors="replace", check=False)
    if done.returncode:
        raise RuntimeError(f"cpp_extension: the compiler failed (exit status {done.returncode})\n"
                           f"{shlex.join(command)}\n{done.stdout}{done.stderr}")
    if verbose and done.stderr:
        print(done.stderr, file=sys.stderr)


class Build:
    """One extension: sources {name: text, or None where the name is a file's path}, and how they are compiled."""

    def __init__(self, name, sources, cflags=(), ldflags=(), include=(), folder=None, standalone=False):
        if not name.isidentifier():
            raise ValueError(f"cpp_extension: the name of an extension is a Python identifier, got {shown(name)}")
        self.name, self.standalone = name, standalone
        self.folder = Path(folder or os.path.join(get_default_build_root(), name))
        self.compiler = shlex.split(get_cxx_compiler())
        folders = [flag for path in [*include, *include_paths()] for flag in ("-I", os.path.abspath(path))]
        self.cflags, self.ldflags = [*_FLAGS, *folders, *cflags], list(ldflags)
        self.sources = {(os.path.abspath(path) if text is None else path): text for path, text in sources.items()}

    def key(self):
        """What the library depends on: texts, flags, compiler."""
        texts = {path: _hash(path) if text is None else text for path, text in self.sources.items()}
        known = [texts, self.cflags, self.ldflags, self.compiler, _version(shlex.join(self.compiler)), self.standalone]
        return hashlib.sha256(json.dumps(known).encode()).hexdigest()[:16]

    def path(self, verbose=False, keep=True):
        """The library's file, compiled unless the cache has it; other processes wait for the one that compiles."""
        for path, text in self.sources.items():
            if text is None and not os.path.exists(path):
                raise FileNotFoundError(f"cpp_extension: there is no source {shown(path)}")
        self.folder.mkdir(parents=True, exist_ok=True)
        with _alone(self.folder / f"{self.name}.lock"):
            key = self.key()
            record = self.folder / f"{self.name}-{key}.json"
            made = [*self.folder.glob(f"{self.name}-{key}-*{self.suffix()}")]
            if made and _unchanged(record):
                return max(made, key=lambda path: path.stat().st_mtime_ns)
            return self._compiled(key, record, verbose, keep)

    def suffix(self):
        return "" if self.standalone else ".so"

    def _compiled(self, key, record, verbose, keep):
        with tempfile.TemporaryDirectory(dir=self.folder, prefix="building-") as work:
            objects = [os.path.join(work, f"{k}.o") for k in range(len(self.sources))]
            with ThreadPoolExecutor(max_workers=os.cpu_count()) as pool:
                list(pool.map(lambda k: self._object(k, work, verbose), range(len(objects))))
            out = os.path.join(work, "out")
            shared = [] if self.standalone else ["-shared"]
            _run([*self.compiler, *shared, *objects, "-o", out, *self.ldflags], work, verbose)
            used = {path: _hash(path) for k in range(len(objects))
                    for path in _dependencies(Path(work, f"{k}.d").read_text()) if not path.startswith(work)}
            # a file of its own for each build: a library that is loaded cannot be replaced under its name
            final = self.folder / f"{self.name}-{key}-{os.path.basename(work)[9:]}{self.suffix()}"
            if keep:
                for each in objects:
                    os.replace(each, self.folder / f"{self.name}-{key}-{os.path.basename(each)}")
            os.replace(out, final)
            Path(work, "record").write_text(json.dumps(used))
            os.replace(os.path.join(work, "record"), record)
        return final

    def _object(self, k, work, verbose):
        path, text = list(self.sources.items())[k]
        if text is not None:
            path = os.path.join(work, path)
            Path(path).write_text(text, encoding="utf-8")
        _run([*self.compiler, *self.cflags, "-MMD", "-MF", os.path.join(work, f"{k}.d"), "-c", path, "-o",
              os.path.join(work, f"{k}.o")], work, verbose)
