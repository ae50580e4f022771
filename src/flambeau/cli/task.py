"""A training task as plain data: images, labels, the name of its network, its default settings."""

import zlib
from dataclasses import dataclass, replace

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
    model: dict | None = None  # of color pictures: the vision model, the names of its classes, the size of its input

    @property
    def title(self):
        """What the run is called in words."""
        return f"{self.name} {self.model['name']}" if self.model else self.name


def make_task(name, train, test, scale, defaults):
    """`train` and `test` are (pictures uint8 [n, height, width], labels uint8 [n]); `scale` is the brightest value."""
    fingerprint = 0
    for array in (*train, *test):
        fingerprint = zlib.crc32(numpy.ascontiguousarray(array), fingerprint)
    return Task(name, _dataset(*train, scale), _dataset(*test, scale), defaults, fingerprint)


def make_picture_task(name, train, test, model, defaults):
    """`train` and `test` are (pictures uint8 [n, 3, height, width], labels int64 [n]); `model` is (name of the vision
    model, names of the classes, size of its input)."""
    fingerprint = 0
    for array in (*train, *test):
        fingerprint = zlib.crc32(numpy.ascontiguousarray(array), fingerprint)
    datasets = [TensorDataset(*(flambeau.from_numpy(numpy.ascontiguousarray(array)) for array in part))
                for part in (train, test)]
    while defaults.batch_size > 2 and len(train[0]) % defaults.batch_size == 1:  # the last batch would be one picture
        defaults = replace(defaults, batch_size=defaults.batch_size - 1)
    return Task(name, *datasets, defaults, fingerprint, dict(zip(("name", "classes", "size"), model, strict=True)))


def _dataset(pictures, labels, scale):
    return TensorDataset(as_input(pictures, scale), flambeau.from_numpy(labels.astype(numpy.int64)))


def as_input(pictures, scale):
    """uint8 [n, height, width] -> float32 [n, 1, height, width] in 0..1, as the networks take it."""
    scaled = pictures[:, None].astype(numpy.float32) / numpy.float32(scale)
    return flambeau.from_numpy(scaled)
