"""Rows of a few elements are moved, folded and scanned by loops of their own: each must give what whole rows give."""

import itertools
import random

import pytest

import flambeau
from flambeau.ops.kinds import OPS

DTYPES = ("bool", "uint8", "int16", "int32", "int64", "float16", "float32", "float64", "complex64", "complex128")
WIDTHS = (2, 3, 4, 5, 7, 8, 9, 13, 16, 17, 31, 33, 70)


def numbers(shape, dtype):
    """Small whole numbers, of which sums and products are exact."""
    count = 1
    for n in shape:
        count *= n
    return (flambeau.arange(count) * 7 % 5).reshape(shape).to(getattr(flambeau, dtype))


def views(n, dtype):
    """Tensors whose inner rows have n elements, without and with gaps, upside down, and repeated."""
    yield numbers((6, 11, n), dtype)
    yield numbers((6, 11, n + 3), dtype)[..., 1 : n + 1]
    yield numbers((6, 11, 2 * n), dtype)[..., ::2]
    yield numbers((6, 11, 3 * n), dtype)[..., ::3]
    yield numbers((6, 11, 5 * n), dtype)[..., ::5]
    yield numbers((6, n, 11), dtype).transpose(1, 2)
    yield numbers((n, 6, 11), dtype).permute(1, 2, 0)
    yield numbers((11, 6, n), dtype).transpose(0, 1)
    yield numbers((6, 11, 1), dtype).expand(6, 11, n)
    yield numbers((6, 1, n), dtype).expand(6, 11, n)
    yield numbers((1, 11, n), dtype).expand(6, 11, n)
    yield numbers((12, 11, n), dtype)[::2]


def packed(x):
    return flambeau.tensor(x.tolist(), dtype=x.dtype)


@pytest.mark.parametrize("n", WIDTHS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_copies(n, dtype):
    for x in views(n, dtype):
        flat = packed(x)
        assert flambeau.equal(x.contiguous(), flat)
        for dims in ((0,), (1,), (2,), (0, 2), (0, 1, 2)):
            assert x.flip(dims).tolist() == packed(x.flip(dims).contiguous()).tolist()
            assert flambeau.equal(x.flip(dims).flip(dims), flat)
        for dim in range(3):
            assert flambeau.equal(flambeau.cat([x, flat], dim).narrow(dim, 0, x.shape[dim]), flat)
            assert flambeau.equal(flambeau.stack([flat, x], dim).select(dim, 1), flat)
        into = flambeau.zeros(6, 11, n + 5, dtype=x.dtype)
        into[..., 2 : n + 2] = x
        assert flambeau.equal(into[..., 2 : n + 2].contiguous(), flat) and not into[..., n + 2 :].any()
        into[..., 1 : n + 1] = 1
        rest = into.sum(dtype=flambeau.complex128) - 66 * n
        assert flambeau.equal(rest, x[..., -1].sum(dtype=flambeau.complex128))
        assert flambeau.equal(x.to(flambeau.complex128), flat.to(flambeau.complex128))


@pytest.mark.parametrize("n", WIDTHS)
@pytest.mark.parametrize("dtype", ("uint8", "int32", "int64", "float16", "float32", "float64"))
def test_folds_scans_and_pointwise_calls(n, dtype):
    for x in views(n, dtype):
        flat = packed(x)
        assert flambeau.equal(x + x, flat * 2) and flambeau.equal(x * flat, flat * flat)
        assert flambeau.equal(x + x[..., :1], flat + flat[..., :1]) and flambeau.equal(x + x[:1], flat + flat[:1])
        assert flambeau.equal(x.square(), flat.square())
        for dims in (None, 0, 1, 2, (0, 1), (0, 2), (1, 2)):
            assert flambeau.equal(x.sum(dims), flat.sum(dims))
            assert flambeau.equal(x.amax(dims or ()), flat.amax(dims or ()))
        for dim in range(3):
            sums = list(itertools.accumulate(flat.movedim(dim, 0).double().unbind()))
            assert flambeau.equal(x.cumsum(dim).double(), flambeau.stack(sums, dim))
            assert flambeau.equal(x.cumprod(dim), flat.cumprod(dim))
            if x.is_floating_point():
                shifted = x.double() - x.double().amax(dim, keepdim=True)
                expected = shifted - shifted.exp().sum(dim, keepdim=True).log()
                tolerance = 1e-2 if dtype == "float16" else 1e-6
                assert flambeau.allclose(x.log_softmax(dim).double(), expected, atol=tolerance)
                assert flambeau.allclose(x.softmax(dim).double(), expected.exp(), atol=tolerance)


@pytest.mark.parametrize("dtype", ("uint8", "int8", "int16", "uint16", "int32"))
def test_narrow_integers_divide_exactly(dtype):
    rng = random.Random(3)
    kind = getattr(flambeau, dtype)
    info = flambeau.iinfo(kind)
    edges = [v for v in (info.min, info.min + 1, -3, -2, -1, 0, 1, 2, 3, 7, info.max - 1, info.max) if v >= info.min]
    left = edges * 20 + [rng.randint(info.min, info.max) for _ in range(700)]

    def wrapped(values):
        return flambeau.tensor(values).to(kind).tolist()

    for right in ([v for v in edges if v], [rng.randint(info.min, info.max) or 1 for _ in range(500)]):
        divisors = [rng.choice(right) for _ in left]
        a, b = flambeau.tensor(left, dtype=kind), flambeau.tensor(divisors, dtype=kind)
        assert (a // b).tolist() == wrapped([p // q for p, q in zip(left, divisors, strict=True)])
        assert (a % b).tolist() == wrapped([p % q for p, q in zip(left, divisors, strict=True)])
        signed = [abs(p) % abs(q) * (1 if p >= 0 else -1) for p, q in zip(left, divisors, strict=True)]
        assert a.fmod(b).tolist() == wrapped(signed)
    for divisor in (v for v in edges if v):
        assert (a // divisor).tolist() == wrapped([p // divisor for p in left])
    with pytest.raises(RuntimeError, match="ZeroDivision"):
        a // flambeau.zeros_like(a)


def test_gradients_of_products_refuse_what_does_not_fit():
    wide, x = flambeau.ones(1, 1, dtype=flambeau.float64), flambeau.ones(1, 1, 1)
    with pytest.raises(RuntimeError, match="cumprod_backward: the gradient and the result must have"):
        OPS["_cumprod_backward"](wide, x, flambeau.ones(3), 1)
    with pytest.raises(RuntimeError, match="does not belong to products"):
        OPS["_prod_backward"](flambeau.ones(3), flambeau.ones(2, 4), 1)
