"""How masked tensors are printed: "--" in the place of a value that does not count."""

_FLOAT, _MASKED = "{:8.4f}", "      --"


def _element(value, counts):
    if not counts:
        return _MASKED
    return _FLOAT.format(value) if isinstance(value, float) else str(value)


def _rows(values, counts, indent):
    pad = "  " * indent
    if not values or not isinstance(values[0], list):
        return f"{pad}[{', '.join(map(_element, values, counts))}]"
    rows = [_rows(value, count, indent + 1) for value, count in zip(values, counts, strict=True)]
    return f"{pad}[\n" + ",\n".join(rows) + f"\n{pad}]"


def masked_repr(x):
    """The text of a masked tensor."""
    dense = x.detach().to_dense()
    if dense.device.type == "meta":
        return f"MaskedTensor(..., device='meta', size={tuple(x.shape)})"
    values, counts = dense._masked_data.tolist(), dense._masked_mask.tolist()
    if not x.dim():
        return f"MaskedTensor({_element(values, counts).strip() if not counts else _element(values, counts)}, {counts})"
    return f"MaskedTensor(\n{_rows(values, counts, 1)}\n)"
