"""Low-rank approximations by random projections, and extreme eigenpairs by iteration."""

from types import SimpleNamespace

from .. import _C
from .._shown import shown
from .eigenvalues import eigh, linalg_svd
from .factorization import linalg_qr
from .kinds import OPS, composite, differentiated
from .products import _h

_NOT_COMPARED = "depends on random projections; tested by name"


def _range(A, q, niter):
    """Orthonormal columns that nearly span A's range (Halko, Martinsson, Tropp 2009, algorithm 4.4)."""
    Q = linalg_qr(A @ OPS["randn"](A.shape[-1], q, dtype=A.dtype, device=A.device))[0]
    for _ in range(niter if A.numel() else 0):
        Q = linalg_qr(_h(A) @ Q)[0]
        Q = linalg_qr(A @ Q)[0]
    return Q


def _svd_of_range(A, q, niter):
    m, n = A.shape[-2:]
    if m < n:
        U, S, V = _svd_of_range(_h(A), q, niter)
        return V, S, U
    Q = _range(A, q, niter)
    U, S, Vh = linalg_svd(_h(Q) @ A, False)
    return Q @ U, S, _h(Vh)


@composite("svd_lowrank(Tensor A, int? q=6, int? niter=2, Tensor? M=None) -> (Tensor U, Tensor S, Tensor V)",
           method=False, skip=_NOT_COMPARED)
def svd_lowrank(A, q=6, niter=2, M=None):
    """About the first q singular values and vectors of A (minus M), found from a random projection and `niter` rounds
    of improvement: A ≈ U diag(S) V^H.

    >>> import flambeau
    >>> flambeau.svd_lowrank(flambeau.ones(4, 3), q=1).S.round(decimals=4)
    tensor([3.4641])
    """
    A = A if M is None else A - M.expand(A.shape)
    q = 6 if q is None else q
    if not 0 <= q <= min(A.shape[-2:]):
        raise ValueError(f"svd_lowrank, pca_lowrank: q is the rank sought, from 0 to min(m, n) = {min(A.shape[-2:])}, "
                         f"got {shown(q)}")
    return _svd_of_range(A, q, niter)


@composite("pca_lowrank(Tensor A, int? q=None, bool center=True, int niter=2) -> (Tensor U, Tensor S, Tensor V)",
           method=False, skip=_NOT_COMPARED)
def pca_lowrank(A, q=None, center=True, niter=2):
    """Principal components of rows: svd_lowrank of A, minus the mean of its rows if `center`; q is min(6, m, n).
    A sparse A becomes a dense one where it is centred.

    >>> import flambeau
    >>> flambeau.pca_lowrank(flambeau.eye(3)).V.shape
    torch.Size([3, 3])
    """
    m, n = A.shape[-2:]
    if q is None:
        q = min(6, m, n)
    elif not 0 <= q <= min(m, n):
        raise ValueError(f"pca_lowrank: q is the rank sought, from 0 to min(m, n) = {min(m, n)}, got {shown(q)}")
    if niter < 0:
        raise ValueError(f"svd_lowrank, pca_lowrank: niter must not be negative, got {shown(niter)}")
    if center:
        A = A if A.layout is _C.strided else A.to_dense()
        A = A - A.mean(-2, True)
    return _svd_of_range(A, q, niter)


def _orthonormal(S, B):
    """A basis of the columns of S that is orthonormal in B, directions that nearly vanish left out."""
    gram = _h(S) @ (S if B is None else B @ S)
    w, V = eigh(gram)
    kept = w > w.amax() * w.shape[0] * 1e-14
    return S @ (V[:, kept] / w[kept].sqrt())


def _track(tracker, batch_index, step, A, B, iK, X, E, residual, wanted, converged):
    """Shows a step to the caller's function; True if it asks for an end by bvars["force_stop"]."""
    if tracker is None:
        return False
    worker = SimpleNamespace(
        A=A, B=B, iK=iK, X=X, E=E, R=residual, fparams={"tol": wanted["tol"]}, bparams={"largest": wanted["largest"]},
        iparams={"m": A.shape[-1], "n": X.shape[-1], "k": wanted["k"], "niter": wanted["niter"],
                 "batch_index": batch_index},
        ivars={"istep": step, "iterations_left": wanted["niter"] - step, "converged_count": int(converged.sum())},
        fvars={}, bvars={"force_stop": False}, tvars={"rerr": residual.norm(2, 0)})
    tracker(worker)
    return bool(worker.bvars["force_stop"])


def _lobpcg(A, B, X, iK, k, niter, tol, largest, tracker, batch_index):
    """Knyazev (2001): Rayleigh-Ritz on the span of the iterates, preconditioned residuals and former directions."""
    wanted, P = {"k": k, "niter": niter, "tol": tol, "largest": largest}, None
    k = X.shape[-1]
    X = _orthonormal(X, B)
    scale = A.abs().sum(-1).amax()
    for step in range(niter + 1):
        w, V = eigh(_h(X) @ (A @ X))
        X = X @ V
        residual = A @ X - (X if B is None else B @ X) * w
        converged = residual.norm(2, 0) <= tol * scale
        stop = _track(tracker, batch_index, step, A, B, iK, X, w, residual, wanted, converged)
        if stop or step == niter or bool(converged.all()):
            break
        W = residual if iK is None else iK @ residual
        S = _orthonormal(OPS["cat"]([X, W] + ([P] if P is not None else []), -1), B)
        w, V = eigh(_h(S) @ (A @ S))
        chosen = S @ (V[:, -k:] if largest else V[:, :k])
        P = chosen - X @ (_h(X) @ (chosen if B is None else B @ chosen))
        X = chosen
    order = w.argsort(descending=bool(largest))
    return w[order], X[:, order]


@composite("lobpcg(Tensor A, int? k=None, Tensor? B=None, Tensor? X=None, int? n=None, Tensor? iK=None,"
           " int? niter=None, float? tol=None, bool? largest=None, str? method=None, any tracker=None,"
           " any ortho_iparams=None,"
           " any ortho_fparams=None, any ortho_bparams=None) -> any", method=False, skip=_NOT_COMPARED)
def lobpcg(A, k=None, B=None, X=None, n=None, iK=None, niter=None, tol=None, largest=None, method=None, tracker=None,
           ortho_iparams=None, ortho_fparams=None, ortho_bparams=None):
    """k largest (or smallest) eigenvalues of a symmetric positive-definite A (generalised: A x = w B x) and their
    vectors, by the locally optimal preconditioned conjugate gradient method: from X (n random columns), preconditioned
    by iK, until the residuals are below tol or `niter` rounds are done. Small problems are solved directly, and so are
    those whose derivative is wanted.

    A batch of matrices is solved one by one; X and iK then have its batch dimensions. tracker(worker) is called in each
    round, with the state in worker.X, E, R, ivars ("istep", "converged_count"), iparams ("batch_index") and the
    arguments; worker.bvars["force_stop"] = True ends that matrix's rounds. Both methods, "basic" and "ortho", are one
    here: a basis is made orthonormal by an eigendecomposition, which the ortho_ parameters have no part in.

    >>> import flambeau
    >>> flambeau.lobpcg(flambeau.diag(flambeau.arange(1., 9.)), k=1)[0].round(decimals=4)
    tensor([8.])
    """
    if A.ndim < 2 or A.shape[-1] != A.shape[-2]:
        raise RuntimeError(f"lobpcg: A must be a square matrix, or a batch of them, got shape {list(A.shape)}")
    if method not in (None, "ortho", "basic"):
        raise ValueError(f"lobpcg: expected method 'ortho' or 'basic', got {shown(method)}")
    for name, given in (("iparams", ortho_iparams), ("fparams", ortho_fparams), ("bparams", ortho_bparams)):
        if given:
            raise NotImplementedError(f"lobpcg: ortho_{name}={shown(given)}: the basis is made orthonormal by an "
                                      "eigendecomposition, which has no such parameters; leave it out")
    k = (1 if X is None else X.shape[-1]) if k is None else k
    n = (k if X is None else X.shape[-1]) if n is None else n
    largest = True if largest is None else largest
    if differentiated(A, B):  # symmetric matrices have symmetric gradients
        A, B = (M if M is None else (M + _h(M)) / 2 for M in (A, B))
    if A.ndim > 2:
        batch = A.shape[:-2]
        one = [_one(*each, k, n, niter, tol, largest, tracker, index) for index, each in enumerate(zip(
            _unbatched(A, A), _unbatched(B, A), _unbatched(X, A, "X"), _unbatched(iK, A)))]
        values, vectors = (OPS["stack"]([r[j] for r in one]) for j in (0, 1))
        return values.reshape(*batch, k), vectors.reshape(*batch, A.shape[-1], k)
    return _one(A, B, X, iK, k, n, niter, tol, largest, tracker, 0)


def _unbatched(matrix, A, strict=""):
    """The matrices of a batch, one by one: `matrix` broadcast to the batch of A; None for each if there is none."""
    batch = A.shape[:-2]
    if matrix is None:
        return [None] * batch.numel()
    if strict and matrix.shape[:-2] != batch:
        raise RuntimeError(f"lobpcg: {strict} has shape {list(matrix.shape)}; for A of shape {list(A.shape)} it is "
                           f"{[*batch, A.shape[-1], matrix.shape[-1]]}")
    return list(matrix.expand(*batch, *matrix.shape[-2:]).reshape(-1, *matrix.shape[-2:]))


def _one(A, B, X, iK, k, n, niter, tol, largest, tracker, batch_index):
    """The eigenpairs of one matrix."""
    m = A.shape[-1]
    niter = 1000 if niter is None else niter
    if m < 3 * n or differentiated(A, B):
        w, V = _directly(A, B, k, largest)
        residual = A @ V - (V if B is None else B @ V) * w
        _track(tracker, batch_index, 0, A, B, iK, V, w, residual,
               {"k": k, "niter": niter, "tol": tol, "largest": largest}, w == w)
        return w, V
    X = OPS["randn"](m, n, dtype=A.dtype, device=A.device) if X is None else X
    tol = {"torch.float32": 1.2e-07 ** 0.5, "torch.float64": 2.3e-16 ** 0.5}[str(A.dtype)] if tol is None else tol
    w, V = _lobpcg(A, B, X, iK, k, niter, tol, largest, tracker, batch_index)
    return w[:k], V[:, :k]


def _directly(A, B, k, largest):
    """All eigenpairs, of which k are kept; with B by its Cholesky factor."""
    if B is None:
        w, V = eigh(A)
    else:
        L = OPS["linalg_cholesky"](B)
        inner = OPS["_solve_triangular"](L, A, False, True, False)
        w, V = eigh(_h(OPS["_solve_triangular"](L, _h(inner), False, True, False)))
        V = OPS["_solve_triangular"](_h(L), V, True, True, False)
    if largest:
        return w.flip(-1)[:k], V.flip(-1)[:, :k]
    return w[:k], V[:, :k]
