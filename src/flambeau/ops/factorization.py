"""Decompositions into triangular and orthogonal factors, and the systems solved with them."""

from .. import _C
from . import _linalg_rules as rules
from .kinds import OPS, composite, differentiated, primitive
from .products import _h

_NO_DERIVATIVE = {"gradcheck": "PyTorch defines no derivative either",
                  "float32_gradient": "PyTorch defines no derivative either"}
_BY_NAME = "tested by name: the arguments must be matrices of a kind"

check_errors_of = primitive("_linalg_check_errors(Tensor info, str api, bool single) -> None", namespace=None,
                            skip="raises LinAlgError for what the operator called before it reports")


def _by_columns(t):
    """A copy that lies column by column, as the results of LAPACK do."""
    return t.transpose(-2, -1).clone(memory_format=_C.contiguous_format).transpose(-2, -1)


def checked(info, api, A):
    """Raises LinAlgError where an operator reports that a matrix has no such decomposition."""
    check_errors_of(info, api, A.ndim == 2)


# --- Cholesky --------------------------------------------------------------------------------------------------------

cholesky_ex = primitive(
    "linalg_cholesky_ex(Tensor A, *, bool upper=False, bool check_errors=False) -> (Tensor L, Tensor info)",
    autocast="float32", d={"A": lambda g0, L, upper: rules.cholesky(g0, L, upper)},
    namespace=None, aliases=("linalg.cholesky_ex",), out=True, samples="positive_definite",
    skip={"gradcheck": "reads one triangle of a Hermitian matrix: tests/ops/test_decompositions.py"},
    doc="""As cholesky, with `info` instead of an error: zero, or the order of the first minor that is not positive.

    >>> import flambeau
    >>> flambeau.linalg.cholesky_ex(flambeau.tensor([[4., 0.], [0., -1.]])).info
    tensor(2, dtype=torch.int32)
    """)


@composite("linalg_cholesky(Tensor A, *, bool upper=False) -> Tensor",
           autocast="float32", namespace=None, aliases=("linalg.cholesky",),
           out=True, samples="positive_definite",
           skip={"gradcheck": "reads one triangle of a Hermitian matrix: tests/ops/test_decompositions.py"})
def linalg_cholesky(A, *, upper=False):
    """L, lower triangular, with A = L L^H for Hermitian positive-definite A; upper: its adjoint.

    >>> import flambeau
    >>> flambeau.linalg.cholesky(flambeau.tensor([[4., 2.], [2., 5.]]))
    tensor([[2., 0.],
            [1., 2.]])
    """
    L, info = cholesky_ex(A, upper=upper)
    checked(info, "linalg.cholesky", A)
    return L


@composite("cholesky(Tensor self, bool upper=False) -> Tensor",
           autocast="float32", out=True, samples="positive_definite",
           skip={"gradcheck": "reads one triangle of a Hermitian matrix: tests/ops/test_decompositions.py"})
def cholesky(self, upper=False):
    """The older name of linalg.cholesky."""
    return linalg_cholesky(self, upper=upper)


def _solve_with_factor(B, L, upper):
    L = L.triu() if upper else L.tril()
    first, second = (_h(L), L) if upper else (L, _h(L))
    return _solve_triangular(second, _solve_triangular(first, B, False, True, False), True, True, False)


cholesky_solve = primitive(
    "cholesky_solve(Tensor self, Tensor input2, bool upper=False) -> Tensor",
    autocast="float32", kernel=_solve_with_factor,
    d={("self", "input2"): lambda g, input2, result, upper, needs:
       rules.cholesky_solve(g, input2, result, upper, needs)},
    out=True, samples="cholesky_solve",
    skip={"gradcheck": "reads one triangle: tests/ops/test_decompositions.py"},
    doc="""X of A X = self, given the Cholesky factor input2 of A (upper: its adjoint).

    >>> import flambeau
    >>> flambeau.cholesky_solve(flambeau.tensor([[4.]]), flambeau.tensor([[2.]]))
    tensor([[1.]])
    """)


def _inverse_with_factor(L, upper):
    return _solve_with_factor(OPS["eye"](L.shape[-1], dtype=L.dtype, device=L.device).expand(L.shape), L, upper)


cholesky_inverse = primitive(
    "cholesky_inverse(Tensor self, bool upper=False) -> Tensor", autocast="float32", kernel=_inverse_with_factor,
    d={"self": lambda g, self, result, upper: rules.cholesky_inverse(g, self, result, upper)},
    out=True, samples="triangular_factor",
    skip={"gradcheck": "reads one triangle: tests/ops/test_decompositions.py"},
    doc="""The inverse of A, given its Cholesky factor.

    >>> import flambeau
    >>> flambeau.cholesky_inverse(flambeau.tensor([[2.]]))
    tensor([[0.2500]])
    """)


# --- triangular systems ----------------------------------------------------------------------------------------------

_solve_triangular = primitive(
    "_solve_triangular(Tensor A, Tensor B, bool upper, bool left, bool unitriangular) -> Tensor",
    d={("A", "B"): lambda g, A, result, upper, left, unitriangular, needs:
       rules.triangular(g, A, result, upper, left, unitriangular, needs)},
    namespace=None, skip="the kernel of linalg.solve_triangular, reached through it")


@composite("linalg_solve_triangular(Tensor A, Tensor B, *, bool upper, bool left=True, bool unitriangular=False)"
           " -> Tensor", namespace=None, aliases=("linalg.solve_triangular",), out=True, samples="solve_triangular")
def linalg_solve_triangular(A, B, *, upper, left=True, unitriangular=False):
    """X of A X = B (left) or X A = B for triangular A, of which only that triangle is read.

    >>> import flambeau
    >>> A, B = flambeau.tensor([[2., 0.], [1., 1.]]), flambeau.tensor([[2.], [3.]])
    >>> flambeau.linalg.solve_triangular(A, B, upper=False)
    tensor([[1.],
            [2.]])
    """
    return _solve_triangular(A, B, upper, left, unitriangular)


@composite("triangular_solve(Tensor self, Tensor A, bool upper=True, bool transpose=False, bool unitriangular=False)"
           " -> (Tensor solution, Tensor cloned_coefficient)", autocast="float32", out=True, samples="triangular_solve")
def triangular_solve(self, A, upper=True, transpose=False, unitriangular=False):
    """X of A X = self for triangular A, and a copy of A; linalg.solve_triangular is its newer form."""
    if transpose:
        x = _solve_triangular(A.transpose(-2, -1), self, not upper, True, unitriangular)
    else:
        x = _solve_triangular(A, self, upper, True, unitriangular)
    return x, _by_columns(A.expand((*x.shape[:-2], *A.shape[-2:])))


# --- LU --------------------------------------------------------------------------------------------------------------

lu_factor_ex = primitive(
    "linalg_lu_factor_ex(Tensor A, *, bool pivot=True, bool check_errors=False)"
    " -> (Tensor LU, Tensor pivots, Tensor info)",
    d={"A": lambda g0, LU, pivots: rules.lu(g0, LU, pivots)},
    namespace=None, aliases=("linalg.lu_factor_ex",), out=True, samples="matrices",
    doc="""As lu_factor, with `info` instead of an error: zero, or the number of the first pivot that is zero.

    >>> import flambeau
    >>> flambeau.linalg.lu_factor_ex(flambeau.zeros(2, 2)).info
    tensor(1, dtype=torch.int32)
    """)


@composite("linalg_lu_factor(Tensor A, *, bool pivot=True) -> (Tensor LU, Tensor pivots)", namespace=None,
           aliases=("linalg.lu_factor",), out=True, samples="matrices")
def lu_factor(A, *, pivot=True):
    """A = P L U with L's strict lower and U's upper triangle in one matrix, and the rows exchanged, counted from 1.

    >>> import flambeau
    >>> flambeau.linalg.lu_factor(flambeau.tensor([[1., 2.], [2., 2.]])).LU
    tensor([[2.0000, 2.0000],
            [0.5000, 1.0000]])
    """
    LU, pivots, info = lu_factor_ex(A, pivot=pivot)
    checked(info, "torch.linalg.lu_factor", A)
    return LU, pivots


_permutation = primitive("_permutation_of_pivots(Tensor pivots, int m) -> Tensor", namespace=None,
                         skip="reached through linalg.lu")


def _factors(LU):
    m, n = LU.shape[-2:]
    k = min(m, n)
    return LU.narrow(-1, 0, k).tril(-1) + OPS["eye"](m, k, dtype=LU.dtype, device=LU.device), LU.narrow(-2, 0, k).triu()


def _permutation_matrix(pivots, m, dtype):
    order = _permutation(pivots, m)
    ones = OPS["ones"]((*order.shape[:-1], 1, m), dtype=dtype, device=order.device)
    return OPS["zeros"]((*order.shape[:-1], m, m), dtype=dtype, device=order.device).scatter(
        -2, order.unsqueeze(-2), ones)


@composite("linalg_lu(Tensor A, *, bool pivot=True) -> (Tensor P, Tensor L, Tensor U)", namespace=None,
           aliases=("linalg.lu",), out=True, samples="matrices")
def linalg_lu(A, *, pivot=True):
    """A = P L U: a permutation, a lower triangular matrix with ones on its diagonal, an upper triangular one. Without
    pivot A = L U, which need not exist, and P is empty.

    >>> import flambeau
    >>> flambeau.linalg.lu(flambeau.tensor([[1., 2.], [2., 2.]])).P
    tensor([[0., 1.],
            [1., 0.]])
    """
    LU, pivots, _ = lu_factor_ex(A, pivot=pivot)
    P = _permutation_matrix(pivots, A.shape[-2], A.dtype) if pivot else A.new_empty(0)
    return P, *_factors(LU)


@composite("lu(Tensor self, bool pivot=True, bool get_infos=False) -> any", autocast="float32", out=True, skip=_BY_NAME)
def lu(self, pivot=True, get_infos=False):
    """The older form of linalg.lu_factor, without an error for singular matrices; get_infos: also `info`."""
    made = lu_factor_ex(self, pivot=pivot)
    return made if get_infos else tuple(made)[:2]


@composite("lu_unpack(Tensor LU_data, Tensor LU_pivots, bool unpack_data=True, bool unpack_pivots=True)"
           " -> (Tensor P, Tensor L, Tensor U)", method=False, out=True, skip=_BY_NAME)
def lu_unpack(LU_data, LU_pivots, unpack_data=True, unpack_pivots=True):
    """P, L and U of what lu_factor gives; those not asked for are empty.

    >>> import flambeau
    >>> flambeau.lu_unpack(*flambeau.linalg.lu_factor(flambeau.tensor([[2., 2.], [1., 2.]]))).L
    tensor([[1.0000, 0.0000],
            [0.5000, 1.0000]])
    """
    if LU_data.ndim < 2:
        raise RuntimeError(f"lu_unpack: expected LU_data to be a batch of matrices, got shape {list(LU_data.shape)}")
    empty = LU_data.new_empty(0)
    L, U = _factors(LU_data) if unpack_data else (empty, empty)
    P = _permutation_matrix(LU_pivots, LU_data.shape[-2], LU_data.dtype) if unpack_pivots else empty
    return P, L, U


_lu_solve = primitive(
    "_lu_solve(Tensor LU, Tensor pivots, Tensor B, bool left, bool adjoint) -> Tensor",
    d={"B": lambda g, LU, pivots, left, adjoint: _lu_solve(LU, pivots, g, left, not adjoint)},
    namespace=None, skip="the kernel of linalg.lu_solve, reached through it")


@composite("linalg_lu_solve(Tensor LU, Tensor pivots, Tensor B, *, bool left=True, bool adjoint=False) -> Tensor",
           namespace=None, aliases=("linalg.lu_solve",), out=True, samples="lu_solve",
           skip={"layouts": "the pivots belong to the matrix"})
def linalg_lu_solve(LU, pivots, B, *, left=True, adjoint=False):
    """X of A X = B (left) or X A = B, or of A^H (adjoint), from A's lu_factor.

    >>> import flambeau
    >>> A = flambeau.tensor([[2., 0.], [1., 1.]])
    >>> flambeau.linalg.lu_solve(*flambeau.linalg.lu_factor(A), flambeau.tensor([[2.], [3.]]))
    tensor([[1.],
            [2.]])
    """
    if not differentiated(LU):
        return _lu_solve(LU, pivots, B, left, adjoint)
    P, L, U = lu_unpack(LU, pivots)
    if not left:  # X A = B is A^H X^H = B^H
        return _h(_by_columns(_solve_factors(P, L, U, _h(B), not adjoint)))
    return _by_columns(_solve_factors(P, L, U, B, adjoint))


def _solve_factors(P, L, U, B, adjoint):
    if adjoint:
        return P @ _solve_triangular(_h(L), _solve_triangular(_h(U), B, False, True, False), True, True, True)
    return _solve_triangular(U, _solve_triangular(L, _h(P) @ B, False, True, True), True, True, False)


@composite("lu_solve(Tensor self, Tensor LU_data, Tensor LU_pivots) -> Tensor",
           autocast="float32", out=True, skip=_BY_NAME)
def lu_solve(self, LU_data, LU_pivots):
    """The older form of linalg.lu_solve, right side first."""
    return linalg_lu_solve(LU_data, LU_pivots, self)


# --- LDL -------------------------------------------------------------------------------------------------------------

ldl_factor_ex = primitive(
    "linalg_ldl_factor_ex(Tensor A, *, bool hermitian=False, bool check_errors=False)"
    " -> (Tensor LD, Tensor pivots, Tensor info)", d={"A": lambda g0: rules.undefined("linalg_ldl_factor_ex")},
    namespace=None, aliases=("linalg.ldl_factor_ex",), out=True, samples="positive_definite", skip=_NO_DERIVATIVE,
    doc="As ldl_factor, with `info` instead of an error.")


@composite("linalg_ldl_factor(Tensor A, *, bool hermitian=False) -> (Tensor LD, Tensor pivots)", namespace=None,
           aliases=("linalg.ldl_factor",), out=True, samples="positive_definite", skip=_NO_DERIVATIVE)
def ldl_factor(A, *, hermitian=False):
    """A = P L D L^T P^T of a symmetric (or Hermitian) matrix in LAPACK's compact form, for ldl_solve.

    >>> import flambeau
    >>> flambeau.linalg.ldl_factor(flambeau.tensor([[2., 0.], [0., 3.]])).LD
    tensor([[2., 0.],
            [0., 3.]])
    """
    LD, pivots, info = ldl_factor_ex(A, hermitian=hermitian)
    checked(info, "torch.linalg.ldl_factor", A)
    return LD, pivots


_ldl_solve = primitive(
    "_ldl_solve(Tensor LD, Tensor pivots, Tensor B, bool hermitian) -> Tensor",
    d={"B": lambda g, LD, pivots, hermitian:
       _ldl_solve(LD, pivots, g, True) if hermitian else _ldl_solve(LD, pivots, g.conj(), False).conj()},
    namespace=None, skip="the kernel of linalg.ldl_solve, reached through it")


@composite("linalg_ldl_solve(Tensor LD, Tensor pivots, Tensor B, *, bool hermitian=False) -> Tensor", namespace=None,
           aliases=("linalg.ldl_solve",), out=True, skip=_BY_NAME)
def ldl_solve(LD, pivots, B, *, hermitian=False):
    """X of A X = B from A's ldl_factor.

    >>> import flambeau
    >>> LD, pivots = flambeau.linalg.ldl_factor(flambeau.tensor([[2., 0.], [0., 4.]]))
    >>> flambeau.linalg.ldl_solve(LD, pivots, flambeau.ones(2, 1))
    tensor([[0.5000],
            [0.2500]])
    """
    return _ldl_solve(LD, pivots, B, hermitian)


# --- QR --------------------------------------------------------------------------------------------------------------

linalg_qr = primitive(
    "linalg_qr(Tensor A, str mode='reduced') -> (Tensor Q, Tensor R)", autocast="float32",
    d={"A": lambda some_grads, Q, R, mode: rules.qr(*some_grads, Q, R, mode)},
    namespace=None, aliases=("linalg.qr",), out=True, samples="qr",
    doc="""A = Q R with orthonormal columns in Q and an upper triangular R. mode: "reduced", "complete" (square Q) or
    "r" (R alone; Q is empty).

    >>> import flambeau
    >>> Q, R = flambeau.linalg.qr(flambeau.tensor([[3., 1.], [4., 2.]]))
    >>> (Q @ R).round(decimals=4)
    tensor([[3., 1.],
            [4., 2.]])
    """)


@composite("qr(Tensor self, bool some=True) -> (Tensor Q, Tensor R)", autocast="float32", out=True, samples="matrices")
def qr(self, some=True):
    """The older form of linalg.qr; some=False: mode "complete"."""
    return linalg_qr(self, "reduced" if some else "complete")


geqrf = primitive("geqrf(Tensor self) -> (Tensor a, Tensor tau)",
                  autocast="float32", out=True, samples="matrices", skip=_NO_DERIVATIVE,
                  d={"self": lambda g0: rules.undefined("geqrf")},
                  doc="""QR as reflections I - tau v v^H: R and below its diagonal the vectors v, and the factors tau.

    >>> import flambeau
    >>> flambeau.geqrf(flambeau.eye(2)).a
    tensor([[1., 0.],
            [0., 1.]])
    """)

_householder_product = primitive("_householder_product(Tensor A, Tensor tau) -> Tensor", namespace=None,
                                 skip="the kernel of linalg.householder_product, reached through it")
_ormqr = primitive("_ormqr(Tensor A, Tensor tau, Tensor other, bool left, bool transpose) -> Tensor", namespace=None,
                   skip="the kernel of ormqr, reached through it")


def _reflections(A, tau):
    """The vectors v with their ones and zeros, and their factors."""
    v = A.tril(-1) + OPS["eye"](*A.shape[-2:], dtype=A.dtype, device=A.device)
    return [(v.narrow(-1, k, 1), tau.narrow(-1, k, 1).unsqueeze(-1)) for k in range(tau.shape[-1])]


@composite("linalg_householder_product(Tensor A, Tensor tau) -> Tensor", autocast="float32", namespace=None, out=True,
           aliases=("linalg.householder_product",), samples="reflections")
def householder_product(A, tau):
    """The first columns of the product of reflections I - tau v v^H, as geqrf gives them.

    >>> import flambeau
    >>> flambeau.linalg.householder_product(flambeau.ones(2, 1), flambeau.ones(1))
    tensor([[ 0.],
            [-1.]])
    """
    if not differentiated(A, tau):
        return _householder_product(A, tau)
    result = OPS["eye"](*A.shape[-2:], dtype=A.dtype, device=A.device).expand(A.shape)
    for v, factor in reversed(_reflections(A, tau)):
        result = result - factor * v @ (_h(v) @ result)
    if not tau.shape[-1]:  # the identity, whatever A is; as a function of A and tau its derivative is zero
        result = result + A.narrow(-1, 0, 0).sum() + tau.sum()
    return _by_columns(result)


@composite("orgqr(Tensor self, Tensor input2) -> Tensor", autocast="float32", out=True, samples="reflections")
def orgqr(self, input2):
    """The older name of linalg.householder_product."""
    return householder_product(self, input2)


@composite("ormqr(Tensor self, Tensor input2, Tensor input3, bool left=True, bool transpose=False) -> Tensor",
           autocast="float32", out=True, skip=_BY_NAME)
def ormqr(self, input2, input3, left=True, transpose=False):
    """Q input3 (or input3 Q, or with Q^H) for the product Q of the reflections (self, input2) that geqrf gives.

    >>> import flambeau
    >>> flambeau.ormqr(*flambeau.geqrf(flambeau.eye(2)), flambeau.ones(2, 1))
    tensor([[1.],
            [1.]])
    """
    if not differentiated(self, input2, input3):
        return _ormqr(self, input2, input3, left, transpose)
    if not left:
        return _by_columns(_h(ormqr(self, input2, _h(input3), True, not transpose)))
    reflections = _reflections(self, input2)
    for v, factor in reflections if transpose else reversed(reflections):
        input3 = input3 - (factor.conj() if transpose and factor.is_complex() else factor) * v @ (_h(v) @ input3)
    return _by_columns(input3)
