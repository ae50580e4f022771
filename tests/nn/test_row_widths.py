"""softmax, layer_norm and rms_norm of float32 rows of every width, with their gradients, against float64."""

import pytest

import flambeau as torch
from flambeau.nn import functional as F

#: widths around those of vectors and of the blocks in which sums restart
WIDTHS = [*range(1, 70), 96, 127, 128, 129, 255, 256, 511, 1000, 4095, 4096, 4097, 8191]
FUNCTIONS = {
    "softmax": lambda x, w, b: x.softmax(-1) + 0 * (w + b),
    "log_softmax": lambda x, w, b: x.log_softmax(-1) + 0 * (w + b),
    "layer_norm": lambda x, w, b: F.layer_norm(x, x.shape[-1:], w, b),
    "layer_norm without parameters": lambda x, w, b: F.layer_norm(x, x.shape[-1:]) + 0 * (w + b),
    "rms_norm": lambda x, w, b: F.rms_norm(x, x.shape[-1:], w, 1e-5) + 0 * b,
}


def results(function, arrays, gradient, dtype):
    inputs = [a.to(dtype).requires_grad_() for a in arrays]
    y = FUNCTIONS[function](*inputs)
    return [y, *torch.autograd.grad(y, inputs, gradient.to(dtype))]


@pytest.mark.parametrize("function", FUNCTIONS)
def test_every_width_is_as_exact_as_any(function):
    generator = torch.Generator().manual_seed(0)
    for width in WIDTHS:
        arrays = [torch.randn(s, generator=generator, dtype=torch.float64) for s in ((5, width), (width,), (width,))]
        arrays[0] = arrays[0].float().double() * 3 + 1
        gradient = torch.randn(5, width, generator=generator).double()
        exact = results(function, arrays, gradient, torch.float64)
        for found, wanted in zip(results(function, arrays, gradient, torch.float32), exact, strict=True):
            # a row of one or two numbers is divided by next to nothing
            size = max(1.0, wanted.abs().max().item())
            slack = 3e-5 if width < 4 else 2e-6
            assert (found.double() - wanted).abs().max().item() <= slack * size, (function, width)


@pytest.mark.parametrize("function", ["softmax", "log_softmax", "layer_norm", "rms_norm"])
def test_rows_beside_each_other_keep_to_themselves(function):
    """The memory before and after the rows of a part of a tensor is neither read nor written."""
    for width in (1, 15, 16, 17, 63, 65, 100):
        rows = torch.full((6, width), torch.nan)
        rows[1:5] = torch.arange(4 * width).reshape(4, width).cos()
        w, b = torch.ones(width), torch.zeros(width)
        alone = FUNCTIONS[function](rows[1:5].clone(), w, b)
        assert FUNCTIONS[function](rows[1:5], w, b).equal(alone)
        assert FUNCTIONS[function](rows, w, b)[1:5].equal(alone)
        assert FUNCTIONS[function](rows, w, b)[0].isnan().all()
