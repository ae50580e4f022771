"""Operators that move values only: views, reshapes, joining, parts, and the derivatives of parts."""

from ....ops.kinds import OPS
from ._rule import Rule, numbered, rule, wrapped


def moved(ins, out, results=1, **options):
    """The rule of an operator that only moves values."""
    return Rule([ins], [out] * results, any_partial=True, **options)


# --- other orders of dimensions ---------------------------------------------------------------------------------------

def _ordered(order):
    return moved(numbered(len(order)), {d: k for k, d in enumerate(order)})


@rule("permute")
def permute(call):
    """The dimensions that are named, in that order."""
    ndim = call.tensors[0].ndim
    return _ordered([wrapped(d, ndim) for d in call.value("dims")])


@rule("transpose", "t", "mT", "numpy_T")
def transpose(call):
    """Two dimensions change places; numpy_T: all of them."""
    ndim = call.tensors[0].ndim
    order = list(range(ndim))
    if call.name == "numpy_T":
        return _ordered(order[::-1])
    if ndim < 2:
        return _ordered(order)
    a, b = ((call.value("dim0"), call.value("dim1")) if call.name == "transpose" else (-2, -1))
    order[a], order[b] = order[b], order[a]
    return _ordered(order)


@rule("movedim")
def movedim(call):
    """As NumPy's moveaxis."""
    ndim = call.tensors[0].ndim
    source = [wrapped(d, ndim) for d in call.value("source")]
    target = [wrapped(d, ndim) for d in call.value("destination")]
    left = [d for d in range(ndim) if d not in source]
    order = [None] * ndim
    for s, t in zip(source, target):
        order[t] = s
    return _ordered([left.pop(0) if d is None else d for d in order])


# --- dimensions of size one -------------------------------------------------------------------------------------------

@rule("squeeze")
def squeeze(call):
    """Dimensions of size 1 go: of the whole tensor, not of a part."""
    x, dims = call.tensors[0], call.value("dim", None)
    given = range(x.ndim) if dims is None else [wrapped(d, x.ndim) for d in (
        dims if isinstance(dims, (tuple, list)) else [dims])]
    gone = {d for d in given if x.shape[d] == 1}
    kept = [d for d in range(x.ndim) if d not in gone]

    def adapt(local):
        return call.func, [local.args[0], tuple(sorted(gone)), *local.args[2:]], local.kwargs

    return moved({d: d for d in kept}, {d: k for k, d in enumerate(kept)}, adapt=adapt)


@rule("unsqueeze")
def unsqueeze(call):
    """A new dimension of size 1."""
    ndim = call.tensors[0].ndim
    dim = wrapped(call.value("dim"), ndim + 1)
    return moved(numbered(ndim), {d: d + (d >= dim) for d in range(ndim)})


@rule("expand", "expand_as")
def expand(call):
    """Dimensions of size 1 that grow stay whole."""
    x, shape = call.tensors[0], call.outs[0].shape
    new = len(shape) - x.ndim
    same = {d: d for d in range(x.ndim) if x.shape[d] == shape[d + new]}
    if call.name == "expand_as":
        others = {d: d + new for d in same}
        return Rule([same, others], [others], linear=[[0]])
    return moved(same, {d: d + new for d in same}, adapt=_local_size)


def _local_size(local):
    """The size among the arguments is that of the local part."""
    return local.call.func, [local.args[0], local.specs[0].extent()[0], *local.args[2:]], local.kwargs


# --- reshapes ---------------------------------------------------------------------------------------------------------

def groups(before, after):
    """[(dimensions before, dimensions after)] that hold the same elements, as few together as possible."""
    found, i, j = [], 0, 0
    while i < len(before) or j < len(after):
        a, b = [], []
        left, right = 1, 1
        if i < len(before):
            a, left, i = [i], before[i], i + 1
        if j < len(after):
            b, right, j = [j], after[j], j + 1
        while left != right:
            if left < right and i < len(before):
                a.append(i)
                left, i = left * before[i], i + 1
            elif j < len(after):
                b.append(j)
                right, j = right * after[j], j + 1
            else:
                break
        found.append((a, b))
    return found


@rule("view.size", "reshape", "flatten", "unflatten", "ravel", "view_as", "reshape_as")
def reshape(call):
    """A cut dimension stays cut where it is the first of those that are joined or split, and shared equally."""
    x, shape = call.tensors[0], tuple(call.outs[0].shape)
    ins, out, even = {}, {}, {}
    if x.numel():
        for a, b in groups(tuple(x.shape), shape):
            a = [d for d in a if x.shape[d] != 1] or a[:1]
            b = [d for d in b if shape[d] != 1] or b[:1]
            if not a or not b:
                continue
            ins[a[0]], out[a[0]] = a[0], b[0]
            if len(a) > 1 or len(b) > 1:
                even[a[0]] = min(x.shape[a[0]], shape[b[0]]) if _nested(x.shape[a[0]], shape[b[0]]) else 1

    def adapt(local):
        return OPS["reshape"], [local.args[0], local.specs[0].extent()[0]], {}

    more = [{}] * (len(call.tensors) - 1)
    return Rule([ins, *more], [out], any_partial=not more, linear=[[0]], even=even, adapt=adapt)


def _nested(a, b):
    return max(a, b) % max(min(a, b), 1) == 0


@rule("contiguous")
def contiguous(call):
    """The same values in dense memory."""
    labels = numbered(call.tensors[0].ndim)
    return moved(labels, labels)


# --- joining and parts ------------------------------------------------------------------------------------------------

@rule("cat")
def cat(call):
    """Along another dimension than the tensors are joined along."""
    ndim = max(t.ndim for t in call.tensors)
    labels = numbered(ndim, wrapped(call.value("dim"), ndim))
    ins = [labels if t.ndim == ndim else {} for t in call.tensors]
    return Rule(ins, [labels], any_partial=True)


@rule("stack")
def stack(call):
    """A new dimension, which is whole."""
    ndim = call.tensors[0].ndim
    dim = wrapped(call.value("dim"), ndim + 1)
    return Rule([numbered(ndim)] * len(call.tensors), [{d: d + (d >= dim) for d in range(ndim)}], any_partial=True)


@rule("split.size", "split_with_sizes", "chunk")
def split(call):
    """Along other dimensions than the split one."""
    x = call.tensors[0]
    labels = numbered(x.ndim, wrapped(call.value("dim"), x.ndim))
    return moved(labels, labels, call.results)


@rule("unbind")
def unbind(call):
    """The dimension that is taken apart is whole."""
    x = call.tensors[0]
    dim = wrapped(call.value("dim"), x.ndim)
    return moved(numbered(x.ndim, dim), {d: d - (d > dim) for d in range(x.ndim) if d != dim}, call.results)


@rule("slice", "narrow")
def slice_(call):
    """A slice of a cut dimension needs the whole dimension, unless it is all of it."""
    x = call.tensors[0]
    dim = wrapped(call.value("dim"), x.ndim)
    if tuple(call.outs[0].shape) != tuple(x.shape) or call.value("step", 1) != 1:
        return moved(numbered(x.ndim, dim), numbered(x.ndim, dim))

    def adapt(local):
        size = local.specs[0].extent()[0][dim]
        return call.func, [local.args[0], local.args[1], 0, size, *local.args[4:]], local.kwargs

    return moved(numbered(x.ndim), numbered(x.ndim), adapt=adapt)


@rule("select")
def select(call):
    """The dimension that goes is whole."""
    x = call.tensors[0]
    dim = wrapped(call.value("dim"), x.ndim)
    return moved(numbered(x.ndim, dim), {d: d - (d > dim) for d in range(x.ndim) if d != dim})


@rule("slice_backward", "select_backward")
def placed(call):
    """The gradient of a part in a tensor of zeros."""
    g, shape = call.tensors[0], call.value("self_shape")
    dim = wrapped(call.value("dim"), len(shape))
    gone = call.name == "select_backward"
    ins = {d: d - (gone and d > dim) for d in range(len(shape)) if d != dim}
    assert g.ndim == len(shape) - gone
    return Rule([ins], [numbered(len(shape), dim)], linear=[[0]], adapt=_local_size)


@rule("diagonal")
def diagonal(call):
    """Along dimensions that have no part in it."""
    x = call.tensors[0]
    a, b = (wrapped(call.value(name, default), x.ndim) for name, default in (("dim1", 0), ("dim2", 1)))
    left = [d for d in range(x.ndim) if d not in (a, b)]
    return moved({d: d for d in left}, {d: k for k, d in enumerate(left)})


@rule("constant_pad_nd")
def pad(call):
    """Along dimensions that do not grow."""
    x, sizes = call.tensors[0], call.value("pad")
    grown = [x.ndim - 1 - k // 2 for k, size in enumerate(sizes) if size]
    labels = numbered(x.ndim, *grown)
    return Rule([labels], [labels], linear=[[0]] if call.value("value", 0) == 0 else [])


@rule("unfold")
def unfold(call):
    """Along other dimensions than the windows move along."""
    x = call.tensors[0]
    labels = numbered(x.ndim, wrapped(call.value("dimension"), x.ndim))
    return moved(labels, labels)


@rule("repeat")
def repeat(call):
    """Along dimensions that are not repeated."""
    x, repeats = call.tensors[0], call.value("repeats")
    new = len(repeats) - x.ndim
    same = {d: d for d in range(x.ndim) if repeats[d + new] == 1}
    return moved(same, {d: d + new for d in same})


@rule("new_zeros", "new_ones", "new_full", "new_empty")
def new(call):
    """Whole tensors, unless they have the shape of the one that they are made by."""
    x, size = call.tensors[0], tuple(call.value("size"))
    if size == tuple(x.shape):
        return Rule([numbered(x.ndim)], [numbered(x.ndim)], adapt=_local_size)
    return None
