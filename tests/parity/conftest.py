"""PyTorch in another process: $FLAMBEAU_TORCH_PYTHON names its interpreter (default: this one, if it has PyTorch)."""

import os
import pickle
import struct
import subprocess
import sys
from pathlib import Path

import pytest

import flambeau


def encode(x):
    if isinstance(x, flambeau.Tensor):
        x = x.detach()
        name = str(x.dtype).split(".")[1]
        return ("tensor", name, (x.float() if x.dtype == flambeau.bfloat16 else x).numpy())
    if isinstance(x, flambeau.dtype):
        return ("dtype", str(x).split(".")[1])
    if isinstance(x, (list, tuple)):
        return type(x)(encode(v) for v in x)
    return x


class Torch:
    """Calls PyTorch's operators by name."""

    def __init__(self, python):
        self.process = subprocess.Popen([python, str(Path(__file__).with_name("worker.py"))], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE)

    def ask(self, requests, seed=0):
        """[(name, args, kwargs)] -> [("result", …), ("error", type, text) or ("missing", name)]."""
        data = pickle.dumps([(n, encode(tuple(a)), {k: encode(v) for k, v in kw.items()}, seed)
                             for n, a, kw in requests])
        self.process.stdin.write(struct.pack("<q", len(data)) + data)
        self.process.stdin.flush()
        size = struct.unpack("<q", self.process.stdout.read(8))[0]
        return pickle.loads(self.process.stdout.read(size))


@pytest.fixture(scope="session")
def torch_python():
    """An interpreter that has PyTorch; what asks for it is skipped without one."""
    python = os.environ.get("FLAMBEAU_TORCH_PYTHON", sys.executable)
    known = subprocess.run([python, "-c", "import torch, numpy"], capture_output=True, check=False)
    if known.returncode:
        pytest.skip(f"{python} has no PyTorch; set FLAMBEAU_TORCH_PYTHON to an interpreter that has")
    return python


@pytest.fixture(scope="session")
def torch_process(torch_python):
    torch = Torch(torch_python)
    yield torch
    torch.process.stdin.close()
    torch.process.stdout.close()
    torch.process.wait()
