"""Convolutions with filters of one place as matrix products (kernels/conv_pointwise.h) against double precision."""

import pytest

import flambeau as torch
from flambeau.nn import functional as F
from tests.ops.test_winograd import assert_near, passes

# images, channels, filters, (height, width), stride. Each makes at least one of the passes a matrix product.
CASES = [(1, 256, 192, (4, 5), 1), (2, 512, 300, (7, 6), 2), (1, 64, 256, (12, 11), 1), (1, 70, 300, (13, 9), (3, 2)),
         (3, 512, 260, (1, 4), 1), (1, 1024, 128, (9, 2), (4, 1)), (1, 300, 512, (8, 8), (1, 3))]


@pytest.mark.parametrize("layout", ["contiguous_format", "channels_last"])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_all_passes(case, layout):
    n, channels, filters, size, stride = case
    torch.manual_seed(3)
    w, b = torch.randn(filters, channels, 1, 1, dtype=torch.float64), torch.randn(filters, dtype=torch.float64)
    x = torch.randn(n, channels, *size, dtype=torch.float64)
    fitting = torch.randn(n, filters, *F.conv2d(x, w, stride=stride).shape[2:], dtype=torch.float64)
    layout = getattr(torch, layout)
    for f, image, bias in ((lambda x, w, b: F.conv2d(x, w, b, stride=stride), x, b),
                           (lambda x, w, b: F.conv_transpose2d(x, w, b, stride=stride), fitting, b.new_ones(channels))):
        single = [t.float().contiguous(memory_format=layout) for t in (image, w)]
        assert_near(passes(f, *single, bias.float()), passes(f, image, w, bias))


@pytest.mark.parametrize("case", [(2, 512, 256, (7, 7), 1), (1, 512, 512, (7, 7), 1), (1, 64, 300, (30, 30), 1),
                                  (1, 256, 512, (8, 8), 2), (1, 512, 256, (8, 8), 2), (2, 1, 1, (700, 800), 1),
                                  (2, 4, 8, (300, 200), 1)], ids=str)
def test_neither_threads_nor_repetition_matter(case):
    n, channels, filters, size, stride = case
    torch.manual_seed(4)
    x = torch.randn(n, channels, *size).contiguous(memory_format=torch.channels_last)
    w, found, before = torch.randn(filters, channels, 1, 1), [], torch.get_num_threads()
    try:
        for threads in (1, 2, 3):
            torch.set_num_threads(threads)
            for _ in range(2):  # weights that stay are kept in another order
                found.append(passes(lambda x, w: F.conv2d(x, w, stride=stride), x, w))
    finally:
        torch.set_num_threads(before)
    assert all(torch.equal(a, b) for one in found[1:] for a, b in zip(found[0], one, strict=True))


@pytest.mark.parametrize("layout", ["contiguous_format", "channels_last"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("case", [(2, 1, 1, (70, 65)), (3, 9, 1, (64, 66)), (2, 2, 16, (64, 70)), (1, 4, 8, (512, 600)),
                                  (1, 64, 8, (64, 64)), (1, 8, 17, (64, 65))], ids=str)
def test_gradient_of_few_weights_over_large_planes(case, dtype, layout):
    n, channels, filters, size = case
    torch.manual_seed(5)
    layout = getattr(torch, layout)
    # positive numbers: no sum cancels, so that errors are small beside it
    x, g = (torch.rand(n, count, *size, dtype=dtype).contiguous(memory_format=layout) for count in (channels, filters))
    w = torch.zeros(filters, channels, 1, 1, dtype=dtype, requires_grad=True)
    F.conv2d(x, w).backward(g)
    wanted = torch.einsum("nohw,nihw->oi", g.double(), x.double())
    assert torch.allclose(w.grad[..., 0, 0].double(), wanted, rtol=1e-6 if dtype == torch.float32 else 1e-13, atol=0)


def test_gradient_of_weights_without_images():
    w = torch.ones(2, 2, 1, 1, requires_grad=True)
    F.conv2d(torch.rand(0, 2, 64, 64), w).sum().backward()
    assert torch.equal(w.grad, torch.zeros(2, 2, 1, 1))
