"""Cumulative sums, products, extremes and log-sum-exps along one dimension."""

from ._restore import summed_along
from .kinds import differentiated, primitive
from .masks import where


def reverse_cumsum(g, dim):
    """Sums from each element to the end."""
    return g.flip((dim,)).cumsum(dim) if g.ndim == 0 else g.flip((dim,)).cumsum(dim).flip((dim,))


_cumprod_backward = primitive(
    "_cumprod_backward(Tensor grad, Tensor self, Tensor result, int dim) -> Tensor", namespace=None, d={},
    skip="a derivative; reached through cumprod",
    doc="From the last element on, the sum of what later products owe to each: the gradient of cumprod.")


def _cumprod_gradient(g, self, result, dim):
    """sum over j >= i of g_j result_j / x_i; behind the first zero nothing counts, at it the product of the others."""
    if self.ndim == 0:
        return g
    if not differentiated(g, self) and self.shape[dim]:
        once = _cumprod_gradient_once if self.is_cuda else _cumprod_backward
        return once(g, self.to(result.dtype), result, dim)
    zeros = (self == 0).cumsum(dim)
    first = (self == 0) & (zeros == 1)
    before = reverse_cumsum(g * result.conj(), dim) / self.conj().masked_fill(zeros > 0, 1)
    at = reverse_cumsum(g * self.masked_fill(first, 1).cumprod(dim).conj(), dim)
    return before * (zeros == 0) + at * first


def _cumprod_gradient_once(g, self, result, dim):
    """The same in fewer walks, where nobody differentiates it: the first zero's share is one number for each row."""
    zero = self == 0
    there, first = zero.any(dim, True), zero.byte().argmax(dim, True)
    others = self.scatter(dim, first, where(there, 1, self.gather(dim, first))).cumprod(dim)
    share = where(result == 0, g * others.conj(), 0).sum(dim, True)  # from the first zero on
    before = (reverse_cumsum(g * result.conj(), dim) / self.conj()).masked_fill(zero, 0)
    return before.scatter_(dim, first, where(there, share, before.gather(dim, first)))


def _logcumsumexp_gradient(g, self, result, dim):
    """sum over j >= i of g_j exp(x_i - result_j), in logarithms: the terms may be far apart in size."""
    if self.numel() == 0:
        return g

    def share(log_g):
        backwards = (log_g - result).flip((dim,)) if self.ndim else log_g - result
        later = backwards.logcumsumexp(dim)
        return ((later.flip((dim,)) if self.ndim else later) + self).exp()

    if self.is_complex():
        return share(g.conj().log()).conj()
    least = -1e4  # its exponential is zero
    return (share(where(g > 0, g.masked_fill(g <= 0, 1).log(), least))
            - share(where(g < 0, (-g).masked_fill(g >= 0, 1).log(), least)))


primitive("cumsum(Tensor self, int dim, *, dtype? dtype=None) -> Tensor", out=True, inplace=True,
          samples="along_distinct", ref="numpy.cumsum",
          d={"self": lambda g, dim: reverse_cumsum(g, dim)},
          doc="""Running sums along `dim`; integers in int64.

    >>> flambeau.tensor([1, 2, 3]).cumsum(0)
    tensor([1, 3, 6])
    """)
primitive("cumprod(Tensor self, int dim, *, dtype? dtype=None) -> Tensor", out=True, inplace=True,
          samples="along_distinct", ref="numpy.cumprod",
          d={"self": lambda g, self, result, dim: _cumprod_gradient(g, self, result, dim)},
          doc="""Running products along `dim`; integers in int64.

    >>> flambeau.tensor([1, 2, 3]).cumprod(0)
    tensor([1, 2, 6])
    """)
primitive("logcumsumexp(Tensor self, int dim) -> Tensor", out=True, dtypes="float",
          d={"self": lambda g, self, result, dim: _logcumsumexp_gradient(g, self, result, dim)},
          doc="Logarithms of running sums of exponentials along `dim`, without overflow.")
primitive("cummax(Tensor self, int dim) -> (Tensor values, Tensor indices)", out=True,
          d={"self": lambda g0, result1, self_shape, dim: summed_along(g0, result1, self_shape, dim)},
          doc="""Running maxima along `dim` and where they are (the latest of equal ones).

    >>> flambeau.tensor([1, 3, 2]).cummax(0).values
    tensor([1, 3, 3])
    """)
primitive("cummin(Tensor self, int dim) -> (Tensor values, Tensor indices)", out=True,
          d={"self": lambda g0, result1, self_shape, dim: summed_along(g0, result1, self_shape, dim)},
          doc="Running minima along `dim` and where they are (the latest of equal ones).")
