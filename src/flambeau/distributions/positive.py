"""The exponential and gamma distributions and what follows from them; positive numbers and power laws."""

import math

import flambeau

from . import constraints
from .distribution import Distribution
from .exp_family import ExponentialFamily
from .location_scale import Cauchy, Normal
from .transformed_distribution import TransformedDistribution
from .transforms import AbsTransform, AffineTransform, ExpTransform, PowerTransform
from .utils import broadcast_all, euler_constant

_POSITIVE = constraints.positive
#: names of a pair of parameters that both must be positive
_SHAPE_AND_RATE = {"concentration": _POSITIVE, "rate": _POSITIVE}


class Exponential(ExponentialFamily):
    """The time until the first event of a constant rate.

    >>> Exponential(2.).mean
    tensor(0.5000)
    """

    arg_constraints = {"rate": _POSITIVE}
    support = constraints.nonnegative
    has_rsample = True
    _mean_carrier_measure = 0

    def __init__(self, rate, validate_args=None):
        self._of_numbers(validate_args, rate=rate)

    @property
    def mean(self):
        """1 / rate"""
        return self.rate.reciprocal()

    stddev = mean

    @property
    def mode(self):
        """0"""
        return flambeau.zeros_like(self.rate)

    @property
    def variance(self):
        """1 / rate^2"""
        return self.rate.pow(-2)

    def rsample(self, sample_shape=()):
        """Standard exponential numbers over the rate."""
        return self.rate.new_empty(self._extended_shape(sample_shape)).exponential_() / self.rate

    def log_prob(self, value):
        """log rate - rate x"""
        return self.rate.log() - self.rate * self._checked(value)

    def cdf(self, value):
        """1 - exp(-rate x)"""
        return 1 - (-self.rate * self._checked(value)).exp()

    def icdf(self, value):
        """- log(1 - q) / rate"""
        return -(-value).log1p() / self.rate

    def entropy(self):
        """1 - log rate"""
        return 1.0 - self.rate.log()

    @property
    def _natural_params(self):
        return (-self.rate,)

    def _log_normalizer(self, x):
        return -(-x).log()


class Gamma(ExponentialFamily):
    """The gamma distribution of a shape (concentration) and a rate.

    >>> Gamma(3., 2.).mean
    tensor(1.5000)
    """

    arg_constraints = _SHAPE_AND_RATE
    support = constraints.nonnegative
    has_rsample = True
    _mean_carrier_measure = 0

    def __init__(self, concentration, rate, validate_args=None):
        self._of_numbers(validate_args, concentration=concentration, rate=rate)

    @property
    def mean(self):
        """concentration / rate"""
        return self.concentration / self.rate

    @property
    def mode(self):
        """(concentration - 1) / rate, at least 0"""
        return ((self.concentration - 1) / self.rate).clamp(min=0)

    @property
    def variance(self):
        """concentration / rate^2"""
        return self.concentration / self.rate.square()

    def rsample(self, sample_shape=()):
        """Gamma numbers of rate 1 over the rate; a sample moves along its quantile with the concentration."""
        shape = self._extended_shape(sample_shape)
        value = flambeau._standard_gamma(self.concentration.expand(shape)) / self.rate.expand(shape)
        value.detach().clamp_(min=flambeau.finfo(value.dtype).tiny)  # what underflows would have log_prob infinite
        return value

    def log_prob(self, value):
        """a log b + (a - 1) log x - b x - log Gamma(a)"""
        a, value = self.concentration, self._checked(flambeau.as_tensor(value).to(self.rate))
        return a.xlogy(self.rate) + (a - 1).xlogy(value) - self.rate * value - a.lgamma()

    def cdf(self, value):
        """The regularised lower incomplete gamma function."""
        return flambeau.special.gammainc(self.concentration, self.rate * self._checked(value))

    def entropy(self):
        """a - log b + log Gamma(a) + (1 - a) digamma(a)"""
        a = self.concentration
        return a - self.rate.log() + a.lgamma() + (1 - a) * a.digamma()

    @property
    def _natural_params(self):
        return self.concentration - 1, -self.rate

    def _log_normalizer(self, x, y):
        return (x + 1).lgamma() - (x + 1) * (-y).log()


class Chi2(Gamma):
    """The sum of `df` squared standard normal numbers.

    >>> Chi2(3.).mean
    tensor(3.)
    """

    arg_constraints = {"df": _POSITIVE}

    def __init__(self, df, validate_args=None):
        super().__init__(0.5 * df, 0.5, validate_args)

    def _declared_names(self):
        return _SHAPE_AND_RATE

    def __repr__(self):
        return "Chi2()"

    @property
    def df(self):
        """Degrees of freedom."""
        return self.concentration * 2


class InverseGamma(TransformedDistribution):
    """1 / x for a gamma variable x.

    >>> InverseGamma(3., 2.).mean
    tensor(1.)
    """

    arg_constraints = _SHAPE_AND_RATE
    support = _POSITIVE
    has_rsample = True

    def __init__(self, concentration, rate, validate_args=None):
        base = Gamma(concentration, rate, validate_args)
        super().__init__(base, PowerTransform(-base.rate.new_ones(())), validate_args)

    @property
    def concentration(self):
        """The shape."""
        return self.base_dist.concentration

    @property
    def rate(self):
        """The rate of 1 / x."""
        return self.base_dist.rate

    @property
    def mean(self):
        """b / (a - 1), infinite up to a = 1"""
        a = self.concentration
        return (self.rate / (a - 1)).masked_fill(a <= 1, flambeau.inf)

    @property
    def mode(self):
        """b / (a + 1)"""
        return self.rate / (self.concentration + 1)

    @property
    def variance(self):
        """b^2 / ((a - 1)^2 (a - 2)), infinite up to a = 2"""
        a = self.concentration
        return (self.rate.square() / ((a - 1).square() * (a - 2))).masked_fill(a <= 2, flambeau.inf)

    def entropy(self):
        """a + log b + log Gamma(a) - (1 + a) digamma(a)"""
        a = self.concentration
        return a + self.rate.log() + a.lgamma() - (1 + a) * a.digamma()


class FisherSnedecor(Distribution):
    """The ratio of two chi-squared variables, each over its degrees of freedom.

    >>> FisherSnedecor(2., 4.).mean
    tensor(2.)
    """

    arg_constraints = {"df1": _POSITIVE, "df2": _POSITIVE}
    support = _POSITIVE
    has_rsample = True

    def __init__(self, df1, df2, validate_args=None):
        self._of_numbers(validate_args, df1=df1, df2=df2)
        self._gamma1, self._gamma2 = Gamma(self.df1 * 0.5, self.df1), Gamma(self.df2 * 0.5, self.df2)

    @property
    def mean(self):
        """df2 / (df2 - 2), where df2 > 2"""
        n = self.df2.masked_fill(self.df2 <= 2, flambeau.nan)
        return n / (n - 2)

    @property
    def mode(self):
        """(df1 - 2) / df1 * df2 / (df2 + 2), where df1 > 2"""
        found = (self.df1 - 2) / self.df1 * self.df2 / (self.df2 + 2)
        return found.masked_fill(self.df1 <= 2, flambeau.nan)

    @property
    def variance(self):
        """2 df2^2 (df1 + df2 - 2) / (df1 (df2 - 2)^2 (df2 - 4)), where df2 > 4"""
        m, n = self.df1, self.df2.masked_fill(self.df2 <= 4, flambeau.nan)
        return 2 * n.square() * (m + n - 2) / (m * (n - 2).square() * (n - 4))

    def rsample(self, sample_shape=()):
        """The ratio of two gamma samples."""
        above, below = self._gamma1.rsample(sample_shape), self._gamma2.rsample(sample_shape)
        tiny = flambeau.finfo(below.dtype).tiny
        return (above / below.clamp(min=tiny)).clamp(min=tiny)

    def log_prob(self, value):
        """m/2 log(m/n) + (m/2 - 1) log x - (m + n)/2 log(1 + m x / n) - log B(m/2, n/2)"""
        value, m, n = self._checked(value), self.df1 / 2, self.df2 / 2
        ratio = self.df1 / self.df2
        beta = m.lgamma() + n.lgamma() - (m + n).lgamma()
        return m * ratio.log() + (m - 1) * value.log() - (m + n) * (ratio * value).log1p() - beta


class StudentT(Distribution):
    """loc + scale times Student's t of `df` degrees of freedom.

    >>> StudentT(3.).variance
    tensor(3.)
    """

    arg_constraints = {"df": constraints.positive, **Normal.arg_constraints}
    support = constraints.real
    has_rsample = True

    def __init__(self, df, loc=0.0, scale=1.0, validate_args=None):
        self._of_numbers(validate_args, df=df, loc=loc, scale=scale)
        self._chi2 = Chi2(self.df)

    @property
    def mean(self):
        """loc, where df > 1"""
        return self.loc.masked_fill(self.df <= 1, flambeau.nan)

    @property
    def mode(self):
        """loc"""
        return self.loc

    @property
    def variance(self):
        """scale^2 df / (df - 2); infinite up to df = 2, none up to 1"""
        df = self.df.masked_fill(self.df <= 2, 3)  # any number with a finite derivative
        found = self.scale.square() * df / (df - 2)
        return found.masked_fill(self.df <= 2, flambeau.inf).masked_fill(self.df <= 1, flambeau.nan)

    def rsample(self, sample_shape=()):
        """A normal number over the root of a chi-squared one over df"""
        x = flambeau.randn(self._extended_shape(sample_shape), dtype=self.df.dtype, device=self.df.device)
        return self.loc + self.scale * x * (self._chi2.rsample(sample_shape) / self.df).rsqrt()

    def _log_width(self):
        """log of scale sqrt(df) B(1/2, df / 2)"""
        beta = math.lgamma(0.5) + (0.5 * self.df).lgamma() - (0.5 * (self.df + 1)).lgamma()
        return self.scale.log() + 0.5 * self.df.log() + beta

    def log_prob(self, value):
        """- (df + 1)/2 log(1 + z^2 / df) - log(scale sqrt(df) B(1/2, df/2))"""
        z = (self._checked(value) - self.loc) / self.scale
        return -0.5 * (self.df + 1) * (z.square() / self.df).log1p() - self._log_width()

    def entropy(self):
        """(df + 1)/2 (digamma((df + 1)/2) - digamma(df/2)) + log(scale sqrt(df) B(1/2, df/2))"""
        half = 0.5 * (self.df + 1)
        return half * (half.digamma() - (0.5 * self.df).digamma()) + self._log_width()


# --- folded and transformed -------------------------------------------------------------------------------------------

class _Folded(TransformedDistribution):
    """|x| for a variable x that is symmetric about 0."""

    arg_constraints = {"scale": _POSITIVE}
    support = constraints.nonnegative
    has_rsample = True

    def __init__(self, scale, validate_args=None):
        super().__init__(self._base(0, scale, validate_args=False), AbsTransform(), validate_args)

    @property
    def scale(self):
        """The scale of x."""
        return self.base_dist.scale

    @property
    def mode(self):
        """0"""
        return flambeau.zeros_like(self.scale)

    def log_prob(self, value):
        """log 2 + the log density of x, and minus infinity below 0."""
        value = self._checked(value)
        found = self.base_dist.log_prob(value) + math.log(2)
        return found.masked_fill(value < 0, -flambeau.inf)

    def cdf(self, value):
        """2 F(x) - 1"""
        return 2 * self.base_dist.cdf(self._checked(value)) - 1

    def icdf(self, value):
        """The quantile of x at (q + 1) / 2"""
        return self.base_dist.icdf((value + 1) / 2)

    def entropy(self):
        """That of x, minus log 2"""
        return self.base_dist.entropy() - math.log(2)


class HalfNormal(_Folded):
    """|x| for a normal variable x of mean 0.

    >>> HalfNormal(1.).mean
    tensor(0.7979)
    """

    _base = Normal

    @property
    def mean(self):
        """scale sqrt(2 / pi)"""
        return self.scale * math.sqrt(2 / math.pi)

    @property
    def variance(self):
        """scale^2 (1 - 2 / pi)"""
        return self.scale.square() * (1 - 2 / math.pi)


class HalfCauchy(_Folded):
    """|x| for a Cauchy variable x about 0.

    >>> HalfCauchy(1.).cdf(flambeau.tensor(1.))
    tensor(0.5000)
    """

    _base = Cauchy

    @property
    def mean(self):
        """Infinite."""
        return flambeau.full_like(self.scale, flambeau.inf)

    @property
    def variance(self):
        """Infinite."""
        return self.base_dist.variance


class LogNormal(TransformedDistribution):
    """exp(x) for a normal variable x.

    >>> LogNormal(0., 1.).mean
    tensor(1.6487)
    """

    arg_constraints = {"loc": constraints.real, "scale": _POSITIVE}
    support = _POSITIVE
    has_rsample = True

    def __init__(self, loc, scale, validate_args=None):
        super().__init__(Normal(loc, scale, validate_args), ExpTransform(), validate_args)

    @property
    def loc(self):
        """The mean of log x."""
        return self.base_dist.loc

    @property
    def scale(self):
        """The standard deviation of log x."""
        return self.base_dist.scale

    @property
    def mean(self):
        """exp(loc + scale^2 / 2)"""
        return (self.loc + self.scale.square() / 2).exp()

    @property
    def mode(self):
        """exp(loc - scale^2)"""
        return (self.loc - self.scale.square()).exp()

    @property
    def variance(self):
        """(exp(scale^2) - 1) exp(2 loc + scale^2)"""
        s2 = self.scale.square()
        return s2.expm1() * (2 * self.loc + s2).exp()

    def entropy(self):
        """That of log x, plus loc"""
        return self.base_dist.entropy() + self.loc


class Weibull(TransformedDistribution):
    """scale * x ** (1 / concentration) for a standard exponential variable x.

    >>> Weibull(2., 1.).mean
    tensor(2.)
    """

    arg_constraints = {"scale": _POSITIVE, "concentration": _POSITIVE}
    support = _POSITIVE

    def __init__(self, scale, concentration, validate_args=None):
        self.scale, self.concentration = broadcast_all(scale, concentration)
        power = PowerTransform(exponent=self.concentration.reciprocal())
        base = Exponential(flambeau.ones_like(self.scale), validate_args)
        super().__init__(base, [power, AffineTransform(0, self.scale)], validate_args)

    def _moment(self, n):
        return (1 + n / self.concentration).lgamma().exp()

    @property
    def mean(self):
        """scale Gamma(1 + 1 / k)"""
        return self.scale * self._moment(1)

    @property
    def mode(self):
        """scale (1 - 1 / k)^(1 / k); NaN below k = 1, where the density grows towards 0 without bound"""
        k = self.concentration
        return self.scale * (1 - 1 / k).pow(1 / k)

    @property
    def variance(self):
        """scale^2 (Gamma(1 + 2 / k) - Gamma(1 + 1 / k)^2)"""
        return self.scale.square() * (self._moment(2) - self._moment(1).square())

    def entropy(self):
        """gamma (1 - 1 / k) + log(scale / k) + 1"""
        k = self.concentration
        return euler_constant * (1 - 1 / k) + (self.scale / k).log() + 1


class Pareto(TransformedDistribution):
    """scale * exp(x) for an exponential variable x of rate alpha: a power law above scale.

    >>> Pareto(1., 3.).mean
    tensor(1.5000)
    """

    arg_constraints = {"alpha": _POSITIVE, "scale": _POSITIVE}

    def __init__(self, scale, alpha, validate_args=None):
        self.scale, self.alpha = broadcast_all(scale, alpha)
        base = Exponential(self.alpha, validate_args)
        super().__init__(base, [ExpTransform(), AffineTransform(0, self.scale)], validate_args)

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self):
        """Numbers from scale on."""
        return constraints.greater_than_eq(self.scale)

    @property
    def mean(self):
        """alpha scale / (alpha - 1), infinite up to alpha = 1"""
        a = self.alpha.clamp(min=1)
        return a * self.scale / (a - 1)

    @property
    def mode(self):
        """scale"""
        return self.scale

    @property
    def variance(self):
        """scale^2 alpha / ((alpha - 1)^2 (alpha - 2)), infinite up to alpha = 2"""
        a = self.alpha.clamp(min=2)
        return self.scale.square() * a / ((a - 1).square() * (a - 2))

    def entropy(self):
        """log(scale / alpha) + 1 + 1 / alpha"""
        return (self.scale / self.alpha).log() + 1 + self.alpha.reciprocal()


class GeneralizedPareto(Distribution):
    """Exceedances of a threshold `loc`: a power law, exponential or bounded tail as concentration is > 0, 0 or < 0.

    >>> GeneralizedPareto(0., 1., 0.).cdf(flambeau.tensor(1.))
    tensor(0.6321)
    """

    arg_constraints = {"loc": constraints.real, "scale": _POSITIVE, "concentration": constraints.real}
    has_rsample = True

    def __init__(self, loc, scale, concentration, validate_args=None):
        self._of_numbers(validate_args, loc=loc, scale=scale, concentration=concentration)

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self):
        """Numbers from loc on, up to loc - scale / concentration where that is negative."""
        end = self.loc - self.scale / self.concentration
        return constraints.interval(self.loc, end.masked_fill(self.concentration >= 0, flambeau.inf))

    def _tail(self):
        """(whether the tail is exponential, a concentration to divide by)"""
        flat = self.concentration.isclose(flambeau.zeros_like(self.concentration))
        return flat, self.concentration.masked_fill(flat, 1)

    def _z(self, x):
        return (x - self.loc) / self.scale

    def rsample(self, sample_shape=()):
        """Quantiles of uniform numbers."""
        shape = self._extended_shape(sample_shape)
        return self.icdf(flambeau.rand(shape, dtype=self.loc.dtype, device=self.loc.device))

    def log_survival_function(self, value):
        """log(1 - cdf)"""
        (flat, c), z = self._tail(), self._z(self._checked(value))
        return flambeau.where(flat, -z, -(c * z).log1p() / c)

    def log_prob(self, value):
        """-(1 + 1 / c) log(1 + c z) - log scale, or -z - log scale"""
        (flat, c), z = self._tail(), self._z(self._checked(value))
        return flambeau.where(flat, -z, -(1 + 1 / c) * (c * z).log1p()) - self.scale.log()

    def log_cdf(self, value):
        """log of the probability up to value."""
        return (-self.log_survival_function(value).exp()).log1p()

    def cdf(self, value):
        """1 - (1 + c z)^(-1 / c)"""
        return -self.log_survival_function(value).expm1()

    def icdf(self, value):
        """loc + scale ((1 - q)^(-c) - 1) / c"""
        (flat, c), log_rest = self._tail(), (-value).log1p()
        return self.loc + self.scale * flambeau.where(flat, -log_rest, (-c * log_rest).expm1() / c)

    @property
    def mean(self):
        """loc + scale / (1 - c), where c < 1"""
        c = self.concentration
        return (self.loc + self.scale / (1 - c)).masked_fill(c >= 1, flambeau.nan)

    @property
    def variance(self):
        """scale^2 / ((1 - c)^2 (1 - 2 c)), where c < 1/2"""
        c = self.concentration
        return (self.scale.square() / ((1 - c).square() * (1 - 2 * c))).masked_fill(c >= 0.5, flambeau.nan)

    @property
    def mode(self):
        """loc"""
        return self.loc

    def entropy(self):
        """log scale + c + 1"""
        return self.scale.log() + self.concentration + 1
