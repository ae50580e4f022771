"""How a pointwise kernel goes through its tensors: which form it has, in which order it takes their dimensions.

For copies within plans of rows; for calls native code decides the same (native/cuda/pointwise_plans.cpp).
"""

import math
import struct
from typing import NamedTuple

#: a tile's dimensions have as many elements at least; its operands take as many bytes an element at most
LEAST_OF_TILE, MOST_OF_TILE = 32, 32
#: dimensions of a Geometry, operands of one
DIMS, OPERANDS = 8, 6
#: offsets and places up to there have 32 bits
NARROW = 2**31 - 2**13


def collapse(sizes, *strides):
    """(sizes, strides of each tensor) without dimensions of size 1, neighbours merged where all tensors allow it."""
    merged = []
    for d, size in enumerate(sizes):
        steps = [s[d] for s in strides]
        if size == 1:
            continue
        if merged and all(a == b * size for a, b in zip(merged[-1][1], steps, strict=True)):
            merged[-1] = (merged[-1][0] * size, steps)
        else:
            merged.append((size, steps))
    return [m[0] for m in merged], *([m[1][k] for m in merged] for k in range(len(strides)))


class Arranged(NamedTuple):
    """form, vector and index as in ElementwiseCall; kinds of the operands; sizes and strides (the result's first),
    innermost dimension first."""
    form: str
    vector: int
    index: int
    kinds: tuple
    sizes: list
    strides: list

    def blocks(self, vector, threads):
        """How many blocks a kernel of `vector` elements a thread, or along a tile's side, is launched with."""
        if self.form == "tiled":
            return math.prod(-(-n // vector) for n in self.sizes[:2]) * math.prod(self.sizes[2:])
        return -(-math.prod(self.sizes) // (vector * threads))


def arrange(shape, strides, items, addresses):
    """Strides of the result and its operands, in elements; their items' sizes, and addresses as far as they are known
    (modulo 16)."""
    order = sorted(range(len(shape)), key=lambda d: [s[d] for s in strides], reverse=True)
    sizes, *strides = collapse([shape[d] for d in order], *([s[d] for d in order] for s in strides))
    sizes, strides = sizes[::-1] or [1], [s[::-1] or [1] for s in strides]
    kinds, vector, form = ["tensor"] * (len(strides) - 1), 0, "strided"
    if all(s == [1] for s in strides):
        form = "flat"
    elif (pack := _neighbours(sizes, strides, items, addresses)) > 1:
        form, vector = "packed", pack
        kinds = ["tensor" if s[0] else "repeated" for s in strides[1:]]
    elif other := _across(sizes, strides, items, kinds):
        form = "tiled"
        for row in (sizes, *strides):
            row[1], row[other] = row[other], row[1]
        if _pairs(sizes, strides, items, addresses, kinds):
            vector = 2
            kinds = [kind if s[0] else "repeated" for kind, s in zip(kinds, strides[1:], strict=True)]
    far = max(1 + sum((n - 1) * step for n, step in zip(sizes, s, strict=True)) for s in strides)
    index = 32 if max(far, math.prod(sizes)) < NARROW else 64
    return Arranged(form, vector, index, tuple(kinds), sizes, strides)


def _neighbours(sizes, strides, items, addresses):
    """How many neighbours each tensor that does not repeat holds at one aligned address."""
    runs = [k for k, s in enumerate(strides) if k == 0 or s[0]]
    if any(strides[k][0] != 1 or addresses[k] % items[k] for k in runs):
        return 1
    return math.gcd(16 // max(items[k] for k in runs), sizes[0], *(addresses[k] // items[k] for k in runs),
                    *(step for k in runs for step in strides[k][1:]))


def _across(sizes, strides, items, kinds):
    """The dimension along which operands run that do not along the innermost; their kinds become "across"."""
    other, room = 0, 0
    if strides[0][0] != 1 or sizes[0] < LEAST_OF_TILE:
        return 0
    for k, s in enumerate(strides[1:]):
        item = items[k + 1]
        if s[0] in (0, 1) or room + item > MOST_OF_TILE:
            continue
        for d in [other] if other else range(1, len(sizes)):
            if s[d] == 1 and sizes[d] >= LEAST_OF_TILE:
                kinds[k], other = "across", d
                room += item
                break
    return other


def _pairs(sizes, strides, items, addresses, kinds):
    """Whether a tile of elements of two bytes at most can be read and written by pairs of neighbours."""
    if max(items) > 2 or any(n % 2 for n in sizes[:2]):
        return False
    for s, item, address, kind in zip(strides, items, addresses, ["tensor", *kinds], strict=True):
        along = kind == "across"
        if s[along] == 0 and s is not strides[0]:
            continue
        if s[along] != 1 or address % (2 * item) or any(step % 2 for d, step in enumerate(s) if d != along):
            return False
    return True


def geometry(sizes, strides):
    """The bytes of a Geometry (prelude.cuh)."""
    def row(values, filled):
        return [*values, *[filled] * (DIMS - len(values))]
    shifts = [(n - 1).bit_length() for n in row(sizes, 1)]
    factors = [-(-(1 << 31 + s) // n) if s < 32 else 0 for s, n in zip(shifts, row(sizes, 1), strict=True)]
    rows = [row(s, 0) for s in strides] + [[0] * DIMS] * (OPERANDS - len(strides))
    return struct.pack(f"<2i{DIMS * (1 + OPERANDS)}q{2 * DIMS}I", len(sizes), 0, *row(sizes, 0),
                       *(step for s in rows for step in s), *factors, *shifts)
