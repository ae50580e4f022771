"""A training task as plain data: images, labels, the name of its network, its default settings."""

import zlib
from dataclasses import dataclass

import numpy

import flambeau
from flambeau.utils.data import TensorDataset


@dataclass(frozen=True)
class Settings:
    """What decides the numbers of a run; the thread count does not."""

    epochs: int
    batch_size: int
    lr: float
    seed: int


@dataclass(frozen=True)
class Task:
    name: str                # the key of its network in networks.NETWORKS
    train: TensorDataset
    test: TensorDataset
    defaults: Settings
    fingerprint: int         # of the data: a run is continued on the data it began with


def make_task(name, train, test, scale, defaults):
    """`train` and `test` are (pictures uint8 [n, height, width], labels uint8 [n]); `scale` is the brightest value."""
    fingerprint = 0
    for array in (*train, *test):
        fingerprint = zlib.crc32(numpy.ascontiguousarray(array), fingerprint)
    return Task(name, _dataset(*train, scale), _dataset(*test, scale), defaults, fingerprint)


def _dataset(pictures, labels, scale):
    return TensorDataset(as_input(pictures, scale), flambeau.from_numpy(labels.astype(numpy.int64)))


def as_input(pictures, scale):
    """uint8 [n, height, width] -> float32 [n, 1, height, width] in 0..1, as the networks take it."""
    scaled = pictures[:, None].astype(numpy.float32) / numpy.float32(scale)
    return flambeau.from_numpy(scaled)
