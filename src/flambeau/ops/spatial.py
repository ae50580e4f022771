"""Images rearranged: padding, sliding blocks, resizing, pixels exchanged with channels."""

import math

from .. import _C
from .kinds import OPS, composite, primitive

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
        raise ValueError(f"Padding mode '{mode}' doesn't take in value argument")
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
        raise RuntimeError("pixel_shuffle expects input to have at least 3 dimensions, but got input with "
                           f"{self.ndim} dimension(s)")
    *lead, c, h, w = self.shape
    if r <= 0:
        raise RuntimeError(f"pixel_shuffle expects a positive upscale_factor, but got {r}")
    if c % (r * r):
        raise RuntimeError("pixel_shuffle expects its input's 'channel' dimension to be divisible by the square of "
                           f"upscale_factor, but input.size(-3)={c} is not divisible by {r * r}")
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
        raise RuntimeError("pixel_unshuffle expects input to have at least 3 dimensions, but got input with "
                           f"{self.ndim} dimension(s)")
    *lead, c, h, w = self.shape
    if r <= 0 or h % r or w % r:
        raise RuntimeError(f"pixel_unshuffle expects height and width divisible by downscale_factor, but got {h} x {w} "
                           f"and {r}")
    n = len(lead)
    split = self.reshape(*lead, c, h // r, r, w // r, r)
    return split.permute(*range(n + 1), n + 2, n + 4, n + 1, n + 3).reshape(*lead, c * r * r, h // r, w // r)


@composite("channel_shuffle(Tensor self, int groups) -> Tensor", method=False, samples="channel_shuffle")
def channel_shuffle(self, groups):
    """Channels of `groups` groups dealt out in turn.

    >>> import flambeau
    >>> flambeau.channel_shuffle(flambeau.arange(4.0).reshape(1, 4, 1), 2).flatten()
    tensor([0., 2., 1., 3.])
    """
    if self.ndim < 3:
        raise RuntimeError("channel_shuffle expects input with > 2 dims, but got input with sizes "
                           f"{list(self.shape)}")
    n, c, *rest = self.shape
    if groups <= 0 or c % groups:
        raise RuntimeError("channel_shuffle: number of channels must be divisible by groups, got "
                           f"{c} channels and {groups} groups")
    return self.reshape(n, groups, c // groups, *rest).transpose(1, 2).reshape(self.shape)


# --- resizing ---------------------------------------------------------------------------------------------------------

def _grid(n, scale, dtype, device, align_corners, clip=True):
    """Where the n outputs of one axis lie on the input, in units of its pixels."""
    at = OPS["arange"](n, dtype=dtype, device=device)
    if align_corners:
        return at * scale
    at = (at + 0.5) * scale - 0.5
    return at.clamp(min=0) if clip else at


def _nearest(x, dim, n, scale, exact):
    real = OPS["arange"](n, dtype=_real(x), device=x.device)
    places = ((real + 0.5) * scale if exact else real * scale).floor().to(_C.int64)
    return x.index_select(dim, places.clamp(max=x.shape[dim] - 1))


def _along(weight, x, dim):
    return weight.to(x.dtype).reshape([-1 if d == dim else 1 for d in range(x.ndim)])


def _linear(x, dim, n, scale, align_corners):
    at = _grid(n, scale, _real(x), x.device, align_corners)
    low = at.floor()
    weight = _along(at - low, x, dim)
    low = low.to(_C.int64).clamp(max=x.shape[dim] - 1)
    high = (low + 1).clamp(max=x.shape[dim] - 1)
    return x.index_select(dim, low) * (1 - weight) + x.index_select(dim, high) * weight


def _cubic(x, dim, n, scale, align_corners):
    """Keys' kernel with a = -0.75."""
    a = -0.75
    at = _grid(n, scale, _real(x), x.device, align_corners, clip=False)
    low = at.floor()
    t = at - low
    low = low.to(_C.int64)
    result = None
    for k in (-1, 0, 1, 2):
        d = (t - k).abs()
        weight = ((a + 2) * d - (a + 3)) * d * d + 1 if k in (0, 1) else ((a * d - 5 * a) * d + 8 * a) * d - 4 * a
        share = x.index_select(dim, (low + k).clamp(0, x.shape[dim] - 1)) * _along(weight, x, dim)
        result = share if result is None else result + share
    return result


def _real(x):
    """The dtype places are computed in: float64 for float64 images, else float32."""
    return _C.float64 if x.dtype == _C.float64 else _C.float32


def _sizes(input, size, scale_factor, recompute):
    """Output sizes and the scales to use (None: the ratio of sizes)."""
    nd = input.ndim - 2
    if (size is None) == (scale_factor is None):
        raise ValueError("only one of size or scale_factor should be defined" if size is not None
                         else "either size or scale_factor should be defined")
    if size is not None:
        if recompute:
            raise ValueError("recompute_scale_factor is not meaningful with an explicit size.")
        sizes = [size] * nd if isinstance(size, int) else list(size)
        if len(sizes) != nd:
            raise ValueError(f"Input and output must have the same number of spatial dimensions, but got input with "
                             f"spatial dimensions of {list(input.shape[2:])} and output size of {size}.")
        return sizes, [None] * nd
    scales = list(scale_factor) if isinstance(scale_factor, (list, tuple)) else [scale_factor] * nd
    if len(scales) != nd:
        raise ValueError(f"Input and scale_factor must have the same number of spatial dimensions, but got input with "
                         f"spatial dimensions of {list(input.shape[2:])} and scale_factor of {scale_factor}.")
    sizes = [math.floor(float(n) * s) for n, s in zip(input.shape[2:], scales)]
    return sizes, [None] * nd if recompute else scales


_MODES = {"nearest": (1, 2, 3), "nearest-exact": (1, 2, 3), "area": (1, 2, 3), "linear": (1,), "bilinear": (2,),
          "bicubic": (2,), "trilinear": (3,)}


@composite("interpolate(Tensor input, any size=None, any scale_factor=None, str mode='nearest', "
           "any align_corners=None, any recompute_scale_factor=None, bool antialias=False) -> Tensor",
           namespace="nn.functional", samples="interpolate")
def interpolate(input, size, scale_factor, mode, align_corners, recompute_scale_factor, antialias):
    """Images [n, channels, ...] resized to `size` or by `scale_factor`.

    Modes: nearest, nearest-exact, linear (3D input), bilinear and bicubic (4D), trilinear (5D), area.

    >>> import flambeau
    >>> flambeau.nn.functional.interpolate(flambeau.tensor([[[1., 2.]]]), scale_factor=2)
    tensor([[[1., 1., 2., 2.]]])
    """
    nd = input.ndim - 2
    if mode not in _MODES or nd not in _MODES[mode]:
        raise NotImplementedError(f"interpolate: mode '{mode}' is not available for a {input.ndim}D input; the modes "
                                  f"are {', '.join(_MODES)}")
    if antialias:
        raise NotImplementedError("interpolate: antialias=True is not available")
    if align_corners is not None and mode in ("nearest", "nearest-exact", "area"):
        raise ValueError("align_corners option can only be set with the interpolating modes: linear | bilinear | "
                         "bicubic | trilinear")
    sizes, scales = _sizes(input, size, scale_factor, recompute_scale_factor)
    for n, out in zip(input.shape[2:], sizes):
        if n <= 0 or out <= 0:
            raise RuntimeError("Input and output sizes should be greater than 0, but got input "
                               f"({list(input.shape[2:])}) and output ({sizes})")
    if mode == "area":
        return OPS[f"adaptive_avg_pool{nd}d"](input, sizes)
    for k in reversed(range(nd)):
        n, out = input.shape[2 + k], sizes[k]
        if align_corners:
            scale = (n - 1) / (out - 1) if out > 1 else 0.0
        else:
            scale = n / out if scales[k] is None else 1 / scales[k]
        if mode.startswith("nearest"):
            input = _nearest(input, 2 + k, out, scale, mode == "nearest-exact")
        else:
            step = _cubic if mode == "bicubic" else _linear
            input = step(input, 2 + k, out, scale, bool(align_corners))
    return input
