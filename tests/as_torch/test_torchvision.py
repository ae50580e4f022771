"""`import torchvision` gives flambeau.vision; an installed torchvision's files stand in for what it has not."""

import os

import pytest

from flambeau import as_torch

from .test_process import SOURCE, python, served


def test_its_modules_are_ours():
    assert served("""
import torch, torchvision
import torchvision.transforms as T, torchvision.transforms.v2.functional as F
from torchvision import tv_tensors
from torchvision.transforms.functional import InterpolationMode
import flambeau.vision
assert T is torchvision.transforms is flambeau.vision.transforms
assert F.resize is flambeau.vision.transforms.v2.functional.resize
assert T.InterpolationMode is InterpolationMode and tv_tensors.Image.__module__.startswith("torchvision.")
assert torchvision.__version__ >= "0.20" and torchvision.version.__version__ == torchvision.__version__
print(T.Resize.__module__.partition(".")[0], type(tv_tensors.Image(torch.ones(1, 2, 2))).__name__)
""") == "torchvision Image"


def test_packages_find_it_before_and_after_torch():
    code = ("import importlib.util, importlib.metadata; assert importlib.util.find_spec('torchvision'); "
            "import torchvision, torch; print(torch.__name__, torchvision.transforms.Resize(3).size, "
            "importlib.metadata.version('torchvision').split('+')[0])")
    path = os.pathsep.join([SOURCE, as_torch.PATH])
    assert python("-c", code, PYTHONPATH=path) == "torch 3 0.28.0"
    assert served(code) == "torch 3 0.28.0"


def test_transforms_go_through_pickles():
    assert served("import pickle; from torchvision import transforms as T; "
                  "print(pickle.loads(pickle.dumps(T.Compose([T.CenterCrop(3)]))).transforms[0].size)") == "(3, 3)"


@pytest.fixture
def installed(tmp_path):
    """A folder with something that calls itself torchvision."""
    (tmp_path / "torchvision" / "extra").mkdir(parents=True)
    for name in ("", "extra/", "transforms/"):
        (tmp_path / "torchvision" / name).mkdir(exist_ok=True)
        (tmp_path / "torchvision" / name / "__init__.py").write_text("THEIRS = True\n")
    (tmp_path / "torchvision/extra/deep.py").write_text("from ..transforms import Resize\nVALUE = Resize(4).size\n")
    return os.pathsep.join([SOURCE, as_torch.PATH, str(tmp_path)])


def test_what_ours_lacks_comes_from_an_installed_one(installed):
    code = "import torch, torchvision; import torchvision.extra.deep as deep; import torchvision.transforms as T; "
    assert python("-c", code + "print(deep.VALUE, hasattr(T, 'THEIRS'), torchvision.extra.THEIRS)",
                  PYTHONPATH=installed) == "4 False True"


def test_what_is_nowhere_is_named():
    done = python("-m", "flambeau.as_torch", "-c", "import torchvision.nothing", check=False)
    assert "torchvision.nothing is not in flambeau.vision" in done.stderr
    done = python("-m", "flambeau.as_torch", "-c", "import torchvision; torchvision.nothing", check=False)
    assert "AttributeError: module 'torchvision' (Flambeau" in done.stderr and "'nothing'" in done.stderr
