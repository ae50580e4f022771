"""Kullback-Leibler divergences: a table of pairs of classes, and the nearest entry for a pair of distributions.

>>> import flambeau
>>> from flambeau.distributions import Normal, kl_divergence
>>> kl_divergence(Normal(0., 1.), Normal(1., 1.))
tensor(0.5000)
"""

import math
import warnings

import flambeau

from .._shown import shown
from .bounded import Beta, ContinuousBernoulli, Dirichlet
from .categories import Categorical, OneHotCategorical
from .counts import Bernoulli, Binomial, Geometric, Poisson
from .exp_family import ExponentialFamily
from .gaussian import LowRankMultivariateNormal, MultivariateNormal, half_log_det, squared_length
from .independent import Independent
from .location_scale import Cauchy, Gumbel, Laplace, Normal, Uniform
from .positive import Exponential, Gamma, HalfNormal, Pareto
from .transformed_distribution import TransformedDistribution
from .utils import _sum_rightmost, broadcast_all, euler_constant, minus_log_sigmoid

__all__ = ["kl_divergence", "register_kl"]

_KL_REGISTRY = {}  # (class of p, class of q): function
_KL_MEMOIZE = {}  # the same for subclasses that were asked for
_inf = flambeau.inf


def register_kl(type_p, type_q):
    """A decorator that makes a function the divergence of a class from another, and of their subclasses.

    The classes may be ones that distributions have beside Distribution itself: bases of a library's own.

    >>> from flambeau.distributions import register_kl
    >>> class Mine(Normal):
    ...     pass
    >>> @register_kl(Mine, Normal)
    ... def mine(p, q):
    ...     return flambeau.zeros(())
    >>> kl_divergence(Mine(0., 1.), Normal(3., 1.))
    tensor(0.)
    """
    for argument, kind in (("type_p", type_p), ("type_q", type_q)):
        if not isinstance(kind, type):
            raise TypeError(f"register_kl: {argument} must be a class of distributions, got {shown(kind)}")

    def decorate(function):
        _KL_REGISTRY[type_p, type_q] = function
        _KL_MEMOIZE.clear()
        return function
    return decorate


def _distance(kind, ancestor):
    return kind.__mro__.index(ancestor)


def _find(type_p, type_q):
    """The entry nearest to both classes; the nearest to p where two differ."""
    fitting = [(p, q) for p, q in _KL_REGISTRY if issubclass(type_p, p) and issubclass(type_q, q)]
    if not fitting:
        return None
    first = min(fitting, key=lambda pair: (_distance(type_p, pair[0]), _distance(type_q, pair[1])))
    other = min(fitting, key=lambda pair: (_distance(type_q, pair[1]), _distance(type_p, pair[0])))
    if _KL_REGISTRY[first] is not _KL_REGISTRY[other]:
        names = [f"({p.__name__}, {q.__name__})" for p, q in (first, other)]
        warnings.warn(f"kl_divergence of {type_p.__name__} and {type_q.__name__} is ambiguous: the entry {names[0]} is "
                      f"taken, {names[1]} is as near; register_kl({type_p.__name__}, {type_q.__name__}) decides it",
                      RuntimeWarning, stacklevel=3)
    return _KL_REGISTRY[first]


def kl_divergence(p, q):
    """The expectation under p of log p(x) - log q(x).

    >>> kl_divergence(Exponential(1.), Exponential(1.))
    tensor(0.)
    """
    pair = type(p), type(q)
    if pair not in _KL_MEMOIZE:
        _KL_MEMOIZE[pair] = _find(*pair)
    function = _KL_MEMOIZE[pair]
    if function is None:
        raise NotImplementedError(f"kl_divergence: no formula for a {pair[0].__name__} and a {pair[1].__name__}; "
                                  "average p.log_prob(x) - q.log_prob(x) over samples of p, or add one by register_kl")
    return function(p, q)


# --- a family and itself ----------------------------------------------------------------------------------------------

@register_kl(ExponentialFamily, ExponentialFamily)
def _kl_expfamily_expfamily(p, q):
    """A(theta_q) - A(theta_p) - <E t(x), theta_q - theta_p>: a Bregman divergence"""
    if type(p) is not type(q):
        raise NotImplementedError(f"kl_divergence: {type(p).__name__} and {type(q).__name__} are different exponential "
                                  "families; average p.log_prob(x) - q.log_prob(x) over samples of p")
    normalizer, theta_p, expected = p._expected_statistics()
    theta_q = q._natural_params
    result = q._log_normalizer(*theta_q) - normalizer
    for mine, theirs, mean in zip(theta_p, theta_q, expected, strict=True):
        inner = mean * (theirs - mine)
        result = result - _sum_rightmost(inner, inner.dim() - result.dim())
    return result if any(t.requires_grad for t in (*p._natural_params, *theta_q)) else result.detach()


def _zero_times(weight, factor):
    """weight * factor, and 0 where the weight is, whatever the factor."""
    return (weight * factor).masked_fill(weight == 0, 0)


@register_kl(Bernoulli, Bernoulli)
def _bernoulli(p, q):
    success = minus_log_sigmoid(q.logits) - minus_log_sigmoid(p.logits)
    failure = minus_log_sigmoid(-q.logits) - minus_log_sigmoid(-p.logits)
    return _zero_times(p.probs, success.masked_fill(q.probs == 0, _inf)) + \
        _zero_times(1 - p.probs, failure.masked_fill(q.probs == 1, _inf))


@register_kl(Binomial, Binomial)
def _binomial(p, q):
    if (p.total_count < q.total_count).any():
        raise NotImplementedError("kl_divergence of two Binomials: p must not have fewer trials than q; got "
                                  f"{p.total_count.min().item():g} and {q.total_count.max().item():g}")
    found = p.total_count * (p.probs * (p.logits - q.logits) + (-p.probs).log1p() - (-q.probs).log1p())
    return found.masked_fill(p.total_count > q.total_count, _inf)


@register_kl(Categorical, Categorical)
def _categorical(p, q):
    ratio = (p.logits - q.logits).masked_fill(q.probs == 0, _inf)
    return _zero_times(p.probs.expand_as(ratio), ratio).sum(-1)


@register_kl(OneHotCategorical, OneHotCategorical)
def _one_hot(p, q):
    return _categorical(p._categorical, q._categorical)


@register_kl(Geometric, Geometric)
def _geometric(p, q):
    return -p.entropy() - (-q.probs).log1p() / p.probs - q.logits


@register_kl(Poisson, Poisson)
def _poisson(p, q):
    return p.rate.xlogy(p.rate / q.rate) - (p.rate - q.rate)


@register_kl(Normal, Normal)
def _normal(p, q):
    ratio = (p.scale / q.scale).square()
    return 0.5 * (ratio + ((p.loc - q.loc) / q.scale).square() - 1 - ratio.log())


@register_kl(HalfNormal, HalfNormal)
def _half_normal(p, q):
    return _normal(p.base_dist, q.base_dist)


@register_kl(Laplace, Laplace)
def _laplace(p, q):
    ratio, off = p.scale / q.scale, (p.loc - q.loc).abs()
    return -ratio.log() + off / q.scale + ratio * (-off / p.scale).exp() - 1


@register_kl(Cauchy, Cauchy)
def _cauchy(p, q):
    """Source: Chyzak and Nielsen 2019."""
    apart = (p.scale + q.scale).square() + (p.loc - q.loc).square()
    return (apart / (4 * p.scale * q.scale)).log()


@register_kl(Gumbel, Gumbel)
def _gumbel(p, q):
    ratio, off = p.scale / q.scale, (p.loc - q.loc) / q.scale
    return off - ratio.log() + ratio * euler_constant + ((1 + ratio).lgamma() - off).exp() - (1 + euler_constant)


@register_kl(Exponential, Exponential)
def _exponential(p, q):
    ratio = q.rate / p.rate
    return ratio - ratio.log() - 1


@register_kl(Gamma, Gamma)
def _gamma(p, q):
    a, b = p.concentration, q.concentration
    return b * (p.rate / q.rate).log() + b.lgamma() - a.lgamma() + (a - b) * a.digamma() + \
        (q.rate - p.rate) * (a / p.rate)


@register_kl(Pareto, Pareto)
def _pareto(p, q):
    ratio = q.alpha / p.alpha
    found = q.alpha * (p.scale / q.scale).log() - ratio.log() + ratio - 1
    return found.masked_fill(p.scale < q.scale, _inf)


@register_kl(Uniform, Uniform)
def _uniform(p, q):
    found = ((q.high - q.low) / (p.high - p.low)).log()
    return found.masked_fill((q.low > p.low) | (q.high < p.high), _inf)


@register_kl(Dirichlet, Dirichlet)
def _dirichlet(p, q):
    a, b = p.concentration, q.concentration
    total = a.sum(-1, keepdim=True)
    constant = total.squeeze(-1).lgamma() - b.sum(-1).lgamma() + (b.lgamma() - a.lgamma()).sum(-1)
    return constant + ((a - b) * (a.digamma() - total.digamma())).sum(-1)


@register_kl(Beta, Beta)
def _beta(p, q):
    return _dirichlet(p._dirichlet, q._dirichlet)


@register_kl(ContinuousBernoulli, ContinuousBernoulli)
def _continuous_bernoulli(p, q):
    mine, theirs = (d._cont_bern_log_norm() + (-d.probs).log1p() for d in (p, q))
    return p.mean * (p.logits - q.logits) + mine - theirs


# --- normal vectors ---------------------------------------------------------------------------------------------------

def _require_same_size(p, q):
    if p.event_shape != q.event_shape:
        raise ValueError(f"kl_divergence of normal vectors: events have {p.event_shape[0]} and {q.event_shape[0]} "
                         "entries; they must be as many")


def _trace(factor, matrix):
    """tr((L L^T)^-1 M M^T) = |L^-1 M|^2"""
    batch = flambeau.broadcast_shapes(factor.shape[:-2], matrix.shape[:-2])
    solved = flambeau.linalg.solve_triangular(factor.expand(*batch, *factor.shape[-2:]),
                                              matrix.expand(*batch, *matrix.shape[-2:]), upper=False)
    return solved.square().sum((-2, -1))


def _log_det(d):
    return d.log_det() if isinstance(d, LowRankMultivariateNormal) else 2 * half_log_det(d._unbroadcasted_scale_tril)


def _root(d):
    """A matrix M with M M^T the covariance."""
    if isinstance(d, LowRankMultivariateNormal):
        diagonal = d._unbroadcasted_cov_diag.sqrt().diag_embed()
        batch = flambeau.broadcast_shapes(diagonal.shape[:-2], d._unbroadcasted_cov_factor.shape[:-2])
        parts = (d._unbroadcasted_cov_factor, diagonal)
        return flambeau.cat([m.expand(*batch, *m.shape[-2:]) for m in parts], -1)
    return d._unbroadcasted_scale_tril


def _vectors(p, q):
    """(tr(V_q^-1 V_p) + squared length of the difference - n + log det V_q - log det V_p) / 2"""
    _require_same_size(p, q)
    off = q.loc - p.loc
    if isinstance(q, LowRankMultivariateNormal):
        root, batch = _root(p), flambeau.broadcast_shapes(p.batch_shape, q.batch_shape)
        columns = root.expand(*batch, *root.shape[-2:]).movedim(-1, 0)
        trace = q.squared_length(columns).sum(0)
        length = q.squared_length(off)
    else:
        trace = _trace(q._unbroadcasted_scale_tril, _root(p))
        length = squared_length(q._unbroadcasted_scale_tril, off)
    return 0.5 * (trace + length - p.event_shape[0] + _log_det(q) - _log_det(p))


for _one in (MultivariateNormal, LowRankMultivariateNormal):
    for _other in (MultivariateNormal, LowRankMultivariateNormal):
        register_kl(_one, _other)(_vectors)


# --- made of others ---------------------------------------------------------------------------------------------------

@register_kl(Independent, Independent)
def _independent(p, q):
    if p.reinterpreted_batch_ndims != q.reinterpreted_batch_ndims:
        raise NotImplementedError("kl_divergence of two Independents: they take "
                                  f"{p.reinterpreted_batch_ndims} and {q.reinterpreted_batch_ndims} batch dimensions; "
                                  "these must be as many")
    return _sum_rightmost(kl_divergence(p.base_dist, q.base_dist), p.reinterpreted_batch_ndims)


@register_kl(TransformedDistribution, TransformedDistribution)
def _transformed(p, q):
    if p.transforms != q.transforms or p.event_shape != q.event_shape:
        raise NotImplementedError("kl_divergence of transformed distributions: transforms and event shapes must be "
                                  "equal; average p.log_prob(x) - q.log_prob(x) over samples of p")
    return kl_divergence(p.base_dist, q.base_dist)


# --- different families: minus the entropy of p, minus the expectation of log q ---------------------------------------

def _bounds(d):
    """The least and the largest value of a distribution of numbers."""
    support = d.support
    return getattr(support, "lower_bound", -_inf), getattr(support, "upper_bound", _inf)


def _mean_log(p):
    """E log x"""
    match p:
        case Gamma():
            return p.concentration.digamma() - p.rate.log()
        case Exponential():
            return -euler_constant - p.rate.log()
        case Beta():
            return p.concentration1.digamma() - (p.concentration1 + p.concentration0).digamma()
        case Pareto():
            return p.scale.log() + 1 / p.alpha
        case Uniform():
            return (p.high.xlogy(p.high) - p.low.xlogy(p.low)) / (p.high - p.low) - 1


def _mean_exp(p, t):
    """E exp(t x), for negative t"""
    match p:
        case Normal():
            return (t * p.loc + 0.5 * (t * p.scale).square()).exp()
        case Exponential():
            return p.rate / (p.rate - t)
        case Gamma():
            return (p.rate / (p.rate - t)).pow(p.concentration)
        case Uniform():
            return ((t * p.high).exp() - (t * p.low).exp()) / (t * (p.high - p.low))


def _log_beta(q):
    a, b = q.concentration1, q.concentration0
    return a.lgamma() + b.lgamma() - (a + b).lgamma()


def _in_normal(p, q):
    spread = p.variance + (p.mean - q.loc).square()
    return -0.5 * spread / q.scale.square() - q.scale.log() - 0.5 * math.log(2 * math.pi)


def _in_laplace(p, q):
    """E |x - m| of a normal variable: a folded normal mean"""
    z = (p.loc - q.loc) / (math.sqrt(2) * p.scale)
    mean = p.scale * (math.sqrt(2 / math.pi) * (-z.square()).exp() + math.sqrt(2) * z * z.erf())
    return -mean / q.scale - (2 * q.scale).log()


def _in_gumbel(p, q):
    return (q.loc - p.mean) / q.scale - (q.loc / q.scale).exp() * _mean_exp(p, -1 / q.scale) - q.scale.log()


def _in_gamma(p, q):
    a = q.concentration
    return a * q.rate.log() - a.lgamma() + (a - 1) * _mean_log(p) - q.rate * p.mean


def _in_beta(p, q):
    a, b, other_side = q.concentration1, q.concentration0, Uniform(1 - p.high, 1 - p.low, validate_args=False)
    return (a - 1) * _mean_log(p) + (b - 1) * _mean_log(other_side) - _log_beta(q)


_EXPECTED = {
    Normal: _in_normal,
    Laplace: _in_laplace,
    Gumbel: _in_gumbel,
    Gamma: _in_gamma,
    Beta: _in_beta,
    Exponential: lambda p, q: q.rate.log() - q.rate * p.mean,
    Uniform: lambda p, q: -(q.high - q.low).log(),
    Pareto: lambda p, q: q.alpha.log() + q.alpha * q.scale.log() - (q.alpha + 1) * _mean_log(p),
    ContinuousBernoulli: lambda p, q: p.mean * q.logits + (-q.probs).log1p() + q._cont_bern_log_norm(),
    Poisson: lambda p, q: p.mean * q.rate.log() - q.rate,  # of 0 and 1, whose factorials are 1
}
#: p: the families whose support may hold that of p; for the others after the bar it never does
_PAIRS = {
    Bernoulli: ((Poisson,), ()),
    Poisson: ((), (Bernoulli, Binomial)),
    Beta: ((ContinuousBernoulli, Exponential, Gamma, Normal, Uniform), (Pareto,)),
    ContinuousBernoulli: ((Exponential, Normal, Uniform), (Pareto,)),
    Exponential: ((Gamma, Gumbel, Normal), (Beta, ContinuousBernoulli, Pareto, Uniform)),
    Gamma: ((Exponential, Gumbel, Normal), (Beta, ContinuousBernoulli, Pareto, Uniform)),
    Gumbel: ((Normal,), (Beta, ContinuousBernoulli, Exponential, Gamma, Pareto, Uniform)),
    Laplace: ((Normal,), (Beta, ContinuousBernoulli, Exponential, Gamma, Pareto, Uniform)),
    Normal: ((Gumbel, Laplace), (Beta, ContinuousBernoulli, Exponential, Gamma, Pareto, Uniform)),
    Pareto: ((Exponential, Gamma, Normal), (Beta, ContinuousBernoulli, Uniform)),
    Uniform: ((Beta, ContinuousBernoulli, Exponential, Gamma, Gumbel, Normal, Pareto), ()),
}


def _crossed(expected):
    def divergence(p, q):
        (low, high), (least, most) = _bounds(p), _bounds(q)
        found = -p.entropy() - expected(p, q)
        outside, _ = broadcast_all(flambeau.as_tensor(low < least) | flambeau.as_tensor(high > most), found)
        return found.masked_fill(outside.bool(), _inf)
    return divergence


def _infinite(p, q):
    return p.mean.new_full(flambeau.broadcast_shapes(p.batch_shape, q.batch_shape), _inf)


for _kind, (_finite, _never) in _PAIRS.items():
    for _other in _finite:
        register_kl(_kind, _other)(_crossed(_EXPECTED[_other]))
    for _other in _never:
        register_kl(_kind, _other)(_infinite)
