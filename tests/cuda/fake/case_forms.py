"""Pointwise calls of other layouts than runs: generated kernels, chosen and launched by native code."""

import itertools

import pytest

import flambeau as fb

pytestmark = pytest.mark.usefixtures("own_kernels")

LAYOUTS = {
    "rows": lambda x: x,
    "columns": lambda x: x.t().contiguous().t(),
    "one row": lambda x: x[:1],
    "one column": lambda x: x[:, :1],
    "one element": lambda x: x[:1, :1],
    "part": lambda x: fb.cat([x, x], 1)[:, 1:x.shape[1] + 1],
    "every second": lambda x: fb.cat([x, x], 1)[:, ::2],
    "windows": lambda x: x.reshape(-1).as_strided(x.shape, (1, 2)),
}


def same(f, *given):
    """Whether a function of tensors gives the same on both devices."""
    wanted, made = f(*given), f(*(x.cuda() for x in given))
    assert made.is_cuda and made.dtype == wanted.dtype
    return fb.equal(made.cpu(), wanted)


def whole(shape, dtype=fb.float32):
    return fb.arange(fb.Size(shape).numel()).remainder(13).sub(5).to(dtype).view(shape)


@pytest.mark.parametrize("dtype", (fb.float32, fb.bool, fb.float16, fb.complex128), ids=str)
@pytest.mark.parametrize("first, second", tuple(itertools.combinations_with_replacement(LAYOUTS, 2)))
def test_pairs_of_layouts(first, second, dtype):
    for shape in ((40, 36), (33, 65), (70, 130), (5, 8)):
        x, y = LAYOUTS[first], LAYOUTS[second]
        assert same(lambda a, x=x, y=y: x(a) * y(a), whole(shape, dtype)), shape


@pytest.mark.parametrize("dtype", (fb.uint8, fb.bfloat16, fb.float32, fb.float64, fb.complex128), ids=str)
def test_copies(dtype):
    """permute(…).contiguous(), and into places with gaps."""
    x = whole((3, 34, 5, 40), dtype)
    for order in itertools.permutations(range(4)):
        assert same(lambda a, order=order: a.permute(order).contiguous(), x), order
    assert same(lambda a: a.contiguous(memory_format=fb.channels_last), x)
    assert same(lambda a: fb.zeros(3, 34, 5, 80, dtype=dtype, device=a.device)[..., ::2].copy_(a), x)
    assert same(lambda a: fb.zeros(40, 3, 34, 6, dtype=dtype, device=a.device)[..., 1:].copy_(a.permute(3, 0, 1, 2)), x)
    assert same(lambda a: a.permute(3, 1, 2, 0).float(), x) or dtype.is_complex


def test_operands_of_several_dtypes_numbers_and_what_is_absent():
    x, y, mask = whole((40, 70)), whole((70, 40), fb.float16), whole((70, 40), fb.bool)
    assert same(lambda a, b, m: fb.where(m.t(), a, b.t()), x, y, mask)
    assert same(lambda a, b, m: fb.where(m.t(), a, 2.0) + b.t(), x, y, mask)
    assert same(lambda a, b: a.clamp(b.t(), None), x, y)
    assert same(lambda a, b: fb.add(a, b.t(), alpha=3) > a[0], x, y)
    assert same(lambda a, b: fb.addcmul(b.t(), a, b.t(), value=2), x, y)


def test_in_place():
    x, y = whole((64, 64)), whole((64, 48))
    assert same(lambda a: a.clone().add_(a.t()), x)
    with pytest.raises(RuntimeError, match="shares memory with an input"):
        (z := x.cuda()).add_(z.t())
    assert same(lambda a, b: a.clone()[:, :48].mul_(b), x, y)
    assert same(lambda a, b: a.clone()[:48].mul_(b.t()), x, y)
    assert same(lambda a, b: (c := a.clone())[:, 3:].fill_(2.0).add_(c[0, 0]), x, y)


@pytest.mark.parametrize("shape", ((2,) * 9 + (4,), (33, 2, 1, 2, 2, 2, 2, 2, 2, 34)))
def test_more_dimensions_than_a_launch_knows(shape):
    x = whole(shape)
    order = [9, 1, 3, 5, 7, 0, 2, 4, 6, 8]
    assert same(lambda a: a.permute(order).contiguous(), x)
    assert same(lambda a: a * a.permute(order).contiguous().permute([order.index(d) for d in range(10)]), x)
    assert same(lambda a: a + a[:, :1, :, :1, :, :1, :, :1], x)


def test_sizes_are_no_part_of_a_signature():
    def counted(f):
        before = fb._C._cuda.plan_counts()["made"]
        f()
        return fb._C._cuda.plan_counts()["made"] - before
    x = whole((64, 96)).cuda()
    first = counted(lambda: (x + x[0], x.t().contiguous(), x[:, ::2] * 2))
    assert first == 3
    for n in (36, 68, 200):
        y = whole((n, 3 * n)).cuda()
        assert counted(lambda y=y: (y + y[0], y.t().contiguous(), y[:, ::2] * 2)) == 0
