"""Transforms: differentiable maps with their inverses, domains and the logarithms of their Jacobian determinants.

>>> import flambeau
>>> exp = flambeau.distributions.transforms.ExpTransform()
>>> exp.inv(exp(flambeau.tensor([1., 2.])))
tensor([1., 2.])
"""

import math

import flambeau
from flambeau.nn import functional as F

from . import constraints
from ._transform import ComposeTransform, IndependentTransform, ReshapeTransform, Transform, _Fixed, identity_transform
from ._transform import _InverseTransform as _InverseTransform
from ._transform_slices import CatTransform, StackTransform
from .utils import broadcast_all, lazy_property, tril_matrix_to_vec, vec_to_tril_matrix

__all__ = ["AbsTransform", "AffineTransform", "CatTransform", "ComposeTransform", "CorrCholeskyTransform",
           "CumulativeDistributionTransform", "ExpTransform", "IndependentTransform", "LowerCholeskyTransform",
           "PositiveDefiniteTransform", "PowerTransform", "ReshapeTransform", "SigmoidTransform", "SoftmaxTransform",
           "SoftplusTransform", "StackTransform", "StickBreakingTransform", "TanhTransform", "Transform",
           "identity_transform"]  # fmt: skip


# --- one number to one number -----------------------------------------------------------------------------------------

class ExpTransform(_Fixed):
    """y = exp(x)

    >>> ExpTransform()(flambeau.zeros(1))
    tensor([1.])
    """

    domain, codomain = constraints.real, constraints.positive
    bijective, sign = True, 1

    def _call(self, x):
        return x.exp()

    def _inverse(self, y):
        return y.log()

    def log_abs_det_jacobian(self, x, y):
        return x


def _as_tensor(value):
    return value if isinstance(value, flambeau.Tensor) else flambeau.tensor(float(value))


class PowerTransform(Transform):
    """y = x ** exponent, for positive x

    >>> PowerTransform(flambeau.tensor(2.))(flambeau.tensor([3.]))
    tensor([9.])
    """

    domain, codomain = constraints.positive, constraints.positive
    bijective = True

    def __init__(self, exponent, cache_size=0):
        super().__init__(cache_size)
        self.exponent, = broadcast_all(exponent)

    @lazy_property
    def sign(self):
        """1 where the map rises, -1 where it falls."""
        return self.exponent.sign()

    def with_cache(self, cache_size=1):
        return self if self._cache_size == cache_size else PowerTransform(self.exponent, cache_size)

    def __eq__(self, other):
        return isinstance(other, PowerTransform) and bool(self.exponent.eq(other.exponent).all())

    def _call(self, x):
        return x.pow(self.exponent)

    def _inverse(self, y):
        return y.pow(1 / self.exponent)

    def log_abs_det_jacobian(self, x, y):
        return (self.exponent * y / x).abs().log()

    def forward_shape(self, shape):
        return flambeau.broadcast_shapes(shape, getattr(self.exponent, "shape", ()))

    inverse_shape = forward_shape


def _inside_unit_interval(y):
    info = flambeau.finfo(y.dtype)
    return y.clamp(info.tiny, 1 - info.eps)


def _clipped_sigmoid(x):
    return _inside_unit_interval(x.sigmoid())


class SigmoidTransform(_Fixed):
    """y = 1 / (1 + exp(-x)), never exactly 0 or 1

    >>> SigmoidTransform()(flambeau.zeros(1))
    tensor([0.5000])
    """

    domain, codomain = constraints.real, constraints.unit_interval
    bijective, sign = True, 1

    def _call(self, x):
        return _clipped_sigmoid(x)

    def _inverse(self, y):
        y = _inside_unit_interval(y)
        return y.log() - (-y).log1p()

    def log_abs_det_jacobian(self, x, y):
        return F.logsigmoid(x) + F.logsigmoid(-x)


class SoftplusTransform(_Fixed):
    """y = log(1 + exp(x))

    >>> SoftplusTransform()(flambeau.zeros(1))
    tensor([0.6931])
    """

    domain, codomain = constraints.real, constraints.positive
    bijective, sign = True, 1

    def _call(self, x):
        return F.softplus(x)

    def _inverse(self, y):
        return y + (-(-y).expm1()).log()

    def log_abs_det_jacobian(self, x, y):
        return F.logsigmoid(x)


class TanhTransform(_Fixed):
    """y = tanh(x); its Jacobian stays finite where y rounds to 1, unlike that of sigmoid and affine composed.

    >>> TanhTransform()(flambeau.zeros(1))
    tensor([0.])
    """

    domain, codomain = constraints.real, constraints.interval(-1.0, 1.0)
    bijective, sign = True, 1

    def _call(self, x):
        return x.tanh()

    def _inverse(self, y):
        return y.atanh()

    def log_abs_det_jacobian(self, x, y):
        return _log_sech_squared(x)


class AbsTransform(_Fixed):
    """y = |x|; of its two inverses, the one that is not negative

    >>> AbsTransform()(flambeau.tensor([-2.]))
    tensor([2.])
    """

    domain, codomain = constraints.real, constraints.positive

    def _call(self, x):
        return x.abs()

    def _inverse(self, y):
        return y


def _log_sech_squared(x):
    """log(1 - tanh(x) ** 2) = 2 (log 2 - x - log(1 + exp(-2 x)))"""
    return 2 * (math.log(2) - x + F.logsigmoid(2 * x))


class AffineTransform(Transform):
    """y = loc + scale * x; event_dim: how many last dimensions make up one value

    >>> AffineTransform(1.0, 2.0)(flambeau.tensor([3.]))
    tensor([7.])
    """

    bijective = True

    def __init__(self, loc, scale, event_dim=0, cache_size=0):
        super().__init__(cache_size)
        self.loc, self.scale, self._event_dim = loc, scale, event_dim

    @property
    def event_dim(self):
        """How many last dimensions make up one value."""
        return self._event_dim

    @constraints.dependent_property(is_discrete=False)
    def domain(self):
        """Real numbers, or arrays of them."""
        return constraints.independent(constraints.real, self.event_dim) if self.event_dim else constraints.real

    codomain = domain

    def with_cache(self, cache_size=1):
        if self._cache_size == cache_size:
            return self
        return AffineTransform(self.loc, self.scale, self.event_dim, cache_size)

    def __eq__(self, other):
        return isinstance(other, AffineTransform) and all(
            a is b or bool(_as_tensor(a == b).all()) for a, b in ((self.loc, other.loc), (self.scale, other.scale)))

    @property
    def sign(self):
        """1 where the map rises, -1 where it falls."""
        if isinstance(self.scale, flambeau.Tensor):
            return self.scale.sign()
        return (self.scale > 0) - (self.scale < 0)

    def _call(self, x):
        return self.loc + self.scale * x

    def _inverse(self, y):
        return (y - self.loc) / self.scale

    def log_abs_det_jacobian(self, x, y):
        if isinstance(self.scale, flambeau.Tensor):
            result = self.scale.abs().log().expand(flambeau.broadcast_shapes(x.shape, self.scale.shape))
        else:
            result = flambeau.full_like(x, math.log(abs(self.scale)))
        return result.flatten(-self.event_dim).sum(-1) if self.event_dim else result

    def forward_shape(self, shape):
        return flambeau.broadcast_shapes(shape, getattr(self.loc, "shape", ()), getattr(self.scale, "shape", ()))

    inverse_shape = forward_shape


class CumulativeDistributionTransform(Transform):
    """y = cdf(x) of a distribution of numbers

    >>> CumulativeDistributionTransform(flambeau.distributions.Normal(0., 1.))(flambeau.zeros(1))
    tensor([0.5000])
    """

    bijective, sign = True, 1
    codomain = constraints.unit_interval

    def __init__(self, distribution, cache_size=0):
        super().__init__(cache_size)
        self.distribution = distribution

    @property
    def domain(self):
        """The distribution's support."""
        return self.distribution.support

    def _call(self, x):
        return self.distribution.cdf(x)

    def _inverse(self, y):
        return self.distribution.icdf(y)

    def log_abs_det_jacobian(self, x, y):
        return self.distribution.log_prob(x)

    def with_cache(self, cache_size=1):
        return self if self._cache_size == cache_size else type(self)(self.distribution, cache_size)


# --- vectors and matrices ---------------------------------------------------------------------------------------------

def _require(condition, transform, shape, needs):
    if not condition:
        raise ValueError(f"{type(transform).__name__}: expected {needs}, got shape {list(shape)}")


class SoftmaxTransform(_Fixed):
    """y = softmax(x) over the last dimension; not a bijection, because x + c gives the same y

    >>> SoftmaxTransform()(flambeau.zeros(2))
    tensor([0.5000, 0.5000])
    """

    domain, codomain = constraints.real_vector, constraints.simplex

    def _call(self, x):
        return x.softmax(-1)

    def _inverse(self, y):
        return y.log()

    def forward_shape(self, shape):
        _require(len(shape) >= 1, self, shape, "vectors")
        return shape

    inverse_shape = forward_shape


class StickBreakingTransform(_Fixed):
    """Breaks off a share of what is left of a stick, once per number: n real numbers to n + 1 shares of 1

    >>> StickBreakingTransform()(flambeau.zeros(2))
    tensor([0.3333, 0.3333, 0.3333])
    """

    domain, codomain = constraints.real_vector, constraints.simplex
    bijective = True

    @staticmethod
    def _log_pieces_after(x, n):
        """log of how many pieces remain after each: at x = 0, all pieces come out alike."""
        return flambeau.arange(n, 0, -1, dtype=x.dtype, device=x.device).log()

    def _call(self, x):
        share = _clipped_sigmoid(x - self._log_pieces_after(x, x.shape[-1]))
        left = (1 - share).cumprod(-1)
        return F.pad(share, [0, 1], value=1.0) * F.pad(left, [1, 0], value=1.0)

    def _inverse(self, y):
        pieces = y[..., :-1]
        left = (1 - pieces.cumsum(-1)).clamp(min=flambeau.finfo(y.dtype).tiny)
        return pieces.log() - left.log() + self._log_pieces_after(y, pieces.shape[-1])

    def log_abs_det_jacobian(self, x, y):
        x = x - self._log_pieces_after(x, x.shape[-1])
        return (F.logsigmoid(x) - x + y[..., :-1].log()).sum(-1)

    def forward_shape(self, shape):
        _require(len(shape) >= 1, self, shape, "vectors")
        return shape[:-1] + (shape[-1] + 1,)

    def inverse_shape(self, shape):
        _require(len(shape) >= 1, self, shape, "vectors")
        return shape[:-1] + (shape[-1] - 1,)


class LowerCholeskyTransform(_Fixed):
    """Keeps what is below the diagonal and takes exp of the diagonal.

    >>> LowerCholeskyTransform()(flambeau.zeros(2, 2))
    tensor([[1., 0.],
            [0., 1.]])
    """

    domain, codomain = constraints.independent(constraints.real, 2), constraints.lower_cholesky

    def _call(self, x):
        return x.tril(-1) + x.diagonal(dim1=-2, dim2=-1).exp().diag_embed()

    def _inverse(self, y):
        return y.tril(-1) + y.diagonal(dim1=-2, dim2=-1).log().diag_embed()


class PositiveDefiniteTransform(_Fixed):
    """L L^T, with L from LowerCholeskyTransform.

    >>> PositiveDefiniteTransform()(flambeau.zeros(2, 2))
    tensor([[1., 0.],
            [0., 1.]])
    """

    domain, codomain = constraints.independent(constraints.real, 2), constraints.positive_definite

    def _call(self, x):
        factor = LowerCholeskyTransform()(x)
        return factor @ factor.mT

    def _inverse(self, y):
        return LowerCholeskyTransform().inv(flambeau.linalg.cholesky(y))


class CorrCholeskyTransform(_Fixed):
    """n (n - 1) / 2 real numbers to the Cholesky factor of an n x n correlation matrix.

    tanh(x) are partial correlations: each takes its share of what is left of its row's unit length.
    Source: Lewandowski, Kurowicka and Joe 2009.

    >>> CorrCholeskyTransform()(flambeau.zeros(1))
    tensor([[1., 0.],
            [0., 1.]])
    """

    domain, codomain = constraints.real_vector, constraints.corr_cholesky
    bijective = True

    def _call(self, x):
        eps = flambeau.finfo(x.dtype).eps
        share = vec_to_tril_matrix(x.tanh().clamp(eps - 1, 1 - eps), -1)
        length = (1 - share.square()).sqrt().cumprod(-1)
        share = share + flambeau.eye(share.shape[-1], dtype=x.dtype, device=x.device)
        return share * F.pad(length[..., :-1], [1, 0], value=1.0)

    @staticmethod
    def _squares_left(y):
        """How much of each row's unit length is left from each place on."""
        return F.pad(1 - y.square().cumsum(-1), [1, 0], value=1.0)[..., :-1]

    def _inverse(self, y):
        share = tril_matrix_to_vec(y, -1) / tril_matrix_to_vec(self._squares_left(y), -1).sqrt()
        return (share.log1p() - (-share).log1p()) / 2  # atanh, with the digits near 0

    def log_abs_det_jacobian(self, x, y):
        if y.shape[-1] < 2:
            return y.new_zeros(y.shape[:-2])
        left = tril_matrix_to_vec(self._squares_left(y)[..., 1:, 1:], -1)  # before the first share all is left: log 1
        return left.log().sum(-1) / 2 + _log_sech_squared(x).sum(-1)

    def forward_shape(self, shape):
        _require(len(shape) >= 1, self, shape, "vectors")
        side = round((1 + (1 + 8 * shape[-1]) ** 0.5) / 2)
        _require(side * (side - 1) // 2 == shape[-1], self, shape, "n (n - 1) / 2 numbers for an n x n matrix")
        return shape[:-1] + (side, side)

    def inverse_shape(self, shape):
        _require(len(shape) >= 2 and shape[-1] == shape[-2], self, shape, "square matrices")
        return shape[:-2] + (shape[-1] * (shape[-1] - 1) // 2,)
