"""Numerical analysis: frexp, gradient, histograms with edges, renorm, segments, sizes fixed in advance, hashes."""

from math import inf, prod

from .._C import bool as _bool
from .._C import float64, int64, uint8, uint64
from .._shown import shown
from .creation import full, linspace
from .joining import cat
from .kinds import OPS, composite, primitive
from .statistics import vector_norm
from .transcendental import exp2

frexp = primitive("frexp(Tensor self) -> (Tensor mantissa, Tensor exponent)", out=True, samples="reals",
                  d={"self": lambda g0, result1: g0 / exp2(result1.to(g0.dtype))},
                  doc="""Mantissas in [1/2, 1) and the powers of two that make self of them.

    >>> flambeau.frexp(flambeau.tensor([3.])).mantissa
    tensor([0.7500])
    """)
_xor_rows = primitive("xor_rows(Tensor self) -> Tensor", namespace=None, doc="Exclusive or along the rows.",
                      skip="the kernel of hash_tensor, which is tested by name")


def _dims(name, dims, ndim):
    """Dimensions counted from 0, without repetition."""
    made = []
    for d in dims:
        if not -max(ndim, 1) <= d < max(ndim, 1):
            raise IndexError(f"{name}: dim {d} is out of range for {ndim} dimensions: {-max(ndim, 1)} to "
                             f"{max(ndim, 1) - 1}")
        made.append(d % max(ndim, 1))
        if len(set(made)) < len(made):
            raise RuntimeError(f"{name}: dim {made[-1]} is given twice")
    return made


# --- differences ------------------------------------------------------------------------------------------------------

def _along(x, dim, start, length):
    return x.narrow(dim, start, length)


def _even_slope(x, dim, h, order):
    """Central differences with one distance h; at the ends one-sided ones of the wanted order."""
    n = x.shape[dim]
    def part(start, length=1):
        return _along(x, dim, start, length)
    middle = (part(2, n - 2) - part(0, n - 2)) / (2 * h)
    if order == 1:
        first, last = (part(1) - part(0)) / h, (part(n - 1) - part(n - 2)) / h
    else:
        first = (-1.5 * part(0) + 2 * part(1) - 0.5 * part(2)) / h
        last = (0.5 * part(n - 3) - 2 * part(n - 2) + 1.5 * part(n - 1)) / h
    return cat([first, middle, last], dim)


def _uneven_slope(x, dim, at, order):
    """The derivative of the parabola through each three points whose coordinates are `at`."""
    n, shape = x.shape[dim], [1] * x.dim()
    shape[dim] = -1
    h = (at[1:] - at[:-1]).reshape(shape)
    def part(start, length=1):
        return _along(x, dim, start, length)
    before, after = _along(h, dim, 0, n - 2), _along(h, dim, 1, n - 2)
    middle = (part(0, n - 2) * (-after / (before * (before + after)))
              + part(1, n - 2) * ((after - before) / (before * after))
              + part(2, n - 2) * (before / (after * (before + after))))
    if order == 1:
        first = (part(1) - part(0)) / _along(h, dim, 0, 1)
        last = (part(n - 1) - part(n - 2)) / _along(h, dim, n - 2, 1)
    else:
        a, b = _along(h, dim, 0, 1), _along(h, dim, 1, 1)
        first = (part(0) * (-(2 * a + b) / (a * (a + b))) + part(1) * ((a + b) / (a * b))
                 + part(2) * (-a / (b * (a + b))))
        a, b = _along(h, dim, n - 3, 1), _along(h, dim, n - 2, 1)
        last = (part(n - 3) * (b / (a * (a + b))) + part(n - 2) * (-(a + b) / (a * b))
                + part(n - 1) * ((a + 2 * b) / (b * (a + b))))
    return cat([first, middle, last], dim)


def _spacings(spacing, dims, given):
    if spacing is None:
        return [1.0] * len(dims)
    listed = isinstance(spacing, (list, tuple))
    if not listed and not (getattr(spacing, "ndim", 0) == 1 and not given):
        return [spacing if not hasattr(spacing, "item") or spacing.ndim else spacing.item()] * len(dims)
    if len(spacing) != len(dims):
        raise RuntimeError(f"gradient: spacing holds {len(spacing)} entries for {len(dims)} dimensions; give one for "
                           "each, a single number, or nothing")
    return list(spacing)


@composite("gradient(Tensor self, *, any spacing=None, any dim=None, int edge_order=1) -> Tensor[]", method=False,
           skip="tested by name")
def gradient(self, *, spacing=None, dim=None, edge_order=1):
    """The derivative along each dimension of `dim` (absent: all) by central differences, second order inside.

    `spacing`: one distance for all, one per dimension, or one tensor of coordinates per dimension.

    >>> flambeau.gradient(flambeau.tensor([1., 4., 9., 16.]))
    (tensor([3., 4., 6., 7.]),)
    """
    given = dim is not None
    dims = _dims("gradient", [dim] if isinstance(dim, int) else range(self.dim()) if dim is None else dim, self.dim())
    if self.dtype is uint8:
        raise RuntimeError("gradient: uint8 cannot hold differences; convert the tensor first")
    if edge_order not in (1, 2):
        raise RuntimeError(f"gradient: edge_order must be 1 or 2, got {shown(edge_order)}")
    steps = _spacings(spacing, dims, given)
    for d in dims:
        if self.dim() == 0 or self.shape[d] < edge_order + 1:
            raise RuntimeError(f"gradient: with edge_order={shown(edge_order)} every dimension needs at least "
                               f"{edge_order + 1} entries, got shape {list(self.shape)}")
    made = []
    for d, step in zip(dims, steps, strict=True):
        if getattr(step, "ndim", 0):
            if step.ndim != 1 or step.shape[0] != self.shape[d]:
                raise RuntimeError(f"gradient: the coordinates of dimension {d} must be {self.shape[d]} numbers in 1 "
                                   f"dimension, got shape {list(step.shape)}")
            made.append(_uneven_slope(self, d, step, edge_order))
        else:
            made.append(_even_slope(self, d, step, edge_order))
    return tuple(made)


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
        edges = tuple(linspace(*outer[k], b + 1, dtype=x.dtype) for k, b in enumerate(bins))
    else:
        edges = tuple(bins)
    shape = [e.numel() - 1 for e in edges]
    place, inside = full((x.shape[0],), 0, dtype=int64), full((x.shape[0],), True, dtype=_bool)
    for k, e in enumerate(edges):
        column = x[:, k].contiguous()
        bin_ = OPS["searchsorted"](e, column, right=True) - 1
        inside = inside & (column >= e[0]) & (column <= e[-1])
        place = place * max(shape[k], 1) + bin_.clamp(0, max(shape[k] - 1, 0))
    counts = full((max(prod(shape), 1),), 0, dtype=x.dtype)
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
        raise RuntimeError(f"torch.histogramdd: for a {d}-dimensional histogram range should have {2 * d} elements, "
                           f"but got {len(range)}")
    _check_weight(self, weight)
    return _counted(self.detach().reshape(-1, d), bins, range, None if weight is None else weight.detach(), density)


# --- renorm -----------------------------------------------------------------------------------------------------------

@composite("renorm(Tensor self, Scalar p, int dim, Scalar maxnorm) -> Tensor", inplace=True, out=True,
           skip="tested by name")
def renorm(self, p, dim, maxnorm):
    """self with each part along `dim` whose p-norm exceeds maxnorm scaled down to it.

    >>> flambeau.renorm(flambeau.tensor([[3., 4.], [0., 1.]]), 2, 0, 1.)
    tensor([[0.6000, 0.8000],
            [0.0000, 1.0000]])
    """
    if p <= 0:
        raise RuntimeError(f"renorm: p must be positive, got {shown(p)}")
    if maxnorm < 0:
        raise RuntimeError(f"renorm: maxnorm must not be negative, got {shown(maxnorm)}")
    if self.dim() < 2:
        raise RuntimeError(f"renorm: at least 2 dimensions are needed, got {self.dim()}")
    dim = _dims("renorm", [dim], self.dim())[0]
    norm = vector_norm(self, p, [d for d in range(self.dim()) if d != dim], True)
    scale = OPS["where"](norm > maxnorm, maxnorm / (norm + 1e-7), 1.0)
    return self * scale.to(self.dtype)


# --- results of a size fixed in advance -------------------------------------------------------------------------------

@composite("nonzero_static(Tensor self, *, int size, int fill_value=-1) -> Tensor", out=True,
           skip="tested by name")
def nonzero_static(self, *, size, fill_value=-1):
    """nonzero, cut or filled up to `size` rows.

    >>> flambeau.nonzero_static(flambeau.tensor([0, 1]), size=2)
    tensor([[ 1],
            [-1]])
    """
    if size < 0:
        raise RuntimeError(f"nonzero_static: size must not be negative, got {shown(size)}")
    found = self.nonzero()[:size]
    rest = full((size - found.shape[0], self.dim()), fill_value, dtype=int64, device=self.device)
    return cat([found, rest], 0)


@composite("sum_to_size(Tensor self, int[] size) -> Tensor", namespace=None, method=True,
           skip="tested by name")
def sum_to_size(self, size):
    """The sum over what broadcasting to self's shape would have repeated.

    >>> flambeau.ones(2, 3).sum_to_size(1, 3)
    tensor([[2., 2., 2.]])
    """
    lead = self.dim() - len(size)
    fits = lead >= 0 and all(n in (1, m) for n, m in zip(size, self.shape[lead:], strict=True))
    if not fits:
        raise RuntimeError(f"a tensor of size {list(size)} cannot be expanded to {list(self.shape)}")
    made = self
    inner = [k for k in range(lead, self.dim()) if size[k - lead] == 1 and self.shape[k] != 1]
    if inner:
        made = made.sum(inner, True)
    return made.sum(list(range(lead))) if lead else made.sum() if not size else made


@composite("fill_diagonal_(Tensor self, Scalar fill_value, bool wrap=False) -> Tensor", namespace=None, method=True,
           skip="tested by name")
def fill_diagonal_(self, fill_value, wrap=False):
    """Writes one number on the main diagonal; `wrap` begins it anew below the square part of a tall matrix.

    >>> flambeau.zeros(2, 2).fill_diagonal_(1)
    tensor([[1., 0.],
            [0., 1.]])
    """
    if self.dim() < 2:
        raise RuntimeError("dimensions must larger than 1")
    if self.dim() > 2 and len(set(self.shape)) > 1:
        raise RuntimeError("fill_diagonal_: with more than 2 dimensions all must have one size, got "
                           f"{list(self.shape)}")
    n, step = min(self.shape), sum(self.stride())
    self.as_strided((n,), (step,), self.storage_offset()).fill_(fill_value)
    if wrap and self.dim() == 2 and self.shape[0] > self.shape[1] + 1:
        width = self.shape[1]
        rest = (self.numel() + width) // (width + 1) - n
        self.as_strided((rest,), (step,), self.storage_offset() + self.stride(0) * (width + 1)).fill_(fill_value)
    return self


# --- segments ---------------------------------------------------------------------------------------------------------

_REDUCTIONS = {"sum": ("sum", 0), "mean": ("mean", None), "max": ("amax", -inf), "amax": ("amax", -inf),
               "min": ("amin", inf), "amin": ("amin", inf), "prod": ("prod", 1)}


def _lengths(data, lengths, offsets, axis, unsafe):
    if offsets is not None:
        lengths = offsets.diff(dim=-1)
    if lengths is None:
        raise RuntimeError("segment_reduce: the segments are missing; pass lengths or offsets")
    axis = _dims("segment_reduce", [axis], data.dim())[0]
    if lengths.dim() - 1 != axis:
        raise RuntimeError(f"segment_reduce: axis={shown(axis)} must be the last dimension of lengths, "
                           f"{lengths.dim() - 1}")
    if not unsafe:
        if lengths.numel() and lengths.min().item() < 0:
            raise RuntimeError("lengths contains negative value!")
        if not (lengths.sum(-1) == data.shape[axis]).all().item():
            raise RuntimeError(f"segment_reduce: the lengths along axis {shown(axis)} must add up to its size, "
                               f"{data.shape[axis]}")
    return lengths, axis


@composite("segment_reduce(Tensor data, str reduce, *, Tensor? lengths=None, Tensor? indices=None,"
           " Tensor? offsets=None, int axis=0, bool unsafe=False, Scalar? initial=None) -> Tensor", method=False,
           skip="tested by name")
def segment_reduce(data, reduce, *, lengths=None, indices=None, offsets=None, axis=0, unsafe=False, initial=None):
    """Reduces consecutive segments along `axis` ("sum", "mean", "max", "min", "prod"), given by lengths or offsets.

    >>> flambeau.segment_reduce(flambeau.tensor([1., 2., 3.]), "sum", lengths=flambeau.tensor([2, 1]))
    tensor([3., 3.])
    """
    if indices is not None:
        raise RuntimeError("segment_reduce: segments cannot be given by indices; pass lengths or offsets")
    if reduce not in _REDUCTIONS:
        raise RuntimeError(f"segment_reduce: reduce must be 'sum', 'prod', 'mean', 'max' or 'min', got {shown(reduce)}")
    if not data.is_floating_point():
        raise NotImplementedError(f'"segment_reduce" not implemented for {data.dtype}')
    lengths, axis = _lengths(data, lengths, offsets, axis, unsafe)
    batch, n, count = prod(data.shape[:axis]), data.shape[axis], lengths.shape[-1]
    rows = data.reshape(batch * n, *data.shape[axis + 1:])
    segment = OPS["arange"](batch * count, device=data.device).repeat_interleave(lengths.reshape(-1))
    shape = (batch * count, *data.shape[axis + 1:])
    made = _reduced(rows, segment, shape, reduce, initial, lengths.reshape(-1))
    return made.reshape(*data.shape[:axis], count, *data.shape[axis + 1:])


def _reduced(rows, segment, shape, reduce, initial, lengths):
    kind, start = _REDUCTIONS[reduce]
    if kind in ("sum", "mean"):
        made = full(shape, 0 if initial is None else initial, dtype=rows.dtype).index_add(0, segment, rows)
        if kind == "sum":
            return made
        per = lengths.reshape(-1, *[1] * (len(shape) - 1)).to(rows.dtype)
        empty = per == 0
        return OPS["where"](empty, float("nan") if initial is None else made, made / per.masked_fill(empty, 1))
    made = full(shape, start if initial is None else initial, dtype=rows.dtype)
    place = segment.reshape(-1, *[1] * (len(shape) - 1)).expand(rows.shape)
    return made.scatter_reduce(0, place, rows, kind, include_self=True)


# --- hashes -----------------------------------------------------------------------------------------------------------

@composite("hash_tensor(Tensor self, int[] dim=[], *, bool keepdim=False, int mode=0) -> Tensor", out=True,
           skip="tested by name")
def hash_tensor(self, dim=(), *, keepdim=False, mode=0):
    """The exclusive or, over `dim` (absent: all), of the elements' 64 bits: as float64 numbers, or as int64 ones.

    >>> flambeau.hash_tensor(flambeau.tensor([1, 2, 5]))
    tensor(6, dtype=torch.uint64)
    """
    if mode != 0:
        raise RuntimeError(f"Unknown hash_tensor mode: {mode}")
    if self.is_complex():
        raise NotImplementedError(f'"hash_tensor" not implemented for {self.dtype}')
    if self.numel() == 0 and not dim:
        raise RuntimeError("hash_tensor: the tensor has no elements; pass the dim to reduce")
    dims = _dims("hash_tensor", dim, self.dim()) or list(range(self.dim()))
    for d in dims:
        if self.dim() and self.shape[d] == 0:
            raise IndexError(f"hash_tensor: dim {d} has size 0, so there is nothing to reduce")
    x = self.detach()
    words = x.to(float64).contiguous().view(int64) if x.is_floating_point() else \
        x.view(int64) if x.dtype is uint64 else x.to(int64)
    kept = [d for d in range(self.dim()) if d not in dims]
    shape = [n if d in kept else 1 for d, n in enumerate(self.shape)] if keepdim else [self.shape[d] for d in kept]
    rows = words.permute(*kept, *[d for d in dims if self.dim()]) if self.dim() else words
    return _xor_rows(rows.reshape(prod(self.shape[d] for d in kept), -1)).view(uint64).reshape(shape)


@composite("conv_tbc(Tensor self, Tensor weight, Tensor bias, int pad=0) -> Tensor", method=False,
           aliases=("nn.functional.conv_tbc",), skip="tested by name")
def conv_tbc(self, weight, bias, pad=0):
    """conv1d of [time, batch, channels] with weights [kernel, channels, filters].

    >>> flambeau.conv_tbc(flambeau.ones(3, 1, 1), flambeau.ones(2, 1, 1), flambeau.zeros(1)).reshape(-1)
    tensor([2., 2.])
    """
    if self.dim() != 3:
        raise RuntimeError(f"conv_tbc: input must have 3 dimensions (time, batch, channels), got {self.dim()}")
    made = OPS["conv1d"](self.permute(1, 2, 0), weight.permute(2, 1, 0), bias, padding=pad)
    return made.permute(2, 0, 1).contiguous()

