"""Systems of equations, inverses, determinants, least squares."""

from .. import _C
from .._shown import shown
from . import _linalg_rules as rules
from .factorization import checked
from .kinds import OPS, composite, plain, primitive

_again = _C.is_grad_enabled
_KERNEL = "a kernel, reached through the functions of linalg"

primitive("_smallest_pivot(Tensor LU) -> Tensor", namespace=None, skip="for the derivative of singular determinants")


# --- solutions -------------------------------------------------------------------------------------------------------

_solve_ex = primitive(
    "_linalg_solve_ex(Tensor A, Tensor B, bool left) -> (Tensor result, Tensor LU, Tensor pivots, Tensor info)",
    d={("A", "B"): lambda g0, A, result0, LU, pivots, left, needs:
       rules.solve(g0, A, result0, LU, pivots, left, needs, _again())},
    namespace=None, skip=_KERNEL)


def _is_vector(A, B):
    """Whether B is a batch of right sides of one column each."""
    return B.ndim == 1 or (A.ndim - 1 == B.ndim and B.shape == A.shape[:-1])


def _solve(A, B, left):
    if not _is_vector(A, B):
        result, _, _, info = _solve_ex(A, B, left)
        return result, info
    if not left:
        raise RuntimeError("linalg.solve: B is a vector, which left=False would solve as B / A.squeeze(-1); write "
                           f"that, or give B {list(B.shape)} a second dimension")
    result, _, _, info = _solve_ex(A, B.unsqueeze(-1), left)
    return result.squeeze(-1), info


@composite("linalg_solve_ex(Tensor A, Tensor B, *, bool left=True, bool check_errors=False)"
           " -> (Tensor result, Tensor info)", namespace=None, aliases=("linalg.solve_ex",), out=True, samples="solve")
def solve_ex(A, B, *, left=True, check_errors=False):
    """As solve, with `info` instead of an error: zero, or the number of the first pivot that is zero.

    >>> import flambeau
    >>> flambeau.linalg.solve_ex(flambeau.zeros(1, 1), flambeau.ones(1, 1)).info
    tensor(1, dtype=torch.int32)
    """
    result, info = _solve(A, B, left)
    if check_errors:
        checked(info, "linalg_solve_ex", A)
    return result, info


@composite("linalg_solve(Tensor A, Tensor B, *, bool left=True) -> Tensor",
           autocast="float32", namespace=None, aliases=("linalg.solve",),
           out=True, samples="solve")
def linalg_solve(A, B, *, left=True):
    """X of A X = B (left) or X A = B for square invertible A; B may be a vector. Batches broadcast.

    >>> import flambeau
    >>> flambeau.linalg.solve(flambeau.tensor([[2., 1.], [1., 1.]]), flambeau.tensor([3., 2.]))
    tensor([1., 1.])
    """
    result, info = _solve(A, B, left)
    checked(info, "torch.linalg.solve", A)
    return result


# --- inverses --------------------------------------------------------------------------------------------------------

inv_ex = primitive(
    "linalg_inv_ex(Tensor A, *, bool check_errors=False) -> (Tensor inverse, Tensor info)", autocast="float32",
    d={"A": lambda g0, inverse: -(rules.h(inverse) @ g0 @ rules.h(inverse))},
    namespace=None, aliases=("linalg.inv_ex",), out=True, samples="squares",
    doc="""As inv, with `info` instead of an error: zero, or the number of the first pivot that is zero.

    >>> import flambeau
    >>> flambeau.linalg.inv_ex(flambeau.zeros(1, 1)).info
    tensor(1, dtype=torch.int32)
    """)


@composite("linalg_inv(Tensor A) -> Tensor",
           autocast="float32", namespace=None, aliases=("linalg.inv",), out=True, samples="squares")
def inv(A):
    """The inverse of a square matrix; a singular one raises LinAlgError.

    >>> import flambeau
    >>> flambeau.linalg.inv(flambeau.tensor([[2., 0.], [0., 4.]]))
    tensor([[0.5000, 0.0000],
            [0.0000, 0.2500]])
    """
    result, info = inv_ex(A)
    checked(info, "linalg.inv", A)
    return result


@composite("inverse(Tensor self) -> Tensor", autocast="float32", out=True, samples="squares")
def inverse(self):
    """The same as linalg.inv.

    >>> import flambeau
    >>> flambeau.inverse(flambeau.tensor([[2.]]))
    tensor([[0.5000]])
    """
    return inv(self)


# --- determinants ----------------------------------------------------------------------------------------------------

_det = primitive("_linalg_det(Tensor A) -> (Tensor result, Tensor LU, Tensor pivots)",
                 d={"A": lambda g0, A, result0, LU, pivots: rules.det(g0, A, result0, LU, pivots, _again())},
                 namespace=None, skip=_KERNEL)
_slogdet = primitive(
    "_linalg_slogdet(Tensor A) -> (Tensor sign, Tensor logabsdet, Tensor LU, Tensor pivots)",
    d={"A": lambda some_grads, A, sign, LU, pivots: rules.slogdet(*some_grads[:2], A, sign, LU, pivots, _again())},
    namespace=None, skip=_KERNEL)


@composite("linalg_det(Tensor A) -> Tensor", namespace=None, aliases=("linalg.det",), out=True, samples="squares")
def linalg_det(A):
    """The determinant of a square matrix.

    >>> import flambeau
    >>> flambeau.linalg.det(flambeau.tensor([[2., 0.], [1., 3.]]))
    tensor(6.)
    """
    return _det(A)[0]


@composite("det(Tensor self) -> Tensor", autocast="given", samples="squares")
def det(self):
    """The same as linalg.det."""
    return _det(self)[0]


@composite("linalg_slogdet(Tensor A) -> (Tensor sign, Tensor logabsdet)", namespace=None, aliases=("linalg.slogdet",),
           out=True, samples="squares")
def linalg_slogdet(A):
    """The determinant as a sign (of complex matrices a number of size one) and the logarithm of its size, which does
    not overflow.

    >>> import flambeau
    >>> flambeau.linalg.slogdet(flambeau.tensor([[-1.]])).sign
    tensor(-1.)
    """
    return _slogdet(A)[:2]


@composite("slogdet(Tensor self) -> (Tensor sign, Tensor logabsdet)", autocast="given", out=True, samples="squares")
def slogdet(self):
    """The same as linalg.slogdet."""
    return _slogdet(self)[:2]


@composite("logdet(Tensor self) -> Tensor", autocast="given", samples="positive_definite")
def logdet(self):
    """The logarithm of the determinant: NaN where that is negative, -inf where it is zero.

    >>> import flambeau
    >>> flambeau.logdet(flambeau.eye(2))
    tensor(0.)
    """
    sign, size = _slogdet(self)[:2]
    if self.is_complex():
        return sign.log() + size
    return OPS["where"](sign == -1, float("nan"), size)


# --- least squares ---------------------------------------------------------------------------------------------------

_lstsq = primitive(
    "_linalg_lstsq(Tensor A, Tensor B, float rcond, str driver)"
    " -> (Tensor solution, Tensor residuals, Tensor rank, Tensor singular_values)",
    d={("A", "B"): lambda some_grads, A, B, solution, needs: rules.lstsq(*some_grads[:2], A, B, solution, needs)},
    namespace=None, skip=_KERNEL)
_DRIVERS = ("gels", "gelsy", "gelsd", "gelss")
_EPSILON = {"torch.float32": 2.0 ** -23, "torch.float64": 2.0 ** -52, "torch.complex64": 2.0 ** -23,
            "torch.complex128": 2.0 ** -52}


@composite("linalg_lstsq(Tensor A, Tensor B, any rcond=None, *, str? driver=None)"
           " -> (Tensor solution, Tensor residuals, Tensor rank, Tensor singular_values)",
           autocast="float32", namespace=None,
           aliases=("linalg.lstsq",), out=True, samples="lstsq",
           skip={"gradcheck": "the singular values pass nothing on: tests/ops/test_decompositions.py"})
def lstsq(A, B, rcond=None, *, driver=None):
    """X with the least |A X - B|. Drivers: "gels" (A of full rank; the only one on CUDA), "gelsy" (the default on the
    CPU), "gelsd", "gelss" (any rank, singular values up to rcond times the largest counting as zero). residuals:
    squares of what is left, where there are more equations than unknowns, the rank is full and the driver another than
    gelsy; rank and singular_values as far as the driver finds them.

    >>> import flambeau
    >>> A, B = flambeau.tensor([[1., 0.], [1., 1.], [1., 2.]]), flambeau.tensor([[1.], [2.], [3.]])
    >>> flambeau.linalg.lstsq(A, B).solution.round(decimals=4)
    tensor([[1.],
            [1.]])
    """
    if driver is not None and driver not in _DRIVERS:
        raise RuntimeError(f"linalg.lstsq: driver must be 'gels', 'gelsy', 'gelsd' or 'gelss', got {shown(driver)}")
    if A.ndim < 2:
        raise RuntimeError(f"linalg.lstsq: A must be a matrix, or a batch of them, got shape {list(A.shape)}")
    if B.ndim < 1 or not A.ndim - 1 <= B.ndim <= A.ndim:
        raise RuntimeError("linalg.lstsq: B must have as many dimensions as A, or one less for a single right-hand "
                           f"side, got A {list(A.shape)} and B {list(B.shape)}")
    if A.is_cuda and B.is_cuda and driver not in (None, "gels"):
        raise RuntimeError("linalg.lstsq: on CUDA there is the driver 'gels' (A of full rank), got "
                           f"{shown(driver)}; leave it out, or move A and B to the CPU")
    driver = driver or ("gels" if A.is_cuda else "gelsy")
    m, n = A.shape[-2:]
    vector = B.ndim == A.ndim - 1
    if rcond is None:
        rcond = _EPSILON.get(str(A.dtype), 0.0) * max(m, n)
    X, left, rank, values = _lstsq(A, B.unsqueeze(-1) if vector else B, float(rcond), driver)
    if m <= n or driver == "gelsy" or (driver != "gels" and not bool((plain(rank) == n).all())):
        left = left.reshape(-1).narrow(0, 0, 0)
    elif vector:
        left = left.squeeze(-1)
    return X.squeeze(-1) if vector else X, left, rank, values.detach()
