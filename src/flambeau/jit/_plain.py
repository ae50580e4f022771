"""What TorchScript's operators do to numbers, texts, lists and dicts: {name: function}. None of them takes a tensor."""

import cmath
import math
import operator
import warnings


def _math(name):
    """A function of math, that of cmath for complex numbers."""
    real, imaginary = getattr(math, name), getattr(cmath, name, None)

    def call(x):
        return imaginary(x) if isinstance(x, complex) else real(x)

    return call


def _guarded(real, name):
    """What C gives where Python raises: NaN for a number outside the domain, infinity for one that is too large."""
    def call(*args):
        try:
            return real(*args)
        except ValueError:
            return -math.inf if name.startswith("log") and args[0] == 0 else math.nan
        except OverflowError:
            return math.inf

    return call


def _log(x, base=None):
    """The natural logarithm, or that of a base."""
    return _guarded(_math("log"), "log")(x) if base is None else _guarded(math.log, "log")(x, base)


def _power(a, b):
    """Two whole numbers give a float, as TorchScript types it."""
    try:
        return float(a ** b) if isinstance(a, int) and isinstance(b, int) else a ** b
    except ZeroDivisionError:
        return math.inf


def _divide(a, b):
    try:
        return a / b
    except ZeroDivisionError:
        if isinstance(a, int) and isinstance(b, int):
            raise
        return math.nan if a == 0 or a != a else math.copysign(math.inf, a) * math.copysign(1.0, b)


def _round(x):
    """Half to even, a float, as C's nearbyint."""
    return float(round(x)) if math.isfinite(x) else x


def _slice(items, start=None, end=None, step=1):
    return items[start:end:step]


def _format(text, *args):
    """Each {} in turn is an argument: nothing of Python's format language, which can read attributes."""
    parts = text.split("{}")
    if len(parts) != len(args) + 1:
        raise RuntimeError(f"format: {len(parts) - 1} places for {len(args)} arguments")
    return parts[0] + "".join(str(arg) + part for arg, part in zip(args, parts[1:], strict=True))


def _percent(text, *args):
    return text % (args[0] if len(args) == 1 and isinstance(args[0], tuple) else args)


def _append(items, value):
    items.append(value)
    return items


def _extended(items, more):
    items.extend(more)
    return items


def _copied(items):
    return list(items) if isinstance(items, (list, tuple)) else dict(items)


def _remove_at(items, key):
    del items[key]


def _put(items, key, value):
    items[key] = value
    return items


def _sort(items, reverse=False):
    items.sort(reverse=reverse)


def _warn(text, stacklevel=2):
    warnings.warn(text, stacklevel=stacklevel + 1)


def _index(items, *args):
    return items.index(*args)


def _extremum(pick):
    """min or max, of numbers or of the items of a list; of two lists, element by element as TorchScript has it."""
    def call(*args):
        return pick(args[0]) if len(args) == 1 else pick(args)

    return call


def _range_length(start, stop, step):
    return len(range(start, stop, step))


def _derived(index, start, step):
    return start + index * step


def unwrapped(optional):
    """What is not None."""
    if optional is None:
        raise RuntimeError("_unwrap_optional: expected a value, got None")
    return optional


def _method(name):
    """A method of a str, list or dict by name."""
    def call(value, *args):
        if not isinstance(value, (str, list, dict)):
            raise TypeError(f"{name}: expected a text, list or dict, got a {type(value).__name__}")
        return getattr(value, name)(*args)

    return call


_TEXT = ("capitalize center count endswith expandtabs find isalnum isalpha isdecimal isdigit isidentifier islower "
         "isnumeric isprintable isspace istitle isupper join ljust lower lstrip partition replace rfind rindex rjust "
         "rpartition rsplit rstrip split splitlines startswith strip swapcase title upper zfill").split()
_CONTAINERS = "clear extend get insert pop popitem remove reverse setdefault update".split()
_INFIX = {"add": operator.add, "sub": operator.sub, "mul": operator.mul, "div": _divide, "floordiv": operator.floordiv,
          "remainder": operator.mod, "pow": _power, "neg": operator.neg, "eq": operator.eq, "ne": operator.ne,
          "lt": operator.lt, "le": operator.le, "gt": operator.gt, "ge": operator.ge, "__and__": operator.and_,
          "__or__": operator.or_, "__xor__": operator.xor, "__lshift__": operator.lshift,
          "__rshift__": operator.rshift, "__getitem__": operator.getitem, "__contains__": operator.contains,
          "true_divide": _divide, "mathremainder": math.remainder, "__round_to_zero_floordiv": lambda a, b: int(a / b)}
_MATH = ("acos acosh asin asinh atan atanh cos cosh exp sin sinh sqrt tan tanh log log10 expm1 log1p log2 erf erfc "
         "lgamma gamma degrees radians fabs").split()

FUNCTIONS = {
    **{name: _method(name) for name in (*_TEXT, *_CONTAINERS)},
    **_INFIX,
    **{name: _guarded(_math(name), name) for name in _MATH},
    "log": _log, "add_": _extended, "__is__": operator.is_, "__isnot__": operator.is_not, "__not__": operator.not_,
    "abs": abs, "all": all, "any": any, "append": _append, "atan2": math.atan2, "bin": bin, "ceil": math.ceil,
    "chr": chr, "copy": _copied, "copysign": math.copysign, "Delete": _remove_at, "dict": dict, "divmod": divmod,
    "factorial": math.factorial, "floor": math.floor, "fmod": _guarded(math.fmod, "fmod"), "format": _format,
    "frexp": math.frexp, "gcd": math.gcd, "hash": hash, "hex": hex, "index": _index, "isfinite": math.isfinite,
    "isinf": math.isinf, "isnan": math.isnan, "items": lambda d: list(d.items()), "keys": lambda d: list(d.keys()),
    "ldexp": math.ldexp, "len": len, "list": list, "max": _extremum(max), "min": _extremum(min), "modf": math.modf,
    "oct": oct, "ord": ord, "percentFormat": _percent, "_print": print, "_range_length": _range_length,
    "__range_length": _range_length, "__derive_index": _derived, "round": _round, "select": operator.getitem,
    "_set_item": _put, "slice": _slice, "sort": _sort, "sorted": sorted, "str": str, "sum": sum,
    "values": lambda d: list(d.values()), "warn": _warn,
    "Bool": bool, "Int": int, "Float": float, "Complex": complex, "_unwrap_optional": unwrapped,
}
