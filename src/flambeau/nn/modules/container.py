"""Modules that hold modules or parameters: Sequential, ModuleList, ModuleDict, ParameterList, ParameterDict."""

import operator
from collections import OrderedDict
from collections.abc import Iterable

from ... import Tensor
from ..parameter import Parameter
from .module import Module


def _position(index, size):
    """`index` counted from the start, checked."""
    index = operator.index(index)
    if not -size <= index < size:
        raise IndexError(f"index {index} is out of range for {size} entries")
    return index % size


class _Numbered(Module):
    """What Sequential and ModuleList share: submodules named "0", "1", … and reached as in a list."""

    def _name_at(self, index):
        return list(self._modules)[_position(index, len(self))]

    def _set_all(self, modules):
        self._modules.clear()
        for k, module in enumerate(modules):
            self.add_module(str(k), module)

    def __setitem__(self, index, module):
        setattr(self, self._name_at(index), module)

    def __delitem__(self, index):
        modules = list(self._modules.values())
        if not isinstance(index, slice):
            index = _position(index, len(self))
        del modules[index]
        self._set_all(modules)

    def __len__(self):
        return len(self._modules)

    def __iter__(self):
        return iter(self._modules.values())

    def __dir__(self):
        return [name for name in super().__dir__() if not name.isdigit()]

    def append(self, module):
        """Add a module at the end; returns self."""
        self.add_module(str(len(self)), module)
        return self

    def extend(self, modules):
        """Add several modules at the end; returns self."""
        for module in list(modules):
            self.append(module)
        return self

    def pop(self, key):
        """Remove the module at `key` and return it."""
        module = self[key]
        del self[key]
        return module

    def _insert(self, index, module):
        modules = list(self._modules.values())
        modules.insert(index, module)
        self._set_all(modules)


class Sequential(_Numbered):
    """Modules called one after the other, each on the result of the one before. Takes modules or an OrderedDict.

    >>> import flambeau
    >>> from flambeau import nn
    >>> nn.Sequential(nn.Linear(2, 3), nn.ReLU())
    Sequential(
      (0): Linear(in_features=2, out_features=3, bias=True)
      (1): ReLU()
    )
    """

    def __init__(self, *args):
        super().__init__()
        named = args[0].items() if len(args) == 1 and isinstance(args[0], OrderedDict) else enumerate(args)
        for name, module in named:
            self.add_module(str(name), module)

    def forward(self, input):
        for module in self._modules.values():
            input = module(input)
        return input

    def __getitem__(self, index):
        if isinstance(index, slice):
            return type(self)(OrderedDict(list(self._modules.items())[index]))
        return self._modules[self._name_at(index)]

    def insert(self, index, module):
        """Put a module before the one at `index`; returns self."""
        if not isinstance(module, Module):
            raise AssertionError(f"module should be of type: {Module}")
        if not -len(self) <= index <= len(self):
            raise IndexError(f"Index out of range: {index}")
        self._insert(index + len(self) if index < 0 else index, module)
        return self

    def __add__(self, other):
        return Sequential(*self)._join(other, "add")

    def __iadd__(self, other):
        return self._join(other, "add")

    def _join(self, other, verb):
        if not isinstance(other, Sequential):
            raise ValueError(f"{verb} operator supports only objects of Sequential class, but {type(other)} is given.")
        return self.extend(other)

    def __mul__(self, times):
        return Sequential(*_repeated(self, times))

    __rmul__ = __mul__

    def __imul__(self, times):
        modules = _repeated(self, times)
        return self.extend(modules[len(self) :])


def _repeated(modules, times):
    if not isinstance(times, int):
        raise TypeError(f"unsupported operand type(s) for *: {type(modules)} and {type(times)}")
    if times <= 0:
        raise ValueError(f"Non-positive multiplication factor {times} for {type(modules)}")
    return list(modules) * times


class ModuleList(_Numbered):
    """A list of modules that registers them; it has no forward of its own.

    >>> from flambeau import nn
    >>> nn.ModuleList([nn.ReLU(), nn.ReLU()])
    ModuleList(
      (0-1): 2 x ReLU()
    )
    """

    def __init__(self, modules=None):
        super().__init__()
        if modules is not None:
            self.extend(modules)

    def __getitem__(self, index):
        if isinstance(index, slice):
            return type(self)(list(self._modules.values())[index])
        return self._modules[self._name_at(index)]

    def insert(self, index, module):
        """Put a module before the one at `index`."""
        self._insert(index, module)

    def extend(self, modules):
        """Add several modules at the end; returns self."""
        if not isinstance(modules, Iterable):
            raise TypeError(f"ModuleList.extend should be called with an iterable, but got {type(modules).__name__}")
        return super().extend(modules)

    def __iadd__(self, modules):
        return self.extend(modules)

    def __add__(self, other):
        return ModuleList([*self, *other])

    def __repr__(self):
        groups = []  # [first, last, text]: equal neighbours are shown once
        for k, module in enumerate(self):
            text = repr(module)
            if groups and groups[-1][2] == text:
                groups[-1][1] = k
            else:
                groups.append([k, k, text])
        lines = [
            f"({first}): {text}" if first == last else f"({first}-{last}): {last - first + 1} x {text}"
            for first, last, text in groups
        ]
        if not lines:
            return f"{self._get_name()}()"
        body = "".join("\n  " + line.replace("\n", "\n  ") for line in lines)
        return f"{self._get_name()}({body}\n)"


class ModuleDict(Module):
    """A dict of modules that registers them, in order of insertion; keys are strings.

    >>> from flambeau import nn
    >>> layers = nn.ModuleDict({"act": nn.ReLU()})
    >>> layers["act"]
    ReLU()
    """

    def __init__(self, modules=None):
        super().__init__()
        if modules is not None:
            self.update(modules)

    def __getitem__(self, key):
        return self._modules[key]

    def __setitem__(self, key, module):
        self.add_module(key, module)

    def __delitem__(self, key):
        del self._modules[key]

    def __len__(self):
        return len(self._modules)

    def __iter__(self):
        return iter(self._modules)

    def __contains__(self, key):
        return key in self._modules

    def clear(self):
        """Remove all."""
        self._modules.clear()

    def pop(self, key):
        """Remove the module at `key` and return it."""
        return self._modules.pop(key)

    def keys(self):
        return self._modules.keys()

    def items(self):
        return self._modules.items()

    def values(self):
        return self._modules.values()

    def update(self, modules):
        """Add or replace from a mapping or from pairs (key, module)."""
        for key, module in _pairs("ModuleDict", modules):
            self[key] = module


def _pairs(name, entries):
    if not isinstance(entries, Iterable):
        raise TypeError(
            f"{name}.update should be called with an iterable of key/value pairs, but got {type(entries).__name__}"
        )
    if hasattr(entries, "items"):
        return list(entries.items())
    result = []
    for k, pair in enumerate(entries):
        if not isinstance(pair, Iterable):
            raise TypeError(f"{name} update sequence element #{k} should be Iterable; is {type(pair).__name__}")
        pair = tuple(pair)
        if len(pair) != 2:
            raise ValueError(f"{name} update sequence element #{k} has length {len(pair)}; 2 is required")
        result.append(pair)
    return result


class _ParameterHolder(Module):
    """What ParameterList and ParameterDict share: tensors become Parameters, other values are plain attributes."""

    def forward(self, *args, **kwargs):
        raise RuntimeError(f"{type(self).__name__} should not be called.")

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

    def __getitem__(self, index):
        if isinstance(index, slice):
            return type(self)([self[k] for k in range(len(self))[index]])
        return getattr(self, str(_position(index, len(self))))

    def __setitem__(self, index, value):
        self._hold(str(_position(index, len(self))), value)

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
            raise TypeError(f"ParameterList.extend should be called with an iterable, but got {type(values).__name__}")
        for value in list(values):
            self.append(value)
        return self


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
                "Index given to ParameterDict cannot be used as a key as it is not a string "
                f"(type is '{type(key).__name__}')."
            )
        return key

    def __getitem__(self, key):
        if key not in self._keys:
            raise KeyError(key)
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
        """Add or replace from a mapping or from pairs (key, value); a plain mapping's keys are taken in order."""
        for key, value in _pairs("ParameterDict", parameters):
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
