"""Distances between vectors, covariance, and integrals by the trapezoidal rule."""

from math import inf, prod

from .._shown import shown
from .cumulative import intervals
from .kinds import OPS, composite, primitive


@composite("dist(Tensor self, Tensor other, Scalar p=2) -> Tensor", samples="pairs", dtypes="float",
           skip={"gradgradcheck": "norms bend at zero"})
def dist(self, other, p=2):
    """The p-norm of self - other.

    >>> flambeau.tensor([3., 0.]).dist(flambeau.tensor([0., 4.]))
    tensor(5.)
    """
    return (self - other).norm(p)


def _pull(diff, result, g, p):
    """g times the derivative of |diff|_p by diff; g and result lack its last dimension. Distance 0 pulls nowhere."""
    if p == 0:
        return diff * 0 * g.unsqueeze(-1)
    if p == 1:
        return diff.sign() * g.unsqueeze(-1)
    if p == inf:
        return diff.sign() * (diff.abs() == result.unsqueeze(-1)) * g.unsqueeze(-1)
    strength = g / result.masked_fill(result == 0, inf) ** (p - 1)
    size = diff.abs()
    return diff.sign() * size.masked_fill(size == 0, 1 if p < 1 else 0) ** (p - 1) * strength.unsqueeze(-1)


def _cdist_share(g, x1, x2, result, p, needs):
    if p == 2:  # the same without the differences in memory
        strength = g / result.masked_fill(result == 0, inf)
        return (strength.sum(-1, True) * x1 - strength @ x2 if needs[0] else None,
                strength.sum(-2).unsqueeze(-1) * x2 - strength.mT @ x1 if needs[1] else None)
    pull = _pull(x1.unsqueeze(-2) - x2.unsqueeze(-3), result, g, p)
    return pull.sum(-2) if needs[0] else None, -pull.sum(-3) if needs[1] else None


_cdist = primitive("_cdist(Tensor x1, Tensor x2, float p, bool by_product) -> Tensor", namespace=None,
                   d={("x1", "x2"): lambda g, x1, x2, result, p, needs: _cdist_share(g, x1, x2, result, p, needs)},
                   skip="the kernel of cdist, reached through it",
                   doc="Distances [b, n, m] of rows [b, n, d], [b, m, d].")

_BY_PRODUCT = {None: 25, "use_mm_for_euclid_dist_if_necessary": 25, "use_mm_for_euclid_dist": -1,
               "donot_use_mm_for_euclid_dist": inf}


@composite("cdist(Tensor x1, Tensor x2, float p=2.0, str? compute_mode=None) -> Tensor", method=False, dtypes="float",
           skip={"gradgradcheck": "distances bend at zero"})
def cdist(x1, x2, p=2.0, compute_mode=None):
    """Distances [..., n, m] between the rows of x1 [..., n, d] and of x2 [..., m, d].

    Euclidean distances of more than 25 rows come from a matrix product, which is faster and rounds more;
    compute_mode="donot_use_mm_for_euclid_dist" prevents it, "use_mm_for_euclid_dist" asks for it always.

    >>> flambeau.cdist(flambeau.tensor([[0., 0.]]), flambeau.tensor([[3., 4.], [0., 1.]]))
    tensor([[5., 1.]])
    """
    if compute_mode not in _BY_PRODUCT:
        raise ValueError(f"cdist: compute_mode must be one of {', '.join(map(repr, list(_BY_PRODUCT)[1:]))}, got "
                         f"{shown(compute_mode)}")
    for x in (x1, x2):
        if not x.is_floating_point():
            raise RuntimeError(f"cdist: expected floating-point points, got {x.dtype}")
        if x.ndim < 2:
            raise RuntimeError("cdist: points come in at least 2 dimensions (points, coordinates), got shape "
                               f"{list(x.shape)}")
    if x1.shape[-1] != x2.shape[-1]:
        raise RuntimeError(f"cdist: the points of x1 {list(x1.shape)} and x2 {list(x2.shape)} must have equally many "
                           "coordinates (the last dimension)")
    by_product = max(x1.shape[-2], x2.shape[-2]) > _BY_PRODUCT[compute_mode]
    if x1.ndim == 2 and x2.ndim == 2:
        return _cdist(x1.unsqueeze(0), x2.unsqueeze(0), p, by_product).squeeze(0)
    batch = OPS["broadcast_tensors"](*(x.new_empty(()).expand(x.shape[:-2]) for x in (x1, x2)))[0].shape
    count = prod(batch)
    rows = [x.expand(*batch, *x.shape[-2:]).reshape(count, *x.shape[-2:]) for x in (x1, x2)]
    return _cdist(*rows, p, by_product).reshape(*batch, x1.shape[-2], x2.shape[-2])


def _pdist_share(g, self, result, p):
    n = self.shape[0]
    first, second = OPS["triu_indices"](n, n, 1).unbind(0)
    if p == 2:
        strength = g / result.masked_fill(result == 0, inf)
        half = self.new_zeros(n, n).index_put((first, second), strength)
        both = half + half.t()
        return both.sum(1, True) * self - both @ self
    pull = _pull(self.index_select(0, first) - self.index_select(0, second), result, g, p)
    return self.new_zeros(self.shape).index_add(0, first, pull).index_add(0, second, -pull)


_pdist = primitive("_pdist(Tensor self, float p) -> Tensor", namespace=None,
                   d={"self": lambda g, self, result, p: _pdist_share(g, self, result, p)},
                   skip="the kernel of pdist, reached through it", doc="Distances between all pairs of rows.")


@composite("pdist(Tensor self, float p=2.0) -> Tensor", method=False, dtypes="float", aliases=("nn.functional.pdist",),
           skip="tested by name")
def pdist(self, p=2.0):
    """Distances between all pairs of rows, in the order (0, 1), (0, 2) ... (1, 2) ...

    >>> flambeau.pdist(flambeau.tensor([[0.], [1.], [3.]]))
    tensor([1., 3., 2.])
    """
    return _pdist(self, p)


def _check_weights(name, weights, n, floating):
    """Weights of observations: one each, of that kind of dtype, none negative."""
    if weights is None:
        return
    if weights.ndim > 1:
        raise RuntimeError(f"cov: {name} must have at most 1 dimension, got {weights.ndim}")
    if weights.is_floating_point() != floating or weights.is_complex():
        raise RuntimeError(f"cov: expected {name} to have {'floating point' if floating else 'integral'} dtype but got "
                           f"{weights.dtype}")
    if weights.numel() != n:
        raise RuntimeError(f"cov: {name} must hold one number per observation, {n}, got {weights.numel()}")
    if n and weights.min().item() < 0:
        raise RuntimeError(f"cov: {name} cannot be negative")


@composite("cov(Tensor self, *, int correction=1, Tensor? fweights=None, Tensor? aweights=None) -> Tensor",
           skip="tested by name")
def cov(self, *, correction=1, fweights=None, aweights=None):
    """Covariance of variables (rows) over observations (columns), each counted fweights times and weighing aweights.

    >>> flambeau.tensor([[0., 1., 2.], [2., 1., 0.]]).cov()
    tensor([[ 1., -1.],
            [-1.,  1.]])
    """
    if self.ndim > 2:
        raise RuntimeError("cov: input must have at most 2 dimensions (variables, observations), got shape "
                           f"{list(self.shape)}")
    x = self if self.ndim == 2 else self.reshape(1, -1)
    if not (x.is_floating_point() or x.is_complex()):
        x = x * 1.0
    _check_weights("fweights", fweights, x.shape[1], False)
    _check_weights("aweights", aweights, x.shape[1], True)
    weights = aweights if fweights is None else fweights if aweights is None else fweights * aweights
    n = x.shape[1]
    if weights is None:
        average, total, free = x.mean(1, True), n, max(n - correction, 0)
    else:
        total = weights.sum()
        average = (x * weights).sum(1, True) / total
        counted = 1 if aweights is None else (weights * aweights).sum() / total
        free = (total - correction * counted).clamp(min=0)
    centred = x - average
    right = centred if weights is None else centred * weights
    result = centred @ right.t().conj() / free if weights is not None or free else centred @ right.t().conj() * inf
    return result.squeeze()


@composite("corrcoef(Tensor self) -> Tensor", skip="tested by name")
def corrcoef(self):
    """Correlations of variables (rows) over observations (columns).

    >>> flambeau.tensor([[0., 1., 2.], [2., 1., 0.]]).corrcoef()
    tensor([[ 1., -1.],
            [-1.,  1.]])
    """
    c = cov(self)
    if c.ndim == 0:
        return c / c
    deviation = c.diagonal().sqrt()
    r = c / deviation.unsqueeze(1) / deviation.unsqueeze(0)
    return OPS["complex"](r.real.clamp(-1, 1), r.imag.clamp(-1, 1)) if r.is_complex() else r.clamp(-1, 1)


@composite("trapezoid(Tensor y, Tensor? x=None, *, Scalar? dx=None, int dim=-1) -> Tensor", aliases=("trapz",),
           method=False, skip="tested by name")
def trapezoid(y, x=None, *, dx=None, dim=-1):
    """Integral of y along `dim` by the trapezoidal rule, over positions x or steps dx (1).

    >>> flambeau.trapezoid(flambeau.tensor([1., 2., 4.]))
    tensor(4.5000)
    """
    if x is not None:
        return intervals(y, x, dx, dim).sum(dim)
    n = y.shape[dim]
    ends = y.narrow(dim, 0, min(n, 1)) + y.narrow(dim, max(n - 1, 0), min(n, 1))
    area = y.sum(dim) - ends.sum(dim) / 2
    return area if dx is None else area * dx
