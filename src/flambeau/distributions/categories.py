"""Distributions over categories: Categorical, one-hot forms of it, and Multinomial."""

import flambeau

from . import constraints
from .distribution import Distribution
from .utils import ProbsOrLogits, minus_log_sigmoid, one_of, probs_to_logits

Size = flambeau.Size
_EITHER = {"probs": constraints.simplex, "logits": constraints.real_vector}


class Categorical(ProbsOrLogits, Distribution):
    """One of K categories, 0 to K - 1. probs are divided by their sum; logits are log probabilities up to a constant.

    >>> Categorical(flambeau.tensor([1., 3.])).log_prob(flambeau.tensor(1)).exp()
    tensor(0.7500)
    """

    arg_constraints = _EITHER
    has_enumerate_support = True
    _binary = False

    def __init__(self, probs=None, logits=None, validate_args=None):
        name = one_of(probs=probs, logits=logits)
        given = logits if probs is None else probs
        if given.dim() < 1:
            raise ValueError(f"{type(self).__name__}: {name} must have a dimension for the categories, got a scalar")
        setattr(self, name, given / given.sum(-1, keepdim=True) if name == "probs"
                else given - given.logsumexp(-1, keepdim=True))
        self._num_events = given.shape[-1]
        super().__init__(given.shape[:-1], validate_args=validate_args)

    @constraints.dependent_property(is_discrete=True, event_dim=0)
    def support(self):
        """The integers below K."""
        return constraints.integer_interval(0, self._num_events - 1)

    @property
    def mean(self):
        """NaN: categories are not numbers."""
        return self._param.new_full(self._batch_shape, flambeau.nan)

    variance = mean

    @property
    def mode(self):
        """The most probable category."""
        return self.probs.argmax(-1)

    def sample(self, sample_shape=()):
        """Categories, int64."""
        with flambeau.no_grad():
            sample_shape = Size(sample_shape)
            rows = self.probs.reshape(-1, self._num_events)
            drawn = flambeau.multinomial(rows, sample_shape.numel(), True)
            return drawn.T.reshape(self._extended_shape(sample_shape))

    def log_prob(self, value):
        """The log probability of a category."""
        value = self._checked(value).long().unsqueeze(-1)
        shape = flambeau.broadcast_shapes(value.shape[:-1], self._batch_shape)
        logits = self.logits.expand(*shape, self._num_events)
        return logits.gather(-1, value.expand(*shape, 1)).squeeze(-1)

    def entropy(self):
        """- sum p log p"""
        logits = self.logits.clamp(min=flambeau.finfo(self.logits.dtype).min)  # 0 log 0 is 0
        return -(logits * self.probs).sum(-1)

    def enumerate_support(self, expand=True):
        """All categories."""
        return self._along_batch(flambeau.arange(self._num_events, device=self._param.device), expand)


class OneHotCategorical(Distribution):
    """One of K categories, as a vector with one 1.

    >>> OneHotCategorical(flambeau.tensor([0., 1.])).sample()
    tensor([0., 1.])
    """

    arg_constraints = _EITHER
    support = constraints.one_hot
    has_enumerate_support = True

    def __init__(self, probs=None, logits=None, validate_args=None):
        self._categorical = Categorical(probs, logits)
        super().__init__(self._categorical.batch_shape, self._categorical.param_shape[-1:], validate_args)

    @property
    def _param(self):
        return self._categorical._param

    @property
    def probs(self):
        """Probabilities."""
        return self._categorical.probs

    @property
    def logits(self):
        """Log probabilities."""
        return self._categorical.logits

    @property
    def param_shape(self):
        """The shape of probs and logits."""
        return self._categorical.param_shape

    @property
    def mean(self):
        """The probabilities."""
        return self.probs

    @property
    def mode(self):
        """1 at the most probable category."""
        return self._encoded(self.probs.argmax(-1))

    @property
    def variance(self):
        """p (1 - p)"""
        return self.probs * (1 - self.probs)

    def _encoded(self, categories):
        encoded = flambeau.nn.functional.one_hot(categories, self._event_shape[0])
        return encoded.to(self._param.dtype)

    def sample(self, sample_shape=()):
        """One-hot vectors, of the parameters' dtype."""
        return self._encoded(self._categorical.sample(sample_shape))

    def log_prob(self, value):
        """The log probability of the category that holds the 1."""
        return self._categorical.log_prob(self._checked(value).argmax(-1))

    def entropy(self):
        """- sum p log p"""
        return self._categorical.entropy()

    def enumerate_support(self, expand=True):
        """All one-hot vectors."""
        count = self._event_shape[0]
        return self._along_batch(flambeau.eye(count, dtype=self._param.dtype, device=self._param.device), expand)


class OneHotCategoricalStraightThrough(OneHotCategorical):
    """OneHotCategorical whose samples have the gradient of the probabilities (Bengio, Léonard and Courville 2013).

    >>> OneHotCategoricalStraightThrough(flambeau.tensor([0., 1.])).rsample()
    tensor([0., 1.])
    """

    has_rsample = True

    def rsample(self, sample_shape=()):
        """One-hot vectors; backward goes to the probabilities."""
        probs = self._categorical.probs  # cached, and with a gradient
        return self.sample(sample_shape) + (probs - probs.detach())


class Multinomial(Distribution):
    """How often each of K categories comes in `total_count` draws.

    >>> Multinomial(2, flambeau.tensor([0.5, 0.5])).log_prob(flambeau.tensor([1., 1.])).exp()
    tensor(0.5000)
    """

    arg_constraints = _EITHER

    def __init__(self, total_count=1, probs=None, logits=None, validate_args=None):
        if not isinstance(total_count, int):
            raise NotImplementedError("Multinomial: total_count must be one int for the whole batch, got "
                                      f"{type(total_count).__name__}")
        self.total_count = total_count
        self._categorical = Categorical(probs, logits)
        super().__init__(self._categorical.batch_shape, self._categorical.param_shape[-1:], validate_args)

    _param, probs, logits = OneHotCategorical._param, OneHotCategorical.probs, OneHotCategorical.logits
    param_shape = OneHotCategorical.param_shape

    @constraints.dependent_property(is_discrete=True, event_dim=1)
    def support(self):
        """Counts whose sum is at most total_count."""
        return constraints.multinomial(self.total_count)

    @property
    def mean(self):
        """n p"""
        return self.probs * self.total_count

    @property
    def variance(self):
        """n p (1 - p)"""
        return self.total_count * self.probs * (1 - self.probs)

    def sample(self, sample_shape=()):
        """Counts, of the parameters' dtype."""
        drawn = self._categorical.sample((self.total_count, *Size(sample_shape))).movedim(0, -1)
        counts = self._param.new_zeros(self._extended_shape(sample_shape))
        return counts.scatter_add_(-1, drawn, flambeau.ones_like(drawn, dtype=counts.dtype))

    def log_prob(self, value):
        """log n! - sum log x! + sum x log p"""
        logits, value = flambeau.broadcast_tensors(self.logits, self._checked(value))
        logits = logits.masked_fill((value == 0) & (logits == -flambeau.inf), 0)  # 0 log 0 is 0
        arranged = (value.sum(-1) + 1).lgamma() - (value + 1).lgamma().sum(-1)
        return arranged + (logits * value).sum(-1)

    def entropy(self):
        """n H(p) - log n! + sum over k of C(n, k) p^k (1 - p)^(n - k) log k!"""
        n = flambeau.tensor(float(self.total_count), dtype=self._param.dtype, device=self._param.device)
        one = flambeau.arange(1, self.total_count + 1, dtype=n.dtype, device=n.device)
        counts = one.reshape(-1, *[1] * (len(self._batch_shape) + 1))
        chosen = (n + 1).lgamma() - (counts + 1).lgamma() - (n - counts + 1).lgamma()
        odds = probs_to_logits(self.probs, is_binary=True)
        log_p = chosen + counts * odds - n * minus_log_sigmoid(-odds)
        repeated = (log_p.exp() * (counts + 1).lgamma()).sum((0, -1))
        return n * self._categorical.entropy() - (n + 1).lgamma() + repeated
