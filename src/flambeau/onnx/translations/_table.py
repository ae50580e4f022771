"""The table of translations: from the name of an operator to the function that writes it with ONNX's operators."""

from typing import NamedTuple


class Translation(NamedTuple):
    """How an operator is written; `parts` says that it takes complex tensors, as real ones with a last dimension of
    2."""

    function: object
    parts: bool = False


#: {name of an operator: Translation}; a name that ends in "_" is that of an operator which only writes
TABLE = {}


def translates(*names, parts=False):
    """Decorator: the function is the translation of these operators."""
    def keep(function):
        for name in names:
            if name in TABLE:
                raise RuntimeError(f"onnx: {name} has two translations")
            TABLE[name] = Translation(function, parts)
        return function
    return keep


def entry(name, function, parts=False):
    """Adds a translation."""
    translates(name, parts=parts)(function)
