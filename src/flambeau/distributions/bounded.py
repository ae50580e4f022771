"""Distributions of numbers between 0 and 1 and of shares of 1."""

import math

import flambeau
from flambeau.nn import functional as F

from . import constraints
from .exp_family import ExponentialFamily
from .location_scale import Normal, Uniform
from .transformed_distribution import TransformedDistribution
from .transforms import AffineTransform, PowerTransform, StickBreakingTransform
from .utils import ProbsOrLogits, broadcast_all, clamp_probs, euler_constant, lazy_property, one_of

Size = flambeau.Size
_TWO_SHAPES = {"concentration1": constraints.positive, "concentration0": constraints.positive}


class Dirichlet(ExponentialFamily):
    """Shares of 1 among the categories of the last dimension.

    >>> Dirichlet(flambeau.tensor([1., 3.])).mean
    tensor([0.2500, 0.7500])
    """

    arg_constraints = {"concentration": constraints.independent(constraints.positive, 1)}
    support = constraints.simplex
    has_rsample = True

    def __init__(self, concentration, validate_args=None):
        if concentration.dim() < 1:
            raise ValueError("Dirichlet: concentration must have a dimension for the categories, got a scalar")
        self.concentration = concentration
        super().__init__(concentration.shape[:-1], concentration.shape[-1:], validate_args)

    def rsample(self, sample_shape=()):
        """Shares of gamma numbers; a share moves along the quantile of its marginal distribution."""
        return flambeau._sample_dirichlet(self.concentration.expand(self._extended_shape(sample_shape)))

    def log_prob(self, value):
        """sum of (a - 1) log x + log Gamma(sum a) - sum log Gamma(a)"""
        a, value = self.concentration, self._checked(value)
        return (a - 1).xlogy(value).sum(-1) + a.sum(-1).lgamma() - a.lgamma().sum(-1)

    @property
    def mean(self):
        """a / sum a"""
        return self.concentration / self.concentration.sum(-1, keepdim=True)

    @property
    def mode(self):
        """(a - 1) / sum(a - 1), negative ones as 0; the largest category alone where all a are below 1"""
        above = (self.concentration - 1).clamp(min=0.0)
        shares = above / above.sum(-1, keepdim=True)
        corner = F.one_hot(self.concentration.argmax(-1), above.shape[-1]).to(above)
        return flambeau.where((self.concentration < 1).all(-1, keepdim=True), corner, shares)

    @property
    def variance(self):
        """m (1 - m) / (sum a + 1)"""
        mean = self.mean
        return mean * (1 - mean) / (self.concentration.sum(-1, keepdim=True) + 1)

    def entropy(self):
        """log B(a) - (K - sum a) digamma(sum a) - sum of (a - 1) digamma(a)"""
        a, total = self.concentration, self.concentration.sum(-1)
        log_beta = a.lgamma().sum(-1) - total.lgamma()
        return log_beta - (a.shape[-1] - total) * total.digamma() - ((a - 1) * a.digamma()).sum(-1)

    @property
    def _natural_params(self):
        return (self.concentration,)

    def _log_normalizer(self, x):
        return x.lgamma().sum(-1) - x.sum(-1).lgamma()


class Beta(ExponentialFamily):
    """The first of two shares of 1.

    >>> Beta(1., 3.).mean
    tensor(0.2500)
    """

    arg_constraints = _TWO_SHAPES
    support = constraints.unit_interval
    has_rsample = True

    def __init__(self, concentration1, concentration0, validate_args=None):
        both = flambeau.stack(broadcast_all(concentration1, concentration0), -1)
        self._dirichlet = Dirichlet(both, validate_args)
        super().__init__(self._dirichlet.batch_shape, validate_args=validate_args)

    @property
    def concentration1(self):
        """The exponent of x, plus 1."""
        return self._dirichlet.concentration[..., 0]

    @property
    def concentration0(self):
        """The exponent of 1 - x, plus 1."""
        return self._dirichlet.concentration[..., 1]

    @property
    def mean(self):
        """a / (a + b)"""
        return self.concentration1 / (self.concentration1 + self.concentration0)

    @property
    def mode(self):
        """(a - 1) / (a + b - 2)"""
        return self._dirichlet.mode[..., 0]

    @property
    def variance(self):
        """a b / ((a + b)^2 (a + b + 1))"""
        total = self.concentration1 + self.concentration0
        return self.concentration1 * self.concentration0 / (total.square() * (total + 1))

    def rsample(self, sample_shape=()):
        """The first share of a Dirichlet sample."""
        return self._dirichlet.rsample(sample_shape).select(-1, 0)

    def log_prob(self, value):
        """(a - 1) log x + (b - 1) log(1 - x) - log B(a, b)"""
        value = self._checked(value)
        return self._dirichlet.log_prob(flambeau.stack([value, 1.0 - value], -1))

    def entropy(self):
        """That of the two shares."""
        return self._dirichlet.entropy()

    @property
    def _natural_params(self):
        return self.concentration1, self.concentration0

    def _log_normalizer(self, x, y):
        return x.lgamma() + y.lgamma() - (x + y).lgamma()


class Kumaraswamy(TransformedDistribution):
    """Like Beta, with a cdf in closed form: 1 - (1 - x^a)^b.

    >>> Kumaraswamy(1., 1.).mean
    tensor(0.5000)
    """

    arg_constraints = _TWO_SHAPES
    support = constraints.unit_interval
    has_rsample = True

    def __init__(self, concentration1, concentration0, validate_args=None):
        self.concentration1, self.concentration0 = broadcast_all(concentration1, concentration0)
        zero = flambeau.zeros_like(self.concentration0)
        steps = [PowerTransform(exponent=self.concentration0.reciprocal()), AffineTransform(1.0, -1.0),
                 PowerTransform(exponent=self.concentration1.reciprocal())]
        super().__init__(Uniform(zero, zero + 1, validate_args), steps, validate_args)

    def _moment(self, n):
        """b B(1 + n / a, b)"""
        a, b = 1 + n / self.concentration1, self.concentration0
        return b * (a.lgamma() + b.lgamma() - (a + b).lgamma()).exp()

    @property
    def mean(self):
        """b B(1 + 1 / a, b)"""
        return self._moment(1)

    @property
    def mode(self):
        """((a - 1) / (a b - 1))^(1 / a), where a and b are at least 1"""
        a, b = self.concentration1, self.concentration0
        return ((a - 1) / (a * b - 1)).pow(1 / a).masked_fill((a < 1) | (b < 1), flambeau.nan)

    @property
    def variance(self):
        """The second moment minus the square of the first"""
        return self._moment(2) - self._moment(1).square()

    def entropy(self):
        """1 - 1/b + (1 - 1/a) (digamma(b + 1) + gamma) - log(a b)"""
        a, b = self.concentration1, self.concentration0
        return 1 - 1 / b + (1 - 1 / a) * ((b + 1).digamma() + euler_constant) - a.log() - b.log()


class LogisticNormal(TransformedDistribution):
    """Shares of 1 from normal numbers, by stick breaking.

    >>> LogisticNormal(flambeau.zeros(2), flambeau.ones(2)).event_shape
    torch.Size([3])
    """

    arg_constraints = Normal.arg_constraints
    support = constraints.simplex
    has_rsample = True

    def __init__(self, loc, scale, validate_args=None):
        base = Normal(loc, scale, validate_args)
        super().__init__(base if base.batch_shape else base.expand([1]), StickBreakingTransform(), validate_args)

    @property
    def loc(self):
        """The means of the normal numbers."""
        return self.base_dist.base_dist.loc

    @property
    def scale(self):
        """The standard deviations of the normal numbers."""
        return self.base_dist.base_dist.scale


class ContinuousBernoulli(ProbsOrLogits, ExponentialFamily):
    """A density on [0, 1] proportional to p^x (1 - p)^(1 - x). Source: Loaiza-Ganem and Cunningham 2019.

    Between the two `lims` of p, around 1/2, formulas that divide by 1 - 2 p are replaced by their Taylor series.

    >>> ContinuousBernoulli(flambeau.tensor(0.5)).mean
    tensor(0.5000)
    """

    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.unit_interval
    has_rsample = True
    _mean_carrier_measure = 0

    def __init__(self, probs=None, logits=None, lims=(0.499, 0.501), validate_args=None):
        name = one_of(probs=probs, logits=logits)
        self._lims = lims
        self._of_numbers(validate_args, **{name: logits if probs is None else probs})
        if name == "probs":
            self.probs = clamp_probs(self.probs)

    @lazy_property
    def probs(self):
        """The parameter p, never exactly 0 or 1."""
        return clamp_probs(self.logits.sigmoid())

    def _parts(self):
        """(whether the exact formulas hold, a p for them)"""
        low, high = self._lims
        exact = (self.probs <= low) | (self.probs > high)
        return exact, self.probs.masked_fill(~exact, low)

    def _cont_bern_log_norm(self):
        """log of 2 atanh(1 - 2 p) / (1 - 2 p), which makes the density's integral 1"""
        exact, p = self._parts()
        off = (self.probs - 0.5).square()
        found = (((-p).log1p() - p.log()) / (1 - 2 * p)).log()
        return flambeau.where(exact, found, math.log(2) + (4 / 3 + 104 / 45 * off) * off)

    @property
    def mean(self):
        """p / (2 p - 1) + 1 / (log(1 - p) - log p)"""
        exact, p = self._parts()
        off = self.probs - 0.5
        found = p / (2 * p - 1) + 1 / ((-p).log1p() - p.log())
        return flambeau.where(exact, found, 0.5 + (1 / 3 + 16 / 45 * off.square()) * off)

    @property
    def variance(self):
        """1 / (log(1 - p) - log p)^2 - p (1 - p) / (1 - 2 p)^2"""
        exact, p = self._parts()
        off = (self.probs - 0.5).square()
        found = 1 / ((-p).log1p() - p.log()).square() - p * (1 - p) / (1 - 2 * p).square()
        return flambeau.where(exact, found, 1 / 12 - (1 / 15 - 128 / 945 * off) * off)

    @property
    def stddev(self):
        """The root of the variance."""
        return self.variance.sqrt()

    def rsample(self, sample_shape=()):
        """Quantiles of uniform numbers."""
        shape = self._extended_shape(sample_shape)
        return self.icdf(flambeau.rand(shape, dtype=self.probs.dtype, device=self.probs.device))

    def log_prob(self, value):
        """x log p + (1 - x) log(1 - p) + log of the normalizing constant"""
        logits, value = broadcast_all(self.logits, self._checked(value))
        return self._cont_bern_log_norm() - F.binary_cross_entropy_with_logits(logits, value, reduction="none")

    def cdf(self, value):
        """(p^x (1 - p)^(1 - x) + p - 1) / (2 p - 1)"""
        value = self._checked(value)
        exact, p = self._parts()
        found = (p.pow(value) * (1 - p).pow(1 - value) + p - 1) / (2 * p - 1)
        return flambeau.where(exact, found, value).clamp(0, 1)

    def icdf(self, value):
        """(log(1 - p + q (2 p - 1)) - log(1 - p)) / (log p - log(1 - p))"""
        exact, p = self._parts()
        found = ((-p + value * (2 * p - 1)).log1p() - (-p).log1p()) / (p.log() - (-p).log1p())
        return flambeau.where(exact, found, value)

    def entropy(self):
        """- m log p - (1 - m) log(1 - p) - log of the normalizing constant"""
        log_failure = (-self.probs).log1p()
        return self.mean * (log_failure - self.probs.log()) - self._cont_bern_log_norm() - log_failure

    @property
    def _natural_params(self):
        return (self.logits,)

    def _log_normalizer(self, x):
        """log of (e^x - 1) / x = e^(x/2) sinh(x/2) / (x/2)"""
        low, high = self._lims
        exact = (x <= low - 0.5) | (x > high - 0.5)
        half = x.masked_fill(~exact, low - 0.5).abs() / 2
        found = half + (-(-2 * half).expm1() / (2 * half)).log()
        return x / 2 + flambeau.where(exact, found, x.square() / 24 - x.pow(4) / 2880)
