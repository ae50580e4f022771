"""Training from seed 0 gives PyTorch's losses: initial values, order of the data, dropout, gradients, optimizer."""

import json

import pytest

from . import curves
from .helpers import MNIST

GOLDEN = json.loads(curves.GOLDEN.read_text())


def assert_follows(runs):
    for name, losses in runs.items():
        assert losses == pytest.approx(GOLDEN[name], abs=1e-4, rel=0), name


def test_digits():
    assert_follows(curves.digits_runs())


@pytest.mark.skipif(not MNIST.is_dir(), reason=f"no MNIST in {MNIST}")
def test_mnist():
    assert_follows(curves.mnist_runs(MNIST))
