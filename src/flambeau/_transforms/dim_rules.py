"""How `vmap` runs operators along dimensions: reductions, scans, sorting, joining, and tensors made like others."""

from ..ops.kinds import OPS
from .batched import front, rule
from .view_rules import ones_in_front, shift


def _reduction(at):
    """Over a list of dimensions at argument `at`; none: over all of them."""
    def run(op, size, values, marks, options):
        value, dims = values[0], values[at]
        ndim = value.ndim - 1
        values = list(values)
        if ndim == 0:
            values[0], values[at] = value.unsqueeze(-1), [1]
            if True in values[at + 1:]:
                return NotImplemented  # keepdim: no dimension to keep
        elif not dims:
            values[at] = () if dims is not None and op.name in ("any", "all") else range(1, ndim + 1)
        else:
            values[at] = [shift(d, ndim, op.name) for d in dims]
        values[at] = tuple(values[at])
        return op(*values, **options)
    return run


rule("sum", "mean", "nansum", "any", "all", "amax", "amin", "var.correction", "std.correction", "var_mean.correction",
     "std_mean.correction", "logsumexp")(_reduction(1))
rule("_vector_norm")(_reduction(2))


@rule("prod", "argmax", "argmin")
def prod(op, size, values, marks, options):
    value, dim, keepdim = values
    if dim is None:
        return NotImplemented if keepdim else op(OPS["reshape"](value, (size, -1)) if size else value, 1, **options)
    return _along(1)(op, size, values, marks, options)


@rule("max.all", "min.all", "median.all", "nanmedian.all")
def of_all(op, size, values, marks, options):
    if size == 0 or values[0].numel() == 0:
        return NotImplemented
    flat = OPS["reshape"](values[0], (size, -1))
    if op.name.endswith("median.all"):
        return OPS[op.name.replace("all", "dim")](flat, 1).values
    return OPS["amax" if op.name == "max.all" else "amin"](flat, (1,))


@rule("aminmax")
def aminmax(op, size, values, marks, options):
    value, dim = values[0], options.get("dim")
    if value.ndim == 1 or (dim is None and (options.get("keepdim") or size == 0)):
        return NotImplemented
    if dim is None:
        return op(OPS["flatten"](value, 1), dim=1)
    return op(value, **{**options, "dim": shift(dim, value.ndim - 1, "aminmax")})


def _along(at, tensors=1):
    """Along one dimension at argument `at`; the first `tensors` arguments all have the batch in front."""
    def run(op, size, values, marks, options):
        values = list(values)
        for k in range(tensors):
            values[k] = front(values[k], marks[k], size)
        ndim = values[0].ndim - 1
        if ndim == 0 or values[at] is None:
            return NotImplemented
        values[at] = shift(values[at], ndim, op.name)
        return op(*values, **options)
    return run


rule("max.dim", "min.dim", "median.dim", "nanmedian.dim", "mode", "softmax", "log_softmax", "cumsum", "cumprod",
     "logcumsumexp", "cummax", "cummin", "sort")(_along(1))
rule("kthvalue", "topk")(_along(2))
rule("_softmax_backward_data", "_log_softmax_backward_data")(_along(2, tensors=2))


@rule("flip")
def flip(op, size, values, marks, options):
    ndim = values[0].ndim - 1
    return op(values[0], [shift(d, ndim, "flip") for d in values[1]]) if ndim else NotImplemented


@rule("roll")
def roll(op, size, values, marks, options):
    value, shifts, dims = values
    if value.ndim == 1 or (not dims and size == 0):
        return NotImplemented
    if not dims:
        return OPS["reshape"](op(OPS["reshape"](value, (size, -1)), shifts, [1]), value.shape)
    return op(value, shifts, [shift(d, value.ndim - 1, "roll") for d in dims])


@rule("diag_embed")
def diag_embed(op, size, values, marks, options):
    value, offset, *dims = values
    if value.ndim == 1:
        return NotImplemented  # a number: it has no dimension to lay on a diagonal
    return op(value, offset, *(shift(d, value.ndim, "diag_embed") for d in dims))


@rule("tril", "triu")
def triangle(op, size, values, marks, options):
    return op(*values) if values[0].ndim >= 3 else NotImplemented


@rule("repeat")
def repeat(op, size, values, marks, options):
    value, repeats = values
    if len(repeats) < value.ndim - 1:
        return NotImplemented
    return op(ones_in_front(value, len(repeats)), (1, *repeats))


@rule("constant_pad_nd")
def pad(op, size, values, marks, options):
    return op(*values) if len(values[1]) <= 2 * (values[0].ndim - 1) else NotImplemented


# --- joining ----------------------------------------------------------------------------------------------------------

@rule("stack")
def stack(op, size, values, marks, options):
    tensors = [front(v, m, size) for v, m in zip(values[0], marks[0], strict=True)]
    return op(tensors, shift(values[1], tensors[0].ndim, "stack"))


@rule("cat")
def cat(op, size, values, marks, options):
    tensors = [front(v, m, size) for v, m in zip(values[0], marks[0], strict=True)]
    ndim = max(t.ndim for t in tensors) - 1
    if ndim == 0 or any(t.ndim - 1 != ndim for t in tensors):
        return NotImplemented  # empty 1-d tensors fit any
    return op(tensors, shift(values[1], ndim, "cat"))


# --- like another tensor, and writes ----------------------------------------------------------------------------------

@rule("zeros_like", "ones_like", "full_like", "empty_like", "zero_", "fill_scalar_")
def like(op, size, values, marks, options):
    return op(*values, **options)


@rule("new_zeros", "new_ones", "new_full", "new_empty")
def new(op, size, values, marks, options):
    return op(values[0], (size, *values[1]), *values[2:], **options)


@rule("copy_")
def copy_(op, size, values, marks, options):
    target, source, *rest = values
    if marks[1]:
        if source.ndim > target.ndim:
            return NotImplemented
        source = ones_in_front(source, target.ndim - 1)
    elif source.ndim > target.ndim - 1:
        return NotImplemented
    return op(target, source, *rest)


@rule("fill_tensor_")
def fill_tensor_(op, size, values, marks, options):
    target, source = values
    return OPS["copy_"](target, ones_in_front(source, target.ndim - 1) if marks[1] else source)


@rule("slice_backward", "select_backward", "unfold_backward")
def into_zeros(op, size, values, marks, options):
    grad, shape, dim, *rest = values
    return op(grad, (size, *shape), shift(dim, len(shape), op.name), *rest)


@rule("dropout_scale", "_bce", "_bce_with_logits")
def same_shapes(op, size, values, marks, options):
    fronts = [front(v, m, size) if k < 2 else v for k, (v, m) in enumerate(zip(values, marks, strict=True))]
    return op(*fronts) if fronts[0].shape == fronts[1].shape else NotImplemented
