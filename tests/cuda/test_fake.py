"""CUDA without a device: the cases of tests/cuda/fake, each file in a process whose driver is a fake one."""

import pytest

from flambeau._libraries import find_lapack

from . import fake

CASES = sorted(fake.HERE.glob("case_*.py"))


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
    fake.pytest_with_driver(*options, str(path), **libraries)


LAWS = ("dtypes", "errors", "forms", "gradients", "layouts", "reference")
SOME = ("add", "conv1d", "cumsum", "exp", "index_select", "linear", "softmax")
ON_THE_DEVICE = ["-p", "tests.cuda.emulate", "--device", "cuda", *(f"tests/ops/test_{law}.py" for law in LAWS)]


@pytest.mark.skipif(fake.COMPILER is None, reason="no C++ compiler to build the fake driver with")
def test_laws_of_the_op_table_take_the_device():
    """`pytest tests/ops --device cuda`, here for a few operators."""
    out = fake.pytest_with_driver(*ON_THE_DEVICE, "-k", " or ".join(f"[{name}]" for name in SOME))
    assert int(out.rsplit(" passed", 1)[0].rsplit(None, 1)[-1]) > 80


@pytest.mark.exhaustive
@pytest.mark.skipif(fake.COMPILER is None, reason="no C++ compiler to build the fake driver with")
@pytest.mark.parametrize("libraries", (True, False))
def test_laws_of_all_operators_on_the_device(libraries):
    """Whole, with the fake libraries and without any: what needs one is skipped then, with the library's name."""
    more = {}
    if libraries:
        more = {fake.LIBRARY_FOLDER: str(fake.build_libraries()), "FLAMBEAU_FAKE_LAPACK": find_lapack()}
    fake.pytest_with_driver(*ON_THE_DEVICE, workers=2, timeout=3600, **more)
