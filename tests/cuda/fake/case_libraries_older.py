"""Releases of the libraries without the functions that the newest have."""

import pytest

import flambeau as fb
from flambeau import linalg

from . import FakeLibrary, numbers

SOLVER = FakeLibrary("cusolver")
pytestmark = pytest.mark.usefixtures("own_kernels")


@pytest.mark.parametrize("n", (3, 32, 40))
@pytest.mark.parametrize("dtype", (fb.float64, fb.complex64), ids=str)
def test_eigenvalues_of_batches_by_rotations_or_one_by_one(dtype, n):
    a = fb.randn(3, n, n, dtype=dtype)
    a = a + a.mH
    before = SOLVER.calls("syevd"), SOLVER.calls("syevj_batched")
    values, vectors = (t.cpu() for t in linalg.eigh(a.cuda()))
    assert numbers.same(values, linalg.eigvalsh(a), 1e-4)
    assert numbers.same((vectors * values.to(dtype).unsqueeze(-2)) @ vectors.mH, a, 1e-3)
    expected = (before[0], before[1] + 1) if n <= 32 else (before[0] + 3, before[1])
    assert (SOLVER.calls("syevd"), SOLVER.calls("syevj_batched")) == expected


def test_eigenvalues_of_any_matrix_say_that_the_library_is_too_old():
    with pytest.raises(RuntimeError, match=r"has no cusolverDnXgeev.*too old"):
        linalg.eig(fb.eye(3).cuda())
