"""Operators that work element by element, in place too: every dimension can be cut."""

from ._rule import Rule, rule

_ADDITIVE = {"add", "sub", "rsub", "copy_", "lerp", "_same_shape"}
_UNARY = {"neg", "alias", "clone", "real", "imag", "conj", "_to_copy", "deg2rad", "rad2deg"}
_PRODUCTS = {"mul", "_mul_conj", "dropout_scale"}
_QUOTIENTS = {"div", "_div_conj"}


def broadcast_labels(tensors, ndim):
    """Labels of tensors that are broadcast to `ndim` dimensions: those of size 1 stay whole where others are larger."""
    sizes = [1] * ndim
    for t in tensors:
        for d, size in enumerate(t.shape, ndim - t.ndim):
            sizes[d] = size if sizes[d] == 1 else sizes[d]
    return [{d: d - ndim + t.ndim for d in range(ndim - t.ndim, ndim) if t.shape[d - ndim + t.ndim] == sizes[d]}
            for t in tensors]


def elementwise(call):
    """The rule of any operator of the kind."""
    ndim = max(t.ndim for t in call.tensors)
    labels = broadcast_labels(call.tensors, ndim)
    out = {d: d for d in range(ndim)}
    return Rule(labels, [out] * call.results, linear=_linear(call))


def _linear(call):
    """Which of the tensors may be parts of a sum."""
    name, count = call.name if call.name == "copy_" else call.name.removesuffix("_"), len(call.tensors)
    everyone = list(range(count))
    numbers = [x for x in call.args[:2] if isinstance(x, (int, float, complex)) and not isinstance(x, bool)]
    if name in _UNARY:
        return [everyone] if call.tensors[0].dtype.is_floating_point else []
    if name in _ADDITIVE:
        return [] if numbers or count != 2 or (name == "lerp" and not _plain_weight(call)) else [everyone]
    if name in _PRODUCTS or (name.endswith("_backward") and count == 2):
        return [[0]] if name.endswith("_backward") or name == "dropout_scale" else [[k] for k in everyone]
    if name in _QUOTIENTS:
        rounded = (len(call.args) > 2 and call.args[2] is not None) or call.kwargs.get("rounding_mode") is not None
        return [[0]] if not rounded and (count == 2 or (numbers and call.args[0] is not numbers[0])) else []
    if name == "masked_fill" and call.args[2] == 0 and count == 2:
        return [[0]]
    return [[1, 2]] if name == "where" and count == 3 else []


def _plain_weight(call):
    return isinstance(call.args[2], (int, float))


@rule("alias", "clone", "_to_copy", "copy_", "fill_scalar_", "zero_", "fill_tensor_", "dropout_scale", "conj", "real",
      "imag", "_standard_gamma", "poisson")
def copies(call):
    """Not of the kind, and pointwise all the same."""
    if call.name in ("alias", "clone"):
        labels = {d: d for d in range(call.tensors[0].ndim)}
        return Rule([labels], [labels], any_partial=True)
    if call.name == "zero_":
        labels = {d: d for d in range(call.tensors[0].ndim)}
        return Rule([labels], [labels], any_partial=True)
    return elementwise(call)


@rule("zeros_like", "ones_like", "full_like", "empty_like")
def like(call):
    """Spread as the tensor is; a part of a sum makes a whole tensor."""
    labels = {d: d for d in range(call.tensors[0].ndim)}
    return Rule([labels], [labels])
