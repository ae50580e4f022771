"""Eigenvalues and singular values, and what is defined by them: pseudo-inverse, rank, condition, polar factors."""

from .. import _C
from .._shown import shown
from . import _linalg_rules as rules
from .kinds import OPS, composite, differentiated, primitive
from .products import _h

_HERMITIAN = {"gradcheck": "reads one triangle of a Hermitian matrix: tests/ops/test_decompositions.py"}
_GAUGE = {"gradcheck": "vectors are determined up to a phase only: tests/ops/test_decompositions.py",
          "layouts": "vectors are determined up to a phase only",
          "narrow_dtypes": "vectors are determined up to a phase only"}
_KERNEL = "a kernel, reached through the functions of linalg"


# --- eigenvalues -----------------------------------------------------------------------------------------------------

_eigh = primitive(
    "_linalg_eigh(Tensor A, str UPLO, bool compute_v) -> (Tensor eigenvalues, Tensor eigenvectors)",
    d={"A": lambda some_grads, eigenvalues, eigenvectors: rules.eigh(*some_grads, eigenvalues, eigenvectors)},
    namespace=None, skip=_KERNEL)


@composite("linalg_eigh(Tensor A, str UPLO='L') -> (Tensor eigenvalues, Tensor eigenvectors)",
           autocast="float32", namespace=None,
           aliases=("linalg.eigh",), out=True, samples="positive_definite", skip=_GAUGE)
def eigh(A, UPLO="L"):
    """Real eigenvalues in rising order and orthonormal eigenvectors (columns) of a Hermitian matrix, of which one
    triangle is read: "L" or "U".

    >>> import flambeau
    >>> flambeau.linalg.eigh(flambeau.tensor([[2., 0.], [0., 1.]])).eigenvalues
    tensor([1., 2.])
    """
    return _eigh(A, UPLO, True)


@composite("linalg_eigvalsh(Tensor A, str UPLO='L') -> Tensor",
           autocast="float32", namespace=None, aliases=("linalg.eigvalsh",), out=True,
           samples="positive_definite", skip=_HERMITIAN)
def eigvalsh(A, UPLO="L"):
    """The eigenvalues of a Hermitian matrix in rising order.

    >>> import flambeau
    >>> flambeau.linalg.eigvalsh(flambeau.tensor([[2., 0.], [0., 1.]]))
    tensor([1., 2.])
    """
    return _eigh(A, UPLO, differentiated(A))[0]


_eig = primitive(
    "_linalg_eig(Tensor A, bool compute_v) -> (Tensor eigenvalues, Tensor eigenvectors)",
    d={"A": lambda some_grads, eigenvalues, eigenvectors: rules.eig(*some_grads, eigenvalues, eigenvectors)},
    namespace=None, skip=_KERNEL)


@composite("linalg_eig(Tensor A) -> (Tensor eigenvalues, Tensor eigenvectors)", autocast="float32", namespace=None,
           aliases=("linalg.eig",), out=True, samples="squares", skip=_GAUGE)
def eig(A):
    """Complex eigenvalues of any square matrix, in no order, and eigenvectors of length one (columns).

    >>> import flambeau
    >>> flambeau.linalg.eig(flambeau.tensor([[0., 1.], [-1., 0.]])).eigenvalues
    tensor([0.+1.j, 0.-1.j])
    """
    return _eig(A, True)


@composite("linalg_eigvals(Tensor A) -> Tensor",
           autocast="float32", namespace=None, aliases=("linalg.eigvals",), out=True,
           samples="squares", skip={"layouts": "eigenvalues come in no order", "narrow_dtypes": "in no order"})
def eigvals(A):
    """The complex eigenvalues of any square matrix, in no order.

    >>> import flambeau
    >>> flambeau.linalg.eigvals(flambeau.tensor([[2., 1.], [0., 3.]]))
    tensor([2.+0.j, 3.+0.j])
    """
    return _eig(A, differentiated(A))[0]


# --- singular values -------------------------------------------------------------------------------------------------

_svd = primitive(
    "_linalg_svd(Tensor A, bool full_matrices, bool compute_uv) -> (Tensor U, Tensor S, Tensor Vh)",
    d={"A": lambda some_grads, U, S, Vh, full_matrices: rules.svd(*some_grads, U, S, Vh, full_matrices)},
    namespace=None, skip=_KERNEL)


def _check_driver(A, driver, api):
    """On CUDA any of its names is right, and what computes is chosen by shapes."""
    if A.is_cuda and driver not in (None, "gesvd", "gesvdj", "gesvda"):
        raise RuntimeError(f"{api}: driver must be 'gesvd', 'gesvdj' or 'gesvda', got {shown(driver)}")
    if driver is not None and not A.is_cuda:
        raise RuntimeError(f"{api}: driver chooses a routine of CUDA, and there is one routine on the CPU; leave "
                           f"driver={shown(driver)} out")


@composite("linalg_svd(Tensor A, bool full_matrices=True, *, str? driver=None) -> (Tensor U, Tensor S, Tensor Vh)",
           autocast="float32", namespace=None, aliases=("linalg.svd",), out=True, samples="matrices", skip=_GAUGE)
def linalg_svd(A, full_matrices=True, *, driver=None):
    """A = U diag(S) Vh with S falling; full_matrices: square U and Vh instead of the first min(m, n) vectors. On CUDA
    driver may be 'gesvd', 'gesvdj' or 'gesvda'; shapes choose what computes.

    >>> import flambeau
    >>> flambeau.linalg.svd(flambeau.tensor([[0., 2.], [1., 0.]])).S
    tensor([2., 1.])
    """
    _check_driver(A, driver, "linalg.svd")
    return _svd(A, full_matrices, True)


@composite("linalg_svdvals(Tensor A, *, str? driver=None) -> Tensor",
           autocast="float32", namespace=None, aliases=("linalg.svdvals",),
           out=True, samples="matrices")
def svdvals(A, *, driver=None):
    """The singular values of a matrix, falling.

    >>> import flambeau
    >>> flambeau.linalg.svdvals(flambeau.tensor([[0., 2.], [1., 0.]]))
    tensor([2., 1.])
    """
    _check_driver(A, driver, "linalg.svdvals")
    return _svd(A, False, differentiated(A))[1]


@composite("svd(Tensor self, bool some=True, bool compute_uv=True) -> (Tensor U, Tensor S, Tensor V)",
           autocast="float32", out=True,
           samples="matrices", skip=_GAUGE)
def svd(self, some=True, compute_uv=True):
    """The older form of linalg.svd, with V instead of its adjoint; some=False: square U and V; compute_uv=False: U and
    V are zeros.

    >>> import flambeau
    >>> flambeau.svd(flambeau.tensor([[0., 2.], [1., 0.]])).S
    tensor([2., 1.])
    """
    if self.ndim < 2:
        raise RuntimeError(f"linalg.svd: expected a matrix, or a batch of them, got {self.ndim} dimensions")
    if not compute_uv:
        m, n = self.shape[-2:]
        return self.new_zeros((*self.shape[:-2], m, m)), svdvals(self), self.new_zeros((*self.shape[:-2], n, n))
    U, S, Vh = _svd(self, not some, True)
    return U, S, _h(Vh)


# --- rank, condition, pseudo-inverse ---------------------------------------------------------------------------------

def _tolerance(A, values, atol, rtol, api):
    """What counts as zero among singular values: the larger of atol and rtol times the largest; without either,
    max(m, n) roundings of the largest."""
    for name, tol in (("atol", atol), ("rtol", rtol)):
        if hasattr(tol, "is_complex") and tol.is_complex():
            raise RuntimeError(f"{api}: {name} must be real, got {tol.dtype}")
    size = max(A.shape[-2:])
    epsilon = _EPSILON[str(values.dtype)]
    largest = values.amax(-1) if values.shape[-1] else values.sum(-1)
    if rtol is None:
        given = (atol > 0) if hasattr(atol, "shape") else atol is not None and atol > 0
        if hasattr(given, "shape"):
            rtol = OPS["where"](given, 0.0, epsilon * size)
        else:
            rtol = 0.0 if given else epsilon * size
    part = rtol * largest
    if atol is None:
        return part
    if not hasattr(atol, "shape"):
        return part.clamp(min=atol)
    return OPS["maximum"](part, atol.to(part.dtype))


_EPSILON = {"torch.float32": 2.0 ** -23, "torch.float64": 2.0 ** -52}


def _values(A, hermitian):
    return eigvalsh(A).abs() if hermitian else svdvals(A)


def _check_matrix(A, api, name="A"):
    if A.ndim < 2:
        raise RuntimeError(f"{api}: {name} must be a matrix, or a batch of them, got shape {list(A.shape)}")


@composite("linalg_matrix_rank(Tensor A, any tol=None, bool hermitian=False, *, any atol=None, any rtol=None)"
           " -> Tensor",
           autocast="float32", namespace=None, aliases=("linalg.matrix_rank",), out=True, samples="matrices")
def matrix_rank(A, tol=None, hermitian=False, *, atol=None, rtol=None):
    """How many singular values are larger than max(atol, rtol * the largest); hermitian: from eigenvalues.

    >>> import flambeau
    >>> flambeau.linalg.matrix_rank(flambeau.ones(3, 3))
    tensor(1)
    """
    _check_matrix(A, "linalg.matrix_rank")
    if tol is not None:
        if atol is not None or rtol is not None:
            raise ValueError("linalg.matrix_rank: expected either tol= or atol= and rtol=, got both")
        atol, rtol = tol, 0.0
    if A.numel() == 0:
        return OPS["zeros"](A.shape[:-2], dtype=_C.int64, device=A.device)
    values = _values(A.detach(), hermitian)
    tolerance = _tolerance(A, values, atol, rtol, "linalg.matrix_rank")
    return (values > tolerance.unsqueeze(-1)).sum(-1)


def pinv_values(A, atol, rtol, hermitian):
    """The pseudo-inverse itself, by eigenvalues or singular values."""
    if A.numel() == 0:
        return A.new_zeros((*A.shape[:-2], A.shape[-1], A.shape[-2]))
    if hermitian:
        w, U = _eigh(A, "L", True)
        sizes, Vh = w.abs(), _h(U)
    else:
        U, w, Vh = _svd(A, False, True)
        sizes = w
    tolerance = _tolerance(A, sizes, atol, rtol, "linalg.pinv").unsqueeze(-1)
    inverse = OPS["where"](sizes > tolerance, w.reciprocal(), OPS["zeros_like"](w))
    return (_h(Vh) * inverse.unsqueeze(-2)) @ _h(U)


_pinv = primitive("_linalg_pinv(Tensor A, any atol, any rtol, bool hermitian) -> Tensor", kernel=pinv_values,
                  d={"A": lambda g, A, result: rules.pinv(g, A, result)}, namespace=None, skip=_KERNEL)


@composite("linalg_pinv(Tensor A, any rcond=None, bool hermitian=False, *, any atol=None, any rtol=None) -> Tensor",
           autocast="float32", namespace=None, aliases=("linalg.pinv",), out=True, samples="matrices",
           skip={"gradgradcheck": "tested by name"})
def pinv(A, rcond=None, hermitian=False, *, atol=None, rtol=None):
    """The Moore-Penrose inverse; singular values up to max(atol, rtol * the largest) count as zero.

    >>> import flambeau
    >>> flambeau.linalg.pinv(flambeau.tensor([[2., 0.], [0., 0.]]))
    tensor([[0.5000, 0.0000],
            [0.0000, 0.0000]])
    """
    _check_matrix(A, "linalg.pinv")
    if rcond is not None:
        rtol = rcond
        atol = 0.0 if atol is None else atol
    if hermitian and A.shape[-1] != A.shape[-2]:
        raise RuntimeError("linalg.pinv: with hermitian=True A must be a square matrix, or a batch of them, got shape "
                           f"{list(A.shape)}")
    return _pinv(A, atol, rtol, hermitian)


@composite("pinverse(Tensor self, any rcond=1e-15) -> Tensor", autocast="float32", samples="matrices",
           skip={"gradgradcheck": "tested by name"})
def pinverse(self, rcond=1e-15):
    """The older form of linalg.pinv.

    >>> import flambeau
    >>> flambeau.pinverse(flambeau.tensor([[2.]]))
    tensor([[0.5000]])
    """
    return pinv(self, rcond)


@composite("linalg_cond(Tensor A, any p=None) -> Tensor",
           autocast="float32", namespace=None, aliases=("linalg.cond",), out=True,
           samples="squares")
def cond(A, p=None):
    """The condition number |A| |A^-1| in the norm p: None or 2, -2 (singular values), "fro", "nuc", 1, -1, inf, -inf.

    >>> import flambeau
    >>> flambeau.linalg.cond(flambeau.tensor([[2., 0.], [0., 1.]]))
    tensor(2.)
    """
    _check_matrix(A, "linalg.cond")
    if p is None or p in (2, -2):
        if A.numel() == 0:
            if A.shape[-1] != A.shape[-2] or A.shape[-1] != 0:
                return svdvals(A).sum(-1)
            return A.abs().sum((-2, -1))
        values = svdvals(A)
        largest, smallest = values.select(-1, 0), values.select(-1, -1)
        return smallest / largest if p == -2 else largest / smallest
    if A.shape[-1] != A.shape[-2]:
        raise RuntimeError(f"linalg.cond: p={shown(p)} needs a square matrix, or a batch of them, got shape "
                           f"{list(A.shape)}")
    norm = OPS["linalg_matrix_norm"]
    if A.numel() == 0:
        return norm(A, p)
    inverse, info = OPS["linalg_inv_ex"](A)
    found = norm(A, p) * norm(inverse, p)
    return OPS["where"](info == 0, found, float("inf"))


# --- polar decomposition, square root --------------------------------------------------------------------------------

@composite("linalg_matrix_sqrth(Tensor A) -> Tensor", namespace=None, aliases=("linalg.matrix_sqrth",), out=True,
           samples="positive_definite", skip=_HERMITIAN)
def matrix_sqrth(A):
    """The Hermitian square root of a Hermitian positive semi-definite matrix.

    >>> import flambeau
    >>> flambeau.linalg.matrix_sqrth(flambeau.tensor([[4., 0.], [0., 9.]]))
    tensor([[2., 0.],
            [0., 3.]])
    """
    w, V = _eigh(A, "L", True)
    return (V * w.clamp(min=0).sqrt().unsqueeze(-2)) @ _h(V)


@composite("linalg_polar(Tensor A) -> (Tensor U, Tensor H)", namespace=None, aliases=("linalg.polar",), out=True,
           samples="tall", skip={"gradgradcheck": "tested by name"})
def polar(A):
    """A = U H with orthonormal columns in U and a Hermitian positive semi-definite H, for A with at least as many rows
    as columns.

    >>> import flambeau
    >>> flambeau.linalg.polar(flambeau.tensor([[0., 2.], [1., 0.]])).H.abs()
    tensor([[1., 0.],
            [0., 2.]])
    """
    _check_matrix(A, "linalg.polar")
    if A.shape[-2] < A.shape[-1]:
        raise RuntimeError(f"linalg.polar: expected at least as many rows as columns, got shape {list(A.shape)}")
    W, S, Vh = _svd(A, False, True)
    return W @ Vh, (_h(Vh) * S.unsqueeze(-2)) @ Vh
