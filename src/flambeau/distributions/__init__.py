"""distributions: probability distributions with densities, samples, moments and divergences, and maps between supports.

>>> import flambeau
>>> from flambeau.distributions import Normal
>>> _ = flambeau.manual_seed(0)
>>> Normal(flambeau.zeros(2), 1.0).sample()
tensor([ 1.5410, -0.2934])
"""

import sys as _sys
import types as _types

from . import constraints as constraints
from . import transforms as transforms
from .bounded import Beta, ContinuousBernoulli, Dirichlet, Kumaraswamy, LogisticNormal
from .categories import Categorical, Multinomial, OneHotCategorical, OneHotCategoricalStraightThrough
from .constraint_registry import biject_to, transform_to
from .counts import Bernoulli, Binomial, Geometric, NegativeBinomial, Poisson
from .distribution import Distribution
from .exp_family import ExponentialFamily
from .gaussian import LowRankMultivariateNormal, MultivariateNormal
from .independent import Independent
from .kl import kl_divergence, register_kl
from .location_scale import Cauchy, Gumbel, Laplace, Normal, Uniform, VonMises
from .matrices import LKJCholesky, Wishart
from .mixture_same_family import MixtureSameFamily
from .positive import (
    Chi2,
    Exponential,
    FisherSnedecor,
    Gamma,
    GeneralizedPareto,
    HalfCauchy,
    HalfNormal,
    InverseGamma,
    LogNormal,
    Pareto,
    StudentT,
    Weibull,
)
from .relaxed import ExpRelaxedCategorical, LogitRelaxedBernoulli, RelaxedBernoulli, RelaxedOneHotCategorical
from .transformed_distribution import TransformedDistribution
from .transforms import *  # noqa: F403

__all__ = ["Bernoulli", "Beta", "Binomial", "Categorical", "Cauchy", "Chi2", "ContinuousBernoulli", "Dirichlet",
           "Distribution", "Exponential", "ExponentialFamily", "FisherSnedecor", "Gamma", "GeneralizedPareto",
           "Geometric", "Gumbel", "HalfCauchy", "HalfNormal", "Independent", "InverseGamma", "Kumaraswamy",
           "LKJCholesky", "Laplace", "LogNormal", "LogisticNormal", "LowRankMultivariateNormal", "MixtureSameFamily",
           "Multinomial", "MultivariateNormal", "NegativeBinomial", "Normal", "OneHotCategorical",
           "OneHotCategoricalStraightThrough", "Pareto", "Poisson", "RelaxedBernoulli", "RelaxedOneHotCategorical",
           "StudentT", "TransformedDistribution", "Uniform", "VonMises", "Weibull", "Wishart", "biject_to",
           "kl_divergence", "register_kl", "transform_to"]  # fmt: skip
__all__ += transforms.__all__

#: PyTorch's modules of one or two classes -> the classes; here they live in files by kind. What all of PyTorch's
#: import, and programs take from them, is there as well
_MODULES = {
    "bernoulli": "Bernoulli", "beta": "Beta", "binomial": "Binomial", "categorical": "Categorical", "cauchy": "Cauchy",
    "chi2": "Chi2", "continuous_bernoulli": "ContinuousBernoulli", "dirichlet": "Dirichlet",
    "exponential": "Exponential", "fishersnedecor": "FisherSnedecor", "gamma": "Gamma",
    "generalized_pareto": "GeneralizedPareto", "geometric": "Geometric", "gumbel": "Gumbel",
    "half_cauchy": "HalfCauchy", "half_normal": "HalfNormal", "inverse_gamma": "InverseGamma",
    "kumaraswamy": "Kumaraswamy", "laplace": "Laplace", "lkj_cholesky": "LKJCholesky", "log_normal": "LogNormal",
    "logistic_normal": "LogisticNormal", "lowrank_multivariate_normal": "LowRankMultivariateNormal",
    "multinomial": "Multinomial", "multivariate_normal": "MultivariateNormal",
    "negative_binomial": "NegativeBinomial", "normal": "Normal",
    "one_hot_categorical": "OneHotCategorical OneHotCategoricalStraightThrough", "pareto": "Pareto",
    "poisson": "Poisson", "relaxed_bernoulli": "RelaxedBernoulli LogitRelaxedBernoulli",
    "relaxed_categorical": "RelaxedOneHotCategorical ExpRelaxedCategorical", "studentT": "StudentT",
    "uniform": "Uniform", "von_mises": "VonMises", "weibull": "Weibull", "wishart": "Wishart",
}


def _make_modules():
    for name, classes in _MODULES.items():
        module = _types.ModuleType(f"{__name__}.{name}", f"Another name for {' and '.join(classes.split())}.")
        module.__all__ = classes.split()
        module.__dict__.update({c: globals()[c] for c in ("Distribution", "constraints", *module.__all__)})
        _sys.modules[module.__name__] = globals()[name] = module


_make_modules()
