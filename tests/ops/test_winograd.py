"""Convolutions by minimal filtering (native/kernels/winograd.h) against double precision, which is computed plainly."""

import pytest

import flambeau as torch
from flambeau import nn
from flambeau.nn import functional as F

# images, channels, filters, (height, width), padding
CASES = [(2, 32, 48, (20, 20), 1), (1, 64, 24, (17, 23), 0), (3, 30, 50, (11, 9), 2), (1, 24, 65, (40, 5), (2, 1)),
         (2, 128, 100, (14, 14), 1), (1, 40, 33, (61, 12), (0, 2)), (6, 24, 24, (4, 4), 1)]


def operands(case, seed=0, dtype=torch.float64):
    n, channels, filters, size, pad = case
    torch.manual_seed(seed)
    x, w = torch.randn(n, channels, *size, dtype=dtype), torch.randn(filters, channels, 3, 3, dtype=dtype)
    return x, w, torch.randn(filters, dtype=dtype), pad


def passes(f, *operands):
    """The result of f and all gradients."""
    leaves = [t.detach().requires_grad_() for t in operands]
    y = f(*leaves)
    torch.manual_seed(9)
    return y.detach(), *torch.autograd.grad(y, leaves, torch.randn(y.shape, dtype=torch.float64).to(y.dtype))


def assert_near(found, wanted, factor=1e-6):
    for mine, other in zip(found, wanted, strict=True):
        assert mine.shape == other.shape
        assert (mine.double() - other).abs().max() <= factor * 3 * other.abs().max()


@pytest.mark.parametrize("layout", ["contiguous_format", "channels_last"])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_all_passes(case, layout):
    x, w, b, pad = operands(case)
    layout = getattr(torch, layout)
    for f in (lambda x, w, b: F.conv2d(x, w, b, padding=pad),
              lambda x, w, b: F.conv_transpose2d(x, w.transpose(0, 1), b, padding=pad)):
        single = [x.float().contiguous(memory_format=layout), w.float().contiguous(memory_format=layout), b.float()]
        assert_near(passes(f, *single), passes(f, x, w, b))


@pytest.mark.parametrize("case", CASES, ids=str)
def test_errors_are_those_of_plain_sums(case):
    """Of the products of unfolded patches in single precision."""
    x, w, _, pad = operands(case, seed=1)
    exact = F.conv2d(x, w, padding=pad)
    plain = w.float().flatten(1) @ F.unfold(x.float(), 3, padding=pad)
    error = (F.conv2d(x.float(), w.float(), padding=pad).double() - exact).square().mean().sqrt()
    assert error <= 2 * (plain.view(exact.shape).double() - exact).square().mean().sqrt()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("case", CASES, ids=str)
def test_halves_are_rounded_once(case, dtype):
    x, w, b, pad = operands(case)
    x, w, b = (t.to(dtype) for t in (x.to(memory_format=torch.channels_last), w / 16, b))
    found = passes(lambda x, w, b: F.conv2d(x, w, b, padding=pad), x, w, b)
    torch.manual_seed(9)
    g = torch.randn(found[0].shape, dtype=torch.float64).to(dtype).double()
    leaves = [t.double().requires_grad_() for t in (x, w, b)]
    y = F.conv2d(*leaves, padding=pad)
    assert found[0].dtype == dtype
    for mine, other in zip(found, (y.detach(), *torch.autograd.grad(y, leaves, g)), strict=True):
        error = (mine.double() - other).abs() - torch.finfo(dtype).eps * other.abs()  # twice what one rounding costs
        assert error.max() <= torch.finfo(dtype).eps / 16 * other.abs().max()


def test_whole_numbers_are_exact():
    torch.manual_seed(0)
    x, w = torch.randint(-8, 9, (2, 32, 15, 15)).float(), torch.randint(-8, 9, (40, 32, 3, 3)).float()
    for mine, other in zip(passes(lambda x, w: F.conv2d(x, w, padding=1).round(), x, w)[:1],
                           passes(lambda x, w: F.conv2d(x, w, padding=1), x.double(), w.double())[:1]):
        assert torch.equal(mine.double(), other)


@pytest.mark.parametrize("value", ["nan", "inf", "1e38"])
@pytest.mark.parametrize("place", [(7, 8), (6, 7), (0, 23)], ids=str)
def test_a_place_reaches_only_the_sums_it_belongs_to(value, place):
    """Infinities become NaN in most of them, since they meet with both signs."""
    x, w, _, _ = operands((1, 32, 32, (24, 24), 1), dtype=torch.float32)
    whole = F.conv2d(x, w, padding=1)
    x[0, 5, place[0], place[1]] = float(value)
    changed = F.conv2d(x, w, padding=1) != whole
    reached = torch.zeros(24, 24, dtype=torch.bool)
    reached[max(place[0] - 1, 0):place[0] + 2, max(place[1] - 1, 0):place[1] + 2] = True
    assert torch.equal(changed[0], reached.expand(32, 24, 24))


@pytest.mark.parametrize("case", [(2, 48, 100, (30, 31), 1), (1, 256, 96, (14, 14), 1)], ids=str)
def test_threads_do_not_matter(case):
    x, w, b, pad = operands(case, dtype=torch.float32)
    found, before = [], torch.get_num_threads()
    try:
        for threads in (1, 2, 3):
            torch.set_num_threads(threads)
            found.append(passes(lambda x, w, b: F.conv2d(x, w, b, padding=pad), x, w, b))
    finally:
        torch.set_num_threads(before)
    for other in found[1:]:
        assert all(torch.equal(a, b) for a, b in zip(found[0], other, strict=True))


def test_kept_weights_give_the_same_bits():
    x, w, b, pad = operands(CASES[0], dtype=torch.float32)
    first = F.conv2d(x, w, b, padding=pad)
    for _ in range(3):
        assert torch.equal(F.conv2d(x, w, b, padding=pad), first)
    w[3, 4, 1, 2] += 1
    changed = F.conv2d(x, w, b, padding=pad)
    assert not torch.equal(changed[:, 3], first[:, 3]) and torch.equal(changed[:, 4:], first[:, 4:])


@pytest.mark.parametrize("activation", [nn.ReLU, nn.ReLU6, nn.SiLU, nn.Hardswish])
def test_what_follows_in_a_compiled_program(activation):
    torch.manual_seed(0)
    conv, norm, act = nn.Conv2d(32, 40, 3, padding=1), nn.BatchNorm2d(40).eval(), activation()
    norm.running_mean.normal_(), norm.running_var.uniform_(0.5, 2)
    x, other = torch.randn(2, 32, 19, 18), torch.randn(2, 40, 19, 18)

    def program(x, other):
        return act(norm(conv(x)) + other)

    with torch.no_grad():
        compiled = torch.compile(program)(x, other)
        for module in (conv, norm):
            module.double()
        assert_near([compiled], [program(x.double(), other.double())])
