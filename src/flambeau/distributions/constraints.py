"""Where parameters and samples may lie: each constraint checks a tensor and says how many dimensions it looks at.

>>> import flambeau
>>> flambeau.distributions.constraints.positive.check(flambeau.tensor([-1., 2.]))
tensor([False,  True])
"""

import flambeau

from .._shown import shown

__all__ = ["Constraint", "MixtureSameFamilyConstraint", "boolean", "cat", "corr_cholesky", "dependent",
           "dependent_property", "greater_than", "greater_than_eq", "half_open_interval", "independent",
           "integer_interval", "interval", "is_dependent", "less_than", "lower_cholesky", "lower_triangular",
           "multinomial", "nonnegative", "nonnegative_integer", "one_hot", "positive", "positive_definite",
           "positive_integer", "positive_semidefinite", "real", "real_vector", "simplex", "square", "stack",
           "symmetric", "unit_interval"]  # fmt: skip


class Constraint:
    """A set of values. `check` answers for every value; the last `event_dim` dimensions make up one value."""

    is_discrete = False
    event_dim = 0
    _shown = ()

    def check(self, value):
        """A bool tensor: which values belong to the set."""
        raise NotImplementedError(f"{type(self).__name__} does not say how to check a value")

    def __repr__(self):
        bounds = ", ".join(f"{name}={getattr(self, name)}" for name in self._shown)
        return f"{type(self).__name__.lstrip('_')}({bounds})"


# --- known only from the other parameters -----------------------------------------------------------------------------

class _Dependent(Constraint):
    """A constraint that depends on values which are not known yet, so that nothing can be checked."""

    def __init__(self, *, is_discrete=NotImplemented, event_dim=NotImplemented):
        self._is_discrete, self._event_dim = is_discrete, event_dim
        super().__init__()

    def _known(self, name):
        value = getattr(self, f"_{name}")
        if value is NotImplemented:
            raise NotImplementedError(f"{name} depends on the distribution's parameters; ask the instance's constraint")
        return value

    @property
    def is_discrete(self):
        return self._known("is_discrete")

    @property
    def event_dim(self):
        return self._known("event_dim")

    def __call__(self, *, is_discrete=NotImplemented, event_dim=NotImplemented):
        """The same constraint with these facts known."""
        if is_discrete is NotImplemented:
            is_discrete = self._is_discrete
        if event_dim is NotImplemented:
            event_dim = self._event_dim
        return _Dependent(is_discrete=is_discrete, event_dim=event_dim)

    def check(self, value):
        raise ValueError("a dependent constraint cannot check a value: take it from an instance of the distribution")


class _DependentProperty(property, _Dependent):
    """A property whose value is a constraint; on the class it stands for one that is not known yet."""

    def __init__(self, fn=None, *, is_discrete=NotImplemented, event_dim=NotImplemented):
        super().__init__(fn)
        self._is_discrete, self._event_dim = is_discrete, event_dim

    def __call__(self, fn):
        return _DependentProperty(fn, is_discrete=self._is_discrete, event_dim=self._event_dim)


def is_dependent(constraint):
    """Whether it is known only from the other parameters.

    >>> flambeau.distributions.constraints.is_dependent(flambeau.distributions.Uniform.support)
    True
    """
    return isinstance(constraint, _Dependent)


# --- numbers ----------------------------------------------------------------------------------------------------------

class _Real(Constraint):
    def check(self, value):
        return value == value  # all but NaN


class _Boolean(Constraint):
    is_discrete = True
    lower_bound, upper_bound = 0, 1

    def check(self, value):
        return (value == 0) | (value == 1)


class _Above(Constraint):
    _shown = ("lower_bound",)

    def __init__(self, lower_bound):
        self.lower_bound = lower_bound


class _Below(Constraint):
    _shown = ("upper_bound",)

    def __init__(self, upper_bound):
        self.upper_bound = upper_bound


class _Between(Constraint):
    _shown = ("lower_bound", "upper_bound")

    def __init__(self, lower_bound, upper_bound):
        self.lower_bound, self.upper_bound = lower_bound, upper_bound


class _GreaterThan(_Above):
    def check(self, value):
        return self.lower_bound < value


class _GreaterThanEq(_Above):
    def check(self, value):
        return self.lower_bound <= value


class _LessThan(_Below):
    def check(self, value):
        return value < self.upper_bound


class _Interval(_Between):
    def check(self, value):
        return (self.lower_bound <= value) & (value <= self.upper_bound)


class _HalfOpenInterval(_Between):
    def check(self, value):
        return (self.lower_bound <= value) & (value < self.upper_bound)


def _whole(value):
    return value % 1 == 0


class _IntegerInterval(_Between):
    is_discrete = True

    def check(self, value):
        return _whole(value) & (self.lower_bound <= value) & (value <= self.upper_bound)


class _IntegerLessThan(_Below):
    is_discrete = True

    def check(self, value):
        return _whole(value) & (value <= self.upper_bound)


class _IntegerGreaterThan(_Above):
    is_discrete = True

    def check(self, value):
        return _whole(value) & (value >= self.lower_bound)


# --- vectors and matrices ---------------------------------------------------------------------------------------------

class _Simplex(Constraint):
    event_dim = 1

    def check(self, value):
        return (value >= 0).all(-1) & ((value.sum(-1) - 1).abs() < 1e-6)


class _OneHot(Constraint):
    is_discrete = True
    event_dim = 1

    def check(self, value):
        return boolean.check(value).all(-1) & (value.sum(-1) == 1)


class _Multinomial(Constraint):
    is_discrete = True
    event_dim = 1

    def __init__(self, upper_bound):
        self.upper_bound = upper_bound

    def check(self, value):
        return (value >= 0).all(-1) & (value.sum(-1) <= self.upper_bound)


class _LowerTriangular(Constraint):
    event_dim = 2

    def check(self, value):
        return (value.tril() == value).flatten(-2).all(-1)


class _LowerCholesky(_LowerTriangular):
    def check(self, value):
        return super().check(value) & (value.diagonal(dim1=-2, dim2=-1) > 0).all(-1)


class _CorrCholesky(Constraint):
    event_dim = 2

    def check(self, value):
        tolerance = flambeau.finfo(value.dtype).eps * value.shape[-1] * 10  # of a sum of that many squares
        unit_rows = ((value.square().sum(-1) - 1).abs() < tolerance).all(-1)
        return lower_cholesky.check(value) & unit_rows


class _Square(Constraint):
    event_dim = 2

    def check(self, value):
        return value.new_full(value.shape[:-2], value.shape[-2] == value.shape[-1], dtype=bool)


class _Symmetric(_Square):
    def check(self, value):
        shape = super().check(value)
        return value.isclose(value.mT, atol=1e-6).flatten(-2).all(-1) if shape.all() else shape


class _PositiveSemidefinite(_Symmetric):
    def check(self, value):
        symmetric = super().check(value)
        return symmetric & (flambeau.linalg.eigvalsh(value) >= 0).all(-1) if symmetric.all() else symmetric


class _PositiveDefinite(_Symmetric):
    def check(self, value):
        symmetric = super().check(value)
        return symmetric & (flambeau.linalg.cholesky_ex(value).info == 0) if symmetric.all() else symmetric


# --- made of others ---------------------------------------------------------------------------------------------------

def _joined(check, event_dim):
    """One answer for all the last dimensions of a check."""
    return check.flatten(-event_dim).all(-1) if event_dim else check


def _require_dimensions(value, event_dim, constraint):
    if value.dim() < event_dim:
        raise ValueError(f"{constraint}: a value has at least {event_dim} dimensions, got shape {list(value.shape)}")


class _IndependentConstraint(Constraint):
    """Each of the last dimensions of a value meets the base constraint."""

    def __init__(self, base_constraint, reinterpreted_batch_ndims):
        if not isinstance(reinterpreted_batch_ndims, int) or reinterpreted_batch_ndims < 0:
            raise ValueError("reinterpreted_batch_ndims must be a number of dimensions, got "
                             f"{shown(reinterpreted_batch_ndims)}")
        self.base_constraint, self.reinterpreted_batch_ndims = base_constraint, reinterpreted_batch_ndims

    @property
    def is_discrete(self):
        return self.base_constraint.is_discrete

    @property
    def event_dim(self):
        return self.base_constraint.event_dim + self.reinterpreted_batch_ndims

    def check(self, value):
        found = self.base_constraint.check(value)
        _require_dimensions(value, self.event_dim, self)
        return _joined(found, self.reinterpreted_batch_ndims)

    def __repr__(self):
        return f"{type(self).__name__[1:]}({self.base_constraint!r}, {self.reinterpreted_batch_ndims})"


class MixtureSameFamilyConstraint(Constraint):
    """A value that meets the constraint of every component of a mixture, whose dimension comes before the event's.

    >>> mixed = flambeau.distributions.constraints.MixtureSameFamilyConstraint
    >>> mixed(flambeau.distributions.constraints.positive).check(flambeau.tensor([1., -1.]))
    tensor([ True, False])
    """

    def __init__(self, base_constraint):
        self.base_constraint = base_constraint

    @property
    def is_discrete(self):
        return self.base_constraint.is_discrete

    @property
    def event_dim(self):
        return self.base_constraint.event_dim

    def check(self, value):
        _require_dimensions(value, self.event_dim, self)
        found = self.base_constraint.check(value.unsqueeze(-1 - self.event_dim))
        return found.reshape(*found.shape[:value.dim() - self.event_dim], -1).all(-1)

    def __repr__(self):
        return f"{type(self).__name__}({self.base_constraint!r})"


class _Several(Constraint):
    """Constraints of slices along one dimension."""

    def __init__(self, cseq, dim=0):
        wrong = [c for c in cseq if not isinstance(c, Constraint)]
        if wrong:
            raise TypeError(f"expected constraints, got {type(wrong[0]).__name__}")
        self.cseq, self.dim = list(cseq), dim

    @property
    def is_discrete(self):
        return any(c.is_discrete for c in self.cseq)


class _Cat(_Several):
    """Constraints of slices that lie one after the other; `lengths` are their sizes, 1 each unless given."""

    def __init__(self, cseq, dim=0, lengths=None):
        super().__init__(cseq, dim)
        self.lengths = [1] * len(self.cseq) if lengths is None else list(lengths)
        if len(self.lengths) != len(self.cseq):
            raise ValueError(f"{len(self.lengths)} lengths for {len(self.cseq)} constraints")

    @property
    def event_dim(self):
        return max(c.event_dim for c in self.cseq)

    def check(self, value):
        if not -value.dim() <= self.dim < value.dim() or value.shape[self.dim] != sum(self.lengths):
            raise ValueError(f"cat: expected {sum(self.lengths)} slices along dimension {self.dim}, got shape "
                             f"{list(value.shape)}")
        parts = value.split(self.lengths, self.dim)
        return flambeau.cat([c.check(part) for c, part in zip(self.cseq, parts, strict=True)], self.dim)


class _Stack(_Several):
    """Constraints of slices of size 1, whose dimension is a new one."""

    @property
    def event_dim(self):
        inner = max(c.event_dim for c in self.cseq)
        return inner + 1 if self.dim + inner < 0 else inner

    def check(self, value):
        if not -value.dim() <= self.dim < value.dim() or value.shape[self.dim] != len(self.cseq):
            raise ValueError(f"stack: expected {len(self.cseq)} slices along dimension {self.dim}, got shape "
                             f"{list(value.shape)}")
        parts = value.unbind(self.dim)
        return flambeau.stack([c.check(part) for c, part in zip(self.cseq, parts, strict=True)], self.dim)


# --- public names -----------------------------------------------------------------------------------------------------

dependent, dependent_property = _Dependent(), _DependentProperty
real, boolean = _Real(), _Boolean()
greater_than, greater_than_eq, less_than = _GreaterThan, _GreaterThanEq, _LessThan
interval, half_open_interval, integer_interval = _Interval, _HalfOpenInterval, _IntegerInterval
multinomial, independent, cat, stack = _Multinomial, _IndependentConstraint, _Cat, _Stack
positive, nonnegative, unit_interval = _GreaterThan(0.0), _GreaterThanEq(0.0), _Interval(0.0, 1.0)
nonnegative_integer, positive_integer = _IntegerGreaterThan(0), _IntegerGreaterThan(1)
real_vector = _IndependentConstraint(real, 1)
simplex, one_hot = _Simplex(), _OneHot()
lower_triangular, lower_cholesky, corr_cholesky = _LowerTriangular(), _LowerCholesky(), _CorrCholesky()
square, symmetric = _Square(), _Symmetric()
positive_semidefinite, positive_definite = _PositiveSemidefinite(), _PositiveDefinite()
