"""How nested tensors are printed: jagged ones by their sizes and offsets, strided ones part by part."""

from .. import _C
from .._tensor.printing import history, tensor_repr


def nested_repr(x):
    """The text of a nested tensor."""
    return _of_jagged(x) if x.layout is _C.jagged else _of_windows(x)


def _of_jagged(x):
    found = [f"size=({', '.join(map(repr, x.shape))})", f"offsets={x.offsets()!r}"]
    if x.grad_fn is not None:
        found.append(f"grad_fn={x.grad_fn!r}")
    elif x.requires_grad:
        found.append("requires_grad=True")
    return f"NestedTensor({', '.join(found)}, contiguous={x.is_contiguous()})"


def _of_windows(x):
    texts = [tensor_repr(part) for part in x._form.parts(x._held.detach())]
    if x.requires_grad:
        texts = [text[:-1] + ", requires_grad=True)" for text in texts]
    body = ",\n".join("  " + text.replace("\n", "\n  ") for text in texts)
    head = "Parameter containing:\n" if getattr(x, "_is_param", False) else ""
    return f"{head}nested_tensor([\n{body}\n]{''.join(', ' + s for s in history(x))})"
