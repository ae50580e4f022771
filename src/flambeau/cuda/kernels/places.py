"""Elements of a tensor that index tensors name: where they are, reading them, writing there. See indexing.cuh.

An index outside its dimension cannot raise an error from a GPU: nothing is read or written there, the element is 0.
"""

import math
from typing import NamedTuple

from .launches import Parameter, blocks, layout, numel, sizes, tensor

FILES = ("indexing.cuh",)


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
        self.indices, self.negative, self.source = indices, negative, None
        self.many = math.prod(shape[d] for d in self.lines)
        self.length = math.prod(shape[d] for d in along)

    def offsets(self, index):
        """The type of offsets: `index`, which is enough for the other operands, or int64_t where there are more places
        or where index tensors reach further."""
        reaches = (sum((size - 1) * abs(step) for size, step in zip(self.shape, i.strides, strict=True))
                   for i in self.indices)
        return index if max(self.many * self.length, *reaches, 0) < 2**30 else "int64_t"

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


class Rows:
    """Places whose last dimensions are neighbours in memory, whatever the index: `places` without these dimensions,
    whose `inner` elements are read and written `pack` at once. operands: (tensor, strides over the places), the
    target's first; one that has stride 0 along the last dimensions repeats."""

    def __init__(self, build, places, target, *operands):
        self.operands = operands = (target, places.strides), *operands
        shape, strides = places.shape, [s for _, s in operands]
        first, self.inner, self.repeats = _neighbours(places, strides)
        cut = [Index(i.pointer, tuple(i.strides[:first]) or (0,), i.size, i.step) for i in places.indices]
        self.places = Places(shape[:first] or [1], list(places.strides[:first]) or [0], places.along, cut,
                             places.negative)
        self.strides = [list(s[:first]) or [0] for s in strides]
        outer = [[step for n, step in zip(shape[:first], s, strict=False) if n > 1] for s in strides]
        steps = [i.step for i in places.indices]
        #: what offsets of rows in the target are multiples of
        self.apart = math.gcd(*outer[0], *steps) or self.inner
        self.pack = math.gcd(16 // max(build.size(info) for info, _ in operands), self.inner, *steps)
        for (info, _), own, repeats in zip(operands, outer, self.repeats, strict=True):
            if not repeats:
                self.pack = math.gcd(self.pack, *own, 1 if not info.aligned else 16)
        self.whole = self.inner * build.size(target) >= 16  # else threads go through elements

    def run(self, build, text, parameters, index):
        """A launch of threads along the packs of each row: `text` knows walk, V and, of the row, at and inside."""
        rows, packs = self.places.many * self.places.length, self.inner // self.pack
        walk_rows(build, rows, packs, self.pack, f"  const Index line = walk.row / Index(length), place = walk.row - "
                  f"line * Index(length);\n{self.places.text()}{text}", [*parameters, *self.places.parameters()], index)


def _neighbours(places, strides):
    """(the first of the last dimensions that are neighbours, their elements, which operands repeat there)."""
    first, inner, repeats = len(places.shape), 1, None
    while first - 1 > max(places.along, default=-1):
        d = first - 1
        if any(i.strides[d] for i in places.indices):
            break
        if (n := places.shape[d]) > 1:
            own = [s[d] for s in strides]
            kinds = [step == 0 for step in own]
            if kinds[0] or kinds != (repeats or kinds) or any(step not in (0, inner) for step in own):
                break
            inner, repeats = inner * n, kinds
        first = d
    return first, inner, repeats or [False] * len(strides)


def row_shift(packs):
    """2 to this power are the threads for a row: neighbours up to a warp, then four packs for each."""
    return max(min(5, (packs - 1).bit_length()), min(8, (math.ceil(packs / 4) - 1).bit_length()))


def walk_rows(build, rows, packs, pack, text, parameters, index):
    """A launch of 256 threads a block, as many of them beside each other for a row as its packs are worth."""
    shift = row_shift(packs)
    head = (f"  typedef {index} Index;\n  constexpr int V = {pack};\n  const RowWalk<Index> walk(packs_, shift_);\n"
            "  if (walk.row >= Index(rows_)) return;\n")
    build.run(head + text, [*parameters, *sizes(rows_=rows, packs_=packs, shift_=shift)],
              (blocks(rows, 256 >> shift), min(blocks(packs, 4 << shift), 2**16 - 1)), 256, FILES)


def broadcast(strides, own, shape):
    """Strides of a tensor expanded to `shape`."""
    lead = len(shape) - len(own)
    return [0] * lead + [0 if size == 1 and shape[lead + d] != 1 else stride
                         for d, (size, stride) in enumerate(zip(own, strides, strict=True))]


def read(build, places, x, out_info, index):
    """out = the elements of x at these places."""
    kind, to, index = build.type(x), build.type(out_info), places.offsets(index)
    given = [tensor("x", x, build.call.name), tensor("out", out_info, build.call.name, True)]
    rows = Rows(build, places, x, (out_info, out_info.strides))
    if rows.whole and kind == to and not any(rows.repeats):
        beside, at = rows.places.other("to", rows.strides[1])
        rows.run(build, f"  copy_row<V>(walk, x + at, out + ({at}), inside);\n", [*given, *beside], index)
        return
    beside, at = places.other("to", out_info.strides)
    body = (f"  const Index line = i_ / Index(length), place = i_ - line * Index(length);\n{places.text()}"
            f"  out[{at}] = inside ? cast<{to}>(x[at]) : cast<{to}>({kind}());\n")
    build.each(places.many * places.length, body, [*given, *beside, *places.parameters()], index=index)


def write(build, places, out, how, source, index):
    """Elements of out at these places are combined with the source, in the order of places along each line where the
    order counts. source: (parameters, expression at line and place)."""
    parameters, value = source
    kind, index = build.type(out), places.offsets(index)
    if places.source and how in "ar" and kind != "bool":
        rows = Rows(build, places, out, places.source)
        if rows.whole and not rows.repeats[0]:
            return _write_rows(build, rows, out, how, value, index)
    if places.source:
        beside, at = places.other("source", places.source[1])
        parameters, value = [*parameters, *beside], value.replace("source_", f"source[{at}]")
    given = [tensor("out", out, build.call.name, True), *parameters, *places.parameters()]
    total = places.many * places.length
    if how == "a" and places.many < 256 and kind != "bool":  # few lines: all places at once
        build.each(total, f"  const Index line = i_ / Index(length), place = i_ - line * Index(length);\n"
                   f"{places.text()}  if (inside) atomic_add(out + at, {value});\n", given, index, FILES)
    elif how == "r" and places.many < 256:  # of two writes to one place the later one counts
        n = max(reach(out), 1)
        winner, head = _winners(build, places, given, n, 1, index)
        build.each(total, f"{head}  if (inside && winner[at] == (unsigned long long)(i_) + 1) out[at] = {value};\n",
                   [*given, winner], index, FILES)
    else:
        build.each(places.many, "  const Index line = i_;\n  for (Index place = 0; place < Index(length); ++place) {\n"
                   f"{places.text()}  if (inside) out[at] = combined<{kind}, '{how}'>(out[at], {value});\n  }}\n",
                   given, index, FILES)


def _winners(build, places, given, n, apart, index):
    """(the number + 1 of the last place for each offset at / apart, statements that find a place's offset)."""
    winner = build.room("winner", "unsigned long long", n, 8)
    build.zeros(winner, n * 8)
    head = f"  const Index line = i_ / Index(length), place = i_ - line * Index(length);\n{places.text()}"
    build.each(places.many * places.length, f"{head}  if (inside) atomicMax(winner + at / Index(apart), "
               "(unsigned long long)(i_) + 1);\n", [*given, winner, *sizes(apart=apart)], index, FILES)
    return winner, head


def _write_rows(build, rows, out, how, value, index):
    """Whole rows of a source: added by atomic operations, or written where no later row goes to the same place."""
    info, kind, places = rows.operands[1][0], build.type(out), rows.places
    beside, from_ = places.other("source", rows.strides[1])
    given = [tensor("out", out, build.call.name, True), tensor("source", info, build.call.name), *beside]
    kept = "inside"
    if how == "r":
        winner, _ = _winners(build, places, [tensor("out", out, build.call.name, True), *places.parameters()],
                             (reach(out) - 1) // rows.apart + 1, rows.apart, index)
        given += [winner, *sizes(apart=rows.apart)]
        kept = "inside && winner[at / Index(apart)] == (unsigned long long)(walk.row) + 1"
    put = "atomic_add_pack<V>(out + at + pack * V, own)" if how == "a" else "store<V>(out + at + pack * V, own)"
    one = rows.repeats[1]
    rows.run(build, f"""  if (!({kept})) return;
  const auto* from = source + ({from_});
  Pack<{build.type(info)}, {1 if one else 'V'}> given[4];
  walk.each([&](int k, Index pack) {{ given[k] = load<{1 if one else 'V'}>(from{'' if one else ' + pack * V'}); }},
            [&](int k, Index pack) {{
    Pack<{kind}, V> own;
#pragma unroll
    for (int j = 0; j < V; ++j) {{
      const auto source_ = given[k].v[{0 if one else 'j'}];
      own.v[j] = {value};
    }}
    {put};
  }});
""", given, index)


def reach(info):
    """Elements from the first to the last; a tensor whose strides are negative has none of its own kind."""
    return sum((size - 1) * stride for size, stride in zip(info.shape, info.strides, strict=True)) + 1


def begin_with(build, out, self):
    """out begins as self."""
    if numel(out):
        build.move(out, self)


def written(build, places, info, kind, shape):
    """A tensor that is written, expanded to the places' shape: what `write` takes, where source_ is its element."""
    places.source = info, broadcast(info.strides, info.shape, shape)
    return [tensor("source", info, build.call.name)], f"cast<{kind}>(source_)"


def as_result(info):
    """A 0-d result as one with a dimension of size 1."""
    return info if info.shape else info._replace(shape=(1,), strides=(1,))
