"""What happens to boxes when their picture is changed: they are moved as corners, in floats, and clamped."""

from ..... import Tensor, cat, inf, stack, tensor
from ....ops._rotated import shown_points
from ....tv_tensors import BoundingBoxes, BoundingBoxFormat, wrap
from ....tv_tensors._kinds import clamping_of, format_of, is_rotated_bounding_format
from ..._geometry import resized
from ..._kinds import pair
from . import _points

_XYXY = BoundingBoxFormat.XYXY
_CORNERS = [[0, 1], [2, 1], [2, 3], [0, 3]]


def _halved(values):
    return values.div(2) if values.is_floating_point() else values.div(2, rounding_mode="floor")


def _xywh_to_xyxy(b):
    return cat([b[..., :2], b[..., :2] + b[..., 2:4]], -1)


def _cxcywh_to_xyxy(b):
    half = -_halved(-b[..., 2:4])
    first = b[..., :2] - half
    return cat([first, first + b[..., 2:4]], -1)


def _xyxy_to_xywh(b):
    return cat([b[..., :2], b[..., 2:4] - b[..., :2]], -1)


def _xyxy_to_cxcywh(b):
    size = b[..., 2:4] - b[..., :2]
    return cat([_halved(b[..., :2] * 2 + size), size], -1)


def _turn(b):
    angle = b[..., 4].deg2rad()
    return angle.cos(), angle.sin()


def _xywhr_to_cxcywhr(b):
    cos, sin = _turn(b)
    x, y, w, h, r = b.unbind(-1)
    return stack([x + w / 2 * cos + h / 2 * sin, y - w / 2 * sin + h / 2 * cos, w, h, r], -1)


def _cxcywhr_to_xywhr(b):
    cos, sin = _turn(b)
    x, y, w, h, r = b.unbind(-1)
    return stack([x - w / 2 * cos - h / 2 * sin, y + w / 2 * sin - h / 2 * cos, w, h, r], -1)


def _xywhr_to_corners(b):
    """Clockwise from the corner (x, y)."""
    cos, sin = _turn(b)
    x, y, w, h, _ = b.unbind(-1)
    return stack([x, y, x + w * cos, y - w * sin, x + w * cos + h * sin, y - w * sin + h * cos, x + h * sin,
                  y + h * cos], -1)


def _corners_to_xywhr(b):
    x1, y1, x2, y2, x3, y3 = b[..., :6].unbind(-1)
    return stack([x1, y1, ((x2 - x1) ** 2 + (y2 - y1) ** 2).sqrt(), ((x3 - x2) ** 2 + (y3 - y2) ** 2).sqrt(),
                  (y1 - y2).atan2(x2 - x1).rad2deg()], -1)


_F = BoundingBoxFormat
_TO_COMMON = {_F.XYXY: None, _F.XYWH: _xywh_to_xyxy, _F.CXCYWH: _cxcywh_to_xyxy,
              _F.XYWHR: None, _F.CXCYWHR: _cxcywhr_to_xywhr, _F.XYXYXYXY: _corners_to_xywhr}
_FROM_COMMON = {_F.XYXY: None, _F.XYWH: _xyxy_to_xywh, _F.CXCYWH: _xyxy_to_cxcywh,
                _F.XYWHR: None, _F.CXCYWHR: _xywhr_to_cxcywhr, _F.XYXYXYXY: _xywhr_to_corners}


def converted(boxes, old, new):
    """Boxes in another format; straight ones become turned ones by way of their corners."""
    if old == new:
        return boxes
    if is_rotated_bounding_format(old) != is_rotated_bounding_format(new):
        raise ValueError(f"convert_bounding_box_format: boxes that stand at an angle are not straight ones "
                         f"({old.name} to {new.name})")
    for way in (_TO_COMMON[old], _FROM_COMMON[new]):
        boxes = way(boxes) if way else boxes
    return boxes


def convert_bounding_box_format(inpt, old_format=None, new_format=None, inplace=False):
    """Boxes with other numbers: XYXY, XYWH, CXCYWH, or the turned XYWHR, CXCYWHR, XYXYXYXY."""
    if new_format is None:
        raise TypeError("convert_bounding_box_format: new_format is missing")
    new = format_of(new_format)
    if isinstance(inpt, BoundingBoxes):
        if old_format is not None:
            raise ValueError("convert_bounding_box_format: these boxes know their format, so old_format must be None")
        return wrap(_converted(inpt.as_subclass(Tensor), inpt.format, new, inplace), like=inpt, format=new)
    if not isinstance(inpt, Tensor):
        raise TypeError(f"convert_bounding_box_format: boxes are needed, got {type(inpt).__name__}")
    if old_format is None:
        raise ValueError("convert_bounding_box_format: old_format must say what a plain tensor's numbers are")
    return _converted(inpt, format_of(old_format), new, inplace)


def _converted(boxes, old, new, inplace):
    found = converted(boxes, old, new)
    return boxes.copy_(found) if inplace and found.shape == boxes.shape else found.clone() if found is boxes else found


def clamped(boxes, format, canvas_size, mode):
    """Boxes kept on the canvas."""
    if mode is None:
        return boxes
    if is_rotated_bounding_format(format):
        return _inside(boxes, format, canvas_size, mode)
    straight = converted(boxes, format, _XYXY)
    limits = straight.new_tensor([canvas_size[1], canvas_size[0]] * 2)
    return converted(straight.clamp(min=0).minimum(limits), _XYXY, format)


def _inside(boxes, format, canvas_size, mode):
    """Boxes that stand at an angle become the least ones of that angle around what the canvas shows of them.

    "hard" draws the corners that still lie outside onto the edge, towards the opposite corner: both sides give way by
    as much as moves the corner half of the way. A box that the canvas does not show has no extent.
    """
    values = converted(boxes if boxes.is_floating_point() else boxes.float(), format, _F.XYXYXYXY).double()
    corners = values.reshape(-1, 4, 2)
    height, width = canvas_size
    edge = corners.new_tensor([[0.0, 0.0], [width, 0.0], [width, height], [0.0, height]]).expand_as(corners)
    points, there = shown_points(corners, edge)
    origin = corners[:, :1]
    axes = stack([corners[:, 1] - corners[:, 0], corners[:, 3] - corners[:, 0]], 1)
    axes = axes / axes.norm(dim=-1, keepdim=True).clamp(min=1e-12)
    first, last = axes[:, :1], axes[:, 1:]
    turn = _cross(first, last)
    turn = turn.where(turn.abs() > 1e-12, inf)  # a box without extent
    off = points - origin
    along = stack([_cross(off, last) / turn, _cross(first, off) / turn], -1)  # how far along the two sides
    low = along.masked_fill(~there[..., None], inf).amin(1)
    high = along.masked_fill(~there[..., None], -inf).amax(1)
    if mode == "hard":
        low, high = _drawn_in(origin[:, 0], axes, low, high, (width, height))
    ends = stack([low, stack([high[:, 0], low[:, 1]], -1), high, stack([low[:, 0], high[:, 1]], -1)], 1)
    found = origin + ends @ axes
    nowhere = found.new_tensor([0.0, float(height)])
    found = found.where(there.any(1)[:, None, None], nowhere)
    limits = corners.new_tensor([width, height])
    changed = ((corners < -1e-4) | (corners > limits + 1e-4)).any((1, 2))  # what lies on the canvas keeps its numbers
    back = converted(found.reshape(-1, 8).to(values.dtype), _F.XYXYXYXY, format).reshape(boxes.shape).to(boxes.dtype)
    return back.where(changed.view(boxes.shape[:-1])[..., None], boxes)


def _cross(a, b):
    return a[..., 0] * b[..., 1] - a[..., 1] * b[..., 0]


def _drawn_in(origin, axes, low, high, canvas):
    """(low, high) along both sides after each corner was drawn onto the canvas."""
    for first, second in ((0, 0), (1, 0), (1, 1), (0, 1)):
        for axis, limit in enumerate(canvas):
            ends = stack([(high if first else low)[:, 0], (high if second else low)[:, 1]], -1)
            at = origin[:, axis] + (ends * axes[:, :, axis]).sum(-1)
            over = (at - limit).clamp(min=0) + at.clamp(max=0)
            step = over[:, None] / 2 / axes[:, :, axis].where(axes[:, :, axis].abs() > 1e-9, inf)
            low = low - step * low.new_tensor([1.0 - first, 1.0 - second])
            high = high - step * low.new_tensor([float(first), float(second)])
    return low, high


def clamp_bounding_boxes(inpt, format=None, canvas_size=None, clamping_mode="auto"):
    """Boxes kept on the canvas; "auto" takes the boxes' own mode, None leaves them."""
    clamping_of(clamping_mode, ("auto",))
    if isinstance(inpt, BoundingBoxes):
        if format is not None or canvas_size is not None:
            raise ValueError("clamp_bounding_boxes: these boxes know their format and canvas; leave both out")
        mode = inpt.clamping_mode if clamping_mode == "auto" else clamping_mode
        return wrap(clamped(inpt.as_subclass(Tensor), inpt.format, inpt.canvas_size, mode), like=inpt)
    if format is None or canvas_size is None or clamping_mode == "auto":
        raise ValueError("clamp_bounding_boxes: a plain tensor needs format, canvas_size and clamping_mode")
    return clamped(inpt, format_of(format), canvas_size, clamping_mode)


def _rectangle(corners):
    """The rectangles around parallelograms [n, 4, 2] that lie along the longer side; of other shapes, about so."""
    first, last = corners[:, 1] - corners[:, 0], corners[:, 3] - corners[:, 0]
    ahead = (first.norm(dim=-1) >= last.norm(dim=-1))[:, None]
    along = first.where(ahead, stack([last[:, 1], -last[:, 0]], -1))  # or a quarter turn back from the last side
    along = along / along.norm(dim=-1, keepdim=True).clamp(min=1e-12)
    axes = stack([along, stack([-along[:, 1], along[:, 0]], -1)], 1)
    size = (axes @ stack([first, last], -1)).abs().sum(-1)
    signs = corners.new_tensor([[-0.5, -0.5], [0.5, -0.5], [0.5, 0.5], [-0.5, 0.5]])
    return (corners[:, :1] + corners[:, 2:3]) / 2 + (signs * size[:, None]) @ axes


def _moved(boxes, format, canvas_size, mode, move):
    """Straight boxes become the boxes around their moved corners, others are moved themselves."""
    values = boxes if boxes.is_floating_point() else boxes.float()
    if is_rotated_bounding_format(format):
        corners = _rectangle(move(converted(values, format, _F.XYXYXYXY).reshape(-1, 2)).reshape(-1, 4, 2))
        found = converted(corners.reshape(-1, 8), _F.XYXYXYXY, format)
        return clamped(found, format, canvas_size, mode).reshape(boxes.shape).to(boxes.dtype)
    corners = move(converted(values, format, _XYXY)[..., _CORNERS].reshape(-1, 2)).reshape(-1, 4, 2)
    around = cat([corners.amin(-2), corners.amax(-2)], -1)
    found = converted(clamped(around, _XYXY, canvas_size, mode), _XYXY, format)
    return found.to(boxes.dtype).reshape(boxes.shape)


def horizontal_flip_bounding_boxes(bounding_boxes, format, canvas_size):
    """Mirrored, left and right."""
    return _flipped(bounding_boxes, format, canvas_size[1], 0)


def vertical_flip_bounding_boxes(bounding_boxes, format, canvas_size):
    """Mirrored, top and bottom."""
    return _flipped(bounding_boxes, format, canvas_size[0], 1)


def _flipped(boxes, format, length, axis):
    boxes = boxes.clone()
    if format is _F.CXCYWH:
        boxes[..., axis] = length - boxes[..., axis]
    elif format is _F.XYXY:
        boxes[..., [axis, axis + 2]] = length - boxes[..., [axis + 2, axis]]
    elif format is _F.XYWH:
        boxes[..., axis] = length - boxes[..., axis] - boxes[..., axis + 2]
    elif format is _F.XYXYXYXY:
        boxes[..., axis::2] = length - boxes[..., axis::2]
        boxes = boxes[..., [2, 3, 0, 1, 6, 7, 4, 5]]
    else:
        boxes = converted(boxes, format, _F.CXCYWHR)
        boxes[..., axis] = length - boxes[..., axis]
        boxes[..., 4] = 180 * axis - boxes[..., 4]
        boxes = converted(boxes, _F.CXCYWHR, format)
    return boxes


def resize_bounding_boxes(bounding_boxes, canvas_size, size, max_size=None, format=_XYXY, clamping_mode="soft"):
    """(boxes of the resized picture, its size)."""
    new = resized(canvas_size, size, max_size)
    ratio = tensor([new[1] / canvas_size[1], new[0] / canvas_size[0]] * 2, device=bounding_boxes.device)
    if is_rotated_bounding_format(format):
        return _moved(bounding_boxes, format, new, clamping_mode, lambda points: points * ratio[:2]), new
    return clamped(bounding_boxes.mul(ratio), format, new, clamping_mode).to(bounding_boxes.dtype), new


def crop_bounding_boxes(bounding_boxes, format, top, left, height, width, clamping_mode="soft"):
    """(boxes in the window, its size)."""
    if format is _F.XYXYXYXY:
        bounding_boxes = _rectangle(bounding_boxes.reshape(-1, 4, 2)).reshape(bounding_boxes.shape)
    return _shifted(bounding_boxes, format, -left, -top, (height, width), clamping_mode)


def pad_bounding_boxes(bounding_boxes, format, canvas_size, padding, padding_mode="constant", clamping_mode="soft"):
    """(boxes in the padded picture, its size)."""
    left, top, right, bottom = _points.padding_of(padding, padding_mode)
    size = canvas_size[0] + top + bottom, canvas_size[1] + left + right
    return _shifted(bounding_boxes, format, left, top, size, clamping_mode)


def _shifted(boxes, format, across, down, size, mode):
    numbers = boxes.shape[-1]
    by = [across, down] * (numbers // 2) if format in (_XYXY, _F.XYXYXYXY) else [across, down] + [0] * (numbers - 2)
    return clamped(boxes + boxes.new_tensor(by), format, size, mode), size


def center_crop_bounding_boxes(bounding_boxes, format, canvas_size, output_size, clamping_mode="soft"):
    """(boxes in the middle of the picture, its size)."""
    size = pair(output_size, "center_crop")
    top, left = _points.center_of(canvas_size, size)
    return crop_bounding_boxes(bounding_boxes, format, top, left, *size, clamping_mode=clamping_mode)


def resized_crop_bounding_boxes(bounding_boxes, format, top, left, height, width, size, clamping_mode="soft"):
    """(boxes in the window, resized, its size)."""
    boxes, canvas = crop_bounding_boxes(bounding_boxes, format, top, left, height, width, clamping_mode)
    return resize_bounding_boxes(boxes, canvas, size, format=format, clamping_mode=clamping_mode)


def affine_bounding_boxes(bounding_boxes, format, canvas_size, angle, translate, scale, shear, center=None,
                          clamping_mode="soft"):
    """The boxes around the moved boxes."""
    move = _points.affine_map(canvas_size, angle, translate, scale, shear, center)
    return _moved(bounding_boxes, format, canvas_size, clamping_mode, move)


def rotate_bounding_boxes(bounding_boxes, format, canvas_size, angle, expand=False, center=None, clamping_mode="soft"):
    """(the boxes around the turned boxes, the size of the picture)."""
    move, size = _points.rotation_map(canvas_size, angle, expand, center)
    return _moved(bounding_boxes, format, size, clamping_mode, move), size


def perspective_bounding_boxes(bounding_boxes, format, canvas_size, startpoints, endpoints, coefficients=None,
                               clamping_mode="soft"):
    """The boxes around the tilted boxes."""
    move = _points.perspective_map(startpoints, endpoints, coefficients)
    return _moved(bounding_boxes, format, canvas_size, clamping_mode, move)


def elastic_bounding_boxes(bounding_boxes, format, canvas_size, displacement, clamping_mode="soft"):
    """The boxes around the bent boxes."""
    move = _points.elastic_map(canvas_size, displacement, Tensor.ceil)
    if is_rotated_bounding_format(format):  # they keep their shape and go where their middle goes
        middles = converted(bounding_boxes, format, _F.CXCYWHR)
        middles = cat([move(middles[..., :2].reshape(-1, 2)).view(middles[..., :2].shape), middles[..., 2:]], -1)
        return clamped(converted(middles, _F.CXCYWHR, format), format, canvas_size, clamping_mode)
    straight = converted(bounding_boxes, format, _XYXY)  # in the boxes' own dtype: it decides at which pixel is looked
    return converted(_moved(straight, _XYXY, canvas_size, clamping_mode, move), _XYXY, format)


def sanitized(boxes, format, canvas_size, min_size, min_area):
    """Which boxes lie on the canvas and are large enough."""
    straight = converted(boxes, format, _XYXY) if not is_rotated_bounding_format(format) else _around(boxes, format)
    x1, y1, x2, y2 = straight.unbind(-1)
    width, height = x2 - x1, y2 - y1
    good = (width >= min_size) & (height >= min_size) & (width * height >= min_area)
    inside = (x1 >= 0) & (y1 >= 0) & (x2 <= canvas_size[1]) & (y2 <= canvas_size[0])
    return good & inside


def _around(boxes, format):
    corners = converted(boxes, format, _F.XYXYXYXY).reshape(-1, 4, 2)
    return cat([corners.amin(-2), corners.amax(-2)], -1)


def sanitize_bounding_boxes(bounding_boxes, format=None, canvas_size=None, min_size=1.0, min_area=1.0):
    """(the boxes that lie on the canvas and are large enough, which they are)."""
    if isinstance(bounding_boxes, BoundingBoxes):
        if format is not None or canvas_size is not None:
            raise ValueError("sanitize_bounding_boxes: these boxes know their format and canvas; leave both out")
        values = bounding_boxes.as_subclass(Tensor)
        keep = sanitized(values, bounding_boxes.format, bounding_boxes.canvas_size, min_size, min_area)
        return wrap(values[keep], like=bounding_boxes), keep
    if format is None or canvas_size is None:
        raise ValueError("sanitize_bounding_boxes: a plain tensor needs format and canvas_size")
    keep = sanitized(bounding_boxes, format_of(format), canvas_size, min_size, min_area)
    return bounding_boxes[keep], keep
