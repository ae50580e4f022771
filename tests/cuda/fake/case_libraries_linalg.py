"""Decompositions by a cuSOLVER and triangular systems by a cuBLAS that are fakes."""

import pytest

import flambeau as fb
from flambeau import _C, linalg

from . import FakeLibrary, numbers, use_own_kernels

SOLVER, BLAS = FakeLibrary("cusolver"), FakeLibrary("cublas")


@pytest.fixture(autouse=True)
def own_kernels(fresh, monkeypatch):
    use_own_kernels(monkeypatch)
    yield
    SOLVER.fail(0)
    BLAS.fail(0)


NAMES = ("linalg_cholesky_ex", "linalg_cholesky", "linalg_solve_triangular", "linalg_lu_factor_ex", "linalg_lu_factor",
         "linalg_lu", "linalg_eigvalsh", "linalg_svdvals", "cholesky_solve", "linalg_solve", "linalg_inv", "linalg_det",
         "linalg_slogdet", "linalg_lu_solve")


@pytest.mark.parametrize("dtype", (fb.float32, fb.float64, fb.complex64, fb.complex128), ids=str)
@pytest.mark.parametrize("name", NAMES)
def test_decompositions_of_the_op_table(name, dtype):
    agreed, wrong = numbers.compare(name, dtype, near=1e-3 if dtype in (fb.float32, fb.complex64) else 1e-8)
    assert not wrong, wrong[0]
    assert agreed


def matrices(*shape, dtype=fb.float64):
    n = fb.Size(shape).numel()
    x = (fb.arange(n, dtype=fb.float64) * 0.7).sin().view(shape)
    return (x + 1j * x.cos() if dtype.is_complex else x).to(dtype)


@pytest.mark.parametrize("dtype", (fb.float32, fb.complex128), ids=str)
def test_eigenvectors_of_hermitian_matrices(dtype):
    a = matrices(2, 4, 4, dtype=dtype)
    a = a + a.mH
    for uplo in "LU":
        values, vectors = linalg.eigh(a.cuda(), uplo)
        assert numbers.same(values, linalg.eigvalsh(a), 1e-4)
        v = vectors.cpu()
        assert numbers.same((v * values.cpu().to(dtype).unsqueeze(-2)) @ v.mH, a, 1e-4)


@pytest.mark.parametrize("full", (False, True))
@pytest.mark.parametrize("shape", ((5, 3), (3, 5), (2, 4, 4)), ids=str)
@pytest.mark.parametrize("dtype", (fb.float32, fb.complex128), ids=str)
def test_singular_vectors(dtype, shape, full):
    a = matrices(*shape, dtype=dtype)
    u, s, v = (t.cpu() for t in linalg.svd(a.cuda(), full_matrices=full))
    k = s.shape[-1]
    assert [t.shape for t in (u, s, v)] == [t.shape for t in linalg.svd(a, full_matrices=full)]
    assert numbers.same((u[..., :k] * s.to(dtype).unsqueeze(-2)) @ v[..., :k, :], a, 1e-4)
    for q in (u.mH @ u, v @ v.mH):
        assert numbers.same(q, fb.eye(q.shape[-1], dtype=dtype).expand(q.shape), 1e-4)


def test_gradients_of_eigenvalues_and_singular_values():
    for f in (linalg.eigvalsh, linalg.svdvals, lambda a: linalg.eigh(a)[0], lambda a: linalg.svd(a)[1]):
        grads = []
        for device in ("cpu", "cuda"):
            a = (matrices(4, 4) + matrices(4, 4).t()).to(device).requires_grad_()
            (f(a) * fb.arange(4.0, device=device)).sum().backward()
            grads.append(a.grad.cpu())
        assert numbers.same(grads[1], grads[0], 1e-8)


def test_matrices_without_a_decomposition_raise():
    with pytest.raises(linalg.LinAlgError, match="not positive definite"):
        linalg.cholesky(fb.tensor([[1.0, 0], [0, -1]]).cuda())
    with pytest.raises(linalg.LinAlgError, match="Batch element 1"):
        linalg.cholesky(fb.stack([fb.eye(2), -fb.eye(2)]).cuda())
    with pytest.raises(NotImplementedError, match=r"use linalg\.cholesky"):
        linalg.cholesky_ex(fb.eye(2).cuda(), check_errors=True)


def test_every_status_in_turn_leaves_everything_usable():
    a = matrices(3, 3) @ matrices(3, 3).t() + fb.eye(3, dtype=fb.float64)
    expected = linalg.cholesky(a)
    there = a.cuda()
    _C._cuda.forget_plans()
    for n in range(1, 20):
        SOLVER.fail(n, status=6)
        try:
            found = linalg.cholesky(there)
        except RuntimeError as error:
            assert "linalg_cholesky_ex: cuSOLVER: CUSOLVER_STATUS_EXECUTION_FAILED (6) in cusolverDn" in str(error)
        else:
            break
        SOLVER.fail(0)
        assert numbers.same(linalg.cholesky(there), expected)
        _C._cuda.forget_plans()
    assert n > 2 and numbers.same(found, expected)


def test_recorded_in_a_graph():
    a, b = fb.tensor([[2.0, 0], [1, 4]]).cuda(), fb.ones(2, 3).cuda()
    linalg.solve_triangular(a, b, upper=False)
    graph = fb.cuda.CUDAGraph()
    with fb.cuda.graph(graph):
        x = linalg.solve_triangular(a, b, upper=False)
    b.mul_(5)
    graph.replay()
    assert numbers.same(x, linalg.solve_triangular(a.cpu(), b.cpu(), upper=False))


def test_without_the_library_the_error_says_what_to_install(monkeypatch):
    from flambeau.cuda.kernels import libraries
    monkeypatch.setattr(libraries, "path_of", lambda name: None)
    _C._cuda.forget_plans()
    with pytest.raises(NotImplementedError, match="pip install nvidia-cusolver-cu12"):
        linalg.cholesky(fb.eye(2).cuda())
