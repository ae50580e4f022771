"""Which map leads from all real numbers onto a constraint: one to one (biject_to), or just onto it (transform_to).

>>> import flambeau
>>> flambeau.distributions.transform_to(flambeau.distributions.constraints.positive)(flambeau.zeros(1))
tensor([1.])
"""

from .._shown import shown
from . import constraints, transforms

__all__ = ["ConstraintRegistry", "biject_to", "transform_to"]


class ConstraintRegistry:
    """A table from constraint classes to functions that make a transform for a constraint of that class.

    >>> from flambeau.distributions import constraints, transforms
    >>> class Odd(constraints.Constraint):
    ...     pass
    >>> registry = ConstraintRegistry()
    >>> _ = registry.register(Odd, lambda constraint: transforms.identity_transform)
    >>> registry(Odd()) is transforms.identity_transform
    True
    """

    def __init__(self):
        self._registry = {}
        super().__init__()

    def register(self, constraint, factory=None):
        """Adds an entry for the class of `constraint`, or for a class; without `factory` it is a decorator."""
        if factory is None:
            return lambda factory: self.register(constraint, factory)
        kind = type(constraint) if isinstance(constraint, constraints.Constraint) else constraint
        if not (isinstance(kind, type) and issubclass(kind, constraints.Constraint)):
            raise TypeError(f"register: expected a constraint or a class of constraints, got {shown(constraint)}")
        self._registry[kind] = factory
        return factory

    def __call__(self, constraint):
        """The transform for a constraint: looked up by its class alone."""
        factory = self._registry.get(type(constraint))
        if factory is None:
            raise NotImplementedError(f"no transform is registered for {shown(constraint)}: add one with register")
        return factory(constraint)


biject_to = ConstraintRegistry()
transform_to = ConstraintRegistry()
_BOTH = (biject_to, transform_to)


def _with_registry(factory, registry):
    return lambda constraint: factory(constraint, registry)


def _affine_of_unit(constraint, _):
    """(0, 1) stretched to (lower, upper)."""
    lower, upper = constraint.lower_bound, constraint.upper_bound
    sigmoid = transforms.SigmoidTransform()
    if isinstance(lower, (int, float)) and isinstance(upper, (int, float)) and (lower, upper) == (0, 1):
        return sigmoid
    return transforms.ComposeTransform([sigmoid, transforms.AffineTransform(lower, upper - lower)])


def _above(constraint, _):
    return transforms.ComposeTransform([transforms.ExpTransform(),
                                        transforms.AffineTransform(constraint.lower_bound, 1)])


def _below(constraint, _):
    return transforms.ComposeTransform([transforms.ExpTransform(),
                                        transforms.AffineTransform(constraint.upper_bound, -1)])


def _independent(constraint, registry):
    return transforms.IndependentTransform(registry(constraint.base_constraint), constraint.reinterpreted_batch_ndims)


def _cat(constraint, registry):
    parts = [registry(c) for c in constraint.cseq]
    return transforms.CatTransform(parts, constraint.dim, constraint.lengths)


def _stack(constraint, registry):
    return transforms.StackTransform([registry(c) for c in constraint.cseq], constraint.dim)


def _always(make):
    return lambda constraint, registry: make()


_TABLE = (
    (_BOTH, constraints._Real, _always(lambda: transforms.identity_transform)),
    (_BOTH, constraints._IndependentConstraint, _independent),
    (_BOTH, constraints._GreaterThan, _above),
    (_BOTH, constraints._GreaterThanEq, _above),
    (_BOTH, constraints._LessThan, _below),
    (_BOTH, constraints._Interval, _affine_of_unit),
    (_BOTH, constraints._HalfOpenInterval, _affine_of_unit),
    (_BOTH, constraints._CorrCholesky, _always(transforms.CorrCholeskyTransform)),
    (_BOTH, constraints._Cat, _cat),
    (_BOTH, constraints._Stack, _stack),
    ((biject_to,), constraints._Simplex, _always(transforms.StickBreakingTransform)),
    ((transform_to,), constraints._Simplex, _always(transforms.SoftmaxTransform)),
    ((transform_to,), constraints._LowerCholesky, _always(transforms.LowerCholeskyTransform)),
    ((transform_to,), constraints._PositiveDefinite, _always(transforms.PositiveDefiniteTransform)),
    ((transform_to,), constraints._PositiveSemidefinite, _always(transforms.PositiveDefiniteTransform)),
)
for _registries, _kind, _factory in _TABLE:
    for _one in _registries:
        _one.register(_kind, _with_registry(_factory, _one))
