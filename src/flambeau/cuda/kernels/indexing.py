"""x[indices] and masks: index, index_put, masked_select, masked_scatter, nonzero. See indexing.cuh."""

from itertools import pairwise

from .launches import Build, Parameter, index_type, layout, nothing, numel, refuse, sizes, tensor
from .places import Index, Places, as_result, begin_with, broadcast, read, write, written
from .plans import Scratch
from .scans import true_elements

# --- masks ------------------------------------------------------------------------------------------------------------

def _coordinates(build, mask, name, many):
    """int64 scratch [dimension][number]: the coordinates of a mask's true elements."""
    rank = max(len(mask.shape), 1)
    room = build.room(name, "int64_t", rank * many, 8)
    shape = layout("shape", mask.shape, [0] * len(mask.shape))
    true_elements(build, "mask", mask, f"""    int64_t place[{rank}];
    unravel(at, shape, place);
    if (number < many) for (int d = 0; d < {rank}; ++d) {name}[d * many + number] = place[d];
""", [room, shape, *sizes(many=many)])
    return room


def _masked_select(call):
    x, mask = call.args
    build, out = Build(call), call.results[0]
    if numel(out) == 0:
        return nothing()
    shape = _joined(x.shape, mask.shape)
    wide = mask._replace(shape=shape, strides=tuple(broadcast(mask.strides, mask.shape, shape)))
    from_ = layout("from", shape, broadcast(x.strides, x.shape, shape))
    true_elements(build, "mask", wide, "    if (number < many) out[number] = x[offset_of(at, from)];\n",
                  [tensor("x", x, call.name), build.output("out", out), from_, *sizes(many=numel(out))])
    return build.plan()


def _joined(a, b):
    rank = max(len(a), len(b))
    a, b = (1,) * (rank - len(a)) + tuple(a), (1,) * (rank - len(b)) + tuple(b)
    return tuple(max(x, y) if 0 not in (x, y) else 0 for x, y in zip(a, b, strict=True))


def _masked_scatter(call):
    x, mask, source = call.args
    build, out = Build(call), call.results[0]
    shape = out.shape
    if numel(out) == 0:
        return nothing()
    build.move(out, x._replace(shape=shape, strides=tuple(broadcast(x.strides, x.shape, shape))))
    wide = mask._replace(shape=shape, strides=tuple(broadcast(mask.strides, mask.shape, shape)))
    kind = build.type(out)
    put = f"    if (number < many) out[offset_of(at, to)] = cast<{kind}>(source[number]);\n"
    true_elements(build, "mask", wide, put,
                  [tensor("out", out, call.name, True), build.input("source", source),
                   layout("to", shape, out.strides), *sizes(many=numel(source))])
    return build.plan()


# --- index and index_put ----------------------------------------------------------------------------------------------

class _Indexed:
    """self's dimensions before, at and after the indexed ones, as places over the result's shape."""

    def __init__(self, build, target, indices, shape_of_values=None):
        self.build, self.target = build, target
        self.list, dim = [], 0  # (dimension, shape, strides, pointer)
        many = self._masked(indices, shape_of_values)
        for k, info in enumerate(indices):
            if info is None:
                dim += 1
            elif info.dtype in ("bool", "uint8"):
                room = _coordinates(build, info, f"coordinates{k}", many)
                for d in range(len(info.shape)):
                    where = Scratch(room.value.i, d * many * 8)
                    self.list.append((dim + d, (many,), (1,), Parameter("const int64_t* index", where)))
                dim += len(info.shape)
            else:
                self.list.append((dim, info.shape, info.strides, tensor("index", info, build.call.name)))
                dim += 1

    def _masked(self, indices, result):
        """How many elements masks select: the result's sizes tell, before anything is computed."""
        if not any(i is not None and i.dtype in ("bool", "uint8") for i in indices):
            return 0
        if result is None:
            refuse(self.build.call, "for masks whose count the result does not tell")
        return result

    def places(self):
        joined = ()
        for _, shape, _, _ in self.list:
            joined = _joined(joined, shape)
        dims = [d for d, *_ in self.list]
        rank, rest = len(self.target.shape), [d for d in range(len(self.target.shape)) if d not in dims]
        adjacent = all(b == a + 1 for a, b in pairwise(dims))
        before = [d for d in rest if adjacent and dims and d < dims[0]]
        after = [d for d in rest if d not in before]
        assert len(before) + len(after) + len(dims) == rank
        shape = [self.target.shape[d] for d in before] + list(joined) + [self.target.shape[d] for d in after]
        base = [self.target.strides[d] for d in before] + [0] * len(joined) + [self.target.strides[d] for d in after]
        along = range(len(before), len(before) + len(joined))
        lead, trail = [0] * len(before), [0] * len(after)
        indices = [Index(pointer, tuple(lead + broadcast(strides, own, joined) + trail), self.target.shape[d],
                         self.target.strides[d]) for d, own, strides, pointer in self.list]
        return Places(shape or [1], base or [0], along if joined else [], indices, True)


def _count_of_masks(result, target, indices):
    """The length of the dimension that masks make, read off the result's shape."""
    taken = sum(len(i.shape) if i.dtype in ("bool", "uint8") else 1 for i in indices if i is not None)
    rest = [s for d, s in enumerate(target.shape)]
    dims, dim = [], 0
    for i in indices:
        width = len(i.shape) if i is not None and i.dtype in ("bool", "uint8") else 1
        if i is not None:
            dims += range(dim, dim + width)
        dim += width
    adjacent = all(b == a + 1 for a, b in pairwise(dims))
    before = dims[0] if adjacent and dims else 0
    width = len(result.shape) - (len(rest) - taken)
    return result.shape[before + width - 1] if width else 0


def _index(call):
    x, indices = call.args
    build, out = Build(call), call.results[0]
    if numel(out) == 0:
        return nothing()
    places = _Indexed(build, x, indices, _count_of_masks(out, x, indices)).places()
    read(build, places, x, as_result(out), index_type(x, out))
    return build.plan()


def _index_put(call):
    x, indices, values, accumulate = call.args
    build, out = Build(call), call.results[0]
    begin_with(build, out, x)
    masks = [i for i in indices if i is not None and i.dtype in ("bool", "uint8")]
    kind = build.type(out)
    if masks:
        if accumulate or numel(values) != 1 or len(masks) != sum(i is not None for i in indices) or len(masks) > 1:
            refuse(call, "for masks beside values that are not one number")
        return _fill_mask(build, call, out, indices, masks[0], values, kind)
    places = _Indexed(build, out, indices).places()
    if places.many * places.length == 0:
        return build.plan()
    parameters, value = written(build, places, values, kind, _trimmed(places.shape, values))
    write(build, places, out, "a" if accumulate else "r", (parameters, value), index_type(out, values))
    return build.plan()


def _trimmed(shape, values):
    if len(values.shape) > len(shape):
        raise NotImplementedError("index_put has no CUDA kernel yet for values of more dimensions than their places")
    return shape


def _fill_mask(build, call, out, indices, mask, value, kind):
    """out[mask] = one number: a choice for every element."""
    first = 0
    for i in indices:
        if i is not None:
            break
        first += 1
    shape = out.shape
    strides = [0] * first + list(mask.strides) + [0] * (len(shape) - first - len(mask.shape))
    if numel(out):
        build.each(numel(out), f"  if (cast<bool>(mask[offset_of(i_, where)])) out[offset_of(i_, to)] = "
                   f"cast<{kind}>(*value);\n",
                   [tensor("out", out, call.name, True), tensor("mask", mask, call.name),
                    tensor("value", value, call.name), layout("where", shape, strides),
                    layout("to", shape, out.strides)], index_type(out, mask))
    return build.plan()


RULES = {
    "masked_select": _masked_select, "masked_scatter": _masked_scatter,
    "index": _index, "index_put": _index_put,
}
