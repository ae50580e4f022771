"""Matrix operators that are made of other operators on CUDA, whose results are copied to where native code has made
room."""

from .. import _C
from .._tensor.dtypes import finfo
from .._tensor.queries import broadcast_shapes
from ..ops import eigenvalues
from ..ops.kinds import OPS


def cholesky_solve(self, input2, upper):
    """X of A X = self for A = L L^H, or U^H U."""
    solve, adjoint = OPS["_solve_triangular"], input2.mH
    first, second = (adjoint, input2) if upper else (input2, adjoint)
    return solve(second, solve(first, self, False, True, False), True, True, False)


def _rows(tensor, order):
    """Rows of matrices in another order."""
    tensor, order = OPS["broadcast_tensors"](tensor, order.unsqueeze(-1))
    return OPS["gather"](tensor, -2, order)


def _lu_solve(LU, pivots, B, left, adjoint):
    """X of A X = B, or X A = B, for A = P L U; adjoint: with the adjoint of A."""
    if not left:
        return _lu_solve(LU, pivots, B.mH, True, not adjoint).mH
    solve, order = OPS["_solve_triangular"], OPS["_permutation_of_pivots"](pivots, LU.shape[-1]).to(_C.int64)
    if not adjoint:
        return solve(LU, solve(LU, _rows(B, order), False, True, True), True, True, False)
    found = solve(LU.mH, solve(LU.mH, B, False, True, False), True, True, True)
    return _rows(found, order.argsort(-1))


def _linalg_solve_ex(A, B, left):
    """(X, LU, pivots, info)."""
    LU, pivots, info = OPS["linalg_lu_factor_ex"](A)
    return _lu_solve(LU, pivots, B, left, False), LU, pivots, info


def linalg_inv_ex(A, check_errors):
    """(the inverse, info)."""
    LU, pivots, info = OPS["linalg_lu_factor_ex"](A)
    if check_errors:
        OPS["_linalg_check_errors"](info, "linalg_inv_ex", A.ndim == 2)
    unit = OPS["eye"](A.shape[-1], dtype=A.dtype, device=A.device).expand(A.shape)
    return _lu_solve(LU, pivots, unit, True, False), info


def _exchanges(pivots):
    """1 or -1: whether the rows were exchanged an even number of times."""
    own = OPS["arange"](1, pivots.shape[-1] + 1, device=pivots.device)
    return 1 - 2 * (OPS["ne"](pivots, own).sum(-1) % 2)


def _linalg_det(A):
    """(the determinant, LU, pivots)."""
    LU, pivots, _ = OPS["linalg_lu_factor_ex"](A)
    return LU.diagonal(0, -2, -1).prod(-1) * _exchanges(pivots), LU, pivots


def _linalg_slogdet(A):
    """(sign, logarithm of the absolute value, LU, pivots)."""
    LU, pivots, _ = OPS["linalg_lu_factor_ex"](A)
    diagonal = LU.diagonal(0, -2, -1)
    return diagonal.sgn().prod(-1) * _exchanges(pivots), diagonal.abs().log().sum(-1), LU, pivots


def _smallest_pivot(LU):
    """A number beside which no pivot counts."""
    limits = finfo(LU.dtype)
    if not LU.numel():
        return LU.abs().new_full((*LU.shape[:-2], 1), limits.tiny)
    return (LU.abs().amax((-2, -1)) * limits.eps).clamp(min=limits.tiny).unsqueeze(-1)


def cholesky_inverse(self, upper):
    """(L L^H)^-1, or (U^H U)^-1."""
    return cholesky_solve(OPS["eye"](self.shape[-1], dtype=self.dtype, device=self.device).expand(self.shape), self,
                          upper)


def _linalg_pinv(A, atol, rtol, hermitian):
    """By singular values, or by eigenvalues."""
    return eigenvalues.pinv_values(A, atol, rtol, hermitian)


def _linalg_lstsq(A, B, _, __):
    """(solution, squares of what is left, rank, singular values) by QR; the last two are empty. A limit of singular
    values and a driver come too: there is the driver that asks for none (ops/solving.py)."""
    batch = broadcast_shapes(A.shape[:-2], B.shape[:-2])
    A, B = A.expand(*batch, *A.shape[-2:]), B.expand(*batch, *B.shape[-2:])
    (m, n), none = A.shape[-2:], A.abs().new_empty((0,))
    if not A.numel():
        X, left = B.new_zeros((*batch, n, B.shape[-1])), none.new_zeros((*batch, B.shape[-1]))
    elif m >= n:
        factors, tau = OPS["geqrf"](A)
        turned = OPS["_ormqr"](factors, tau, B, True, True)
        X = OPS["_solve_triangular"](factors[..., :n, :], turned[..., :n, :], True, True, False)
        left = turned[..., n:, :].abs().square().sum(-2)
    else:
        factors, tau = OPS["geqrf"](A.mH)
        X = OPS["_solve_triangular"](factors[..., :m, :].mH, B, False, True, False)
        X = OPS["_ormqr"](factors, tau, OPS["cat"]([X, X.new_zeros((*batch, n - m, X.shape[-1]))], -2), True, False)
        left = none.new_zeros((*batch, B.shape[-1]))
    return X, left, none.long(), none
