"""The tables of translations: from the name of an operator to the function that writes it with ONNX's operators."""

#: {name of an operator: function(g, *arguments)}; a name that ends in "_" is that of an operator which only writes
TABLE = {}
#: the same for complex tensors, which are pairs of real numbers in a last dimension of 2
PARTS = {}


def translates(*names, parts=False):
    """Decorator: the function is the translation of these operators; of complex tensors where `parts` says so."""
    def keep(function):
        for name in names:
            entry(name, function, parts)
        return function
    return keep


def entry(name, function, parts=False):
    """Adds a translation."""
    table = PARTS if parts else TABLE
    if name in table:
        raise RuntimeError(f"onnx: {name} has two translations")
    table[name] = function
