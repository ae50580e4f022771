"""Distances and similarities between vectors."""

from math import inf, prod

from .. import _C
from .._shown import shown
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
    strength = g.masked_fill(result == 0, 0) / result.masked_fill(result == 0, 1) ** (p - 1)
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


@composite("cdist(Tensor x1, Tensor x2, float p=2.0, str? compute_mode=None) -> Tensor",
           autocast="float32", method=False, dtypes="float",
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
    if x1.size(-1) != x2.size(-1):
        raise RuntimeError(f"cdist: the points of x1 {list(x1.shape)} and x2 {list(x2.shape)} must have equally many "
                           "coordinates (the last dimension)")
    by_product = max(x1.size(-2), x2.size(-2)) > _BY_PRODUCT[compute_mode]
    if x1.ndim == 2 and x2.ndim == 2:
        return _cdist(x1.unsqueeze(0), x2.unsqueeze(0), p, by_product).squeeze(0)
    batch = OPS["broadcast_tensors"](*(x.new_empty(()).expand(x.shape[:-2]) for x in (x1, x2)))[0].shape
    count = prod(batch)
    rows = [x.expand(*batch, *x.shape[-2:]).reshape(count, *x.shape[-2:]) for x in (x1, x2)]
    return _cdist(*rows, p, by_product).reshape(*batch, x1.shape[-2], x2.shape[-2])


def _pdist_share(g, self, result, p):
    n = self.shape[0]
    first, second = OPS["triu_indices"](n, n, 1, device=self.device).unbind(0)
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


@composite("cosine_similarity(Tensor x1, Tensor x2, int dim=1, float eps=1e-08) -> Tensor", method=False,
           dtypes="float", aliases=("nn.functional.cosine_similarity",))
def cosine_similarity(x1, x2, dim=1, eps=1e-8):
    """x1 . x2 / (|x1| |x2|) along `dim`, each norm at least eps.

    >>> flambeau.cosine_similarity(flambeau.tensor([[1., 0.]]), flambeau.tensor([[1., 1.]]))
    tensor([0.7071])
    """
    if x1.shape != x2.shape:
        x1, x2 = OPS["broadcast_tensors"](x1, x2)
    if x1.dtype != x2.dtype:
        common = _C.result_type(x1, x2)
        x1, x2 = x1.to(common), x2.to(common)
    return ((x1 / x1.norm(2, dim, True).clamp(min=eps)) * (x2 / x2.norm(2, dim, True).clamp(min=eps))).sum(dim)


@composite("pairwise_distance(Tensor x1, Tensor x2, float p=2.0, float eps=1e-06, bool keepdim=False) -> Tensor",
           method=False, dtypes="float", aliases=("nn.functional.pairwise_distance",))
def pairwise_distance(x1, x2, p=2.0, eps=1e-6, keepdim=False):
    """The p-norm of x1 - x2 + eps along the last dimension."""
    return (x1 - x2 + eps).norm(p, -1, keepdim)
