"""Elements of a tensor that index tensors name: where they are, reading them, writing there. See indexing.cuh.

An index outside its dimension cannot raise an error from a GPU: nothing is read or written there, the element is 0.
"""

import math
from typing import NamedTuple

from .launches import Parameter, layout, numel, sizes, tensor

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
        self.indices, self.negative = indices, negative
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


def broadcast(strides, own, shape):
    """Strides of a tensor expanded to `shape`."""
    lead = len(shape) - len(own)
    return [0] * lead + [0 if size == 1 and shape[lead + d] != 1 else stride
                         for d, (size, stride) in enumerate(zip(own, strides, strict=True))]


def read(build, places, x, out_info, index):
    """out = the elements of x at these places."""
    kind, to, index = build.type(x), build.type(out_info), places.offsets(index)
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
    kind, index = build.type(out), places.offsets(index)
    given = [tensor("out", out, build.call.name, True), *parameters, *places.parameters()]
    total = places.many * places.length
    if how == "a" and places.many < 256 and kind != "bool":  # few lines: all places at once
        build.each(total, f"  const Index line = i_ / Index(length), place = i_ - line * Index(length);\n"
                   f"{places.text()}  if (inside) atomic_add(out + at, {value});\n", given, index, FILES)
    elif how == "r" and places.many < 256:  # of two writes to one place the later one counts
        n = max(reach(out), 1)
        winner = build.room("winner", "unsigned long long", n, 8)
        build.zeros(winner, n * 8)
        head = f"  const Index line = i_ / Index(length), place = i_ - line * Index(length);\n{places.text()}"
        build.each(total, f"{head}  if (inside) atomicMax(winner + at, (unsigned long long)(i_) + 1);\n",
                   [*given, winner], index, FILES)
        build.each(total, f"{head}  if (inside && winner[at] == (unsigned long long)(i_) + 1) out[at] = {value};\n",
                   [*given, winner], index, FILES)
    else:
        build.each(places.many, "  const Index line = i_;\n  for (Index place = 0; place < Index(length); ++place) {\n"
                   f"{places.text()}  if (inside) out[at] = combined<{kind}, '{how}'>(out[at], {value});\n  }}\n",
                   given, index, FILES)


def reach(info):
    """Elements from the first to the last; a tensor whose strides are negative has none of its own kind."""
    return sum((size - 1) * stride for size, stride in zip(info.shape, info.strides, strict=True)) + 1


def begin_with(build, out, self):
    """out begins as self."""
    kind = build.type(out)
    if numel(out):
        build.move(out, self, kind)


def written(build, places, info, kind, shape):
    """A tensor that is written, expanded to the places' shape."""
    beside, at = places.other("source", broadcast(info.strides, info.shape, shape))
    return [tensor("source", info, build.call.name), *beside], f"cast<{kind}>(source[{at}])"


def as_result(info):
    """A 0-d result as one with a dimension of size 1."""
    return info if info.shape else info._replace(shape=(1,), strides=(1,))
