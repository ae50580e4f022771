"""Coordinates of pixels: grids of them, sampling at them, and flows of a higher resolution."""

import flambeau
from flambeau.nn import functional as F


def grid_sample(img, absolute_grid, mode="bilinear", align_corners=None):
    """`F.grid_sample` at positions in pixels, (x, y), instead of -1 to 1."""
    height, width = img.shape[-2:]
    x, y = absolute_grid.unbind(-1)
    positions = flambeau.stack((2 * x / (width - 1) - 1, 2 * y / (height - 1) - 1), -1)
    return F.grid_sample(img, positions.to(img.dtype), mode=mode, align_corners=align_corners)


def make_coords_grid(batch_size, h, w, device="cpu"):
    """[batch, 2, h, w]: x and y of every pixel."""
    y, x = flambeau.meshgrid(flambeau.arange(h, device=device), flambeau.arange(w, device=device), indexing="ij")
    return flambeau.stack((x, y)).float().expand(batch_size, -1, -1, -1).contiguous()


def upsample_flow(flow, up_mask=None, factor=8):
    """The flow at `factor` times the size, and so `factor` times as long.

    up_mask: for every fine pixel, weights of the nine coarse ones around it (before the softmax); None: bilinear.
    """
    batch, channels, height, width = flow.shape
    if up_mask is None:
        return factor * F.interpolate(flow, size=(factor * height, factor * width), mode="bilinear", align_corners=True)
    weights = up_mask.view(batch, 1, 9, factor, factor, height, width).softmax(2)
    around = F.unfold(factor * flow, 3, padding=1).view(batch, channels, 9, 1, 1, height, width)
    fine = (weights * around).sum(2).permute(0, 1, 4, 2, 5, 3)
    return fine.reshape(batch, channels, factor * height, factor * width)
