"""Transform, the base of all maps between supports, and those made of others: inverse, composed, reshaped."""

import math
import weakref

import flambeau

from .._shown import shown
from . import constraints
from .utils import _sum_rightmost, lazy_property

Size = flambeau.Size


class Transform:
    """A map y = t(x) with t.inv(y) = x and log_abs_det_jacobian(x, y) = log |dy / dx|.

    A subclass defines `domain`, `codomain`, `_call`, `_inverse` and `log_abs_det_jacobian`. With cache_size=1 the last
    pair (x, y) is kept, so that the inverse of a result is the very tensor that it was computed from.

    >>> t = flambeau.distributions.transforms.AffineTransform(0., 2.)
    >>> t.log_abs_det_jacobian(flambeau.ones(1), t(flambeau.ones(1)))
    tensor([0.6931])
    """

    bijective = False
    domain = None
    codomain = None

    def __init__(self, cache_size=0):
        if cache_size not in (0, 1):
            raise ValueError(f"cache_size must be 0 or 1, the number of pairs that are kept; got {shown(cache_size)}")
        self._cache_size, self._inv = cache_size, None
        if cache_size:
            self._cached_x_y = None, None
        super().__init__()

    def __getstate__(self):
        return {**self.__dict__, "_inv": None}  # a weak reference cannot be saved

    @property
    def event_dim(self):
        """How many last dimensions make up one value."""
        if self.domain.event_dim != self.codomain.event_dim:
            raise ValueError(f"{type(self).__name__}: values have {self.domain.event_dim} dimensions before it and "
                             f"{self.codomain.event_dim} after it; ask domain.event_dim or codomain.event_dim")
        return self.domain.event_dim

    @property
    def inv(self):
        """The inverse map."""
        found = self._inv and self._inv()
        if found is None:
            found = _InverseTransform(self)
            self._inv = weakref.ref(found)
        return found

    @property
    def sign(self):
        """1 where the map rises, -1 where it falls."""
        raise NotImplementedError(f"{type(self).__name__} does not say whether it rises or falls")

    def with_cache(self, cache_size=1):
        """The same map with another cache size."""
        if self._cache_size == cache_size:
            return self
        if type(self).__init__ is Transform.__init__:
            return type(self)(cache_size=cache_size)
        raise NotImplementedError(f"{type(self).__name__} has its own __init__ and no with_cache")

    def __eq__(self, other):
        return self is other

    __hash__ = None

    def __call__(self, x):
        if not self._cache_size:
            return self._call(x)
        known_x, known_y = self._cached_x_y
        if x is known_x:
            return known_y
        y = self._call(x)
        self._cached_x_y = x, y
        return y

    def _inv_call(self, y):
        if not self._cache_size:
            return self._inverse(y)
        known_x, known_y = self._cached_x_y
        if y is known_y:
            return known_x
        x = self._inverse(y)
        self._cached_x_y = x, y
        return x

    def _call(self, x):
        raise NotImplementedError(f"{type(self).__name__} has no forward map")

    def _inverse(self, y):
        raise NotImplementedError(f"{type(self).__name__} has no inverse")

    def log_abs_det_jacobian(self, x, y):
        """log |dy / dx| for a pair x and y = t(x)."""
        raise NotImplementedError(f"{type(self).__name__} has no log_abs_det_jacobian")

    def __repr__(self):
        return f"{type(self).__name__}()"

    def forward_shape(self, shape):
        """The shape of t(x) for an x of this shape."""
        return shape

    def inverse_shape(self, shape):
        """The shape of t.inv(y) for a y of this shape."""
        return shape


class _Fixed(Transform):
    """A map without parameters: all of its kind are equal."""

    def __eq__(self, other):
        return type(self) is type(other)

    __hash__ = None


class _InverseTransform(Transform):
    """The map backwards; made by Transform.inv."""

    def __init__(self, transform):
        super().__init__(cache_size=transform._cache_size)
        self._inv = transform  # kept alive; the other direction is weak

    @constraints.dependent_property(is_discrete=False)
    def domain(self):
        """The other direction's codomain."""
        return self._inv.codomain

    @constraints.dependent_property(is_discrete=False)
    def codomain(self):
        """The other direction's domain."""
        return self._inv.domain

    @property
    def bijective(self):
        """Whether the other direction is."""
        return self._inv.bijective

    @property
    def sign(self):
        """The sign of the other direction."""
        return self._inv.sign

    @property
    def inv(self):
        """The map forwards."""
        return self._inv

    def with_cache(self, cache_size=1):
        return self.inv.with_cache(cache_size).inv

    def __eq__(self, other):
        return isinstance(other, _InverseTransform) and self._inv == other._inv

    __hash__ = None

    def __getstate__(self):
        return self.__dict__

    def __repr__(self):
        return f"{type(self).__name__}({self._inv!r})"

    def __call__(self, x):
        return self._inv._inv_call(x)

    def _inv_call(self, y):
        return self._inv(y)

    def log_abs_det_jacobian(self, x, y):
        return -self._inv.log_abs_det_jacobian(y, x)

    def forward_shape(self, shape):
        return self._inv.inverse_shape(shape)

    def inverse_shape(self, shape):
        return self._inv.forward_shape(shape)


def _with_more_dims(constraint, count):
    return constraints.independent(constraint, count) if count > 0 else constraint


class ComposeTransform(Transform):
    """Several maps, the first one first.

    >>> from flambeau.distributions.transforms import AffineTransform, ExpTransform
    >>> ComposeTransform([ExpTransform(), AffineTransform(1., 2.)])(flambeau.zeros(1))
    tensor([3.])
    """

    def __init__(self, parts, cache_size=0):
        super().__init__(cache_size)
        self.parts = [part.with_cache(cache_size) for part in parts] if cache_size else list(parts)

    def _event_dims_before(self):
        """How many dimensions a value has before the first map: what each map asks for, carried back to the start."""
        needed = self.parts[-1].codomain.event_dim
        for part in reversed(self.parts):
            needed = part.domain.event_dim + max(needed - part.codomain.event_dim, 0)
        return needed

    def _event_dims_after(self):
        needed = self.parts[0].domain.event_dim
        for part in self.parts:
            needed = part.codomain.event_dim + max(needed - part.domain.event_dim, 0)
        return needed

    @constraints.dependent_property(is_discrete=False)
    def domain(self):
        """The first map's domain, with the dimensions that later ones ask for."""
        if not self.parts:
            return constraints.real
        first = self.parts[0].domain
        return _with_more_dims(first, self._event_dims_before() - first.event_dim)

    @constraints.dependent_property(is_discrete=False)
    def codomain(self):
        """The last map's codomain, with the dimensions of earlier ones."""
        if not self.parts:
            return constraints.real
        last = self.parts[-1].codomain
        return _with_more_dims(last, self._event_dims_after() - last.event_dim)

    @lazy_property
    def bijective(self):
        """Whether all are."""
        return all(part.bijective for part in self.parts)

    @lazy_property
    def sign(self):
        """The product of the signs."""
        sign = 1
        for part in self.parts:
            sign = sign * part.sign
        return sign

    @property
    def inv(self):
        """The inverses, the last one first."""
        found = self._inv and self._inv()
        if found is None:
            found = ComposeTransform([part.inv for part in reversed(self.parts)])
            self._inv, found._inv = weakref.ref(found), weakref.ref(self)
        return found

    def with_cache(self, cache_size=1):
        return self if self._cache_size == cache_size else ComposeTransform(self.parts, cache_size)

    def __eq__(self, other):
        return isinstance(other, ComposeTransform) and self.parts == other.parts

    __hash__ = None

    def __call__(self, x):
        for part in self.parts:
            x = part(x)
        return x

    def log_abs_det_jacobian(self, x, y):
        if not self.parts:
            return flambeau.zeros_like(x)
        values = [x]  # before and after each map; the last is known
        for part in self.parts[:-1]:
            values.append(part(values[-1]))
        values.append(y)
        dims, total = self.domain.event_dim, 0
        for part, before, after in zip(self.parts, values[:-1], values[1:], strict=True):
            total = total + _sum_rightmost(part.log_abs_det_jacobian(before, after), dims - part.domain.event_dim)
            dims += part.codomain.event_dim - part.domain.event_dim
        return total

    def forward_shape(self, shape):
        for part in self.parts:
            shape = part.forward_shape(shape)
        return shape

    def inverse_shape(self, shape):
        for part in reversed(self.parts):
            shape = part.inverse_shape(shape)
        return shape

    def __repr__(self):
        parts = ",\n    ".join(map(repr, self.parts))
        return f"{type(self).__name__}(\n    {parts}\n)"


identity_transform = ComposeTransform([])


class IndependentTransform(Transform):
    """A map applied to each of the last dimensions of larger values.

    >>> from flambeau.distributions.transforms import ExpTransform
    >>> IndependentTransform(ExpTransform(), 1).log_abs_det_jacobian(flambeau.ones(3), None)
    tensor(3.)
    """

    def __init__(self, base_transform, reinterpreted_batch_ndims, cache_size=0):
        super().__init__(cache_size)
        self.base_transform = base_transform.with_cache(cache_size)
        self.reinterpreted_batch_ndims = reinterpreted_batch_ndims

    def with_cache(self, cache_size=1):
        if self._cache_size == cache_size:
            return self
        return IndependentTransform(self.base_transform, self.reinterpreted_batch_ndims, cache_size)

    @constraints.dependent_property(is_discrete=False)
    def domain(self):
        """The base's domain with more dimensions."""
        return constraints.independent(self.base_transform.domain, self.reinterpreted_batch_ndims)

    @constraints.dependent_property(is_discrete=False)
    def codomain(self):
        """The base's codomain with more dimensions."""
        return constraints.independent(self.base_transform.codomain, self.reinterpreted_batch_ndims)

    @property
    def bijective(self):
        """Whether the base is."""
        return self.base_transform.bijective

    @property
    def sign(self):
        """The base's sign."""
        return self.base_transform.sign

    def _require(self, value, constraint):
        if value.dim() < constraint.event_dim:
            raise ValueError(f"{type(self).__name__}: a value has {constraint.event_dim} dimensions, got shape "
                             f"{list(value.shape)}")

    def _call(self, x):
        self._require(x, self.domain)
        return self.base_transform(x)

    def _inverse(self, y):
        self._require(y, self.codomain)
        return self.base_transform.inv(y)

    def log_abs_det_jacobian(self, x, y):
        return _sum_rightmost(self.base_transform.log_abs_det_jacobian(x, y), self.reinterpreted_batch_ndims)

    def forward_shape(self, shape):
        return self.base_transform.forward_shape(shape)

    def inverse_shape(self, shape):
        return self.base_transform.inverse_shape(shape)

    def __repr__(self):
        return f"{type(self).__name__}({self.base_transform!r}, {self.reinterpreted_batch_ndims})"


class ReshapeTransform(Transform):
    """Gives the last dimensions another shape with as many elements.

    >>> ReshapeTransform((2, 2), (4,))(flambeau.eye(2))
    tensor([1., 0., 0., 1.])
    """

    bijective = True

    def __init__(self, in_shape, out_shape, cache_size=0):
        self.in_shape, self.out_shape = Size(in_shape), Size(out_shape)
        if math.prod(self.in_shape) != math.prod(self.out_shape):
            raise ValueError(f"ReshapeTransform: {list(in_shape)} has {math.prod(self.in_shape)} elements and "
                             f"{list(out_shape)} has {math.prod(self.out_shape)}; they must be as many")
        super().__init__(cache_size)

    @constraints.dependent_property(is_discrete=False)
    def domain(self):
        """Arrays of the first shape."""
        return constraints.independent(constraints.real, len(self.in_shape))

    @constraints.dependent_property(is_discrete=False)
    def codomain(self):
        """Arrays of the second shape."""
        return constraints.independent(constraints.real, len(self.out_shape))

    def with_cache(self, cache_size=1):
        if self._cache_size == cache_size:
            return self
        return ReshapeTransform(self.in_shape, self.out_shape, cache_size)

    def _reshaped(self, value, before, after):
        return value.reshape(self._new_shape(value.shape, before, after))

    @staticmethod
    def _new_shape(shape, before, after):
        batch = len(shape) - len(before)
        if batch < 0 or Size(shape[batch:]) != before:
            raise ValueError(f"ReshapeTransform: the last dimensions must be {list(before)}, got shape {list(shape)}")
        return Size(shape[:batch]) + after

    def _call(self, x):
        return self._reshaped(x, self.in_shape, self.out_shape)

    def _inverse(self, y):
        return self._reshaped(y, self.out_shape, self.in_shape)

    def log_abs_det_jacobian(self, x, y):
        return x.new_zeros(x.shape[:x.dim() - len(self.in_shape)])

    def forward_shape(self, shape):
        return self._new_shape(shape, self.in_shape, self.out_shape)

    def inverse_shape(self, shape):
        return self._new_shape(shape, self.out_shape, self.in_shape)
