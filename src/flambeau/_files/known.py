"""The standard library's values that a file may hold: paths, dates, numbers, namespaces, each made of checked parts."""

import argparse
import datetime
import decimal
import fractions
import pathlib
import uuid
from collections import deque
from types import SimpleNamespace

from .._shown import shown
from .extent import PickleError
from .objects import attribute
from .pickle_reader import Allowed

_LONGEST = 1 << 16  # parts of a path, digits of a decimal number: parsing costs more than their length
_PATHS = ("PurePath", "PurePosixPath", "PureWindowsPath", "Path", "PosixPath", "WindowsPath")


def checked(value, kinds):
    if not isinstance(value, kinds):
        names = " or ".join(kind.__name__ for kind in (kinds if isinstance(kinds, tuple) else (kinds,)))
        raise PickleError(f"{shown(value)} where a {names} is expected")
    return value


def whole(*values):
    """Checks that these are ints that C code can take."""
    for value in values:
        if type(value) is not int or value.bit_length() > 62:
            raise PickleError(f"{shown(value)} where a number is expected")
    return values


def short(text):
    if len(checked(text, str)) > _LONGEST:
        raise PickleError(f"a text of {len(text)} characters where a short one is expected")
    return text


def _path(kind):
    """Paths of another system become pure ones, which have no files."""
    made = getattr(pathlib, kind)
    if kind in ("PosixPath", "WindowsPath") and not issubclass(type(pathlib.Path()), made):
        made = getattr(pathlib, "Pure" + kind)
    return lambda *parts: made(*map(short, parts))


def _range(*bounds):
    return range(*(checked(bound, int) for bound in bounds))


def _slice(*bounds):
    return slice(*bounds)


def _deque(items=(), maxlen=None):
    if maxlen is not None:
        whole(maxlen)
    return deque(checked(items, (list, tuple)), maxlen)


def _date(data):
    return datetime.date(checked(data, bytes))


def _moment(kind):
    def make(data, zone=None):
        if zone is None:
            return kind(checked(data, bytes))
        return kind(checked(data, bytes), checked(zone, datetime.timezone))
    return make


def _timedelta(*parts):
    return datetime.timedelta(*whole(*parts))


def _timezone(offset, *name):
    return datetime.timezone(checked(offset, datetime.timedelta), *map(short, name))


def _decimal(text):
    return decimal.Decimal(short(text))


def _fraction(*parts):
    if len(parts) == 1:
        return fractions.Fraction(*map(int, _ratio(short(parts[0]))))
    return fractions.Fraction(*(checked(part, int) for part in parts))


def _ratio(text):
    """Not everything that Fraction reads: "1e999999999" would need the memory of that number."""
    top, _, bottom = text.partition("/")
    if len(text) > 4000:
        raise PickleError(f"a fraction of {len(text)} digits")
    return top, bottom or "1"


def _set_number(value, state):
    number = checked(state, dict).get("int")
    if type(number) is not int or not 0 <= number < 1 << 128:
        raise PickleError(f"a UUID of the number {shown(number)}")
    object.__setattr__(value, "int", number)
    object.__setattr__(value, "is_safe", uuid.SafeUUID.unknown)


def _set_names(value, state):
    if not isinstance(state, dict) or not all(type(name) is str for name in state):
        raise PickleError("a namespace whose attributes are no dict of names")
    vars(value).update(state)


def table(objects):
    """{name: Allowed} for one load, whose `objects` note what may be given attributes."""
    space = Allowed(value=SimpleNamespace, call=lambda: objects.fresh(SimpleNamespace(), _set_names))
    names = {
        "argparse.Namespace": Allowed(value=argparse.Namespace,
                                      new=lambda: objects.fresh(argparse.Namespace(), _set_names)),
        "types.SimpleNamespace": space,
        "uuid.UUID": Allowed(value=uuid.UUID, new=lambda: objects.fresh(uuid.UUID(int=0), _set_number)),
        "builtins.getattr": Allowed(call=attribute), "__builtin__.getattr": Allowed(call=attribute),
    }
    return _PLAIN | names


def _plain():
    names = {
        "builtins.range": Allowed(call=_range, value=range), "builtins.slice": Allowed(call=_slice, value=slice),
        "builtins.Ellipsis": Allowed(value=...), "builtins.NotImplemented": Allowed(value=NotImplemented),
        "collections.deque": Allowed(call=_deque, value=deque),
        "datetime.date": Allowed(call=_date, value=datetime.date),
        "datetime.time": Allowed(call=_moment(datetime.time), value=datetime.time),
        "datetime.datetime": Allowed(call=_moment(datetime.datetime), value=datetime.datetime),
        "datetime.timedelta": Allowed(call=_timedelta, value=datetime.timedelta),
        "datetime.timezone": Allowed(call=_timezone, value=datetime.timezone),
        "decimal.Decimal": Allowed(call=_decimal, value=decimal.Decimal),
        "fractions.Fraction": Allowed(call=_fraction, value=fractions.Fraction),
    }
    for old, new in {"xrange": "range", "slice": "slice", "Ellipsis": "Ellipsis",
                     "NotImplemented": "NotImplemented"}.items():
        names["__builtin__." + old] = names["builtins." + new]
    names["__builtin__.range"] = names["builtins.range"]
    for kind in _PATHS:
        for module in ("pathlib", "pathlib._local"):
            names[f"{module}.{kind}"] = Allowed(call=_path(kind), value=getattr(pathlib, kind))
    return names


_PLAIN = _plain()
HASHABLE = frozenset({datetime.date, datetime.time, datetime.datetime, datetime.timedelta, datetime.timezone,
                      decimal.Decimal, fractions.Fraction, uuid.UUID, pathlib.PurePosixPath, pathlib.PureWindowsPath,
                      type(pathlib.Path())})
