"""Modules that hold parameters: ParameterList, ParameterDict."""

from collections import OrderedDict
from collections.abc import Iterable, Mapping

from ... import Tensor
from ..parameter import Parameter
from .container import pairs, position
from .module import Module


class _ParameterHolder(Module):
    """What ParameterList and ParameterDict share: tensors become Parameters, other values are plain attributes."""

    def forward(self, *args, **kwargs):
        raise RuntimeError(f"{type(self).__name__} holds parameters and computes nothing: take them by index or name")

    def _hold(self, name, value):
        if isinstance(value, Tensor) and not isinstance(value, Parameter):
            value = Parameter(value)
        setattr(self, name, value)

    def _entries(self):
        raise NotImplementedError

    def extra_repr(self):
        return "\n".join(f"  ({key}): {_describe(value, self._kind_of(value))}" for key, value in self._entries())

    def _kind_of(self, value):
        return getattr(value, "dtype", None)


def _describe(value, element):
    if not isinstance(value, Tensor):
        return f"Object of type: {type(value).__name__}"
    kind = "Parameter" if isinstance(value, Parameter) else "Tensor"
    size = "x".join(str(n) for n in value.size())
    place = f" ({value.device})" if value.device.type == "cuda" else ""
    return f"{kind} containing: [{element} of size {size}{place}]"


class ParameterList(_ParameterHolder):
    """A list of parameters that registers them; tensors put in become Parameters.

    >>> import flambeau
    >>> weights = flambeau.nn.ParameterList([flambeau.zeros(2), flambeau.zeros(3)])
    >>> [len(w) for w in weights]
    [2, 3]
    """

    def __init__(self, values=None):
        super().__init__()
        self._size = 0
        if values is not None:
            self.extend(values)

    def _entries(self):
        return list(enumerate(self))

    def _get_abs_string_index(self, index):
        return str(position(index, len(self)))

    def __getitem__(self, index):
        if isinstance(index, slice):
            return type(self)([self[k] for k in range(len(self))[index]])
        return getattr(self, self._get_abs_string_index(index))

    def __setitem__(self, index, value):
        self._hold(self._get_abs_string_index(index), value)

    def __len__(self):
        return self._size

    def __iter__(self):
        return iter([self[k] for k in range(len(self))])

    def __iadd__(self, values):
        return self.extend(values)

    def __dir__(self):
        return [name for name in super().__dir__() if not name.isdigit()]

    def append(self, value):
        """Add a value at the end; returns self."""
        self._hold(str(self._size), value)
        self._size += 1
        return self

    def extend(self, values):
        """Add several values at the end; returns self."""
        if not isinstance(values, Iterable) or isinstance(values, Tensor):
            raise TypeError(f"ParameterList.extend: expected an iterable of parameters, got {type(values).__name__}")
        for value in list(values):
            self.append(value)
        return self


class MissingKey(KeyError, AttributeError):
    """A ParameterDict has no such key; PyTorch's, which looks among its attributes, says AttributeError."""


class ParameterDict(_ParameterHolder):
    """A dict of parameters that registers them; tensors put in become Parameters.

    >>> import flambeau
    >>> list(flambeau.nn.ParameterDict({"scale": flambeau.ones(1)}))
    ['scale']
    """

    def __init__(self, parameters=None):
        super().__init__()
        self._keys = {}
        if parameters is not None:
            self.update(parameters)

    def _entries(self):
        return list(self.items())

    def _kind_of(self, value):
        return value.type() if isinstance(value, Tensor) else None

    def _attribute(self, key):
        if not isinstance(key, str):
            raise TypeError(
                f"ParameterDict: keys must be strings, got {type(key).__name__}"
            )
        return key

    def __getitem__(self, key):
        if key not in self._keys:
            raise MissingKey(key)
        return getattr(self, key)

    def __setitem__(self, key, value):
        self._hold(self._attribute(key), value)
        self._keys[key] = None

    def __delitem__(self, key):
        del self._keys[key]
        delattr(self, key)

    def __len__(self):
        return len(self._keys)

    def __iter__(self):
        return iter(self._keys)

    def __reversed__(self):
        return reversed(list(self._keys))

    def __contains__(self, key):
        return key in self._keys

    def keys(self):
        return self._keys.keys()

    def items(self):
        return [(key, self[key]) for key in self._keys]

    def values(self):
        return [self[key] for key in self._keys]

    def get(self, key, default=None):
        """The value at `key`, or `default`."""
        return self[key] if key in self._keys else default

    def setdefault(self, key, default=None):
        """The value at `key`, which is `default` if there was none."""
        if key not in self:
            self[key] = default
        return self[key]

    def clear(self):
        """Remove all."""
        for key in list(self._keys):
            del self[key]

    def pop(self, key):
        """Remove the value at `key` and return it."""
        value = self[key]
        del self[key]
        return value

    def popitem(self):
        """Remove and return the pair (key, value) added last."""
        if not self._keys:
            raise KeyError("popitem: the ParameterDict is empty")
        key = next(reversed(self._keys))
        return key, self.pop(key)

    def copy(self):
        """A new ParameterDict with the same values."""
        return ParameterDict(OrderedDict(self.items()))

    def fromkeys(self, keys, default=None):
        """A new ParameterDict with `default` at every key."""
        return ParameterDict((key, default) for key in keys)

    def update(self, parameters):
        """Add or replace from a mapping or from pairs (key, value). The keys of a mapping that is neither an
        OrderedDict nor a ParameterDict are sorted first."""
        entries = pairs("ParameterDict", parameters)
        if isinstance(parameters, Mapping) and not isinstance(parameters, OrderedDict):
            entries.sort()
        for key, value in entries:
            self[key] = value

    def __or__(self, other):
        result = self.copy()
        result.update(other)
        return result

    def __ror__(self, other):
        result = ParameterDict(other)
        result.update(self)
        return result

    def __ior__(self, other):
        self.update(other)
        return self
