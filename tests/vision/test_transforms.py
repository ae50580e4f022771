"""Transforms: what torchvision gives on a drawn picture with the same seeds (kept as digests), and laws."""

import json
from pathlib import Path

import pytest

import flambeau
from flambeau import vision
from flambeau.vision import transforms as T
from flambeau.vision.transforms import functional as F
from flambeau.vision.transforms import v2

Image = pytest.importorskip("PIL.Image")

from ..parity import vision_cases  # noqa: E402

KEPT = json.loads(Path(__file__).with_name("transforms.json").read_text())


@pytest.fixture(scope="module")
def results():
    found = vision_cases.run(flambeau, vision, {"drawn": vision_cases.drawn()}, seeds=1,
                              leave=("PIL L", "float32"))
    table = {}
    for (_, version, kind, expression, _), value in found.items():
        table.setdefault(f"{version} {kind}", {}).setdefault(expression, []).append(vision_cases.digest(value))
    return table


@pytest.mark.parametrize("group", list(KEPT))
def test_the_same_seed_gives_what_torchvision_gives(results, group):
    wrong = [expression for expression, digests in KEPT[group].items() if results[group][expression] != digests]
    assert not wrong


@pytest.fixture
def byte():
    return F.pil_to_tensor(vision_cases.drawn())


def test_moves_that_undo_each_other(byte):
    assert F.hflip(F.hflip(byte)).equal(byte) and F.vflip(F.vflip(byte)).equal(byte)
    assert F.crop(F.pad(byte, [3, 4, 5, 6]), 4, 3, 80, 100).equal(byte)
    assert F.pad(byte, [-3, -4, -5, -6]).equal(F.crop(byte, 4, 3, 70, 92))
    assert F.invert(F.invert(byte)).equal(byte) and F.resize(byte, [80, 100]) is byte
    assert v2.functional.rotate(v2.functional.rotate(byte, 90, expand=True), 270, expand=True).equal(byte)


@pytest.mark.parametrize("change", [F.hflip, F.vflip, F.invert, F.equalize, lambda x: F.pad(x, 7, fill=9),
                                    lambda x: F.crop(x, -3, 5, 90, 20), lambda x: F.posterize(x, 4),
                                    lambda x: F.solarize(x, 100), lambda x: F.center_crop(x, [90, 40])])
def test_pictures_and_tensors_agree_to_the_bit(byte, change):
    assert F.pil_to_tensor(change(vision_cases.drawn())).equal(change(byte))


def test_the_values_of_white_and_black():
    white = flambeau.full((3, 2, 2), 255, dtype=flambeau.uint8)
    assert F.convert_image_dtype(white, flambeau.float32).max() == 1
    assert F.convert_image_dtype(F.convert_image_dtype(white, flambeau.float32), flambeau.uint8).equal(white)
    assert F.convert_image_dtype(white, flambeau.int16).max() == 255 * 128
    with pytest.raises(RuntimeError, match="too few digits"):
        F.convert_image_dtype(white.float(), flambeau.int32)


def test_arrays_become_tensors_and_back(byte):
    numpy = pytest.importorskip("numpy")
    array = numpy.asarray(vision_cases.drawn())
    assert F.to_tensor(array).equal(byte.float() / 255)
    assert F.pil_to_tensor(F.to_pil_image(array)).equal(byte) and F.to_pil_image(byte).mode == "RGB"
    assert F.to_pil_image(byte[:1]).mode == "L" and F.to_pil_image(byte[:1].float() / 255).mode == "L"
    assert F.to_pil_image(flambeau.ones(1, 2, 2), mode="F").mode == "F"


@pytest.mark.parametrize(("call", "error", "says"), [
    (lambda x: F.resize(x, [1, 2, 3]), ValueError, r"one or two numbers, got \[1, 2, 3\]"),
    (lambda x: F.resize(x, 10, max_size=9), ValueError, r"max_size \(9\)"),
    (lambda x: F.pad(x, [1, 2, 3]), ValueError, "1, 2 or 4"),
    (lambda x: F.pad(x, 1, padding_mode="mirror"), ValueError, "'symmetric'"),
    (lambda x: F.adjust_hue(x, 0.7), ValueError, "between -0.5 and 0.5, got 0.7"),
    (lambda x: F.gaussian_blur(x, 4), ValueError, "odd"),
    (lambda x: F.posterize(x.float(), 3), TypeError, "uint8"),
    (lambda x: F.normalize(x, [0.5], [0.5]), TypeError, "floats"),
    (lambda x: F.normalize(x.float(), [0.5], [0.0]), ValueError, "zero"),
    (lambda x: F.hflip("picture"), TypeError, "got str"),
    (lambda x: T.RandomCrop(200)(x), ValueError, "pad_if_needed"),
    (lambda x: T.Resize({}), TypeError, "number or"),
    (lambda x: T.ColorJitter(brightness=-1), ValueError, "must not be negative"),
    (lambda x: T.RandomRotation(-4), ValueError, "must not be negative"),
    (lambda x: T.AugMix(11), ValueError, "between 1 and 10"),
    (lambda x: F.affine(x, 0, [0, 0], 0, [0.0]), ValueError, "scale must be positive"),
    (lambda x: F.resize(x, 5, interpolation="cubic"), ValueError, "'cubic'"),
])
def test_errors_name_what_came(byte, call, error, says):
    with pytest.raises(error, match=says):
        call(byte)


def test_settings_are_shown():
    assert repr(T.Compose([T.Resize(60), T.CenterCrop(50)])) == (
        "Compose(\n    Resize(size=60, interpolation=bilinear, max_size=None, antialias=True)\n"
        "    CenterCrop(size=(50, 50))\n)")
    assert repr(T.RandomAffine(3)) == "RandomAffine(degrees=[-3.0, 3.0])"
    assert repr(v2.RandomCrop(40)) == "RandomCrop(size=(40, 40), pad_if_needed=False, fill=0, padding_mode=constant)"


def test_pillow_is_imported_only_where_a_picture_is():
    import subprocess
    import sys
    program = ("import sys, flambeau; from flambeau.vision.transforms import v2; "
               "v2.RandomCrop(2)(flambeau.zeros(3, 4, 4)); print('PIL' in sys.modules, 'numpy' in sys.modules)")
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, text=True,
                          check=True).stdout.split() == ["False", "False"]
