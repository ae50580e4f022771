"""What to do about an error: hints by the error's text, for operators that failed. Loaded when the first one fails.

Native code calls `explain` with the operator and its tensor arguments while the exception is on its way out; nothing
here costs anything while nothing fails.
"""

import re
from difflib import get_close_matches

#: keywords of other libraries, and what they are called here
_OTHER_NAMES = {"axes": "dim", "keep_dims": "keepdim", "nan": "nan", "decimals": "decimals", "shape": "size"}


def _product(shape):
    n = 1
    for s in shape:
        n *= s
    return n


def _linear(m, op, shapes):
    have, want = int(m[1]), int(m[2])
    x = shapes[0] if shapes else None
    if x is not None and len(x) > 2 and _product(x[1:]) == want:
        return f"the input looks unflattened: x.flatten(1) has {want} features"
    return f"in_features, the weight's last dimension, must equal the input's last dimension, here {have}"


def _multiply(m, op, shapes):
    rows, inner, first, columns = (int(m[k]) for k in range(1, 5))
    if inner == columns:
        return "the second operand fits transposed: a @ b.mT"
    if rows == first:
        return "the first operand fits transposed: a.mT @ b"
    return f"the first operand's last dimension ({inner}) must equal the second's next to last ({first})"


def _broadcast(m, op, shapes):
    known = " and ".join(str(s) for s in shapes if s is not None)
    return (f"shapes {known} are compared from the last dimension backwards: each pair of sizes must be equal, or one "
            "of them 1")


def _same_dtype(m, op, shapes):
    if op == "linear":
        return f"convert the input: x.to(torch.{m[2]}), or the layer: layer.to(torch.{m[1]})"
    return f"convert one of them, for example the second: y.to(torch.{m[1]})"


def _target(m, op, shapes):
    x = shapes[0] if shapes else None
    if x is None:
        return None
    classes = x[1] if len(x) > 1 else x[0]
    return (f"the input {x} has {classes} classes: targets go from 0 to {classes - 1}, and ignore_index marks those "
            "to skip")


def _sizes(m, op, shapes):
    if "-1" in m[2]:
        known = _product(int(s) for s in re.findall(r"\d+", m[2].replace("-1", "")))
        return f"the sizes that are given multiply to {known}, which does not divide {m[1]} elements"
    return f"the sizes must multiply to the number of elements, {m[1]}"


def _keyword(m, op, shapes):
    names = re.findall(r"(\w+)(?:=[^,)]*)?[,)]", m[2])
    close = _OTHER_NAMES.get(m[1])
    if close not in names:
        close = next(iter(get_close_matches(m[1], names, 1)), None)
    return f"did you mean {close}=?" if close else None


def _dimension(m, op, shapes):
    return f"the tensor has shape {shapes[0]}" if shapes and shapes[0] is not None else None


def _embedding(m, op, shapes):
    if "embedding" not in op:
        return None
    return f"num_embeddings must be larger than every index, here at least {int(m[1]) + 1}"


#: (pattern of the error's text, the hint or a function (match, operator's name, tensor shapes) -> hint or None)
HINTS = [(re.compile(pattern), hint) for pattern, hint in (
    (r"input has (\d+) features but weight expects (\d+)", _linear),
    (r"a (\d+)x(\d+) matrix cannot be multiplied by a (\d+)x(\d+) one", _multiply),
    (r"do not broadcast: dimension", _broadcast),
    (r"the tensor written to has shape", "an in-place result keeps its shape: write it out of place, x = x + y"),
    (r"the result is \w+, which a tensor of \w+ cannot hold",
     "an in-place result keeps its dtype: write it out of place, or convert the tensor first, x.float()"),
    (r"the operands must have one dtype, got (\w+) and (\w+)", _same_dtype),
    (r"target \S+ is no class", _target),
    (r"expected class probabilities", "targets that are class indices must be integers: target.long()"),
    (r"input holds \d+ samples and target \d+", "the input is [N, C, …] and the target [N, …], with the same N"),
    (r"takes \d+ input channels, got input \[.*\] with (\d+)",
     lambda m, op, shapes: f"in_channels must equal the input's dimension of channels, here {m[1]}"),
    (r"input must have (\d) dimensions, or \d without a batch",
     lambda m, op, shapes: f"a batch has {m[1]} dimensions (images: [N, C, H, W]); x[None] adds one in front"),
    (r"should contain (\d+) elements not \d+",
     lambda m, op, shapes: f"num_features must equal the input's dimension 1, here {m[1]}"),
    (r"more than one value to have a variance",
     "model.eval() uses running statistics; drop_last=True in the DataLoader avoids a batch of one sample"),
    (r"index (\d+) is outside dimension \d+ of size", _embedding),
    (r"(\d+) elements cannot have shape (\[.*?\])", _sizes),
    (r"must be Tensor, not (?:list|tuple|int|float|bool)\b", "make a tensor of it first: torch.tensor(…)"),
    (r"must be Tensor, not (?:numpy\.)?ndarray", "make a tensor of it first: torch.from_numpy(…)"),
    (r"all must have one shape", "pad them to one size first (nn.utils.rnn.pad_sequence does that; for a DataLoader "
                                 "inside a collate_fn)"),
    (r"dim -?\d+ is out of range", _dimension),
    (r"unexpected keyword argument '(\w+)'; it takes (.*)", _keyword),
    (r"the kernel is larger than the input",
     "the input is smaller than the kernel: use a larger input, padding, or a smaller kernel"),
    (r"must be Tensor, not NoneType", "the value is None: does the function that made it return something?"),
)]


def _hint(text, op, shapes):
    for pattern, hint in HINTS:
        m = pattern.search(text)
        if m:
            found = hint if isinstance(hint, str) else hint(m, op, shapes)
            if found:
                return f"  hint: {found}"
    return None


def _call_text(op, arguments):
    shown = ", ".join(f"{name} {list(x.shape)}" for name, x in arguments if x is not None)
    return f"  called by: {op}({shown})"


def explain(error, op, names, tensors, composite):
    """Adds notes to `error`: the operator that was called, when the text speaks of a part of it, and a hint."""
    name = op.split(".")[0].strip("_")
    if composite and name not in str(error) and not any(n.startswith("  called by:") for n in
                                                        getattr(error, "__notes__", ())):
        error.add_note(_call_text(name, zip(names, tensors, strict=False)))
    if not hasattr(error, "_hinted"):
        error._hinted = True
        shapes = [None if t is None else list(t.shape) for t in tensors]
        hint = _hint(str(error), name, shapes)
        if hint:
            error.add_note(hint)
