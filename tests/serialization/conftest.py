"""The module `values` as files name it: with Flambeau in PyTorch's place."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

import flambeau

HERE = Path(__file__).parent


def load_values():
    spec = importlib.util.spec_from_file_location("values", HERE / "values.py")
    module = importlib.util.module_from_spec(spec)
    module.torch = flambeau
    sys.modules["values"] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def values():
    return sys.modules.get("values") or load_values()


@pytest.fixture
def torch_runs():
    """Runs a program in PyTorch's interpreter, with `torch` and `values` imported."""
    python = os.environ.get("FLAMBEAU_TORCH_PYTHON", sys.executable)
    if subprocess.run([python, "-c", "import torch"], capture_output=True, check=False).returncode:
        pytest.skip(f"{python} has no PyTorch; set FLAMBEAU_TORCH_PYTHON to an interpreter that has")

    def run(program, *arguments):
        program = f"import sys; sys.dont_write_bytecode = True; import torch, values\n{program}"
        done = subprocess.run([python, "-c", program, *map(str, arguments)], cwd=HERE, text=True, capture_output=True,
                              check=False)
        assert done.returncode == 0, done.stderr[-3000:]
        return done.stdout

    return run
