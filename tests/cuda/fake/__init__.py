"""A CUDA driver that is host memory, for tests on machines without a device.

It must be named before a process asks for CUDA, so the cases (`case_*.py`) run in processes of their own, which
test_fake.py starts. `driver` is its control panel.
"""

import contextlib
import ctypes
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path

HERE = Path(__file__).parent
COMPILER = os.environ.get("CXX") or shutil.which("c++") or shutil.which("g++")
VARIABLE = "FLAMBEAU_CUDA_DRIVER"


def build(name, *flags):
    """The shared object of one of the files beside this one, made once per text."""
    source = HERE / f"{name}.cpp"
    texts = [path.read_bytes() for path in (source, HERE.parents[2] / "native" / "core" / "dtype.h",
                                            *sorted(source.parent.glob("*.h")))]
    digest = hashlib.sha256(b"".join(texts) + repr((COMPILER, flags)).encode()).hexdigest()[:16]
    folder = Path(tempfile.gettempdir()) / f"flambeau-fake-cuda-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    name = source.stem
    made = folder / f"{name}-{digest}.so"
    if not made.exists():
        fresh = folder / f"{name}-{digest}.{os.getpid()}"
        done = subprocess.run([COMPILER, "-std=c++20", "-fPIC", "-shared", *flags, str(source), "-o", str(fresh)],
                              capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(done.stderr[-4000:])
        fresh.replace(made)
    return made


def build_driver():
    return build("driver", "-O1", "-fvisibility=hidden")


def pytest_with_driver(*arguments, workers=0, timeout=300, **variables):
    """What a pytest of its own prints where the fake driver is in place; fails as it does.

    Plugins are left out that it does not need: they take longer to import than most cases to run.
    """
    few = [] if workers else ["-o", "addopts=--strict-markers --strict-config -m 'not exhaustive and not parity'",
                              "-p", "no:xdist"]
    run = subprocess.run([sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:hypothesispytest",
                          *few, *([f"-n{workers}"] if workers else ["-x"]), *arguments], cwd=HERE.parents[2],
                         capture_output=True, text=True, timeout=timeout,
                         env={**os.environ, VARIABLE: str(build_driver()), **variables})
    assert run.returncode == 0, run.stdout[-6000:] + run.stderr[-2000:]
    return run.stdout


#: files of NVIDIA's libraries that the ones in `libraries` stand for
LIBRARIES = {"cublaslt": "libcublasLt.so.12", "cudnn": "libcudnn.so.9", "cufft": "libcufft.so.11",
             "cublas": "libcublas.so.12", "cusolver": "libcusolver.so.11"}
LIBRARY_FOLDER = "FLAMBEAU_CUDA_LIBRARIES"


def build_libraries(*flags):
    """A folder with the fake libraries under NVIDIA's names; -DOLDER: of an older release."""
    built = [build(f"libraries/{name}", "-O1", "-fvisibility=hidden", *flags) for name in LIBRARIES]
    folder = built[0].parent / "-".join(["libraries", *(path.stem[-16:-8] for path in built)])
    if not folder.exists():
        fresh = Path(tempfile.mkdtemp(dir=built[0].parent))
        for path, file in zip(built, LIBRARIES.values(), strict=True):
            (fresh / file).symlink_to(path)
        with contextlib.suppress(OSError):  # another process was faster
            fresh.rename(folder)
    return folder


class FakeLibrary:
    """What tests tell a fake library, and ask it."""

    #: those that tests have opened
    opened = []
    #: what tests change, and what it is otherwise
    _USUAL = {"fake_version": 92000, "fake_fastest": -1}

    def __init__(self, name):
        self.opened.append(self)
        self.library = library = ctypes.CDLL(os.path.join(os.environ[LIBRARY_FOLDER], LIBRARIES[name]))
        library.fake_fail.argtypes = [ctypes.c_char_p, ctypes.c_long, ctypes.c_int]
        library.fake_calls.argtypes = [ctypes.c_char_p]
        library.fake_calls.restype = library.fake_alive.restype = library.fake_left.restype = ctypes.c_long

    def fail(self, n, function="", status=13):
        """The n-th call from now on, of one function or of any, fails with that status; 0: none does."""
        self.library.fake_fail(function.encode(), n, status)

    def reset(self):
        """Nothing fails, and all is as usual."""
        self.fail(0)
        for function, value in self._USUAL.items():
            if hasattr(self.library, function):
                getattr(self.library, function)(value)

    def calls(self, function=""):
        return self.library.fake_calls(function.encode())

    def left(self):
        return self.library.fake_left()

    def shared(self):
        """How often streams shared memory that the library works in."""
        self.library.fake_shared.restype = ctypes.c_long
        return self.library.fake_shared()

    def alive(self):
        """How many descriptors there are."""
        return self.library.fake_alive()


class Driver:
    """What tests tell the fake driver, and ask it."""

    def __init__(self, path):
        self.library = library = ctypes.CDLL(path)
        library.fake_fail.argtypes = [ctypes.c_char_p, ctypes.c_long, ctypes.c_int]
        library.fake_limit.argtypes = [ctypes.c_size_t]
        library.fake_used.restype = library.fake_blocks.restype = library.fake_waiting.restype = ctypes.c_size_t
        library.fake_calls.restype = library.fake_left.restype = ctypes.c_long
        library.fake_advance.argtypes = library.fake_waiting.argtypes = [ctypes.c_void_p]
        library.fake_peek.argtypes = library.fake_poke.argtypes = [ctypes.c_uint64, ctypes.c_void_p, ctypes.c_size_t]

    def fail(self, n, function="", code=999):
        """The n-th call from now on, of one function or of any, fails with that error; 0: none does."""
        self.library.fake_fail(function.encode(), n, code)

    def left(self):
        """How many calls are left before one fails; 0: it has."""
        return self.library.fake_left()

    def calls(self, function=""):
        return self.library.fake_calls(function.encode())

    def limit(self, nbytes=1 << 30):
        self.library.fake_limit(nbytes)

    def used(self, device=0):
        """Bytes that are allocated on a device."""
        return self.library.fake_used(device)

    def delay(self, on):
        """Keeps work until somebody waits for it, or `advance` does a piece of it."""
        self.library.fake_delay(on)

    def expose(self, on):
        """Lets another library of the tests at the device memory."""
        self.library.fake_expose(on)

    def advance(self, stream):
        return bool(self.library.fake_advance(stream.cuda_stream))

    def waiting(self, stream):
        return self.library.fake_waiting(stream.cuda_stream)

    def peek(self, address, nbytes):
        memory = ctypes.create_string_buffer(nbytes)
        self.library.fake_peek(address, memory, nbytes)
        return memory.raw


@cache
def driver():
    """The control panel of the driver that this process uses."""
    return Driver(os.environ[VARIABLE])


# --- kernels by hand --------------------------------------------------------------------------------------------------

@cache
def image():
    return b"EMU0" + build("kernels", "-O0").read_bytes()


class Kernels:
    """What `flambeau.cuda._plans` asks for kernels: those of kernels.cpp; counts how often it is asked."""

    def __init__(self):
        self.asked = []

    def lower(self, call):
        self.asked.append(call)
        return pointwise(call) if hasattr(call, "form") else row(call)


class Plan(tuple):
    steps = property(lambda self: self[0])
    scratch = property(lambda self: self[1])


def _class(name, *fields):
    from collections import namedtuple
    return namedtuple(name, fields)


Pointwise = _class("Pointwise", "image", "function", "vector", "threads")
Launch = _class("Launch", "image", "function", "grid", "block", "shared", "params")
Pointer, Scratch = _class("Pointer", "k", "byte_offset"), _class("Scratch", "i", "byte_offset")
Number, Seed = _class("Number", "data"), _class("Seed", "count")
Fill, Copy = _class("Fill", "target", "value_byte", "nbytes"), _class("Copy", "dst", "src", "nbytes")


def pointwise(call):
    if call.name in ("copy", "fill"):
        name = f"{call.name}_{call.operands[0].dtype}_{call.result}"
    elif call.name in ("add", "mul", "_mul_conj") and call.compute == "float32":
        name = call.name.removeprefix("_").removesuffix("_conj")
        name += "_number" if call.operands[1].kind == "number" else ""
    else:
        raise NotImplementedError(f"{call.name} has no CUDA kernel yet")
    return Pointwise(image(), f"{name}_{'flat' if call.form == 'flat' else 'strided'}", 4, 128)


def int64(n):
    return Number(n.to_bytes(8, "little"))


def count(info):
    n = 1
    for size in info.shape:
        n *= size
    return n


def row(call):
    if call.name == "sum":
        x, out = call.args[0], call.results[0]
        n, blocks = count(x), 3
        return Plan(((Launch(image(), "partial", (blocks, 1, 1), (64, 1, 1), 0,
                             (Scratch(0, 0), Pointer(x.k, 0), int64(n))),
                      Launch(image(), "total", (1, 1, 1), (1, 1, 1), 0,
                             (Pointer(out.k, 0), Scratch(0, 0), int64(blocks)))), (4 * blocks,)))
    if call.name == "uniform_":
        out = call.results[0]
        return Plan(((Launch(image(), "draw", (1, 1, 1), (1, 1, 1), 0,
                             (Pointer(out.k, 0), Seed(4), int64(count(out)))),), ()))
    if call.name == "flip":  # moves bytes about, for the steps that are no launches: all of it becomes 0, then itself
        x, out = call.args[0], call.results[0]
        return Plan(((Fill(Pointer(out.k, 0), 0, 4 * count(out)),
                      Copy(Pointer(out.k, 0), Pointer(x.k, 0), 4 * count(x))), ()))
    raise NotImplementedError(f"{call.name} has no CUDA kernel yet")
