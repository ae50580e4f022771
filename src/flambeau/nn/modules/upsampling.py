"""Layers that enlarge images: interpolation."""

from .. import functional as F
from .module import Module


class Upsample(Module):
    """Enlarges (or shrinks) the last dimensions to `size` or by `scale_factor`.

    Modes: nearest, linear (3-d input), bilinear and bicubic (4-d), trilinear (5-d), nearest-exact.

    >>> import flambeau
    >>> flambeau.nn.Upsample(scale_factor=2)(flambeau.zeros(1, 1, 2, 2)).shape
    torch.Size([1, 1, 4, 4])
    """

    def __init__(self, size=None, scale_factor=None, mode="nearest", align_corners=None, recompute_scale_factor=None):
        super().__init__()
        self.name = type(self).__name__
        self.size = size
        if isinstance(scale_factor, (tuple, list)):
            self.scale_factor = tuple(float(factor) for factor in scale_factor)
        else:
            self.scale_factor = float(scale_factor) if scale_factor else None
        self.mode, self.align_corners = mode, align_corners
        self.recompute_scale_factor = recompute_scale_factor

    def forward(self, input):
        return F.interpolate(
            input, self.size, self.scale_factor, self.mode, self.align_corners,
            recompute_scale_factor=self.recompute_scale_factor,
        )  # fmt: skip

    def extra_repr(self):
        if self.scale_factor is not None:
            return f"scale_factor={self.scale_factor!r}, mode={self.mode!r}"
        return f"size={self.size!r}, mode={self.mode!r}"


class UpsamplingNearest2d(Upsample):
    """Upsample of [N, C, H, W] by repeating pixels.

    >>> import flambeau
    >>> flambeau.nn.UpsamplingNearest2d(scale_factor=2)(flambeau.zeros(1, 1, 2, 2)).shape
    torch.Size([1, 1, 4, 4])
    """

    def __init__(self, size=None, scale_factor=None):
        super().__init__(size, scale_factor, mode="nearest")


class UpsamplingBilinear2d(Upsample):
    """Upsample of [N, C, H, W] by bilinear interpolation with aligned corners.

    >>> import flambeau
    >>> flambeau.nn.UpsamplingBilinear2d(scale_factor=2)(flambeau.zeros(1, 1, 2, 2)).shape
    torch.Size([1, 1, 4, 4])
    """

    def __init__(self, size=None, scale_factor=None):
        super().__init__(size, scale_factor, mode="bilinear", align_corners=True)
