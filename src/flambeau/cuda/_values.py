"""Operators whose result's size depends on values, for CUDA: the size comes to the CPU, everything else stays there."""

import math
import struct
from functools import lru_cache

from .. import _C
from ..ops.kinds import OPS
from ._calls import RowCall, TensorInfo
from ._plans import arch_of, kernels, loaded


@lru_cache(1024)
def _plan(device, dtype, shape, aligned):
    """How the coordinates of what is not 0 are found; they are written as [dimensions, elements]."""
    mask = TensorInfo(0, dtype, shape, (), aligned)
    strides = tuple(math.prod(shape[d + 1:]) for d in range(len(shape)))
    found = TensorInfo(1, "int64", (0, len(shape)), (1, 0), True)
    return kernels().lower(RowCall("nonzero_rows", (mask._replace(strides=strides),), (found,), arch_of(device), False))


def _launch(device, step, tensors, scratch):
    """A step of a plan: its parameters are tensors, scratch memory and numbers."""
    given = [p.data if hasattr(p, "data") else scratch[p.i] if hasattr(p, "i") else tensors[p.k] for p in step.params]
    _C._cuda.launch("nonzero", device, loaded(device, step.image, step.function), step.grid, step.block, 0, *given)


def _found(mask):
    """[dimensions, elements that are not 0] their coordinates, in order."""
    mask = mask.contiguous()
    if mask.numel() == 0:
        return mask.new_empty((mask.ndim, 0), dtype=_C.int64)
    device = mask.device.index
    plan = _plan(device, str(mask.dtype).rpartition(".")[2], tuple(mask.shape), mask.data_ptr() % 16 == 0)
    scratch = [mask.new_empty((nbytes // 8,), dtype=_C.int64) for nbytes in plan.scratch]
    for step in plan.steps[:-1]:
        _launch(device, step, [mask], scratch)
    found = mask.new_empty((mask.ndim, int(scratch[0][-1].item())), dtype=_C.int64)
    if found.numel():
        _launch(device, plan.steps[-1], [mask, found], scratch)
    return found


def _places(mask):
    """The positions of what is not 0 among all elements, in order."""
    return _found(mask.reshape(-1))[0]


def _coordinates(mask):
    """The positions per dimension; of a tensor without dimensions as if it had one."""
    return list(_found(mask if mask.ndim else mask.reshape(1)).unbind(0))


def nonzero_numpy(self):
    """One tensor of positions per dimension."""
    return tuple(_coordinates(self))


def nonzero_rows(self):
    """[elements that are not 0, dimensions] positions."""
    if self.ndim == 0:
        return self.new_empty((int(bool(self.item())), 0), dtype=_C.int64)
    return _found(self).t()


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
            raise IndexError(f"index: a mask of shape {list(given.shape)} at index {place} does not fit a tensor of "
                             f"shape {list(self.shape)}")
        found.extend(_coordinates(given.to(self.device)))
    return found


def index(self, indices):
    """self[indices] where masks, or tensors of the CPU, are among the indices."""
    return OPS["index"](self, _integers(self, indices))


def index_put(self, indices, values, accumulate):
    """A copy of self with values put at the indices, where masks, or tensors of the CPU, are among them."""
    return OPS["index_put"](self, _integers(self, indices), values.to(self.device), accumulate)


def one_hot(self, num_classes):
    """As many classes as the largest number says; what the CPU refuses it says itself."""
    if self.dtype != _C.int64 or self.numel() == 0:
        return OPS["one_hot"](self.cpu(), num_classes)
    return OPS["one_hot"](self, int(self.max().item()) + 1)


def _unique(self, return_inverse, return_counts):
    """The distinct elements in ascending order, the number of each element's value, how often each occurs."""
    flat = self.reshape(-1)
    none = flat.new_empty((0,), dtype=_C.int64)
    if flat.numel() == 0:
        return flat, none.reshape(self.shape) if return_inverse else none, none
    ordered, order = OPS["sort"](flat, 0)
    begins = _begins(ordered)
    places = _places(begins)
    inverse = counts = none
    if return_inverse:
        number = begins.cumsum(0) - 1
        inverse = number.new_zeros(number.shape).scatter(0, order, number).reshape(self.shape)
    if return_counts:
        counts = OPS["cat"]([places[1:], places.new_full((1,), flat.numel())]) - places
    return ordered[places], inverse, counts


def _begins(row):
    """Which elements differ from the one before them; the first does."""
    first = row.new_ones((1,), dtype=_C.bool)
    return OPS["cat"]([first, OPS["ne"](row[1:], row[:-1])]) if row.numel() else first[:0]


def _without_repeats(self):
    """The elements without those equal to the one before them."""
    flat = self.reshape(-1)
    return flat[_places(_begins(flat))]


def _bincount(self, weights, minlength):
    """How often each number occurs, or the sum of its weights."""
    size = minlength
    if self.numel():
        low, high = (int(v) for v in OPS["stack"](list(self.aminmax())).tolist())
        if low < 0:
            raise RuntimeError(f"bincount: expected only non-negative integers, but one is {low}")
        size = max(size, high + 1)
    ones = weights if weights is not None else self.new_ones(self.shape, dtype=_C.int64)
    return ones.new_zeros((size,)).index_add(0, self, ones)


def repeat_interleave_index(repeats, output_size):
    """[2, 0, 1] -> [0, 0, 2]"""
    ends = repeats.to(_C.int64).reshape(-1).cumsum(0)
    total = int(ends[-1].item()) if ends.numel() else 0
    if ends.numel() and int(repeats.min().item()) < 0:
        raise RuntimeError(f"repeat_interleave: repeats must not be negative, got {int(repeats.min().item())}")
    if output_size is not None and output_size != total:
        raise RuntimeError(f"repeat_interleave: output_size={output_size}, but the repeats add up to {total}")
    return OPS["searchsorted"](ends, OPS["arange"](total, device=ends.device), right=True)


def nms(dets, scores, iou_threshold):
    """The indices of the boxes that stay, best first. Overlaps are found on the device, for 1,024 boxes with all that
    follow them; which of those 1,024 stay is decided on the CPU, one after the other."""
    wide = _C.float64 if dets.dtype == _C.float64 else _C.float32
    order = OPS["sort"](scores.to(wide), 0, True, stable=True)[1]
    boxes, n = dets.to(wide)[order], dets.shape[0]
    area = (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])
    alive = boxes.new_ones((n,), dtype=_C.bool)
    limit = iou_threshold if wide == _C.float64 else struct.unpack("f", struct.pack("f", iou_threshold))[0]
    for begin in range(0, n, 1024):
        end = min(begin + 1024, n)
        share = _overlap(boxes[begin:end], boxes[begin:], area[begin:end], area[begin:])
        over = share >= limit if limit > iou_threshold else share > limit
        among, own = over[:, :end - begin].cpu(), alive[begin:end].cpu()
        for k in range(end - begin):
            if own[k]:
                own[k + 1:] &= ~among[k, k + 1:]
        own = own.to(boxes.device)
        alive[begin:end] = own
        if end < n:
            alive[end:] &= ~(over[:, end - begin:] & own.unsqueeze(1)).any(0)
    return order[_places(alive)]


def _overlap(a, b, area_a, area_b):
    """Intersection over union of each pair."""
    low = OPS["maximum"](a[:, None, :2], b[:, :2])
    sides = (OPS["minimum"](a[:, None, 2:], b[:, 2:]) - low).clamp(min=0)
    both = sides[..., 0] * sides[..., 1]
    return both / (area_a[:, None] + area_b - both)
