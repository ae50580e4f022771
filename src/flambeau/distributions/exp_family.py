"""Exponential families: entropy and Kullback-Leibler divergence follow from the log normalizer's derivative."""

import flambeau

from .distribution import Distribution


class ExponentialFamily(Distribution):
    """log p(x) = <t(x), theta> - A(theta) + k(x), with natural parameters theta and log normalizer A.

    >>> flambeau.distributions.ExponentialFamily.entropy(flambeau.distributions.Exponential(1.0))
    tensor(1.)
    """

    @property
    def _natural_params(self):
        """The tuple theta."""
        raise self._missing("natural parameters")

    def _log_normalizer(self, *natural_params):
        """A(theta)"""
        raise self._missing("log normalizer")

    @property
    def _mean_carrier_measure(self):
        """The expectation of k(x)."""
        raise self._missing("mean carrier measure")

    def _expected_statistics(self):
        """(A(theta), theta, E t(x)): the expectation of the statistics is the derivative of A."""
        keep = flambeau.is_grad_enabled()
        with flambeau.enable_grad():
            theta = [p if keep and p.requires_grad else p.detach().requires_grad_() for p in self._natural_params]
            normalizer = self._log_normalizer(*theta)
            expected = flambeau.autograd.grad(normalizer.sum(), theta, create_graph=keep)
        return normalizer, theta, expected

    def entropy(self):
        """A(theta) - <E t(x), theta> - E k(x)"""
        normalizer, theta, expected = self._expected_statistics()
        result = normalizer - self._mean_carrier_measure
        for t, mean in zip(theta, expected, strict=True):
            result = result - (t * mean).reshape(*self._batch_shape, -1).sum(-1)
        return result if any(p.requires_grad for p in self._natural_params) else result.detach()
