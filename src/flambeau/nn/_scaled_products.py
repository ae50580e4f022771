"""Products of matrices with scales, and of groups: nn.functional's scaled_mm and grouped_mm."""

import contextlib
import math

from .. import _C
from .._shown import NamedNumber
from ..ops.kinds import OPS


class ScalingType(NamedNumber):
    """How the operands of scaled_mm are scaled."""

    TensorWise = 0
    RowWise = 1
    BlockWise1x16 = 2
    BlockWise1x32 = 3
    BlockWise1x128 = 4
    BlockWise128x128 = 5


class SwizzleType(NamedNumber):
    """How the scales of scaled_mm are laid out."""

    NO_SWIZZLE = 0
    SWIZZLE_32_4_4 = 1


_TENSOR, _ROW, _BY_16, _BY_32, _BY_128, _SQUARE = ScalingType
#: recipe -> (numbers that share a scale, along what is summed over; dtypes of the matrix; dtype of the scales)
_EIGHT_BITS = (_C.float8_e4m3fn, _C.float8_e5m2)
_BLOCKS = {_BY_16: (16, (_C.float4_e2m1fn_x2,), _C.float8_e4m3fn), _BY_32: (32, _EIGHT_BITS, _C.float8_e8m0fnu),
           _BY_128: (128, _EIGHT_BITS, _C.float32), _SQUARE: (128, _EIGHT_BITS, _C.float32)}
#: the numbers of float4_e2m1fn by their codes
_FOUR_BITS = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, -0.0, -0.5, -1.0, -1.5, -2.0, -3.0, -4.0, -6.0)


def _list(value):
    return list(value) if isinstance(value, (list, tuple)) else [value]


def _contracted(op, contraction_dim):
    if tuple(contraction_dim) not in ((), (1, 0)):
        raise NotImplementedError(f"{op}: only the last dimension of mat_a and the first of mat_b are contracted, "
                                  f"got contraction_dim={tuple(contraction_dim)}; transpose the matrices")


class _Scaled:
    """One side: a matrix, its scales and how they lie."""

    def __init__(self, op, name, matrix, scales, recipes, swizzles):
        scales, recipes = _list(scales), [ScalingType(r) for r in _list(recipes)]
        swizzles = [SwizzleType.NO_SWIZZLE if s is None else SwizzleType(s) for s in _list(swizzles)]
        whole = len(recipes) == 2 and recipes[0] is _BY_16 and recipes[1] is _TENSOR
        if len(scales) != len(recipes) or (len(recipes) != 1 and not whole):
            raise NotImplementedError(
                f"{op}: {name} has {len(scales)} scales for recipes {[r.name for r in recipes]}; scales of several "
                "levels are available as [BlockWise1x16, TensorWise], multiply others first")
        self.op, self.name, self.matrix, self.scale, self.recipe = op, name, matrix, scales[0], recipes[0]
        self.whole = scales[1] if whole else None
        self.swizzled = swizzles[0] is SwizzleType.SWIZZLE_32_4_4
        if self.swizzled and self.recipe not in (_BY_16, _BY_32):
            raise NotImplementedError(f"{op}: scales of {name} are {self.recipe.name}; only those of BlockWise1x16 and "
                                      f"BlockWise1x32 are swizzled, leave swizzle_{name[-1]} out")

    def fail(self, expected):
        raise ValueError(f"{self.op}: {self.recipe.name} scales of {self.name} are {expected}; got "
                         f"{str(self.scale.dtype).removeprefix('torch.')}{list(self.scale.shape)}")


class _Blocks(_Scaled):
    """A side whose scales each belong to a block; rows [outer, depth] of numbers."""

    def __init__(self, op, name, matrix, scales, recipes, swizzles, transposed):
        super().__init__(op, name, matrix, scales, recipes, swizzles)
        self.transposed = transposed
        self.rows = matrix.t() if transposed else matrix
        self.block, dtypes, kind = _BLOCKS[self.recipe]
        if matrix.dtype not in dtypes:
            wanted = " or ".join(str(d).removeprefix("torch.") for d in dtypes)
            raise ValueError(f"{op}: {self.recipe.name} is for matrices of {wanted}, {name} is "
                             f"{str(matrix.dtype).removeprefix('torch.')}")
        self.outer, self.depth = self.rows.shape[0], self.rows.shape[1] * (2 if self.recipe is _BY_16 else 1)
        self.count = math.ceil(self.depth / self.block)
        self.check(kind)

    def check(self, kind):
        expected = [math.ceil(self.outer / 128) if self.recipe is _SQUARE else self.outer, self.count]
        if self.transposed and self.recipe in (_BY_128, _SQUARE):
            expected.reverse()
        if self.swizzled:
            padded = math.ceil(self.outer / 128) * 128 * math.ceil(self.count / 4) * 4
            if self.scale.dtype is not kind or self.scale.numel() != padded or not self.scale.is_contiguous():
                self.fail(f"{padded} numbers of {str(kind).removeprefix('torch.')}, contiguous, as swizzled")
        elif self.scale.dtype is not kind or list(self.scale.shape) != expected:
            self.fail(f"{str(kind).removeprefix('torch.')}{expected}")
        if self.whole is not None and (self.whole.numel() != 1 or self.whole.dtype is not _C.float32):
            raise ValueError(f"{self.op}: the TensorWise scale of {self.name} is one number of float32, got "
                             f"{str(self.whole.dtype).removeprefix('torch.')}{list(self.whole.shape)}")

    def plain(self):
        """Scales [outer, blocks], not swizzled."""
        if self.swizzled:
            tiles = self.scale.view(math.ceil(self.outer / 128), math.ceil(self.count / 4), 32, 4, 4)
            rows = tiles.permute(0, 3, 2, 1, 4).reshape(tiles.shape[0] * 128, tiles.shape[1] * 4)
            return rows[:self.outer, :self.count]
        return self.scale.t() if self.transposed and self.recipe in (_BY_128, _SQUARE) else self.scale

    def widened(self):
        """The rows as float32, times their scales."""
        scale = _powers(self.plain()) if self.scale.dtype is _C.float8_e8m0fnu else self.plain().float()
        if self.recipe is _SQUARE:
            scale = scale.repeat_interleave(128, 0)[:self.outer]
        numbers = _numbers(self.rows) if self.recipe is _BY_16 else self.rows.float()
        return numbers * scale.repeat_interleave(self.block, 1)[:, :self.depth]

    def for_library(self):
        """Scales as cuBLASLt wants them: tiles of 128 x 4; of 128 numbers, one row after the other for each block; of
        squares, a multiple of 4 for each 128 rows."""
        scale = self.plain()
        if self.recipe is _BY_128:
            return scale.t().contiguous()
        if self.recipe is _SQUARE:
            return OPS["pad"](scale, (0, -self.count % 4)).contiguous()
        if self.swizzled:
            return self.scale
        bytes_ = OPS["pad"](scale.view(_C.uint8), (0, -self.count % 4, 0, -self.outer % 128))
        tiles = bytes_.view(bytes_.shape[0] // 128, 4, 32, bytes_.shape[1] // 4, 4)
        return tiles.permute(0, 3, 2, 1, 4).contiguous().view(scale.dtype)


def _powers(scale):
    """float8_e8m0fnu as float32, by bits: 0 is 2^-127, 255 is NaN."""
    code = scale.view(_C.uint8).to(_C.int32)
    bits = OPS["where"](code == 0, 1 << 22, OPS["where"](code == 255, 0x7FC00000, code * (1 << 23)))
    return bits.to(_C.int32).view(_C.float32)


def _numbers(rows):
    """The two numbers of each byte of float4, the lower bits first."""
    code = rows.view(_C.uint8).to(_C.int32)
    table = rows.new_empty((), dtype=_C.float32).new_tensor(_FOUR_BITS)
    return table[OPS["stack"]([code % 16, OPS["div"](code, 16, rounding_mode="floor")], -1).flatten(1).long()]


# --- the functions ----------------------------------------------------------------------------------------------------

def scaled_mm(mat_a, mat_b, scale_a, scale_recipe_a, scale_b, scale_recipe_b, swizzle_a=None, swizzle_b=None, bias=None,
              output_dtype=_C.bfloat16, contraction_dim=(), use_fast_accum=False):
    """mat_a [m, k] @ mat_b [k, n] + bias for matrices of 8 or 4 bits with scales, which both have by one recipe:

    * ScalingType.TensorWise, RowWise: float32, one each, or [m, 1] and [1, n], one for each row and column;
    * BlockWise1x32 (MXFP8): float8_e8m0fnu, one for each 32 numbers of what is summed over, [m, k/32] and [n, k/32];
    * BlockWise1x16 (NVFP4): float8_e4m3fn, [m, k/16] and [n, k/16], for float4_e2m1fn_x2; with a second TensorWise
      scale where lists are given;
    * BlockWise1x128 ([m, k/128] and [k/128, n]) and BlockWise128x128 ([m/128, k/128] and [k/128, n/128]): float32;
      these two go together.

    Sizes of blocks are rounded up. With SwizzleType.SWIZZLE_32_4_4 scales of 16 and 32 numbers lie in tiles of 128 x 4,
    as cuBLAS has them, filled up. On a GPU that has them, blocks are multiplied by cuBLASLt; elsewhere numbers are
    multiplied by their scales first, in float32. use_fast_accum lets a GPU keep sums less exactly.
    ValueError for scales that do not fit; NotImplementedError for other dimensions of contraction.

    >>> import flambeau
    >>> F = flambeau.nn.functional
    >>> x, way = flambeau.eye(2).to(flambeau.float8_e4m3fn), F.ScalingType.TensorWise
    >>> F.scaled_mm(x, x.t(), flambeau.tensor(3.0), way, flambeau.tensor(1.0), way)
    tensor([[3., 0.],
            [0., 3.]], dtype=torch.bfloat16)
    """
    _contracted("scaled_mm", contraction_dim)
    recipes = [ScalingType(_list(recipe)[0]) for recipe in (scale_recipe_a, scale_recipe_b)]
    if recipes[0] is not recipes[1] and not set(recipes) <= {_BY_128, _SQUARE}:
        raise ValueError(f"scaled_mm: expected one recipe for both matrices, got {recipes[0].name} and "
                         f"{recipes[1].name}")
    sides = (mat_a, scale_a, scale_recipe_a, swizzle_a), (mat_b, scale_b, scale_recipe_b, swizzle_b)
    if recipes[0] in _BLOCKS:
        return _by_blocks(*(_Blocks("scaled_mm", name, *side, name == "mat_b")
                            for name, side in zip(("mat_a", "mat_b"), sides, strict=True)),
                          bias, output_dtype, use_fast_accum)
    a, b = (_Scaled("scaled_mm", name, *side) for name, side in zip(("mat_a", "mat_b"), sides, strict=True))
    for side in (a, b):
        if a.recipe is _TENSOR and side.scale.numel() != 1:
            side.fail("one number each")
        if a.recipe is _ROW and side.scale.ndim != 2:
            side.fail("[m, 1] and [1, n]")
    return OPS["_scaled_mm"](mat_a, mat_b, a.scale, b.scale, bias, None, output_dtype, use_fast_accum)


def _by_blocks(a, b, bias, dtype, fast):
    if a.depth != b.depth:
        raise RuntimeError(f"scaled_mm: shapes {list(a.matrix.shape)} and {list(b.matrix.shape)} cannot be multiplied: "
                           "the columns of the first are the rows of the second")
    if bias is not None and list(bias.shape) != [b.outer]:
        raise RuntimeError(f"scaled_mm: bias is one row of {b.outer} numbers, got {list(bias.shape)}")
    if dtype is None and a.recipe is _BY_16:
        raise ValueError("scaled_mm: output_dtype is missing; a result of float4_e2m1fn_x2 is not available")
    dtype = dtype or a.matrix.dtype
    plain = bias is None and a.whole is None and b.whole is None and dtype not in _EIGHT_BITS
    found = _by_library(a, b, dtype if plain else _C.float32, fast)
    if found is None:
        found = a.widened() @ b.widened().t()
    for whole in (a.whole, b.whole):
        if whole is not None:
            found = found * whole.view(())
    return (found if bias is None else found + bias.float()).to(dtype)


def _by_library(a, b, dtype, fast):
    """The product by cuBLASLt, or None where it is not there or does not take it."""
    if not a.matrix.is_cuda or not a.matrix.numel() or not b.matrix.numel():
        return None
    with contextlib.suppress(NotImplementedError):
        return OPS["_block_scaled_mm"](a.rows.contiguous(), b.rows.contiguous().t(), a.for_library(),
                                       b.for_library(), int(a.recipe), int(b.recipe), dtype, fast)
    return None


def grouped_mm(mat_a, mat_b, *, offs=None, bias=None, out_dtype=None):
    """Products of groups of rows, columns or what is summed over, as of tokens with the weights of their experts: group
    i ends at offs[i] (int32), where that of i + 1 begins. [m, k] @ [groups, k, n] is [m, n], [groups, m, k] @ [k, n] is
    [m, n], [m, k] @ [k, n] is [groups, m, n]; without offs, both are batches. What lies behind the last group is 0.

    RuntimeError for shapes and dtypes that do not fit, ValueError for offs that do not rise, NotImplementedError for a
    bias.

    >>> import flambeau
    >>> tokens, weights = flambeau.ones(3, 1), flambeau.tensor([1.0, 2.0]).view(2, 1, 1)
    >>> flambeau.nn.functional.grouped_mm(tokens, weights, offs=flambeau.tensor([2, 3], dtype=flambeau.int32)).tolist()
    [[1.0], [1.0], [2.0]]
    """
    return OPS["_grouped_mm"](mat_a, mat_b, offs, bias, out_dtype)
