"""Distributions and what is asked of each: the same questions to either library, answered in NumPy arrays and texts.

Runs in PyTorch's interpreter: `python distribution_cases.py FILE` writes its answers.
"""

import pickle
import sys
import warnings
from functools import partial

import numpy as np


def table(lib, dtype, made=None):
    """{name: distributions made afresh by functions}: every class, with batches, scalars, numbers and edges.

    made: a list for the tensors that a function makes, which then want gradients.
    """
    D = lib.distributions

    def t(values):
        if made is None:
            return lib.tensor(values, dtype=dtype)
        made.append(lib.tensor(values, dtype=dtype, requires_grad=True))
        return made[-1]

    rates = lambda: t([[0.3, 1.0, 2.5], [4.0, 0.8, 12.0]])
    shapes = lambda: t([[0.4, 1.0, 3.5], [7.0, 0.9, 25.0]])
    locs = lambda: t([[-1.5, 0.0, 0.7], [2.0, -0.2, 5.0]])
    probs = lambda: t([[0.1, 0.5, 0.7], [0.95, 0.3, 0.4991]])
    logits = lambda: t([-3.0, 0.0, 1.2])
    weights = lambda: t([[0.1, 0.2, 0.7], [0.5, 0.3, 0.2]])
    corner = lambda: t([[1.0, 0.0], [0.0, 1.0]])
    loc3 = lambda: t([[0.5, -1.0, 2.0], [0.0, 0.3, 1.0]])
    matrix = lambda: t([[2.0, 0.5, 0.1], [0.5, 1.5, -0.3], [0.1, -0.3, 1.0]])
    tril = lambda: t([[1.0, 0.0, 0.0], [0.4, 0.8, 0.0], [-0.2, 0.1, 1.3]])
    tall = lambda: t([[[0.5, 0.1], [-0.3, 0.7], [0.2, 0.2]], [[1.0, 0.0], [0.4, -0.6], [0.3, 0.9]]])
    two_sided = {"Laplace", "Cauchy", "Gumbel", "LogNormal", "Normal"}
    found = {}
    for name in sorted(two_sided):
        kind = getattr(D, name)
        found[name] = [lambda k=kind: k(locs(), rates()), lambda k=kind: k(0.0, 1.0), lambda k=kind: k(t([0.5]), 2.0),
                       lambda k=kind: k(t([1.0, 0.0]), t([1e-5, 1e-5]))]
    for name, params in {"Gamma": (shapes, rates), "InverseGamma": (shapes, rates), "Weibull": (rates, shapes),
                         "Pareto": (rates, shapes), "FisherSnedecor": (shapes, rates), "Beta": (shapes, rates),
                         "Kumaraswamy": (shapes, rates)}.items():
        kind, (a, b) = getattr(D, name), params
        found[name] = [lambda k=kind, a=a, b=b: k(a(), b()), lambda k=kind: k(1.5, 2.0),
                       lambda k=kind: k(t([5.0]), t([4.5]))]
    for name in ("Exponential", "Chi2", "HalfNormal", "HalfCauchy", "Poisson", "StudentT"):
        kind = getattr(D, name)
        found[name] = [lambda k=kind: k(shapes()), lambda k=kind: k(2.0), lambda k=kind: k(t([0.6]))]
    found["StudentT"].append(lambda: D.StudentT(shapes(), locs(), rates()))
    found["Poisson"].append(lambda: D.Poisson(t([0.0, 30.0])))
    for name in ("Bernoulli", "Geometric", "ContinuousBernoulli"):
        kind = getattr(D, name)
        found[name] = [lambda k=kind: k(probs()), lambda k=kind: k(logits=logits()), lambda k=kind: k(0.3)]
    found["Bernoulli"].append(lambda: D.Bernoulli(t([0.0, 1.0])))
    found["ContinuousBernoulli"].append(lambda: D.ContinuousBernoulli(t([0.1, 0.5]), lims=(0.48, 0.52)))
    found["Binomial"] = [lambda: D.Binomial(10, probs()), lambda: D.Binomial(t([10.0, 8.0, 40.0]), probs()),
                         lambda: D.Binomial(3, logits=logits()), lambda: D.Binomial(10, corner()),
                         lambda: D.Binomial(t(0.0), probs())]
    found["NegativeBinomial"] = [lambda: D.NegativeBinomial(10, probs()), lambda: D.NegativeBinomial(shapes(), probs()),
                                 lambda: D.NegativeBinomial(3, logits=logits()),
                                 lambda: D.NegativeBinomial(t(0.0), t([0.5, 0.1]))]
    for name in ("Categorical", "OneHotCategorical", "OneHotCategoricalStraightThrough"):
        kind = getattr(D, name)
        found[name] = [lambda k=kind: k(weights()), lambda k=kind: k(logits=loc3()), lambda k=kind: k(corner()),
                       lambda k=kind: k(t([1.0, 3.0]))]
    found["Multinomial"] = [lambda: D.Multinomial(10, weights()), lambda: D.Multinomial(5, logits=loc3()),
                            lambda: D.Multinomial(4, corner()), lambda: D.Multinomial(1, t([1.0, 3.0]))]
    found["Dirichlet"] = [lambda: D.Dirichlet(shapes()), lambda: D.Dirichlet(t([2.0, 5.0])),
                          lambda: D.Dirichlet(t([0.3, 0.8, 0.1]))]
    found["Uniform"] = [lambda: D.Uniform(locs(), locs() + rates()), lambda: D.Uniform(0.0, 1.0),
                        lambda: D.Uniform(t([-2.0]), 3.0)]
    found["VonMises"] = [lambda: D.VonMises(locs(), shapes()), lambda: D.VonMises(t(0.0), t(1.0)),
                         lambda: D.VonMises(t([1.0, 2.0]), t([1e-6, 50.0]))]
    found["GeneralizedPareto"] = [lambda: D.GeneralizedPareto(0.0, 1.0, 0.3), lambda: D.GeneralizedPareto(
        locs(), rates(), t([[0.4, 0.0, 1.5], [-0.5, 0.2, -1.2]]))]
    found["LogisticNormal"] = [lambda: D.LogisticNormal(locs(), rates()), lambda: D.LogisticNormal(t([0.5]), t([1.0]))]
    found["LKJCholesky"] = [lambda: D.LKJCholesky(2, 0.5), lambda: D.LKJCholesky(3, t([0.5, 1.0, 2.0])),
                            lambda: D.LKJCholesky(12, t(4.0))]
    found["MultivariateNormal"] = [
        lambda: D.MultivariateNormal(loc3(), matrix()), lambda: D.MultivariateNormal(loc3(), precision_matrix=matrix()),
        lambda: D.MultivariateNormal(t([0.0, 1.0, 2.0]), scale_tril=tril()), lambda: D.MultivariateNormal(
            loc3(), matrix() * t([1.0, 3.0]).reshape(2, 1, 1))]
    found["LowRankMultivariateNormal"] = [
        lambda: D.LowRankMultivariateNormal(loc3(), tall(), t([0.5, 1.0, 2.0])),
        lambda: D.LowRankMultivariateNormal(loc3()[0], tall()[0], t([0.5, 1.0, 2.0]))]
    found["Wishart"] = [
        lambda: D.Wishart(t(5.0), matrix()), lambda: D.Wishart(t([3.5, 8.0]), precision_matrix=matrix()),
        lambda: D.Wishart(t([4.0, 6.0]), scale_tril=tril()), lambda: D.Wishart(t([6.0]), matrix()[None])]
    found["RelaxedBernoulli"] = [lambda: D.RelaxedBernoulli(t(2.0), probs()),
                                 lambda: D.RelaxedBernoulli(t([0.8]), logits=logits())]
    relaxed = D.relaxed_bernoulli.LogitRelaxedBernoulli
    found["LogitRelaxedBernoulli"] = [lambda: relaxed(t(0.7), probs())]
    found["RelaxedOneHotCategorical"] = [lambda: D.RelaxedOneHotCategorical(t(0.5), weights()),
                                         lambda: D.RelaxedOneHotCategorical(t([2.0]), logits=loc3())]
    scores = D.relaxed_categorical.ExpRelaxedCategorical
    found["ExpRelaxedCategorical"] = [lambda: scores(t(0.7), weights())]
    found["Independent"] = [lambda n=n: D.Independent(D.Normal(locs(), rates()), n) for n in (0, 1, 2)]
    found["Independent"].append(lambda: D.Independent(D.Bernoulli(probs()), 0))
    found["MixtureSameFamily"] = [
        lambda: D.MixtureSameFamily(D.Categorical(weights()), D.Normal(locs(), rates())),
        lambda: D.MixtureSameFamily(D.Categorical(t([0.3, 0.7])), D.MultivariateNormal(loc3(), matrix())),
        lambda: D.MixtureSameFamily(D.Categorical(t([0.2, 0.3, 0.5])), D.Binomial(4, probs()))]
    T = D.transforms
    found["TransformedDistribution"] = [
        lambda: D.TransformedDistribution(D.Normal(locs(), rates()), []),
        lambda: D.TransformedDistribution(D.Normal(locs(), rates()), [T.AffineTransform(1.0, -2.0), T.ExpTransform()]),
        lambda: D.TransformedDistribution(D.Gamma(shapes(), rates()), T.PowerTransform(t(0.5))),
        lambda: D.TransformedDistribution(D.Normal(t([0.0, 1.0]), t([1.0, 1.0])), T.StickBreakingTransform()),
        lambda: D.TransformedDistribution(D.Uniform(t(0.1), t(0.9)), [T.SigmoidTransform().inv, T.TanhTransform()]),
        lambda: D.TransformedDistribution(D.Normal(t([0.0, 0.0, 1.0]), t(1.0)), T.CorrCholeskyTransform())]
    return found


# ---- answers ---------------------------------------------------------------------------------------------------------

def plain(x):
    """Tensors as arrays, constraints as texts."""
    if hasattr(x, "detach"):
        return x.detach().numpy().copy()
    if isinstance(x, (tuple, list)):
        return [plain(v) for v in x]
    return x if isinstance(x, (int, float, str)) or x is None else repr(x)


def attempt(ask):
    try:
        return plain(ask())
    except Exception as error:
        return f"raises {type(error).__name__}"


def gradients(lib, made, output):
    if not output.requires_grad:
        return "no gradient"
    weights = lib.linspace(0.5, 1.5, output.numel(), dtype=output.dtype).reshape(output.shape)
    total = (output * weights).sum()
    found = lib.autograd.grad(total, made, allow_unused=True, retain_graph=True)
    return [None if g is None else plain(g) for g in found]


def answers(lib, make, differentiable, samples=None):
    """{question: answer}. differentiable: makes (the distribution, tensors it depends on).

    samples: where to ask for densities; its own, if not given.
    """
    warnings.simplefilter("ignore")
    d, found = make(), {}
    for name in ("batch_shape", "event_shape", "has_rsample", "has_enumerate_support", "mean", "mode", "variance",
                 "stddev", "support", "arg_constraints"):
        found[name] = attempt(lambda name=name: getattr(d, name))
    found["entropy"], found["perplexity"], found["repr"] = (
        attempt(d.entropy), attempt(d.perplexity), repr(d).replace("flambeau", "torch"))
    for question, shape in (("sample", ()), ("samples", (4, 3))):
        lib.manual_seed(0)
        found[question] = attempt(lambda shape=shape: d.sample(shape))
    lib.manual_seed(0)
    found["rsample"] = attempt(lambda: d.rsample((3,)))
    found["state after"] = plain(lib.rand(2))
    at = found["samples"] if samples is None else samples
    if not isinstance(at, np.ndarray):
        return found
    x = lib.from_numpy(at.copy())
    found["log_prob"], found["cdf"] = attempt(lambda: d.log_prob(x)), attempt(lambda: d.cdf(x))
    ones = lib.ones(d.batch_shape + d.event_shape, dtype=lib.float32 if not x.is_floating_point() else x.dtype)
    found["icdf"] = attempt(lambda: lib.stack([d.icdf(q * ones) for q in (0.1, 0.5, 0.83)]))
    found["enumerate_support"] = attempt(d.enumerate_support)
    found["enumerate_support, not expanded"] = attempt(lambda: d.enumerate_support(False))
    wide = d.expand((3, 2, *d.batch_shape))
    found["expanded"] = [attempt(lambda: wide.mean), attempt(lambda: wide.variance), attempt(wide.entropy),
                         list(wide.batch_shape)]
    found["log_prob, expanded"] = attempt(lambda: wide.log_prob(x[:1, :1]))
    found["wrong values"] = [attempt(lambda: d.log_prob(x * lib.nan)), attempt(lambda: d.log_prob(x[..., None, None])),
                             attempt(lambda: d.log_prob("a"))]
    found |= differentiated(lib, differentiable, at)
    return found


def differentiated(lib, differentiable, at):
    found = {}
    d, made = differentiable()
    x = lib.from_numpy(at.copy())
    if x.is_floating_point():
        x.requires_grad_()
    for name, ask in (("log_prob", lambda: d.log_prob(x)), ("entropy", d.entropy), ("mean", lambda: d.mean),
                      ("variance", lambda: d.variance)):
        inputs = [*made, x] if name == "log_prob" and x.requires_grad else made
        found[f"gradient of {name}"] = attempt_raw(lambda ask=ask, inputs=inputs: gradients(lib, inputs, ask()))
    if d.has_rsample:
        lib.manual_seed(0)
        found["gradient of rsample"] = attempt_raw(lambda: gradients(lib, made, d.rsample((3,))))
    return found


def attempt_raw(ask):
    try:
        return ask()
    except Exception as error:
        return f"raises {type(error).__name__}"


def divergences(lib, dtype):
    """{"P | Q": answer} of all pairs of the table."""
    warnings.simplefilter("ignore")
    made = {name: [make() for make in makers] for name, makers in table(lib, dtype).items()}
    found = {}
    for a, p in made.items():
        for b, q in made.items():
            for k in range(min(2, len(p), len(q))):
                found[f"{a} {k} | {b}"] = attempt(partial(lib.distributions.kl_divergence, p[k], q[k]))
            if a == b and len(p) > 1:
                found[f"{a} 0 | {b} 1"] = attempt(partial(lib.distributions.kl_divergence, p[0], q[1]))
    return found


def all_answers(lib, theirs=None):
    """{(name, number, dtype): {question: answer}}; theirs: PyTorch's, whose samples are asked about."""
    found = {}
    for dtype in ("float32", "float64"):
        before = lib.get_default_dtype()
        lib.set_default_dtype(getattr(lib, dtype))
        try:
            made = []
            with_gradients = table(lib, getattr(lib, dtype), made)

            def differentiable(name, k, made=made, with_gradients=with_gradients):
                made.clear()
                return with_gradients[name][k](), list(made)

            for name, makers in table(lib, getattr(lib, dtype)).items():
                for k, make in enumerate(makers):
                    known = theirs[name, k, dtype].get("samples") if theirs else None
                    found[name, k, dtype] = answers(lib, make, partial(differentiable, name, k), known)
            found["kl_divergence", 0, dtype] = divergences(lib, getattr(lib, dtype))
        finally:
            lib.set_default_dtype(before)
    return found


if __name__ == "__main__":
    import torch

    with open(sys.argv[1], "wb") as file:
        pickle.dump(all_answers(torch), file)
