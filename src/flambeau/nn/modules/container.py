"""Modules that hold modules: Sequential, ModuleList, ModuleDict."""

import operator
import warnings
from collections import OrderedDict
from collections.abc import Iterable

from ..._shown import shown
from .module import Module


def position(index, size):
    """`index` counted from the start, checked."""
    index = operator.index(index)
    if not -size <= index < size:
        raise IndexError(f"index {shown(index)} is outside a container of {shown(size)}: {-size} to {size - 1}")
    return index % size


class Container(Module):
    """A Module with the given submodules and no forward, from the time before Module took them by assignment; it warns
    and says so.

    >>> import warnings, flambeau
    >>> with warnings.catch_warnings(action="ignore"):
    ...     held = flambeau.nn.Container(first=flambeau.nn.ReLU())
    >>> held.first
    ReLU()
    """

    def __init__(self, **kwargs):
        super().__init__()
        warnings.warn("Container: subclass Module, and assign its submodules to it", FutureWarning, stacklevel=2)
        for name, module in kwargs.items():
            self.add_module(name, module)


class _Numbered(Module):
    """What Sequential and ModuleList share: submodules named "0", "1", … and reached as in a list."""

    def _own_name_at(self, index):
        return list(self._modules)[position(index, len(self))]

    _get_abs_string_index = _own_name_at  # what lists of packages that extend these call

    def _own_set_all(self, modules):
        self._modules.clear()
        for k, module in enumerate(modules):
            self.add_module(str(k), module)

    def __setitem__(self, index, module):
        setattr(self, self._own_name_at(index), module)

    def __delitem__(self, index):
        modules = list(self._modules.values())
        if not isinstance(index, slice):
            index = position(index, len(self))
        del modules[index]
        self._own_set_all(modules)

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

    def _own_insert(self, index, module):
        modules = list(self._modules.values())
        modules.insert(index, module)
        self._own_set_all(modules)


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
        return self._modules[self._own_name_at(index)]

    def insert(self, index, module):
        """Put a module before the one at `index`; returns self."""
        if not isinstance(module, Module):
            raise AssertionError(f"Sequential.insert: a Module is expected, not a {type(module).__name__}")
        if not -len(self) <= index <= len(self):
            raise IndexError(f"Sequential.insert: there is no place {shown(index)} among {len(self)} modules")
        self._own_insert(index + len(self) if index < 0 else index, module)
        return self

    def __add__(self, other):
        return Sequential(*self)._own_join(other, "add")

    def __iadd__(self, other):
        return self._own_join(other, "add")

    def _own_join(self, other, verb):
        if not isinstance(other, Sequential):
            raise ValueError(f"Sequential.{verb}: expected another Sequential, got {type(other).__name__}")
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
        raise ValueError(f"Sequential: modules can be repeated once or more, not {shown(times)} times")
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
        return self._modules[self._own_name_at(index)]

    def insert(self, index, module):
        """Put a module before the one at `index`."""
        self._own_insert(index, module)

    def extend(self, modules):
        """Add several modules at the end; returns self."""
        if not isinstance(modules, Iterable):
            raise TypeError(f"ModuleList.extend: expected an iterable of modules, got {type(modules).__name__}")
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
        for key, module in pairs("ModuleDict", modules):
            self[key] = module


def pairs(name, entries):
    """What `update` of the dict-like module `name` was given, as a list of (key, value)."""
    if not isinstance(entries, Iterable):
        raise TypeError(
            f"{name}.update: expected a mapping or pairs (key, value), got {type(entries).__name__}"
        )
    if hasattr(entries, "items"):
        return list(entries.items())
    result = []
    for k, pair in enumerate(entries):
        if not isinstance(pair, Iterable):
            raise TypeError(f"{name}.update: entry {k} must be a pair of name and value, not a {type(pair).__name__}")
        pair = tuple(pair)
        if len(pair) != 2:
            raise ValueError(f"{name}.update: entry {k} has {len(pair)} elements; a pair (key, value) was expected")
        result.append(pair)
    return result
