"""The library without Python runs saved programs: from C, from threads, with plans of the file; damaged files, too."""

import shutil
import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import flambeau
from flambeau import _C, nn
from flambeau.export import Dim, export, save
from flambeau.utils.cpp_extension import include_paths

from ..fx.test_export import MODELS

LIBRARY = Path(_C.__file__).parent / "lib" / "libflambeau.so"
WORKER = Path(__file__).with_name("library.py")
EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "run_program.c"

pytestmark = pytest.mark.skipif(not LIBRARY.exists(), reason="libflambeau.so is not built here")


def call(name, *args):
    return subprocess.run([sys.executable, WORKER, LIBRARY, name, *map(str, args)], capture_output=True, text=True)


def arrays(path, *tensors):
    np.savez(path, *(t.numpy() for t in tensors))
    return path.with_suffix(".npz")


@pytest.fixture(scope="module")
def images(tmp_path_factory):
    """(a folder with a saved network "net.pt2", the network)"""
    folder = tmp_path_factory.mktemp("programs")
    flambeau.manual_seed(0)
    net = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.Conv2d(8, 8, 3), nn.GELU(),
                        nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(32, 5), nn.Softmax(-1)).eval()
    save(export(net, (flambeau.randn(2, 3, 32, 32),), dynamic_shapes=({0: Dim("batch")},)), folder / "net.pt2")
    return folder, net


@pytest.mark.parametrize("name", MODELS)
def test_models(name, tmp_path):
    build, example, said, others = MODELS[name]
    flambeau.manual_seed(0)
    model = build().eval()
    save(export(model, (flambeau.randn(*example),), dynamic_shapes=(said,)), tmp_path / "model.pt2")
    inputs = [flambeau.randn(*sizes) for sizes in (example, *others) for _ in range(2)]
    files = [arrays(tmp_path / f"{k}.npz", x) for k, x in enumerate(inputs)]
    done = call("run", tmp_path / "model.pt2", ",".join(map(str, files)), tmp_path / "out.npz")
    assert not done.returncode, done.stderr
    found = np.load(tmp_path / "out.npz")
    for k, x in enumerate(inputs):
        with flambeau.no_grad():
            expected = [t for t in flambeau.utils._pytree.tree_leaves(model(x)) if isinstance(t, flambeau.Tensor)]
        for n, t in enumerate(expected):
            np.testing.assert_allclose(found[f"{k}-{n}"], t.numpy(), rtol=1e-5, atol=1e-6)


def test_threads(images):
    folder, _ = images
    done = call("threads", folder / "net.pt2", arrays(folder / "x.npz", flambeau.randn(4, 3, 32, 32)))
    assert not done.returncode, done.stderr


def test_damaged_files_are_errors(images):
    folder, _ = images
    done = call("fuzz", folder / "net.pt2", arrays(folder / "y.npz", flambeau.randn(2, 3, 32, 32)), 0, 300)
    assert not done.returncode, done.stderr
    assert 100 < int(done.stdout) <= 300


def test_a_weight_that_ends_near_2_to_63_is_an_error(tmp_path):
    class Bytes(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("table", flambeau.arange(5, dtype=flambeau.uint8))

        def forward(self, x):
            return x + self.table.sum()

    path = tmp_path / "bytes.pt2"
    save(export(Bytes(), (flambeau.ones(2),)), path)
    layout, far = struct.pack("<5q", 1, 5, 1, 1, 0), struct.pack("<5q", 1, 2**63 - 1, 1, 1, 1)
    raw = path.read_bytes()
    assert raw.count(layout) == 1  # sizes [5], strides [1], offset 0
    path.write_bytes(raw.replace(layout, far))
    done = call("run", path, arrays(tmp_path / "x.npz", flambeau.ones(2)), tmp_path / "out.npz")
    assert done.returncode == 1 and "a weight reaches beyond its memory" in done.stderr


@pytest.mark.skipif(not shutil.which("gcc"), reason="needs gcc")
@pytest.mark.skipif(not EXAMPLE.exists(), reason="the examples are not here")
def test_the_example_in_c(images):
    folder, net = images
    program = folder / "run_program"
    subprocess.run(["gcc", "-Wall", "-Wextra", "-Werror", EXAMPLE, f"-I{include_paths()[0]}", f"-L{LIBRARY.parent}",
                    "-lflambeau", f"-Wl,-rpath,{LIBRARY.parent}", "-o", program], check=True)

    def result(*args):
        return subprocess.run([program, *args], capture_output=True, text=True)

    done = result(folder / "net.pt2", "2,3,32,32")
    assert done.stdout.startswith("softmax [2, 5] "), done.stderr
    found = [float(x) for x in done.stdout.split()[3:]]
    np.testing.assert_allclose(found, net(flambeau.zeros(2, 3, 32, 32))[0, :4].detach().numpy(), rtol=1e-4)
    assert "input.shape[3] must be 32, got 31" in result(folder / "net.pt2", "2,3,32,31").stderr
    assert "takes 1 inputs: input (float32)" in result(folder / "net.pt2").stderr
    assert "No such file" in result("nothing.pt2", "1").stderr


def test_library_beside_the_package(images, tmp_path):
    """Both fit in one process: what each thread has from the start is scarce there (native/core/state.h)."""
    folder, net = images
    x = flambeau.randn(3, 3, 32, 32)
    with flambeau.no_grad():
        expected = net(x).numpy()
    arrays(tmp_path / "in.npz", x)
    code = ("import sys, flambeau; sys.path.insert(0, sys.argv[1]); import library\n"
            "library.run(library.Library(sys.argv[2]), *sys.argv[3:])\n"
            "assert flambeau.ones(3).sum() == 3")
    files = folder / "net.pt2", tmp_path / "in.npz", tmp_path / "out.npz"
    done = subprocess.run([sys.executable, "-c", code, WORKER.parent, LIBRARY, *files], capture_output=True, text=True)
    assert not done.returncode, done.stderr
    np.testing.assert_allclose(np.load(tmp_path / "out.npz")["0-0"], expected, rtol=1e-6, atol=1e-7)
