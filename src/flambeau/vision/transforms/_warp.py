"""Where pixels go when the grid is turned, sheared, tilted or bent: matrices, sampling grids, sizes. On tensors."""

import math

from ... import cat, empty, float32, float64, linalg, linspace, stack, tensor
from ..._shown import shown
from ...nn import functional as nn
from ._kinds import InterpolationMode


def inverse_matrix(center, angle, translate, scale, shear):
    """Six numbers that say for an output pixel where it comes from.

    Forward: shift to the center, shear, rotate, scale, shift back and translate; degrees, clockwise in a picture.
    """
    turn, sx, sy = math.radians(angle), math.radians(shear[0]), math.radians(shear[1])
    a = math.cos(turn - sy) / math.cos(sy)
    b = -a * math.tan(sx) - math.sin(turn)
    c = math.sin(turn - sy) / math.cos(sy)
    d = -c * math.tan(sx) + math.cos(turn)
    m = [d / scale, -b / scale, -c / scale, a / scale]
    dx, dy = -center[0] - translate[0], -center[1] - translate[1]
    return [m[0], m[1], m[0] * dx + m[1] * dy + center[0], m[2], m[3], m[2] * dx + m[3] * dy + center[1]]


def forward_matrix(center, angle, translate, scale, shear):
    """The 2 x 3 matrix that moves points of the picture."""
    turn, sx, sy = math.radians(angle), math.radians(shear[0]), math.radians(shear[1])
    a = math.cos(turn - sy) / math.cos(sy)
    b = -a * math.tan(sx) - math.sin(turn)
    c = math.sin(turn - sy) / math.cos(sy)
    d = -c * math.tan(sx) + math.cos(turn)
    a, b, c, d = (scale * v for v in (a, b, c, d))
    return [[a, b, center[0] + translate[0] - a * center[0] - b * center[1]],
            [c, d, center[1] + translate[1] - c * center[0] - d * center[1]]]


def from_middle(center, size):
    """A center in pixels as an offset from the middle of a picture (height, width)."""
    if center is None:
        return [0.0, 0.0]
    return [1.0 * (c - s * 0.5) for c, s in zip(center, (size[1], size[0]), strict=True)]


def _mapped(matrix, width, height, low_x, low_y):
    """[height, width] of x * a + y * b + c for each column (a, b, c) of a matrix; x begins at low_x, y at low_y.

    The products are rounded before they are added, as PyTorch does: pixels at the edge of a picture depend on it.
    """
    x = linspace(low_x, low_x + width - 1, width)
    y = linspace(low_y, low_y + height - 1, height)[:, None]
    return [(x * a).add(y * b).add_(c) for a, b, c in matrix.t()]


def affine_grid(matrix, size, out_size=None):
    """Where each output pixel comes from, in the coordinates of grid_sample."""
    height, width = size
    rows, columns = out_size or size
    theta = tensor(matrix, dtype=float32).view(2, 3)
    steps = theta.t() / tensor([0.5 * width, 0.5 * height])
    return stack(_mapped(steps, columns, rows, -columns * 0.5 + 0.5, -rows * 0.5 + 0.5), -1).unsqueeze(0)


def expanded_size(matrix, size):
    """(height, width) that hold the whole rotated picture, as Pillow's rotate finds them."""
    height, width = size
    corners = tensor([[-0.5 * width, -0.5 * height, 1.0], [-0.5 * width, 0.5 * height, 1.0],
                      [0.5 * width, 0.5 * height, 1.0], [0.5 * width, -0.5 * height, 1.0]])
    moved = corners @ tensor(matrix, dtype=float32).view(2, 3).t()
    half = tensor([width * 0.5, height * 0.5])
    step = 1e-4  # what floats leave beside a whole number does not widen the picture
    least = ((moved.amin(0) + half) / step).trunc_().mul_(step).floor_()
    most = ((moved.amax(0) + half) / step).trunc_().mul_(step).ceil_()
    columns, rows = (most - least).int().tolist()
    return rows, columns


def perspective_coefficients(startpoints, endpoints):
    """Eight numbers of the map from the end points back to the start points (least squares, in double)."""
    if not len(startpoints) == len(endpoints) == 4:
        raise ValueError(f"perspective: four start points and four end points make the map, got {shown(startpoints)} "
                         f"and {shown(endpoints)}")
    rows = []
    for (sx, sy), (ex, ey) in zip(startpoints, endpoints, strict=True):
        rows += [[ex, ey, 1, 0, 0, 0, -sx * ex, -sx * ey], [0, 0, 0, ex, ey, 1, -sy * ex, -sy * ey]]
    right = tensor([float(v) for point in startpoints for v in point], dtype=float64)
    found = linalg.lstsq(tensor(rows, dtype=float64), right.view(8, 1), driver="gels").solution
    return found.view(8).to(float32).tolist()


def perspective_grid(coefficients, size):
    """Where each output pixel comes from, in the coordinates of grid_sample."""
    height, width = size
    c = coefficients
    above = tensor([[c[0], c[1], c[2]], [c[3], c[4], c[5]]])
    below = tensor([[c[6]], [c[7]], [1.0]])
    x, y = _mapped(above.t() / tensor([0.5 * width, 0.5 * height]), width, height, 0.5, 0.5)
    divisor, = _mapped(below, width, height, 0.5, 0.5)
    return (stack([x, y], -1) / divisor[..., None] - 1.0).unsqueeze(0)


def identity_grid(size):
    """The grid that leaves a picture as it is."""
    rows, columns = size
    x = linspace((-columns + 1) / columns, (columns - 1) / columns, columns)
    y = linspace((-rows + 1) / rows, (rows - 1) / rows, rows)
    grid = empty(1, rows, columns, 2)
    grid[..., 0], grid[..., 1] = x, y[:, None]
    return grid


def sample(image, grid, mode, fill):
    """[..., height, width] looked up at a grid; `fill` (numbers per channel or None) is what lies outside."""
    if mode not in (InterpolationMode.NEAREST, InterpolationMode.BILINEAR):
        raise ValueError(f"tensors are moved with nearest or bilinear interpolation, got {mode}")
    if image.numel() == 0:
        return image.new_empty((*image.shape[:-2], *grid.shape[1:3]))
    shape = image.shape
    values = image.reshape(-1, *shape[-3:]) if image.dim() > 3 else image.reshape(1, -1, *shape[-2:])
    dtype = values.dtype
    values = values if dtype in (float32, float64) else values.to(float32)
    values = _looked_up(values, grid.to(values.device, values.dtype), mode.value, _color(fill, values))
    if not image.is_floating_point():
        values = values.round_()
    return values.to(dtype).reshape(*shape[:-2], *values.shape[-2:])


def _color(fill, values):
    """[1, channels, 1, 1] or None for black."""
    if fill is None:
        return None
    fill = [float(v) for v in (fill if isinstance(fill, (list, tuple)) else [fill])]
    if len(fill) not in (1, values.shape[1]):
        raise ValueError(f"fill has {len(fill)} values for {values.shape[1]} channels")
    return values.new_tensor(fill).view(1, -1, 1, 1)


def _looked_up(values, grid, mode, color):
    grid = grid.expand(values.shape[0], *grid.shape[1:])
    if color is None:
        return nn.grid_sample(values, grid, mode=mode, padding_mode="zeros", align_corners=False)
    seen = values.new_ones(values.shape[0], 1, *values.shape[2:])
    both = nn.grid_sample(cat([values, seen], 1), grid, mode=mode, padding_mode="zeros", align_corners=False)
    found, seen = both[:, :-1], both[:, -1:]
    if mode == "nearest":
        return found.where(seen >= 0.5, color)
    return found * seen + (1.0 - seen) * color
