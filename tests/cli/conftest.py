"""A small MNIST in idx files, and the command as a function and as a process."""

import struct
import subprocess
import sys

import numpy
import pytest

from flambeau.cli import main
from flambeau.cli.digits import read_digits
from flambeau.cli.mnist import CHECKSUMS


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


@pytest.fixture(scope="session")
def mnist_folder(tmp_path_factory):
    """Not to be changed by a test."""
    return write_mnist(tmp_path_factory.mktemp("mnist"))


@pytest.fixture
def run(capsys):
    """run("train", "digits", …) -> (exit code, stdout, stderr)."""
    def call(*arguments):
        code = main([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        return code, captured.out, captured.err
    return call


@pytest.fixture
def refused(run):
    """Runs what must be refused: exit code 2, one line, no traceback; the line."""
    def call(*arguments):
        code, _, err = run(*arguments)
        assert code == 2
        assert err.startswith("flambeau: ") and err.count("\n") == 1 and len(err) < 600, err
        return err
    return call


def start(*arguments, **options):
    """The command as a process of its own."""
    return subprocess.Popen([sys.executable, "-u", "-m", "flambeau", *map(str, arguments)], stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, text=True, **options)
