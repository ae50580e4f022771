"""Overlaps of convex quadrilaterals, all pairs at once.

The intersection of two convex shapes is the convex hull of three sets of points: corners of the first inside the
second, corners of the second inside the first, and where their edges cross. Sorted by angle around their mean they are
its corners in order, and the shoelace formula gives its area.
"""

import flambeau


def _cross(a, b):
    return a[..., 0] * b[..., 1] - a[..., 1] * b[..., 0]


def _shoelace(points):
    return _cross(points, points.roll(-1, -2)).sum(-1).abs() / 2


def _inside(points, corners, eps):
    """Whether each of points [..., P, 2] lies in the quadrilateral [..., 4, 2]: on one side of all its edges."""
    edges = corners.roll(-1, -2) - corners
    side = _cross(edges[..., None, :, :], points[..., :, None, :] - corners[..., None, :, :])
    return (side >= -eps).all(-1) | (side <= eps).all(-1)


def _crossings(a, b):
    """Where edge i of one crosses edge j of the other: points [..., 16, 2], and whether they do."""
    p, q = a[..., :, None, :], b[..., None, :, :]
    u, v = a.roll(-1, -2)[..., :, None, :] - p, b.roll(-1, -2)[..., None, :, :] - q
    turn = _cross(u, v)
    parallel = turn == 0
    turn = turn.masked_fill(parallel, 1)
    s, t = _cross(q - p, v) / turn, _cross(q - p, u) / turn
    there = (s >= 0) & (s <= 1) & (t >= 0) & (t <= 1) & ~parallel
    return (p + s[..., None] * u).flatten(-3, -2), there.flatten(-2)


def shown_points(a, b):
    """The corners of what quadrilaterals a and b [..., 4, 2] share, among points [..., 24, 2]; which of them are."""
    eps = flambeau.finfo(a.dtype).eps * 64 * (_shoelace(a) + _shoelace(b))[..., None, None]
    points, there = _crossings(a, b)
    points = flambeau.cat([a, b, points], -2)
    return points, flambeau.cat([_inside(a, b, eps), _inside(b, a, eps), there], -1)


def rotated_overlaps(boxes1, boxes2):
    """Areas of the intersection and the union of every pair of [N, 8] and [M, 8] (four corners each): [N, M] both."""
    n, m = len(boxes1), len(boxes2)
    a, b = (x.reshape(-1, 4, 2) for x in (boxes1, boxes2))
    areas = _shoelace(a)[:, None] + _shoelace(b)
    a, b = a[:, None].expand(n, m, 4, 2), b.expand(n, m, 4, 2)
    points, there = shown_points(a, b)
    middle = (points * there[..., None]).sum(-2, keepdim=True) / there.sum(-1)[..., None, None].clamp(min=1)
    spread = (points - middle).masked_fill(~there[..., None], 0)
    angle = flambeau.atan2(spread[..., 1], spread[..., 0]).masked_fill(~there, flambeau.inf)
    order = angle.argsort(-1)
    ring = spread.gather(-2, order[..., None].expand_as(spread))
    first = ring[..., :1, :]  # what is no corner repeats the first one, which adds nothing to the area
    ring = flambeau.where(there.gather(-1, order)[..., None], ring, first)
    overlap = _shoelace(ring)
    return overlap, areas - overlap
