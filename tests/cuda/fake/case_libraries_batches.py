"""Decompositions of whole batches: one call of a fake cuSOLVER or cuBLAS each."""

import pytest

import flambeau as fb
from flambeau import linalg

from . import FakeLibrary, numbers
from .numbers import matrices

SOLVER, BLAS = FakeLibrary("cusolver"), FakeLibrary("cublas")
pytestmark = pytest.mark.usefixtures("own_kernels")


@pytest.mark.parametrize("dtype", (fb.float32, fb.complex128), ids=str)
def test_eigenvalues_of_whole_batches_are_one_call(dtype):
    a = matrices(2, 3, 40, 40, dtype=dtype)
    a = a + a.mH
    before = SOLVER.calls("syevd"), SOLVER.calls("syev_batched")
    for uplo in "LU":
        values, vectors = (t.cpu() for t in linalg.eigh(a.cuda(), uplo))
        assert numbers.same(values, linalg.eigvalsh(a), 1e-4)
        assert numbers.same((vectors * values.to(dtype).unsqueeze(-2)) @ vectors.mH, a, 1e-3)
    assert (SOLVER.calls("syevd"), SOLVER.calls("syev_batched")) == (before[0], before[1] + 2)


def test_a_batch_that_the_library_does_not_take_at_once():
    a = fb.randn(17000, 2, 2)
    before = SOLVER.calls("syev_batched"), SOLVER.calls("gesvdj_batched")
    assert numbers.same(linalg.eigvalsh(a.cuda()), linalg.eigvalsh(a), 1e-4)
    assert numbers.same(linalg.svdvals(a.cuda()), linalg.svdvals(a), 1e-4)
    assert (SOLVER.calls("syev_batched"), SOLVER.calls("gesvdj_batched")) == (before[0] + 2, before[1] + 2)


@pytest.mark.parametrize("full", (False, True))
@pytest.mark.parametrize("shape", ((3, 5, 4), (3, 4, 5), (2, 2, 32, 32), (3, 50, 4), (2, 7, 70), (2, 1, 300, 32)),
                         ids=str)
@pytest.mark.parametrize("dtype", (fb.float32, fb.complex128), ids=str)
def test_singular_values_of_batches_with_few_columns_are_one_call(dtype, shape, full):
    a = matrices(*shape, dtype=dtype)
    before = SOLVER.calls("gesvd"), SOLVER.calls("gesvdj_batched"), BLAS.calls("geqrf_batched")
    u, s, v = (t.cpu() for t in linalg.svd(a.cuda(), full_matrices=full))
    k = s.shape[-1]
    assert [t.shape for t in (u, s, v)] == [t.shape for t in linalg.svd(a, full_matrices=full)]
    assert numbers.same(s, linalg.svdvals(a), 1e-4) and bool((s.diff(dim=-1) <= 0).all())
    assert numbers.same((u[..., :k] * s.to(dtype).unsqueeze(-2)) @ v[..., :k, :], a, 1e-4)
    for q in (u.mH @ u, v @ v.mH):
        assert numbers.same(q, fb.eye(q.shape[-1], dtype=dtype).expand(q.shape), 1e-4)
    tall = max(shape[-2:]) > 32
    assert numbers.same(linalg.svdvals(a.cuda()), s, 1e-4)
    assert (SOLVER.calls("gesvd"), SOLVER.calls("gesvdj_batched"), BLAS.calls("geqrf_batched")) == \
        (before[0], before[1] + 2, before[2] + 2 * tall)


@pytest.mark.parametrize("dtype, shape, full", (
    (fb.float32, (3, 33, 34), False), (fb.complex64, (2, 34, 33), True),
    *(pytest.param(*given, marks=pytest.mark.exhaustive) for given in (
        (fb.float32, (3, 33, 45), False), (fb.float64, (2, 33, 33), True), (fb.complex64, (2, 36, 33), True),
        (fb.float32, (2, 33, 33), True), (fb.float64, (2, 40, 34), False), (fb.complex64, (2, 50, 36), True),
        (fb.complex128, (3, 33, 45), False)))), ids=str)
def test_singular_values_of_batches_with_more_columns_are_one_launch(dtype, shape, full):
    """Of full rank, of rank 5, and 0, by rotations of our own."""
    a = matrices(*shape, dtype=dtype)
    a[1] = a[1, :, :5] @ a[1, :5]
    if shape[0] == 3:
        a[2] = 0
    before = SOLVER.calls()
    numbers.check_svd(a, full, 1e-12 if dtype == fb.float64 else 1e-4)
    assert SOLVER.calls() == before


def test_small_singular_values_of_tall_matrices_keep_their_digits():
    """They would be lost in A^H A."""
    u, v = (linalg.qr(matrices(2, *shape))[0] for shape in ((60, 3), (3, 3)))
    s = fb.tensor([1, 1e-5, 1e-10], dtype=fb.float64)
    assert fb.allclose(linalg.svdvals(((u * s) @ v).cuda()).cpu(), s, rtol=1e-4, atol=0)


@pytest.mark.parametrize("mode", ("reduced", "complete", "r"))
@pytest.mark.parametrize("shape", ((3, 5, 4), (3, 4, 5), (2, 2, 40, 40), (2, 100, 3), (2, 3, 0), (2, 0, 3)), ids=str)
@pytest.mark.parametrize("dtype", (fb.float32, fb.complex128), ids=str)
def test_qr_of_whole_batches_is_one_call(dtype, shape, mode):
    a = matrices(*shape, dtype=dtype)
    before = SOLVER.calls(), BLAS.calls("geqrf_batched")
    found, expected = linalg.qr(a.cuda(), mode), linalg.qr(a, mode)
    assert all(numbers.same(x, y, 1e-4) for x, y in zip(found, expected, strict=True))
    assert (SOLVER.calls(), BLAS.calls("geqrf_batched")) == (before[0], before[1] + (a.numel() > 0))


@pytest.mark.parametrize("transpose", (False, True))
@pytest.mark.parametrize("left", (False, True))
@pytest.mark.parametrize("dtype", (fb.float32, fb.complex128), ids=str)
def test_products_with_reflections_of_whole_batches(dtype, left, transpose):
    a = matrices(3, 37, 5, dtype=dtype)
    factors, tau = fb.geqrf(a)
    other = matrices(3, *((37, 4) if left else (4, 37)), dtype=dtype)
    before = SOLVER.calls()
    there = [t.cuda() for t in (factors, tau, other)]
    assert numbers.same(fb.ormqr(*there, left=left, transpose=transpose),
                        fb.ormqr(factors, tau, other, left=left, transpose=transpose), 1e-4)
    assert numbers.same(linalg.householder_product(*there[:2]), linalg.householder_product(factors, tau), 1e-4)
    for mine, cpu in zip(fb.geqrf(a.cuda()), (factors, tau), strict=True):
        assert numbers.same(mine, cpu, 1e-4)
    assert SOLVER.calls() == before
