"""How `vmap` runs the operators of layers: convolution, pooling, normalisation, losses."""

from ..ops.kinds import OPS
from .batched import elementwise, front, rule

_view, _sum, _mul, _add = OPS["reshape"], OPS["sum"], OPS["mul"], OPS["add"]


def _join(x):
    """The batch and the dimension behind it in one."""
    return _view(x, (x.shape[0] * x.shape[1], *x.shape[2:]))


def _part(x, size):
    return _view(x, (size, x.shape[0] // size, *x.shape[1:]))


def _into_channels(x):
    """[B, N, C, …] as [N, B C, …]: every element of the batch is a group of channels."""
    return _view(OPS["transpose"](x, 0, 1), (x.shape[1], x.shape[0] * x.shape[2], *x.shape[3:]))


def _from_channels(x, size):
    return OPS["transpose"](_view(x, (x.shape[0], size, x.shape[1] // size, *x.shape[2:])), 0, 1)


# --- convolution ------------------------------------------------------------------------------------------------------

@rule("convolution")
def convolution(op, size, values, marks, options):
    x, weight, bias, *form = values
    mx, mw, mb = marks[:3]
    if size == 0:
        return NotImplemented
    if not mw:
        result = _part(op(_join(x), weight, None if mb else bias, *form), size) if mx else op(
            x, weight, None, *form)
        if mb:
            spread = _view(bias, (*bias.shape[:1], 1, bias.shape[1], *(1,) * (weight.ndim - 2)))
            result = _add(result, spread)
        return result
    groups, transposed = form[-1], form[3]
    if mx:
        merged, groups = _into_channels(x), groups * size
    elif groups == 1 and not transposed:
        merged = x
    else:
        merged, groups = _into_channels(front(x, False, size)), groups * size
    merged_bias = bias if bias is None else _view(front(bias, mb, size), (-1,))
    return _from_channels(op(merged, _join(weight), merged_bias, *form[:-1], groups), size)


@rule("convolution_backward")
def convolution_backward(op, size, values, marks, options):
    grad, x, weight, _, *form, mask = values
    if size == 0 or grad.numel() == 0:
        return NotImplemented
    stride, padding, dilation, transposed, _, groups = form
    grad = front(grad, marks[0], size)
    to_x = to_weight = to_bias = grad.new_empty((size, 0))
    ask_x, ask_weight, ask_bias = mask
    if ask_bias:
        to_bias = _sum(grad, (1, *range(3, grad.ndim)))
    if ask_x and not marks[2]:
        shape_of = _join(front(x, marks[1], size))
        to_x = _part(op(_join(grad), shape_of, weight, None, *form, (True, False, False))[0], size)
        ask_x = False
    if ask_weight and not transposed and groups == 1 and grad.ndim == 5:
        to_weight = _unfolded_weight_gradient(grad, front(x, marks[1], size), weight.shape[marks[2]:],
                                              stride, padding, dilation)
        ask_weight = False
    if ask_x or ask_weight:
        merged = (_into_channels(grad), _into_channels(front(x, marks[1], size)), _join(front(weight, marks[2], size)))
        found = op(*merged, None, *form[:-1], groups * size, (ask_x, ask_weight, False))
        if ask_x:
            to_x = _from_channels(found[0], size)
        if ask_weight:
            to_weight = _part(found[1], size)
    return to_x, to_weight, to_bias


def _unfolded_weight_gradient(grad, x, weight_shape, stride, padding, dilation):
    """Of 2-d convolutions: per element, the product of the gradient with the windows it came from."""
    size, n, channels = grad.shape[:3]
    columns = OPS["im2col"](_join(x), weight_shape[2:], _pair(dilation), _pair(padding), _pair(stride))
    if n == 1:
        product = OPS["bmm"](_view(grad, (size, channels, -1)), columns.mT)
    else:
        product = _sum(_part(OPS["bmm"](_view(grad, (size * n, channels, -1)), columns.mT), size), (1,))
    return _view(product, (size, *weight_shape))


def _pair(x):
    return tuple(x) * 2 if len(x) == 1 else tuple(x)


@rule("im2col", "col2im")
def fold(op, size, values, marks, options):
    x = values[0]
    if size == 0:
        return NotImplemented
    single = x.ndim - 1 == (3 if op.name == "im2col" else 2)
    return op(*values) if single else _part(op(_join(x), *values[1:]), size)


@rule("pixel_shuffle", "pixel_unshuffle")
def exchanged(op, size, values, marks, options):
    return op(*values) if values[0].ndim > 3 else NotImplemented  # any number of dimensions lies in front


@rule("channel_shuffle")
def channel_shuffle(op, size, values, marks, options):
    return _part(op(_join(values[0]), values[1]), size) if size and values[0].ndim > 3 else NotImplemented


@rule("grid_sampler", "interpolate")
def sampled(op, size, values, marks, options):
    tensors = 2 if op.name == "grid_sampler" else 1
    fronts = [front(v, m, size) for v, m in zip(values[:tensors], marks, strict=False)]
    if size == 0 or len({t.shape[1] for t in fronts}) > 1:
        return NotImplemented
    return _part(op(*[_join(t) for t in fronts], *values[tensors:]), size)


# --- pooling ----------------------------------------------------------------------------------------------------------

@rule("max_pool", "max_pool_values", "adaptive_max_pool", "avg_pool1d", "avg_pool2d", "avg_pool3d",
      "adaptive_avg_pool", "max_pool_backward")
def pool(op, size, values, marks, options):
    tensors = 2 if op.name == "max_pool_backward" else 1
    fronts = [front(v, m, size) for v, m in zip(values[:tensors], marks, strict=False)]
    dims = len(values[2]) if tensors == 2 else len(values[1]) if op.name.startswith("avg_pool") else values[-1]
    if size == 0 or fronts[0].ndim - 1 > dims + 2:
        return NotImplemented
    if fronts[0].ndim - 1 < dims + 2:
        return op(*fronts, *values[tensors:])
    found = op(*[_join(t) for t in fronts], *values[tensors:])
    return _part(found, size) if not isinstance(found, tuple) else tuple(_part(t, size) for t in found)


@rule("avg_pool_backward", "adaptive_avg_pool_backward")
def pool_backward(op, size, values, marks, options):
    grad, shape, *rest = values
    dims = rest[-1] if op.name.startswith("adaptive") else len(rest[0])
    if size == 0 or len(shape) > dims + 2:
        return NotImplemented
    if len(shape) < dims + 2:
        return op(grad, (size, *shape), *rest)
    return _part(op(_join(grad), (size * shape[0], *shape[1:]), *rest), size)


# --- normalisation ----------------------------------------------------------------------------------------------------

def _affine(result, size, weight, bias, marks, shape):
    """result * weight + bias, each of them with the batch in front or not, and `shape` behind it."""
    for op, t, m in ((_mul, weight, marks[0]), (_add, bias, marks[1])):
        if t is not None:
            t = _view(t, (size, *shape)) if m else _view(t, shape)
            result = elementwise(op, size, (result, t), (True, m), {})
    return result


@rule("layer_norm", "rms_norm")
def layer_norm(op, size, values, marks, options):
    x, shape, weight, *rest = values
    if op.name == "rms_norm":
        rest = (None, *rest)
    bias, eps = rest[0], rest[1]
    mb = marks[3] if op.name == "layer_norm" else False
    if size == 0:
        return NotImplemented
    x = front(x, marks[0], size)
    tail = () if op.name == "rms_norm" else (None,)
    if not marks[2] and not mb:
        return op(x, shape, weight, *((bias,) if op.name == "layer_norm" else ()), eps)
    return _affine(op(x, shape, None, *tail, eps), size, weight, bias, (marks[2], mb), tuple(shape))


@rule("_layer_norm_backward")
def layer_norm_backward(op, size, values, marks, options):
    grad, x, shape, weight, eps, centred, sums = values
    if size == 0 or x.numel() == 0:
        return NotImplemented
    grad, x = front(grad, marks[0], size), front(x, marks[1], size)
    if sums:
        normal = OPS["layer_norm"](x, shape, None, None, eps) if centred else OPS["rms_norm"](x, shape, None, eps)
        over = tuple(range(1, x.ndim - len(shape)))
        to_weight, to_bias = _mul(grad, normal), grad
        if over:
            to_weight, to_bias = _sum(to_weight, over), _sum(to_bias, over)
    else:
        to_weight, to_bias = (x.new_zeros((size, *shape)) for _ in range(2))
    if weight is not None and marks[3]:
        grad, weight = _affine(grad, size, weight, None, (True, False), tuple(shape)), None
    return op(grad, x, shape, weight, eps, centred, False)[0], to_weight, to_bias


@rule("group_norm")
def group_norm(op, size, values, marks, options):
    x, groups, weight, bias, eps, *_ = values
    if size == 0:
        return NotImplemented
    x = front(x, marks[0], size)
    if not marks[2] and not marks[3]:
        return _part(op(_join(x), groups, weight, bias, eps), size)
    shape = (1, x.shape[2], *(1,) * (x.ndim - 3))
    return _affine(_part(op(_join(x), groups, None, None, eps), size), size, weight, bias, marks[2:4], shape)


@rule("_group_norm_backward")
def group_norm_backward(op, size, values, marks, options):
    grad, x, groups, weight, eps = values
    if size == 0 or x.numel() == 0:
        return NotImplemented
    grad, x = front(grad, marks[0], size), front(x, marks[1], size)
    normal = _part(OPS["group_norm"](_join(x), groups, None, None, eps), size)
    over = (1, *range(3, x.ndim))
    to_weight, to_bias = _sum(_mul(grad, normal), over), _sum(grad, over)
    if weight is not None and marks[3]:
        shape = (1, x.shape[2], *(1,) * (x.ndim - 3))
        grad, weight = _affine(grad, size, weight, None, (True, False), shape), None
    return _part(op(_join(grad), _join(x), groups, weight, eps)[0], size), to_weight, to_bias


def _flat_channels(t, mark, size):
    return None if t is None else _view(front(t, mark, size), (-1,))


@rule("native_batch_norm")
def batch_norm(op, size, values, marks, options):
    x, weight, bias, mean, var, training, momentum, eps = values
    if size == 0 or x.ndim - marks[0] < 2:
        return NotImplemented
    if training and mean is not None and not (marks[3] and marks[4]):
        raise RuntimeError(
            "vmap: batch_norm in training got running_mean and running_var that are the same for all elements of the "
            "batch, but would be moved by each: use a norm without running statistics "
            "(func.replace_all_batch_norm_modules_, or track_running_stats=False), or batch the statistics as well")
    given = [_flat_channels(t, m, size) for t, m in zip((weight, bias, mean, var), marks[1:5], strict=True)]
    found = op(_into_channels(front(x, marks[0], size)), *given, training, momentum, eps)
    if training and mean is not None:
        OPS["copy_"](mean, _view(given[2], mean.shape))
        OPS["copy_"](var, _view(given[3], var.shape))
    return (_from_channels(found[0], size), *(
        _view(t, (size, -1)) if t.numel() else t.new_empty((size, *t.shape)) for t in found[1:]))


@rule("_batch_norm_backward")
def batch_norm_backward(op, size, values, marks, options):
    grad, x, weight, mean, var, save_mean, save_invstd, training, eps = values
    if size == 0 or x.ndim - marks[1] < 2:
        return NotImplemented
    if any(t is not None and t.numel() == 0 for t in (save_mean, save_invstd)):
        save_mean = save_invstd = None if training else grad.new_empty((0,))
    given = [t if t is None or t.numel() == 0 else _flat_channels(t, m, size) for t, m in zip(
        (weight, mean, var, save_mean, save_invstd), marks[2:7], strict=True)]
    found = op(_into_channels(front(grad, marks[0], size)), _into_channels(front(x, marks[1], size)), *given, training,
               eps)
    return (_from_channels(found[0], size), *(
        _view(t, (size, -1)) if t.numel() else t.new_empty((size, *t.shape)) for t in found[1:]))


# --- losses -----------------------------------------------------------------------------------------------------------

def _labels(x, target):
    """Scores and labels with the batch in front, as one large batch."""
    return (x, target) if x.ndim == 2 else (_join(x), _join(target))


def _weights(target, weight, ignore):
    """What each label counts for."""
    counted = target != ignore
    if weight is None:
        return counted
    return OPS["where"](counted, weight[OPS["where"](counted, target, 0)], 0)


@rule("_cross_entropy", "_nll_loss")
def labelled(op, size, values, marks, options):
    x, target, weight, ignore, reduction, *rest = values
    if size == 0 or marks[2] or (rest and rest[0] and weight is not None and reduction == "mean"):
        return NotImplemented
    x, target = front(x, marks[0], size), front(target, marks[1], size)
    each = op(*_labels(x, target), weight, ignore, "none", *rest)
    each = _view(each, target.shape)
    if reduction == "none" or (reduction == "sum" and target.ndim == 1):
        return each
    over = tuple(range(1, target.ndim))
    total = _sum(each, over) if over else each
    if reduction == "sum":
        return total
    count = _weights(target, weight, ignore).to(each.dtype)
    return total / (_sum(count, over) if over else count)


@rule("_cross_entropy_backward", "_nll_loss_backward")
def labelled_backward(op, size, values, marks, options):
    grad, x, target, weight, ignore, reduction, *rest = values
    if size == 0 or marks[3] or (rest and rest[0] and weight is not None and reduction == "mean"):
        return NotImplemented
    grad, x, target = (front(t, m, size) for t, m in zip((grad, x, target), marks, strict=False))
    over = tuple(range(1, target.ndim))
    if reduction != "none":
        if reduction == "mean":
            count = _weights(target, weight, ignore).to(grad.dtype)
            grad = _view(grad, (size,)) / (_sum(count, over) if over else count)
        grad = OPS["expand"](_view(grad, (size, *(1,) * len(over))), target.shape)
    scores, labels = _labels(x, target)
    return _view(op(_view(grad, labels.shape), scores, labels, weight, ignore, "none", *rest), x.shape)
