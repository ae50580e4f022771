"""Counting: histograms with edges in one or more dimensions, and how often each integer occurs."""

from math import inf, prod

from .._C import bool as _bool
from .._C import float32, float64, int64
from .._shown import shown
from .creation import full, linspace
from .kinds import OPS, composite, primitive
from .sorting import _READS

# --- histograms with edges --------------------------------------------------------------------------------------------

def _outer_edges(x, limits):
    """[(lowest, highest)] per column of x [n, d]; equal ones are moved apart."""
    made = []
    for k in range(x.shape[1]):
        if limits is not None:
            low, high = limits[2 * k], limits[2 * k + 1]
        elif x.shape[0]:
            low, high = x[:, k].min().item(), x[:, k].max().item()
        else:
            low, high = 0.0, 1.0
        if not (abs(low) < inf and abs(high) < inf):
            raise RuntimeError(f"torch.histogramdd: dimension {k}'s range [{low}, {high}] is not finite")
        if low > high:
            raise RuntimeError(f"histogramdd: range of dimension {k} has min {low} above max {high}")
        made.append((low - 0.5, high + 0.5) if low == high else (low, high))
    return made


def _check_bins(x, bins):
    for k, b in enumerate(bins):
        if not hasattr(b, "dtype"):
            if b <= 0:
                raise RuntimeError(f"histogramdd: the number of bins must be positive, got {b} for dimension {k}")
        elif b.ndim != 1:
            raise RuntimeError(f"histogramdd: the bin edges of dimension {k} must have 1 dimension, got {b.ndim}")
        elif b.dtype is not x.dtype:
            raise RuntimeError(f"histogramdd: the bin edges of dimension {k} must have the dtype of input, {x.dtype}, "
                               f"got {b.dtype}")
        elif b.numel() == 0:
            raise RuntimeError(f"histogramdd: dimension {k} has no bin edges")


def _counted(x, bins, limits, weight, density):
    """(histogram, edges) of the rows of x [n, d]; an element belongs to a bin by its left edge, the last is closed."""
    if not x.is_floating_point() or x.itemsize < 4:
        raise NotImplementedError(f'"histogramdd" not implemented for {x.dtype}')
    _check_bins(x, bins)
    if weight is not None and weight.dtype is not x.dtype:
        raise RuntimeError(f"histogramdd: weight must have the dtype of input, {x.dtype}, got {weight.dtype}")
    if any(not hasattr(b, "dtype") for b in bins):
        outer = _outer_edges(x, limits)
        edges = tuple(linspace(*outer[k], b + 1, dtype=x.dtype, device=x.device) for k, b in enumerate(bins))
    else:
        edges = tuple(bins)
    shape = [e.numel() - 1 for e in edges]
    place = full((x.shape[0],), 0, dtype=int64, device=x.device)
    inside = full((x.shape[0],), True, dtype=_bool, device=x.device)
    for k, e in enumerate(edges):
        column = x[:, k].contiguous()
        bin_ = OPS["searchsorted"](e, column, right=True) - 1
        inside = inside & (column >= e[0]) & (column <= e[-1])
        place = place * max(shape[k], 1) + bin_.clamp(0, max(shape[k] - 1, 0))
    counts = full((max(prod(shape), 1),), 0, dtype=x.dtype, device=x.device)
    shares = inside.to(x.dtype) if weight is None else weight.reshape(-1).where(inside, 0)
    if prod(shape):
        counts = counts.index_add(0, place, shares)
    hist = counts[:prod(shape)].reshape(shape)
    if density:
        for k, e in enumerate(edges):
            widths = [1] * len(edges)
            widths[k] = -1
            hist = hist / (e[1:] - e[:-1]).reshape(widths)
        hist = hist / counts.sum()
    return hist, edges


def _check_weight(x, weight):
    if weight is not None and weight.shape != x.shape[:-1]:
        raise RuntimeError(f"histogramdd: weight must hold one number per point, shape {list(x.shape[:-1])}, got "
                           f"{list(weight.shape)}")


@composite("histogram(Tensor self, any bins=100, *, float[]? range=None, Tensor? weight=None, bool density=False)"
           " -> (Tensor hist, Tensor bin_edges)", out=True, skip="tested by name")
def histogram(self, bins=100, *, range=None, weight=None, density=False):
    """How many elements (or how much weight) lie in each bin; `bins` is a number, or a tensor of edges.

    >>> flambeau.histogram(flambeau.tensor([1., 2., 1.]), 2, range=(0., 3.)).hist
    tensor([2., 1.])
    """
    if range is not None and len(range) != 2:
        raise RuntimeError(f"histogram: range must be (lowest, highest), got {shown(range)}")
    x = self.detach().reshape(-1, 1)
    if weight is not None and weight.shape != self.shape:
        _check_weight(x, weight.detach())
    hist, edges = _counted(x, [bins], range, None if weight is None else weight.detach(), density)
    return hist, edges[0].clone() if edges[0] is bins else edges[0]


@composite("histogramdd(Tensor self, any bins, *, float[]? range=None, Tensor? weight=None, bool density=False)"
           " -> (Tensor hist, Tensor bin_edges)", method=False, skip="tested by name")
def histogramdd(self, bins, *, range=None, weight=None, density=False):
    """histogram of points: the last dimension holds coordinates, each with its own bins.

    >>> flambeau.histogramdd(flambeau.tensor([[0., 1.], [1., 0.]]), 2).hist
    tensor([[0., 1.],
            [1., 0.]])
    """
    if self.dim() < 2:
        raise RuntimeError("histogramdd: input must have at least 2 dimensions (points, coordinates), got "
                           f"{self.dim()}")
    d = self.shape[-1]
    bins = [bins] * d if isinstance(bins, int) else list(bins)
    if len(bins) != d:
        raise RuntimeError(f"histogramdd: bins must hold one entry per coordinate, {d}, got {len(bins)}")
    if range is not None and len(range) != 2 * d:
        raise RuntimeError(f"histogramdd: range holds {len(range)} numbers, not the {2 * d} ends of {d} "
                           "coordinates")
    _check_weight(self, weight)
    points, weight = self.detach().flatten(0, -2), None if weight is None else weight.detach()
    if d == 0:  # a point without coordinates lies in no bin
        points, weight = points[:0], None
    return _counted(points, bins, range, weight, density)


# --- numbers that are counted one by one ------------------------------------------------------------------------------

_bincount = primitive("_bincount(Tensor self, Tensor? weights, int minlength) -> Tensor", namespace=None,
                      skip="the kernel of bincount, reached through it",
                      doc="How often each number occurs in a vector of int64, or the sum of its weights.")


@composite("bincount(Tensor self, Tensor? weights=None, int minlength=0) -> Tensor", skip={"meta": _READS})
def bincount(self, weights=None, minlength=0):
    """How often each number 0, 1, 2 … occurs among non-negative integers, or the sum of its weights.

    >>> flambeau.tensor([1, 3, 1]).bincount()
    tensor([0, 2, 0, 1])
    """
    if self.ndim != 1 or self.is_floating_point() or self.is_complex():
        raise RuntimeError(f"bincount: expected a one-dimensional tensor of integers, got {self.dtype}"
                           f" {list(self.shape)}")
    if minlength < 0:
        raise RuntimeError(f"bincount: minlength should be >= 0, got {shown(minlength)}")
    if weights is not None and weights.shape != self.shape:
        raise RuntimeError(f"bincount: weights of shape {list(weights.shape)} must match the input {list(self.shape)}")
    if weights is not None and weights.dtype not in (float32, float64):
        if weights.is_floating_point():
            return _bincount(self.long(), weights.float(), minlength).to(weights.dtype)
        weights = weights.double()
    return _bincount(self.long(), weights, minlength)


@composite("histc(Tensor self, int bins=100, Scalar min=0, Scalar max=0) -> Tensor", out=True, skip="tested by name")
def histc(self, bins=100, min=0, max=0):
    """How many elements fall into each of `bins` equal intervals from min to max (equal: the data's own range).

    >>> flambeau.tensor([1., 2., 1.]).histc(4, 0, 3)
    tensor([0., 2., 1., 0.])
    """
    if not self.is_floating_point():
        raise RuntimeError(f"histc: expected a floating point tensor, got {self.dtype}")
    if bins <= 0:
        raise RuntimeError(f"histc: bins must be > 0, got {shown(bins)}")
    x = self.detach().flatten()
    whole = min == max and x.numel() > 0  # the data's own range: nothing lies outside
    if whole:
        low, high = x.aminmax()
        min, max = low.item(), high.item()
    if min == max:
        min, max = min - 1, max + 1
    if not -inf < min < max < inf:
        raise RuntimeError(f"histc: range of [{min}, {max}] is not finite or not ascending")
    inside = x if whole else x.masked_select((x >= min) & (x <= max))
    place = ((inside - min) * (bins / (max - min))).long().clamp(max=bins - 1)
    return _bincount(place, None, bins).to(x.dtype)
