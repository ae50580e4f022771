"""Decompositions: what they promise of their factors, derivatives of functions that do not depend on signs and phases,
errors, and agreement with NumPy."""

import numpy as np
import pytest

import flambeau
from flambeau import linalg
from flambeau.autograd import gradcheck, gradgradcheck

DTYPES = (flambeau.float64, flambeau.complex128)
IDS = ["real", "complex"]


def random(*shape, dtype=flambeau.float64, seed=0):
    g = flambeau.Generator().manual_seed(seed)
    return flambeau.randn(*shape, dtype=dtype, generator=g)


def hermitian(a):
    return (a + a.mH) / 2


def positive(a):
    return a @ a.mH + flambeau.eye(a.shape[-1], dtype=a.dtype)


def close(a, b, tolerance=1e-10):
    np.testing.assert_allclose(a.resolve_conj().detach().numpy(), b.resolve_conj().detach().numpy(), atol=tolerance,
                               rtol=tolerance)


@pytest.mark.parametrize("dtype", DTYPES, ids=IDS)
@pytest.mark.parametrize("n", [1, 3, 24, 25, 70, 300])
@pytest.mark.parametrize("layout", ["rows", "columns", "spaced"])
def test_factors_multiply_to_the_matrix(n, dtype, layout):
    a = random(n, n, dtype=dtype, seed=n)
    a = {"rows": a, "columns": a.mT.contiguous().mT, "spaced": flambeau.stack([a, a], -1)[..., 0]}[layout]
    one = flambeau.eye(n, dtype=dtype)
    P, L, U = linalg.lu(a)
    close(P @ L @ U, a)
    assert linalg.lu_factor(a).LU.stride()[0] == 1 or n == 1  # column by column, as PyTorch's
    s = positive(a)
    for upper in (False, True):
        c = linalg.cholesky(s, upper=upper)
        close(c.mH @ c if upper else c @ c.mH, s, 1e-9)
    close(linalg.inv(a) @ a, one, 1e-8)
    b = random(n, 2, dtype=dtype)
    close(a @ linalg.solve(a, b), b, 1e-8)
    close(linalg.solve(a, b.mT, left=False) @ a, b.mT, 1e-8)
    for upper in (False, True):
        t = (a.triu() if upper else a.tril()) + 3 * n ** 0.5 * one
        close(t @ linalg.solve_triangular(t, b, upper=upper), b, 1e-8)
        close(linalg.solve_triangular(t, b.mT, upper=upper, left=False) @ t, b.mT, 1e-8)
    for adjoint in (False, True):
        x = linalg.lu_solve(*linalg.lu_factor(a), b, adjoint=adjoint)
        close((a.mH if adjoint else a) @ x, b, 1e-8)
        x = linalg.lu_solve(*linalg.lu_factor(a), b.mT, adjoint=adjoint, left=False)
        close(x @ (a.mH if adjoint else a), b.mT, 1e-8)
    w, v = linalg.eigh(hermitian(a))
    close((v * w) @ v.mH, hermitian(a), 1e-9)
    w, v = linalg.eig(a)
    close(a.to(v.dtype) @ v, v * w, 1e-9)
    q, r = linalg.qr(a)
    close(q @ r, a, 1e-9)
    close(q.mH @ q, one, 1e-9)
    u, s, vh = linalg.svd(a)
    close((u * s) @ vh, a, 1e-9)


@pytest.mark.parametrize("shape", [(4, 2), (2, 4), (3, 2, 3), (0, 3), (3, 0), (0, 2, 3)])
def test_modes_of_rectangular_matrices(shape):
    a = random(*shape)
    m, n = shape[-2:]
    k = min(m, n)
    for mode, columns in (("reduced", k), ("complete", m)):
        q, r = linalg.qr(a, mode)
        assert q.shape == (*shape[:-2], m, columns) and r.shape == (*shape[:-2], columns, n)
        close(q @ r, a)
        close(q.mT @ q, flambeau.eye(columns, dtype=a.dtype).expand(*shape[:-2], columns, columns))
    assert linalg.qr(a, "r").Q.shape == (0,)
    for full in (False, True):
        u, s, vh = linalg.svd(a, full)
        assert u.shape[-1] == (m if full else k) and vh.shape[-2] == (n if full else k) and s.shape[-1] == k
        close((u[..., :k] * s.unsqueeze(-2)) @ vh[..., :k, :], a)
    P, L, U = linalg.lu(a)
    close(P @ L @ U, a)
    p = linalg.pinv(a)
    close(a @ p @ a, a)
    reflections, tau = flambeau.geqrf(a)
    if m >= n:
        close(linalg.householder_product(reflections, tau), linalg.qr(a).Q)
    c = random(*shape[:-2], m, 2)
    close(flambeau.ormqr(reflections, tau, c, transpose=True), linalg.qr(a, "complete").Q.mT @ c)


def invariant_functions():
    """(name, function of a square matrix a) that does not depend on signs and phases."""
    one = flambeau.eye(3, dtype=flambeau.float64)
    return {
        "cholesky": lambda a: linalg.cholesky(positive(a)),
        "cholesky_upper": lambda a: linalg.cholesky(positive(a), upper=True),
        "cholesky_solve": lambda a: flambeau.cholesky_solve(a[:, :1], linalg.cholesky(positive(a))),
        "cholesky_inverse": lambda a: flambeau.cholesky_inverse(linalg.cholesky(positive(a), upper=True), True),
        "eigh": lambda a: (lambda w, v: (w, (v * w.exp()) @ v.mH))(*linalg.eigh(hermitian(a))),
        "eigh_vectors": lambda a: linalg.eigh(hermitian(a))[1].abs(),
        "eigvalsh": lambda a: linalg.eigvalsh(hermitian(a), "U"),
        "eig": lambda a: (lambda w, v: (v * w.exp()) @ linalg.inv(v))(*linalg.eig(a)),
        "eig_vectors": lambda a: linalg.eig(a + 0j)[1].abs(),
        "svd": lambda a: (lambda u, s, v: (s, (u * s.sin()) @ v))(*linalg.svd(a)),
        "svd_tall": lambda a: (lambda u, s, v: (u * s.sin()) @ v)(*linalg.svd(a[:, :2], False)),
        "svd_wide": lambda a: (lambda u, s, v: (s, u.abs(), v[:2].abs()))(*linalg.svd(a[:2])),
        "qr": lambda a: tuple(linalg.qr(a)),
        "qr_tall": lambda a: tuple(linalg.qr(a[:, :2])),
        "qr_wide": lambda a: tuple(linalg.qr(a[:2])),
        "lu_tall": lambda a: linalg.lu(a[:, :2])[1:],
        "lu_solve": lambda a: linalg.lu_solve(*linalg.lu_factor(a), a[:, :2]),
        "lu_solve_right": lambda a: linalg.lu_solve(*linalg.lu_factor(a), a[:2], left=False, adjoint=True),
        "slogdet": lambda a: tuple(linalg.slogdet(a)),
        "logdet": lambda a: flambeau.logdet(positive(a)),
        "pinv": lambda a: linalg.pinv(a[:, :2]),
        "pinv_deficient": lambda a: linalg.pinv(a[:, :1] @ a[:1]),
        "pinv_hermitian": lambda a: linalg.pinv(hermitian(a), hermitian=True),
        "lstsq": lambda a: linalg.lstsq(a[:, :2], a, driver="gelsd")[:2],
        "polar": lambda a: tuple(linalg.polar(a)),
        "sqrth": lambda a: linalg.matrix_sqrth(positive(a)),
        "ormqr": lambda a: flambeau.ormqr(a, a[0] / 5, a, transpose=True),
        "ormqr_right": lambda a: flambeau.ormqr(a, a[0] / 5, a, left=False),
        "matrix_exp": lambda a: linalg.matrix_exp(a * 4),
        "cond": lambda a: linalg.cond(a + 3 * one.to(a.dtype), 1),
        "lobpcg": lambda a: flambeau.lobpcg(positive(a), 2)[0] if not a.is_complex() else a,
    }


@pytest.mark.parametrize("dtype", DTYPES, ids=IDS)
@pytest.mark.parametrize("name", list(invariant_functions()))
def test_derivatives(name, dtype):
    f = invariant_functions()[name]
    a = random(3, 3, dtype=dtype, seed=3).requires_grad_()
    assert gradcheck(f, (a,), atol=1e-4, fast_mode=dtype.is_complex)
    assert gradgradcheck(f, (a,), atol=1e-3, rtol=1e-3, fast_mode=True)


@pytest.mark.parametrize("dtype", DTYPES, ids=IDS)
def test_derivative_of_singular_determinants(dtype):
    a = random(3, 3, dtype=dtype)
    a[2] = a[0] + 2 * a[1]
    a.requires_grad_()
    linalg.det(a).real.backward()
    cofactor = flambeau.linalg.cross(a.detach()[[1, 2, 0]], a.detach()[[2, 0, 1]]).conj()
    close(a.grad, cofactor, 1e-8)


def test_errors_are_pytorchs():
    zero, one = flambeau.zeros(2, 2), flambeau.eye(2)
    for call, text in (
            (lambda: linalg.inv(zero), "the matrix is singular: the diagonal element"),
            (lambda: linalg.inv(flambeau.stack([one, zero])), r"linalg.inv: \(Batch element 1\)"),
            (lambda: linalg.cholesky(-one), "leading minor of order 1"),
            (lambda: linalg.solve(zero, one), "singular"),
            (lambda: linalg.svd(one / 0), "holds inf or nan"),
            (lambda: linalg.lu_factor(zero), r"U\[1,1\] is zero"),
            (lambda: linalg.cholesky_ex(-one, check_errors=True), "the matrix is not positive definite")):
        with pytest.raises(linalg.LinAlgError, match=text):
            call()
    assert issubclass(linalg.LinAlgError, RuntimeError)
    for call, text in (
            (lambda: linalg.inv(flambeau.ones(2, 3)), "square"),
            (lambda: linalg.inv(flambeau.ones(2)), "must be a matrix"),
            (lambda: linalg.inv(flambeau.ones(2, 2, dtype=flambeau.int64)), "floating-point or complex"),
            (lambda: linalg.inv(flambeau.ones(2, 2, dtype=flambeau.float16)), "numbers of 32 bits or more"),
            (lambda: linalg.eig(one / 0), "holds inf or nan"),
            (lambda: linalg.qr(one, "full"), "mode"),
            (lambda: linalg.eigh(one, "X"), "UPLO"),
            (lambda: linalg.solve(one, flambeau.ones(3, 1)), "cannot hold with A of 2x2 and B of 3x1"),
            (lambda: linalg.solve(one, flambeau.ones(2, 1, dtype=flambeau.float64)), "must have one dtype")):
        with pytest.raises(RuntimeError, match=text):
            call()
    assert bool(linalg.eigh(one / 0)[0].isnan().all())
    assert linalg.inv_ex(zero).info.item() == 1


def test_results_have_names():
    result = linalg.eigh(flambeau.eye(2))
    assert type(result).__name__ == "linalg_eigh" and type(result).__module__ == "torch.return_types"
    assert linalg.svd(flambeau.eye(2)).Vh.shape == (2, 2)
    out = (flambeau.empty(0), flambeau.empty(0))
    assert linalg.qr(flambeau.eye(2), out=out).Q is out[0]


def test_reference_values():
    a = np.random.default_rng(0).normal(size=(5, 4, 4))
    t = flambeau.from_numpy(a)
    for mine, theirs in ((linalg.det, np.linalg.det), (linalg.inv, np.linalg.inv), (linalg.pinv, np.linalg.pinv),
                         (linalg.cond, np.linalg.cond), (linalg.matrix_rank, np.linalg.matrix_rank),
                         (linalg.svdvals, lambda x: np.linalg.svd(x, compute_uv=False))):
        np.testing.assert_allclose(mine(t).numpy(), theirs(a), rtol=1e-9)
    for ord in ("fro", "nuc", 2, -2, 1, -1, np.inf, -np.inf):
        np.testing.assert_allclose(linalg.matrix_norm(t, ord).numpy(), np.linalg.norm(a, ord, (1, 2)), rtol=1e-9)
    sign, size = linalg.slogdet(t)
    np.testing.assert_allclose((sign * size.exp()).numpy(), np.linalg.det(a), rtol=1e-9)
    assert linalg.matrix_rank(flambeau.ones(3, 3), atol=10.0).item() == 0
    assert linalg.matrix_rank(flambeau.eye(3) * flambeau.tensor([1, 1e-3, 1e-9])).item() == 2


def test_least_squares_drivers_agree():
    a, b = random(6, 3), random(6, 2, seed=1)
    expected = np.linalg.lstsq(a.numpy(), b.numpy(), rcond=None)
    for driver in ("gels", "gelsy", "gelsd", "gelss"):
        x, left, rank, s = linalg.lstsq(a, b, driver=driver)
        np.testing.assert_allclose(x.numpy(), expected[0], atol=1e-10)
        if driver != "gelsy":
            np.testing.assert_allclose(left.numpy(), expected[1], atol=1e-10)
        assert rank.shape == (() if driver != "gels" else (0,))
        if driver in ("gelsd", "gelss"):
            np.testing.assert_allclose(s.numpy(), expected[3], atol=1e-10)


def test_ldl_solves_indefinite_systems():
    for dtype in DTYPES:
        a = random(2, 4, 4, dtype=dtype)
        b = random(2, 4, 1, dtype=dtype)
        for hermitian_form, s in ((True, hermitian(a)), (False, a + a.mT)):
            x = linalg.ldl_solve(*linalg.ldl_factor(s, hermitian=hermitian_form), b, hermitian=hermitian_form)
            close(s @ x, b)


@pytest.mark.parametrize("pivots", [[0, 1, 2], [4, 1, 2], [1, 2, -3], [-1, 2, 3], [-9, -1, 3]])
def test_pivots_that_are_none(pivots):
    a, b = flambeau.eye(3), flambeau.ones(3, 1)
    for call in (linalg.ldl_solve, linalg.lu_solve):
        with pytest.raises(RuntimeError, match=r"(?i)pivots"):
            call(a, flambeau.tensor(pivots, dtype=flambeau.int32), b)


def test_threads_do_not_change_results():
    a = random(300, 300)
    before, threads = linalg.lu_factor(a)[0], flambeau.get_num_threads()
    c = linalg.cholesky(positive(a))
    try:
        flambeau.set_num_threads(1)
        assert flambeau.equal(linalg.lu_factor(a)[0], before)
        assert flambeau.equal(linalg.cholesky(positive(a)), c)
    finally:
        flambeau.set_num_threads(threads)


def test_low_rank():
    flambeau.manual_seed(0)
    a = random(20, 3) @ random(3, 10, seed=1)
    u, s, v = flambeau.svd_lowrank(a, 3)
    close((u * s) @ v.mT, a, 1e-8)
    u, s, v = flambeau.pca_lowrank(a, 3)
    close((u * s) @ v.mT, a - a.mean(0), 1e-8)
    b = positive(random(30, 30))
    w, x = flambeau.lobpcg(b, 2)
    close(b @ x, x * w, 1e-4 * float(w[0]))
    close(w, linalg.eigvalsh(b).flip(0)[:2], 1e-6)


def test_no_reflections_have_a_derivative_of_zero():
    for shape in ((0, 0), (5, 5), (2, 3, 2)):
        a = random(*shape).requires_grad_()
        tau = flambeau.zeros(*shape[:-2], 0, dtype=a.dtype, requires_grad=True)
        q = linalg.householder_product(a, tau)
        assert q.requires_grad and flambeau.equal(q, flambeau.eye(*shape[-2:], dtype=a.dtype).expand(shape))
        ga, gtau = flambeau.autograd.grad(q.sum(), (a, tau))
        assert flambeau.equal(ga, flambeau.zeros(shape, dtype=a.dtype)) and gtau.shape == tau.shape


@pytest.mark.parametrize("shape", ((6, 6), (2, 6, 6)))
def test_gradients_of_lobpcg_are_symmetric(shape):
    root = flambeau.rand(*shape, dtype=flambeau.float64)
    A = (root @ root.mT / 10).requires_grad_()

    def pairs(A):
        values, vectors = flambeau.lobpcg(A, k=2)
        return values, vectors * vectors.gather(-2, vectors.abs().max(-2, keepdim=True)[1]).sign()

    assert gradcheck(pairs, A, fast_mode=True)
    values, vectors = pairs(A)
    (values.sum() + vectors.sum()).backward()
    assert flambeau.allclose(A.grad, A.grad.mT)


@pytest.mark.parametrize("vectors", (lambda A: linalg.svd(A, full_matrices=False)[0], lambda A: linalg.svd(A)[2],
                                     lambda A: linalg.eig(A)[1], lambda A: linalg.eigh(A + A.mH)[1]))
def test_losses_of_phases_are_refused(vectors):
    A = flambeau.randn(3, 3, dtype=flambeau.complex128, requires_grad=True)
    with pytest.raises(RuntimeError, match="phases"):
        vectors(A).sum().abs().backward()
    vectors(A).abs().sum().backward()
    assert A.grad.isfinite().all()


def test_singular_vectors_of_both_sides_turn_together():
    A = flambeau.randn(4, 3, dtype=flambeau.complex128, requires_grad=True)

    def nearest_of_rank_one(A):
        U, _, Vh = linalg.svd(A, full_matrices=False)
        return U[:, :1] @ Vh[:1]

    assert gradcheck(nearest_of_rank_one, A, check_forward_ad=True)


def test_principal_components_of_a_sparse_matrix():
    A = flambeau.randn(6, 4, dtype=flambeau.float64) * (flambeau.rand(6, 4) > 0.4)
    for center in (True, False):
        U, S, V = flambeau.pca_lowrank(A.to_sparse(), q=4, center=center)
        expected = A - A.mean(0) if center else A
        assert flambeau.allclose(U * S @ V.mT, expected)
