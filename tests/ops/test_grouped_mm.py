"""Products of groups, and of matrices of bytes: what they are made of, and what they refuse."""

import pytest

import flambeau
from flambeau.nn import functional as F

ENDS = (2, 2, 7, 10)
#: which of the two has groups -> shapes; 12 rows or columns, so that some lie behind the last group
SHAPES = {"rows": ((12, 8), (4, 8, 6)), "columns": ((4, 6, 8), (8, 12)), "depth": ((6, 12), (12, 5)),
          "batches": ((4, 3, 8), (4, 8, 5))}
DTYPES = (flambeau.float32, flambeau.float64, flambeau.float16, flambeau.bfloat16)


def offsets(*ends):
    return flambeau.tensor(ends, dtype=flambeau.int32)


def matrices(way, dtype=flambeau.float64):
    flambeau.manual_seed(3)
    return tuple(flambeau.randn(*shape).to(dtype) for shape in SHAPES[way])


def by_hand(a, b, ends):
    """Group by group, in the dtype of what is given."""
    spans = list(zip((0, *ends[:-1]), ends, strict=True))
    if a.ndim == b.ndim == 3:
        return a @ b
    if a.ndim == b.ndim:
        return flambeau.stack([a[:, i:j] @ b[i:j] for i, j in spans])
    if a.ndim == 2:
        parts = [a[i:j] @ b[g] for g, (i, j) in enumerate(spans)]
        return flambeau.cat([*parts, a.new_zeros((a.shape[0] - ends[-1], b.shape[2]))])
    parts = [a[g] @ b[:, i:j] for g, (i, j) in enumerate(spans)]
    return flambeau.cat([*parts, a.new_zeros((a.shape[1], b.shape[1] - ends[-1]))], 1)


def of(way):
    return None if way == "batches" else offsets(*ENDS)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("way", SHAPES)
def test_groups_one_by_one(way, dtype):
    a, b = matrices(way, dtype)
    expected = by_hand(a.double(), b.double(), ENDS)
    near = {flambeau.float16: 1e-2, flambeau.bfloat16: 0.1, flambeau.float32: 1e-5}.get(dtype, 1e-12)
    for left in (a, a.mT.contiguous().mT):
        for right in (b, b.mT.contiguous().mT):
            found = F.grouped_mm(left, right, offs=of(way))
            assert found.dtype == dtype and found.is_contiguous()
            assert flambeau.allclose(found.double(), expected, rtol=near, atol=near)
    assert flambeau.equal(flambeau._grouped_mm(a, b, of(way)), F.grouped_mm(a, b, offs=of(way), out_dtype=dtype))


@pytest.mark.parametrize("way", SHAPES)
def test_gradients(way):
    a, b = (t.requires_grad_() for t in matrices(way))
    assert flambeau.autograd.gradcheck(lambda a, b: F.grouped_mm(a, b, offs=of(way)), (a, b))
    assert flambeau.autograd.gradgradcheck(lambda a, b: F.grouped_mm(a, b, offs=of(way)), (a, b))


def test_nothing():
    a, b = matrices("rows")
    assert flambeau.equal(F.grouped_mm(a, b[:0], offs=offsets()), flambeau.zeros(12, 6, dtype=flambeau.float64))
    assert F.grouped_mm(a[:0], b, offs=offsets(0, 0, 0, 0)).shape == (0, 6)
    assert not F.grouped_mm(a[:, :0], b[:, :0], offs=offsets(*ENDS)).any()


WRONG = {
    "no offs": (RuntimeError, "expected offs, where", lambda a, b: (a, b, None)),
    "offs of batches": (RuntimeError, "both have 3", lambda a, b: (b, b, offsets(*ENDS))),
    "dtype of offs": (RuntimeError, "of int32", lambda a, b: (a, b, offsets(*ENDS).long())),
    "number of groups": (RuntimeError, "3 groups need as many", lambda a, b: (a, b, offsets(2, 5, 7))),
    "sizes": (RuntimeError, "cannot be multiplied", lambda a, b: (a[:, :4], b, offsets(*ENDS))),
    "dtypes": (RuntimeError, "of one dtype", lambda a, b: (a.float(), b, offsets(*ENDS))),
    "dimensions": (RuntimeError, "2 or 3 dimensions", lambda a, b: (a[0], b, offsets(*ENDS))),
    "falling": (ValueError, "rise from 0 to at most 12; got 3 at index 1", lambda a, b: (a, b, offsets(5, 3, 7, 9))),
    "too far": (ValueError, "got 13 at index 3", lambda a, b: (a, b, offsets(5, 5, 7, 13))),
    "out_dtype": (RuntimeError, "out_dtype is that", lambda a, b: (a, b, offsets(*ENDS), None, flambeau.float32)),
    "bias": (NotImplementedError, "add it to the result", lambda a, b: (a, b, offsets(*ENDS), b[0, 0])),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_refused(name):
    error, text, arguments = WRONG[name]
    with pytest.raises(error, match=text):
        flambeau._grouped_mm(*arguments(*matrices("rows")))


@pytest.mark.parametrize("way", SHAPES)
def test_groups_with_scales_of_rows(way):
    a, b = (t.to(flambeau.float8_e4m3fn) for t in matrices(way))
    depth = way == "depth"
    of_a = flambeau.rand(4 * 6) if depth else flambeau.rand(a.shape[:-1])
    of_b = flambeau.rand(4 * 5) if depth else flambeau.rand(*b.shape[:-2], b.shape[-1])
    if depth:
        expected = by_hand(a.float(), b.float(), ENDS) * of_a.view(4, 6, 1) * of_b.view(4, 1, 5)
    else:
        expected = by_hand(a.float() * of_a.unsqueeze(-1), b.float() * of_b.unsqueeze(-2), ENDS)
    rows = F.ScalingType.RowWise
    found = F.scaled_grouped_mm(a, b, of_a, rows, of_b, rows, offs=of(way), output_dtype=flambeau.float32)
    assert flambeau.allclose(found, expected, rtol=1e-5, atol=1e-5)
    assert flambeau.equal(flambeau._scaled_grouped_mm(a, b, of_a, of_b, of(way)), found.bfloat16())
    with pytest.raises(ValueError, match="expected scale_b of"):
        F.scaled_grouped_mm(a, b, of_a, rows, of_b[..., :2], rows, offs=of(way))
    with pytest.raises(NotImplementedError, match="mat_a has BlockWise1x32 scales"):
        F.scaled_grouped_mm(a, b, of_a.to(flambeau.float8_e8m0fnu), F.ScalingType.BlockWise1x32, of_b, rows,
                            offs=of(way))
    with pytest.raises(NotImplementedError, match="add and multiply the result"):
        F.scaled_grouped_mm(a, b, of_a, rows, of_b, rows, bias=of_b, offs=of(way))


def swizzled(scale):
    """[rows, columns] in tiles of 128 x 4, filled up with a scale that would be noticed."""
    rows, columns = -(-scale.shape[0] // 128), -(-scale.shape[1] // 4)
    full = flambeau.full((rows * 128, columns * 4), 200, dtype=flambeau.uint8)
    full[:scale.shape[0], :scale.shape[1]] = scale.view(flambeau.uint8)
    return full.view(rows, 4, 32, columns, 4).permute(0, 3, 2, 1, 4).reshape(-1)


#: ends of groups, and shapes whose scales fill several tiles and parts of some
BLOCKS = {"rows": ((130, 130, 170, 200), (210, 96), (4, 96, 6)), "columns": ((3, 140, 141), (3, 5, 160), (160, 144)),
          "depth": ((64, 64, 256, 288), (130, 320), (320, 7)), "batches": (None, (2, 130, 64), (2, 64, 5))}


def scaled_blocks(way):
    """(matrices, their plain scales, those in tiles, offs)."""
    ends, *shapes = BLOCKS[way]
    a, b = (flambeau.randn(shape).to(flambeau.float8_e4m3fn) for shape in shapes)
    plain = [flambeau.randint(120, 135, (*x.shape[:-1], x.shape[-1] // 32), dtype=flambeau.uint8) for x in (a, b.mT)]
    spans = list(zip((0, *ends[:-1]), ends, strict=True)) if ends else []

    def tiles(scale, other):
        if scale.ndim == 3:
            return flambeau.stack([swizzled(s) for s in scale])
        parts = [scale[:, i // 32:j // 32] for i, j in spans] if other.ndim == 2 else [scale[i:j] for i, j in spans]
        return flambeau.cat([swizzled(s) for s in parts if s.numel()])
    kind = flambeau.float8_e8m0fnu
    return ((a, b), [s.view(kind) for s in plain],
            [tiles(s, other).view(kind) for s, other in zip(plain, plain[::-1], strict=True)],
            None if ends is None else offsets(*ends))


@pytest.mark.parametrize("way", BLOCKS)
def test_groups_with_scales_of_blocks(way):
    """MXFP8: plain scales, and in tiles as GPUs have them."""
    (a, b), (of_a, of_b), (tiles_a, tiles_b), offs = scaled_blocks(way)
    wide = [x.float() * s.float().repeat_interleave(32, -1) for x, s in ((a, of_a), (b.mT, of_b))]
    expected = wide[0] @ wide[1].mT if offs is None else by_hand(wide[0], wide[1].mT, BLOCKS[way][0])
    recipe, swizzle = F.ScalingType.BlockWise1x32, F.SwizzleType.SWIZZLE_32_4_4
    plain = F.scaled_grouped_mm(a, b, of_a, recipe, of_b, recipe, offs=offs, output_dtype=flambeau.float32)
    assert flambeau.allclose(plain, expected, rtol=1e-5, atol=1e-4)
    found = F.scaled_grouped_mm(a, b, tiles_a, recipe, tiles_b, recipe, swizzle, swizzle, offs=offs,
                                output_dtype=flambeau.float32)
    assert flambeau.equal(found, plain)
    assert F.scaled_grouped_mm(a, b, of_a, recipe, of_b, recipe, offs=offs).equal(plain.bfloat16())
    with pytest.raises(ValueError, match=r"scales of mat_b are float8_e8m0fnu\["):
        F.scaled_grouped_mm(a, b, of_a, recipe, of_b[..., :1], recipe, offs=offs)
    with pytest.raises(ValueError, match="as swizzled"):
        F.scaled_grouped_mm(a, b, tiles_a[..., 1:], recipe, of_b, recipe, swizzle, offs=offs)
    with pytest.raises(NotImplementedError, match="add it to the result"):
        F.scaled_grouped_mm(a, b, of_a, recipe, of_b, recipe, bias=wide[0], offs=offs)


@pytest.mark.parametrize("kinds", ((flambeau.int8, flambeau.int8), (flambeau.uint8, flambeau.int8)), ids=str)
def test_products_of_bytes(kinds):
    a, b = (flambeau.randint(-128, 128, shape).to(kind) for shape, kind in zip(((5, 70), (70, 3)), kinds, strict=True))
    for left in (a, a.t().contiguous().t()):
        found = flambeau._int_mm(left, b)
        assert found.dtype == flambeau.int32 and flambeau.equal(found, a.int() @ b.int())
    assert not flambeau._int_mm(a[:, :0], b[:0]).any()
    with pytest.raises(RuntimeError, match="expected int8 or uint8, got int32"):
        flambeau._int_mm(a.int(), b)
    with pytest.raises(RuntimeError, match="expected matrices"):
        flambeau._int_mm(a, b.t())
