"""Operators whose result's size depends on values, for CUDA: the size comes to the CPU, everything else stays there."""

from .. import _C
from ..ops.kinds import OPS


def _places(mask):
    """The positions of what is not 0 among all elements, in order."""
    flat = OPS["ne"](mask.reshape(-1), 0)
    if flat.numel() == 0:
        return flat.new_empty((0,), dtype=_C.int64)
    number = flat.cumsum(0)  # of each such element, counted from 1
    total = int(number[-1].item())
    own = OPS["where"](flat, number - 1, total)  # all others are written behind the end
    every = OPS["arange"](flat.numel(), device=flat.device)
    return every.new_zeros((total + 1,)).scatter(0, own, every)[:total]


def _coordinates(mask):
    """The positions per dimension; of a tensor without dimensions as if it had one."""
    places, found = _places(mask), []
    for size in reversed(mask.shape or (1,)):
        found.insert(0, OPS["remainder"](places, size))
        places = OPS["div"](places, size, rounding_mode="floor")
    return found


def nonzero_numpy(self):
    """One tensor of positions per dimension."""
    return tuple(_coordinates(self))


def nonzero_rows(self):
    """[elements that are not 0, dimensions] positions."""
    if self.ndim == 0:
        return _places(self).new_empty((int(bool(self.item())), 0))
    return OPS["stack"](_coordinates(self), 0).t()


def masked_select(self, mask):
    """The elements where the mask is true."""
    self, mask = OPS["broadcast_tensors"](self, mask)
    return self.reshape(-1)[_places(mask)]


def _integers(self, indices):
    """The indices as integers on the tensor's device: a mask becomes the positions that it names."""
    found = []
    for given in indices:
        if given is None or given.dtype not in (_C.bool, _C.uint8):
            found.append(None if given is None else given.to(self.device))
            continue
        place = len(found)
        if tuple(given.shape) != tuple(self.shape[place:place + given.ndim]):
            raise IndexError(f"index: the mask of shape {list(given.shape)} at index {place} does not match the shape "
                             f"of the indexed tensor, {list(self.shape)}, at index {place}")
        found.extend(_coordinates(given.to(self.device)))
    return found


def index(self, indices):
    """self[indices] where masks, or tensors of the CPU, are among the indices."""
    return OPS["index"](self, _integers(self, indices))


def index_put(self, indices, values, accumulate):
    """A copy of self with values put at the indices, where masks, or tensors of the CPU, are among them."""
    return OPS["index_put"](self, _integers(self, indices), values.to(self.device), accumulate)
