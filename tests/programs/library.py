"""The library without Python, called as any other language would: `python library.py run|fuzz|threads …`, in a process
that does not import flambeau."""

import ctypes
import resource
import signal
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np


class Tensor(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("device", ctypes.c_int32 * 2), ("ndim", ctypes.c_int32),
                ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16),
                ("shape", ctypes.POINTER(ctypes.c_int64)), ("strides", ctypes.POINTER(ctypes.c_int64)),
                ("byte_offset", ctypes.c_uint64)]


CODES = {"i": 0, "u": 1, "f": 2, "c": 5, "b": 6}


class Library:
    def __init__(self, path):
        self.calls = ctypes.CDLL(path)
        self.calls.flambeau_load.restype = ctypes.c_void_p
        self.calls.flambeau_error.restype = self.calls.flambeau_version.restype = ctypes.c_char_p
        self.calls.flambeau_output_count.argtypes = self.calls.flambeau_unload.argtypes = [ctypes.c_void_p]
        self.calls.flambeau_run.argtypes = [ctypes.c_void_p, ctypes.POINTER(Tensor), ctypes.c_int32,
                                            ctypes.POINTER(ctypes.POINTER(Tensor)), ctypes.c_int32]

    def error(self):
        return ValueError(self.calls.flambeau_error().decode(errors="replace"))

    def load(self, path):
        program = self.calls.flambeau_load(str(path).encode())
        if not program:
            raise self.error()
        return program

    def run(self, program, arrays):
        held = [(a, (ctypes.c_int64 * max(a.ndim, 1))(*a.shape)) for a in map(np.ascontiguousarray, arrays)]
        inputs = (Tensor * len(held))(*(
            Tensor(a.ctypes.data, (1, 0), a.ndim, CODES[a.dtype.kind], a.itemsize * 8, 1, shape, None, 0)
            for a, shape in held))
        count = self.calls.flambeau_output_count(program)
        outputs = (ctypes.POINTER(Tensor) * count)()
        if self.calls.flambeau_run(program, inputs, len(held), outputs, count):
            raise self.error()
        results = [array_of(output.contents) for output in outputs]
        for output in outputs:
            self.calls.flambeau_free(output)
        return results


def array_of(t):
    """A copy of a tensor's numbers."""
    shape, item = t.shape[:t.ndim], t.bits // 8
    strides = [step * item for step in t.strides[:t.ndim]]
    dtype = np.dtype({v: k for k, v in CODES.items()}[t.code] + str(item))
    if 0 in shape:
        return np.zeros(shape, dtype)
    raw = ctypes.string_at(t.data, sum((n - 1) * step for n, step in zip(shape, strides, strict=True)) + item)
    return np.lib.stride_tricks.as_strided(np.frombuffer(raw, dtype), shape, strides).copy()


def run(library, path, inputs, outputs):
    """Results of several runs: the inputs of each are arrays 0, 1, … of an .npz, the results go to another."""
    program = library.load(path)
    np.savez(outputs, **{f"{k}-{n}": array for k, file in enumerate(inputs.split(","))
                         for n, array in enumerate(library.run(program, list(np.load(file).values())))})
    library.calls.flambeau_unload(program)


def threads(library, path, inputs):
    """Four threads call one program; every result must be that of the first call."""
    program, arrays = library.load(path), list(np.load(inputs).values())
    expected = library.run(program, arrays)
    with ThreadPoolExecutor(4) as pool:
        for found in pool.map(lambda _: library.run(program, arrays), range(64)):
            assert all(np.array_equal(a, b) for a, b in zip(found, expected, strict=True))


def fuzz(library, path, inputs, seed, count):
    """Files with a few wrong bytes end in an error or in results, and the process lives."""
    resource.setrlimit(resource.RLIMIT_AS, (6 << 30, 6 << 30))
    numbers, raw, arrays = np.random.default_rng(int(seed)), Path(path).read_bytes(), list(np.load(inputs).values())
    damaged, errors = Path(path).with_suffix(".damaged"), 0
    begins = [raw.index(b"native/program"), raw.index(b"native/plans")]
    parts = [(begin, raw.index(b"PK", begin)) for begin in begins] + [(0, len(raw))]
    for _ in range(int(count)):
        changed = bytearray(raw)
        for _ in range(numbers.integers(1, 4)):
            at = numbers.integers(*parts[numbers.choice(3, p=[0.45, 0.45, 0.1])])
            changed[at] = numbers.choice([0, 1, 255, changed[at] ^ 1, numbers.integers(256)])
        damaged.write_bytes(changed if numbers.random() < 0.9 else changed[:numbers.integers(len(raw))])
        signal.alarm(20)
        try:
            library.run(library.load(damaged), arrays)
        except ValueError:
            errors += 1
    print(errors)


if __name__ == "__main__":
    name, *rest = sys.argv[2:]
    {"run": run, "threads": threads, "fuzz": fuzz}[name](Library(sys.argv[1]), *rest)
