"""How values of a file appear in messages: short, whatever they are, and without running through what they hold."""

_WHOLE = (type(None), bool, float, complex)
_LONGEST = 60
_MOST = 8


def shown(value, nested=False):
    """A text of bounded length and cost: scalars as they are, a short tuple's or list's items, a type's name."""
    if isinstance(value, _WHOLE):
        return repr(value)
    if isinstance(value, int):
        return repr(int(value)) if value.bit_length() <= 128 else f"an int of {value.bit_length()} bits"
    if isinstance(value, (str, bytes)):
        return repr(value) if len(value) <= _LONGEST else f"{value[:_LONGEST]!r}… ({len(value)} long)"
    if isinstance(value, (tuple, list)) and len(value) <= _MOST and not nested:
        items = ", ".join(shown(item, True) for item in value)
        items += "," if isinstance(value, tuple) and len(value) == 1 else ""
        return f"({items})" if isinstance(value, tuple) else f"[{items}]"
    size = f" of {len(value)}" if isinstance(value, (tuple, list, dict, set, frozenset, bytearray)) else ""
    return f"a {type(value).__name__}{size}"


def clipped(error, most=400):
    """An error's text, cut."""
    text = str(error)
    return text if len(text) <= most else text[:most] + " …"
