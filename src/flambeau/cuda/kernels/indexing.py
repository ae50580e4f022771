"""Reading and writing where indices say: gather, scatter, index, index_put, masks, embeddings. See indexing.cuh.

An index outside its dimension cannot raise an error from a GPU: nothing is read or written there, the element is 0.
"""

import math
from itertools import pairwise
from typing import NamedTuple

from .launches import Build, Parameter, blocks, index_type, layout, nothing, numel, refuse, sizes, tensor
from .plans import Scratch

_FILES = ("indexing.cuh",)
_WORDS = {"add": "a", "sum": "a", "mean": "a", "multiply": "m", "prod": "m", "amax": "u", "amin": "d"}


class Index(NamedTuple):
    """Positions along one dimension: their pointer, strides over the places they are asked for, size and step."""
    pointer: Parameter
    strides: tuple
    size: int
    step: int


class Places:
    """Elements of a tensor by index tensors: its shape has lines (dimensions that no index tensor varies along, or
    that lie apart in memory whatever the index) and along each line `along` places."""

    def __init__(self, shape, strides, along, indices, negative):
        self.lines = [d for d in range(len(shape)) if d not in along]
        self.along, self.shape, self.strides = list(along), list(shape), list(strides)
        self.indices, self.negative = indices, negative
        self.many = math.prod(shape[d] for d in self.lines)
        self.length = math.prod(shape[d] for d in along)

    def _pair(self, name, strides):
        """Layouts of one operand over lines and along them."""
        return [layout(f"{name}_{part}", [self.shape[d] for d in dims], [strides[d] for d in dims])
                for part, dims in (("lines", self.lines), ("along", self.along))]

    def parameters(self):
        found = [*self._pair("base", self.strides), *sizes(length=self.length)]
        for k, index in enumerate(self.indices):
            found += [Parameter(f"{index.pointer.declaration.rpartition(' ')[0]} index{k}", index.pointer.value),
                      *self._pair(f"index{k}", index.strides), *sizes(**{f"size{k}": index.size,
                                                                         f"step{k}": index.step})]
        return found

    def text(self):
        """Statements that leave the element's offset in `at` and whether there is one in `inside`."""
        lines = ["  Index at = offset_of<Index>(line, base_lines) + offset_of<Index>(place, base_along);",
                 "  bool inside = true;"]
        for k in range(len(self.indices)):
            wrap = f" + (found{k} < 0 ? size{k} : 0)" if self.negative else ""
            lines += [f"  const int64_t found{k} = int64_t(index{k}[offset_of<Index>(line, index{k}_lines) + "
                      f"offset_of<Index>(place, index{k}_along)]);",
                      f"  const int64_t own{k} = found{k}{wrap};",
                      f"  inside = inside && own{k} >= 0 && own{k} < size{k};",
                      f"  at += Index(own{k} * step{k});"]
        return "\n".join(lines) + "\n"

    def other(self, name, strides):
        """(parameters, text of the offset) of a further operand over the same shape."""
        return self._pair(name, strides), (f"offset_of<Index>(line, {name}_lines) + "
                                           f"offset_of<Index>(place, {name}_along)")


def _broadcast(strides, own, shape):
    """Strides of a tensor expanded to `shape`."""
    lead = len(shape) - len(own)
    return [0] * lead + [0 if size == 1 and shape[lead + d] != 1 else stride
                         for d, (size, stride) in enumerate(zip(own, strides, strict=True))]


def _read(build, places, x, out_info, index):
    """out = the elements of x at these places."""
    kind, to = build.type(x), build.type(out_info)
    beside, at = places.other("to", out_info.strides)
    body = (f"  const Index line = i_ / Index(length), place = i_ - line * Index(length);\n{places.text()}"
            f"  out[{at}] = inside ? cast<{to}>(x[at]) : cast<{to}>({kind}());\n")
    build.each(places.many * places.length, body, [tensor("x", x, build.call.name),
                                                   tensor("out", out_info, build.call.name, True), *beside,
                                                   *places.parameters()], index=index)


def write(build, places, out, how, source, index):
    """Elements of out at these places are combined with the source, in the order of places along each line where the
    order counts. source: (parameters, expression at line and place)."""
    parameters, value = source
    kind = build.type(out)
    given = [tensor("out", out, build.call.name, True), *parameters, *places.parameters()]
    total = places.many * places.length
    if how == "a" and places.many < 256 and kind != "bool":  # few lines: all places at once
        build.each(total, f"  const Index line = i_ / Index(length), place = i_ - line * Index(length);\n"
                   f"{places.text()}  if (inside) atomic_add(out + at, {value});\n", given, index, _FILES)
    elif how == "r" and places.many < 256:  # of two writes to one place the later one counts
        n = max(_reach(out), 1)
        winner = build.room("winner", "unsigned long long", n, 8)
        build.zeros(winner, n * 8)
        head = f"  const Index line = i_ / Index(length), place = i_ - line * Index(length);\n{places.text()}"
        build.each(total, f"{head}  if (inside) atomicMax(winner + at, (unsigned long long)(i_) + 1);\n",
                   [*given, winner], index, _FILES)
        build.each(total, f"{head}  if (inside && winner[at] == (unsigned long long)(i_) + 1) out[at] = {value};\n",
                   [*given, winner], index, _FILES)
    else:
        build.each(places.many, "  const Index line = i_;\n  for (Index place = 0; place < Index(length); ++place) {\n"
                   f"{places.text()}  if (inside) out[at] = combined<{kind}, '{how}'>(out[at], {value});\n  }}\n",
                   given, index, _FILES)


def _reach(info):
    """Elements from the first to the last; a tensor whose strides are negative has none of its own kind."""
    return sum((size - 1) * stride for size, stride in zip(info.shape, info.strides, strict=True)) + 1


def begin_with(build, out, self):
    """out begins as self."""
    kind = build.type(out)
    if numel(out):
        build.move(out, self, kind)


def _dimension(call, x, given, shape):
    """An index tensor given in full (gather, scatter) as places over `shape`, along dimension `dim`."""
    dim = call.args[1] % max(len(x.shape), 1)
    of = list(x.shape) or [1]
    steps = list(x.strides) or [1]
    return dim, of, steps


def _full(call, build, target, index_info):
    """Places of gather and scatter: the index has the places' shape."""
    dim, of, steps = _dimension(call, target, index_info, None)
    shape = list(index_info.shape) or [1]
    strides = list(index_info.strides) or [1]
    base = [0 if d == dim else s for d, s in enumerate(steps)]
    pointer = tensor("index", index_info, call.name)
    return Places(shape, base, [dim], [Index(pointer, tuple(strides), of[dim], steps[dim])], False)


def _vector(call, build, target, index_info, source_shape):
    """Places of index_select and its kin: one row of positions along dimension `dim`."""
    dim, of, steps = _dimension(call, target, index_info, None)
    shape = list(source_shape) or [1]
    base = [0 if d == dim else s for d, s in enumerate(steps)]
    stride = index_info.strides[0] if index_info.shape else 1
    strides = tuple(stride if d == dim else 0 for d in range(len(shape)))
    return Places(shape, base, [dim], [Index(tensor("index", index_info, call.name), strides, of[dim], steps[dim])],
                  False)


def _as_result(info, shape):
    """A 0-d result as one with a dimension of size 1."""
    return info if info.shape else info._replace(shape=(1,), strides=(1,))


def _gather(call):
    x, _, index = call.args[:3]
    build = Build(call)
    places = _full(call, build, x, index)
    _read(build, places, x, _as_result(call.results[0], None), index_type(x, index))
    return build.plan()


def _index_select(call):
    x, _, index = call.args
    build, out = Build(call), _as_result(call.results[0], None)
    if numel(out):
        _read(build, _vector(call, build, x, index, out.shape), x, out, index_type(x, out))
    return build.plan()


def _number(build, kind, value):
    """A number of the call, as an element of a C++ type."""
    if isinstance(value, complex):
        return f"cast<{kind}>(complex128({value.real!r}, {value.imag!r}))"
    if isinstance(value, float) and not math.isfinite(value):
        value = "not_a_number<double>()" if math.isnan(value) else f"{'-' if value < 0 else ''}infinity<double>()"
    return f"cast<{kind}>({value if not isinstance(value, bool) else int(value)})"


def _values(build, places, info, kind, shape):
    """A tensor that is written, expanded to the places' shape."""
    beside, at = places.other("source", _broadcast(info.strides, info.shape, shape))
    return [tensor("source", info, build.call.name), *beside], f"cast<{kind}>(source[{at}])"


def _scatter(how=None, number_given=False, reduce=False):
    def rule(call):
        x, _, index, source = call.args[:4]
        build, out = Build(call), call.results[0]
        word = how or _WORDS.get(call.args[4] if len(call.args) > 4 else None, "r")
        begin_with(build, out, x)
        if numel(index) == 0:
            return build.plan()
        places, kind = _full(call, build, out, index), build.type(out)
        if number_given:
            given = [], _number(build, kind, source)
        else:
            beside, at = places.other("source", list(source.strides) or [1])
            given = [tensor("source", source, call.name), *beside], f"cast<{kind}>(source[{at}])"
        far = index_type(out, index, *([] if number_given else [source]))
        if reduce and not call.args[5]:  # places that something goes to begin anew
            begin = given if word in "ud" else ([], f"cast<{kind}>({int(word == 'm')})")
            write(build, places, out, "r", begin, far)
        write(build, places, out, word, given, far)
        if reduce and call.args[4] == "mean":
            _divide(build, places, out, call.args[5], far)
        return build.plan()
    return rule


def _divide(build, places, out, include, far):
    """Sums by how many went to each place."""
    kind, n = build.type(out), _reach(out)
    counts = build.room("counts", "int32_t", n, 4)
    build.zeros(counts, n * 4)
    build.each(places.many * places.length, "  const Index line = i_ / Index(length), place = i_ - line * "
               f"Index(length);\n{places.text()}  if (inside) atomicAdd(counts + at, 1);\n",
               [counts, *places.parameters()], far, _FILES)
    build.each(n, f"""  const int32_t many = counts[i_] + {int(include)};
  typedef Wide<{kind}>::type W;
  if (counts[i_] > 0) {{
    if constexpr (IsWhole<W>::value) out[i_] = cast<{kind}>(floor_div(cast<int64_t>(out[i_]), int64_t(many)));
    else out[i_] = cast<{kind}>(widen(out[i_]) / W(many));
  }}
""", [tensor("out", out, build.call.name, True), counts])


def _along_index(how, number_given=False):
    def rule(call):
        x, _, index, source = call.args[:4]
        build, out = Build(call), call.results[0]
        begin_with(build, out, x)
        kind = build.type(out)
        shape = list(x.shape) or [1]
        dim = call.args[1] % len(shape)
        shape[dim] = numel(index)
        if math.prod(shape) == 0:
            return build.plan()
        places = _vector(call, build, out, index, shape)
        if number_given:
            given = [], _number(build, kind, source)
        else:
            parameters, value = _values(build, places, source, kind, shape)
            scale = call.args[4] if len(call.args) > 4 else 1
            wide = f"Wide<{kind}>::type"
            value = value if scale == 1 else f"cast<{kind}>(widen({value}) * {_number(build, wide, scale)})"
            given = parameters, value
        write(build, places, out, how, given, index_type(out, index, *([] if number_given else [source])))
        return build.plan()
    return rule


# --- masks ------------------------------------------------------------------------------------------------------------

def positions(build, mask, take, parameters, name="mask"):
    """Launches that call `take`, statements of `at` (a position in row-major order) and `number`, for true elements."""
    n, kind = numel(mask), build.type(mask)
    pieces = blocks(n, 2048)
    counts = build.room("counts", "int64_t", pieces + 1, 8)
    x = build.input(name, mask)
    build.run(f"  count_piece({name}, n, counts);\n", [x, counts, *sizes(n=n)], pieces, 256, _FILES)
    build.run("  places_of_pieces(counts, pieces);\n", [counts, *sizes(pieces=pieces)], 1, 256, _FILES)
    build.run(f"  each_true<{kind}>({name}, n, counts, [&](int64_t at, int64_t number) {{\n{take}  }});\n",
              [x, counts, *sizes(n=n), *parameters], pieces, 256, _FILES)


def _coordinates(build, mask, name, many):
    """int64 scratch [dimension][number]: the coordinates of a mask's true elements."""
    rank = max(len(mask.shape), 1)
    room = build.room(name, "int64_t", rank * many, 8)
    shape = layout("shape", mask.shape, [0] * len(mask.shape))
    positions(build, mask, f"""    int64_t place[{rank}];
    unravel(at, shape, place);
    if (number < many) for (int d = 0; d < {rank}; ++d) {name}[d * many + number] = place[d];
""", [room, shape, *sizes(many=many)], "mask")
    return room


def _masked_select(call):
    x, mask = call.args
    build, out = Build(call), call.results[0]
    if numel(out) == 0:
        return nothing()
    shape = _joined(x.shape, mask.shape)
    wide = mask._replace(shape=shape, strides=tuple(_broadcast(mask.strides, mask.shape, shape)))
    from_ = layout("from", shape, _broadcast(x.strides, x.shape, shape))
    positions(build, wide, "    if (number < many) out[number] = x[offset_of(at, from)];\n",
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
    build.move(out, x._replace(shape=shape, strides=tuple(_broadcast(x.strides, x.shape, shape))), build.type(out))
    wide = mask._replace(shape=shape, strides=tuple(_broadcast(mask.strides, mask.shape, shape)))
    kind = build.type(out)
    positions(build, wide, f"    if (number < many) out[offset_of(at, to)] = cast<{kind}>(source[number]);\n",
              [tensor("out", out, call.name, True), build.input("source", source), layout("to", shape, out.strides),
               *sizes(many=numel(source))])
    return build.plan()


def _nonzero_rows(call):
    x, out = call.args[0], call.results[0]
    if numel(out) == 0:
        return nothing()
    build, rank = Build(call), len(x.shape)
    positions(build, x, f"""    int64_t place[{rank}];
    unravel(at, shape, place);
    if (number < many) for (int d = 0; d < {rank}; ++d) out[number * {rank} + d] = place[d];
""", [build.output("out", out), layout("shape", x.shape, [0] * rank), *sizes(many=out.shape[0])])
    return build.plan()


# --- index and index_put ----------------------------------------------------------------------------------------------

class _Indexed:
    """self's dimensions before, at and after the indexed ones, as places over the result's shape."""

    def __init__(self, build, target, indices, shape_of_values=None):
        self.build, self.target = build, target
        self.list, dim = [], 0  # (dimension, shape, strides, pointer)
        many = self._masked(target, indices, shape_of_values)
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

    def _masked(self, target, indices, result):
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
        indices = [Index(pointer, tuple(lead + _broadcast(strides, own, joined) + trail), self.target.shape[d],
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
    _read(build, places, x, _as_result(out, None), index_type(x, out))
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
    parameters, value = _values(build, places, values, kind, _trimmed(places.shape, values))
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
    "gather": _gather, "index_select": _index_select, "scatter_src": _scatter(), "scatter_add": _scatter("a"),
    "scatter_value": _scatter(number_given=True), "scatter_reduce": _scatter(reduce=True),
    "index_add": _along_index("a"), "index_copy": _along_index("r"), "index_fill_number": _along_index("r", True),
    "index_fill_tensor": _along_index("r"), "masked_select": _masked_select, "masked_scatter": _masked_scatter,
    "nonzero_rows": _nonzero_rows, "index": _index, "index_put": _index_put,
}
