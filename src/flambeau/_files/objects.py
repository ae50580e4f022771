"""Objects of classes: how they are taken apart for a file, and rebuilt from it by `__new__` and their attributes.

Rebuilding runs no code of the class, since the file chooses both the class and the attributes: neither `__init__`, nor
a `__new__` or `__setstate__` written in Python, nor properties or `__setattr__`. Only what the user has named as safe
may run.
"""

import enum
from collections import OrderedDict, defaultdict, deque
from types import BuiltinFunctionType, FunctionType, MemberDescriptorType

import flambeau

from .. import _C
from .._places import is_ours
from .._shown import clipped, shown
from . import modules
from .extent import PickleError
from .pickle_reader import Allowed
from .pickle_writer import Global, Reduce
from .safe import find, modern, name_of, torch_name, trusted

_BASES = (_C.ModuleBase, OrderedDict, defaultdict, dict, list, set, frozenset, tuple, deque, str, bytes, int, float)
_EMPTY = (_C.ModuleBase, OrderedDict, defaultdict, dict, list, set, deque)  # filled later; others are made of values


class Refused(PickleError):
    """A name that the file may not use; loading it would need to trust or to import something."""


class Objects:
    """The classes of one load, and the objects made of them so far."""

    def __init__(self, weights_only):
        self.weights_only = weights_only
        self.trusted = trusted()
        self.setters = {}  # id of an object of this stream -> what gives it its attributes
        self.made = []     # those objects: their ids must stay theirs

    def fresh(self, value, setter):
        """Notes that this stream has made the object, so that it may be given attributes."""
        self.setters[id(value)] = setter
        self.made.append(value)
        return value

    def restore(self, target, state):
        setter = self.setters.get(id(target))
        if setter is None:
            raise PickleError(f"attributes for a {type(target).__name__}")
        setter(target, state)

    def check(self):
        """What can be said only when everything is there: the tables of modules hold what they must."""
        for value in self.made:
            if isinstance(value, flambeau.nn.Module):
                modules.check(value)

    def entry(self, module, name):
        """The Allowed of a name that is no plain data."""
        full = f"{module}.{name}"
        now = modern(module, name)
        known = self.trusted.get(full, self.trusted.get(".".join(now)))
        if known is not None:
            return self.trusted_entry(known)
        if full == "torch._C._VariableFunctionsClass":
            return Allowed(value=_C.Op)
        found = find(*now)
        if self.weights_only:
            raise Refused(_not_plain(module, name, found))
        return self.imported_entry(module, name, found)

    def trusted_entry(self, known):
        if not isinstance(known, type):
            return Allowed(call=known, value=known)
        if issubclass(known, enum.Enum):
            return Allowed(call=lambda *args: known(*args), value=known)
        return Allowed(
            call=lambda *args: self.fresh(known(*args), self.set_trusted), value=known,
            new=lambda *args: self.fresh(_new(known, args), self.set_trusted))

    def imported_entry(self, module, name, found):
        if isinstance(found, _C.Op) or (isinstance(found, FunctionType) and _is_ours(found)):
            # functions that put together what a file describes, and run nothing of it, say so
            return Allowed(call=found, value=found) if getattr(found, "_restores", False) else Allowed(value=found)
        if not isinstance(found, type):
            raise Refused(_not_here(module, name, found))
        if issubclass(found, enum.Enum):
            return Allowed(call=lambda *args: member(found, *args), value=found)
        if hasattr(found, "__del__") and not _is_ours(found):
            raise Refused(f"it names {_full(module, name)}, whose objects run code when they are deleted (__del__). If "
                          f"you trust the file, name the class: {_hint(name)}")
        if issubclass(found, tuple) and found.__module__ == "flambeau.return_types":
            return Allowed(call=lambda items: found(items), value=found)
        return Allowed(value=found, new=lambda *args: self.fresh(self.make(found, args), self.set))

    def make(self, kind, args):
        made = _made_by(kind, args)
        if made is None:
            raise Refused(f"it makes a {clipped(kind.__qualname__, 100)} with arguments, which would run its code. If "
                          f"you trust the file, name the class: {_hint(kind.__qualname__)}")
        return made

    # --- attributes

    def set_trusted(self, target, state):
        """As pickle does it: the class's own code, where it has some."""
        own = getattr(type(target), "__setstate__", None)
        if own is None or isinstance(target, flambeau.nn.Module):
            self.set(target, state, trusts=True)
        else:
            own(target, state)

    def set(self, target, state, trusts=False):
        kind = type(target)
        attributes, slots = state if isinstance(state, tuple) and len(state) == 2 else (state, None)
        own = next((c for c in kind.__mro__ if "__setstate__" in vars(c)), None)
        if own is not None and vars(own)["__setstate__"].__module__ == "dataclasses":
            attributes, slots = None, dict(zip(own.__dataclass_fields__, _checked_list(state)))
        elif own is not None and not _is_ours(own):
            if not trusts:
                raise Refused(f"it restores a {clipped(kind.__qualname__, 100)} by the class's own __setstate__. If "
                              f"you trust the file, name the class: {_hint(kind.__qualname__)}")
            own.__setstate__(target, state)
            return
        if isinstance(target, flambeau.nn.Module):
            attributes = modules.from_torch(target, attributes)
        _set_attributes(target, attributes)
        _set_slots(target, slots)
        if own is not None and _is_ours(own) and isinstance(attributes, dict):
            own.__setstate__(target, attributes)


def _set_attributes(target, attributes):
    if attributes is None:
        return
    if not isinstance(attributes, dict) or not all(type(name) is str for name in attributes):
        raise PickleError(f"attributes of a {type(target).__name__} that are no dict of names")
    if not hasattr(target, "__dict__"):
        raise PickleError(f"attributes for a {type(target).__name__}, which has none")
    dict.update(target.__dict__, attributes)


def _set_slots(target, slots):
    if slots is None:
        return
    if not isinstance(slots, dict):
        raise PickleError(f"slots of a {type(target).__name__} that are no dict")
    for name, value in slots.items():
        found = next((vars(c)[name] for c in type(target).__mro__ if name in vars(c)), None)
        if type(found) is not MemberDescriptorType:
            raise PickleError(f"attribute {shown(name)} of a {type(target).__name__}, which is none of its slots")
        found.__set__(target, value)


def _checked_list(state):
    if not isinstance(state, (list, tuple)):
        raise PickleError(f"the fields of a dataclass are {shown(state)}, expected a list")
    return state


def _made_by(kind, args):
    """An object by the `__new__` of the type that gives it its memory; None where there are arguments for another."""
    base = next((base for base in _BASES if issubclass(kind, base)), object)
    if base in _EMPTY or base is object:
        return base.__new__(kind) if not args else None
    if base is tuple:
        fields = getattr(kind, "_fields", None)
        if isinstance(fields, tuple):
            return tuple.__new__(kind, args) if len(args) == len(fields) else None
    if len(args) == 1 and type(args[0]) is base:
        return base.__new__(kind, args[0])
    return None


def _new(kind, args):
    """An object of a trusted class, whose own `__new__` runs where there are arguments for it."""
    made = _made_by(kind, args)
    return kind.__new__(kind, *args) if made is None else made  # a module without its attributes has no truth value


def member(kind, value):
    """The member of an enumeration that has a value; combinations of flags too."""
    try:
        if value in kind._value2member_map_:
            return kind._value2member_map_[value]
    except TypeError:  # values that are lists or dicts are compared
        pass
    found = next((m for m in kind.__members__.values() if type(m._value_) is type(value) and m._value_ == value), None)
    if found is None and issubclass(kind, enum.Flag) and kind._missing_.__func__ is enum.Flag._missing_.__func__:
        found = kind(value) if type(value) is int else None
    if found is None:
        raise PickleError(f"{shown(value)} is no value of the enumeration {clipped(kind.__qualname__, 100)}")
    return found


def attribute(owner, name):
    """`getattr` of a stream, which knows members of enumerations and operators."""
    if type(name) is str and isinstance(owner, type) and issubclass(owner, enum.Enum) and name in owner.__members__:
        return owner.__members__[name]
    found = vars(flambeau).get(name) if owner is _C.Op and type(name) is str else None
    if not isinstance(found, _C.Op):
        raise PickleError(f"the attribute {shown(name)} of {shown(owner)}")
    return found


# --- refusals


def _is_ours(obj):
    return is_ours(obj.__module__)


def _full(module, name):
    return f"{clipped(module, 100)}.{clipped(name, 100)}"


def _hint(name):
    return f"with flambeau.serialization.safe_globals([{clipped(name.rpartition('.')[2], 100)}]): flambeau.load(…)"


def _not_plain(module, name, found):
    start = f"it names {_full(module, name)}, which is not plain data. No code is run from files; "
    if isinstance(found, type):
        return start + ("weights_only=False rebuilds objects of imported classes from their attributes, or name the "
                        f"class: {_hint(name)}")
    return start + (f"save the object's state_dict() instead or, if you trust the file, import {clipped(module, 100)} "
                    f"and name it: {_hint(name)}")


def _not_here(module, name, found):
    start = f"it names {_full(module, name)}, which is not plain data"
    if found is None:
        return start + (f", and nothing of that name is imported: import {clipped(module, 100)} first (no file makes "
                        "load import anything), or save the object's state_dict() instead")
    return start + f" but {shown(found)}, which would run. If you trust the file, name it: {_hint(name)}"


# --- taking apart


def reduced(obj, place):
    """The Global or Reduce of an object that is no plain data; None where Python cannot take it apart either."""
    if isinstance(obj, (type, FunctionType, BuiltinFunctionType, _C.Op)):
        found = name_of(obj)
        if found is None:
            raise TypeError(f"{place} is {shown(obj)}, which cannot be stored as data: a file can only name what a "
                            "module has under its own name, no lambda and nothing made inside a function")
        return Global(*torch_name(*found))
    if obj is Ellipsis or obj is NotImplemented:
        return Global("__builtin__", str(obj))
    if type(obj) in (range, slice):
        name = "xrange" if type(obj) is range else "slice"
        return Reduce(Global("__builtin__", name), (obj.start, obj.stop, obj.step))
    try:
        parts = obj.__reduce_ex__(2)
    except (TypeError, AttributeError, NotImplementedError, RuntimeError):
        return None
    if isinstance(parts, str) or len(parts) > 5:
        return None
    return _reduce(obj, place, *parts)


def _reduce(obj, place, function, args, state=None, extend=None, items=None):
    made_by_new = getattr(function, "__name__", "") == "__newobj__"
    if made_by_new:
        function, args = args[0], args[1:]
    elif name_of(function) is None:
        return None
    known = name_of(function)
    if known is None:
        raise TypeError(f"{place} is a {type(obj).__qualname__}, which cannot be stored as data: its class is not "
                        "found under its own name in its module; define it at the top of the module")
    if isinstance(obj, flambeau.nn.Module) and isinstance(state, dict):
        state = modules.to_torch(obj, state)
    return Reduce(Global(*torch_name(*known)), args, items=items, state=state, extend=extend, new=made_by_new)
