"""Products of 8-bit floats with scales: what they are made of, and what they refuse."""

import pytest

import flambeau
from flambeau.nn import functional as F

E4, E5 = flambeau.float8_e4m3fn, flambeau.float8_e5m2
TENSOR, ROWS = F.ScalingType.TensorWise, F.ScalingType.RowWise
ONE = flambeau.ones(())


def matrices(m=5, k=7, n=3, kinds=(E4, E4)):
    flambeau.manual_seed(m + k + n)
    return flambeau.randn(m, k).to(kinds[0]), flambeau.randn(n, k).to(kinds[1]).t()


@pytest.mark.parametrize("out", (None, flambeau.float32, flambeau.float16, flambeau.bfloat16, E4, E5), ids=str)
@pytest.mark.parametrize("kinds", ((E4, E4), (E4, E5), (E5, E4), (E5, E5)), ids=str)
def test_scales_and_bias(kinds, out):
    a, b = matrices(kinds=kinds)
    rows, columns = flambeau.rand(5, 1), flambeau.rand(1, 3)
    for of_a, of_b, way in ((flambeau.tensor(0.5), flambeau.tensor([3.0]), TENSOR), (rows, columns, ROWS)):
        for bias in (None, flambeau.randn(3), flambeau.randn(3).bfloat16()):
            exact = (a.float() * of_a) @ (b.float() * of_b) + (0 if bias is None else bias.float())
            found = flambeau._scaled_mm(a, b, of_a, of_b, bias, out_dtype=out)
            assert found.dtype == (out or kinds[0]) and found.is_contiguous()
            near = {E4: 0.07, E5: 0.13, flambeau.bfloat16: 1e-2, flambeau.float16: 2e-3}.get(found.dtype, 1e-5)
            assert flambeau.allclose(found.float(), exact, rtol=near, atol=near / 10)
            same = F.scaled_mm(a, b, of_a, way, of_b, way, bias=bias, output_dtype=out)
            assert flambeau.equal(same.float(), found.float())
            assert flambeau.equal(F.scaled_mm(a, b, [of_a], [way], [of_b], [way], bias=bias, output_dtype=out,
                                              use_fast_accum=True).float(), found.float())


def test_a_result_of_8_bits_has_a_scale():
    a, b = matrices()
    found = flambeau._scaled_mm(a, b, ONE, ONE, scale_result=flambeau.tensor(0.25))
    assert flambeau.equal(found.float(), ((a.float() @ b.float()) / 4).to(E4).float())
    with pytest.raises(NotImplementedError, match="scale_result is for results of 8 bits"):
        flambeau._scaled_mm(a, b, ONE, ONE, scale_result=ONE, out_dtype=flambeau.float32)


def test_a_result_that_is_given():
    a, b = matrices()
    out = flambeau.empty(5, 3)
    assert flambeau._scaled_mm(a, b, ONE, ONE, out_dtype=flambeau.float32, out=out) is out
    assert flambeau.equal(out, a.float() @ b.float())


def test_usual_dtypes_and_sizes_of_nothing():
    a, b = matrices()
    assert F.scaled_mm(a, b, ONE, TENSOR, ONE, TENSOR).dtype == flambeau.bfloat16
    assert F.scaled_mm(a, b, ONE, TENSOR, ONE, TENSOR, output_dtype=None).dtype == E4
    assert flambeau._scaled_mm(a[:0], b, ONE, ONE).shape == (0, 3)
    zero = flambeau._scaled_mm(a[:, :0], b[:0], ONE, ONE, flambeau.ones(3), out_dtype=flambeau.float32)
    assert flambeau.equal(zero, flambeau.ones(5, 3))


WRONG = {
    "no matrix": (RuntimeError, "two matrices", lambda a, b: (a[0], b, ONE, ONE)),
    "sizes": (RuntimeError, "cannot be multiplied", lambda a, b: (a, b[:4], ONE, ONE)),
    "dtype": (ValueError, "expected float8_e4m3fn or float8_e5m2", lambda a, b: (a.float(), b, ONE, ONE)),
    "number of scales": (ValueError, "scales are float32", lambda a, b: (a, b, flambeau.ones(4, 1), ONE)),
    "scales in a row": (ValueError, "scales are float32", lambda a, b: (a, b, flambeau.ones(5), flambeau.ones(3))),
    "dtype of scales": (ValueError, "scales are float32", lambda a, b: (a, b, ONE.half(), ONE)),
    "bias": (RuntimeError, "bias is one row of 3", lambda a, b: (a, b, ONE, ONE, flambeau.ones(4))),
    "result": (RuntimeError, "out_dtype is", lambda a, b: (a, b, ONE, ONE, None, None, flambeau.int32)),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_refused(name):
    error, text, arguments = WRONG[name]
    with pytest.raises(error, match=text):
        flambeau._scaled_mm(*arguments(*matrices()))


def test_recipes_that_are_refused():
    a, b = matrices()
    blocks = F.ScalingType.BlockWise1x128
    with pytest.raises(ValueError, match=r"BlockWise1x128 scales of mat_a are float32\[5, 1\]; got float32\[\]"):
        F.scaled_mm(a, b, ONE, blocks, ONE, blocks)
    with pytest.raises(ValueError, match="BlockWise1x16 is for matrices of float4_e2m1fn_x2"):
        F.scaled_mm(a, b, ONE, F.ScalingType.BlockWise1x16, ONE, F.ScalingType.BlockWise1x16)
    with pytest.raises(NotImplementedError, match="swizzle_b"):
        F.scaled_mm(a, b, ONE, TENSOR, ONE, TENSOR, swizzle_b=F.SwizzleType.SWIZZLE_32_4_4)
    with pytest.raises(NotImplementedError, match="several levels"):
        F.scaled_mm(a, b, [ONE, ONE], [TENSOR, TENSOR], ONE, TENSOR)
    with pytest.raises(NotImplementedError, match="contraction_dim"):
        F.scaled_mm(a, b, ONE, TENSOR, ONE, TENSOR, contraction_dim=(0, 1))
    with pytest.raises(ValueError, match="one recipe"):
        F.scaled_mm(a, b, ONE, TENSOR, ONE, ROWS)
    with pytest.raises(ValueError, match="TensorWise scales of mat_a are one number"):
        F.scaled_mm(a, b, flambeau.ones(5, 1), TENSOR, ONE, TENSOR)
    with pytest.raises(ValueError, match="RowWise scales of mat_a are"):
        F.scaled_mm(a, b, ONE, ROWS, ONE, ROWS)


# --- scales of blocks -------------------------------------------------------------------------------------------------

WAYS = F.ScalingType
FLOAT4 = flambeau.float4_e2m1fn_x2


def tiled(scales):
    """As cuBLAS has them: tiles of 128 x 4, of which the rows 32 apart lie beside each other."""
    rows, columns = scales.shape
    codes = F.pad(scales.view(flambeau.uint8), (0, -columns % 4, 0, -rows % 128))
    out = codes.new_empty((codes.numel(),))
    for r in range(rows):
        for c in range(columns):
            tile = r // 128 * (codes.shape[1] // 4) + c // 4
            out[tile * 512 + r % 32 * 16 + r % 128 // 32 * 4 + c % 4] = codes[r, c]
    return out.view(scales.dtype)


def spread(scales, size, depth):
    return scales.float().repeat_interleave(size, 1)[:, :depth]


@pytest.mark.parametrize("kinds", ((E4, E4), (E5, E4)), ids=str)
def test_scales_of_32_numbers(kinds):
    a, b = matrices(140, 100, 9, kinds)
    of_a, of_b = (flambeau.exp2(flambeau.randint(-9, 9, (n, 4)).float()).to(flambeau.float8_e8m0fnu) for n in (140, 9))
    exact = (a.float() * spread(of_a, 32, 100)) @ (b.t().float() * spread(of_b, 32, 100)).t()
    way, float32 = WAYS.BlockWise1x32, flambeau.float32
    found = F.scaled_mm(a, b, of_a, way, of_b, way, output_dtype=float32)
    assert flambeau.allclose(found, exact, rtol=1e-5, atol=1e-5 * float(exact.abs().max()))
    tiles = F.SwizzleType.SWIZZLE_32_4_4
    assert flambeau.equal(F.scaled_mm(a, b, tiled(of_a), way, tiled(of_b), way, tiles, tiles, output_dtype=float32),
                          found)
    bias = flambeau.randn(9)
    assert flambeau.equal(F.scaled_mm(a, b, of_a, way, of_b, way, bias=bias), (found + bias).bfloat16())
    with pytest.raises(ValueError, match="as swizzled"):
        F.scaled_mm(a, b, of_a, way, of_b, way, tiles, tiles)


def test_scales_that_are_powers_of_two_are_all_read():
    """0 is the smallest power, 255 no number."""
    codes = flambeau.arange(256).to(flambeau.uint8).view(256, 1)
    one = flambeau.ones(256, 1).to(E4)
    way, unit = WAYS.BlockWise1x32, flambeau.ones(1, 1).to(flambeau.float8_e8m0fnu)
    found = F.scaled_mm(one, one[:1].t(), codes.view(flambeau.float8_e8m0fnu), way, unit, way,
                        output_dtype=flambeau.float32).view(-1)
    expected = flambeau.exp2(flambeau.arange(255.0).double() - 127)
    assert found[255].isnan() and flambeau.equal(found[:255].double(), expected)


#: the 16 numbers of 4 bits
NUMBERS = [sign * size for sign in (1, -1) for size in (0, 0.5, 1, 1.5, 2, 3, 4, 6)]


def test_numbers_of_4_bits():
    flambeau.manual_seed(0)
    codes = [flambeau.randint(0, 16, (n, 48)) for n in (7, 5)]
    a, b = ((c[:, ::2] + 16 * c[:, 1::2]).to(flambeau.uint8).view(FLOAT4) for c in codes)
    of_a, of_b = (flambeau.rand(n, 3).to(E4) for n in (7, 5))
    wide = [flambeau.tensor(NUMBERS)[c] * spread(s, 16, 48) for c, s in zip(codes, (of_a, of_b), strict=True)]
    way = WAYS.BlockWise1x16
    found = F.scaled_mm(a, b.t(), of_a, way, of_b, way, output_dtype=flambeau.float32)
    assert flambeau.allclose(found, wide[0] @ wide[1].t(), rtol=1e-5, atol=1e-4)
    levels = [way, TENSOR]
    twice = F.scaled_mm(a, b.t(), [of_a, flambeau.tensor(0.5)], levels, [of_b, flambeau.tensor([8.0])], levels,
                        output_dtype=flambeau.float32)
    assert flambeau.equal(twice, found * 4)
    with pytest.raises(ValueError, match="output_dtype is missing"):
        F.scaled_mm(a, b.t(), of_a, way, of_b, way, output_dtype=None)


@pytest.mark.parametrize("ways", ((4, 4), (4, 5), (5, 4), (5, 5)), ids=str)
def test_scales_of_128_numbers_and_of_squares(ways):
    a, b = matrices(130, 300, 200)
    of_a, of_b = (flambeau.rand(n if way == 4 else 2, 3) for n, way in zip((130, 200), ways, strict=True))
    wide = [spread(s if s.shape[0] > 2 else s.repeat_interleave(128, 0)[:n], 128, 300) for s, n in
            ((of_a, 130), (of_b, 200))]
    exact = (a.float() * wide[0]) @ (b.t().float() * wide[1]).t()
    found = F.scaled_mm(a, b, of_a, WAYS(ways[0]), of_b.t(), WAYS(ways[1]), output_dtype=flambeau.float32)
    assert flambeau.allclose(found, exact, rtol=1e-5, atol=1e-4)
    assert F.scaled_mm(a, b, of_a, WAYS(ways[0]), of_b.t(), WAYS(ways[1]), output_dtype=None).dtype == E4
