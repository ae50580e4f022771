"""Convolution and transposed convolution in one to three dimensions: forms of one primitive and its gradient."""

from .._shown import shown
from .kinds import OPS, composite, primitive
from .padding import constant_pad_nd

convolution_backward = primitive(
    "convolution_backward(Tensor grad_output, Tensor input, Tensor weight, int[]? bias_sizes, int[] stride, "
    "int[] padding, int[] dilation, bool transposed, int[] output_padding, int groups, bool[3] output_mask) "
    "-> (Tensor grad_input, Tensor grad_weight, Tensor grad_bias)",
    d={("grad_output", "input", "weight"):
       lambda g0, g1, g2, grad_output, input, weight, stride, padding, dilation, transposed, output_padding, groups,
       output_mask, needs:
       _double([g if asked else None for g, asked in zip((g0, g1, g2), output_mask, strict=True)], grad_output, input,
               weight, (stride, padding, dilation, transposed, output_padding, groups), needs)},
    namespace=None,
    doc="The gradients of convolution for input, weight and bias; None for those that output_mask leaves out.")


def _double(grads, grad, input, weight, form, needs):
    """The result is bilinear in (input, weight), so each share is again a convolution or one of its gradients."""
    g0, g1, g2 = grads
    to_grad = None
    if needs[0]:
        shares = []
        if g0 is not None:
            shares.append(convolution(g0, weight, None, *form))
        if g1 is not None:
            shares.append(convolution(input, g1, None, *form))
        if g2 is not None:
            shares.append(g2.reshape((-1,) + (1,) * (grad.ndim - 2)).expand(grad.shape))
        for share in shares:
            to_grad = share if to_grad is None else to_grad + share
    mask = needs[1] and g1 is not None, needs[2] and g0 is not None, False
    if not any(mask):
        return to_grad, None, None
    to_input, to_weight, _ = convolution_backward(
        grad, input if g0 is None else g0, weight if g1 is None else g1, None, *form, mask)
    return to_grad, to_input, to_weight


convolution = primitive(
    "convolution(Tensor input, Tensor weight, Tensor? bias, int[] stride, int[] padding, int[] dilation, "
    "bool transposed, int[] output_padding, int groups) -> Tensor", autocast="half", keeps_format=True,
    d={("input", "weight", "bias"):
       lambda g, input, weight, stride, padding, dilation, transposed, output_padding, groups, needs:
       convolution_backward(g, input, weight, (g.shape[1],) if needs[2] else None, stride, padding, dilation,
                            transposed, output_padding, groups, needs)},
    samples="convolution",
    doc="""Convolution of a batch, or its transpose, in as many dimensions as the weight has beyond two.

    >>> import flambeau
    >>> x, w = flambeau.ones(1, 1, 3, 3), flambeau.ones(2, 1, 2, 2)
    >>> flambeau.convolution(x, w, None, [1], [0], [1], False, [0], 1).shape
    torch.Size([1, 2, 2, 2])
    """)

convolution_tail = primitive(
    "_convolution_tail(Tensor input, Tensor weight, Tensor? bias, Tensor? scale, Tensor? shift, Tensor? mean, "
    "Tensor? var, float eps, Tensor? other, int[] stride, int[] padding, int[] dilation, bool transposed, "
    "int[] output_padding, int groups, str activation, float low, float high, bool overwrite) -> Tensor",
    namespace=None,
    doc="""A convolution of float32 images and what follows it, as one; graphs are rewritten to it.

    activation((convolution(input) - mean) / sqrt(var + eps) * scale + shift + other), in memory that has the channels
    last. `activation` is none, relu, hardtanh (into [low, high]), silu or hardswish. overwrite: `other` is not needed
    any more, and the result may have its memory.
    """)


def _same(input, weight, stride, dilation, nd):
    """padding="same": the padding, after the input got what does not split evenly on its far side."""
    if any(s != 1 for s in stride):
        raise RuntimeError(f"conv: padding='same' needs stride 1, got stride {tuple(stride)}")
    padding, extra = [], []
    for k in range(nd):
        total = (dilation[k] if len(dilation) > 1 else dilation[0]) * (weight.shape[2 + k] - 1)
        padding.append(total // 2)
        extra.append(total % 2)
    if any(extra):
        input = constant_pad_nd(input, [n for e in reversed(extra) for n in (0, e)])
    return input, padding


def _conv(nd, input, weight, bias, stride, padding, dilation, groups):
    if weight.ndim != nd + 2:
        raise RuntimeError(f"conv{nd}d: expected a weight of {nd + 2} dimensions, got weight of size "
                           f"{list(weight.shape)}")
    if input.ndim not in (nd + 1, nd + 2):
        raise RuntimeError(f"conv{nd}d: input must have {nd + 2} dimensions, or {nd + 1} without a batch, got shape "
                           f"{list(input.shape)}")
    single = input.ndim == nd + 1
    if single:
        input = input.unsqueeze(0)
    if isinstance(padding, str):
        if padding == "same":
            input, padding = _same(input, weight, stride, dilation, nd)
        elif padding == "valid":
            padding = (0,)
        else:
            raise RuntimeError(f"Invalid padding string: '{shown(padding)}'; it is 'same' or 'valid'")
    elif isinstance(padding, int):
        padding = (padding,)
    result = convolution(input, weight, bias, stride, padding, dilation, False, (0,), groups)
    return result.squeeze(0) if single else result


def _conv_transpose(nd, input, weight, bias, stride, padding, output_padding, groups, dilation):
    if weight.ndim != nd + 2:
        raise RuntimeError(f"conv_transpose{nd}d: expected a weight of {nd + 2} dimensions, got weight of size "
                           f"{list(weight.shape)}")
    if input.ndim not in (nd + 1, nd + 2):
        raise RuntimeError(f"conv_transpose{nd}d: input must have {nd + 2} dimensions, or {nd + 1} without a batch, "
                           f"got shape {list(input.shape)}")
    single = input.ndim == nd + 1
    if single:
        input = input.unsqueeze(0)
    result = convolution(input, weight, bias, stride, padding, dilation, True, output_padding, groups)
    return result.squeeze(0) if single else result


_CONV = ("conv{0}d(Tensor input, Tensor weight, Tensor? bias=None, int[{0}] stride=1, any padding=0, "
         "int[{0}] dilation=1, int groups=1) -> Tensor")
_CONV_TRANSPOSE = ("conv_transpose{0}d(Tensor input, Tensor weight, Tensor? bias=None, int[{0}] stride=1, "
                   "int[{0}] padding=0, int[{0}] output_padding=0, int groups=1, int[{0}] dilation=1) -> Tensor")


@composite(_CONV.format(1), autocast="half", samples="conv1d")
def conv1d(input, weight, bias, stride, padding, dilation, groups):
    """Convolution over sequences [n, channels, length] with weights [out, channels / groups, width].

    >>> import flambeau
    >>> flambeau.nn.functional.conv1d(flambeau.ones(1, 1, 4), flambeau.ones(1, 1, 3), padding="same")
    tensor([[[2., 3., 3., 2.]]])
    """
    return _conv(1, input, weight, bias, stride, padding, dilation, groups)


@composite(_CONV.format(2), autocast="half", samples="conv2d")
def conv2d(input, weight, bias, stride, padding, dilation, groups):
    """Convolution over images [n, channels, height, width] with weights [out, channels / groups, rows, columns].

    `padding` is a number, one per dimension, "valid" (none) or "same" (the result has the input's size).

    >>> import flambeau
    >>> flambeau.nn.functional.conv2d(flambeau.ones(1, 1, 3, 3), flambeau.ones(1, 1, 2, 2))
    tensor([[[[4., 4.],
              [4., 4.]]]])
    """
    return _conv(2, input, weight, bias, stride, padding, dilation, groups)


@composite(_CONV.format(3), autocast="half", samples="conv3d")
def conv3d(input, weight, bias, stride, padding, dilation, groups):
    """Convolution over volumes [n, channels, depth, height, width].

    >>> import flambeau
    >>> flambeau.nn.functional.conv3d(flambeau.ones(1, 1, 3, 3, 3), flambeau.ones(2, 1, 2, 2, 2), stride=2).shape
    torch.Size([1, 2, 1, 1, 1])
    """
    return _conv(3, input, weight, bias, stride, padding, dilation, groups)


@composite(_CONV_TRANSPOSE.format(1), autocast="half", samples="conv_transpose1d")
def conv_transpose1d(input, weight, bias, stride, padding, output_padding, groups, dilation):
    """The linear map of conv1d transposed, as a layer: weights are [channels, out / groups, width].

    >>> import flambeau
    >>> flambeau.nn.functional.conv_transpose1d(flambeau.ones(1, 1, 2), flambeau.ones(1, 1, 2))
    tensor([[[1., 2., 1.]]])
    """
    return _conv_transpose(1, input, weight, bias, stride, padding, output_padding, groups, dilation)


@composite(_CONV_TRANSPOSE.format(2), autocast="half", samples="conv_transpose2d")
def conv_transpose2d(input, weight, bias, stride, padding, output_padding, groups, dilation):
    """The linear map of conv2d transposed, as a layer.

    >>> import flambeau
    >>> flambeau.nn.functional.conv_transpose2d(flambeau.ones(1, 2, 3, 3), flambeau.ones(2, 1, 2, 2), stride=2).shape
    torch.Size([1, 1, 6, 6])
    """
    return _conv_transpose(2, input, weight, bias, stride, padding, output_padding, groups, dilation)


@composite(_CONV_TRANSPOSE.format(3), autocast="half", samples="conv_transpose3d")
def conv_transpose3d(input, weight, bias, stride, padding, output_padding, groups, dilation):
    """The linear map of conv3d transposed, as a layer.

    >>> import flambeau
    >>> flambeau.nn.functional.conv_transpose3d(flambeau.ones(1, 2, 1, 1, 1), flambeau.ones(2, 3, 2, 2, 2)).shape
    torch.Size([1, 3, 2, 2, 2])
    """
    return _conv_transpose(3, input, weight, bias, stride, padding, output_padding, groups, dilation)


@composite("conv_tbc(Tensor self, Tensor weight, Tensor bias, int pad=0) -> Tensor", autocast="half", method=False,
           aliases=("nn.functional.conv_tbc",), skip="tested by name")
def conv_tbc(self, weight, bias, pad=0):
    """conv1d of [time, batch, channels] with weights [kernel, channels, filters].

    >>> flambeau.conv_tbc(flambeau.ones(3, 1, 1), flambeau.ones(2, 1, 1), flambeau.zeros(1)).reshape(-1)
    tensor([2., 2.])
    """
    if self.dim() != 3:
        raise RuntimeError(f"conv_tbc: input must have 3 dimensions (time, batch, channels), got {self.dim()}")
    made = OPS["conv1d"](self.permute(1, 2, 0), weight.permute(2, 1, 0), bias, padding=pad)
    return made.permute(2, 0, 1).contiguous()
