"""The seams of the core in use: builds `seams.cpp` once and runs the operators' samples through what it adds.

`python -m tests.core.seams [--torch PYTHON]` prints, for the counting device and for the recorder, how many samples
give what they give on the CPU: the project's own samples, or PyTorch's as its interpreter makes them.
"""

import argparse
import collections
import contextlib
import ctypes
import os
import shutil
import subprocess
import sys
import tempfile
import warnings
from functools import cache, partial
from pathlib import Path

import numpy as np

import flambeau
from flambeau import _C, _graph

TOP = Path(__file__).parent.parent.parent
COMPILER = os.environ.get("CXX") or shutil.which("c++") or shutil.which("g++")
DEVICE = "counting"
COUNTS = ("kernels", "pointwise", "own_kernels", "allocations", "frees", "copies", "fills")
BOOK = ("recorded", "ran", "dropped")


class Seams:
    """The functions of the compiled library; `name` leads to its Python signature."""

    def __init__(self, path):
        self.library = library = ctypes.PyDLL(str(path))
        for name in ("seams_counts", "seams_book"):
            getattr(library, name).restype = ctypes.POINTER(ctypes.c_int64)
        library.seams_block.restype = ctypes.py_object
        library.seams_block.argtypes = library.seams_pending.argtypes = [ctypes.py_object]
        for name in ("seams_restored", "seams_read_blocked"):
            getattr(library, name).restype = ctypes.c_int64

    def counts(self):
        return dict(zip(COUNTS, self.library.seams_counts()[:len(COUNTS)], strict=True))

    def book(self):
        return dict(zip(BOOK, self.library.seams_book()[:len(BOOK)], strict=True))

    def pending(self, t):
        return bool(self.library.seams_pending(t))

    @contextlib.contextmanager
    def recording(self):
        self.library.seams_record(1)
        try:
            yield
        finally:
            self.library.seams_record(0)


@cache
def load():
    """The compiled library; None where there is no compiler."""
    if COMPILER is None:
        return None
    folder = Path(tempfile.mkdtemp(prefix="flambeau-seams"))
    flags = "-std=c++20 -O1 -fPIC -shared -fvisibility=hidden".split()
    if os.uname().machine == "x86_64":
        flags += ["-mavx2", "-mfma", "-mf16c"]
    build = subprocess.run([COMPILER, *flags, f"-I{TOP}/native", str(Path(__file__).with_name("seams.cpp")),
                            _C.__file__, "-o", str(folder / "seams.so")], capture_output=True, text=True)
    if build.returncode:
        raise RuntimeError(build.stderr[-4000:])
    seams = Seams(folder / "seams.so")
    shutil.rmtree(folder)  # it stays mapped
    return seams


class Library:
    """flambeau, with inputs that go through `change`, and factories on `device`."""

    def __init__(self, change, device=None):
        self._change, self._device = change, device

    def __getattr__(self, name):
        return getattr(flambeau, name)

    def frombuffer(self, *args, **kwargs):
        return self._change(flambeau.frombuffer(*args, **kwargs))

    def from_numpy(self, x):
        return self._change(flambeau.from_numpy(x))

    def empty_strided(self, *args, **kwargs):
        return flambeau.empty_strided(*args, **{"device": self._device} | kwargs)

    def empty(self, *args, **kwargs):
        return flambeau.empty(*args, **{"device": self._device} | kwargs)


@contextlib.contextmanager
def on_device():
    """Yields the function that moves inputs; factories make their tensors there too."""
    load()
    before = flambeau.get_default_device()
    flambeau.set_default_device(DEVICE)
    try:
        yield lambda t: t.to(DEVICE)
    finally:
        flambeau.set_default_device(before)


@contextlib.contextmanager
def recorded():
    """Yields the function that makes an input pending."""
    with load().recording():
        yield lambda t: t.clone()


@contextlib.contextmanager
def compiled():
    """Yields the function that makes an input part of a program that is being captured, as inside `compile`."""
    with _graph.capturing():
        yield lambda t: t.clone()


MODES = {"device": on_device, "recorder": recorded, "compiled": compiled}


def outcome(run):
    """("result", what it gave) or ("error", type name)."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ("result", run())
    except Exception as error:
        return ("error", type(error).__name__, str(error))


def same(found, expected):
    """Whether two outcomes are equal, bit for bit where they are numbers."""
    if isinstance(expected, np.ndarray):
        return isinstance(found, np.ndarray) and (found.dtype, found.shape) == (expected.dtype, expected.shape) and (
            found.tobytes() == expected.tobytes()
            or np.array_equal(found, expected, equal_nan=expected.dtype.kind in "fc"))
    if isinstance(expected, tuple) and len(expected) == 3 and isinstance(expected[0], str) and expected[0] == "error":
        return found[:2] == expected[:2]
    if isinstance(expected, (list, tuple)):
        return type(found) is type(expected) and len(found) == len(expected) and all(
            same(a, b) for a, b in zip(found, expected, strict=True))
    return found == expected or (found != found and expected != expected)


class Tally:
    """How many samples agree, by mode, and what differs."""

    def __init__(self):
        self.total, self.equal, self.differ = collections.Counter(), collections.Counter(), []

    def add(self, mode, name, found, expected):
        self.total[mode] += 1
        if same(found, expected):
            self.equal[mode] += 1
        else:
            self.differ.append((mode, name, str(found)[:200], str(expected)[:200]))

    def share(self, mode):
        return self.equal[mode] / self.total[mode]

    def __str__(self):
        return "\n".join(f"{mode}: {self.equal[mode]} of {self.total[mode]} samples as on the CPU "
                         f"({100 * self.share(mode):.2f} %)" for mode in self.total)


def own_samples(names=None, modes=tuple(MODES)):
    """The project's samples of every operator, in every mode."""
    from ..ops import battery

    def values(t):
        return battery.to_numpy(t.cpu()), str(t.dtype), t.stride(), t.requires_grad

    def run(name, sample):
        result = battery.run(name, sample)
        return [values(t) for t in battery.tensors(result)], [str(x) for x in battery.others(result)]

    tally = Tally()
    for name in names or battery.with_samples("seams"):
        if name in battery.UNSPECIFIED:
            continue
        for sample in battery.samples(name):
            expected = outcome(partial(run, name, battery.map_tensors(lambda t: t.clone(), sample)))
            for mode in modes:
                with MODES[mode]() as change:
                    found = outcome(partial(run, name, battery.map_tensors(change, sample)))
                    tally.add(mode, name, found, expected)
    return tally


def moved(x, device):
    """A program with every device "cpu" written as another one."""
    if isinstance(x, str):
        return device if x == "cpu" else x
    return type(x)(moved(v, device) for v in x) if isinstance(x, (list, tuple)) else x


def torch_samples(python, pattern="", cache=None, modes=tuple(MODES)):
    """PyTorch's samples, as tests/parity runs them: every program with its gradients."""
    from ..parity import exchange, samples
    tally = Tally()
    with tempfile.TemporaryDirectory() as folder:
        for record in samples.records(python, pattern, cache or folder, False):
            for case in record["cases"]:
                if "program" not in case:
                    continue
                def run(lib, device=None, case=case):
                    program = moved(case["program"], device) if device else case["program"]
                    return exchange.run(lib, program, case["storages"], case["tensors"], form=case["form"],
                                        values=case["values"])
                try:
                    expected = run(flambeau)
                    for mode in modes:
                        with MODES[mode]() as change:
                            device = DEVICE if mode == "device" else None
                            tally.add(mode, record["name"], run(Library(change, device), device), expected)
                except exchange.Excluded:
                    continue
    return tally


def torch_python():
    """The interpreter with PyTorch that FLAMBEAU_TORCH_PYTHON names; skips where there is none."""
    import pytest
    python = os.environ.get("FLAMBEAU_TORCH_PYTHON", sys.executable)
    known = subprocess.run([python, "-c", "import torch, numpy, expecttest"], capture_output=True, check=False)
    if known.returncode:
        pytest.skip(f"{python} has no PyTorch with its test samples; set FLAMBEAU_TORCH_PYTHON to one that has")
    return python


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--torch", help="an interpreter with PyTorch: run its samples instead of the project's")
    parser.add_argument("--pattern", default="", help="only operators whose name matches")
    parser.add_argument("--cache", help="a folder that keeps PyTorch's samples")
    parser.add_argument("--differ", action="store_true", help="list what differs")
    options = parser.parse_args()
    tally = torch_samples(options.torch, options.pattern, options.cache) if options.torch else own_samples()
    if options.differ:
        for line in tally.differ:
            print(*line, sep="\n    ")
    print(tally)
    print(load().counts(), load().book())


if __name__ == "__main__":
    main()
