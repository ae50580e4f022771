"""Decompositions by a cuSOLVER and triangular systems by a cuBLAS that are fakes."""

import pytest

import flambeau as fb
from flambeau import _C, linalg
from flambeau.cuda.kernels import factors

from . import FakeLibrary, numbers
from .numbers import matrices

SOLVER, BLAS = FakeLibrary("cusolver"), FakeLibrary("cublas")
pytestmark = pytest.mark.usefixtures("own_kernels")
NAMES = ("linalg_cholesky_ex", "linalg_cholesky", "linalg_solve_triangular", "linalg_lu_factor_ex", "linalg_lu_factor",
         "linalg_lu", "linalg_eigvalsh", "linalg_svdvals", "cholesky_solve", "linalg_solve", "linalg_inv",
         "linalg_det", "linalg_slogdet", "linalg_lu_solve", "linalg_qr", "qr", "linalg_householder_product", "ormqr",
         "linalg_eigvals", "linalg_pinv", "pinverse", "cholesky_inverse", "linalg_inv_ex", "linalg_solve_ex",
         "linalg_cond", "linalg_tensorinv", "linalg_matrix_norm", "linalg_eigh", "linalg_svd", "svd", "linalg_eig",
         "linalg_lstsq")


#: those that have no derivative
WITHOUT_DERIVATIVES = ("geqrf", "linalg_ldl_factor_ex", "linalg_ldl_factor", "linalg_matrix_rank")


@pytest.mark.parametrize("dtype", (fb.float32, fb.float64, fb.complex64, fb.complex128), ids=str)
@pytest.mark.parametrize("name", (*NAMES, *WITHOUT_DERIVATIVES))
def test_decompositions_of_the_op_table(name, dtype):
    agreed, wrong = numbers.compare(name, dtype, near=1e-3 if dtype in (fb.float32, fb.complex64) else 1e-8,
                                    backward=name not in WITHOUT_DERIVATIVES)
    assert not wrong, wrong[0]
    assert agreed


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


@pytest.mark.parametrize("name", ("cholesky_ex", "lu_factor_ex", "ldl_factor_ex", "inv_ex"))
def test_check_errors_raises_what_the_cpu_raises(name):
    for a in (fb.zeros(2, 2), fb.stack([fb.eye(3), fb.zeros(3, 3)])):
        said = []
        for there in (a, a.cuda()):
            with pytest.raises(linalg.LinAlgError) as error:
                getattr(linalg, name)(there, check_errors=True)
            said.append(str(error.value))
        assert said[0] == said[1]
        assert getattr(linalg, name)(a.cuda()).info.cpu().tolist() == getattr(linalg, name)(a).info.tolist()


@pytest.mark.parametrize("f", (linalg.eigvalsh, linalg.svdvals), ids=("eigh", "svd"))
def test_what_does_not_converge_raises(f):
    a = fb.eye(3).cuda()
    for given, where in ((a, ""), (a.expand(2, 3, 3), r": \(Batch element 0\)")):
        SOLVER.library.fake_unconverged(2)
        with pytest.raises(linalg.LinAlgError, match=where + r": the iteration did not converge.*\(code 2\)"):
            f(given)
    assert f(a).tolist() == [1, 1, 1]


@pytest.mark.parametrize("f", (linalg.eigvals, linalg.svdvals), ids=("eig", "svd"))
def test_matrices_that_are_not_finite_raise_what_the_cpu_raises(f):
    a = fb.stack([fb.eye(2), fb.eye(2) * float("nan")])
    with pytest.raises(RuntimeError) as expected:
        f(a)
    with pytest.raises(type(expected.value)) as found:
        f(a.cuda())
    assert str(found.value).splitlines()[0] == str(expected.value).splitlines()[0]


@pytest.mark.parametrize("bad", (float("nan"), float("inf")))
@pytest.mark.parametrize("dtype", (fb.float32, fb.complex128), ids=str)
def test_no_library_sees_matrices_that_are_not_finite(dtype, bad):
    """It may answer with an error, or not at all. Eigenvalues of Hermitian matrices are NaN then, as on the CPU."""
    a = fb.eye(3, dtype=dtype).repeat(3, 1, 1)
    a[1, 2, 0] = bad
    for x in (a, a[1]):
        there, before = x.cuda(), SOLVER.library.fake_endless()
        for f in (linalg.eig, linalg.eigvals, linalg.svd, linalg.svdvals):
            with pytest.raises(RuntimeError):
                f(there)
        for mine, other in zip((*linalg.eigh(there), linalg.eigvalsh(there)),
                               (*linalg.eigh(x), linalg.eigvalsh(x)), strict=True):
            assert fb.equal(mine.cpu().abs().isnan(), other.abs().isnan())
        assert SOLVER.library.fake_endless() == before


@pytest.mark.parametrize("shape", ((4, 4), (2, 3, 5, 5)), ids=str)
@pytest.mark.parametrize("dtype", (fb.float32, fb.complex128), ids=str)
def test_eigenvectors_of_any_matrix(dtype, shape):
    a = matrices(*shape, dtype=dtype)
    a = a + 3 * (a.triu(1) - a.triu(1).mT)  # pairs of eigenvalues beside the real ones
    values, vectors = (t.cpu() for t in linalg.eig(a.cuda()))
    assert values.is_complex() and bool((values.imag != 0).any())
    assert numbers.same(a.to(values.dtype) @ vectors, vectors * values.unsqueeze(-2), 1e-4)
    assert numbers.same(linalg.vector_norm(vectors, dim=-2), fb.ones(values.shape, dtype=values.real.dtype), 1e-4)


@pytest.mark.parametrize("batch", ((), (2, 1)), ids=str)
@pytest.mark.parametrize("shape", ((5, 3), (3, 5), (4, 4), (0, 3), (3, 0)), ids=str)
@pytest.mark.parametrize("dtype", (fb.float32, fb.complex128), ids=str)
def test_least_squares(dtype, shape, batch):
    a, b = matrices(*batch, *shape, dtype=dtype), matrices(*batch[:1], 3, *shape[:1], 2, dtype=dtype) \
        if batch else matrices(shape[0], 2, dtype=dtype)
    a = a + fb.eye(*shape, dtype=dtype)
    found, expected = linalg.lstsq(a.cuda(), b.cuda()), linalg.lstsq(a, b, driver="gels")
    for mine, other in zip(found, expected, strict=True):
        assert mine.shape == other.shape and mine.dtype == other.dtype and numbers.same(mine, other, 1e-3)
    with pytest.raises(RuntimeError, match="'gels'"):
        linalg.lstsq(a.cuda(), b.cuda(), driver="gelsd")


@pytest.mark.parametrize("dtype", (fb.float64, fb.complex128), ids=str)
def test_ldl_of_indefinite_matrices_solves(dtype):
    a = matrices(2, 5, 5, dtype=dtype)
    a = (a + a.mT) * fb.where(fb.eye(5) == 1, 0.0, 1.0)  # no pivot on the diagonal: pairs of rows
    b = matrices(2, 5, 3, dtype=dtype)
    factors, pivots = linalg.ldl_factor(a.cuda())
    assert fb.equal(pivots.cpu(), linalg.ldl_factor(a).pivots) and bool((pivots < 0).any())
    assert numbers.same(linalg.ldl_solve(factors, pivots, b.cuda()), linalg.solve(a, b), 1e-8)
    assert numbers.same(linalg.ldl_solve(factors[:1], pivots[:1], b.cuda()), linalg.solve(a[:1], b), 1e-8)


@pytest.mark.parametrize("shape", ((3, 20, 20), (2, 2), (2, 0, 0), (40, 40)), ids=str)
@pytest.mark.parametrize("dtype", (fb.complex64, fb.complex128), ids=str)
def test_ldl_of_hermitian_matrices_is_the_cpu_s(dtype, shape):
    a = matrices(*shape, dtype=dtype)
    a, before = a + a.mH, SOLVER.calls()
    for diagonal in (a.diagonal(0, -2, -1).real, fb.zeros(shape[:-1], dtype=a.real.dtype)):  # 0: pairs of rows
        near = fb.diagonal_scatter(a, diagonal.to(dtype), 0, -2, -1)
        found, expected = linalg.ldl_factor(near.cuda(), hermitian=True), linalg.ldl_factor(near, hermitian=True)
        assert fb.equal(found.pivots.cpu(), expected.pivots) and numbers.same(found.LD, expected.LD, 1e-3)
        b = matrices(2, *shape[:-1], 3, dtype=dtype)
        x = linalg.ldl_solve(*found, b.cuda(), hermitian=True).cpu()
        assert numbers.same(near @ x, b, 1e-3)
    assert SOLVER.calls() == before


@pytest.mark.parametrize("shape", ((3, 20, 20), (2, 3, 2, 2), (2, 7, 7)), ids=str)
@pytest.mark.parametrize("dtype", (fb.float32, fb.float64, fb.complex64, fb.complex128), ids=str)
def test_ldl_of_a_batch_is_the_cpu_s(dtype, shape):
    """Symmetric matrices, all at once by a kernel of our own; one alone goes to the library."""
    a = matrices(*shape, dtype=dtype)
    a, before = a + a.mT, SOLVER.calls()
    for diagonal in (a.diagonal(0, -2, -1), fb.zeros(shape[:-1], dtype=dtype)):  # 0: pairs of rows
        near = fb.diagonal_scatter(a, diagonal, 0, -2, -1)
        found, expected = linalg.ldl_factor(near.cuda()), linalg.ldl_factor(near)
        assert fb.equal(found.pivots.cpu(), expected.pivots) and numbers.same(found.LD, expected.LD, 1e-3)
        b = matrices(*shape[:-1], 3, dtype=dtype)
        assert numbers.same(near @ linalg.ldl_solve(*found, b.cuda()).cpu(), b, 2e-3)
    assert SOLVER.calls() == before
    one = (0,) * (len(shape) - 2)
    assert numbers.same(linalg.ldl_factor(near[one].cuda()).LD, expected.LD[one], 1e-3)
    assert SOLVER.calls() > before


def test_ldl_needs_no_library(monkeypatch):
    monkeypatch.setattr(factors, "present", lambda call, name: False)
    a = matrices(4, 4)
    a, before = a + a.mT, SOLVER.calls()
    assert numbers.same(linalg.ldl_factor(a.cuda()).LD, linalg.ldl_factor(a).LD, 1e-8) and SOLVER.calls() == before


def test_hermitian_matrices_without_a_pivot():
    a = fb.stack([fb.eye(3), fb.tensor([[1.0, 0, 0], [0, 0, 0], [0, 0, 2]]), fb.zeros(3, 3)]).to(fb.complex64)
    for found, expected in zip(linalg.ldl_factor_ex(a.cuda(), hermitian=True),
                               linalg.ldl_factor_ex(a, hermitian=True), strict=True):
        assert fb.equal(found.cpu(), expected)
    with pytest.raises(linalg.LinAlgError, match="Batch element 1"):
        linalg.ldl_factor(a.cuda(), hermitian=True)


def test_whole_batches_of_small_matrices_are_one_call():
    a = matrices(7, 4, 4) + 5 * fb.eye(4, dtype=fb.float64)
    a = a @ a.mT
    for f, library, one, many in ((linalg.cholesky, SOLVER, "potrf", "potrf_batched"),
                                  (linalg.lu_factor, BLAS, "getrf", "getrf_batched"),
                                  (lambda x: linalg.solve_triangular(x, x, upper=True), BLAS, "trsm", "trsm_batched")):
        before = library.calls(one), library.calls(many)
        found, expected = f(a.cuda()), f(a)
        for x, y in zip(*((r,) if isinstance(r, fb.Tensor) else r for r in (found, expected)), strict=True):
            assert numbers.same(x, y, 1e-8)
        assert (library.calls(one), library.calls(many)) == (before[0], before[1] + 1)


def test_lu_without_pivots_of_one_and_of_many():
    for a in (matrices(4, 4) + 5 * fb.eye(4, dtype=fb.float64), matrices(3, 4, 4) + 5 * fb.eye(4, dtype=fb.float64)):
        factors, pivots = linalg.lu_factor(a.cuda(), pivot=False)
        lower, upper = fb.tril(factors.cpu(), -1) + fb.eye(4, dtype=fb.float64), fb.triu(factors.cpu())
        assert numbers.same(lower @ upper, a, 1e-8) and bool((pivots.cpu() == fb.arange(1, 5)).all())


def test_the_gradient_of_a_determinant_that_is_zero():
    grads = []
    for device in ("cpu", "cuda"):
        a = fb.tensor([[1.0, 2], [2, 4]], dtype=fb.float64, device=device, requires_grad=True)
        linalg.det(a).backward()
        grads.append(a.grad.cpu())
    assert numbers.same(grads[1], grads[0], 1e-8)


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


def test_streams_work_in_memory_of_their_own(fake):
    """Each stream's calls, also before those of another are over, and after memory has gone back."""
    a = matrices(3, 6, 6).cuda() + 6 * fb.eye(6, device="cuda")
    b = matrices(3, 6, 2).cuda()
    systems = ((a[0], b[0]), (a, b))
    wanted = [linalg.solve(x.cpu(), y.cpu()) for x, y in systems]
    linalg.solve(a[0], b[0])
    fb.cuda.synchronize()
    before, shared = BLAS.calls("set_workspace"), (BLAS.shared(), SOLVER.shared())
    streams, found = [fb.cuda.Stream() for _ in range(4)], []
    fake.delay(True)
    for _ in range(2):
        for s in streams:
            with fb.cuda.stream(s):
                found.append([linalg.solve_ex(x, y, check_errors=False)[0] for x, y in systems])
    assert BLAS.calls("set_workspace") - before >= 16
    fb.cuda.synchronize()
    assert (BLAS.shared(), SOLVER.shared()) == shared
    assert all(numbers.same(x, w, 1e-4) for each in found for x, w in zip(each, wanted, strict=True))


def test_no_handle_is_made_while_work_is_recorded():
    """That would ask the driver for memory, which ends a recording."""
    a, b = matrices(5, 5).cuda() + 5 * fb.eye(5, device="cuda"), matrices(5, 2).cuda()
    wanted = linalg.solve_ex(a, b, check_errors=False)[0]
    before, g = (SOLVER.calls("create"), BLAS.calls("create")), fb.cuda.CUDAGraph()
    with fb.cuda.graph(g):
        found = linalg.solve_ex(a, b, check_errors=False)[0]
    assert (SOLVER.calls("create"), BLAS.calls("create")) == before
    found.zero_()
    g.replay()
    assert numbers.same(found, wanted.cpu(), 1e-5)
