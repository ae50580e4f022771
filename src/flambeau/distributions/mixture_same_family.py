"""MixtureSameFamily: one of several distributions of a family, chosen by a Categorical."""

import flambeau

from .._shown import shown
from . import constraints
from .categories import Categorical
from .constraints import MixtureSameFamilyConstraint
from .distribution import Distribution


class MixtureSameFamily(Distribution):
    """A mixture: the last batch dimension of the components is the one that the mixture distribution chooses from.

    >>> from flambeau.distributions import Categorical, Normal
    >>> mixture = MixtureSameFamily(Categorical(flambeau.ones(2)), Normal(flambeau.tensor([-1., 1.]), 1.))
    >>> mixture.mean, mixture.variance
    (tensor(0.), tensor(2.))
    """

    arg_constraints = {}
    has_rsample = False

    def __init__(self, mixture_distribution, component_distribution, validate_args=None):
        if not isinstance(mixture_distribution, Categorical):
            raise ValueError(f"MixtureSameFamily: the mixture must be a Categorical, got {shown(mixture_distribution)}")
        if not isinstance(component_distribution, Distribution):
            raise ValueError("MixtureSameFamily: components must be a Distribution, got "
                             f"{shown(component_distribution)}")
        *batch, count = component_distribution.batch_shape or (0,)
        for mine, theirs in zip(reversed(mixture_distribution.batch_shape), reversed(batch), strict=False):
            if mine != theirs and 1 not in (mine, theirs):
                raise ValueError(f"MixtureSameFamily: the mixture's batch shape "
                                 f"{list(mixture_distribution.batch_shape)} does not fit the components' {batch}")
        categories = mixture_distribution.logits.shape[-1]
        if count != categories:
            raise ValueError(f"MixtureSameFamily: the mixture chooses from {categories} components, and the last batch "
                             f"dimension of the components is {count}")
        self._mixture_distribution, self._component_distribution = mixture_distribution, component_distribution
        self._num_component, self._event_ndims = categories, len(component_distribution.event_shape)
        super().__init__(batch, component_distribution.event_shape, validate_args)

    @property
    def mixture_distribution(self):
        """Chooses the component."""
        return self._mixture_distribution

    @property
    def component_distribution(self):
        """The components."""
        return self._component_distribution

    @constraints.dependent_property
    def support(self):
        """Values in the support of every component."""
        return MixtureSameFamilyConstraint(self._component_distribution.support)

    def _pad(self, x):
        """Room for the components in a value."""
        return x.unsqueeze(-1 - self._event_ndims)

    def _pad_mixture_dimensions(self, x):
        """Weights of shape batch + components, as they multiply moments of shape batch + components + event."""
        more = len(self._batch_shape) - len(self._mixture_distribution.batch_shape)
        shape = x.shape
        return x.reshape(*shape[:-1], *[1] * more * bool(shape[:-1]), shape[-1], *[1] * self._event_ndims)

    def _average(self, x):
        weights = self._pad_mixture_dimensions(self._mixture_distribution.probs)
        return (weights * x).sum(-1 - self._event_ndims)

    @property
    def mean(self):
        """The weighted mean of the components' means."""
        return self._average(self._component_distribution.mean)

    @property
    def variance(self):
        """The mean of the variances plus the variance of the means."""
        spread = (self._component_distribution.mean - self._pad(self.mean)).square()
        return self._average(self._component_distribution.variance) + self._average(spread)

    def cdf(self, x):
        """The weighted mean of the components' cdf, for events that are numbers."""
        found = self._component_distribution.cdf(self._pad(x))
        return (found * self._mixture_distribution.probs).sum(-1)

    def log_prob(self, x):
        """log of the sum of weight times density."""
        found = self._component_distribution.log_prob(self._pad(self._checked(x)))
        return (found + self._mixture_distribution.logits.log_softmax(-1)).logsumexp(-1)

    def sample(self, sample_shape=()):
        """Draws the components' choice, then a sample of every component, and takes the chosen one."""
        with flambeau.no_grad():
            place = len(flambeau.Size(sample_shape)) + len(self._batch_shape)
            chosen = self._mixture_distribution.sample(sample_shape)
            samples = self._component_distribution.sample(sample_shape)
            chosen = chosen.reshape(*chosen.shape, *[1] * (samples.dim() - chosen.dim()))
            chosen = chosen.expand(*samples.shape[:place], 1, *self._event_shape)
            return samples.gather(place, chosen).squeeze(place)

    def __repr__(self):
        return f"{type(self).__name__}(\n  {self._mixture_distribution},\n  {self._component_distribution})"
