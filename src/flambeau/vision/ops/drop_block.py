"""DropBlock: whole blocks of a feature map become zero in training   (Ghiasi et al. 2018)."""

from flambeau import nn
from flambeau._shown import shown
from flambeau.nn import functional as F


def _drop(input, p, block_size, inplace, eps, training, dims):
    """Zeros in cubes of block_size around drawn seeds, so that about a share p is dropped; the rest is scaled."""
    name = f"drop_block{dims}d"
    if not 0 <= p <= 1:
        raise ValueError(f"{name}: p must be between 0 and 1, got {shown(p)}")
    if input.ndim != dims + 2:
        raise ValueError(f"{name}: input must have {dims + 2} dimensions, got shape {list(input.shape)}")
    if not training or p == 0:
        return input
    size = input.shape[2:]
    block = min(block_size, *size)
    places = seeds = 1
    for n in size:
        places, seeds = places * n, seeds * (n - block + 1)
    rate = p * places / (block ** dims * seeds)
    mask = input.new_empty(*input.shape[:2], *(n - block + 1 for n in size)).bernoulli_(rate)
    mask = F.pad(mask, [block // 2] * (2 * dims))
    pool = F.max_pool2d if dims == 2 else F.max_pool3d
    mask = 1 - pool(mask, block, stride=1, padding=block // 2)
    scale = mask.numel() / (eps + mask.sum())
    if inplace:
        return input.mul_(mask).mul_(scale)
    return input * mask * scale


def drop_block2d(input, p, block_size, inplace=False, eps=1e-6, training=True):
    """Zeros in squares of block_size by block_size of input [n, c, h, w], about a share p of it; the rest is scaled so
    that the mean stays. eps keeps the scale finite where everything is dropped."""
    return _drop(input, p, block_size, inplace, eps, training, 2)


def drop_block3d(input, p, block_size, inplace=False, eps=1e-6, training=True):
    """`drop_block2d` in three dimensions: cubes of input [n, c, d, h, w]."""
    return _drop(input, p, block_size, inplace, eps, training, 3)


class DropBlock2d(nn.Module):
    """`drop_block2d` as a layer, at work in training only."""

    _dims = 2

    def __init__(self, p, block_size, inplace=False, eps=1e-6):
        super().__init__()
        self.p, self.block_size, self.inplace, self.eps = p, block_size, inplace, eps

    def forward(self, input):
        return _drop(input, self.p, self.block_size, self.inplace, self.eps, self.training, self._dims)

    def __repr__(self):
        return f"{type(self).__name__}(p={self.p}, block_size={self.block_size}, inplace={self.inplace})"


class DropBlock3d(DropBlock2d):
    """`drop_block3d` as a layer, at work in training only."""

    _dims = 3
