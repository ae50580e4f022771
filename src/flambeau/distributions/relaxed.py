"""Continuous relaxations of Bernoulli and Categorical: samples with gradients (Maddison et al., Jang et al. 2017)."""

import math

import flambeau
from flambeau.nn import functional as F

from . import constraints
from .categories import Categorical, OneHotCategorical
from .counts import Bernoulli
from .distribution import Distribution
from .transformed_distribution import TransformedDistribution
from .transforms import ExpTransform, SigmoidTransform
from .utils import ProbsOrLogits, clamp_probs, one_of

_BINARY, _CATEGORIES = Bernoulli.arg_constraints, Categorical.arg_constraints


def _uniform(pattern, shape):
    """Uniform numbers that are neither 0 nor 1."""
    return clamp_probs(flambeau.rand(shape, dtype=pattern.dtype, device=pattern.device))


class LogitRelaxedBernoulli(ProbsOrLogits, Distribution):
    """The log odds of a relaxed Bernoulli variable: (logits + logistic noise) / temperature.

    >>> LogitRelaxedBernoulli(flambeau.tensor(1.), logits=flambeau.zeros(2)).log_prob(flambeau.zeros(2))
    tensor([-1.3863, -1.3863])
    """

    arg_constraints = _BINARY
    support = constraints.real
    has_rsample = True

    def __init__(self, temperature, probs=None, logits=None, validate_args=None):
        self.temperature = temperature
        name = one_of(probs=probs, logits=logits)
        self._of_numbers(validate_args, **{name: logits if probs is None else probs})

    def rsample(self, sample_shape=()):
        """Log odds of uniform numbers, shifted and scaled."""
        shape = self._extended_shape(sample_shape)
        probs, u = clamp_probs(self.probs.expand(shape)), _uniform(self.probs, shape)
        return (u.log() - (-u).log1p() + probs.log() - (-probs).log1p()) / self.temperature

    def log_prob(self, value):
        """log T + d - 2 log(1 + e^d) for d = logits - T x"""
        off = self.logits - self._checked(value) * self.temperature
        return self.temperature.log() + F.logsigmoid(off) + F.logsigmoid(-off)


class ExpRelaxedCategorical(ProbsOrLogits, Distribution):
    """The logarithms of a relaxed one-hot variable: log softmax of (logits + Gumbel noise) / temperature.

    >>> sample = ExpRelaxedCategorical(flambeau.tensor(0.5), flambeau.ones(3)).sample()
    >>> sample.exp().sum().round()
    tensor(1.)
    """

    arg_constraints = _CATEGORIES
    support = constraints.real_vector  # of these, those whose exponentials have the sum 1
    has_rsample = True
    _binary = False

    def __init__(self, temperature, probs=None, logits=None, validate_args=None):
        self._categorical = Categorical(probs, logits)
        self.temperature = temperature
        shape = self._categorical.param_shape
        super().__init__(shape[:-1], shape[-1:], validate_args)

    _param, probs, logits = OneHotCategorical._param, OneHotCategorical.probs, OneHotCategorical.logits
    param_shape = OneHotCategorical.param_shape

    def rsample(self, sample_shape=()):
        """Scores of which softmax is the relaxed variable, normalized."""
        gumbel = -(-_uniform(self.logits, self._extended_shape(sample_shape)).log()).log()
        return ((self.logits + gumbel) / self.temperature).log_softmax(-1)

    def log_prob(self, value):
        """log Gamma(K) + (K - 1) log T + sum of log softmax(logits - T x)"""
        score = self.logits - self._checked(value) * self.temperature
        count = self._event_shape[0]
        scale = math.lgamma(count) + (count - 1) * self.temperature.log()
        return score.log_softmax(-1).sum(-1) + scale


class RelaxedBernoulli(TransformedDistribution):
    """Numbers between 0 and 1 that gather at 0 and 1 as the temperature falls.

    >>> RelaxedBernoulli(flambeau.tensor(1.), flambeau.tensor([0.5])).log_prob(flambeau.tensor([0.5])).round(decimals=4)
    tensor([0.])
    """

    arg_constraints = _BINARY
    support = constraints.unit_interval
    has_rsample = True
    _base, _map = LogitRelaxedBernoulli, SigmoidTransform

    def __init__(self, temperature, probs=None, logits=None, validate_args=None):
        super().__init__(self._base(temperature, probs, logits), self._map(), validate_args)

    @property
    def temperature(self):
        """The temperature."""
        return self.base_dist.temperature

    @property
    def logits(self):
        """Log odds, or log probabilities."""
        return self.base_dist.logits

    @property
    def probs(self):
        """Probabilities."""
        return self.base_dist.probs


class RelaxedOneHotCategorical(RelaxedBernoulli):
    """Shares of 1 that gather at the corners as the temperature falls.

    >>> RelaxedOneHotCategorical(flambeau.tensor(1.), flambeau.ones(3)).event_shape
    torch.Size([3])
    """

    arg_constraints = _CATEGORIES
    support = constraints.simplex
    _base, _map = ExpRelaxedCategorical, ExpTransform
