"""Laws that hold for every distribution: shapes, supports, moments, quantiles, integrals, expansion, gradients."""

import math
import pickle
import warnings

import pytest

import flambeau
from flambeau import distributions as D
from tests.parity.distribution_cases import table

CASES = [(name, k) for name, makers in table(flambeau, flambeau.float64).items() for k in range(len(makers))]
#: moments that are infinite or so spread that an average of samples says nothing
HEAVY = {"Cauchy", "HalfCauchy", "FisherSnedecor", "StudentT", "GeneralizedPareto", ("Pareto", 0), ("Pareto", 1),
         ("InverseGamma", 0), ("InverseGamma", 1), ("LogNormal", 0), ("LogNormal", 2), ("Weibull", 0),
         ("TransformedDistribution", 1)}


@pytest.fixture(autouse=True)
def double():
    flambeau.manual_seed(0)
    flambeau.set_default_dtype(flambeau.float64)
    yield
    flambeau.set_default_dtype(flambeau.float32)


def make(name, k):
    return table(flambeau, flambeau.float64)[name][k]()


def asked(ask):
    try:
        return ask()
    except NotImplementedError:
        return None


def having(*questions, without=()):
    """The cases that have answers to all these questions."""
    def has(name, k):
        d = make(name, k)
        at = flambeau.full((*d.batch_shape, *d.event_shape), 0.3)
        asks = {"icdf": lambda: d.icdf(at), "cdf": lambda: d.cdf(d.icdf(at)), "entropy": d.entropy}
        return all(asked(asks.get(q, lambda q=q: getattr(d, q))) is not None for q in questions)
    return [case for case in CASES if case[0] not in without and case not in without and has(*case)]


@pytest.mark.parametrize("name, k", CASES)
def test_shapes_and_support(name, k):
    d = make(name, k)
    for shape in ((), (4,), (2, 3)):
        x = d.sample(shape)
        assert x.shape == flambeau.Size(shape) + d.batch_shape + d.event_shape and not x.requires_grad
        if not (name == "LKJCholesky" and k == 2):  # twelve rows of unit length to the last digit, often
            assert d.support.check(x).all()
        assert d.log_prob(x).shape == flambeau.Size(shape) + d.batch_shape
    for name in ("mean", "variance", "stddev", "mode"):
        moment = asked(lambda name=name: getattr(d, name))
        assert moment is None or moment.shape in (d.batch_shape + d.event_shape, d.batch_shape)
    entropy = asked(d.entropy)
    assert entropy is None or entropy.shape == d.batch_shape


@pytest.mark.parametrize("name, k", CASES)
def test_expand(name, k):
    d = make(name, k)
    wide = d.expand((3, 2, *d.batch_shape))
    assert type(wide) is type(d) and wide.batch_shape == (3, 2, *d.batch_shape) and wide.event_shape == d.event_shape
    x = d.sample()
    flambeau.testing.assert_close(wide.log_prob(x), d.log_prob(x).expand(wide.batch_shape))
    assert wide.sample((2,)).shape == (2, *wide.batch_shape, *d.event_shape)
    assert wide.expand((2, *wide.batch_shape)).batch_shape == (2, 3, 2, *d.batch_shape)
    assert d.batch_shape == make(name, k).batch_shape


@pytest.mark.parametrize("name, k", having("mean", "variance", without={*HEAVY, "VonMises", "Categorical"}))
def test_moments_are_those_of_samples(name, k):
    d = make(name, k)
    mean, variance = d.mean, d.variance
    n = 4000
    x = d.sample((n,)).to(flambeau.float64)
    error = (variance / n).sqrt()
    assert ((x.mean(0) - mean).abs() <= 6 * error + 1e-9).all()
    spread = (x - mean).square()
    assert ((spread.mean(0) - variance).abs() <= 8 * (spread.var(0) / n).sqrt() + 0.02 * variance + 1e-9).all()


@pytest.mark.parametrize("name, k", having("icdf", "cdf"))
def test_quantiles_invert_the_cdf(name, k):
    d = make(name, k)
    q = flambeau.full((*d.batch_shape, *d.event_shape), 0.3)
    x = d.icdf(q)
    flambeau.testing.assert_close(d.cdf(x), q)
    step = (d.icdf(q + 0.01) - d.icdf(q - 0.01)) / 100
    slope = (d.cdf(x + step) - d.cdf(x - step)) / (2 * step)
    flambeau.testing.assert_close(slope, d.log_prob(x).exp(), rtol=2e-3, atol=1e-6)


def number_cases(counted):
    """Cases whose events are numbers: of a support that is enumerated, or of densities."""
    made = [(case, make(*case)) for case in CASES]
    return [case for case, d in made if case[0] != "VonMises" and d.has_enumerate_support == counted and (
        (counted and asked(d.enumerate_support) is not None) or (not counted and not d.event_shape
        and not d.support.is_discrete))]


@pytest.mark.parametrize("name, k", number_cases(counted=True))
def test_probabilities_sum_to_one(name, k):
    d = make(name, k)
    flambeau.testing.assert_close(d.log_prob(d.enumerate_support()).exp().sum(0), flambeau.ones(d.batch_shape))


@pytest.mark.parametrize("name, k", number_cases(counted=False))
def test_densities_integrate_to_one(name, k):
    """The integral between the first and the last tenth of samples is 0.8."""
    d = make(name, k)
    x = d.sample((3000,))
    low, high = x.quantile(0.1, dim=0), x.quantile(0.9, dim=0)
    t = flambeau.linspace(0, 1, 4001).reshape(-1, *[1] * len(d.batch_shape))
    if (low > 0).all():  # over the logarithm: positive numbers may span many powers of ten
        at = low * (high / low) ** t
        density, width = d.log_prob(at).exp() * at, (high / low).log()
    else:
        density, width = d.log_prob(low + (high - low) * t).exp(), high - low
    mass = flambeau.trapezoid(density, dx=1 / 4000, dim=0) * width
    assert ((mass - 0.8).abs() < 0.04).all(), mass


@pytest.mark.parametrize("name, k", [c for c in CASES if c[0] in (
    "Poisson", "Geometric", "NegativeBinomial", "Binomial")])
def test_probabilities_of_counts_sum_to_one(name, k):
    d = make(name, k)
    top = int(d.total_count.max()) if name == "Binomial" else 3000
    n = flambeau.arange(top + 1.0).reshape(-1, *[1] * len(d.batch_shape))
    if name == "Binomial":
        n = n.minimum(d.total_count).expand(-1, *d.batch_shape)
        keep = flambeau.arange(top + 1.0).reshape(-1, *[1] * len(d.batch_shape)) <= d.total_count
        total = (d.log_prob(n).exp() * keep).sum(0)
    else:
        total = d.log_prob(n).exp().sum(0)
    flambeau.testing.assert_close(total, flambeau.ones(d.batch_shape), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("name, k", having("entropy", without={"Cauchy", "HalfCauchy"}))
def test_entropy_is_minus_the_mean_of_log_prob(name, k):
    d = make(name, k)
    entropy = d.entropy()
    n = 3000
    found = -d.log_prob(d.sample((n,)))
    assert ((found.mean(0) - entropy).abs() <= 6 * found.std(0) / math.sqrt(n) + 1e-5).all()


@pytest.mark.parametrize("name, k", [c for c in CASES if c[0] not in ("OneHotCategoricalStraightThrough",)])
def test_gradients_of_samples_and_densities(name, k):
    """E f(sample) for the samples' mean: its gradient is that of the mean."""
    made = []
    recipes = table(flambeau, flambeau.float64, made)[name][k]
    made.clear()
    d = recipes()
    if not made:  # of numbers
        assert not d.log_prob(d.sample()).requires_grad
        return
    x = d.sample()
    total = d.log_prob(x).sum()
    if total.requires_grad:
        grads = flambeau.autograd.grad(total, made, allow_unused=True, retain_graph=True)
        assert any(g is not None for g in grads)
    if d.has_rsample:
        y = d.rsample((2,))
        assert y.requires_grad and flambeau.autograd.grad(y.sum(), made, allow_unused=True)


@pytest.mark.parametrize("kind, shapes", [(D.Gamma, (1.5, 0.7)), (D.Beta, (2.0, 3.5)), (D.Normal, (0.3, 1.2)),
                                          (D.StudentT, (5.0, 0.5, 2.0)), (D.Weibull, (2.0, 1.7)),
                                          (D.Kumaraswamy, (2.0, 3.0)), (D.Laplace, (0.0, 1.0))])
def test_the_gradient_of_the_samples_mean_is_the_means(kind, shapes):
    parameters = [flambeau.tensor(s, requires_grad=True) for s in shapes]
    d = kind(*parameters)
    x = d.rsample((20000,))
    for f, moment in ((x, d.mean), (x.square(), d.variance + d.mean.square())):
        wanted = flambeau.autograd.grad(moment, parameters, allow_unused=True, retain_graph=True)
        found = flambeau.autograd.grad(f.mean(), parameters, allow_unused=True, retain_graph=True)
        for a, b in zip(found, wanted):
            assert (a or 0) == pytest.approx(float(b or 0), rel=0.1, abs=0.06)


@pytest.mark.parametrize("name, k", [c for c in CASES if c[1] == 0])
def test_pickle_and_repr(name, k):
    d = make(name, k)
    again = pickle.loads(pickle.dumps(d))
    x = d.sample()
    flambeau.testing.assert_close(again.log_prob(x), d.log_prob(x))
    assert repr(again) == repr(d) and repr(d).startswith(type(d).__name__ + "(")


def pairs():
    made = {name: [make() for make in makers[:2]] for name, makers in table(flambeau, flambeau.float64).items()}
    for a, p in made.items():
        for b, q in made.items():
            for k in range(min(len(p), len(q))):
                with warnings.catch_warnings():
                    warnings.simplefilter("error")
                    try:
                        yield a, b, p[k], q[k], D.kl_divergence(p[k], q[k])
                    except NotImplementedError:
                        pass
                    except RuntimeError:
                        continue  # shapes that do not fit together


def test_divergences():
    """Not negative, 0 from itself, and the mean of log p - log q over samples of p: all pairs there are."""
    count = 0
    for a, b, p, q, found in pairs():
        assert (found > -1e-7).all(), (a, b)
        if a == b:
            assert (found < 1e-7).all(), (a, b)
            continue
        if not found.isfinite().all():
            continue
        p, q = p.expand(found.shape), q.expand(found.shape)
        p._validate_args = q._validate_args = False
        x = p.sample((2000,))
        ratio = p.log_prob(x) - q.log_prob(x)
        error = 8 * ratio.std(0) / math.sqrt(2000)
        if (ratio.std(0) < 10).all():
            assert ((ratio.mean(0) - found).abs() <= error + 1e-3 * found + 1e-6).all(), (a, b, ratio.mean(0), found)
            count += 1
    assert count > 25
