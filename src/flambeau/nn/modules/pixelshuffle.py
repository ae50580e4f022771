"""Layers that move elements between channels and space."""

from .. import functional as F
from ._sizes import Shown
from .module import Module


class PixelShuffle(Shown, Module):
    """[*, C r², H, W] to [*, C, H r, W r], r = upscale_factor   (Shi et al. 2016).

    >>> import flambeau
    >>> flambeau.nn.PixelShuffle(2)(flambeau.zeros(1, 4, 3, 3)).shape
    torch.Size([1, 1, 6, 6])
    """

    _shown = ("upscale_factor",)

    def __init__(self, upscale_factor):
        super().__init__()
        self.upscale_factor = upscale_factor

    def forward(self, input):
        return F.pixel_shuffle(input, self.upscale_factor)


class PixelUnshuffle(Shown, Module):
    """[*, C, H r, W r] to [*, C r², H, W], r = downscale_factor.

    >>> import flambeau
    >>> flambeau.nn.PixelUnshuffle(2)(flambeau.zeros(1, 1, 6, 6)).shape
    torch.Size([1, 4, 3, 3])
    """

    _shown = ("downscale_factor",)

    def __init__(self, downscale_factor):
        super().__init__()
        self.downscale_factor = downscale_factor

    def forward(self, input):
        return F.pixel_unshuffle(input, self.downscale_factor)


class ChannelShuffle(Shown, Module):
    """Interleaves the channels of `groups` groups   (Zhang et al. 2017).

    >>> import flambeau
    >>> flambeau.nn.ChannelShuffle(2)(flambeau.arange(4.0).reshape(1, 4, 1, 1)).flatten()
    tensor([0., 2., 1., 3.])
    """

    _shown = ("groups",)

    def __init__(self, groups):
        super().__init__()
        self.groups = groups

    def forward(self, input):
        return F.channel_shuffle(input, self.groups)
