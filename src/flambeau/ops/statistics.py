"""Moments and order: variance, standard deviation, covariance, medians, quantiles."""

from math import inf

from .. import _C
from .._shown import shown
from ._restore import placed, reduced_count, restore, shared_with_nan, total
from .dims import wrap_dim
from .kinds import OPS, composite, overloads, plain, reduction


def _variance_gradient(g, self, dim, correction, keepdim):
    """d var / d x = 2 (x - mean) / (n - correction)."""
    n = reduced_count(self.shape, dim)
    correction = 1 if correction is None else correction
    centred = self - self.mean(dim, True)
    return restore(g, self.shape, dim, keepdim) * (2 / (n - correction) if n > correction else inf) * centred


def _deviation_gradient(g, self, result, dim, correction, keepdim):
    g = (g / (2 * result)).masked_fill(result == 0, 0)
    return _variance_gradient(g, self, dim, correction, keepdim)


def _mean_gradient(g, self, dim, keepdim):
    return (restore(g, self.shape, dim, keepdim) / reduced_count(self.shape, dim)).expand(self.shape)


_PAIR = "a kernel behind the function of that name, which also takes PyTorch's older arguments"

_var = reduction("var.correction(Tensor self, int[]? dim=None, Scalar? correction=None, bool keepdim=False) -> Tensor",
                 d={"self": lambda g, self, dim, correction, keepdim:
                    _variance_gradient(g, self, dim, correction, keepdim)}, namespace=None, skip=_PAIR,
                 doc="Variance over `dim`, divided by n - correction.")
_std = reduction("std.correction(Tensor self, int[]? dim=None, Scalar? correction=None, bool keepdim=False) -> Tensor",
                 d={"self": lambda g, self, result, dim, correction, keepdim:
                    _deviation_gradient(g, self, result, dim, correction, keepdim)}, namespace=None, skip=_PAIR,
                 doc="Standard deviation over `dim`, divided by n - correction.")
_var_mean = reduction("var_mean.correction(Tensor self, int[]? dim=None, Scalar? correction=None, bool keepdim=False)"
                      " -> (Tensor, Tensor)",
                      d={"self": lambda g0, g1, self, dim, correction, keepdim: total(
                          None if g0 is None else _variance_gradient(g0, self, dim, correction, keepdim),
                          None if g1 is None else _mean_gradient(g1, self, dim, keepdim))}, namespace=None, skip=_PAIR,
                      doc="Variance and mean over `dim` in one pass.")
_std_mean = reduction("std_mean.correction(Tensor self, int[]? dim=None, Scalar? correction=None, bool keepdim=False)"
                      " -> (Tensor, Tensor)",
                      d={"self": lambda g0, g1, self, result0, dim, correction, keepdim: total(
                          None if g0 is None else _deviation_gradient(g0, self, result0, dim, correction, keepdim),
                          None if g1 is None else _mean_gradient(g1, self, dim, keepdim))}, namespace=None, skip=_PAIR,
                      doc="Standard deviation and mean over `dim` in one pass.")


def _moments(op, self, dim, unbiased, keepdim, correction):
    """Calls `op` with PyTorch's older arguments understood: var(unbiased), var(dim, unbiased, keepdim)."""
    if isinstance(dim, bool):
        dim, unbiased = None, dim
    name = op.name.partition(".")[0]
    if unbiased is not None:
        if correction is not None:
            raise TypeError(f"{name}: expected either unbiased= or correction=, got both")
        if not isinstance(unbiased, bool):
            raise TypeError(f"{name}: unbiased must be True or False, got {shown(unbiased)}; several dimensions are a "
                            f"tuple, {name}(x, (0, 1))")
        correction = int(unbiased)
    if isinstance(dim, list):
        dim = tuple(dim)
    if self.is_complex():
        return _complex_moments(op, self, dim, correction, keepdim)
    return op(self, dim, correction, keepdim)


def _complex_moments(op, self, dim, correction, keepdim):
    var = _var(self.real, dim, correction, keepdim) + _var(self.imag, dim, correction, keepdim)
    spread = var.sqrt() if op.name.startswith("std") else var
    return (spread, self.mean(dim, keepdim)) if "mean" in op.name else spread


@composite("var(Tensor self, any dim=None, any unbiased=None, bool keepdim=False, *, any correction=None) -> Tensor",
           out=True)
def var(self, dim=None, unbiased=None, keepdim=False, *, correction=None):
    """Variance over `dim` (absent: all), the squared differences from the mean divided by n - correction (1).

    >>> flambeau.tensor([1., 2., 3., 4.]).var()
    tensor(1.6667)
    """
    return _moments(_var, self, dim, unbiased, keepdim, correction)


@composite("std(Tensor self, any dim=None, any unbiased=None, bool keepdim=False, *, any correction=None) -> Tensor",
           out=True)
def std(self, dim=None, unbiased=None, keepdim=False, *, correction=None):
    """Standard deviation over `dim` (absent: all), the square root of var.

    >>> flambeau.tensor([1., 2., 3., 4.]).std(correction=0)
    tensor(1.1180)
    """
    return _moments(_std, self, dim, unbiased, keepdim, correction)


@composite("var_mean(Tensor self, any dim=None, any unbiased=None, bool keepdim=False, *, any correction=None)"
           " -> (Tensor, Tensor)", method=False)
def var_mean(self, dim=None, unbiased=None, keepdim=False, *, correction=None):
    """Variance and mean over `dim`, computed together."""
    return tuple(_moments(_var_mean, self, dim, unbiased, keepdim, correction))


@composite("std_mean(Tensor self, any dim=None, any unbiased=None, bool keepdim=False, *, any correction=None)"
           " -> (Tensor, Tensor)", method=False)
def std_mean(self, dim=None, unbiased=None, keepdim=False, *, correction=None):
    """Standard deviation and mean over `dim`, computed together."""
    return tuple(_moments(_std_mean, self, dim, unbiased, keepdim, correction))

# --- order statistics -----------------------------------------------------------------------------------------------

_ORDER = "(Tensor self, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)"
_median_dim = reduction("median.dim" + _ORDER, node="MedianBackward1", samples="reduce_needs_dim", namespace=None,
                        d={"self": lambda g0, result1, self_shape, dim, keepdim:
                           placed(g0, result1, self_shape, dim, keepdim)},
                        doc="The middle element along `dim` (the lower of two) and its position.")
_nanmedian_dim = reduction("nanmedian.dim" + _ORDER, samples="reduce_needs_dim", namespace=None,
                           d={"self": lambda g0, result1, self_shape, dim, keepdim:
                              placed(g0, result1, self_shape, dim, keepdim)},
                           doc="The middle element along `dim` among those that are not NaN, and its position.")

_median_all = reduction("median.all(Tensor self) -> Tensor", node="MedianBackward0", namespace=None, samples="distinct",
                        d={"self": lambda g, self, result: shared_with_nan(g, self, result)},
                        doc="The middle one of all elements (the lower of two).")
_nanmedian_all = reduction("nanmedian.all(Tensor self) -> Tensor", namespace=None, samples="distinct",
                           d={"self": lambda g, self, result: shared_with_nan(g, self, result)},
                           doc="The middle one of all elements that are not NaN.")
overloads("median", _median_all, _median_dim,
          doc="""The middle element, of all or along `dim`; of an even number the lower one.

    >>> flambeau.tensor([4, 1, 3, 2]).median()
    tensor(2)
    """)
overloads("nanmedian", _nanmedian_all, _nanmedian_dim, doc="As median, over the elements that are not NaN.")

reduction("kthvalue(Tensor self, int k, int dim=-1, bool keepdim=False) -> (Tensor values, Tensor indices)",
          d={"self": lambda g0, result1, self_shape, dim, keepdim: placed(g0, result1, self_shape, dim, keepdim)},
          doc="""The k-th smallest element along `dim`, counted from 1, and its position.

    >>> flambeau.tensor([4, 1, 3]).kthvalue(2).values
    tensor(3)
    """)
reduction("mode(Tensor self, int dim=-1, bool keepdim=False) -> (Tensor values, Tensor indices)", samples="integers",
          d={"self": lambda g0, result1, self_shape, dim, keepdim: placed(g0, result1, self_shape, dim, keepdim)},
          doc="""The most frequent element along `dim` (the smallest of several) and its last position.

    >>> flambeau.tensor([2, 1, 2]).mode().values
    tensor(2)
    """)

_INTERPOLATIONS = ("linear", "lower", "higher", "nearest", "midpoint")


def _quantile(name, self, q, dim, keepdim, interpolation, ignore_nan):
    if interpolation not in _INTERPOLATIONS:
        raise RuntimeError(f"{name}: interpolation must be one of {', '.join(_INTERPOLATIONS)}, got "
                           f"{shown(interpolation)}")
    if not self.is_floating_point():
        raise RuntimeError(f"{name}: input must be floating point, got {self.dtype}")
    if self.numel() == 0:
        raise RuntimeError(f"{name}: input must not be empty, got shape {list(self.shape)}")
    if not hasattr(q, "dtype"):
        if not 0 <= q <= 1:
            raise RuntimeError(f"{name}: q must lie in [0, 1], got {shown(q)}")
        q = self.new_full((), q)
    elif q.ndim > 1:
        raise RuntimeError(f"{name}: q must be a number or one-dimensional, got shape {list(q.shape)}")
    elif q.dtype != self.dtype:
        raise RuntimeError(f"{name}: q must have the dtype of input, {self.dtype}, got {q.dtype}")
    else:
        known = plain(q)
        if type(known) is _C.Tensor and known.device.type == "cpu" and not ((known >= 0) & (known <= 1)).all():
            raise RuntimeError(f"{name}: q must lie in [0, 1], got {known.tolist()}")
    ndim, whole = self.ndim, dim is None
    x = self.reshape(-1) if whole else self.movedim(dim, -1) if ndim else self.reshape(1)
    order = x.detach().sort(-1)[1]
    missing = x.isnan()
    last = (~missing).sum(-1).clamp(min=1) - 1 if ignore_nan else x.shape[-1] - 1
    rank = (q.reshape((-1,) + (1,) * (x.ndim - 1)) * last).expand((q.numel(), *x.shape[:-1]))
    if not ignore_nan:  # NaN comes last
        rank = rank.masked_fill(missing.any(-1), x.shape[-1] - 1)
    rank = {"lower": rank.floor, "higher": rank.ceil, "nearest": rank.round}.get(interpolation, lambda: rank)()
    low = rank.floor()
    places = OPS["cat"]([low, rank.ceil()], 0).long().movedim(0, -1)
    a, b = x.gather(-1, order.gather(-1, places)).movedim(-1, 0).chunk(2)
    result = a.lerp(b, low * 0 + 0.5 if interpolation == "midpoint" else rank - low)
    if keepdim:
        place = 0 if whole else wrap_dim(dim, ndim, name)
        result = (result.reshape((q.numel(),) + (1,) * ndim) if whole
                  else result.unsqueeze(-1).movedim(-1, place + 1) if ndim else result.reshape(q.numel()))
    return result if q.ndim else result.squeeze(0)


@composite("quantile(Tensor self, any q, int? dim=None, bool keepdim=False, *, str interpolation=\"linear\") -> Tensor",
           autocast="float32", out=True, skip="tested by name")
def quantile(self, q, dim=None, keepdim=False, *, interpolation="linear"):
    """The q-quantile along `dim` (absent: of all elements), between two elements by `interpolation`.

    >>> flambeau.tensor([1., 2., 3., 4.]).quantile(0.5)
    tensor(2.5000)
    """
    return _quantile("quantile", self, q, dim, keepdim, interpolation, False)


@composite("nanquantile(Tensor self, any q, int? dim=None, bool keepdim=False, *, str interpolation=\"linear\")"
           " -> Tensor", autocast="float32", out=True, skip="tested by name")
def nanquantile(self, q, dim=None, keepdim=False, *, interpolation="linear"):
    """As quantile, over the elements that are not NaN."""
    return _quantile("nanquantile", self, q, dim, keepdim, interpolation, True)


# --- several variables ------------------------------------------------------------------------------------------------

def _check_weights(name, weights, n, floating):
    """Weights of observations: one each, of that kind of dtype, none negative."""
    if weights is None:
        return
    if weights.ndim > 1:
        raise RuntimeError(f"cov: {name} must have at most 1 dimension, got {weights.ndim}")
    if weights.is_floating_point() != floating or weights.is_complex():
        raise RuntimeError(f"cov: expected {name} to have {'floating point' if floating else 'integral'} dtype but got "
                           f"{weights.dtype}")
    if weights.numel() != n:
        raise RuntimeError(f"cov: {name} must hold one number per observation, {n}, got {weights.numel()}")
    if n and weights.min().item() < 0:
        raise RuntimeError(f"cov: {name} cannot be negative")


@composite("cov(Tensor self, *, int correction=1, Tensor? fweights=None, Tensor? aweights=None) -> Tensor",
           autocast="given", skip="tested by name")
def cov(self, *, correction=1, fweights=None, aweights=None):
    """Covariance of variables (rows) over observations (columns), each counted fweights times and weighing aweights.

    >>> flambeau.tensor([[0., 1., 2.], [2., 1., 0.]]).cov()
    tensor([[ 1., -1.],
            [-1.,  1.]])
    """
    if self.ndim > 2:
        raise RuntimeError("cov: input must have at most 2 dimensions (variables, observations), got shape "
                           f"{list(self.shape)}")
    x = self if self.ndim == 2 else self.reshape(1, -1)
    if not (x.is_floating_point() or x.is_complex()):
        x = x * 1.0
    _check_weights("fweights", fweights, x.shape[1], False)
    _check_weights("aweights", aweights, x.shape[1], True)
    weights = aweights if fweights is None else fweights if aweights is None else fweights * aweights
    n = x.shape[1]
    if weights is None:
        average, total, free = x.mean(1, True), n, max(n - correction, 0)
    else:
        total = weights.sum()
        average = (x * weights).sum(1, True) / total
        counted = 1 if aweights is None else (weights * aweights).sum() / total
        free = (total - correction * counted).clamp(min=0)
    centred = x - average
    right = centred if weights is None else centred * weights
    result = centred @ right.t().conj() / free if weights is not None or free else centred @ right.t().conj() * inf
    return result.squeeze()


@composite("corrcoef(Tensor self) -> Tensor", autocast="given", skip="tested by name")
def corrcoef(self):
    """Correlations of variables (rows) over observations (columns).

    >>> flambeau.tensor([[0., 1., 2.], [2., 1., 0.]]).corrcoef()
    tensor([[ 1., -1.],
            [-1.,  1.]])
    """
    c = cov(self)
    if c.ndim == 0:
        return c / c
    deviation = c.diagonal().sqrt()
    r = c / deviation.unsqueeze(1) / deviation.unsqueeze(0)
    return OPS["complex"](r.real.clamp(-1, 1), r.imag.clamp(-1, 1)) if r.is_complex() else r.clamp(-1, 1)
