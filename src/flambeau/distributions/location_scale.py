"""Distributions of real numbers with a place and a width: Normal, Laplace, Cauchy, Gumbel, Uniform, VonMises."""

import math

import flambeau

from . import constraints
from .distribution import Distribution
from .exp_family import ExponentialFamily
from .transformed_distribution import TransformedDistribution
from .transforms import AffineTransform, ExpTransform
from .utils import broadcast_all, euler_constant

_LOC_AND_SCALE = {"loc": constraints.real, "scale": constraints.positive}


class _Located(Distribution):
    """A distribution of (value - loc) / scale that does not depend on loc and scale, symmetric about 0."""

    arg_constraints = _LOC_AND_SCALE
    support = constraints.real
    has_rsample = True

    def __init__(self, loc, scale, validate_args=None):
        self._of_numbers(validate_args, loc=loc, scale=scale)

    @property
    def mean(self):
        """loc"""
        return self.loc

    @property
    def mode(self):
        """loc"""
        return self.loc

    def _standard(self, value):
        return (value - self.loc) / self.scale


class Normal(_Located, ExponentialFamily):
    """The normal (Gaussian) distribution of mean `loc` and standard deviation `scale`.

    >>> Normal(0., 1.).log_prob(flambeau.tensor(0.))
    tensor(-0.9189)
    """

    _mean_carrier_measure = 0

    @property
    def stddev(self):
        """scale"""
        return self.scale

    @property
    def variance(self):
        """scale^2"""
        return self.scale.square()

    def sample(self, sample_shape=()):
        """Samples without gradients."""
        shape = self._extended_shape(sample_shape)
        with flambeau.no_grad():
            return flambeau.normal(self.loc.expand(shape), self.scale.expand(shape))

    def rsample(self, sample_shape=()):
        """loc + scale times standard normal numbers"""
        shape = self._extended_shape(sample_shape)
        return self.loc + flambeau.randn(shape, dtype=self.loc.dtype, device=self.loc.device) * self.scale

    def log_prob(self, value):
        """- z^2 / 2 - log scale - log sqrt(2 pi)"""
        z = self._standard(self._checked(value))
        return -z.square() / 2 - self.scale.log() - math.log(2 * math.pi) / 2

    def cdf(self, value):
        """(1 + erf(z / sqrt 2)) / 2"""
        return 0.5 * (1 + (self._standard(self._checked(value)) / math.sqrt(2)).erf())

    def icdf(self, value):
        """loc + scale sqrt 2 erfinv(2 q - 1)"""
        return self.loc + self.scale * (2 * value - 1).erfinv() * math.sqrt(2)

    def entropy(self):
        """1/2 + log(scale sqrt(2 pi))"""
        return self.scale.log() + (1 + math.log(2 * math.pi)) / 2

    @property
    def _natural_params(self):
        precision = self.scale.pow(-2)
        return self.loc * precision, -0.5 * precision

    def _log_normalizer(self, x, y):
        return -x.square() / (4 * y) + 0.5 * (-math.pi / y).log()


class Laplace(_Located):
    """Two exponential distributions back to back.

    >>> Laplace(0., 1.).variance
    tensor(2.)
    """

    @property
    def variance(self):
        """2 scale^2"""
        return 2 * self.scale.square()

    @property
    def stddev(self):
        """sqrt 2 scale"""
        return math.sqrt(2) * self.scale

    def rsample(self, sample_shape=()):
        """Inversion of uniform numbers of (-1, 1)."""
        u = self.loc.new_empty(self._extended_shape(sample_shape))
        u.uniform_(flambeau.finfo(u.dtype).eps - 1, 1)
        return self.loc - self.scale * u.sign() * (-u.abs()).log1p()

    def log_prob(self, value):
        """- |z| - log(2 scale)"""
        return -self._standard(self._checked(value)).abs() - (2 * self.scale).log()

    def cdf(self, value):
        """exp(-|z|) / 2 below loc, and 1 minus that above"""
        z = self._standard(self._checked(value))
        return 0.5 - 0.5 * z.sign() * (-z.abs()).expm1()

    def icdf(self, value):
        """loc - scale sign(q - 1/2) log(1 - 2 |q - 1/2|)"""
        off = value - 0.5
        return self.loc - self.scale * off.sign() * (-2 * off.abs()).log1p()

    def entropy(self):
        """1 + log(2 scale)"""
        return 1 + (2 * self.scale).log()


class Cauchy(_Located):
    """The Cauchy (Lorentz) distribution: so heavy tails that it has no mean.

    >>> Cauchy(0., 1.).cdf(flambeau.tensor(1.))
    tensor(0.7500)
    """

    @property
    def mean(self):
        """NaN: there is none."""
        return flambeau.full_like(self.loc, flambeau.nan)

    @property
    def variance(self):
        """Infinite."""
        return flambeau.full_like(self.loc, flambeau.inf)

    def rsample(self, sample_shape=()):
        """loc + scale times standard Cauchy numbers"""
        return self.loc + self.loc.new_empty(self._extended_shape(sample_shape)).cauchy_() * self.scale

    def log_prob(self, value):
        """- log(pi scale (1 + z^2))"""
        z = self._standard(self._checked(value))
        return -math.log(math.pi) - self.scale.log() - z.square().log1p()

    def cdf(self, value):
        """1/2 + atan(z) / pi"""
        return self._standard(self._checked(value)).atan() / math.pi + 0.5

    def icdf(self, value):
        """loc + scale tan(pi (q - 1/2))"""
        return self.loc + self.scale * (math.pi * (value - 0.5)).tan()

    def entropy(self):
        """log(4 pi scale)"""
        return math.log(4 * math.pi) + self.scale.log()


_LOW_AND_HIGH = ("low", "high")


class Uniform(Distribution):
    """All numbers of [low, high) alike.

    >>> Uniform(0., 2.).entropy()
    tensor(0.6931)
    """

    has_rsample = True

    def __init__(self, low, high, validate_args=None):
        self._of_numbers(validate_args, low=low, high=high)

    @property
    def arg_constraints(self):
        """low < high"""
        return {"low": constraints.less_than(self.high), "high": constraints.greater_than(self.low)}

    def _declared_names(self):
        return _LOW_AND_HIGH

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self):
        """[low, high]"""
        return constraints.interval(self.low, self.high)

    @property
    def mean(self):
        """(low + high) / 2"""
        return (self.high + self.low) / 2

    @property
    def mode(self):
        """NaN: every number is as likely."""
        return flambeau.full_like(self.low, flambeau.nan)

    @property
    def stddev(self):
        """(high - low) / sqrt 12"""
        return (self.high - self.low) / math.sqrt(12)

    @property
    def variance(self):
        """(high - low)^2 / 12"""
        return (self.high - self.low).square() / 12

    def rsample(self, sample_shape=()):
        """low + (high - low) times uniform numbers"""
        u = flambeau.rand(self._extended_shape(sample_shape), dtype=self.low.dtype, device=self.low.device)
        return self.low + u * (self.high - self.low)

    def log_prob(self, value):
        """- log(high - low) inside, minus infinity outside"""
        value = self._checked(value)
        inside = (self.low <= value) & (value < self.high)
        return inside.to(self.low).log() - (self.high - self.low).log()

    def cdf(self, value):
        """(x - low) / (high - low)"""
        return ((self._checked(value) - self.low) / (self.high - self.low)).clamp(0, 1)

    def icdf(self, value):
        """low + q (high - low)"""
        return value * (self.high - self.low) + self.low

    def entropy(self):
        """log(high - low)"""
        return (self.high - self.low).log()


class Gumbel(TransformedDistribution):
    """The largest of many numbers: loc - scale * log(-log u) for uniform u.

    >>> Gumbel(0., 1.).mean
    tensor(0.5772)
    """

    arg_constraints = _LOC_AND_SCALE
    support = constraints.real

    def __init__(self, loc, scale, validate_args=None):
        self.loc, self.scale = broadcast_all(loc, scale)
        info, zero = flambeau.finfo(self.loc.dtype), flambeau.zeros_like(self.loc)
        base = Uniform(zero + info.tiny, zero + (1 - info.eps), validate_args)
        minus_log = [ExpTransform().inv, AffineTransform(0, -flambeau.ones_like(self.scale))]
        steps = [*minus_log, ExpTransform().inv, AffineTransform(self.loc, -self.scale)]
        super().__init__(base, steps, validate_args)

    def log_prob(self, value):
        """- z - exp(-z) - log scale"""
        z = (self.loc - self._checked(value)) / self.scale
        return z - z.exp() - self.scale.log()

    @property
    def mean(self):
        """loc + scale gamma"""
        return self.loc + self.scale * euler_constant

    @property
    def mode(self):
        """loc"""
        return self.loc

    @property
    def stddev(self):
        """scale pi / sqrt 6"""
        return math.pi / math.sqrt(6) * self.scale

    @property
    def variance(self):
        """scale^2 pi^2 / 6"""
        return self.stddev.square()

    def entropy(self):
        """log scale + 1 + gamma"""
        return self.scale.log() + (1 + euler_constant)


class VonMises(Distribution):
    """Angles about `loc`, the narrower the larger `concentration`: the normal distribution of the circle.

    >>> VonMises(flambeau.tensor(0.), flambeau.tensor(1.)).variance
    tensor(0.5536)
    """

    arg_constraints = {"loc": constraints.real, "concentration": constraints.positive}
    support = constraints.real
    has_rsample = False

    def __init__(self, loc, concentration, validate_args=None):
        self._of_numbers(validate_args, loc=loc, concentration=concentration)

    def log_prob(self, value):
        """k cos(x - loc) - log(2 pi I0(k))"""
        k = self.concentration
        angle = self._checked(value) - self.loc
        return k * (angle.cos() - 1) - math.log(2 * math.pi) - flambeau.special.i0e(k).log()

    @staticmethod
    def _proposal(k):
        """The wrapped Cauchy distribution nearest to this one, by Best and Fisher 1979."""
        tau = 1 + (1 + 4 * k.square()).sqrt()
        rho = (tau - (2 * tau).sqrt()) / (2 * k)
        return flambeau.where(k < 1e-5, 1 / k + k, (1 + rho.square()) / (2 * rho))

    def sample(self, sample_shape=()):
        """Rejection from a wrapped Cauchy distribution, in double."""
        with flambeau.no_grad():
            shape = self._extended_shape(sample_shape)
            k, loc = self.concentration.double(), self.loc.double()
            r = self._proposal(k)
            found = flambeau.empty(shape, dtype=k.dtype, device=k.device)
            done = flambeau.zeros(shape, dtype=bool, device=k.device)
            while not done.all():
                u = flambeau.rand((3, *shape), dtype=k.dtype, device=k.device)
                z = (math.pi * u[0]).cos()
                f = (1 + r * z) / (r + z)
                c = k * (r - f)
                taken = (c * (2 - c) > u[1]) | ((c / u[1]).log() + 1 - c >= 0)
                found = flambeau.where(taken, (u[2] - 0.5).sign() * f.acos(), found)
                done = done | taken
            return ((found + math.pi + loc) % (2 * math.pi) - math.pi).to(self.loc.dtype)

    @property
    def mean(self):
        """loc"""
        return self.loc

    @property
    def mode(self):
        """loc"""
        return self.loc

    @property
    def variance(self):
        """The circular variance 1 - I1(k) / I0(k)"""
        return 1 - flambeau.special.i1e(self.concentration) / flambeau.special.i0e(self.concentration)
