"""State dicts of models: PyTorch's are loaded here, ours there, and the models compute the same numbers."""

import io
import os
import subprocess
import sys
from pathlib import Path

import pytest

import flambeau

from . import models

#: written by `python tests/serialization/models.py write tests/serialization/torch_models.pt` with PyTorch
WRITTEN = Path(__file__).with_name("torch_models.pt")


def test_models_of_pytorch_are_loaded():
    models.compare(flambeau, flambeau.load(WRITTEN))


@pytest.mark.parametrize("build", models.MODELS, ids=lambda build: build.__name__)
def test_keys_and_shapes_are_pytorchs(build):
    theirs = flambeau.load(WRITTEN)[build.__name__]["state"]
    ours = build(flambeau)[0].state_dict()
    assert [(k, v.shape, v.dtype) for k, v in ours.items()] == [(k, v.shape, v.dtype) for k, v in theirs.items()]


@pytest.mark.parity
def test_pytorch_loads_what_we_write(tmp_path):
    python = os.environ.get("FLAMBEAU_TORCH_PYTHON", sys.executable)
    if subprocess.run([python, "-c", "import torch"], capture_output=True, check=False).returncode:
        pytest.skip(f"{python} has no PyTorch; set FLAMBEAU_TORCH_PYTHON to an interpreter that has")
    flambeau.save(models.written(flambeau), tmp_path / "models.pt")
    subprocess.run([python, models.__file__, "check", str(tmp_path / "models.pt")], check=True)


@pytest.mark.parametrize("depth", [3, 60])
def test_deep_dicts_are_not_counted_twice(depth):
    value = {"x": flambeau.ones(1)}
    for _ in range(depth):
        value = {"a": value}
    file = io.BytesIO()
    flambeau.save(value, file)
    file.seek(0)
    loaded = flambeau.load(file)
    for _ in range(depth):
        loaded = loaded["a"]
    assert loaded["x"].item() == 1


def test_a_transformer_as_a_whole():
    model = flambeau.nn.Transformer(4, 2, 2, 2, 8)
    file = io.BytesIO()
    flambeau.save(model, file)
    file.seek(0)
    loaded = flambeau.load(file, weights_only=False)
    assert loaded.state_dict().keys() == model.state_dict().keys() and type(loaded) is flambeau.nn.Transformer


@pytest.mark.parametrize("module", [
    flambeau.nn.ModuleList([flambeau.nn.Linear(1, 1)]), flambeau.nn.Sequential(flambeau.nn.Linear(1, 1)),
    flambeau.nn.ModuleDict({"a": flambeau.nn.Linear(1, 1)}), flambeau.nn.ParameterList([flambeau.ones(1)]),
    flambeau.nn.ParameterDict({"a": flambeau.ones(1)})], ids=lambda module: type(module).__name__)
def test_containers_that_are_named_safe(module):
    file = io.BytesIO()
    flambeau.save(module, file)
    file.seek(0)
    with flambeau.serialization.safe_globals([type(module), flambeau.nn.Linear]):
        loaded = flambeau.load(file)
    assert type(loaded) is type(module) and len(loaded) == 1
    assert str(loaded.state_dict()) == str(module.state_dict())
