"""Group norm of images that are large, or have their channels last: cut into parts of planes. See group_norm.cuh.

Smaller ones, which the registers of a block hold, are rows (rows.py).
"""

import math

from .launches import Build, Parameter, blocks, flag, number, numel, power_of_two, sizes
from .layouts import Placed, channels_last
from .pointwise import type_of

_FILES = ("group_norm.cuh",)
#: about how many blocks there are; fixed, so that sums are cut in the same way on every GPU
_BLOCKS = 2048


def cut_in_planes(x, groups, kept):
    """Whether groups are computed here: images with channels last, and those whose groups have more than `kept` packs
    of 16 bytes, unless their planes are tiny."""
    if len(x.shape) < 3 or not numel(x):
        return False
    inner, wide = math.prod(x.shape[2:]), 16 // type_of(x.dtype, "group_norm")[2]
    return channels_last(x) or (inner >= 32 and x.shape[1] // groups * inner > math.gcd(wide, inner) * kept)


class _Images:
    """[images, channels, inner] in the order of x, each plane in `chunks` parts of `width` elements."""

    def __init__(self, call, x, groups, *others):
        self.build, self.x, self.groups = Build(call), x, groups
        self.images, self.channels, self.inner = x.shape[0], x.shape[1], math.prod(x.shape[2:])
        self.planes, self.last = self.images * self.channels, channels_last(x)
        self.placed = [Placed(self.build, name, info, self.last, written) for name, info, written in others]
        self.parameters = [p.parameter for p in self.placed]
        self.wide = self.build.wide(x)
        self.size = 8 if self.wide == "double" else 4
        pack = 16 // max(self.build.size(p.info) for p in self.placed)
        self.pack = math.gcd(pack if all(p.alignment == 16 for p in self.placed) else 1,
                             self.channels if self.last else self.inner)
        self._cut()
        self.index = "int32_t" if numel(x) < 2**30 else "int64_t"
        self.given = sizes(images=self.images, channels=self.channels, inner=self.inner, groups=groups,
                           chunks=self.chunks, width=self.width)

    def _cut(self):
        """Blocks of 256 threads, with eight packs for each at least where there are several for a plane."""
        if self.last:
            lanes = min(32, power_of_two(self.channels // self.pack))
            beside, step = self.images * blocks(self.channels, lanes * self.pack), 256 // lanes
            self.walk = f"InImages<V, {lanes}"
        else:
            threads = 32 if self.inner // self.pack <= 1024 else 256
            beside, step = blocks(self.planes, 256 // threads), threads * self.pack
            self.walk = f"InPlanes<V, {threads}"
        chunks = max(1, min(blocks(self.inner, step * 8), _BLOCKS // beside))
        self.width = blocks(blocks(self.inner, chunks), step) * step if chunks > 1 else self.inner
        self.chunks = blocks(self.inner, self.width)
        self.grid = beside, self.chunks

    def room(self, name, count, each=1):
        return self.build.room(name, self.wide, count * each, self.size)

    def run(self, statement, parameters, again=False):
        """A launch over all elements, which were read `again` or are read for the first time."""
        body = (f"  typedef {self.index} Index;\n  typedef {self.wide} A;\n  constexpr int V = {self.pack};\n"
                f"  const {self.walk}, {flag(again)}, Index> walk(images, channels, inner, width);\n")
        self.build.run(f"{body}  {statement}\n", [*self.parameters, *parameters, *self.given], self.grid, 256, _FILES)

    def join(self, statement, parameters, grid):
        """A launch over the parts of planes."""
        body = (f"  typedef {self.index} Index;\n  typedef {self.wide} A;\n  const Parts<Index> parts{{Index(images), "
                "Index(channels), Index(groups), Index(inner), Index(chunks), Index(width)};\n")
        self.build.run(f"{body}  {statement}\n", [*parameters, *self.given], grid, 256, _FILES)

    def statistics(self, back, weight, eps):
        """(the sums of parts, parameters of each group's mean, 1 / deviation and, on the way back, two terms)."""
        kind = f"PlaneSums<A, {flag(back)}>"
        held = self.room("partial", self.planes * self.chunks, 4 if back else 2)
        partial = f"reinterpret_cast<{kind}*>(partial)"
        self.run(f"sum_planes_of<V, {flag(back)}>(walk, x, {'grad' if back else 'x'}, {partial}, "
                 "Index(images * channels));", [held])
        rows = self.images * self.groups
        made = [self.room(name, rows) for name in ("means", "scales", *(("constants", "linears") if back else ()))]
        threads = 32 if self.channels // self.groups * self.chunks <= 256 else 256
        self.join(f"join_groups<{threads}, {flag(back)}>(parts, {partial}, weight, means, scales, "
                  f"{'constants, linears' if back else '(A*)0, (A*)0'}, eps);",
                  [held, weight, *made, number("double", "eps", eps)], blocks(rows, 256 // threads))
        return held, [Parameter(f"const {p.declaration}", p.value) for p in made]


def forward(call):
    x, groups, weight, bias, eps, _ = call.args
    images = _Images(call, x, groups, ("x", x, False), ("out", call.results[0], True))
    like = weight or bias or x
    by = [images.build.optional("weight", weight, like), images.build.optional("bias", bias, like)]
    _, found = images.statistics(False, by[0], eps)
    images.run("normalize_groups<V>(walk, x, weight, bias, out, means, scales, Index(groups));", [*by, *found], True)
    return images.build.plan()


def backward(call):
    grad, x, groups, weight, eps = call.args
    images = _Images(call, x, groups, ("grad", grad, False), ("x", x, False), ("out", call.results[0], True))
    build = images.build
    by = build.optional("weight", weight, weight or x)
    held, found = images.statistics(True, by, eps)
    images.run("normalize_groups_backward<V>(walk, grad, x, weight, out, means, scales, constants, linears, "
               "Index(groups));", [by, *found], True)
    images.join("const InImages<1, 8, false, Index> walk(1, channels, images * chunks, images * chunks);\n"
                "  join_weights(walk, parts, reinterpret_cast<const PlaneSums<A, true>*>(partial), means, scales, "
                "to_weight, to_bias);",
                [held, *found[:2], build.output("to_weight", call.results[1]),
                 build.output("to_bias", call.results[2])], blocks(images.channels, 8))
    return build.plan()
