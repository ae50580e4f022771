"""What happens to points (x, y) when their picture is changed; boxes are moved by the same maps."""

from ..... import Tensor, cat, float32, linalg, long, tensor
from ....._shown import shown
from ....tv_tensors import KeyPoints, wrap
from ..._geometry import center, resized, sides
from ..._kinds import pair
from ..._warp import (
    expanded_size,
    forward_matrix,
    identity_grid,
    perspective_coefficients,
)


def clamped(points, canvas_size):
    """Points kept on the canvas."""
    limits = points.new_tensor([canvas_size[1] - 1, canvas_size[0] - 1])
    return points.clamp(min=0).minimum(limits)


def clamp_keypoints(inpt, canvas_size=None):
    """Points kept on the canvas."""
    if isinstance(inpt, KeyPoints):
        if canvas_size is not None:
            raise ValueError("clamp_keypoints: these points know their canvas; leave canvas_size out")
        return wrap(clamped(inpt.as_subclass(Tensor), inpt.canvas_size), like=inpt)
    if canvas_size is None:
        raise ValueError("clamp_keypoints: a plain tensor needs canvas_size")
    return clamped(inpt, canvas_size)


def sanitize_keypoints(key_points, canvas_size=None):
    """(the points, or groups of points, that lie wholly on the canvas, which they are)."""
    points = key_points.as_subclass(Tensor)
    size = key_points.canvas_size if isinstance(key_points, KeyPoints) else canvas_size
    if isinstance(key_points, KeyPoints) == (canvas_size is not None):
        raise ValueError("sanitize_keypoints: KeyPoints know their canvas; a plain tensor needs canvas_size")
    inside = (points[..., 0] >= 0) & (points[..., 0] < size[1]) & (points[..., 1] >= 0) & (points[..., 1] < size[0])
    while inside.dim() > 1:
        inside = inside.all(-1)
    return wrap(points[inside], like=key_points), inside


def padding_of(padding, padding_mode):
    """[left, top, right, bottom] of a padding that shows nothing twice."""
    if padding_mode != "constant":
        raise ValueError(f"pad: with padding_mode {shown(padding_mode)} things would show twice; boxes and points know "
                         "'constant' alone")
    return sides(padding)


def center_of(canvas_size, size):
    """(top, left) of the window, which lies outside where the picture is smaller."""
    padding, top, left = center(canvas_size, size)
    return (top - padding[1], left - padding[0]) if padding else (top, left)


def affine_map(canvas_size, angle, translate, scale, shear, middle):
    """A function of points [n, 2]."""
    shear = [shear, 0.0] if isinstance(shear, (int, float)) else list(shear) * (3 - len(shear))
    around = [canvas_size[1] * 0.5, canvas_size[0] * 0.5] if middle is None else middle
    return _by_matrix(forward_matrix(around, angle, translate, scale, shear))


def _by_matrix(rows):
    matrix = tensor(rows, dtype=float32).t()

    def move(points):
        return cat([points, points.new_ones(points.shape[0], 1)], -1) @ matrix.to(points)
    return move


def rotation_map(canvas_size, angle, expand, middle):
    """(a function of points [n, 2], the size of the picture)."""
    height, width = canvas_size
    around = [width * 0.5, height * 0.5] if middle is None else middle
    turn = _by_matrix(forward_matrix(around, -angle, [0.0, 0.0], 1.0, [0.0, 0.0]))
    if not expand:
        return turn, canvas_size
    edges = turn(tensor([[0.0, 0.0], [0.0, height], [width, height], [width, 0.0]]))
    corner = edges.amin(0)
    back = forward_matrix(around, angle, [0.0, 0.0], 1.0, [0.0, 0.0])  # torchvision's size, up to a pixel the picture's
    return lambda points: turn(points) - corner.to(points.dtype), expanded_size(back, canvas_size)


def perspective_map(startpoints, endpoints, coefficients):
    """A function of points [n, 2]: the inverse of what says where pixels come from."""
    c = coefficients_of(startpoints, endpoints, coefficients)
    back = tensor([[c[0], c[1], c[2]], [c[3], c[4], c[5]], [c[6], c[7], 1.0]], dtype=float32).double()
    forth = linalg.inv(back).t().float()

    def move(points):
        moved = cat([points, points.new_ones(points.shape[0], 1)], -1) @ forth.to(points)
        return moved[:, :2] / moved[:, 2:]
    return move


def coefficients_of(startpoints, endpoints, coefficients):
    if coefficients is None:
        if startpoints is None or endpoints is None:
            raise ValueError("perspective: start points and end points, or 8 coefficients, say how it is tilted")
        return perspective_coefficients(startpoints, endpoints)
    if startpoints is not None and endpoints is not None:
        raise ValueError("perspective: start points and end points, or 8 coefficients, but not both")
    if len(coefficients) != 8:
        raise ValueError(f"perspective: 8 coefficients are needed, got {len(coefficients)}")
    return list(coefficients)


def elastic_map(canvas_size, displacement, pixel):
    """A function of points [n, 2]: against the displacement at the point's pixel, which `pixel` rounds it to."""
    height, width = canvas_size
    grid = identity_grid(canvas_size).to(displacement) - displacement

    def move(points):
        at = pixel(points).to(long)
        x, y = at[:, 0].clamp(0, width - 1), at[:, 1].clamp(0, height - 1)
        scale = grid.new_tensor([0.5 * width, 0.5 * height])
        return (grid[0, y, x] + 1).mul_(scale).sub_(0.5).to(points.dtype)
    return move


def _mapped(points, move):
    values = points if points.is_floating_point() else points.float()
    return move(values.reshape(-1, 2)).reshape(points.shape).to(points.dtype)


def horizontal_flip_keypoints(keypoints, canvas_size):
    """Mirrored, left and right."""
    return _flipped(keypoints, canvas_size[1], 0)


def vertical_flip_keypoints(keypoints, canvas_size):
    """Mirrored, top and bottom."""
    return _flipped(keypoints, canvas_size[0], 1)


def _flipped(points, length, axis):
    points = points.clone()
    points[..., axis] = length - 1 - points[..., axis]
    return points


def resize_keypoints(keypoints, size, canvas_size, max_size=None):
    """(points of the resized picture, its size)."""
    new = resized(canvas_size, size, max_size)
    ratio = tensor([new[1] / canvas_size[1], new[0] / canvas_size[0]], device=keypoints.device)
    return keypoints.mul(ratio).to(keypoints.dtype), new


def crop_keypoints(keypoints, top, left, height, width):
    """(points in the window, its size)."""
    return keypoints - keypoints.new_tensor([left, top]), (height, width)


def pad_keypoints(keypoints, canvas_size, padding, padding_mode="constant"):
    """(points in the padded picture, its size)."""
    left, top, right, bottom = padding_of(padding, padding_mode)
    size = canvas_size[0] + top + bottom, canvas_size[1] + left + right
    return keypoints + keypoints.new_tensor([left, top]), size


def center_crop_keypoints(inpt, canvas_size, output_size):
    """(points in the middle of the picture, its size)."""
    size = pair(output_size, "center_crop")
    top, left = center_of(canvas_size, size)
    return crop_keypoints(inpt, top, left, *size)


def resized_crop_keypoints(keypoints, top, left, height, width, size):
    """(points in the window, resized, its size)."""
    points, canvas = crop_keypoints(keypoints, top, left, height, width)
    return resize_keypoints(points, size, canvas)


def affine_keypoints(keypoints, canvas_size, angle, translate, scale, shear, center=None):
    """The moved points."""
    return _mapped(keypoints, affine_map(canvas_size, angle, translate, scale, shear, center))


def rotate_keypoints(keypoints, canvas_size, angle, expand=False, center=None):
    """(the turned points, the size of the picture)."""
    move, size = rotation_map(canvas_size, angle, expand, center)
    return _mapped(keypoints, move), size


def perspective_keypoints(keypoints, canvas_size, startpoints, endpoints, coefficients=None):
    """The tilted points."""
    return _mapped(keypoints, perspective_map(startpoints, endpoints, coefficients))


def elastic_keypoints(keypoints, canvas_size, displacement):
    """The bent points."""
    return _mapped(keypoints, elastic_map(canvas_size, displacement, Tensor.floor))
