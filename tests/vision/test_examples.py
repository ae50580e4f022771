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


def test_dcgan(folder, tmp_path):
    costs, images = load("vision_dcgan").run(folder / "train", epochs=40, output=tmp_path / "drawn.png", width=8,
                                             batch=8, lr=2e-3)
    telling, fooling = zip(*costs, strict=True)
    assert min(telling) < 0.7 < 2 * 0.6931 < telling[0] + 0.3 and max(fooling) > fooling[0]
    assert images.shape == (64, 3, 32, 32) and images.min() >= 0 and images.max() <= 1 and images.std() > 0.02
    with image_module.open(tmp_path / "drawn.png") as picture:
        assert picture.size == (8 * 34 + 2, 8 * 34 + 2)


@pytest.fixture
def masked(tmp_path):
    """A bright square on a dark ground, and the mask that says so; its border belongs to any class."""
    draw = numpy.random.RandomState(0)
    for name in ("images", "masks"):
        (tmp_path / "data" / name).mkdir(parents=True)
    for k in range(20):
        pixels, mask = draw.randint(0, 60, (64, 64, 3)).astype(numpy.uint8), numpy.zeros((64, 64), numpy.uint8)
        y, x = draw.randint(4, 26, 2)
        mask[y - 1:y + 33, x - 1:x + 33] = 255
        mask[y:y + 32, x:x + 32] = 1
        pixels[mask == 1] += 150
        image_module.fromarray(pixels).save(tmp_path / "data/images" / f"{k}.jpg")
        image_module.fromarray(mask).save(tmp_path / "data/masks" / f"{k}.png")
    return tmp_path / "data"


def test_segmentation(masked):
    example = load("vision_segmentation")
    reached = example.run(masked, classes=2, size=32, epochs=4, batch=4, lr=3e-3)
    assert reached[-1][0] < 0.6 * reached[0][0] and all(0 <= overlap <= 1 for _, overlap in reached)


def test_overlap_of_known_masks():
    class Always(flambeau.nn.Module):
        def forward(self, images):
            return {"out": flambeau.tensor([0.0, 1.0, 0.0]).view(1, 3, 1, 1).expand(len(images), 3, 2, 2)}

    masks = flambeau.tensor([[[1, 1], [0, 255]]])  # found: 1 everywhere. Class 0: 0 of 1; class 1: 2 of 3; no class 2
    found = load("vision_segmentation").overlaps(Always(), [(flambeau.zeros(1, 3, 2, 2), masks)], 3)
    assert found == pytest.approx((0 + 2 / 3) / 2)
