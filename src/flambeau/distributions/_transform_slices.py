"""Maps of slices along one dimension: CatTransform and StackTransform."""

import flambeau

from . import constraints
from ._transform import Transform
from .utils import _sum_rightmost


class _Slices(Transform):
    """Applies one map to each slice."""

    def __init__(self, tseq, dim, cache_size):
        wrong = [t for t in tseq if not isinstance(t, Transform)]
        if wrong:
            raise TypeError(f"{type(self).__name__}: expected transforms, got {type(wrong[0]).__name__}")
        super().__init__(cache_size)
        self.transforms = [t.with_cache(cache_size) for t in tseq] if cache_size else list(tseq)
        self.dim = dim

    def _require(self, value):
        if not -value.dim() <= self.dim < value.dim() or value.shape[self.dim] != self._size():
            raise ValueError(f"{type(self).__name__}: expected {self._size()} along dimension {self.dim}, got shape "
                             f"{list(value.shape)}")

    @property
    def bijective(self):
        """Whether all maps are."""
        return all(t.bijective for t in self.transforms)

    def _call(self, x):
        return self._join([t(part) for t, part in zip(self.transforms, self._parts(x), strict=True)])

    def _inverse(self, y):
        return self._join([t.inv(part) for t, part in zip(self.transforms, self._parts(y), strict=True)])


class CatTransform(_Slices):
    """Maps of slices that lie one after the other along `dim`; `lengths` are their sizes, 1 each unless given.

    >>> from flambeau.distributions.transforms import AffineTransform, ExpTransform
    >>> CatTransform([ExpTransform(), AffineTransform(1., 1.)], lengths=[1, 2])(flambeau.zeros(3))
    tensor([1., 1., 1.])
    """

    def __init__(self, tseq, dim=0, lengths=None, cache_size=0):
        super().__init__(tseq, dim, cache_size)
        self.lengths = [1] * len(self.transforms) if lengths is None else list(lengths)
        if len(self.lengths) != len(self.transforms):
            raise ValueError(f"CatTransform: {len(self.lengths)} lengths for {len(self.transforms)} transforms")

    @property
    def event_dim(self):
        """How many last dimensions make up one value."""
        return max(t.event_dim for t in self.transforms)

    @property
    def length(self):
        """The size along `dim`."""
        return sum(self.lengths)

    _size = length.fget

    def with_cache(self, cache_size=1):
        if self._cache_size == cache_size:
            return self
        return CatTransform(self.transforms, self.dim, self.lengths, cache_size)

    def _parts(self, value):
        self._require(value)
        return value.split(self.lengths, self.dim)

    def _join(self, parts):
        return flambeau.cat(parts, self.dim)

    def log_abs_det_jacobian(self, x, y):
        found = []
        for t, before, after in zip(self.transforms, self._parts(x), self._parts(y), strict=True):
            found.append(_sum_rightmost(t.log_abs_det_jacobian(before, after), self.event_dim - t.event_dim))
        dim = self.dim if self.dim < 0 else self.dim - x.dim()
        if dim + self.event_dim < 0:
            return flambeau.cat(found, dim + self.event_dim)
        return sum(found)  # the slices are parts of one value

    @constraints.dependent_property
    def domain(self):
        """The maps' domains."""
        return constraints.cat([t.domain for t in self.transforms], self.dim, self.lengths)

    @constraints.dependent_property
    def codomain(self):
        """The maps' codomains."""
        return constraints.cat([t.codomain for t in self.transforms], self.dim, self.lengths)


class StackTransform(_Slices):
    """Maps of slices of size 1 along `dim`.

    >>> from flambeau.distributions.transforms import AffineTransform, ExpTransform
    >>> StackTransform([ExpTransform(), AffineTransform(3., 1.)])(flambeau.zeros(2))
    tensor([1., 3.])
    """

    def __init__(self, tseq, dim=0, cache_size=0):
        super().__init__(tseq, dim, cache_size)

    def _size(self):
        return len(self.transforms)

    def with_cache(self, cache_size=1):
        return self if self._cache_size == cache_size else StackTransform(self.transforms, self.dim, cache_size)

    def _parts(self, value):
        self._require(value)
        return value.unbind(self.dim)

    def _join(self, parts):
        return flambeau.stack(parts, self.dim)

    def log_abs_det_jacobian(self, x, y):
        pairs = zip(self.transforms, self._parts(x), self._parts(y), strict=True)
        return flambeau.stack([t.log_abs_det_jacobian(before, after) for t, before, after in pairs], self.dim)

    @constraints.dependent_property
    def domain(self):
        """The maps' domains."""
        return constraints.stack([t.domain for t in self.transforms], self.dim)

    @constraints.dependent_property
    def codomain(self):
        """The maps' codomains."""
        return constraints.stack([t.codomain for t in self.transforms], self.dim)
