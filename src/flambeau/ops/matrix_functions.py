"""Powers and exponentials of matrices, cross products, and tensors reshaped to matrices."""

from math import prod

from .. import _C
from .dims import wrap_dim
from .kinds import OPS, composite, plain
from .solving import inv, inverse, linalg_solve

# --- powers ----------------------------------------------------------------------------------------------------------

def _power(A, n):
    if A.ndim < 2 or A.shape[-1] != A.shape[-2]:
        raise RuntimeError("linalg.matrix_power: A must be a square matrix, or a batch of them, got shape "
                           f"{list(A.shape)}")
    if n == 0:
        return A.clone().copy_(OPS["eye"](A.shape[-1], dtype=A.dtype, device=A.device))
    if n < 0:
        A, n = inv(A), -n
    if n == 1:
        return A.clone()
    result = None
    while n:
        if n % 2:
            result = A if result is None else result @ A
        n //= 2
        if n:
            A = A @ A
    return result


@composite("linalg_matrix_power(Tensor A, int n) -> Tensor", namespace=None, aliases=("linalg.matrix_power",), out=True,
           samples="matrix_power")
def linalg_matrix_power(A, n):
    """The product of n copies of a square matrix; of negative n, of its inverse.

    >>> import flambeau
    >>> flambeau.linalg.matrix_power(flambeau.tensor([[1., 1.], [0., 1.]]), 5)
    tensor([[1., 5.],
            [0., 1.]])
    """
    return _power(A, n)


@composite("matrix_power(Tensor self, int n) -> Tensor", autocast="given", out=True, samples="matrix_power")
def matrix_power(self, n):
    """The same as linalg.matrix_power."""
    return _power(self, n)


#: Taylor polynomials of these degrees reach full precision up to these 1-norms (Bader, Blanes, Casas 2019, table)
_DEGREES = {4: ((1, 1.192092800768788e-7), (2, 5.978858893805233e-4), (4, 5.116619363445086e-2),
                (8, 5.800524627688768e-1), (12, 1.461661507209034), (18, 3.010066362817634)),
            8: ((1, 2.220446049250313e-16), (2, 2.580956802971767e-8), (4, 3.397168839976962e-4),
                (8, 4.991228871115323e-2), (12, 2.996158913811580e-1), (18, 1.090863719290036))}


def _taylor(A, degree):
    """sum A^k / k! up to `degree`, in blocks of powers (Paterson and Stockmeyer 1973)."""
    n = A.shape[-1]
    width = {1: 1, 2: 2, 4: 2, 8: 3, 12: 3, 18: 4}[degree]
    powers = [OPS["eye"](n, dtype=A.dtype, device=A.device), A]
    for _ in range(2, width + 1):
        powers.append(powers[-1] @ A)
    factors, f = [1.0], 1.0
    for k in range(1, degree + 1):
        f /= k
        factors.append(f)
    result = None
    for start in range(degree // width * width, -1, -width):
        block = None
        for k in range(start, min(start + width, degree + 1)):
            term = powers[k - start] * factors[k]
            block = term if block is None else block + term
        result = block if result is None else block + powers[width] @ result
    return result


def _exponential(A):
    if A.ndim < 2 or A.shape[-1] != A.shape[-2]:
        raise RuntimeError("linalg.matrix_exp: A must be a square matrix, or a batch of them, got shape "
                           f"{list(A.shape)}")
    if not (A.is_floating_point() or A.is_complex()):
        raise RuntimeError(f"linalg.matrix_exp: expected floating-point or complex numbers, got {A.dtype}")
    if A.numel() == 0:
        return A.clone()
    if A.shape[-1] == 1:
        return A.exp()
    wide = A.dtype in (_C.float64, _C.complex128)
    size = A.detach().abs().sum(-2).amax(-1)
    limits = _DEGREES[8 if wide else 4]
    largest = float(plain(size).max()) if size.device.type != "meta" else 0.0
    for degree, limit in limits:
        if largest <= limit:
            return _taylor(A, degree)
    # larger matrices are halved until they are small, and the result squared as often; each of a batch by its own size
    halvings = (size / limits[-1][1]).log2().ceil().clamp(min=0).nan_to_num(0.0, 0.0, 0.0)
    result = _taylor(A * OPS["pow"](2.0, -halvings).unsqueeze(-1).unsqueeze(-1), limits[-1][0])
    for k in range(int(plain(halvings).max())):
        squared = result @ result
        alone = A.ndim == 2 and not _C.level_of(A)
        result = squared if alone else OPS["where"]((halvings > k).unsqueeze(-1).unsqueeze(-1), squared, result)
    return result


@composite("matrix_exp(Tensor self) -> Tensor", autocast="given", samples="squares", aliases=())
def matrix_exp(self):
    """The same as linalg.matrix_exp."""
    return _exponential(self)


@composite("linalg_matrix_exp(Tensor A) -> Tensor", namespace=None, aliases=("linalg.matrix_exp",), samples="squares")
def linalg_matrix_exp(A):
    """The exponential of a square matrix, by Taylor polynomials of a scaled matrix and squarings.

    >>> import flambeau
    >>> flambeau.linalg.matrix_exp(flambeau.tensor([[0., 1.], [0., 0.]]))
    tensor([[1., 1.],
            [0., 1.]])
    """
    return _exponential(A)

# --- cross products, Vandermonde -------------------------------------------------------------------------------------

def _cross(a, b, dim, api):
    if a.ndim != b.ndim:
        raise RuntimeError(f"{api}: the tensors must have equally many dimensions, got {a.ndim} and {b.ndim}")
    dim = wrap_dim(dim, a.ndim, api)
    if a.ndim == 0 or a.shape[dim] != 3 or b.shape[dim] != 3:
        raise RuntimeError(f"{api}: vectors of 3 components are expected along dim {dim}, got shapes {list(a.shape)} "
                           f"and {list(b.shape)}")
    return a.roll(-1, dim) * b.roll(-2, dim) - a.roll(-2, dim) * b.roll(-1, dim)


@composite("linalg_cross(Tensor self, Tensor other, *, int dim=-1) -> Tensor", namespace=None,
           aliases=("linalg.cross",), out=True, samples="cross_pairs")
def linalg_cross(self, other, *, dim=-1):
    """The vector product along a dimension of size 3; the others broadcast.

    >>> import flambeau
    >>> flambeau.linalg.cross(flambeau.tensor([1., 0., 0.]), flambeau.tensor([0., 1., 0.]))
    tensor([0., 0., 1.])
    """
    return _cross(self, other, dim, "linalg.cross")


@composite("cross(Tensor self, Tensor other, int? dim=None) -> Tensor", out=True, samples="cross")
def cross(self, other, dim=None):
    """As linalg.cross; without `dim`, along the first dimension of size 3."""
    if dim is None:
        dim = next((d for d, n in enumerate(self.shape) if n == 3), None)
        if dim is None:
            raise RuntimeError(f"cross: no dimension has size 3 (shape {list(self.shape)}), so there are no vectors to "
                               "multiply")
    return _cross(self, other, dim, "linalg.cross")


@composite("linalg_vander(Tensor x, *, int? N=None) -> Tensor", namespace=None, aliases=("linalg.vander",),
           samples="linalg_vander")
def linalg_vander(x, *, N=None):
    """The powers 0 … N-1 of every number, along a new last dimension (N: as many as numbers).

    >>> import flambeau
    >>> flambeau.linalg.vander(flambeau.tensor([1., 2.]), N=3)
    tensor([[1., 1., 1.],
            [1., 2., 4.]])
    """
    if x.ndim == 0 and N is None:
        raise RuntimeError("linalg.vander: expected a tensor of at least one dimension, got a 0-d tensor")
    x = x.unsqueeze(0) if x.ndim == 0 else x
    n = x.shape[-1] if N is None else N
    if n <= 1 and not (N is None and n == 0) and n < 1:
        raise RuntimeError(f"linalg.vander: N must be positive, got {n}")
    if not (x.is_floating_point() or x.is_complex()):
        x = x.to(_C.int64)
    if x.ndim == 0:
        x = x.reshape(1)
    columns = x.unsqueeze(-1).expand((*x.shape, max(n - 1, 0)))
    ones = OPS["ones"]((*x.shape, min(n, 1)), dtype=x.dtype, device=x.device)
    return OPS["cat"]((ones, columns.cumprod(-1)), -1)

# --- tensors seen as matrices ----------------------------------------------------------------------------------------

@composite("linalg_tensorinv(Tensor self, int ind=2) -> Tensor",
           autocast="float32", namespace=None, aliases=("linalg.tensorinv",),
           out=True, samples="tensorinv")
def tensorinv(self, ind=2):
    """The inverse of a tensor seen as a matrix of its first `ind` dimensions by the others.

    >>> import flambeau
    >>> flambeau.linalg.tensorinv(flambeau.eye(6).reshape(2, 3, 6)).shape
    torch.Size([6, 2, 3])
    """
    if ind <= 0:
        raise RuntimeError(f"linalg.tensorinv: ind must be positive, got {ind}")
    first, last = self.shape[:ind], self.shape[ind:]
    if prod(first) != prod(last):
        raise RuntimeError(f"linalg.tensorinv: the first ind={ind} dimensions of {list(self.shape)} hold {prod(first)} "
                           f"elements and the others {prod(last)}; both must hold as many, so that the tensor reads as "
                           "a square matrix")
    n = prod(first)
    return inverse(self.reshape(n, n)).reshape((*last, *first))


@composite("linalg_tensorsolve(Tensor self, Tensor other, int[]? dims=None) -> Tensor",
           autocast="float32", namespace=None, out=True,
           aliases=("linalg.tensorsolve",), samples="tensorsolve")
def tensorsolve(self, other, dims=None):
    """X with tensordot(self, X, X.ndim) == other; `dims` of self are moved to its end before.

    >>> import flambeau
    >>> flambeau.linalg.tensorsolve(flambeau.eye(6).reshape(2, 3, 6), flambeau.ones(2, 3)).shape
    torch.Size([6])
    """
    if dims is not None:
        self = self.movedim(tuple(dims), tuple(range(self.ndim - len(dims), self.ndim)))
    inside = self.shape[other.ndim:]
    if prod(self.shape[:other.ndim]) != prod(inside):
        raise RuntimeError(f"linalg.tensorsolve: the first {other.ndim} dimensions of {list(self.shape)} hold "
                           f"{prod(self.shape[:other.ndim])} elements and the others {prod(inside)}; both must hold as "
                           "many, so that the tensor reads as a square matrix")
    n = prod(inside)
    return linalg_solve(self.reshape(n, n), other.reshape(n)).reshape(inside)
