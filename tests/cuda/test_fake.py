"""CUDA without a device: the cases of tests/cuda/fake, each file in a process whose driver is a fake one."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from flambeau._libraries import find_lapack

from . import fake

CASES = sorted(fake.HERE.glob("case_*.py"))
ROOT = Path(__file__).parents[2]


@pytest.mark.skipif(fake.COMPILER is None, reason="no C++ compiler to build the fake driver with")
@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_cases(path):
    run_case(path)


@pytest.mark.exhaustive
@pytest.mark.skipif(fake.COMPILER is None, reason="no C++ compiler to build the fake driver with")
@pytest.mark.parametrize("name", ("libraries_batches", "networks"))
def test_exhaustive_cases(name):
    run_case(fake.HERE / f"case_{name}.py", "-m", "exhaustive")


def run_case(path, *options):
    libraries = {}
    if "libraries" in path.stem:
        older = ["-DOLDER"] if "older" in path.stem else []
        libraries = {fake.LIBRARY_FOLDER: str(fake.build_libraries(*older)), "FLAMBEAU_FAKE_LAPACK": find_lapack()}
    run = subprocess.run([sys.executable, "-m", "pytest", "-q", "-x", "-n0", "-p", "no:cacheprovider",
                          *options, str(path.relative_to(ROOT))], cwd=ROOT, capture_output=True, text=True, timeout=300,
                         env={**os.environ, fake.VARIABLE: str(fake.build_driver()), **libraries})
    assert run.returncode == 0, run.stdout[-6000:] + run.stderr[-2000:]


LAWS = ("dtypes", "errors", "forms", "gradients", "layouts", "reference")
SOME = ("add", "conv1d", "cumsum", "exp", "index_select", "linear", "softmax")


@pytest.mark.skipif(fake.COMPILER is None, reason="no C++ compiler to build the fake driver with")
def test_laws_of_the_op_table_take_the_device():
    """`pytest tests/ops --device cuda`, here for a few operators."""
    run = subprocess.run([sys.executable, "-m", "pytest", "-q", "-x", "-n0", "-p", "no:cacheprovider", "-p",
                          "tests.cuda.emulate", "--device", "cuda", *(f"tests/ops/test_{law}.py" for law in LAWS), "-k",
                          " or ".join(f"[{name}]" for name in SOME)], cwd=ROOT, capture_output=True, text=True,
                         timeout=300, env={**os.environ, fake.VARIABLE: str(fake.build_driver())})
    assert run.returncode == 0, run.stdout[-6000:] + run.stderr[-2000:]
    assert int(run.stdout.rsplit(" passed", 1)[0].rsplit(None, 1)[-1]) > 80


@pytest.mark.exhaustive
@pytest.mark.skipif(fake.COMPILER is None, reason="no C++ compiler to build the fake driver with")
@pytest.mark.parametrize("libraries", (True, False))
def test_laws_of_all_operators_on_the_device(libraries):
    """Whole, with the fake libraries and without any: what needs one is skipped then, with the library's name."""
    more = {}
    if libraries:
        more = {fake.LIBRARY_FOLDER: str(fake.build_libraries()), "FLAMBEAU_FAKE_LAPACK": find_lapack()}
    run = subprocess.run([sys.executable, "-m", "pytest", "-q", "-n2", "-p", "no:cacheprovider", "-p",
                          "tests.cuda.emulate", "--device", "cuda", *(f"tests/ops/test_{law}.py" for law in LAWS)],
                         cwd=ROOT, capture_output=True, text=True, timeout=3600,
                         env={**os.environ, fake.VARIABLE: str(fake.build_driver()), **more})
    assert run.returncode == 0, run.stdout[-6000:] + run.stderr[-2000:]
