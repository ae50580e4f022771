"""Training on a folder of images: the same losses with any number of workers, and those of PyTorch."""

import json
import os
import random
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).resolve().parents[3] / "examples" / "image_folder.py"


@pytest.fixture(scope="module")
def images(tmp_path_factory):
    """Three classes of images of different sizes, in which another colour prevails each."""
    root = tmp_path_factory.mktemp("images")
    draw = random.Random(0)
    for k, name in enumerate(("blue", "green", "red")):
        (root / name).mkdir()
        for n in range(14):
            width, height = draw.randrange(30, 60), draw.randrange(30, 60)
            pixels = bytes(min(255, draw.randrange(120) + 100 * (c == k)) for _ in range(width * height)
                           for c in range(3))
            (root / name / f"{n}.ppm").write_bytes(b"P6\n%d %d\n255\n" % (width, height) + pixels)
    return root


def losses(images, *options, python=sys.executable, text=None):
    """What the example writes down; `text`: another one in its place."""
    path, found = EXAMPLE, images.parent / "losses.json"
    if text is not None:
        path = images.parent / "program.py"
        path.write_text(text)
    done = subprocess.run([python, str(path), str(images), "--threads", "1", "--losses", str(found), *options],
                          capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(found.read_text())


def test_losses_do_not_depend_on_the_workers(images):
    found = losses(images)
    assert len(found) == 18 and found[-1] < 0.3 * found[0]
    assert losses(images, "--workers", "2") == found


def as_jpeg(images, tmp_path):
    """The images as JPEG files, made with Pillow."""
    from PIL import Image
    for path in images.rglob("*.ppm"):
        folder = tmp_path / "jpeg" / path.parent.name
        folder.mkdir(parents=True, exist_ok=True)
        Image.open(path).save(folder / f"{path.stem}.jpg", quality=90)
    return tmp_path / "jpeg"


@pytest.mark.parity
@pytest.mark.parametrize("workers", ["0", "2"])
@pytest.mark.parametrize("kind", ["PPM", "JPEG"])
def test_losses_are_those_of_pytorch(images, tmp_path, kind, workers):
    python = os.environ.get("FLAMBEAU_TORCH_PYTHON", sys.executable)
    needed = "import torch" + ", PIL" * (kind == "JPEG")
    if subprocess.run([python, "-c", needed], capture_output=True, check=False).returncode:
        pytest.skip(f"{python} has no PyTorch (for JPEG: with Pillow); set FLAMBEAU_TORCH_PYTHON to one that has")
    if kind == "JPEG":
        if not find_spec("PIL"):
            pytest.skip("Pillow is not installed")
        images = as_jpeg(images, tmp_path)
    text = EXAMPLE.read_text().replace("import flambeau as torch", "import torch").replace(
        "import flambeau.utils.data as data", "import torch.utils.data as data")
    expected = losses(images, "--workers", workers, python=python, text=text)
    found = losses(images, "--workers", workers, "--seeding", "worker")
    assert len(found) == len(expected) == 18 and found == pytest.approx(expected, abs=1e-4)
    print(f"{kind}, {workers} workers: losses at most {max(abs(a - b) for a, b in zip(found, expected)):.1e} apart")
