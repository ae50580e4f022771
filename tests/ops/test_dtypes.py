"""Every dtype either works, and then agrees with the wider one, or is refused with a message; never anything else."""

import numpy as np
import pytest

import flambeau

from . import battery, refusals
from .battery import OPS, fact, run, samples, tensors, to_numpy

WIDER = {flambeau.float16: flambeau.float32, flambeau.bfloat16: flambeau.float32, flambeau.float32: flambeau.float64,
         flambeau.complex64: flambeau.complex128}
#: relative rounding of a number, with room for a few operations
ROUNDING = {flambeau.float16: 4e-3, flambeau.bfloat16: 3e-2, flambeau.float32: 2e-5, flambeau.complex64: 2e-5}


@pytest.mark.parametrize("name", battery.with_samples("dtypes"))
def test_every_dtype_works_or_is_refused_as_the_table_says(name):
    found = refusals.text(refusals.parts(name))
    assert found == refusals.table().get(name, ""), "unlike refusals.txt, which `python -m tests.ops.refusals` writes"
    assert not all(refusals.refuses(name, d, k) for d in battery.ALL_DTYPES for k in range(len(samples(name, d))))


def test_the_table_of_refusals_names_operators():
    assert not set(refusals.table()) - set(battery.with_samples("dtypes"))


# random numbers of another dtype are other numbers
@pytest.mark.parametrize("name", [n for n in battery.with_samples("narrow_dtypes") if not battery.is_random(n)])
@pytest.mark.parametrize("dtype", WIDER, ids=lambda d: str(d).split(".")[-1])
def test_narrow_floats_agree_with_wider_ones(name, dtype):
    compared = 0
    for k, sample in enumerate(samples(name, dtype)[:4]):
        if refusals.refuses(name, dtype, k):
            continue
        found = tensors(run(name, sample))
        wide = battery.map_tensors(lambda t: t.to(WIDER[dtype]) if t.dtype == dtype else t, sample)
        expected = tensors(run(name, wide))
        for x, y in zip(found, expected, strict=True):
            assert x.shape == y.shape
            pairs = {**WIDER, flambeau.complex32: flambeau.complex64}
            assert y.dtype in (x.dtype, pairs.get(x.dtype)), f"{name}{sample}: {x.dtype}, from wider {y.dtype}"
            if x.dtype is flambeau.complex32:  # NumPy has no such dtype
                x = x.cfloat()
            elif x.dtype not in ROUNDING:  # indices, counts, answers: the same whatever the numbers' width
                assert flambeau.equal(x, y), f"{name}{sample}: {x} instead of {y}"
                compared += 1
                continue
            tolerance = ROUNDING[dtype] * max(1.0, x.numel() and float(np.abs(finite(to_numpy(y))).max(initial=0)))
            np.testing.assert_allclose(to_numpy(x), to_numpy(y), rtol=ROUNDING[dtype], atol=tolerance,
                                       err_msg=f"{name}{sample}")
            compared += 1
    battery.compared(compared, "the dtype is not offered, or the results are no tensors")


EIGHT = (flambeau.float8_e5m2, flambeau.float8_e4m3fn)
#: {dtype that is stored and not computed with: the dtype of samples that become such}
STORED = {flambeau.float8_e5m2: flambeau.float32, flambeau.float8_e4m3fn: flambeau.float32,
          flambeau.complex32: flambeau.complex64}


#: what the CPU refuses and CUDA computes of 8-bit floats in several steps, or additions, each of which rounds
ROUNDS_BETWEEN = ("affine_grid", "chain_matmul", "index_add", "linalg_matrix_power", "matrix_power", "multi_dot",
                  "scaled_dot_product_attention", "scatter_add", "scatter_reduce", "vecdot")


@pytest.mark.parametrize("name", [n for n in battery.with_samples("narrow_dtypes")
                                  if n not in battery.UNSPECIFIED])
def test_stored_dtypes_are_moved_widened_or_refused(name):
    """No kernel takes their bytes for wider numbers, which would write behind the result."""
    for dtype, wider in STORED.items():
        for sample in samples(name, wider):
            given = battery.map_tensors(lambda t, d=dtype, w=wider: t.to(d) if t.dtype == w else t, sample)
            flambeau.manual_seed(1)
            try:
                found = tensors(run(name, given))
            except battery.REFUSALS:
                continue
            flambeau.manual_seed(1)
            wide = battery.map_tensors(lambda t, d=dtype, w=wider: t.to(w) if t.dtype == d else t, given)
            for x, y in zip(found, tensors(run(name, wide)), strict=True):
                if dtype in EIGHT and battery.DEVICE != "cpu" and name in ROUNDS_BETWEEN:
                    found, wide = np.array(x.tolist()), np.array(y.tolist())
                    np.testing.assert_allclose(found, wide, rtol=0.3, atol=0.1 * np.abs(wide).max(initial=1))
                elif dtype in EIGHT:
                    y = y.to(x.dtype) if x.dtype in EIGHT else y
                    assert str(x.tolist()) == str(y.tolist()), f"{name}{sample}"
                else:  # steps of a composite round
                    np.testing.assert_allclose(np.array(x.tolist()), np.array(y.tolist()), rtol=0.02, atol=0.02,
                                               err_msg=f"{name}{sample}")


@pytest.mark.parametrize("dtype", EIGHT, ids=str)
def test_float8_is_not_drawn(dtype):
    x = flambeau.zeros(300).to(dtype)
    for draw in (x.uniform_, x.normal_, x.exponential_, x.cauchy_, x.log_normal_, x.random_, x.bernoulli_,
                 lambda: x.geometric_(0.5), lambda: flambeau.rand(300, dtype=dtype), lambda: flambeau.rand_like(x),
                 lambda: flambeau.randn_like(x)):
        with pytest.raises(NotImplementedError):
            draw()
    assert flambeau.equal(flambeau.tensor([1.0, 2.0], dtype=dtype), flambeau.tensor([1.0, 2.0]).to(dtype))


def finite(array):
    return array[np.isfinite(array)]


PROMOTING = [n for n in battery.with_samples("promotion") if fact(n, "kind") == "elementwise"
             and [t for _, t in battery.parameters(n)][:2] == ["Tensor", "Tensor"]
             and len(battery.parameters(n)) <= 3 and n not in ("where", "masked_fill", "lerp", "_dirichlet_grad")]


#: operands must have one dtype; none may be bool
ONE_DTYPE, NO_BOOL = ("complex", "polar", "heaviside"), ("sub", "rsub")


@pytest.mark.parametrize("name", PROMOTING)
def test_two_operands_promote(name):
    """A result's dtype depends on the pair as result_type says: mixed operands equal operands converted before."""
    offered = 0
    for a in battery.ALL_DTYPES:
        for b in battery.ALL_DTYPES:
            x, y = flambeau.ones(2).to(a), flambeau.ones(2).to(b)
            common = flambeau.promote_types(a, b)
            if (name in ONE_DTYPE and a != b) or (name in NO_BOOL and flambeau.bool in (a, b)):
                with pytest.raises(RuntimeError):
                    OPS[name](x, y)
                continue
            try:
                expected = OPS[name](x.to(common), y.to(common))
            except battery.REFUSALS as refusal:
                with pytest.raises(type(refusal)):
                    OPS[name](x, y)
                continue
            found = OPS[name](x, y)
            offered += 1
            assert found.dtype == expected.dtype, f"{a}, {b}: {found.dtype} instead of {expected.dtype}"
    assert offered


@pytest.mark.parametrize("name", [n for n in PROMOTING if "bitwise" not in n and "shift" not in n])
def test_numbers_and_zero_dim_tensors_are_weak(name):
    half, single = flambeau.ones(2, dtype=flambeau.float16), flambeau.ones(2)
    try:
        expected = OPS[name](half, half)
    except battery.REFUSALS:
        pytest.skip("no halves")
    scalar = flambeau.tensor(1.0, dtype=flambeau.float64)
    try:
        assert OPS[name](half, scalar).dtype == expected.dtype
        assert OPS[name](single, 1.0).dtype == OPS[name](single, single).dtype
        assert OPS[name](flambeau.ones(2, dtype=flambeau.int32), 1).dtype == \
            OPS[name](*[flambeau.ones(2, dtype=flambeau.int32)] * 2).dtype
    except TypeError:
        pytest.skip("takes tensors only")
    except RuntimeError:
        pytest.skip("no integers")


FLOAT8 = (flambeau.float8_e4m3fn, flambeau.float8_e5m2, flambeau.float8_e4m3fnuz, flambeau.float8_e5m2fnuz,
          flambeau.float8_e8m0fnu)


@pytest.mark.parametrize("dtype", FLOAT8, ids=str)
def test_operators_of_float8(dtype):
    """Every code: what PyTorch offers for these dtypes is float32's result, rounded to the dtype."""
    x = flambeau.arange(256, dtype=flambeau.uint8).view(dtype)
    y, wide = x.flip(0), x.float()
    offered = {"eq": x == y, "ne": x != y, "number": x == 1.0, "isnan": x.isnan(), "isinf": x.isinf(),
               "isfinite": x.isfinite(), "any": x.view(16, 16).any(1), "all": x.view(16, 16).all(1), "mul": x * y,
               "where": flambeau.where(wide > 1, x, y)}
    expected = {"eq": wide == y.float(), "ne": wide != y.float(), "number": wide == 1.0, "isnan": wide.isnan(),
                "isinf": wide.isinf(), "isfinite": wide.isfinite(), "any": wide.view(16, 16).any(1),
                "all": wide.view(16, 16).all(1), "mul": (wide * y.float()).to(dtype),
                "where": flambeau.where(wide > 1, wide, y.float()).to(dtype)}
    if dtype is not flambeau.float8_e8m0fnu:
        offered["abs"], expected["abs"] = x.abs(), wide.abs().to(dtype)
    for name, found in offered.items():
        assert found.dtype is expected[name].dtype, name
        assert str(found.tolist()) == str(expected[name].tolist()), name
    for further in (lambda a, b: a + b, lambda a, b: a < b, lambda a, _: -a, lambda a, _: a.sqrt()):
        with pytest.raises(NotImplementedError):
            further(x, y)
    if battery.DEVICE == "cpu":
        with pytest.raises(NotImplementedError):
            x.sum()
    else:
        assert str(x.sum().item()) == str(wide.sum().to(dtype).item())


def test_where_takes_bytes_with_a_warning():
    condition, a, b = flambeau.tensor([0, 1, 2], dtype=flambeau.uint8), flambeau.arange(3.0), -flambeau.ones(3)
    a.requires_grad_(), b.requires_grad_()
    with pytest.warns(UserWarning, match="condition of dtype uint8"):
        found = flambeau.where(condition, a, b)
    found.sum().backward()
    assert (found.tolist(), a.grad.tolist(), b.grad.tolist()) == ([-1, 1, 2], [0, 1, 1], [1, 0, 0])
    with pytest.raises(RuntimeError, match="boolean tensor as argument 0 but got int32"):
        flambeau.where(condition.int(), a, b)
    with pytest.raises(RuntimeError, match="boolean"):
        a.detach().masked_fill(condition, 0)


def test_equal_compares_in_the_common_dtype():
    one = flambeau.ones(2)
    for dtype in (flambeau.int32, flambeau.bool, flambeau.float64, flambeau.bfloat16, flambeau.complex64):
        assert flambeau.equal(one, one.to(dtype)) and flambeau.equal(one.to(dtype), one)
        assert not flambeau.equal(one * 1.5, one.to(dtype)) and not flambeau.equal(one.to(dtype), one * 1.5)
    assert not flambeau.equal(flambeau.tensor([300]), flambeau.tensor([44], dtype=flambeau.uint8))
    assert not flambeau.equal(flambeau.tensor([0.1]), flambeau.tensor([0.1], dtype=flambeau.float64))
    assert flambeau.equal(flambeau.tensor([2**24 + 1]), flambeau.tensor([2.0**24]))  # as float32
