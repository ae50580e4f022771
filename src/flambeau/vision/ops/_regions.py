"""What the operators that pool regions share: how regions are given, and the layers made of them."""

import flambeau
from flambeau import nn
from flambeau._shown import shown


def as_pair(size):
    """(rows, columns) of a size that is a number or two."""
    return (size, size) if isinstance(size, int) else (size[0], size[-1])


def as_regions(boxes, name):
    """[K, 5] with each box's image first, from that or from one tensor [L, 4] per image."""
    if isinstance(boxes, (list, tuple)):
        if any(b.ndim != 2 or b.shape[1] != 4 for b in boxes):
            raise AssertionError(f"{name}: each tensor of the list of boxes must have shape [L, 4], got "
                                 f"{', '.join(str(list(b.shape)) for b in boxes)}")
        images = [b.new_full((len(b), 1), k) for k, b in enumerate(boxes)]
        return flambeau.cat([flambeau.cat(images), flambeau.cat(list(boxes))], 1)
    if not isinstance(boxes, flambeau.Tensor) or boxes.ndim != 2 or boxes.shape[1] != 5:
        came = list(boxes.shape) if isinstance(boxes, flambeau.Tensor) else shown(boxes)
        raise AssertionError(f"{name}: boxes must be a tensor [K, 5] of (image, x1, y1, x2, y2) or a list of tensors "
                             f"[L, 4], one per image; got {came}")
    return boxes


class RegionLayer(nn.Module):
    """A layer that calls `operator` with the arguments it was made with."""

    _operator = None
    _settings = ()

    def forward(self, input, rois):
        return type(self)._operator(input, rois, *(getattr(self, name) for name in self._settings))

    def __repr__(self):
        return f"{type(self).__name__}({', '.join(f'{name}={getattr(self, name)}' for name in self._settings)})"
