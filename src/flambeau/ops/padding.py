"""Images rearranged: padding, sliding blocks, pixels exchanged with channels."""


from .._shown import shown
from .kinds import composite, primitive

constant_pad_nd = primitive(
    "constant_pad_nd(Tensor self, int[] pad, Scalar value=0) -> Tensor",
    d={"self": lambda g, pad: constant_pad_nd(g, [-n for n in pad])},
    method=False, samples="constant_pad_nd",
    doc="""A border of `value`: `pad` lists (before, after) from the last dimension on; negative numbers crop.

    >>> import flambeau
    >>> flambeau.constant_pad_nd(flambeau.ones(2), [1, 2], 5.0)
    tensor([5., 1., 1., 5., 5.])
    """)

im2col = primitive(
    "im2col(Tensor input, int[2] kernel_size, int[2] dilation=1, int[2] padding=0, int[2] stride=1) -> Tensor",
    d={"input": lambda g, input_shape, kernel_size, dilation, padding, stride:
       col2im(g, input_shape[-2:], kernel_size, dilation, padding, stride)},
    namespace="nn.functional", samples="im2col",
    doc="""Every sliding block of an image as a column: [n, channels * rows * columns, blocks]. Public as unfold.

    >>> import flambeau
    >>> flambeau.nn.functional.unfold(flambeau.ones(1, 2, 3, 3), 2).shape
    torch.Size([1, 8, 4])
    """)

col2im = primitive(
    "col2im(Tensor input, int[2] output_size, int[2] kernel_size, int[2] dilation=1, int[2] padding=0, "
    "int[2] stride=1) -> Tensor",
    d={"input": lambda g, kernel_size, dilation, padding, stride: im2col(g, kernel_size, dilation, padding, stride)},
    namespace="nn.functional", samples="col2im",
    doc="""Columns of blocks summed back into an image, the adjoint of im2col. Public as fold.

    >>> import flambeau
    >>> flambeau.nn.functional.fold(flambeau.ones(1, 4, 4), (3, 3), 2)
    tensor([[[[1., 2., 1.],
              [2., 4., 2.],
              [1., 2., 1.]]]])
    """)


# --- padding ----------------------------------------------------------------------------------------------------------

_border_backward = primitive(
    "_border_backward(Tensor grad, int[] self_shape, int[] pad, str mode) -> Tensor", namespace=None,
    d={"grad": lambda g, pad, mode: _border(g, pad, mode)},
    skip="the gradient of pad, reached through it", doc="Each gradient added where its element came from.")
_border = primitive(
    "_border(Tensor self, int[] pad, str mode) -> Tensor", namespace=None,
    d={"self": lambda g, self_shape, pad, mode: _border_backward(g, self_shape, pad, mode)},
    skip="the kernel of pad, reached through it", doc="A border made of the tensor's own elements.")


@composite("pad(Tensor input, int[] pad, str mode='constant', any value=None) -> Tensor",
           namespace="nn.functional", samples="pad")
def pad(input, pad, mode, value):
    """A border around the last dimensions: `pad` lists (before, after) from the last dimension on.

    Modes: constant (`value`), reflect (mirrored, without the edge), replicate (the edge), circular (the other side).

    >>> import flambeau
    >>> flambeau.nn.functional.pad(flambeau.tensor([[1., 2., 3.]]), (2, 1), mode="reflect")
    tensor([[3., 2., 1., 2., 3., 2.]])
    """
    if mode == "constant":
        return constant_pad_nd(input, pad, 0 if value is None else value)
    if mode not in ("reflect", "replicate", "circular"):
        raise NotImplementedError(f"Unrecognised padding mode {mode}")
    if value not in (None, 0):
        raise ValueError(f"pad: value={shown(value)} has no meaning with mode='{mode}'; leave it out")
    if len(pad) % 2 or not len(pad) // 2 + 1 <= input.ndim <= len(pad) // 2 + 2 or len(pad) > 6:
        raise NotImplementedError("Only 2D, 3D, 4D, 5D padding with non-constant padding are supported for now: "
                                  f"got pad={tuple(pad)} for a {input.ndim}D input")
    if mode == "circular" and min(pad) < 0:  # cropped first: what remains is what repeats
        input = constant_pad_nd(input, [min(p, 0) for p in pad], 0)
        pad = [max(p, 0) for p in pad]
    return _border(input, pad, mode)


# --- pixels and channels ----------------------------------------------------------------------------------------------

@composite("pixel_shuffle(Tensor self, int upscale_factor) -> Tensor", method=False, samples="pixel_shuffle")
def pixel_shuffle(self, upscale_factor):
    """[..., c r r, h, w] to [..., c, h r, w r] (Shi et al. 2016).

    >>> import flambeau
    >>> flambeau.pixel_shuffle(flambeau.ones(1, 9, 4, 4), 3).shape
    torch.Size([1, 1, 12, 12])
    """
    r = upscale_factor
    if self.ndim < 3:
        raise RuntimeError("pixel_shuffle: input must have at least 3 dimensions (channels, height, width), got "
                           f"{self.ndim}")
    *lead, c, h, w = self.shape
    if r <= 0:
        raise RuntimeError(f"pixel_shuffle: upscale_factor must be positive, got {r}")
    if c % (r * r):
        raise RuntimeError(f"pixel_shuffle: upscale_factor={r} needs channels in multiples of {r * r}, got {c}")
    if r == 1:
        return self.clone()
    n = len(lead)
    split = self.reshape(*lead, c // (r * r), r, r, h, w)
    return split.permute(*range(n + 1), n + 3, n + 1, n + 4, n + 2).reshape(*lead, c // (r * r), h * r, w * r)


@composite("pixel_unshuffle(Tensor self, int downscale_factor) -> Tensor", method=False, samples="pixel_unshuffle")
def pixel_unshuffle(self, downscale_factor):
    """The inverse of pixel_shuffle.

    >>> import flambeau
    >>> flambeau.pixel_unshuffle(flambeau.ones(1, 1, 12, 12), 3).shape
    torch.Size([1, 9, 4, 4])
    """
    r = downscale_factor
    if self.ndim < 3:
        raise RuntimeError("pixel_unshuffle: input must have at least 3 dimensions (channels, height, width), got "
                           f"{self.ndim}")
    *lead, c, h, w = self.shape
    if r <= 0 or h % r or w % r:
        raise RuntimeError(f"pixel_unshuffle expects height and width divisible by downscale_factor, but got {h} x {w} "
                           f"and {r}")
    if r == 1:
        return self.clone()
    n = len(lead)
    split = self.reshape(*lead, c, h // r, r, w // r, r)
    return split.permute(*range(n + 1), n + 2, n + 4, n + 1, n + 3).reshape(*lead, c * r * r, h // r, w // r)


@composite("channel_shuffle(Tensor self, int groups) -> Tensor", method=False,
           aliases=("native_channel_shuffle", "nn.functional.native_channel_shuffle"), samples="channel_shuffle")
def channel_shuffle(self, groups):
    """Channels of `groups` groups dealt out in turn.

    >>> import flambeau
    >>> flambeau.channel_shuffle(flambeau.arange(4.0).reshape(1, 4, 1), 2).flatten()
    tensor([0., 2., 1., 3.])
    """
    if self.ndim < 3:
        raise RuntimeError("channel_shuffle: input must have at least 3 dimensions (batch, channels, positions), got "
                           f"shape {list(self.shape)}")
    n, c, *rest = self.shape
    if groups <= 0 or c % groups:
        raise RuntimeError(f"channel_shuffle: {c} channels cannot be divided into groups={shown(groups)}")
    return self.reshape(n, groups, c // groups, *rest).transpose(1, 2).reshape(self.shape)
