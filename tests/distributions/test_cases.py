"""Named cases of distributions: validation, SciPy's values, gradients, subclasses, registries, module paths."""

import importlib
import subprocess
import sys

import numpy as np
import pytest
from scipy import special, stats

import flambeau
from flambeau import distributions as D
from flambeau.distributions import constraints, transforms

# --- what mistakes say ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("make, words", [
    (lambda: D.Normal(0.0, -1.0), ["Normal", "scale", "GreaterThan(lower_bound=0.0)", "-1.0"]),
    (lambda: D.Gamma(flambeau.tensor([1.0, -2.0]), 1.0), ["Gamma", "concentration", "-2.0", "[1]", "1 of 2"]),
    (lambda: D.Uniform(1.0, 0.0), ["Uniform", "low", "LessThan", "1.0"]),
    (lambda: D.Categorical(flambeau.tensor([[0.5, 0.5], [-0.5, 1.5]])), ["Categorical", "probs", "Simplex", "-0.5"]),
    (lambda: D.MultivariateNormal(flambeau.zeros(2), -flambeau.eye(2)), ["covariance_matrix", "PositiveDefinite"]),
    (lambda: D.Wishart(flambeau.tensor(1.5), flambeau.eye(3)), ["Wishart", "df", "greater than 2", "1.5"]),
    (lambda: D.Geometric(0.0), ["Geometric", "probs", "0.0"]),
    (lambda: D.Bernoulli(), ["probs", "logits", "none"]),
    (lambda: D.Bernoulli(0.3, logits=0.1), ["probs and logits"]),
    (lambda: D.LKJCholesky(1), ["dim", "1"]),
    (lambda: D.Normal("a", 1.0), ["number or a tensor", "'a'"]),
    (lambda: D.Independent(D.Normal(0.0, 1.0), 1), ["0 batch dimensions", "1"]),
    (lambda: D.MixtureSameFamily(D.Categorical(flambeau.ones(3)), D.Normal(flambeau.zeros(2), 1.0)), ["3", "2"]),
    (lambda: D.Normal(0.0, 1.0).log_prob(flambeau.tensor([0.0, flambeau.nan])), ["Normal", "Real()", "nan", "[1]"]),
    (lambda: D.Normal(flambeau.zeros(2), 1.0).log_prob(flambeau.zeros(3)), ["[3]", "[2]"]),
    (lambda: D.Dirichlet(flambeau.ones(2)).log_prob(flambeau.ones(3) / 3), ["event", "[2]", "[3]"]),
    (lambda: D.Binomial(3, flambeau.tensor(0.5)).log_prob(flambeau.tensor(4.0)), ["IntegerInterval", "4.0"]),
    (lambda: D.Normal(0.0, 1.0).log_prob(0.5), ["tensor", "0.5"]),
    (lambda: transforms.ExpTransform(cache_size=2), ["cache_size", "2"]),
    (lambda: D.Distribution.set_default_validate_args(3), ["True or False", "3"]),
])
def test_a_mistake_is_named(make, words):
    with pytest.raises(ValueError) as caught:
        make()
    for word in words:
        assert word in str(caught.value)


@pytest.mark.parametrize("ask", [
    lambda: D.Bernoulli(0.3).rsample(), lambda: D.StudentT(3.0).cdf(flambeau.tensor(0.1)),
    lambda: D.Multinomial(2.0, flambeau.ones(2)), lambda: D.kl_divergence(D.Normal(0.0, 1.0), D.StudentT(3.0)),
    lambda: D.Binomial(flambeau.tensor([1.0, 2.0]), flambeau.tensor([0.5, 0.5])).enumerate_support(),
    lambda: D.biject_to(constraints.lower_cholesky), lambda: transforms.AbsTransform().sign])
def test_what_is_not_there_says_so(ask):
    with pytest.raises(NotImplementedError, match=r"\w+ \w+"):
        ask()


def test_validation_can_be_turned_off():
    assert D.Normal(0.0, -1.0, validate_args=False).log_prob("a" and flambeau.tensor(0.0)).isnan()
    D.Distribution.set_default_validate_args(False)
    try:
        D.Normal(0.0, -1.0)
    finally:
        D.Distribution.set_default_validate_args(True)


def test_a_sample_number_is_deprecated():
    with pytest.warns(FutureWarning, match="sample"):
        assert D.Normal(0.0, 1.0).sample_n(3).shape == (3,)


# --- SciPy ------------------------------------------------------------------------------------------------------------

X = np.array([0.07, 0.4, 0.93])
SCIPY = {
    "Normal": (D.Normal(0.3, 1.2), stats.norm(0.3, 1.2)), "Laplace": (D.Laplace(0.1, 2.0), stats.laplace(0.1, 2.0)),
    "Cauchy": (D.Cauchy(0.1, 2.0), stats.cauchy(0.1, 2.0)), "Uniform": (D.Uniform(0.0, 2.0), stats.uniform(0.0, 2.0)),
    "Gumbel": (D.Gumbel(0.1, 2.0), stats.gumbel_r(0.1, 2.0)), "StudentT": (D.StudentT(3.5, 0.1, 2.0),
                                                                          stats.t(3.5, 0.1, 2.0)),
    "Exponential": (D.Exponential(2.0), stats.expon(scale=0.5)),
    "Gamma": (D.Gamma(2.5, 2.0), stats.gamma(2.5, scale=0.5)),
    "Chi2": (D.Chi2(3.0), stats.chi2(3.0)), "InverseGamma": (D.InverseGamma(3.5, 2.0), stats.invgamma(3.5, scale=2.0)),
    "FisherSnedecor": (D.FisherSnedecor(3.0, 6.0), stats.f(3.0, 6.0)),
    "HalfNormal": (D.HalfNormal(2.0), stats.halfnorm(scale=2.0)),
    "HalfCauchy": (D.HalfCauchy(2.0), stats.halfcauchy(scale=2.0)),
    "LogNormal": (D.LogNormal(0.3, 0.7), stats.lognorm(0.7, scale=np.exp(0.3))),
    "Weibull": (D.Weibull(2.0, 1.5), stats.weibull_min(1.5, scale=2.0)),
    "Pareto": (D.Pareto(0.05, 3.0), stats.pareto(3.0, scale=0.05)),
    "GeneralizedPareto": (D.GeneralizedPareto(0.0, 2.0, 0.2), stats.genpareto(0.2, scale=2.0)),
    "Beta": (D.Beta(2.0, 3.0), stats.beta(2.0, 3.0)),
    "VonMises": (D.VonMises(flambeau.tensor(0.1), flambeau.tensor(2.0)), stats.vonmises(2.0, 0.1)),
}


@pytest.mark.parametrize("name", SCIPY)
def test_scipy(name):
    mine, theirs = SCIPY[name]
    x = flambeau.from_numpy(X).float()
    np.testing.assert_allclose(mine.log_prob(x), theirs.logpdf(X), rtol=2e-4, atol=2e-5)
    for question, value in (("cdf", X), ("icdf", X)):
        try:
            found = getattr(mine, question)(x)
        except NotImplementedError:
            continue
        np.testing.assert_allclose(found, theirs.cdf(value) if question == "cdf" else theirs.ppf(value), rtol=2e-4,
                                   atol=2e-5)
    if name not in ("Cauchy", "HalfCauchy", "VonMises"):
        np.testing.assert_allclose(mine.mean, theirs.mean(), rtol=1e-4)
        np.testing.assert_allclose(mine.variance, theirs.var(), rtol=1e-4)
    if name not in ("VonMises", "FisherSnedecor"):
        np.testing.assert_allclose(mine.entropy(), theirs.entropy(), rtol=1e-4, atol=1e-5)


def test_scipy_of_vectors_and_matrices():
    v = np.array([[2.0, 0.5], [0.5, 1.0]])
    x = np.array([[1.0, 2.0], [0.1, -0.3]])
    V, xs = flambeau.from_numpy(v), flambeau.from_numpy(x)
    zero = flambeau.zeros(2, dtype=flambeau.float64)
    np.testing.assert_allclose(D.MultivariateNormal(zero, V).log_prob(xs), stats.multivariate_normal(None, v).logpdf(x))
    low = D.LowRankMultivariateNormal(zero, flambeau.tensor([[0.3], [0.7]], dtype=flambeau.float64),
                                      flambeau.tensor([0.5, 1.0], dtype=flambeau.float64))
    np.testing.assert_allclose(low.log_prob(xs), stats.multivariate_normal(None, low.covariance_matrix).logpdf(x))
    wishart = D.Wishart(flambeau.tensor(4.0, dtype=flambeau.float64), V)
    np.testing.assert_allclose(wishart.log_prob(V), stats.wishart(4.0, v).logpdf(v))
    np.testing.assert_allclose(wishart.entropy(), stats.wishart(4.0, v).entropy())
    shares, a = np.array([0.2, 0.5, 0.3]), np.array([0.5, 2.0, 4.0])
    np.testing.assert_allclose(D.Dirichlet(flambeau.from_numpy(a)).log_prob(flambeau.from_numpy(shares)),
                               stats.dirichlet(a).logpdf(shares))


@pytest.mark.parametrize("given", ["covariance_matrix", "precision_matrix", "scale_tril"])
def test_the_three_forms_of_a_covariance_agree(given):
    v = flambeau.tensor([[2.0, 0.5], [0.5, 1.0]], dtype=flambeau.float64)
    forms = {"covariance_matrix": v, "precision_matrix": v.inverse(), "scale_tril": flambeau.linalg.cholesky(v)}
    d = D.MultivariateNormal(flambeau.zeros(2, dtype=flambeau.float64), **{given: forms[given]})
    for name, value in forms.items():
        flambeau.testing.assert_close(getattr(d, name), value)


def test_the_gradient_of_shares_is_that_of_the_incomplete_beta_function():
    rng = np.random.default_rng(0)
    x, a, b = rng.uniform(0.02, 0.98, 300), *np.exp(rng.normal(0, 1.2, (2, 300)))
    found = flambeau._dirichlet_grad(*map(flambeau.from_numpy, (x, a, a + b))).numpy()
    h = 1e-5 * a
    fall = (special.betainc(a - h, b, x) - special.betainc(a + h, b, x)) / (2 * h)
    wanted = fall / stats.beta.pdf(x, a, b) / (1 - x)
    inside = np.abs(stats.beta.cdf(x, a, b) - 0.5) < 0.499
    np.testing.assert_allclose(found[inside], wanted[inside], rtol=1e-6, atol=1e-8)


def test_exponential_families_agree_with_their_closed_forms():
    for d in (D.Normal(0.3, 2.0), D.Gamma(2.0, 3.0), D.Beta(2.0, 3.0), D.Bernoulli(0.3), D.Exponential(2.0),
              D.Dirichlet(flambeau.tensor([1.0, 2.0])), D.ContinuousBernoulli(0.3),
              D.Wishart(flambeau.tensor(4.0), flambeau.eye(2))):
        if not isinstance(d, (D.Beta, D.Dirichlet)):  # whose carrier is not 1
            flambeau.testing.assert_close(D.ExponentialFamily.entropy(d), d.entropy(), rtol=1e-4, atol=1e-4)


# --- edges ------------------------------------------------------------------------------------------------------------

def test_edges():
    inf = flambeau.inf
    assert D.Bernoulli(flambeau.tensor([0.0, 1.0])).entropy().abs().max() < 1e-5
    assert D.Binomial(5, flambeau.tensor(1.0)).log_prob(flambeau.tensor(5.0)).abs() < 1e-5
    assert D.Geometric(flambeau.tensor(1.0)).log_prob(flambeau.tensor(0.0)) == 0
    assert D.Poisson(flambeau.tensor(0.0)).log_prob(flambeau.tensor(0.0)) == 0
    assert D.Uniform(0.0, 1.0, validate_args=False).log_prob(flambeau.tensor(2.0)) == -inf
    assert D.HalfNormal(1.0, validate_args=False).log_prob(flambeau.tensor(-1.0)) == -inf
    assert D.InverseGamma(0.5, 1.0).mean == inf and D.Pareto(1.0, 0.5).mean == inf
    assert D.Multinomial(2, flambeau.tensor([1.0, 0.0])).log_prob(flambeau.tensor([2.0, 0.0])).abs() < 1e-5
    assert D.kl_divergence(D.Uniform(0.0, 2.0), D.Uniform(0.0, 1.0)) == inf
    assert D.kl_divergence(D.Normal(0.0, 1.0), D.Beta(1.0, 1.0)) == inf


def test_extreme_logits_of_a_continuous_bernoulli():
    for logits in (-1e9, 1e9):
        d = D.ContinuousBernoulli(logits=flambeau.tensor([logits]))
        assert d.log_prob(flambeau.tensor([float(logits > 0)])).isfinite().all()


def test_modes_where_pytorch_has_none():
    flambeau.testing.assert_close(D.Kumaraswamy(2.0, 3.0).mode, flambeau.tensor(5 ** -0.5))
    assert D.Dirichlet(flambeau.tensor([0.3, 0.8])).mode.tolist() == [0, 1]


def test_divergence_of_batches_of_matrices():
    p, q = D.Wishart(flambeau.tensor(5.0), flambeau.eye(2)), D.Wishart(flambeau.tensor([4.0, 6.0]), 2 * flambeau.eye(2))
    both = D.kl_divergence(p, q)
    for k, df in enumerate((4.0, 6.0)):
        flambeau.testing.assert_close(both[k], D.kl_divergence(p, D.Wishart(flambeau.tensor(df), 2 * flambeau.eye(2))))


def test_a_subclass_with_its_own_init_expands():
    class Shifted(D.Normal):
        def __init__(self, shift):
            self.shift = shift
            super().__init__(flambeau.tensor(float(shift)), 1.0)

    wide = Shifted(2).expand((3,))
    assert type(wide) is Shifted and wide.shift == 2 and wide.loc.tolist() == [2, 2, 2]


def test_a_subclass_in_pytorchs_form_expands():
    class Mine(D.Distribution):
        arg_constraints = {"loc": constraints.real}

        def __init__(self, loc, validate_args=None):
            self.loc = loc
            super().__init__(loc.shape, validate_args=validate_args)

        def expand(self, batch_shape, _instance=None):
            new = self._get_checked_instance(Mine, _instance)
            new.loc = self.loc.expand(batch_shape)
            super(Mine, new).__init__(flambeau.Size(batch_shape), validate_args=False)
            return new

    assert Mine(flambeau.zeros(())).expand((2,)).batch_shape == (2,)


def test_an_ambiguous_divergence_warns():
    class A(D.Normal):
        pass

    class B(D.Normal):
        pass

    D.register_kl(A, D.Normal)(lambda p, q: 1)
    D.register_kl(D.Normal, B)(lambda p, q: 2)
    try:
        with pytest.warns(RuntimeWarning, match="ambiguous"):
            assert D.kl_divergence(A(0.0, 1.0), B(0.0, 1.0)) == 1
    finally:
        for pair in ((A, D.Normal), (D.Normal, B)):
            del D.kl._KL_REGISTRY[pair]
        D.kl._KL_MEMOIZE.clear()


def test_a_divergence_from_a_base_of_a_librarys_own():
    """Pyro's distributions have a base beside PyTorch's, for which it registers one."""
    class Base:
        pass

    class Mine(D.Distribution, Base):
        arg_constraints = {}

    D.register_kl(D.Normal, Base)(lambda p, q: "found")
    try:
        assert D.kl_divergence(D.Normal(0.0, 1.0), Mine()) == "found"
    finally:
        del D.kl._KL_REGISTRY[D.Normal, Base]
        D.kl._KL_MEMOIZE.clear()
    with pytest.raises(TypeError, match="must be a class"):
        D.register_kl(D.Normal, 3)


def test_a_subclass_with_parameters_of_its_own_is_expanded():
    """Pyro's OrderedLogistic names its own parameters, and those of Categorical follow."""
    class Ordered(D.Categorical):
        arg_constraints = {"cut": constraints.real}

        def __init__(self, cut):
            self.cut = cut
            super().__init__(probs=flambeau.stack([cut.sigmoid(), 1 - cut.sigmoid()], -1))

        def expand(self, batch_shape, _instance=None):
            return super().expand(batch_shape, self._get_checked_instance(Ordered, _instance))

    wide = Ordered(flambeau.tensor([0.0])).expand((3, 1))
    assert wide.sample().shape == wide.cut.shape == (3, 1) and wide.probs.shape == (3, 1, 2)


def test_an_attribute_is_computed_once_whatever_setattr_asks():
    """gpytorch's priors look in __setattr__ whether there is such an attribute."""
    class Prior(D.LKJCholesky):
        def __setattr__(self, name, value):
            if not hasattr(self, name) or name != "concentration":
                super().__setattr__(name, value)

    assert Prior(2, 0.5).log_prob(flambeau.eye(2)) == D.LKJCholesky(2, 0.5).log_prob(flambeau.eye(2))


@pytest.mark.parametrize("name", sorted(D._MODULES))
def test_pytorchs_module_paths(name):
    module = importlib.import_module(f"flambeau.distributions.{name}")
    assert module is getattr(D, name)
    for one in module.__all__:
        assert getattr(module, one).__name__ == one


def test_import_does_not_load_distributions():
    program = "import flambeau, sys; print([m for m in sys.modules if m.startswith('flambeau.distributions')])"
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_one_value_outside_of_the_support_of_a_batch():
    for wrong in (D.Binomial(3, flambeau.ones(2) / 2), D.Uniform(flambeau.zeros(2), flambeau.ones(2)),
                  D.Gamma(flambeau.ones(2, 3), 1.0)):
        for value in (flambeau.tensor(-2.0), -flambeau.ones(wrong.batch_shape)):
            with pytest.raises(ValueError, match="must lie in the support"):
                wrong.log_prob(value)


def test_parameters_are_not_looked_at_in_a_compiled_function_unless_asked():
    def log_prob(scale):
        return flambeau.distributions.Normal(flambeau.zeros(3), scale).log_prob(flambeau.ones(3))

    whole = flambeau.compile(log_prob, fullgraph=True)
    assert flambeau.equal(whole(flambeau.ones(3)), log_prob(flambeau.ones(3)))
    assert whole(-flambeau.ones(3)).isnan().all()
    with pytest.raises(RuntimeError, match="a value is asked for"):
        flambeau.compile(lambda s: flambeau.distributions.Normal(0.0, s, validate_args=True), fullgraph=True)(
            flambeau.ones(3))
