"""What several test files of the command need: a small MNIST in idx files, the command as a process."""

import os
import struct
import subprocess
import sys
from pathlib import Path

import numpy

from flambeau.cli.digits import read_digits
from flambeau.cli.mnist import CHECKSUMS

#: the real MNIST, where a machine has it
MNIST = Path(os.environ.get("FLAMBEAU_MNIST", Path(__file__).parents[3] / "shared" / "data" / "mnist"))


def idx_bytes(array):
    """`array` (uint8) in the idx form."""
    return struct.pack(f">I{array.ndim}I", 0x0800 + array.ndim, *array.shape) + array.tobytes()


def write_mnist(folder, train=200, test=60):
    """The package's 8x8 digits, blown up to 28x28 (3x, with a border of two), as MNIST's four files."""
    folder.mkdir(parents=True, exist_ok=True)
    pictures, labels = read_digits()
    large = numpy.pad((pictures * 15).repeat(3, 1).repeat(3, 2), ((0, 0), (2, 2), (2, 2)))
    parts = large[:train], labels[:train], large[train:train + test], labels[train:train + test]
    for name, array in zip(CHECKSUMS, parts):
        (folder / name.removesuffix(".gz")).write_bytes(idx_bytes(numpy.ascontiguousarray(array)))
    return folder


def start(*arguments, **options):
    """The command as a process of its own."""
    return subprocess.Popen([sys.executable, "-u", "-m", "flambeau", *map(str, arguments)], stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, text=True, **options)
