"""Differences of neighbours, derivatives by differences, and integrals by the trapezoidal rule."""

from .._C import bool as bool_dtype
from .._C import uint8
from .._shown import shown
from .dims import wrap_dim, wrap_dims
from .joining import cat
from .kinds import composite
from .views import slice


@composite("diff(Tensor self, int n=1, int dim=-1, Tensor? prepend=None, Tensor? append=None) -> Tensor",
           out=True, ref="numpy.diff")
def diff(self, n=1, dim=-1, prepend=None, append=None):
    """Differences of neighbours along a dimension, n times over; prepend and append are joined on first.

    >>> flambeau.diff(flambeau.tensor([1, 4, 9]))
    tensor([3, 5])
    """
    if self.dim() == 0:
        raise RuntimeError("diff: the tensor has no dimension to take differences along")
    if n < 0:
        raise RuntimeError(f"diff: n must not be negative, got {n}")
    dim = wrap_dim(dim, self.dim(), "diff")
    if n == 0:
        return self.clone()
    x = self
    if prepend is not None or append is not None:
        x = cat([part for part in (prepend, self, append) if part is not None], dim)
    if n > 1:
        n = min(n, x.size(dim))
    for _ in range(n):
        after, before = slice(x, dim, 1), slice(x, dim, 0, -1)
        x = after.logical_xor(before) if x.dtype is bool_dtype else after - before
    return x


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
    dims = [dim] if isinstance(dim, int) else range(self.dim()) if dim is None else dim
    dims = wrap_dims(dims, self.dim(), "gradient")
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


def intervals(y, x, dx, dim):
    """The area over each interval between neighbours along `dim`, which is counted from 0."""
    n = y.shape[dim]
    if x is not None and dx is not None:
        raise RuntimeError("trapezoid: give the positions x or the step dx, not both")
    if n == 0:
        return y
    pairs = y.narrow(dim, 1, n - 1) + y.narrow(dim, 0, n - 1)
    if x is None:
        return pairs * ((1 if dx is None else dx) / 2)
    if x.ndim == 1:
        if x.numel() != n:
            raise RuntimeError(f"trapezoid: x must hold one coordinate for each of the {n} points along dim {dim}, got "
                               f"{x.numel()}")
        x = x.reshape([-1 if d == dim else 1 for d in range(y.ndim)])
    elif x.ndim < y.ndim:
        x = x.reshape([1] * (y.ndim - x.ndim) + list(x.shape))
    m = x.shape[dim]
    return pairs * (x.narrow(dim, 1, m - 1) - x.narrow(dim, 0, m - 1)) / 2


@composite("cumulative_trapezoid(Tensor y, Tensor? x=None, *, Scalar? dx=None, int dim=-1) -> Tensor",
           skip="tested by name")
def cumulative_trapezoid(y, x=None, *, dx=None, dim=-1):
    """Running integral of y along `dim` by the trapezoidal rule, over positions x or steps dx (1)."""
    dim = wrap_dim(dim, y.ndim, "cumulative_trapezoid")
    return intervals(y, x, dx, dim).cumsum(dim)


@composite("trapezoid(Tensor y, Tensor? x=None, *, Scalar? dx=None, int dim=-1) -> Tensor", aliases=("trapz",),
           method=False, skip="tested by name")
def trapezoid(y, x=None, *, dx=None, dim=-1):
    """Integral of y along `dim` by the trapezoidal rule, over positions x or steps dx (1).

    >>> flambeau.trapezoid(flambeau.tensor([1., 2., 4.]))
    tensor(4.5000)
    """
    dim = wrap_dim(dim, y.ndim, "trapezoid")
    if x is not None:
        return intervals(y, x, dx, dim).sum(dim)
    n = y.shape[dim]
    ends = y.narrow(dim, 0, min(n, 1)) + y.narrow(dim, max(n - 1, 0), min(n, 1))
    area = y.sum(dim) - ends.sum(dim) / 2
    return area if dx is None else area * dx
