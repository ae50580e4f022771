"""Products of matrices and what is made of them: labels as in einsum."""

from ._rule import Rule, numbered, rule


def _labels(text):
    return {label: d for d, label in enumerate(text)}


#: operator -> labels of its tensors and of the result
_PRODUCTS = {"mm": ("mk", "kn", "mn"), "bmm": ("bmk", "bkn", "bmn"), "mv": ("mk", "k", "m"), "dot": ("k", "k", "")}


@rule(*_PRODUCTS)
def product(call):
    """Of two tensors whose dimensions have fixed roles."""
    a, b, out = map(_labels, _PRODUCTS[call.name])
    return Rule([a, b], [out], total="sum", linear=((0,), (1,)))


@rule("matmul")
def matmul(call):
    """Batches of any number of dimensions, which are broadcast."""
    a, b = call.tensors
    batch = max(a.ndim, b.ndim) - 2
    first = _batched(a, batch, b, ("k",) if a.ndim == 1 else ("m", "k"))
    second = _batched(b, batch, a, ("k",) if b.ndim == 1 else ("k", "n"))
    kept = [label for t, label in ((a, "m"), (b, "n")) if t.ndim > 1]
    out = {k: k for k in range(max(batch, 0))} | {label: max(batch, 0) + k for k, label in enumerate(kept)}
    return Rule([first, second], [out], total="sum", linear=((0,), (1,)))


def _batched(t, batch, other, names):
    """Labels of one factor; a batch dimension of size 1 stays whole where the other factor's is larger."""
    own = max(t.ndim - 2, 0)
    found = {label: own + k for k, label in enumerate(names)}
    for d in range(own):
        across = d + batch - own - (batch - max(other.ndim - 2, 0))
        size = other.shape[across] if 0 <= across < other.ndim - 2 else 1
        if t.shape[d] != 1 or size == 1:
            found[d + batch - own] = d
    return found


def _addend(t, labels, sizes):
    """Labels of what is added to a result: trailing dimensions, those of size 1 whole."""
    names = list(labels)[len(labels) - t.ndim:]
    return {label: d for d, label in enumerate(names) if t.shape[d] == sizes[label]}


@rule("addmm", "baddbmm")
def addmm(call):
    """beta self + alpha a b."""
    batch = "b" * (call.name.startswith("baddbmm"))
    added, a, b = call.tensors
    out = _labels(batch + "mn")
    sizes = {"b": a.shape[0], "m": a.shape[-2], "n": b.shape[-1]}
    return Rule([_addend(added, out, sizes), _labels(batch + "mk"), _labels(batch + "kn")], [out], total="sum",
                added=(0,), linear=((0, 1), (0, 2)))


@rule("linear")
def linear(call):
    """[..., i] [o, i] + [o]."""
    lead = numbered(call.tensors[0].ndim - 1)
    ins, out = [lead | {"i": len(lead)}, {"o": 0, "i": 1}, {"o": 0}], lead | {"o": len(lead)}
    bias = (2,) if len(call.tensors) == 3 else ()
    return Rule(ins[:len(call.tensors)], [out], total="sum", added=bias, linear=((0, *bias), (1, *bias)))


@rule("linear_backward")
def linear_backward(call):
    """Of the gradient [..., o], the input [..., i] and the weight [o, i]."""
    lead, mask = numbered(call.tensors[0].ndim - 1), call.value("mask")
    g, x, w = lead | {"o": len(lead)}, lead | {"i": len(lead)}, {"o": 0, "i": 1}
    wanted = [bool(mask >> k & 1) for k in range(3)]
    return Rule([g, x, w], [labels if want else {} for labels, want in zip((x, w, {"o": 0}), wanted)], total="sum",
                deps=[deps if want else () for deps, want in zip(((0, 2), (0, 1), (0,)), wanted)], linear=((0,),))


@rule("convolution")
def convolution(call):
    """Only the batch can be cut."""
    return Rule([{"b": 0}] + [{}] * (len(call.tensors) - 1), [{"b": 0}], filled=True)


@rule("convolution_backward")
def convolution_backward(call):
    """Gradients of weight and bias are sums over the batch."""
    wanted = call.value("output_mask")
    return Rule([{"b": 0}, {"b": 0}, {}], [{"b": 0} if wanted[0] else {}, {}, {}], total="sum", filled=True,
                deps=[deps if want else () for deps, want in zip(((0, 2), (0, 1), (0,)), wanted)])
