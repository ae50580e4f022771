"""Layers that cut an image into overlapping blocks and add blocks up to an image."""

from .. import functional as F
from ._sizes import Shown
from .module import Module


class Unfold(Shown, Module):
    """Every sliding block of [N, C, H, W] as a column of [N, C kernel elements, blocks].

    >>> import flambeau
    >>> flambeau.nn.Unfold(2)(flambeau.zeros(1, 3, 4, 4)).shape
    torch.Size([1, 12, 9])
    """

    _shown = ("kernel_size", "dilation", "padding", "stride")

    def __init__(self, kernel_size, dilation=1, padding=0, stride=1):
        super().__init__()
        self.kernel_size, self.dilation, self.padding, self.stride = kernel_size, dilation, padding, stride

    def forward(self, input):
        return F.unfold(input, self.kernel_size, self.dilation, self.padding, self.stride)


class Fold(Shown, Module):
    """The sum of the blocks that Unfold would cut: [N, C kernel elements, blocks] to [N, C, *output_size].

    >>> import flambeau
    >>> flambeau.nn.Fold((4, 4), 2)(flambeau.ones(1, 4, 9)).shape
    torch.Size([1, 1, 4, 4])
    """

    _shown = ("output_size", "kernel_size", "dilation", "padding", "stride")

    def __init__(self, output_size, kernel_size, dilation=1, padding=0, stride=1):
        super().__init__()
        self.output_size, self.kernel_size = output_size, kernel_size
        self.dilation, self.padding, self.stride = dilation, padding, stride

    def forward(self, input):
        return F.fold(input, self.output_size, self.kernel_size, self.dilation, self.padding, self.stride)
