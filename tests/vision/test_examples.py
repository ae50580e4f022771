"""The examples of vision learn something from a handful of images."""

import importlib.util
from pathlib import Path

import numpy
import pytest

import flambeau

image_module = pytest.importorskip("PIL.Image")
EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def load(name):
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    flambeau.manual_seed(0)
    return module


@pytest.fixture
def folder(tmp_path):
    """Dark images and bright ones, each with a square somewhere: train/dark, train/bright, val/…"""
    draw = numpy.random.RandomState(0)
    for part, count in (("train", 8), ("val", 3)):
        for name, level in (("bright", 180), ("dark", 40)):
            place = tmp_path / "data" / part / name
            place.mkdir(parents=True)
            for k in range(count):
                pixels = draw.randint(level, level + 20, (32, 32, 3)).astype(numpy.uint8)
                y, x = draw.randint(2, 20, 2)
                pixels[y:y + 10, x:x + 10] = 255 - level
                image_module.fromarray(pixels).save(place / f"{k}.png")
    return tmp_path / "data"


def test_classification(folder):
    reached = load("vision_classification").run(folder, "shufflenet_v2_x0_5", size=32, epochs=2, batch=8)
    assert len(reached) == 2 and all(value * 6 == pytest.approx(round(value * 6)) for value in reached)


def test_vae(folder, tmp_path):
    costs = load("vision_vae").run(folder / "train", epochs=6, output=tmp_path / "new.png", batch=8)
    assert costs[-1] < 0.97 * costs[0]
    with image_module.open(tmp_path / "new.png") as picture:
        assert picture.size == (8 * 34 + 2, 8 * 34 + 2)


def test_super_resolution(folder):
    before, after = load("vision_super_resolution").run(folder / "train", epochs=8, size=32, batch=8)
    assert after > before + 0.1
