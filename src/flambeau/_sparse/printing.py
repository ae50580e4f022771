"""How sparse tensors are printed: their parts, one below the other, then size, number of values, dtype and layout."""

from .._tensor.printing import _add_suffixes, _tensor_str, history, seen_in_numbers
from .tensor import BY_ROW, COO


def _part(name, t, indent):
    head = f"{name}=tensor("
    body = _tensor_str(t, indent + len(head))
    found = [f"size={tuple(t.shape)}"] if t.numel() == 0 else []
    return _add_suffixes(head + body, found, indent, False)


def _names(pattern):
    if pattern.layout is COO:
        return ("indices",)
    return ("crow_indices", "col_indices") if pattern.layout in BY_ROW else ("ccol_indices", "row_indices")


def sparse_repr(x):
    """The text of a sparse tensor."""
    pattern, indent = x._pattern, 7
    parts = [_part(name, t, indent) for name, t in zip(_names(pattern), (pattern.indices, pattern.plain), strict=False)]
    parts.append(_part("values", x._held, indent))
    head = "Parameter containing:\n" if getattr(x, "_is_param", False) else ""
    body = head + "tensor(" + (",\n" + " " * indent).join(parts)
    return _add_suffixes(body, _ending(x), indent, pattern.layout is COO)


def _ending(x):
    found = [f"size={tuple(x.shape)}", f"nnz={x._nnz()}"]
    if not seen_in_numbers(x.dtype):
        found.append(f"dtype={x.dtype}")
    return [*found, f"layout={x.layout}", *history(x)]
