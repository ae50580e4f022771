"""Derivatives of matrix decompositions, written with operators so that they have derivatives themselves.

`g` is the gradient of a result, `h(x)` the adjoint. Where a decomposition is determined only up to signs, phases or a
basis of a subspace, its derivative is that of functions which do not depend on the choice.
"""

from .._C import Tensor
from .kinds import OPS, plain


def h(t):
    """The adjoint of the last two dimensions."""
    return t.transpose(-2, -1).conj() if t.is_complex() else t.transpose(-2, -1)


def _plus(a, b):
    return b if a is None else a if b is None else a + b


def _halved_diagonal(x):
    """x + x^H with the diagonal counted once."""
    both = x + h(x)
    return both - (both.diagonal(0, -2, -1) / 2).diag_embed()


def _columns(t):
    """A vector of numbers, one per column of a matrix."""
    return t.unsqueeze(-2)


def undefined(name):
    raise NotImplementedError(f"the derivative for '{name}' is not implemented")


# --- LU, determinant, inverse, solution ------------------------------------------------------------------------------

def lu(g, LU, pivots):
    """dA = P (dL U + L dU); for a tall or a wide matrix the further rows or columns follow from the square part."""
    m, n = LU.shape[-2:]
    k = min(m, n)
    triangular = OPS["_solve_triangular"]
    square = LU.narrow(-2, 0, k).narrow(-1, 0, k)
    L = square.tril(-1) + OPS["eye"](k, dtype=LU.dtype, device=LU.device)
    U = square.triu()
    gL, gU = g.narrow(-2, 0, k).narrow(-1, 0, k).tril(-1), g.narrow(-2, 0, k).narrow(-1, 0, k).triu()
    lower, upper = h(L) @ gL, gU @ h(U)
    if m > k:
        L2, gL2 = LU.narrow(-2, k, m - k), g.narrow(-2, k, m - k)
        upper = upper - h(L2) @ gL2
    if n > k:
        U2, gU2 = LU.narrow(-1, k, n - k), g.narrow(-1, k, n - k)
        lower = lower - gU2 @ h(U2)
    inner = lower.tril(-1) + upper.triu()
    inner = triangular(h(U), inner, False, False, False)
    if n > k:
        inner = OPS["cat"]((inner, gU2), -1)
    inner = triangular(h(L), inner, True, True, True)
    if m > k:
        inner = OPS["cat"]((inner, triangular(h(U), gL2, False, False, False)), -2)
    order = OPS["_permutation_of_pivots"](pivots, m).argsort(-1)
    return inner.gather(-2, order.unsqueeze(-1).expand(inner.shape))


def solve(g, A, X, LU, pivots, left, needs, again):
    """A X = B: dB = A dX + dA X. `again`: a graph of this derivative is wanted, so it may not use the saved LU."""
    if again:
        gB = OPS["_linalg_solve_ex"](h(A), g, left)[0]
    else:
        gB = OPS["_lu_solve"](LU, pivots, g, left, True)
    if not needs[0]:
        return None, gB
    return -(gB @ h(X)) if left else -(h(X) @ gB), gB


def triangular(g, A, X, upper, left, unitriangular, needs):
    gB = OPS["_solve_triangular"](h(A), g, not upper, left, unitriangular)
    if not needs[0]:
        return None, gB
    gA = -(gB @ h(X)) if left else -(h(X) @ gB)
    return gA.triu(int(unitriangular)) if upper else gA.tril(-int(unitriangular)), gB


def _inverse_adjoint(factor, A, LU, pivots, again):
    """factor A^-H for one number per matrix."""
    n = A.shape[-1]
    scaled = factor.unsqueeze(-1).expand((*factor.shape, n)).diag_embed()
    if again:
        return OPS["_linalg_solve_ex"](h(A), scaled, True)[0]
    return OPS["_lu_solve"](LU, pivots, scaled, True, True)


def det(g, A, result, LU, pivots, again):
    """d det = det tr(A^-1 dA). Of a singular matrix a pivot that is zero is made tiny in LU and determinant alike:
    their quotient stays what it was."""
    if again:
        return _inverse_adjoint(g * result.conj(), A, LU, pivots, True)
    diagonal = LU.diagonal(0, -2, -1)
    if bool((plain(diagonal) == 0).any()):
        tiny = OPS["_smallest_pivot"](LU)
        LU = LU + (tiny * (diagonal == 0)).diag_embed()
        odd = (pivots != OPS["arange"](1, A.shape[-1] + 1, device=A.device)).sum(-1) % 2
        result = LU.diagonal(0, -2, -1).prod(-1) * (1 - 2 * odd)
    return _inverse_adjoint(g * result.conj(), A, LU, pivots, False)


def slogdet(g_sign, g_log, A, sign, LU, pivots, again):
    """d log det = tr(A^-1 dA): its real part moves logabsdet, its imaginary part turns the sign."""
    if not A.is_complex():
        return None if g_log is None else _inverse_adjoint(g_log, A, LU, pivots, again)
    turn = None if g_sign is None else -(g_sign.conj() * sign).imag
    if turn is None:
        factor = g_log.to(A.dtype)
    else:
        factor = OPS["complex"](turn * 0 if g_log is None else g_log, turn)
    return _inverse_adjoint(factor, A, LU, pivots, again)


# --- Cholesky, QR ----------------------------------------------------------------------------------------------------

def cholesky(g, L, upper):
    """dA = dL L^H + L dL^H."""
    if upper:
        L, g = h(L), h(g)
    inner = (h(L) @ g).tril()
    inner = (inner + h(inner.tril(-1))) / 2
    triangular = OPS["_solve_triangular"]
    return triangular(L, triangular(h(L), inner, True, True, False), False, False, False)


def _of_factor(both, L, upper):
    """d(L L^H) = dL L^H + L dL^H, of the whole of L, whatever triangle is read."""
    return L @ both if upper else both @ L


def cholesky_solve(g, L, X, upper, needs):
    gB = OPS["cholesky_solve"](g, L, upper)
    if not needs[1]:
        return gB, None
    share = gB @ h(X)
    return gB, -_of_factor(share + h(share), L, upper)


def cholesky_inverse(g, L, inverse, upper):
    share = inverse @ (g + h(g)) @ inverse
    return -_of_factor(share, L, upper)


def qr(gQ, gR, Q, R, mode):
    """dA = dQ R + Q dR for a square or tall matrix; of a wide one R2 = Q^H A2 gives its share to Q."""
    if mode == "r":
        raise RuntimeError("linalg.qr: its derivative needs Q, which mode='r' does not compute; use mode='reduced'")
    m, n = Q.shape[-2], R.shape[-1]
    if mode == "complete" and m > n:
        raise RuntimeError(f"linalg.qr: with mode='complete' a matrix of {m} rows and {n} columns has columns of Q "
                           "that are not determined, so it has no derivative; use mode='reduced'")
    if m >= n:
        return _qr_tall(gQ, gR, Q, R)
    R1 = R.narrow(-1, 0, m)
    gR1 = gR2 = None
    if gR is not None:
        gR1, gR2 = gR.narrow(-1, 0, m), gR.narrow(-1, m, n - m)
        gQ = _plus(gQ, Q @ R.narrow(-1, m, n - m) @ h(gR2))
    first = _qr_tall(gQ, gR1, Q, R1)
    second = Q @ gR2 if gR2 is not None else first.new_zeros((*first.shape[:-1], n - m))
    return OPS["cat"]((first, second), -1)


def _qr_tall(gQ, gR, Q, R):
    inner = None
    if gR is not None:
        inner = gR @ h(R)
    if gQ is not None:
        inner = _plus(inner, -(h(Q) @ gQ))
    # of what the triangle decides, the lower one mirrors the upper
    x = Q @ _halved_diagonal(inner.triu())
    x = _plus(gQ, x)
    return OPS["_solve_triangular"](h(R), x, False, False, False)


# --- eigenvalues and singular values ---------------------------------------------------------------------------------

def _differences(w):
    """w_j - w_i, with ones on the diagonal."""
    n = w.shape[-1]
    return w.unsqueeze(-2) - w.unsqueeze(-1) + OPS["eye"](n, dtype=w.dtype, device=w.device)


def _refuse_phases(api, turn, against=None):
    """RuntimeError where a loss changes with the phases of complex vectors, which are anyone's choice. `turn` is its
    derivative by them; where two sets of vectors turn together, `against` is that of the others."""
    turn, against = plain(turn), 0 * plain(turn) if against is None else plain(against)
    if turn.requires_grad or turn.device.type != "cpu" or type(turn) is not Tensor or type(against) is not Tensor:
        return  # forward mode asks for the map itself, by gradients of no loss
    if bool(((turn - against).abs() > 0.01 + 0.01 * against.abs()).any()):
        raise RuntimeError(f"{api}: the loss depends on the phases of complex vectors, which are arbitrary, so none is "
                           "its gradient; use what they leave alone, as V.abs() or V @ V.mH")


def eigh(gw, gV, w, V):
    """dA = V (diag(dw) + [V^H dV] scaled by differences) V^H."""
    if gV is None:
        return (V * _columns(gw)) @ h(V)
    inner = h(V) @ gV
    if V.is_complex():
        _refuse_phases("linalg.eigh", inner.diagonal(0, -2, -1).imag)
    inner = (inner - inner.diagonal(0, -2, -1).diag_embed()) / _differences(w)
    if gw is not None:
        inner = inner + gw.to(inner.dtype).diag_embed()
    return V @ inner @ h(V)


def eig(gw, gV, w, V):
    """As eigh, for eigenvectors of length one that need not be orthogonal."""
    if gV is None:
        return OPS["_linalg_solve_ex"](h(V), gw.unsqueeze(-1) * h(V), True)[0]
    inner = h(V) @ gV
    _refuse_phases("linalg.eig", inner.diagonal(0, -2, -1).imag)
    inner = inner - (h(V) @ V) * _columns(inner.diagonal(0, -2, -1).real)
    inner = inner / _differences(w).conj()
    inner = inner - inner.diagonal(0, -2, -1).diag_embed()
    if gw is not None:
        inner = inner + gw.diag_embed()
    return OPS["_linalg_solve_ex"](h(V), inner @ h(V), True)[0]


def _skew(x):
    return x - h(x)


def _check_turns(gU, gVh, U, Vh):
    """Both sides' vectors have one phase."""
    turns = [] if gU is None else [(h(U) @ gU).diagonal(0, -2, -1).imag]
    if gVh is not None:
        of_V = (Vh @ h(gVh)).diagonal(0, -2, -1).imag
        turns.append(-of_V if turns else of_V)
    _refuse_phases("linalg.svd", *turns)


def svd(gU, gS, gVh, U, S, Vh, full):
    """Townsend, "Differentiating the singular value decomposition" (2016); vectors beyond the first min(m, n) of
    full matrices are any basis and pass nothing on."""
    k = S.shape[-1]
    m, n = U.shape[-2], Vh.shape[-1]
    if full:
        U, Vh = U.narrow(-1, 0, k), Vh.narrow(-2, 0, k)
        gU = None if gU is None else gU.narrow(-1, 0, k)
        gVh = None if gVh is None else gVh.narrow(-2, 0, k)
    if gU is None and gVh is None:
        return (U * _columns(gS)) @ Vh
    if U.is_complex():
        _check_turns(gU, gVh, U, Vh)
    squares = S * S
    gaps = _differences(squares)
    inner = None if gS is None else gS.to(U.dtype).diag_embed()
    if gU is not None:
        product = h(U) @ gU
        inner = _plus(inner, _skew(product) / gaps * _columns(S))
        if U.is_complex():
            turn = product.diagonal(0, -2, -1).imag / S
            inner = inner + OPS["complex"](turn * 0, turn).diag_embed() - _diagonal_part(_skew(product) / gaps, S)
    if gVh is not None:
        product = Vh @ h(gVh)
        part = S.unsqueeze(-1) * (_skew(product) / gaps)
        inner = _plus(inner, part - part.diagonal(0, -2, -1).diag_embed())
    result = U @ inner @ Vh
    if gU is not None and m > k:
        rest = gU / _columns(S)
        result = result + (rest - U @ (h(U) @ rest)) @ Vh
    if gVh is not None and n > k:
        rest = gVh / S.unsqueeze(-1)
        result = result + U @ (rest - (rest @ h(Vh)) @ Vh)
    return result


def _diagonal_part(x, S):
    return (x.diagonal(0, -2, -1) * S).diag_embed()


# --- pseudo-inverse, least squares -----------------------------------------------------------------------------------

def pinv(g, A, P):
    """Golub and Pereyra (1973), at constant rank."""
    gh = h(g)
    first = -(h(P) @ g @ h(P))
    left = gh @ P @ h(P)
    right = h(P) @ P @ gh
    return first + (left - A @ (P @ left)) + (right - (right @ P) @ A)


def lstsq(gX, gR, A, B, X, needs):
    """X = pinv(A) B, and the squares of what is left of B, of full rank."""
    gA = gB = None
    if gX is not None:
        P = OPS["_linalg_pinv"](A, None, None, False)
        gB = h(P) @ gX
        gA = pinv(gX @ h(B), A, P) if needs[0] else None
    if gR is not None:
        share = 2 * _columns(gR) * (B - A @ X)
        gB = _plus(gB, share)
        gA = _plus(gA, -(share @ h(X))) if needs[0] else None
    return gA, gB
