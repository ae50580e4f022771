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
    with pytest.raises(NotImplementedError, match="scale_recipe_a is BlockWise1x128"):
        F.scaled_mm(a, b, ONE, blocks, ONE, blocks)
    with pytest.raises(NotImplementedError, match="swizzle_b"):
        F.scaled_mm(a, b, ONE, TENSOR, ONE, TENSOR, swizzle_b=F.SwizzleType.SWIZZLE_32_4_4)
    with pytest.raises(NotImplementedError, match="several levels"):
        F.scaled_mm(a, b, [ONE, ONE], [TENSOR, TENSOR], ONE, TENSOR)
    with pytest.raises(NotImplementedError, match="contraction_dim"):
        F.scaled_mm(a, b, ONE, TENSOR, ONE, TENSOR, contraction_dim=(0, 1))
    with pytest.raises(ValueError, match="one recipe"):
        F.scaled_mm(a, b, ONE, TENSOR, ONE, ROWS)
    with pytest.raises(ValueError, match="TensorWise scales are one number"):
        F.scaled_mm(a, b, flambeau.ones(5, 1), TENSOR, ONE, TENSOR)
    with pytest.raises(ValueError, match="RowWise scales are"):
        F.scaled_mm(a, b, ONE, ROWS, ONE, ROWS)
