"""Convolution, sliding blocks, and rearrangements of images."""

from ... import _C
from ..._tensor.creation import tensor
from .._emitter import Unavailable
from ._table import translates


@translates("convolution")
def convolution(g, input, weight, bias, stride, padding, dilation, transposed, output_padding, groups):
    """Conv or ConvTranspose; padding is the same on both sides."""
    nd = weight.rank - 2
    stride, padding, dilation, output_padding = (each(v, nd) for v in (stride, padding, dilation, output_padding))
    given = {"strides": stride, "pads": padding * 2, "dilations": dilation, "group": groups}
    if isinstance(weight.shape[2], int) and all(isinstance(n, int) for n in weight.shape):
        given["kernel_shape"] = list(weight.shape[2:])
    x = input if input.rank == nd + 2 else g.unsqueeze(input, 0)
    if not transposed:
        found = g.op("Conv", x, weight, bias, **given)
    else:
        found = g.op("ConvTranspose", x, weight, bias, output_padding=output_padding, **given)
    return found if input.rank == nd + 2 else g.squeeze(found, 0)


def each(v, nd):
    """A number for each dimension, of one for all or of as many."""
    v = list(v) if isinstance(v, (tuple, list)) else [v]
    return v * nd if len(v) == 1 else v


@translates("im2col")
def im2col(g, input, kernel_size, dilation=1, padding=0, stride=1):
    """Each place of the kernel is a strided slice of the padded image; their stack is the columns."""
    kernel, dilation, padding, stride = (each(v, 2) for v in (kernel_size, dilation, padding, stride))
    x = input if input.rank == 4 else g.unsqueeze(input, 0)
    x_shape = input.shape if input.rank == 4 else (1, *input.shape)
    channels, sides = x_shape[1], x_shape[2:]
    if not all(isinstance(n, int) for n in (channels, *sides)):
        raise Unavailable("unfold of images of open sizes is not written; give the sizes of channels and sides")
    if any(padding):
        x = g.op("Pad", x, [0, 0, *padding, 0, 0, *padding])
    blocks = [(n + 2 * p - d * (k - 1) - 1) // s + 1
              for n, p, d, k, s in zip(sides, padding, dilation, kernel, stride, strict=True)]
    parts = []
    for i in range(kernel[0]):
        for j in range(kernel[1]):
            start = [i * dilation[0], j * dilation[1]]
            end = [b + (n - 1) * s + 1 for b, n, s in zip(start, blocks, stride, strict=True)]
            parts.append(g.unsqueeze(g.op("Slice", x, start, end, [2, 3], stride), 2))
    stacked = g.op("Concat", *parts, axis=2) if len(parts) > 1 else parts[0]
    wanted = [channels * kernel[0] * kernel[1], blocks[0] * blocks[1]]
    return g.op("Reshape", stacked, [-1, *wanted] if input.rank == 4 else wanted)


@translates("col2im")
def col2im(g, input, output_size, kernel_size, dilation=1, padding=0, stride=1):
    kernel, dilation, padding, stride = (each(v, 2) for v in (kernel_size, dilation, padding, stride))
    x = input if input.rank == 3 else g.unsqueeze(input, 0)
    found = g.op("Col2Im", x, g.listed(output_size), g.ints(kernel), dilations=dilation, pads=padding * 2,
                 strides=stride)
    return found if input.rank == 3 else g.squeeze(found, 0)


def _as_batch(g, self):
    """An image with one dimension in front."""
    if self.rank == 4:
        return self
    return g.op("Reshape", self, g.listed([-1, *(g.size(self, d) for d in range(self.rank - 3, self.rank))]))


def _as_before(g, made, self):
    """The dimensions in front again."""
    if self.rank == 4:
        return made
    known = g.shape
    wanted = [*(g.size(self, d) for d in range(self.rank - 3)), *(n if isinstance(n, int) else -1 for n in known[-3:])]
    if wanted[-3:].count(-1) > 1:
        raise Unavailable(f"{g.kind} of {self.rank} dimensions with two open sides; give it 4 dimensions")
    return g.op("Reshape", made, g.listed(wanted))


@translates("pixel_shuffle")
def pixel_shuffle(g, self, upscale_factor):
    return _as_before(g, g.op("DepthToSpace", _as_batch(g, self), blocksize=upscale_factor, mode="CRD"), self)


@translates("pixel_unshuffle")
def pixel_unshuffle(g, self, downscale_factor):
    """SpaceToDepth puts the channels last among what it joins; the channels come first here."""
    r = downscale_factor
    channels = self.shape[-3]
    if not isinstance(channels, int):
        raise Unavailable("pixel_unshuffle of an open number of channels is not written")
    made = g.op("SpaceToDepth", _as_batch(g, self), blocksize=r)
    order = [place * channels + c for c in range(channels) for place in range(r * r)]
    return _as_before(g, g.op("Gather", made, g.const(tensor(order, dtype=_C.int64)), axis=1), self)


@translates("channel_shuffle")
def channel_shuffle(g, self, groups):
    channels = self.shape[1]
    order = [k * (channels // groups) + c for c in range(channels // groups) for k in range(groups)]
    return g.op("Gather", self, g.const(tensor(order, dtype=_C.int64)), axis=1)
