"""Types of tensors by shape, for annotations: `TensorType((2, 3, Dyn))`."""


class _DynType:
    """Any size."""

    def __eq__(self, other):
        return type(other) is _DynType

    __hash__ = object.__hash__

    def __repr__(self):
        return "Dyn"


Dyn = _DynType()


class TensorType:
    """A tensor of a shape; sizes may be `Dyn`.

    >>> from flambeau.fx.tensor_type import Dyn, TensorType, is_consistent
    >>> is_consistent(TensorType((2, Dyn)), TensorType((2, 3)))
    True
    """

    def __init__(self, dim):
        self.__origin__ = TensorType
        self.__args__ = tuple(dim)

    def __class_getitem__(cls, dim):
        return cls(dim if isinstance(dim, tuple) else (dim,))

    @property
    def dims(self):
        """The sizes."""
        return self.__args__

    def __repr__(self):
        return f"TensorType[{self.__args__}]"

    def __eq__(self, other):
        return isinstance(other, TensorType) and list(self.__args__) == list(other.__args__)

    __hash__ = object.__hash__


def is_consistent(t1, t2):
    """Whether a value may be of both types: Dyn is any."""
    if t1 in (t2, Dyn) or t2 == Dyn:
        return True
    if isinstance(t1, TensorType) and isinstance(t2, TensorType):
        return len(t1.dims) == len(t2.dims) and all(map(is_consistent, t1.dims, t2.dims))
    return False


def is_more_precise(t1, t2):
    """Whether t1 says all that t2 says."""
    if t1 == t2 or t2 == Dyn:
        return True
    if isinstance(t1, TensorType) and isinstance(t2, TensorType):
        return len(t1.dims) == len(t2.dims) and all(map(is_more_precise, t1.dims, t2.dims))
    return False
