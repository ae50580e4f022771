"""Formats of boxes and how one becomes another.

    xyxy      two corners                      xywhr     first corner, sides, degrees counter-clockwise
    xywh      first corner and sides           cxcywhr   centre, sides, degrees
    cxcywh    centre and sides                 xyxyxyxy  four corners, in order
"""

import flambeau
from flambeau._shown import shown

ROTATED = ("xywhr", "cxcywhr", "xyxyxyxy")


def _join(*parts):
    return flambeau.stack(parts, -1)


def _axes(w, h, degrees):
    """The first and the second side as vectors; y grows downwards."""
    angle = flambeau.deg2rad(degrees)
    cos, sin = angle.cos(), angle.sin()
    return w * cos, -w * sin, h * sin, h * cos


def _corners_of_turned(x, y, w, h, r):
    ux, uy, vx, vy = _axes(w, h, r)
    return _join(x, y, x + ux, y + uy, x + ux + vx, y + uy + vy, x + vx, y + vy)


def _turned_of_corners(x1, y1, x2, y2, x3, y3, *_):
    w, h = flambeau.hypot(x2 - x1, y2 - y1), flambeau.hypot(x3 - x2, y3 - y2)
    return _join(x1, y1, w, h, flambeau.rad2deg(flambeau.atan2(y1 - y2, x2 - x1)))


def _centre_turned(x, y, w, h, r, sign):
    ux, uy, vx, vy = _axes(w, h, r)
    return _join(x + sign * (ux + vx) / 2, y + sign * (uy + vy) / 2, w, h, r)


#: format -> (to and from its family's hub: xyxy for upright boxes, xywhr for turned ones)
_UPRIGHT = {
    "xyxy": (lambda *b: _join(*b), lambda *b: _join(*b)),
    "xywh": (lambda x, y, w, h: _join(x, y, x + w, y + h), lambda a, b, c, d: _join(a, b, c - a, d - b)),
    "cxcywh": (lambda x, y, w, h: _join(x - 0.5 * w, y - 0.5 * h, x + 0.5 * w, y + 0.5 * h),
               lambda a, b, c, d: _join((a + c) / 2, (b + d) / 2, c - a, d - b)),
}
_TURNED = {
    "xywhr": (lambda *b: _join(*b), lambda *b: _join(*b)),
    "cxcywhr": (lambda *b: _centre_turned(*b, -1), lambda *b: _centre_turned(*b, 1)),
    "xyxyxyxy": (_turned_of_corners, _corners_of_turned),
}


def box_convert(boxes, in_fmt, out_fmt):
    """Boxes [..., K] in another format: "xyxy", "xywh" and "cxcywh" (K = 4) become one another, and so do the rotated
    ones, "xywhr", "cxcywhr" (K = 5) and "xyxyxyxy" (K = 8).

    >>> flambeau.vision.ops.box_convert(flambeau.tensor([[10., 20., 30., 60.]]), "xyxy", "cxcywh")
    tensor([[20., 40., 20., 40.]])
    """
    for fmt in (in_fmt, out_fmt):
        if fmt not in _UPRIGHT and fmt not in _TURNED:
            raise ValueError(f"box_convert: formats are {', '.join([*_UPRIGHT, *_TURNED])}; got {shown(fmt)}")
    family = _UPRIGHT if in_fmt in _UPRIGHT else _TURNED
    if out_fmt not in family:
        raise NotImplementedError(f"box_convert: upright boxes and rotated ones do not become one another, got "
                                  f"{in_fmt} and {out_fmt}")
    if in_fmt == out_fmt:
        return boxes.clone()
    exact = boxes if family is _UPRIGHT or boxes.is_floating_point() else boxes.float()
    hub = family[in_fmt][0](*exact.unbind(-1))
    found = family[out_fmt][1](*hub.unbind(-1))
    return found if exact is boxes else found.round().to(boxes.dtype)
