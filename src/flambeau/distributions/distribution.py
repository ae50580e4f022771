"""Distribution: parameters with their constraints, shapes, validation, `expand` for all, and general formulas."""

import warnings

import flambeau

from .. import _C
from .._shown import shown
from . import constraints
from .utils import broadcast_all, lazy_property

Size = flambeau.Size


def _first_wrong(valid, value, event_dim):
    """An example of what a check refused, for a message: where it stands and what it is."""
    if valid.dim() == 0:
        return str(value.item()) if value.numel() == 1 else f"{value.detach().tolist()}"
    place = tuple((~valid).nonzero()[0].tolist())
    found = value.detach().expand(valid.shape + value.shape[value.dim() - event_dim:])[place]
    count = int((~valid).sum())
    more = f" ({count} of {valid.numel()} are wrong)" if valid.numel() > 1 else ""
    return f"{found.tolist() if event_dim else found.item()} at index {list(place)}{more}"


class Distribution:
    """A batch of independent distributions of events.

    A sample has shape sample_shape + batch_shape + event_shape. A subclass names its parameters in `arg_constraints`;
    tensors under these names are expanded with the batch, and so are distributions that it is made of.

    >>> normal = flambeau.distributions.Normal(flambeau.zeros(3), 1.0)
    >>> normal.batch_shape, normal.event_shape, normal.sample((2,)).shape
    (torch.Size([3]), torch.Size([]), torch.Size([2, 3]))
    """

    has_rsample = False
    has_enumerate_support = False
    _validate_args = __debug__

    def __init__(self, batch_shape=Size(), event_shape=Size(), validate_args=None):
        self._batch_shape, self._event_shape = Size(batch_shape), Size(event_shape)
        if validate_args is not None:
            self._validate_args = validate_args
        if self._checks():
            self._validate_parameters()

    def _checks(self):
        """Whether values are looked at; in a compiled function, which would end there, only if that was asked for."""
        return self._validate_args and ("_validate_args" in vars(self) or not _C.graph_capturing())

    @staticmethod
    def set_default_validate_args(value):
        """Whether new distributions check their parameters and the values they are asked about.

        >>> flambeau.distributions.Distribution.set_default_validate_args(True)
        """
        if value not in (True, False):
            raise ValueError(f"set_default_validate_args: expected True or False, got {shown(value)}")
        Distribution._validate_args = bool(value)

    # --- parameters ---------------------------------------------------------------------------------------------------

    def _of_numbers(self, validate_args, **parameters):
        """Sets parameters that are single numbers per event, as tensors of the batch's shape."""
        for name, value in zip(parameters, broadcast_all(*parameters.values()), strict=True):
            setattr(self, name, value)
        Distribution.__init__(self, getattr(self, next(iter(parameters))).shape, validate_args=validate_args)

    def _validate_parameters(self):
        try:
            declared = self.arg_constraints
        except NotImplementedError:
            warnings.warn(f"{type(self).__name__} has no arg_constraints, so its parameters are not checked: declare "
                          "them, or pass validate_args=False", UserWarning, stacklevel=4)
            return
        for name, constraint in declared.items():
            if constraints.is_dependent(constraint):
                continue
            if name not in self.__dict__ and isinstance(getattr(type(self), name, None), lazy_property):
                continue  # computed from the parameters that were given
            value = getattr(self, name)
            valid = constraint.check(value)
            if not valid.all():
                wrong = _first_wrong(valid, value, constraint.event_dim)
                raise ValueError(f"{type(self).__name__}: {name} must satisfy {constraint}, got {wrong}")

    @property
    def arg_constraints(self):
        """{parameter: its constraint}"""
        raise NotImplementedError(f"{type(self).__name__} declares no arg_constraints")

    @property
    def support(self):
        """The constraint that all samples satisfy."""
        raise NotImplementedError(f"{type(self).__name__} declares no support")

    @property
    def batch_shape(self):
        """The shape of the parameters, without the dimensions of one event."""
        return self._batch_shape

    @property
    def event_shape(self):
        """The shape of one event."""
        return self._event_shape

    # --- expand -------------------------------------------------------------------------------------------------------

    def expand(self, batch_shape, _instance=None):
        """The same distribution with its batch expanded, without copying parameters.

        >>> flambeau.distributions.Normal(0., 1.).expand((2, 3)).batch_shape
        torch.Size([2, 3])
        """
        new = self._get_checked_instance(type(self), _instance)
        batch_shape = Size(batch_shape)
        parameters = self._inherited_names()
        for name, value in list(self.__dict__.items()):
            if isinstance(value, Distribution):
                value = value.expand(batch_shape + value.batch_shape[len(self._batch_shape):])
            elif name in parameters and isinstance(value, flambeau.Tensor):
                value = value.expand(batch_shape + value.shape[len(self._batch_shape):])
            new.__dict__[name] = value
        new._batch_shape = batch_shape
        return new

    def _declared_names(self):
        try:
            return self.arg_constraints
        except NotImplementedError:
            return {}

    def _inherited_names(self):
        """The parameters of this class and of those that it extends."""
        tables = [vars(kind).get("arg_constraints") for kind in type(self).__mro__]
        return set(self._declared_names()).union(*(table for table in tables if isinstance(table, dict)))

    def _get_checked_instance(self, cls, _instance=None):
        """What `expand` fills: a new object, or the one that a subclass made. cls: the class whose `expand` asks."""
        if _instance is None and type(self).__init__ is not cls.__init__ and type(self).expand is not cls.expand:
            raise NotImplementedError(f"{type(self).__name__}: its expand asks {cls.__name__} for a new object, but "
                                      "has its own __init__; make the object and pass it as _instance")
        return type(self).__new__(type(self)) if _instance is None else _instance

    # --- samples ------------------------------------------------------------------------------------------------------

    def sample(self, sample_shape=Size()):
        """Samples without gradients, of shape sample_shape + batch_shape + event_shape."""
        with flambeau.no_grad():
            return self.rsample(sample_shape)

    def rsample(self, sample_shape=Size()):
        """Samples that are differentiable functions of the parameters."""
        raise self._missing("rsample")

    def sample_n(self, n):
        """`sample((n,))`; deprecated."""
        warnings.warn("sample_n(n) is deprecated: call sample((n,))", FutureWarning, stacklevel=2)
        return self.sample((n,))

    def _extended_shape(self, sample_shape=Size()):
        return Size(sample_shape) + self._batch_shape + self._event_shape

    # --- densities and moments ----------------------------------------------------------------------------------------

    def _missing(self, what):
        return NotImplementedError(f"{type(self).__name__} has no {what}")

    def log_prob(self, value):
        """The logarithm of the density, or of the probability of a discrete value."""
        raise self._missing("log_prob")

    def cdf(self, value):
        """The probability of a sample up to value."""
        raise self._missing("cdf")

    def icdf(self, value):
        """The quantile: the inverse of cdf."""
        raise self._missing("icdf")

    def enumerate_support(self, expand=True):
        """All values of a discrete distribution, along a new first dimension; `expand` repeats them over the batch."""
        raise self._missing("enumerate_support")

    def _along_batch(self, values, expand):
        """Values along a new first dimension, alike for every member of the batch."""
        values = values.reshape(-1, *[1] * len(self._batch_shape), *self._event_shape)
        return values.expand(-1, *self._batch_shape, *[-1] * len(self._event_shape)) if expand else values

    def entropy(self):
        """Minus the expectation of log_prob."""
        raise self._missing("entropy")

    def perplexity(self):
        """exp(entropy)"""
        return self.entropy().exp()

    @property
    def mean(self):
        """The expectation."""
        raise self._missing("mean")

    @property
    def mode(self):
        """Where the density is largest."""
        raise self._missing("mode")

    @property
    def variance(self):
        """The variance of each element of an event."""
        raise self._missing("variance")

    @property
    def stddev(self):
        """The root of the variance."""
        return self.variance.sqrt()

    # --- validation ---------------------------------------------------------------------------------------------------

    def _validate_sample(self, value):
        """Raises ValueError unless value has a fitting shape and lies in the support."""
        name = type(self).__name__
        if not isinstance(value, flambeau.Tensor):
            raise ValueError(f"{name}: value must be a tensor, got {shown(value)}")
        events, expected = len(self._event_shape), self._batch_shape + self._event_shape
        if value.shape[value.dim() - events:] != self._event_shape:
            raise ValueError(f"{name}: the last dimensions of a value must be those of an event, "
                             f"{list(self._event_shape)}; got shape {list(value.shape)}")
        for mine, theirs in zip(reversed(expected), reversed(value.shape), strict=False):
            if mine != theirs and 1 not in (mine, theirs):
                raise ValueError(f"{name}: a value of shape {list(value.shape)} cannot be broadcast with the batch and "
                                 f"event shape {list(expected)}")
        try:
            support = self.support
        except NotImplementedError:
            warnings.warn(f"{name} declares no support, so values are not checked: declare it, or pass "
                          "validate_args=False", UserWarning, stacklevel=3)
            return
        valid = support.check(value)
        if not valid.all():
            raise ValueError(f"{name}: value must lie in the support {support}, got "
                             f"{_first_wrong(valid, value, support.event_dim)}")

    def _checked(self, value):
        if self._checks():
            self._validate_sample(value)
        return value

    def __repr__(self):
        names = [name for name in self._declared_names() if name in self.__dict__]
        values = ((name, self.__dict__[name]) for name in names)
        text = ", ".join(f"{name}: {v if v.numel() == 1 else v.size()}" for name, v in values)
        return f"{type(self).__name__}({text})"
