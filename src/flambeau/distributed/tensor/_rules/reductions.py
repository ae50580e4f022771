"""Reductions, and operators along one dimension."""

from ._rule import Rule, numbered, rule, wrapped

_TOTALS = {"sum": "sum", "nansum": "sum", "prod": "product", "amax": "max", "amin": "min", "max.all": "max",
           "min.all": "min", "any": "max", "all": "min"}


def reduced_dims(call, ndim):
    """The dimensions that a reduction is over: all where none are named; any and all take () at its word."""
    dim = call.value("dim", None)
    if dim is not None and not isinstance(dim, int) and not dim and call.name in ("any", "all"):
        return set()
    if dim is None or (isinstance(dim, (tuple, list)) and not dim):
        return set(range(ndim))
    return {wrapped(d, ndim) for d in (dim if isinstance(dim, (tuple, list)) else [dim])}


def _kept(labels, dims, keepdim):
    left = [d for d in labels if d not in dims]
    return {d: d if keepdim else k for k, d in enumerate(left)}


@rule(*_TOTALS)
def totals(call):
    """Over a cut dimension each rank has a part of the result."""
    x, total = call.tensors[0], _TOTALS[call.name]
    if total == "product" and not x.is_floating_point():
        total = None
    labels, dims = numbered(x.ndim), reduced_dims(call, x.ndim)
    filled = total in ("max", "min") and call.name not in ("any", "all")  # no elements have no largest one
    return Rule([labels], [_kept(labels, dims, call.value("keepdim", False))], total=total, filled=filled,
                linear=[[0]] if call.name == "sum" else [])


@rule("argmax", "argmin", "max.dim", "min.dim", "median.dim", "nanmedian.dim", "kthvalue", "mode",
      "logsumexp", "var.correction", "std.correction", "var_mean.correction", "std_mean.correction", "aminmax",
      "_vector_norm")
def along_others(call):
    """Cut only along dimensions that stay."""
    x = call.tensors[0]
    dims = reduced_dims(call, x.ndim)
    labels = numbered(x.ndim, *dims)
    keepdim = call.value("keepdim", False)
    return Rule([labels], [_kept(numbered(x.ndim), dims, keepdim)] * call.results)


@rule("softmax", "log_softmax", "cumsum", "cumprod", "logcumsumexp", "cummax", "cummin", "sort", "topk", "flip", "roll",
      "_softmax_backward_data", "_log_softmax_backward_data", "gather")
def along(call):
    """Cut along all dimensions but that (or those) of the operator."""
    x = call.tensors[0]
    dims = call.value("dims", None) if call.name in ("flip", "roll") else call.value("dim", None)
    if dims is None or dims == () or dims == []:
        return None
    labels = numbered(x.ndim, *(wrapped(d, x.ndim) for d in (dims if isinstance(dims, (tuple, list)) else [dims])))
    if call.name == "gather":
        labels = {d: d for d in labels if x.shape[d] == call.tensors[1].shape[d]}
    linear = [[0]] if call.name in ("cumsum", "flip", "roll", "gather") else []
    return Rule([labels] * len(call.tensors), [labels] * call.results, linear=linear)


@rule("tril", "triu")
def triangle(call):
    """Matrices stay whole, batches of them are cut."""
    labels = numbered(call.tensors[0].ndim - 2)
    return Rule([labels], [labels], any_partial=True)
