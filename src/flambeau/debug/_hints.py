"""What to do about an error: hints by the error's text, for operators that failed. Loaded when the first one fails.

Native code calls `explain` with the operator and its tensor arguments while the exception is on its way out; nothing
here costs anything while nothing fails.
"""

import re
from difflib import get_close_matches
from functools import reduce

from .._C import promote_types

#: keywords of other libraries, and what they are called here
_OTHER_NAMES = {"axes": "dim", "keep_dims": "keepdim", "shape": "size"}

#: operators whose input must have the dtype of their weight
_WEIGHTED = ("linear", "bilinear", "conv", "prelu")


def _product(shape):
    n = 1
    for s in shape:
        n *= s
    return n


def _first(tensors):
    return next((t for t in tensors.values() if t is not None), None)


def _linear(m, op, tensors):
    have, want = int(m[1]), int(m[2])
    x = _first(tensors)
    if x is not None and x.ndim > 2 and _product(x.shape[1:]) == want:
        return f"the input looks unflattened: x.flatten(1) has {want} features"
    return f"in_features, the weight's last dimension, must equal the input's last dimension, here {have}"


def _multiply(m, op, tensors):
    rows, inner, first, columns = (int(m[k]) for k in range(1, 5))
    transposable = op in ("matmul", "mm")  # elsewhere a third operand may no longer fit the product
    if transposable and inner == columns:
        return "the second operand fits transposed: a @ b.mT"
    if transposable and rows == first:
        return "the first operand fits transposed: a.mT @ b"
    return f"the first operand's last dimension ({inner}) must equal the second's next to last ({first})"


def _broadcast(m, op, tensors):
    known = " and ".join(str(list(t.shape)) for t in tensors.values() if t is not None)
    return (f"shapes {known} are compared from the last dimension backwards: each pair of sizes must be equal, or one "
            "of them 1") if known else None


def _grown(m, op, tensors):
    return ("an in-place result keeps its shape: write it out of place, "
            + ("x = y.clone()" if op == "copy" else f"x = x.{op}(…)"))


def _same_dtype(m, op, tensors):
    x, weight = tensors.get("input"), tensors.get("weight")
    layer = op == "linear" and x is not None and weight is not None and _floating(weight.dtype)
    if not layer or x.dtype == weight.dtype:
        dtypes = [t.dtype for t in tensors.values() if t is not None]
        return f"convert all operands to one dtype, for example by .to({_widest(dtypes)})" if dtypes else None
    ways = []
    if weight.dtype.is_complex or not x.dtype.is_complex:
        ways.append(f"the input: x.to({weight.dtype})")
    if _floating(x.dtype):  # a layer cannot hold integers
        ways.append(f"the layer: layer.to({x.dtype})")
    return "convert " + ", or ".join(ways)


def _floating(dtype):
    return dtype.is_floating_point or dtype.is_complex


def _widest(dtypes):
    return reduce(promote_types, dtypes)


def _target(m, op, tensors):
    x = _first(tensors)
    if x is None or x.ndim == 0:
        return None
    classes = x.shape[1] if x.ndim > 1 else x.shape[0]
    return (f"the input {list(x.shape)} has {classes} classes: targets go from 0 to {classes - 1}, and ignore_index "
            "marks those to skip") if classes else None


def _probabilities(m, op, tensors):
    x, target = tensors.get("input"), tensors.get("target")
    if x is None or target is None:
        return None
    indices = [*x.shape[:1], *x.shape[2:]] if x.ndim > 1 else []
    if list(target.shape) == indices:
        return "targets that are class indices must be integers: target.long()"
    return f"class probabilities have shape {list(x.shape)}, class indices {indices} and dtype torch.int64"


def _channels(m, op, tensors):
    groups, have = int(m[1]), int(m[2])
    if have % groups:
        return f"the input's channels, here {have}, must be divisible by groups={groups} and equal in_channels"
    return f"in_channels must equal the input's dimension of channels, here {have}"


def _batch(m, op, tensors):
    x = _first(tensors)
    sizes = {"3": "C, L", "4": "C, H, W", "5": "C, D, H, W"}.get(m[1])
    if x is None or sizes is None:
        return None
    return f"a batch is [N, {sizes}], a sample alone [{sizes}]; this input is {list(x.shape)}"


def _variance(m, op, tensors):
    ways = [] if tensors.get("running_mean") is None else ["model.eval() uses running statistics"]
    ways.append("an instance norm needs samples of at least two values per channel" if op == "instance_norm" else
                "drop_last=True in the DataLoader avoids a batch of one sample")
    return "; ".join(ways)


def _sizes(m, op, tensors):
    if "-1" in m[2]:
        known = _product(int(s) for s in re.findall(r"\d+", m[2].replace("-1", "")))
        return f"the sizes that are given multiply to {known}, which does not divide {m[1]} elements"
    return f"the sizes must multiply to the number of elements, {m[1]}"


def _pad(m, op, tensors):
    one, other = (tuple(int(s) for s in re.findall(r"\d+", m[k])) for k in (1, 2))
    if len(one) != len(other):
        return f"give them equally many dimensions first, here {len(one)} and {len(other)} (x.unsqueeze adds one)"
    how = "nn.utils.rnn.pad_sequence does that" if one[1:] == other[1:] else "nn.functional.pad does that"
    return f"pad them to one size first ({how}; for a DataLoader inside a collate_fn)"


def _dtype_of_weight(m, op):
    return m[1] == "input" and op.startswith(_WEIGHTED)


def _number(m, op, tensors):
    dtype = ", dtype=weight.dtype" if _dtype_of_weight(m, op) else ""
    if m[2] in ("list", "tuple"):
        return (f"if it holds numbers, make a tensor of it: torch.tensor(x{dtype}); if it holds tensors, as what an "
                "LSTM returns does, pass one of them: x[0]")
    return f"torch.tensor(x{dtype}) makes a tensor of 0 dimensions of it"


def _array(m, op, tensors):
    dtype = ".to(weight.dtype)" if _dtype_of_weight(m, op) else ""
    return f"make a tensor of it first: torch.from_numpy(x){dtype}"


def _keyword(m, op, tensors):
    arguments = m[2].split(" -> ")[0]  # names of results are no keywords
    names = [name for name in re.findall(r"(\w+)(?:=[^,)]*)?[,)]", arguments) if name != "self"]
    close = _OTHER_NAMES.get(m[1])
    if close not in names:
        close = next(iter(get_close_matches(m[1], names, 1)), None)
    return f"did you mean {close}=?" if close else None


def _dimension(m, op, tensors):
    x = _first(tensors)
    return None if x is None else f"the tensor has shape {list(x.shape)}"


def _embedding(m, op, tensors):
    return "num_embeddings must be larger than the largest index, indices.max()" if "embedding" in op else None


#: (pattern of the error's text, the hint or a function (match, operator's name, tensors by name) -> hint or None)
HINTS = [(re.compile(pattern), hint) for pattern, hint in (
    (r"input has (\d+) features but weight expects (\d+)", _linear),
    (r"a (\d+)x(\d+) matrix cannot be multiplied by a (\d+)x(\d+) one", _multiply),
    (r"do not broadcast: dimension", _broadcast),
    (r"the tensor written to has shape", _grown),
    (r"the result is (\w+), which a tensor of \w+ cannot hold",
     lambda m, op, tensors: "an in-place result keeps its dtype: convert the tensor first, "
                            f"x.to(torch.{m[1]}), or write it out of place"),
    (r"the operands must have one dtype, got \w+ and \w+", _same_dtype),
    (r"target \S+ is no class", _target),
    (r"expected class probabilities", _probabilities),
    (r"input holds \d+ samples and target \d+", "the input is [N, C, …] and the target [N, …], with the same N"),
    (r"groups=(\d+) takes \d+ input channels, got input \[.*\] with (\d+)", _channels),
    (r"input must have (\d) dimensions, or \d without a batch", _batch),
    (r"should contain (\d+) elements not \d+",
     lambda m, op, tensors: f"num_features must equal the input's dimension 1, here {m[1]}"),
    (r"more than one value to have a variance", _variance),
    (r"index \d+ is outside dimension \d+ of size", _embedding),
    (r"(\d+) elements cannot have shape (\[.*?\])", _sizes),
    (r"argument '(\w+)'.* must be Tensor, not (list|tuple|int|float|bool)\b", _number),
    (r"argument '(\w+)'.* must be Tensor, not (?:numpy\.)?ndarray", _array),
    (r"has shape (\[.*?\]) and tensor \d+ has (\[.*?\]); all must have one shape", _pad),
    (r"dim -?\d+ is out of range", _dimension),
    (r"unexpected keyword argument '(\w+)'; it takes (.*)", _keyword),
    (r"the kernel is larger than the input",
     "the input is smaller than the kernel: use a larger input, padding, or a smaller kernel"),
    (r"must be Tensor, not NoneType", "the value is None: does the function that made it return something?"),
)]


def _hint(text, op, tensors):
    for pattern, hint in HINTS:
        m = pattern.search(text)
        if m:
            found = hint if isinstance(hint, str) else hint(m, op, tensors)
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
        hint = _hint(str(error), name, dict(zip(names, tensors, strict=True)))
        if hint:
            error.add_note(hint)
