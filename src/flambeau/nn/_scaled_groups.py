"""Products of groups of 8-bit floats with scales: nn.functional's scaled_grouped_mm."""

import math

from .. import _C
from ..ops.kinds import OPS
from ._scaled_products import _BLOCKS, _BY_32, _ROW, _contracted, _powers, _Scaled


def scaled_grouped_mm(mat_a, mat_b, scale_a, scale_recipe_a, scale_b, scale_recipe_b, swizzle_a=None, swizzle_b=None,
                      bias=None, offs=None, output_dtype=_C.bfloat16, contraction_dim=(), use_fast_accum=False):
    """grouped_mm of 8-bit floats with scales, which both matrices have by one recipe:

    * ScalingType.RowWise: float32, one for each row of mat_a and column of mat_b, [m] or [groups, m], and [n] or
      [groups, n]; for groups of what is summed over [groups * m] and [groups * n];
    * BlockWise1x32 (MXFP8): float8_e8m0fnu, one for each 32 numbers of what is summed over, [m, k/32] or
      [groups, m, k/32], and [n, k/32] or [groups, n, k/32]. Groups of what is summed over begin at multiples of 32.

    With SwizzleType.SWIZZLE_32_4_4 scales of blocks lie in tiles of 128 x 4, those of one group after those of another,
    each filled up. Numbers are multiplied by their scales first, in float32.

    >>> import flambeau
    >>> F = flambeau.nn.functional
    >>> x, way = flambeau.ones(3, 1).to(flambeau.float8_e4m3fn), F.ScalingType.RowWise
    >>> scales, offs = flambeau.tensor([[1.0], [2.0]]), flambeau.tensor([2, 3], dtype=flambeau.int32)
    >>> F.scaled_grouped_mm(x, x[:2].view(2, 1, 1), flambeau.ones(3), way, scales, way, offs=offs).tolist()
    [[1.0], [1.0], [2.0]]
    """
    op = "scaled_grouped_mm"
    _contracted(op, contraction_dim)
    a = _Scaled(op, "mat_a", mat_a, scale_a, scale_recipe_a, swizzle_a)
    b = _Scaled(op, "mat_b", mat_b, scale_b, scale_recipe_b, swizzle_b)
    if a.recipe is b.recipe is _BY_32:
        return _by_blocks(a, b, bias, offs, output_dtype)
    for side in (a, b):
        if side.recipe is not _ROW:
            raise NotImplementedError(f"{op}: {side.name} has {side.recipe.name} scales; only RowWise ones, and "
                                      "BlockWise1x32 ones of both, are available, take scaled_mm for each group")
    return OPS["_scaled_grouped_mm"](mat_a, mat_b, a.scale, b.scale, offs, bias, None, output_dtype, use_fast_accum)


def _by_blocks(a, b, bias, offs, dtype):
    if bias is not None:
        raise NotImplementedError("scaled_grouped_mm: a bias is not available; add it to the result")
    if offs is None and not a.matrix.ndim == b.matrix.ndim == 3:
        return OPS["_grouped_mm"](a.matrix.float(), b.matrix.float(), None, None, None)  # which says what is missing
    groups = None if offs is None else _Groups(offs)
    both = a.matrix.ndim == b.matrix.ndim == 2
    rows_a, rows_b = (_widened(side, rows, groups, both) for side, rows in ((a, a.matrix), (b, b.matrix.mT)))
    return OPS["_grouped_mm"](rows_a, rows_b.mT, offs, None, None).to(dtype or _C.bfloat16)


class _Groups:
    """Where groups begin, on the device of their ends."""

    def __init__(self, offs):
        self.ends = offs.long()
        self.sizes = OPS["diff"](self.ends, prepend=self.ends.new_zeros((1,)))
        self.begins = self.ends - self.sizes

    def of_each(self, count):
        """The group that each of `count` rows or columns belongs to; the last one where it lies behind them all."""
        own = OPS["arange"](count, device=self.ends.device)
        return OPS["searchsorted"](self.ends, own, right=True).clamp(max=max(self.ends.numel() - 1, 0)), own


def _up(n, to):
    return (n + to - 1) // to * to


def _places(row, column, columns):
    """Where the scales of rows and columns lie in tiles of 128 x 4; `columns`: of a row, a multiple of 4."""
    return (row // 128 * (columns // 4) + column // 4) * 512 + row % 32 * 16 + row % 128 // 32 * 4 + column % 4


def _widened(side, rows, groups, both):
    """Rows [outer, depth], or batches of them, as float32 times their scales."""
    block, dtypes, kind = _BLOCKS[_BY_32]
    if rows.dtype not in dtypes:
        raise ValueError(f"{side.op}: {side.recipe.name} is for matrices of float8_e4m3fn or float8_e5m2, {side.name} "
                         f"is {str(rows.dtype).removeprefix('torch.')}")
    expected = [*rows.shape[:-1], math.ceil(rows.shape[-1] / block)]
    if side.scale.dtype is not kind or (not side.swizzled and list(side.scale.shape) != expected):
        side.fail(f"float8_e8m0fnu{expected}")
    scale = _plain(side, expected, groups, both, block) if side.swizzled else side.scale
    return rows.float() * _powers(scale).repeat_interleave(block, -1)[..., :rows.shape[-1]]


def _plain(side, shape, groups, both, block):
    """Scales of this shape, not swizzled."""
    flat = side.scale.reshape(-1)
    *batch, outer, count = shape
    row, column = (OPS["arange"](n, device=flat.device) for n in (outer, count))
    row, wide = row.unsqueeze(-1), _up(count, 4)
    if batch:
        first = OPS["arange"](*batch, device=flat.device).view(-1, 1, 1) * (_up(outer, 128) * wide)
        place, most = first + _places(row, column, wide), batch[0] * _up(outer, 128) * wide
    elif both:  # groups of columns, each filled up to rows of a multiple of 4
        of, _ = groups.of_each(count * block)
        of, sizes = of[::block], _up(groups.sizes // block, 4)
        first = (sizes.cumsum(0) - sizes)[of] * _up(outer, 128)
        place, most = first + _places(row, column - groups.begins[of] // block, sizes[of]), 0
    else:  # groups of rows, each filled up to a multiple of 128
        of, own = groups.of_each(outer)
        padded = _up(groups.sizes, 128)
        row = (own - groups.begins[of] + (padded.cumsum(0) - padded)[of]).unsqueeze(-1)
        place, most = _places(row, column, wide), 0
    if flat.numel() < most or flat.numel() % 512:
        side.fail("a multiple of 512 numbers, at least one for each of the tiles, as swizzled")
    return flat.view(_C.uint8)[place.clamp(max=max(flat.numel() - 1, 0))].view(side.scale.dtype)
