"""Distributions of matrices: Wishart's of covariance matrices, and LKJ's of correlation matrices."""

import math
import warnings

import flambeau

from . import constraints
from .bounded import Beta
from .distribution import Distribution
from .exp_family import ExponentialFamily
from .gaussian import _MATRIX, WithCovariance, half_log_det
from .positive import Chi2
from .utils import broadcast_all, lazy_property, one_of


def _sum_over(n, term, x):
    """Sums term(x + j / 2) over j = 0, -1, …, 1 - n."""
    return term(x.unsqueeze(-1) - flambeau.arange(n, dtype=x.dtype, device=x.device) / 2).sum(-1)


class Wishart(WithCovariance, ExponentialFamily):
    """The distribution of X^T X for `df` rows X of normal vectors with the given covariance matrix.

    >>> Wishart(flambeau.tensor(3.), flambeau.eye(2)).mean
    tensor([[3., 0.],
            [0., 3.]])
    """

    support = constraints.positive_definite
    has_rsample = True
    _mean_carrier_measure = 0

    def __init__(self, df, covariance_matrix=None, precision_matrix=None, scale_tril=None, validate_args=None):
        choices = {"covariance_matrix": covariance_matrix, "scale_tril": scale_tril,
                   "precision_matrix": precision_matrix}
        name = one_of(**choices)
        matrix = choices[name]
        if matrix.dim() < 2:
            raise ValueError(f"Wishart: {name} must be a matrix or a batch of them, got shape {list(matrix.shape)}")
        if not isinstance(df, flambeau.Tensor):
            df = matrix.new_tensor(float(df))
        batch_shape, size = flambeau.broadcast_shapes(df.shape, matrix.shape[:-2]), matrix.shape[-1]
        self.df = df.expand(batch_shape)
        if not (self.df > size - 1).all():
            raise ValueError(f"Wishart: df must be greater than {size - 1}, the matrices' size less 1; got "
                             f"{self.df.min().item()}")
        self._take_matrix(name, matrix, batch_shape)
        if (self.df < size).any():
            warnings.warn(f"Wishart: df below the matrices' size {size} makes samples that are nearly singular",
                          UserWarning, stacklevel=2)
        super().__init__(batch_shape, matrix.shape[-2:], validate_args)
        self._factorize(name, matrix)
        rows = flambeau.arange(size, dtype=self.df.dtype, device=self.df.device)
        self._dist_chi2 = Chi2(self.df.unsqueeze(-1) - rows)

    @property
    def arg_constraints(self):
        """The matrices' constraints; df exceeds their size less 1."""
        return {**_MATRIX, "df": constraints.greater_than(self._event_shape[-1] - 1)}

    @property
    def mean(self):
        """df V"""
        return self.df[..., None, None] * self.covariance_matrix

    @property
    def mode(self):
        """(df - n - 1) V, where that is positive"""
        factor = self.df - self._event_shape[0] - 1
        return factor.masked_fill(factor <= 0, flambeau.nan)[..., None, None] * self.covariance_matrix

    @property
    def variance(self):
        """df (V_jk^2 + V_jj V_kk)"""
        v = self.covariance_matrix
        diagonal = v.diagonal(dim1=-2, dim2=-1)
        return self.df[..., None, None] * (v.square() + diagonal.unsqueeze(-1) * diagonal.unsqueeze(-2))

    def _bartlett_sampling(self, sample_shape=()):
        """L A A^T L^T, A lower triangular with roots of chi-squared numbers on the diagonal and normal ones below."""
        size = self._event_shape[0]
        noise = self._dist_chi2.rsample(sample_shape).sqrt().diag_embed()
        rows, columns = flambeau.tril_indices(size, size, -1, device=noise.device)
        noise[..., rows, columns] = flambeau.randn(flambeau.Size(sample_shape) + self._batch_shape + (len(rows),),
                                                   dtype=noise.dtype, device=noise.device)
        factor = self._unbroadcasted_scale_tril @ noise
        return factor @ factor.mT

    def rsample(self, sample_shape=(), max_try_correction=None):
        """Samples by Bartlett's decomposition, redrawn up to max_try_correction times (10) where they are singular.

        PyTorch passes over the first draw whether or not it is singular; so does this, or the same seed would not
        give the same samples. `max_try_correction=0` returns the first draw.
        """
        tries = 10 if max_try_correction is None else max_try_correction
        sample = self._bartlett_sampling(sample_shape)
        if tries:
            sample = self._bartlett_sampling(sample_shape)
        for _ in range(tries - 1):
            singular = ~self.support.check(sample)
            if not singular.any():
                break
            warnings.warn("Wishart: a sample is singular in this precision and is drawn again", UserWarning,
                          stacklevel=2)
            sample = flambeau.where(singular[..., None, None], self._bartlett_sampling(sample_shape), sample)
        return sample

    def log_prob(self, value):
        """(df - n - 1)/2 log det X - tr(V^-1 X)/2 - log of (2^(n df / 2) det V^(df / 2) Gamma_n(df / 2))"""
        value, n = self._checked(value), self._event_shape[0]
        trace = flambeau.cholesky_solve(value, self._unbroadcasted_scale_tril).diagonal(dim1=-2, dim2=-1).sum(-1)
        log_det = flambeau.linalg.slogdet(value).logabsdet
        return (self.df - n - 1) / 2 * log_det - trace / 2 - self._log_constant()

    def _log_constant(self):
        n, half = self._event_shape[0], self.df / 2
        return half * n * math.log(2) + self.df * half_log_det(self._unbroadcasted_scale_tril) + \
            flambeau.mvlgamma(half, n)

    def entropy(self):
        """log of the constant - (df - n - 1)/2 E log det X + n df / 2"""
        n, half = self._event_shape[0], self.df / 2
        log_det = _sum_over(n, flambeau.digamma, half) + n * math.log(2) + \
            2 * half_log_det(self._unbroadcasted_scale_tril)
        return self._log_constant() - (self.df - n - 1) / 2 * log_det + n * half

    @property
    def _natural_params(self):
        return -self.precision_matrix / 2, (self.df - self._event_shape[-1] - 1) / 2

    def _log_normalizer(self, x, y):
        n = x.shape[-1]
        half = y + (n + 1) / 2
        return half * (n * math.log(2) - flambeau.linalg.slogdet(-2 * x).logabsdet) + flambeau.mvlgamma(half, n)


class LKJCholesky(Distribution):
    """Cholesky factors of correlation matrices, whose density is proportional to det^(concentration - 1).

    Samples by the onion method of Lewandowski, Kurowicka and Joe 2009.

    >>> LKJCholesky(2).log_prob(flambeau.eye(2))
    tensor(-0.6931)
    """

    arg_constraints = {"concentration": constraints.positive}
    support = constraints.corr_cholesky

    def __init__(self, dim, concentration=1.0, validate_args=None):
        if dim < 2:
            raise ValueError(f"LKJCholesky: dim must be at least 2, the size of the matrices; got {dim}")
        self.dim = dim
        self.concentration, = broadcast_all(concentration)
        # row k + 2 is a direction times a length whose square is Beta((k + 1)/2, concentration + (dim - 2 - k)/2)
        rest = flambeau.arange(dim - 1, dtype=self.concentration.dtype, device=self.concentration.device)
        above = flambeau.cat([rest.new_zeros(1), rest])
        marginal = (self.concentration + 0.5 * (dim - 2)).unsqueeze(-1)
        self._beta = Beta(above + 0.5, marginal - 0.5 * above)
        super().__init__(self.concentration.shape, (dim, dim), validate_args)

    def sample(self, sample_shape=()):
        """Each row: a random direction, of a random length below 1; the diagonal completes it to 1."""
        with flambeau.no_grad():
            square = self._beta.sample(sample_shape).unsqueeze(-1)
            options = {"dtype": square.dtype, "device": square.device}
            normal = flambeau.randn(self._extended_shape(sample_shape), **options).tril(-1)
            direction = normal / normal.norm(dim=-1, keepdim=True)
            direction[..., 0, :] = 0.0  # nothing stands before the first row's diagonal
            rows = square.sqrt() * direction
            left = (1 - rows.square().sum(-1)).clamp(min=flambeau.finfo(rows.dtype).tiny)
            return rows + left.sqrt().diag_embed()

    def log_prob(self, value):
        """sum over rows of (dim - row + 2 (concentration - 1)) log of the diagonal, normalized"""
        diagonal = self._checked(value).diagonal(dim1=-2, dim2=-1)[..., 1:]
        row = flambeau.arange(2, self.dim + 1, dtype=self.concentration.dtype, device=self.concentration.device)
        power = 2 * (self.concentration - 1).unsqueeze(-1) + self.dim - row
        return (power * diagonal.log()).sum(-1) - self._log_normalizer

    @lazy_property
    def _log_normalizer(self):
        others = self.dim - 1
        alpha = self.concentration + 0.5 * others
        return 0.5 * others * math.log(math.pi) + flambeau.mvlgamma(alpha - 0.5, others) - others * alpha.lgamma()

    def _declared_names(self):
        return ("concentration", "_log_normalizer")

    def __repr__(self):
        value = self.concentration
        return f"LKJCholesky(concentration: {value if value.numel() == 1 else value.shape})"
