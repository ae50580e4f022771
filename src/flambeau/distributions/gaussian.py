"""Normal distributions of vectors: with a covariance matrix, and with one of low rank plus a diagonal."""

import math

import flambeau

from . import constraints
from .distribution import Distribution
from .utils import lazy_property, one_of

_MATRIX = {"covariance_matrix": constraints.positive_definite, "precision_matrix": constraints.positive_definite,
           "scale_tril": constraints.lower_cholesky}
_LOG_2PI = math.log(2 * math.pi)


def squared_length(factor, vectors):
    """|L^-1 v|^2 for lower triangular L: the squared Mahalanobis length of vectors in batches."""
    if factor.dim() == 2:  # one matrix for all vectors: they are the columns of one right-hand side
        columns = vectors.reshape(-1, vectors.shape[-1]).mT
        solved = flambeau.linalg.solve_triangular(factor, columns, upper=False)
        return solved.square().sum(0).reshape(vectors.shape[:-1])
    return flambeau.linalg.solve_triangular(factor, vectors.unsqueeze(-1), upper=False).square().sum((-2, -1))


def half_log_det(factor):
    """log det L, half the logarithm of the determinant of L L^T."""
    return factor.diagonal(dim1=-2, dim2=-1).log().sum(-1)


def inverse_of(factor):
    """(L L^T)^-1"""
    return flambeau.cholesky_inverse(factor)


def factor_of_inverse(precision):
    """The Cholesky factor of the inverse: that of the flipped matrix, flipped back, is an upper factor of it."""
    upper = flambeau.linalg.cholesky(precision.flip(-2, -1)).flip(-2, -1)
    eye = flambeau.eye(precision.shape[-1], dtype=precision.dtype, device=precision.device)
    return flambeau.linalg.solve_triangular(upper.mT, eye, upper=False)


class WithCovariance:
    """Distributions given by one of a covariance matrix, its inverse, or its Cholesky factor.

    `_unbroadcasted_scale_tril` keeps the shape that was given, without the batch dimensions of other parameters.
    """

    def _take_matrix(self, name, matrix, batch_shape):
        setattr(self, name, matrix.expand(*batch_shape, -1, -1))

    def _factorize(self, name, matrix):
        self._unbroadcasted_scale_tril = {"scale_tril": lambda m: m, "covariance_matrix": flambeau.linalg.cholesky,
                                          "precision_matrix": factor_of_inverse}[name](matrix)

    def _whole(self, matrix):
        return matrix.expand(*self._batch_shape, *matrix.shape[-2:])

    @lazy_property
    def scale_tril(self):
        """The Cholesky factor of the covariance matrix."""
        return self._whole(self._unbroadcasted_scale_tril)

    @lazy_property
    def covariance_matrix(self):
        """The covariance matrix, or for matrices the scale matrix."""
        factor = self._unbroadcasted_scale_tril
        return self._whole(factor @ factor.mT)

    @lazy_property
    def precision_matrix(self):
        """The inverse of the covariance matrix."""
        return self._whole(inverse_of(self._unbroadcasted_scale_tril))


class MultivariateNormal(WithCovariance, Distribution):
    """The normal distribution of vectors.

    >>> MultivariateNormal(flambeau.zeros(2), flambeau.eye(2)).log_prob(flambeau.zeros(2))
    tensor(-1.8379)
    """

    arg_constraints = {"loc": constraints.real_vector, **_MATRIX}
    support = constraints.real_vector
    has_rsample = True

    def __init__(self, loc, covariance_matrix=None, precision_matrix=None, scale_tril=None, validate_args=None):
        choices = {"covariance_matrix": covariance_matrix, "scale_tril": scale_tril,
                   "precision_matrix": precision_matrix}
        name = one_of(**choices)
        matrix = choices[name]
        if loc.dim() < 1 or matrix.dim() < 2:
            raise ValueError(f"MultivariateNormal: expected vectors loc and a matrix {name}, or batches of them, got "
                             f"shapes {list(loc.shape)} and {list(matrix.shape)}")
        batch_shape = flambeau.broadcast_shapes(matrix.shape[:-2], loc.shape[:-1])
        self._take_matrix(name, matrix, batch_shape)
        self.loc = loc.expand(*batch_shape, -1)
        super().__init__(batch_shape, self.loc.shape[-1:], validate_args)
        self._factorize(name, matrix)

    @property
    def mean(self):
        """loc"""
        return self.loc

    mode = mean

    @property
    def variance(self):
        """The diagonal of the covariance matrix"""
        return self._unbroadcasted_scale_tril.square().sum(-1).expand(self._batch_shape + self._event_shape)

    def rsample(self, sample_shape=()):
        """loc + L times standard normal vectors"""
        noise = flambeau.randn(self._extended_shape(sample_shape), dtype=self.loc.dtype, device=self.loc.device)
        return self.loc + (self._unbroadcasted_scale_tril @ noise.unsqueeze(-1)).squeeze(-1)

    def log_prob(self, value):
        """- |L^-1 (x - loc)|^2 / 2 - log det L - n/2 log(2 pi)"""
        factor = self._unbroadcasted_scale_tril
        length = squared_length(factor, self._checked(value) - self.loc)
        return -0.5 * (self._event_shape[0] * _LOG_2PI + length) - half_log_det(factor)

    def entropy(self):
        """n/2 (1 + log(2 pi)) + log det L"""
        found = 0.5 * self._event_shape[0] * (1 + _LOG_2PI) + half_log_det(self._unbroadcasted_scale_tril)
        return found.expand(self._batch_shape)


class LowRankMultivariateNormal(Distribution):
    """The normal distribution of vectors with covariance W W^T + diag(d), W an n x r matrix.

    Products and determinants go through the r x r matrix I + W^T diag(d)^-1 W (Woodbury's identity).

    >>> LowRankMultivariateNormal(flambeau.zeros(2), flambeau.ones(2, 1), flambeau.ones(2)).covariance_matrix
    tensor([[2., 1.],
            [1., 2.]])
    """

    arg_constraints = {"loc": constraints.real_vector,
                       "cov_factor": constraints.independent(constraints.real, 2),
                       "cov_diag": constraints.independent(constraints.positive, 1)}
    support = constraints.real_vector
    has_rsample = True

    def __init__(self, loc, cov_factor, cov_diag, validate_args=None):
        if loc.dim() < 1:
            raise ValueError("LowRankMultivariateNormal: loc must be vectors, got a scalar")
        size = loc.shape[-1]
        if cov_factor.dim() < 2 or cov_factor.shape[-2] != size:
            raise ValueError(f"LowRankMultivariateNormal: cov_factor must be matrices of {size} rows, loc's number of "
                             f"entries; got shape {list(cov_factor.shape)}")
        if cov_diag.dim() < 1 or cov_diag.shape[-1] != size:
            raise ValueError(f"LowRankMultivariateNormal: cov_diag must be vectors of {size} entries, as loc; got "
                             f"shape {list(cov_diag.shape)}")
        batch_shape = flambeau.broadcast_shapes(loc.shape[:-1], cov_factor.shape[:-2], cov_diag.shape[:-1])
        self.loc, self.cov_diag = loc.expand(*batch_shape, -1), cov_diag.expand(*batch_shape, -1)
        self.cov_factor = cov_factor.expand(*batch_shape, -1, -1)
        self._unbroadcasted_cov_factor, self._unbroadcasted_cov_diag = cov_factor, cov_diag
        weighted = cov_factor.mT / cov_diag.unsqueeze(-2)
        inner = weighted @ cov_factor
        eye = flambeau.eye(inner.shape[-1], dtype=inner.dtype, device=inner.device)
        self._capacitance_tril = flambeau.linalg.cholesky(inner + eye)
        super().__init__(batch_shape, loc.shape[-1:], validate_args)

    @property
    def mean(self):
        """loc"""
        return self.loc

    mode = mean

    @lazy_property
    def variance(self):
        """The diagonal of the covariance matrix"""
        return self.cov_factor.square().sum(-1) + self.cov_diag

    @lazy_property
    def covariance_matrix(self):
        """W W^T + diag(d)"""
        return self.cov_factor @ self.cov_factor.mT + self.cov_diag.diag_embed()

    @lazy_property
    def scale_tril(self):
        """The Cholesky factor of the covariance matrix."""
        return flambeau.linalg.cholesky(self.covariance_matrix)

    @lazy_property
    def precision_matrix(self):
        """diag(d)^-1 - A^T A with A = C^-1 W^T diag(d)^-1, C C^T = I + W^T diag(d)^-1 W"""
        weighted = self._unbroadcasted_cov_factor.mT / self._unbroadcasted_cov_diag.unsqueeze(-2)
        a = flambeau.linalg.solve_triangular(self._capacitance_tril, weighted, upper=False)
        found = self._unbroadcasted_cov_diag.reciprocal().diag_embed() - a.mT @ a
        return found.expand(*self._batch_shape, *found.shape[-2:])

    def _declared_names(self):
        return (*self.arg_constraints, "variance", "covariance_matrix", "scale_tril", "precision_matrix")

    def rsample(self, sample_shape=()):
        """loc + W times r standard normal numbers + sqrt(d) times n more"""
        shape, options = self._extended_shape(sample_shape), {"dtype": self.loc.dtype, "device": self.loc.device}
        inner = flambeau.randn(shape[:-1] + self.cov_factor.shape[-1:], **options)
        outer = flambeau.randn(shape, **options)
        common = (self._unbroadcasted_cov_factor @ inner.unsqueeze(-1)).squeeze(-1)
        return self.loc + common + self._unbroadcasted_cov_diag.sqrt() * outer

    def log_det(self):
        """log of the covariance matrix's determinant"""
        return 2 * half_log_det(self._capacitance_tril) + self._unbroadcasted_cov_diag.log().sum(-1)

    def squared_length(self, vectors):
        """v^T (W W^T + diag(d))^-1 v"""
        weighted = vectors / self._unbroadcasted_cov_diag
        inner = (self._unbroadcasted_cov_factor.mT @ weighted.unsqueeze(-1)).squeeze(-1)
        return (vectors * weighted).sum(-1) - squared_length(self._capacitance_tril, inner)

    def log_prob(self, value):
        """- (n log(2 pi) + log det + squared length) / 2"""
        length = self.squared_length(self._checked(value) - self.loc)
        return -0.5 * (self._event_shape[0] * _LOG_2PI + self.log_det() + length)

    def entropy(self):
        """(n (1 + log(2 pi)) + log det) / 2"""
        return (0.5 * (self._event_shape[0] * (1 + _LOG_2PI) + self.log_det())).expand(self._batch_shape)

    def __repr__(self):
        shown = ", ".join(f"{name}: {getattr(self, name).shape}" for name in self.arg_constraints)
        return f"{type(self).__name__}({shown})"
