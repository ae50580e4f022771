"""Independent: some batch dimensions of a distribution become dimensions of its events."""

from . import constraints
from .distribution import Distribution
from .utils import _sum_rightmost


class Independent(Distribution):
    """The last `reinterpreted_batch_ndims` batch dimensions as parts of one event, whose log_prob is their sum.

    >>> normal = flambeau.distributions.Normal(flambeau.zeros(3), flambeau.ones(3))
    >>> Independent(normal, 1).log_prob(flambeau.zeros(3))
    tensor(-2.7568)
    """

    arg_constraints = {}

    def __init__(self, base_distribution, reinterpreted_batch_ndims, validate_args=None):
        batch = len(base_distribution.batch_shape) - reinterpreted_batch_ndims
        if batch < 0:
            raise ValueError(f"Independent: {base_distribution} has {len(base_distribution.batch_shape)} batch "
                             f"dimensions, so {reinterpreted_batch_ndims} of them cannot become event dimensions")
        self.base_dist, self.reinterpreted_batch_ndims = base_distribution, reinterpreted_batch_ndims
        shape = base_distribution.batch_shape + base_distribution.event_shape
        super().__init__(shape[:batch], shape[batch:], validate_args)

    @property
    def has_rsample(self):
        """Whether the base has."""
        return self.base_dist.has_rsample

    @property
    def has_enumerate_support(self):
        """Whether the base has, and no batch dimension was taken: a product of supports is not enumerated."""
        return self.base_dist.has_enumerate_support and not self.reinterpreted_batch_ndims

    @constraints.dependent_property
    def support(self):
        """The base's support, with more dimensions."""
        found, count = self.base_dist.support, self.reinterpreted_batch_ndims
        return constraints.independent(found, count) if count else found

    @property
    def mean(self):
        """The base's."""
        return self.base_dist.mean

    @property
    def mode(self):
        """The base's."""
        return self.base_dist.mode

    @property
    def variance(self):
        """The base's."""
        return self.base_dist.variance

    def sample(self, sample_shape=()):
        """Samples of the base."""
        return self.base_dist.sample(sample_shape)

    def rsample(self, sample_shape=()):
        """Differentiable samples of the base."""
        return self.base_dist.rsample(sample_shape)

    def log_prob(self, value):
        """The sum over the dimensions that became part of the event."""
        return _sum_rightmost(self.base_dist.log_prob(value), self.reinterpreted_batch_ndims)

    def entropy(self):
        """The sum over the dimensions that became part of the event."""
        return _sum_rightmost(self.base_dist.entropy(), self.reinterpreted_batch_ndims)

    def enumerate_support(self, expand=True):
        """The base's values, where no batch dimension was taken."""
        if self.reinterpreted_batch_ndims:
            raise NotImplementedError("Independent: the support of several variables at once is not enumerated; "
                                      "enumerate base_dist's")
        return self.base_dist.enumerate_support(expand=expand)

    def __repr__(self):
        return f"{type(self).__name__}({self.base_dist}, {self.reinterpreted_batch_ndims})"
