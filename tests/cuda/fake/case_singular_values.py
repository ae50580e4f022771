"""Singular values where cuSOLVER is not installed: by rotations of our own."""

import pytest

import flambeau as fb
from flambeau import linalg

from . import numbers
from .numbers import matrices

pytestmark = pytest.mark.usefixtures("own_kernels")


def _ranks(a):
    """The matrices, of which the second has rank 2 and the last is 0."""
    if a.ndim == 3:
        a[1] = a[1, :, :2] @ a[1, :2]
        a[-1] = 0
    return a


@pytest.mark.parametrize("full", (False, True))
@pytest.mark.parametrize("shape", ((5, 3), (3, 5), (1, 1), (3, 6, 4), (3, 5, 5), (3, 2, 40)), ids=str)
@pytest.mark.parametrize("dtype", (fb.float32, fb.float64, fb.complex64, fb.complex128), ids=str)
def test_matrices_of_any_rank(dtype, shape, full):
    a = _ranks(matrices(*shape, dtype=dtype))
    numbers.check_svd(a, full, 1e-12 if dtype in (fb.float64, fb.complex128) else 1e-4)


@pytest.mark.parametrize("size", (1e-30, 1e30))
def test_large_and_small_numbers(size):
    """Whose squares float32 does not hold."""
    a = matrices(4, 3, dtype=fb.float32)
    assert fb.allclose(linalg.svdvals((a * size).cuda()).cpu() / size, linalg.svdvals(a), rtol=1e-5)


def test_small_singular_values_keep_their_digits():
    u, v = (linalg.qr(matrices(*shape))[0] for shape in ((7, 3), (3, 3)))
    s = fb.tensor([1, 1e-5, 1e-10], dtype=fb.float64)
    assert fb.allclose(linalg.svdvals(((u * s) @ v).cuda()).cpu(), s, rtol=1e-4, atol=0)


def test_infinite_matrices_fail_as_on_the_cpu():
    for bad in (fb.inf, fb.nan):
        a = fb.ones(2, 3, 3, device="cuda")
        a[1, 2, 0] = bad
        with pytest.raises(linalg.LinAlgError, match="svd"):
            linalg.svd(a)
        with pytest.raises(linalg.LinAlgError):
            linalg.svd(a.cpu())


def test_what_is_made_of_them():
    a = matrices(4, 3)
    for f in (linalg.pinv, linalg.matrix_rank, linalg.cond, lambda x: linalg.matrix_norm(x, "nuc")):
        assert numbers.same(f(a.cuda()), f(a), 1e-9)


def test_names_of_cuda_s_routines_are_taken_there():
    a = matrices(3, 3).cuda()
    assert all(linalg.svdvals(a, driver=d).equal(linalg.svd(a, driver=d)[1]) for d in ("gesvd", "gesvdj", "gesvda"))
    with pytest.raises(RuntimeError, match="must be 'gesvd', 'gesvdj' or 'gesvda', got 'gelsd'"):
        linalg.svd(a, driver="gelsd")
    with pytest.raises(RuntimeError, match="chooses a routine of CUDA"):
        linalg.svd(a.cpu(), driver="gesvd")
