"""The random choices behind transforms, in the order in which torchvision draws them from the generator."""

import math

from ... import cat, empty, log, rand, randint, randperm, tensor
from ..._shown import shown


def chance(p):
    """True with probability p."""
    return rand(1).item() < p


def uniform(low, high):
    return empty(1).uniform_(low, high).item()


def whole(low, high):
    """A whole number from low to high - 1."""
    return randint(low, high, (1,)).item()


def crop(size, output, where="RandomCrop"):
    """(top, left) of a window; nothing is drawn when it has the picture's size."""
    (height, width), (h, w) = size, output
    if height < h or width < w:
        raise ValueError(f"{where}: a window of {(h, w)} does not fit into a picture of {(height, width)}; "
                         "pad_if_needed=True pads it")
    if (height, width) == (h, w):
        return 0, 0
    return place(size, output)


def _sides(size, scale, logs):
    """Two sides of a part of the area, the longer one first where the aspect ratio that is drawn is above 1."""
    area = size[0] * size[1] * uniform(*scale)
    aspect = math.exp(uniform(*logs))
    return round(math.sqrt(area * aspect)), round(math.sqrt(area / aspect))


def resized_crop(size, scale, ratio):
    """(top, left, height, width) of a part of the area with an aspect ratio; the middle if ten draws do not fit."""
    height, width = size
    logs = _logs(ratio)
    for _ in range(10):
        w, h = _sides(size, scale, logs)
        if 0 < w <= width and 0 < h <= height:
            return *place(size, (h, w)), h, w
    shape = width / height
    if shape < min(ratio):
        w, h = width, round(width / min(ratio))
    elif shape > max(ratio):
        w, h = round(height * max(ratio)), height
    else:
        w, h = width, height
    return (height - h) // 2, (width - w) // 2, h, w


def _logs(ratio):
    return log(tensor([float(r) for r in ratio])).tolist()


def erasing(size, scale, ratio):
    """(height, width) of what is erased, a part of the area with an aspect ratio; None if ten draws do not fit."""
    height, width = size
    logs = _logs(ratio)
    for _ in range(10):
        h, w = _sides(size, scale, logs)
        if h < height and w < width:
            return h, w
    return None


def place(size, window):
    """(top, left) of a window that may lie anywhere."""
    return whole(0, size[0] - window[0] + 1), whole(0, size[1] - window[1] + 1)


def affine(degrees, translate, scale, shear, size):
    """(angle, (tx, ty), scale, (sx, sy)) for a picture of (height, width)."""
    angle = uniform(*degrees)
    moved = (0, 0)
    if translate is not None:
        across, down = float(translate[0] * size[1]), float(translate[1] * size[0])
        moved = round(uniform(-across, across)), round(uniform(-down, down))
    factor = uniform(*scale) if scale is not None else 1.0
    sx = sy = 0.0
    if shear is not None:
        sx = uniform(shear[0], shear[1])
        sy = uniform(shear[2], shear[3]) if len(shear) == 4 else 0.0
    return angle, moved, factor, (sx, sy)


def perspective(width, height, distortion):
    """(start points, end points): each corner moves inwards, by at most this part of half the picture."""
    across, down = int(distortion * (width // 2)), int(distortion * (height // 2))
    near_x, near_y = (0, across + 1), (0, down + 1)
    far_x, far_y = (width - across - 1, width), (height - down - 1, height)
    corners = ((near_x, near_y), (far_x, near_y), (far_x, far_y), (near_x, far_y))
    ends = [[whole(*x), whole(*y)] for x, y in corners]
    return [[0, 0], [width - 1, 0], [width - 1, height - 1], [0, height - 1]], ends


def jitter(brightness, contrast, saturation, hue):
    """(order, brightness, contrast, saturation, hue) of ColorJitter; None where nothing is asked for."""
    order = randperm(4)
    return order, *(None if limits is None else uniform(*limits) for limits in (brightness, contrast, saturation, hue))


def displacement(alpha, sigma, size, blur):
    """[1, height, width, 2]: smooth noise, by axis."""
    found = []
    for strength, smooth, length in zip(alpha, sigma, reversed(size), strict=True):
        noise = rand(1, 1, *size) * 2 - 1
        if smooth > 0:
            kernel = int(8 * smooth + 1)
            kernel += 1 - kernel % 2
            noise = blur(noise, [kernel, kernel], list(sigma))
        found.append(noise * strength / length)
    return cat(found, 1).permute(0, 2, 3, 1)


def symmetric(value, name, where, around=1.0, bounds=(0.0, math.inf), clip=True):
    """(low, high) from one number (a distance from `around`) or from two; None when there is nothing to draw."""
    if isinstance(value, (int, float)):
        if value < 0:
            raise ValueError(f"{where}: {name} must not be negative, got {shown(value)}")
        low, high = around - value, around + value
        low = max(low, 0.0) if clip else low
    elif isinstance(value, (tuple, list)) and len(value) == 2:
        low, high = (float(v) for v in value)
    else:
        raise TypeError(f"{where}: {name} must be a number or (low, high), got {shown(value)}")
    if not bounds[0] <= low <= high <= bounds[1]:
        raise ValueError(f"{where}: {name} must lie between {bounds[0]} and {bounds[1]}, low before high, "
                         f"got {shown(value)}")
    return None if low == high == around else (low, high)


def angles(value, name, where, sizes=(2,)):
    """[low, high] of one number (that far to both sides) or a sequence with one of `sizes` lengths."""
    if isinstance(value, (int, float)):
        if value < 0:
            raise ValueError(f"{where}: {name} as one number must not be negative, got {shown(value)}")
        return [-float(value), float(value)]
    if not isinstance(value, (tuple, list)):
        raise TypeError(f"{where}: {name} must be a number or a sequence, got {shown(value)}")
    if len(value) not in sizes:
        raise ValueError(f"{where}: {name} must have {' or '.join(map(str, sizes))} numbers, got {shown(value)}")
    return [float(v) for v in value]
