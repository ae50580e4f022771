"""Distributions of counts and of yes and no: Bernoulli, Binomial, Geometric, NegativeBinomial, Poisson."""

import flambeau
from flambeau.nn import functional as F

from . import constraints
from .distribution import Distribution
from .exp_family import ExponentialFamily
from .positive import Gamma
from .utils import ProbsOrLogits, broadcast_all, lazy_property, minus_log_sigmoid, one_of

_EITHER = {"probs": constraints.unit_interval, "logits": constraints.real}


class Bernoulli(ProbsOrLogits, ExponentialFamily):
    """1 with probability p, or else 0.

    >>> Bernoulli(flambeau.tensor(0.25)).log_prob(flambeau.tensor(1.)).exp()
    tensor(0.2500)
    """

    arg_constraints = _EITHER
    support = constraints.boolean
    has_enumerate_support = True
    _mean_carrier_measure = 0

    def __init__(self, probs=None, logits=None, validate_args=None):
        name = one_of(probs=probs, logits=logits)
        self._of_numbers(validate_args, **{name: logits if probs is None else probs})

    @property
    def mean(self):
        """p"""
        return self.probs

    @property
    def mode(self):
        """The more probable value; NaN where both are."""
        return (self.probs > 0.5).to(self.probs).masked_fill(self.probs == 0.5, flambeau.nan)

    @property
    def variance(self):
        """p (1 - p)"""
        return self.probs * (1 - self.probs)

    def sample(self, sample_shape=()):
        """Ones and zeros."""
        with flambeau.no_grad():
            return flambeau.bernoulli(self.probs.expand(self._extended_shape(sample_shape)))

    def log_prob(self, value):
        """log p at 1, log(1 - p) at 0"""
        logits, value = broadcast_all(self.logits, self._checked(value))
        return -F.binary_cross_entropy_with_logits(logits, value, reduction="none")

    def entropy(self):
        """- p log p - (1 - p) log(1 - p)"""
        return F.binary_cross_entropy_with_logits(self.logits, self.probs, reduction="none")

    def enumerate_support(self, expand=True):
        """0 and 1"""
        return self._along_batch(self._param.new_tensor([0.0, 1.0]), expand)

    @property
    def _natural_params(self):
        return (self.logits,)

    def _log_normalizer(self, x):
        return minus_log_sigmoid(-x)


class Binomial(ProbsOrLogits, Distribution):
    """How many of `total_count` trials of probability p succeed.

    >>> Binomial(2, flambeau.tensor(0.5)).log_prob(flambeau.tensor(1.)).exp()
    tensor(0.5000)
    """

    arg_constraints = {"total_count": constraints.nonnegative_integer, **_EITHER}
    has_enumerate_support = True

    def __init__(self, total_count=1, probs=None, logits=None, validate_args=None):
        name = one_of(probs=probs, logits=logits)
        total_count, given = broadcast_all(total_count, logits if probs is None else probs)
        self._of_numbers(validate_args, total_count=total_count.to(given), **{name: given})

    @constraints.dependent_property(is_discrete=True, event_dim=0)
    def support(self):
        """The integers from 0 to total_count."""
        return constraints.integer_interval(0, self.total_count)

    @property
    def mean(self):
        """n p"""
        return self.total_count * self.probs

    @property
    def mode(self):
        """floor((n + 1) p), at most n"""
        return ((self.total_count + 1) * self.probs).floor().minimum(self.total_count)

    @property
    def variance(self):
        """n p (1 - p)"""
        return self.total_count * self.probs * (1 - self.probs)

    def sample(self, sample_shape=()):
        """Numbers of successes."""
        shape = self._extended_shape(sample_shape)
        with flambeau.no_grad():
            return flambeau.binomial(self.total_count.expand(shape), self.probs.expand(shape))

    def log_prob(self, value):
        """log C(n, k) + k log p + (n - k) log(1 - p)"""
        n, k = self.total_count, self._checked(value)
        arranged = (n + 1).lgamma() - (k + 1).lgamma() - (n - k + 1).lgamma()
        return arranged + k * self.logits - n * minus_log_sigmoid(-self.logits)

    def _common_count(self, what):
        count = int(self.total_count.max())
        if self.total_count.min() != count:
            raise NotImplementedError(f"Binomial: {what} needs one total_count for the whole batch, got counts from "
                                      f"{int(self.total_count.min())} to {count}")
        return count

    def entropy(self):
        """The sum over all numbers of successes, for one total_count."""
        self._common_count("entropy")
        log_prob = self.log_prob(self.enumerate_support(False))
        return -(log_prob.exp() * log_prob).sum(0)

    def enumerate_support(self, expand=True):
        """0 to total_count, which must be one for the batch."""
        count = self._common_count("enumerate_support")
        return self._along_batch(flambeau.arange(1 + count, dtype=self._param.dtype, device=self._param.device), expand)


class Geometric(ProbsOrLogits, Distribution):
    """How many trials of probability p fail before the first success.

    >>> Geometric(flambeau.tensor(0.5)).mean
    tensor(1.)
    """

    arg_constraints = _EITHER
    support = constraints.nonnegative_integer

    def __init__(self, probs=None, logits=None, validate_args=None):
        name = one_of(probs=probs, logits=logits)
        self._of_numbers(validate_args, **{name: logits if probs is None else probs})
        if self._validate_args and probs is not None and not (self.probs > 0).all():
            raise ValueError("Geometric: probs must be greater than 0, or no trial ever succeeds; got "
                             f"{self.probs.min().item()}")

    @property
    def mean(self):
        """1 / p - 1"""
        return 1 / self.probs - 1

    @property
    def mode(self):
        """0"""
        return flambeau.zeros_like(self.probs)

    @property
    def variance(self):
        """(1 - p) / p^2"""
        return (1 / self.probs - 1) / self.probs

    def sample(self, sample_shape=()):
        """Numbers of failures, by inversion of uniform numbers."""
        with flambeau.no_grad():
            u = self.probs.new_empty(self._extended_shape(sample_shape))
            u.uniform_(flambeau.finfo(u.dtype).tiny, 1)
            return (u.log() / (-self.probs).log1p()).floor()

    def log_prob(self, value):
        """k log(1 - p) + log p"""
        value, probs = broadcast_all(self._checked(value), self.probs)
        never = (probs == 1) & (value == 0)  # 0 log 0 is 0
        return value * (-probs.masked_fill(never, 0)).log1p() + self.probs.log()

    def entropy(self):
        """The entropy of one trial, over p"""
        return F.binary_cross_entropy_with_logits(self.logits, self.probs, reduction="none") / self.probs


class NegativeBinomial(ProbsOrLogits, Distribution):
    """How many trials of probability p succeed before `total_count` have failed, which may be any positive number.

    >>> NegativeBinomial(2., flambeau.tensor(0.5)).mean
    tensor(2.)
    """

    arg_constraints = {"total_count": constraints.greater_than_eq(0),
                       "probs": constraints.half_open_interval(0.0, 1.0), "logits": constraints.real}
    support = constraints.nonnegative_integer

    def __init__(self, total_count, probs=None, logits=None, validate_args=None):
        name = one_of(probs=probs, logits=logits)
        total_count, given = broadcast_all(total_count, logits if probs is None else probs)
        self._of_numbers(validate_args, total_count=total_count.to(given), **{name: given})

    @property
    def mean(self):
        """n p / (1 - p)"""
        return self.total_count * self.logits.exp()

    @property
    def mode(self):
        """floor((n - 1) p / (1 - p)), at least 0"""
        return ((self.total_count - 1) * self.logits.exp()).floor().clamp(min=0.0)

    @property
    def variance(self):
        """n p / (1 - p)^2"""
        return self.mean / (-self.logits).sigmoid()

    @lazy_property
    def _gamma(self):
        """The rate of a Poisson variable that is negative binomial."""
        return Gamma(self.total_count, (-self.logits).exp(), validate_args=False)

    def sample(self, sample_shape=()):
        """Poisson numbers whose rates are gamma numbers."""
        with flambeau.no_grad():
            return flambeau.poisson(self._gamma.sample(sample_shape))

    def log_prob(self, value):
        """log C(n + k - 1, k) + n log(1 - p) + k log p"""
        n, k = self.total_count, self._checked(value)
        weights = n * F.logsigmoid(-self.logits) + k * F.logsigmoid(self.logits)
        arranged = (n + k).lgamma() - (k + 1).lgamma() - n.lgamma()
        return weights + arranged.masked_fill(n + k == 0, 0.0)  # nothing to arrange


class Poisson(ExponentialFamily):
    """How many events of a constant rate come in one unit of time.

    >>> Poisson(2.).log_prob(flambeau.tensor(0.))
    tensor(-2.)
    """

    arg_constraints = {"rate": constraints.nonnegative}
    support = constraints.nonnegative_integer

    def __init__(self, rate, validate_args=None):
        self._of_numbers(validate_args, rate=rate)

    @property
    def mean(self):
        """rate"""
        return self.rate

    @property
    def mode(self):
        """floor(rate)"""
        return self.rate.floor()

    @property
    def variance(self):
        """rate"""
        return self.rate

    def sample(self, sample_shape=()):
        """Counts."""
        with flambeau.no_grad():
            return flambeau.poisson(self.rate.expand(self._extended_shape(sample_shape)))

    def log_prob(self, value):
        """k log rate - rate - log k!"""
        rate, value = broadcast_all(self.rate, self._checked(value))
        return value.xlogy(rate) - rate - (value + 1).lgamma()

    @property
    def _natural_params(self):
        return (self.rate.log(),)

    def _log_normalizer(self, x):
        return x.exp()
