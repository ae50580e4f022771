"""Pictures from every kind of file, and what is refused."""

import sys

import numpy
import pytest

from flambeau.cli import main
from flambeau.cli.digits import read_digits

from .helpers import idx_bytes


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    folder = tmp_path_factory.mktemp("run")
    assert main(["train", "digits", "--epochs", "4", "--output", str(folder)]) == 0
    return folder / "checkpoint.pt"


def prediction(run, checkpoint, image):
    code, out, err = run("predict", checkpoint, image)
    assert code == 0, err
    assert out.count("%") >= 10
    return int(out.splitlines()[-1].removeprefix("prediction: "))


def test_the_packages_own_digits(run, checkpoint):
    labels = read_digits()[1]
    assert sum(prediction(run, checkpoint, f"digits:{k}") == labels[k] for k in range(20)) >= 18


def test_files_of_every_kind_agree(run, checkpoint, tmp_path):
    image_module = pytest.importorskip("PIL.Image")
    pictures = read_digits()[0][:3]
    numpy.save(tmp_path / "one.npy", pictures[0])
    numpy.save(tmp_path / "floats.npy", pictures[0] / 16)
    numpy.save(tmp_path / "three.npy", pictures)
    bright = (pictures.astype(int) * 255 // 16).astype(numpy.uint8)
    (tmp_path / "three-idx3-ubyte").write_bytes(idx_bytes(bright))
    image_module.fromarray(bright[0]).save(tmp_path / "one.png")
    paper = 255 - numpy.pad(bright[0].repeat(12, 0).repeat(12, 1), 60)  # dark ink on a large sheet
    image_module.fromarray(paper).convert("RGB").save(tmp_path / "scan.jpg", quality=95)
    for name in ("one.npy", "floats.npy", "three.npy:0", "three-idx3-ubyte:0", "one.png", "scan.jpg"):
        assert prediction(run, checkpoint, tmp_path / name) == 0, name


def test_what_is_refused(refused, checkpoint, tmp_path):
    numpy.save(tmp_path / "three.npy", numpy.zeros((3, 8, 8)))
    numpy.save(tmp_path / "flat.npy", numpy.zeros(64))
    numpy.save(tmp_path / "nan.npy", numpy.full((8, 8), numpy.nan))
    numpy.save(tmp_path / "objects.npy", numpy.array([["a", {}]], object))
    (tmp_path / "broken.npy").write_bytes(b"\x93NUMPY")
    (tmp_path / "broken.png").write_bytes(b"\x89PNG\r\n")
    for name, text in {"three.npy": "choose one", "three.npy:3": "does not exist", "flat.npy": "two dimensions",
                       "nan.npy": "finite", "objects.npy": "not a .npy", "broken.npy": "not a .npy",
                       "broken.png": "not an image", "missing.png": "no such image"}.items():
        err = refused("predict", checkpoint, tmp_path / name)
        assert text in err and name.partition(":")[0] in err
    assert "does not exist" in refused("predict", checkpoint, "digits:1797")


def test_without_pillow(refused, checkpoint, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "PIL", None)
    (tmp_path / "a.png").write_bytes(b"")
    assert "pillow" in refused("predict", checkpoint, tmp_path / "a.png")
