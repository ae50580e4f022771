"""What the losses of this package share: reduction, and the overlap of pairs of boxes."""

import flambeau
from flambeau._shown import shown


def reduced(loss, reduction, name):
    """The loss itself, its mean or its sum; a mean of nothing is zero."""
    if reduction == "none":
        return loss
    if reduction == "mean":
        return loss.mean() if loss.numel() else 0 * loss.sum()
    if reduction == "sum":
        return loss.sum()
    raise ValueError(f"{name}: reduction must be 'none', 'mean' or 'sum', got {shown(reduction)}")


class Pairs:
    """Boxes compared one by one, [..., 4] with [..., 4]."""

    def __init__(self, boxes1, boxes2, eps):
        wide = [b if b.dtype == flambeau.float64 else b.float() for b in (boxes1, boxes2)]
        self.a, self.b = wide
        sides = [b[..., 2:] - b[..., :2] for b in wide]
        self.sides, self.eps = sides, eps
        low = flambeau.maximum(self.a[..., :2], self.b[..., :2])
        high = flambeau.minimum(self.a[..., 2:], self.b[..., 2:])
        self.overlap = (high - low).clamp(min=0).prod(-1).where((high > low).all(-1), 0)
        self.union = sides[0].prod(-1) + sides[1].prod(-1) - self.overlap
        self.iou = self.overlap / (self.union + eps)

    def around(self):
        """Width and height of the smallest box around both."""
        return flambeau.maximum(self.a[..., 2:], self.b[..., 2:]) - flambeau.minimum(self.a[..., :2], self.b[..., :2])

    def distance(self):
        """The squared distance of the centres over the squared diagonal of the box around both."""
        centres = (self.a[..., :2] + self.a[..., 2:] - self.b[..., :2] - self.b[..., 2:]) / 2
        return (centres ** 2).sum(-1) / ((self.around() ** 2).sum(-1) + self.eps)
