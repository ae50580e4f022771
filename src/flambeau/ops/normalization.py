"""Normalisation: layer, RMS, group, instance and batch norm, local response, and vectors to unit length."""

from math import prod

from .kinds import OPS, composite, primitive

_DERIVATIVE = "a derivative; reached through the function it belongs to"


def _wanted(gradients, needs):
    return tuple(g if n else None for g, n in zip(gradients, needs, strict=True))


def _through_statistics(G, Gw, Gb, g, x, w, dims, eps, fold, centred=True):
    """Double backward of dx = r (h - mean h - hat mean(h hat)), dw = fold(g hat), db = fold(g), with h = g w,
    hat = (x - mean) r and r = 1 / sqrt(var + eps) over `dims`; G, Gw, Gb (broadcast like x) are the gradients of the
    three. dx is linear and symmetric in h: the same map A serves the gradients of h and, through hat, of x."""
    mean = x.mean(dims, True) if centred else 0
    r = ((x - mean).square().mean(dims, True) + eps).rsqrt()
    hat = (x - mean) * r

    def average(v):
        return v.mean(dims, True)

    def A(v):
        along = v - average(v) if centred else v
        return r * (along - hat * average(v * hat))

    h = g * w
    to_g = to_x = to_w = 0
    if G is not None:
        projected = A(G)
        to_g, to_w = projected * w, fold(projected * g)
        a, b = average(G * hat), average(h * hat)
        through_r = average(G * h) - a * b - (average(G) * average(h) if centred else 0)
        to_x = A(-r * (G * b + a * h)) - through_r * (r * r) * hat
    if Gw is not None:
        to_g, to_x = to_g + Gw * hat, to_x + A(Gw * g)
    if Gb is not None:
        to_g = to_g + Gb
    return to_g, to_x, to_w


def _finished(gradients, g, x, weight, needs):
    """The three in the shapes of their inputs; what did not get anything is zero."""
    to_g, to_x, to_w = (t if hasattr(t, "shape") else None for t in gradients)
    zeros = OPS["zeros_like"]
    if to_g is not None and to_g.numel() != g.numel():  # from the bias alone
        to_g = to_g.expand(to_x.shape)
    return (None if not needs[0] else zeros(g) if to_g is None else to_g.reshape(g.shape),
            None if not needs[1] else zeros(x) if to_x is None else to_x.reshape(x.shape),
            None if not needs[2] or weight is None else zeros(weight) if to_w is None else to_w.reshape(weight.shape))


# --- over the last dimensions ---------------------------------------------------------------------------------------

def _layer_norm_second(G, Gw, Gb, g, x, shape, weight, eps, centred, needs):
    n = 1
    for s in shape:
        n *= s

    def row(t):
        return None if t is None else t.reshape(1, n)

    if eps is None:
        eps = 2.220446049250313e-16 if x.dtype.itemsize == 8 else 1.1920928955078125e-07
    found = _through_statistics(None if G is None else G.reshape(-1, n), row(Gw), row(Gb), g.reshape(-1, n),
                                x.reshape(-1, n), 1 if weight is None else row(weight), (1,), eps,
                                lambda t: t.sum(0), centred)
    return _finished(found, g, x, weight, needs)


_layer_norm_backward = primitive(
    "_layer_norm_backward(Tensor grad_output, Tensor input, int[] normalized_shape, Tensor? weight, float? eps,"
    " bool centred, bool sums=True) -> (Tensor, Tensor, Tensor)", namespace=None,
    d={("grad_output", "input", "weight"):
       lambda g0, g1, g2, grad_output, input, normalized_shape, weight, eps, centred, needs:
       _layer_norm_second(g0, g1, g2, grad_output, input, normalized_shape, weight, eps, centred, needs)},
    skip=_DERIVATIVE, doc="Gradients of layer_norm and rms_norm: of the input, the weight and the bias; the last two"
                          " are zero without `sums`.")

primitive("layer_norm(Tensor input, int[] normalized_shape, Tensor? weight=None, Tensor? bias=None, float eps=1e-05,"
          " bool cudnn_enable=True) -> Tensor", node="NativeLayerNormBackward0",
          d={("input", "weight", "bias"): lambda g, input, normalized_shape, weight, eps, needs:
             _wanted(_layer_norm_backward(g, input, normalized_shape, weight, eps, True, any(needs[1:])), needs)},
          aliases=("nn.functional.layer_norm",), dtypes="float",
          doc="""(input - mean) / sqrt(var + eps) * weight + bias over the last dimensions `normalized_shape`.

    >>> flambeau.layer_norm(flambeau.tensor([[1., 3.]]), (2,), eps=0.0)
    tensor([[-1.,  1.]])
    """)
primitive("_layer_norm_to(Tensor input, int[] normalized_shape, Tensor? weight, Tensor? bias, float eps, dtype dtype)"
          " -> Tensor", namespace=None, doc="layer_norm whose result is of another dtype; graphs are rewritten to it.")
primitive("rms_norm(Tensor input, int[] normalized_shape, Tensor? weight=None, float? eps=None) -> Tensor",
          node="MulBackward0", d={("input", "weight"): lambda g, input, normalized_shape, weight, eps, needs:
             _wanted(_layer_norm_backward(g, input, normalized_shape, weight, eps, False, needs[1])[:2], needs)},
          aliases=("nn.functional.rms_norm",), dtypes="float",
          doc="""input / sqrt(mean(input^2) + eps) * weight over the last dimensions (Zhang and Sennrich 2019).

    >>> flambeau.rms_norm(flambeau.tensor([[3., 3.]]), (2,))
    tensor([[1., 1.]])
    """)


# --- over groups of channels ----------------------------------------------------------------------------------------

def _group_norm_second(G, Gw, Gb, g, x, groups, weight, eps, needs):
    batch, channels = x.shape[:2]

    def split(t):
        return None if t is None else t.reshape(batch, groups, channels // groups, prod(t.shape[2:]))

    def affine(t):
        return None if t is None else t.reshape(1, groups, channels // groups, 1)

    found = _through_statistics(split(G), affine(Gw), affine(Gb), split(g), split(x),
                                1 if weight is None else affine(weight), (2, 3), eps, lambda t: t.sum((0, 3)))
    return _finished(found, g, x, weight, needs)


_group_norm_backward = primitive(
    "_group_norm_backward(Tensor grad_output, Tensor input, int num_groups, Tensor? weight, float eps)"
    " -> (Tensor, Tensor, Tensor)", namespace=None,
    d={("grad_output", "input", "weight"): lambda g0, g1, g2, grad_output, input, num_groups, weight, eps, needs:
       _group_norm_second(g0, g1, g2, grad_output, input, num_groups, weight, eps, needs)},
    skip=_DERIVATIVE, doc="Gradients of group_norm: of the input, the weight and the bias.")

_group_norm = primitive(
    "group_norm(Tensor input, int num_groups, Tensor? weight=None, Tensor? bias=None, float eps=1e-05,"
    " bool cudnn_enabled=True) -> Tensor", node="NativeGroupNormBackward0", keeps_format=True,
    d={("input", "weight", "bias"): lambda g, input, num_groups, weight, eps, needs:
       _wanted(_group_norm_backward(g, input, num_groups, weight, eps), needs)},
    aliases=("nn.functional.group_norm",), dtypes="float",
    doc="""Each sample's channels in `num_groups` groups, each with mean 0 and variance 1, then times weight plus bias.

    >>> flambeau.group_norm(flambeau.tensor([[1., 3., 5., 9.]]), 2, eps=0.0)
    tensor([[-1.,  1., -1.,  1.]])
    """)


# --- over the batch -------------------------------------------------------------------------------------------------

def _batch_norm_second(G, Gw, Gb, g, x, weight, running_mean, running_var, training, eps, needs):
    batch, channels = x.shape[:2]

    def split(t):
        return None if t is None else t.reshape(batch, channels, prod(t.shape[2:]))

    def affine(t):
        return None if t is None else t.reshape(1, channels, 1)

    def fold(t):
        return t.sum((0, 2))

    w = 1 if weight is None else affine(weight)
    if training:
        found = _through_statistics(split(G), affine(Gw), affine(Gb), split(g), split(x), w, (0, 2), eps, fold)
        return _finished(found, g, x, weight, needs)
    r = (affine(running_var) + eps).rsqrt()
    hat = (split(x) - affine(running_mean)) * r
    to_g = to_x = hat * 0
    to_w = 0
    if G is not None:
        to_g, to_w = split(G) * (w * r), fold(split(G) * split(g) * r)
    if Gw is not None:
        to_g, to_x = to_g + affine(Gw) * hat, affine(Gw) * split(g) * r
    if Gb is not None:
        to_g = to_g + affine(Gb)
    return _finished((to_g, to_x, to_w), g, x, weight, needs)


_batch_norm_backward = primitive(
    "_batch_norm_backward(Tensor grad_output, Tensor input, Tensor? weight, Tensor? running_mean, Tensor? running_var,"
    " Tensor? save_mean, Tensor? save_invstd, bool training, float eps) -> (Tensor, Tensor, Tensor)", namespace=None,
    d={("grad_output", "input", "weight"):
       lambda g0, g1, g2, grad_output, input, weight, running_mean, running_var, training, eps, needs:
       _batch_norm_second(g0, g1, g2, grad_output, input, weight, running_mean, running_var, training, eps, needs)},
    skip=_DERIVATIVE, doc="Gradients of batch_norm: of the input, the weight and the bias.")

_native_batch_norm = primitive(
    "native_batch_norm(Tensor input, Tensor? weight, Tensor? bias, Tensor(training!)? running_mean,"
    " Tensor(training!)? running_var, bool training, float momentum, float eps) -> (Tensor, Tensor, Tensor)",
    keeps_format=True,
    d={("input", "weight", "bias"):
       lambda g0, input, weight, running_mean, running_var, result1, result2, training, eps, needs: _wanted(
           _batch_norm_backward(g0, input, weight, running_mean, running_var, result1, result2, training, eps), needs)},
    skip="the kernel of batch_norm, reached through it",
    doc="Batch normalisation: the result, and in training the batch's mean and 1 / sqrt(var + eps). Moves the running"
        " statistics in place.")


@composite("batch_norm(Tensor input, Tensor? running_mean, Tensor? running_var, Tensor? weight=None, Tensor? bias=None,"
           " bool training=False, float momentum=0.1, float eps=1e-05) -> Tensor", namespace="nn.functional",
           dtypes="float")
def batch_norm(input, running_mean, running_var, weight=None, bias=None, training=False, momentum=0.1, eps=1e-5):
    """Each channel normalised over the batch (training, which moves the running statistics in place) or by the running
    statistics, then times weight plus bias (Ioffe and Szegedy 2015).

    >>> flambeau.nn.functional.batch_norm(flambeau.tensor([[1.], [3.]]), None, None, training=True, eps=1e-9)
    tensor([[-1.],
            [ 1.]])
    """
    if input.numel() == 0 and input.ndim == 1:
        return input.clone()
    if training and input.ndim > 1 and input.numel() == input.shape[1] > 0:
        raise ValueError("batch_norm: in training each channel needs more than one value to have a variance, got "
                         f"input {list(input.shape)}")
    if eps < 0 or (training and eps == 0):
        least = "positive during training" if training else "non-negative"
        raise ValueError(f"batch_norm eps must be {least}, but got {eps}")
    return _native_batch_norm(input, weight, bias, running_mean, running_var, training, momentum, eps)[0]


@composite("instance_norm(Tensor input, Tensor? running_mean=None, Tensor? running_var=None, Tensor? weight=None,"
           " Tensor? bias=None, bool use_input_stats=True, float momentum=0.1, float eps=1e-05) -> Tensor",
           namespace="nn.functional", dtypes="float")
def instance_norm(input, running_mean=None, running_var=None, weight=None, bias=None, use_input_stats=True,
                  momentum=0.1, eps=1e-5):
    """Each channel of each sample normalised by itself, or by running statistics (Ulyanov et al. 2016)."""
    if input.ndim < 3:
        raise RuntimeError(f"instance_norm: expected an input [batch, channels, ...], got shape {list(input.shape)}")
    batch, channels = input.shape[:2]
    input = input.contiguous()  # so is the result, also of channels_last: dropout after it draws in the order of memory
    if not use_input_stats:
        return batch_norm(input, running_mean, running_var, weight, bias, False, momentum, eps)
    if input.numel() == batch * channels:
        raise ValueError("instance_norm: in training each channel of a sample needs more than one value to have a "
                         f"variance, got input {list(input.shape)}")
    if running_mean is not None:
        _move_running(input, running_mean, running_var, momentum)
    return _group_norm(input, channels, weight, bias, eps)


def _move_running(input, running_mean, running_var, momentum):
    dims = tuple(range(2, input.ndim))
    x = input.detach()
    for running, batch in ((running_mean, x.mean(dims).mean(0)), (running_var, x.var(dims).mean(0))):
        if running is not None:
            running.copy_(running * (1 - momentum) + batch.to(running.dtype) * momentum)


@composite("local_response_norm(Tensor input, int size, float alpha=0.0001, float beta=0.75, float k=1.0) -> Tensor",
           namespace="nn.functional", dtypes="float")
def local_response_norm(input, size, alpha=1e-4, beta=0.75, k=1.0):
    """input / (k + alpha * mean of squares over `size` neighbouring channels) ** beta (Krizhevsky et al. 2012)."""
    if input.ndim < 3:
        raise ValueError("local_response_norm: input must have at least 3 dimensions (batch, channels, positions), "
                         f"got {input.ndim}")
    shape, square = list(input.shape), input.square()
    if input.numel() == 0:
        return input
    before, after = list(shape), list(shape)
    before[1], after[1] = size // 2, (size - 1) // 2
    padded = OPS["cat"]([input.new_zeros(before), square, input.new_zeros(after)], 1)
    windows = padded.unfold(1, size, 1)
    mean = windows.mean(-1) if input.is_floating_point() else windows.sum(-1).div(size, rounding_mode="trunc")
    return input / (mean * alpha + k).pow(beta)


@composite("normalize(Tensor input, float p=2.0, any dim=1, float eps=1e-12) -> Tensor", namespace="nn.functional",
           out=True, dtypes="float")
def normalize(input, p=2.0, dim=1, eps=1e-12):
    """input divided by its p-norm along `dim`, at least eps.

    >>> flambeau.nn.functional.normalize(flambeau.tensor([[3., 4.]]))
    tensor([[0.6000, 0.8000]])
    """
    return input / input.norm(p, dim, True).clamp(min=eps)
