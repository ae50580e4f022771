"""TransformedDistribution: the distribution of t(x) for a distribution of x."""

import flambeau

from . import constraints
from .distribution import Distribution
from .independent import Independent
from .transforms import ComposeTransform, Transform
from .utils import _sum_rightmost


class TransformedDistribution(Distribution):
    """Samples of a base distribution, sent through transforms one after the other.

    log p(y) = log p(x) - log |dy / dx|

    >>> from flambeau.distributions import Normal, transforms
    >>> TransformedDistribution(Normal(0., 1.), [transforms.ExpTransform()]).log_prob(flambeau.ones(1))
    tensor([-0.9189])
    """

    arg_constraints = {}

    def __init__(self, base_distribution, transforms, validate_args=None):
        self.transforms = self._listed(transforms)
        whole = ComposeTransform(self.transforms)
        base_shape = base_distribution.batch_shape + base_distribution.event_shape
        if len(base_shape) < whole.domain.event_dim:
            raise ValueError(f"TransformedDistribution: the transforms take values of {whole.domain.event_dim} "
                             f"dimensions, and samples of {base_distribution} have shape {list(base_shape)}")
        forward_shape = whole.forward_shape(base_shape)
        expanded = whole.inverse_shape(forward_shape)
        if base_shape != expanded:  # parameters of the transforms have more dimensions
            base_distribution = base_distribution.expand(expanded[:len(expanded) - len(base_distribution.event_shape)])
        joined = whole.domain.event_dim - len(base_distribution.event_shape)
        self.base_dist = Independent(base_distribution, joined) if joined > 0 else base_distribution
        event_dim = whole.codomain.event_dim + max(len(self.base_dist.event_shape) - whole.domain.event_dim, 0)
        cut = len(forward_shape) - event_dim
        super().__init__(forward_shape[:cut], forward_shape[cut:], validate_args)

    @staticmethod
    def _listed(transforms):
        listed = [transforms] if isinstance(transforms, Transform) else transforms
        if not isinstance(listed, list) or not all(isinstance(t, Transform) for t in listed):
            raise ValueError(f"TransformedDistribution: expected a transform or a list of transforms, got {transforms}")
        return listed

    @property
    def has_rsample(self):
        """Whether the base has."""
        return self.base_dist.has_rsample

    @constraints.dependent_property(is_discrete=False)
    def support(self):
        """The last codomain, with the dimensions of an event."""
        if not self.transforms:
            return self.base_dist.support
        found = self.transforms[-1].codomain
        more = len(self.event_shape) - found.event_dim
        return constraints.independent(found, more) if more > 0 else found

    def _forward(self, x):
        for transform in self.transforms:
            x = transform(x)
        return x

    def sample(self, sample_shape=()):
        """Transformed samples of the base, without gradients."""
        with flambeau.no_grad():
            return self._forward(self.base_dist.sample(sample_shape))

    def rsample(self, sample_shape=()):
        """Transformed differentiable samples of the base."""
        return self._forward(self.base_dist.rsample(sample_shape))

    def log_prob(self, value):
        """The base's log_prob at the inverse, minus the logarithms of the Jacobian determinants."""
        y, dims, total = self._checked(value), len(self.event_shape), 0.0
        for transform in reversed(self.transforms):
            x = transform.inv(y)
            dims += transform.domain.event_dim - transform.codomain.event_dim
            slope = transform.log_abs_det_jacobian(x, y)
            total = total - _sum_rightmost(slope, dims - transform.domain.event_dim)
            y = x
        return total + _sum_rightmost(self.base_dist.log_prob(y), dims - len(self.base_dist.event_shape))

    def _rising(self, probability):
        """A probability as it is, or its complement where the transforms fall in total."""
        sign = 1
        for transform in self.transforms:
            sign = sign * transform.sign
        return probability if isinstance(sign, int) and sign == 1 else sign * (probability - 0.5) + 0.5

    def cdf(self, value):
        """The base's cdf at the inverse, for monotonic transforms."""
        value = self._checked(value)
        for transform in reversed(self.transforms):
            value = transform.inv(value)
        return self._rising(self.base_dist.cdf(value))

    def icdf(self, value):
        """The transformed quantile of the base."""
        return self._forward(self.base_dist.icdf(self._rising(value)))
