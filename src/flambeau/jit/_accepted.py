"""Which values of Python a program takes for its types, and what it makes of them: of a whole number a float."""

import ast
import functools
import inspect
import typing

import flambeau

from .. import _C
from .._shown import shown
from ._comments import KNOWN, annotations_of
from ._containers import ScriptDict, ScriptList
from ._errors import Error
from ._state import OVERLOADED
from ._types import NotScriptable, resolved, type_text
from .annotations import Repeated


class Unfit(Exception):
    """A value that is not of the type."""


def _stands_in(x):
    """Whether a value stands for one that is not known: a size of a trace, a Proxy."""
    return isinstance(x, (flambeau.SymInt, flambeau.SymFloat, flambeau.SymBool)) or hasattr(x, "__torch_function__")


def _tensor(x):
    if x is None or isinstance(x, _C.Tensor) or _stands_in(x):
        return x
    raise Unfit


def _number(kind, method, refused=()):
    """What makes a number of `kind`: of numbers of other libraries, and of tensors of one element, too."""
    def make(x):
        if type(x) is kind:
            return x
        if isinstance(x, _C.Tensor):
            if x.numel() != 1:
                raise Unfit
            return x if hasattr(x, "fake_mode") else kind(x.item())
        if _stands_in(x):
            return x
        if hasattr(x, method) and not isinstance(x, (str, *refused)):
            return kind(x)
        raise Unfit
    return make


def _whole(x, make=_number(int, "__int__", (float,))):
    """Numbers of dtypes, layouts and memory formats are those themselves here."""
    return x if isinstance(x, (_C.dtype, _C.memory_format)) else make(x)


def _any_complex(x):
    return x if isinstance(x, complex) else complex(_PLAIN["float"](x))


def _exactly(*kinds):
    def take(x):
        if isinstance(x, kinds):
            return x
        raise Unfit
    return take


def _device(x):
    return flambeau.device(x) if isinstance(x, (str, int)) else _exactly(_C.device)(x)


#: {type: what takes a value of it, or raises Unfit}
_PLAIN = {"Tensor": _tensor, "int": _whole, "float": _number(float, "__float__"), "bool": _number(bool, "__bool__"),
          "complex": _any_complex, "str": _exactly(str, bytes), "Device": _device, "NoneType": _exactly(type(None))}


def way_of(kind, own, copies=False):
    """What takes a value of the type that the node `kind` writes; None where every value will do.

    own     what takes a value of a class that the program has, of the names in it; or None
    copies  lists and dicts become others, which the program may change without changing those that were given
    """
    if not isinstance(kind, ast.Subscript):
        return _PLAIN.get(kind.id) if isinstance(kind, ast.Name) else own(kind)
    parts = kind.slice.elts if isinstance(kind.slice, ast.Tuple) else [kind.slice]
    make = _MADE.get(getattr(kind.value, "attr", getattr(kind.value, "id", "")))
    if make is None:
        return None
    return make(copies, *[way_of(part, own, copies) for part in parts])


def _each(way, items):
    return list(items) if way is None else [way(item) for item in items]


def _list(copies, way):
    def take(x):
        if isinstance(x, (ScriptList, _C.Tensor)) or not isinstance(x, (list, tuple)):
            return _exactly(ScriptList)(x)
        made = _each(way, x)
        is_same = isinstance(x, list) and all(a is b for a, b in zip(made, x, strict=True))
        return x if is_same and not copies else made
    return take


def _dict(copies, key_way, way):
    def take(x):
        if isinstance(x, ScriptDict) or not isinstance(x, dict):
            return _exactly(ScriptDict)(x)
        made = dict(zip(_each(key_way, x.keys()), _each(way, x.values()), strict=True))
        is_same = all(made[key] is x[key] for key in made if key in x) and made.keys() == x.keys()
        return x if is_same and not copies else type(x)(made)
    return take


def _tuple(_, *ways):
    def take(x):
        if not isinstance(x, (tuple, list)) or len(x) != len(ways):
            raise Unfit
        made = [item if way is None else way(item) for way, item in zip(ways, x, strict=True)]
        is_same = isinstance(x, tuple) and all(a is b for a, b in zip(made, x, strict=True))
        return x if is_same else tuple(made)
    return take


def _optional(_, way):
    return None if way is None else lambda x: None if x is None else way(x)


def _union(_, *ways):
    """One of several: of the type that the value has already, before one that it can become."""
    if None in ways:
        return None

    def take(x):
        found = []
        for way in ways:
            try:
                found.append(way(x))
            except Unfit:
                continue
        if not found:
            raise Unfit
        return next((made for made in found if type(made) is type(x)), found[0])
    return take


_MADE = {"List": _list, "Dict": _dict, "Tuple": _tuple, "Optional": _optional, "Union": _union}


# ---- calls -----------------------------------------------------------------------------------------------------------

class Taken:
    """The arguments of a function: their names, what takes each, and the types that they have."""

    def __init__(self, called, names, ways, kinds):
        self.called, self.names, self.kinds = called, names, kinds
        self.ways = {name: way for name, way in ways.items() if way is not None}
        self.in_order = [self.ways.get(name) for name in names]
        exact = {name: _EXACT.get(kinds[name], Taken) for name in self.ways}  # no argument is a Taken: it is looked at
        self.exact = [exact.get(name) for name in names]

    def at_once(self):
        """({argument: (the class of values that fit as they are, what takes others)}, the Taken of other arguments)."""
        found = {name: (_EXACT[kind], functools.partial(self.one, name))
                 for name, kind in self.kinds.items() if kind in _EXACT and name in self.ways}
        rest = {name: way for name, way in self.ways.items() if name not in found}
        return found, Taken(self.called, self.names, rest, self.kinds)

    def __call__(self, args, kwargs):
        """(args, kwargs) as the program takes them; Error where one does not fit."""
        if not kwargs:
            for x, exact in zip(args, self.exact):
                if exact is not None and type(x) is not exact:
                    break
            else:
                return args, kwargs
        given = [x if way is None else self.one(name, x) for name, way, x in zip(self.names, self.in_order, args)]
        return (*given, *args[len(given):]), {name: self.one(name, x) for name, x in kwargs.items()}

    def one(self, name, x):
        """The value for one argument."""
        way = self.ways.get(name)
        try:
            return x if way is None else way(x)
        except Unfit:
            takes = ", ".join(f"{name}: {kind}" for name, kind in self.kinds.items())
            raise Error(f"{self.called}: the argument {shown(name)} must be {_article(self.kinds[name])}, got "
                        f"{shown(x)} ({type(x).__name__}); it takes ({takes})") from None


#: {type: the class of values that are of it without a second look}
_EXACT = {"Tensor": _C.Tensor, "Optional[Tensor]": _C.Tensor, "int": int, "float": float, "bool": bool, "str": str}


def _article(kind):
    return f"{'an' if kind[0] in 'aeioAEIO' else 'a'} {kind}"


#: types that do not say what they are of
_BARE = (list, dict, tuple, typing.List, typing.Dict, typing.Tuple)  # noqa: UP006


def _any_own(_):
    """Objects of classes of one's own are taken as they are."""


@functools.lru_cache(maxsize=1024)
def taken_by(function, is_method=False):
    """The Taken of a function that runs as the Python that it is; lists and dicts are copies then."""
    try:
        parameters = list(inspect.signature(function).parameters.values())[is_method:]
    except (TypeError, ValueError):
        parameters = []
    inner = inspect.unwrap(function)
    if getattr(inner, "__qualname__", None) in OVERLOADED.get(inner.__module__, ()):
        parameters = []  # each of its signatures is another
    hints, scope = annotations_of(inner), {**KNOWN, **getattr(inner, "__globals__", {})}
    kinds = {p.name: _kind_of(p, hints.get(p.name), scope) for p in parameters
             if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)}
    kinds = {name: kind for name, kind in kinds.items() if kind is not None}
    ways = {name: _repeating(hints.get(name), way_of(ast.parse(kind, mode="eval").body, _any_own, True))
            for name, kind in kinds.items()}
    names = [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    return Taken(inner.__qualname__.rpartition("<locals>.")[2], names, ways, kinds)


def _repeating(hint, way):
    """`way`, which takes one value for a list, too, where the annotation says of how many."""
    repeated = getattr(hint, "__metadata__", (None,))[0]
    if not isinstance(repeated, Repeated):
        return way
    return lambda x: way(x if isinstance(x, (list, tuple)) else [x] * repeated.count)


def _kind_of(parameter, hint, scope):
    """The type of an argument; None of one that the program does not know."""
    if hint is None:
        return "Tensor" if parameter.default is parameter.empty else None
    try:
        hint = eval(hint, scope) if isinstance(hint, str) else hint
        return None if hint in _BARE or "..." in str(hint) else type_text(resolved(hint, scope))
    except (NotScriptable, NameError, AttributeError, SyntaxError, TypeError):
        return None
