"""grid_sample and affine_grid: PyTorch's numbers, the identity, and what is refused."""

import pytest

import flambeau
from flambeau.nn import functional as F

#: (mode, padding_mode, align_corners) -> PyTorch's result for the image and the four places below
GOLDEN = {
    ('bilinear', 'zeros', True): [0.433928, -0.257091, 0.0, -0.263568],
    ('bilinear', 'zeros', False): [0.538979, 0.0, 0.0, -0.338683],
    ('bilinear', 'border', True): [0.433928, -0.642727, -0.345438, -0.263568],
    ('bilinear', 'border', False): [0.718638, -0.657, -0.433432, -0.338683],
    ('bilinear', 'reflection', True): [0.433928, 0.076762, -0.031676, -0.263568],
    ('bilinear', 'reflection', False): [0.718638, -0.326226, -0.107092, -0.338683],
    ('nearest', 'zeros', True): [0.798487, 0.0, 0.0, -0.108637],
    ('nearest', 'zeros', False): [0.798487, 0.0, 0.0, -0.108637],
    ('nearest', 'border', True): [0.798487, -0.585639, -0.961397, -0.108637],
    ('nearest', 'border', False): [0.798487, -0.72836, -0.961397, -0.108637],
    ('nearest', 'reflection', True): [0.798487, 0.999793, -0.148998, -0.108637],
    ('nearest', 'reflection', False): [0.798487, -0.72836, -0.148998, -0.108637],
    ('bicubic', 'zeros', True): [0.559731, -0.471807, 0.051217, -0.376722],
    ('bicubic', 'zeros', False): [0.800224, 0.103097, 0.0, -0.580203],
    ('bicubic', 'border', True): [0.48735, -1.027103, -0.474228, -0.351116],
    ('bicubic', 'border', False): [0.991225, -0.935118, -0.578241, -0.536954],
    ('bicubic', 'reflection', True): [0.630512, 0.072774, -0.087919, -0.372903],
    ('bicubic', 'reflection', False): [1.041659, -0.475418, -0.201191, -0.536954],
}  # fmt: skip


@pytest.mark.parametrize("case", GOLDEN, ids=str)
def test_numbers(case):
    image = (flambeau.arange(20.0).reshape(1, 1, 4, 5) * 1.7).sin().double()
    places = flambeau.tensor([[-0.9, -0.3], [0.2, 1.4], [-1.7, 0.1], [0.5, 0.5]]).double().reshape(1, 2, 2, 2)
    assert F.grid_sample(image, places, *case).flatten().tolist() == pytest.approx(GOLDEN[case], abs=2e-6)


@pytest.mark.parametrize("dims", [2, 3])
@pytest.mark.parametrize("corners", [True, False])
def test_the_identity_map_gives_the_image(dims, corners):
    x = flambeau.randn(2, 3, *(4, 5, 3)[:dims])
    theta = flambeau.eye(dims, dims + 1).expand(2, dims, dims + 1)
    grid = F.affine_grid(theta, x.shape, align_corners=corners)
    assert grid.shape == (2, *(4, 5, 3)[:dims], dims)
    assert flambeau.allclose(F.grid_sample(x, grid, align_corners=corners), x, atol=1e-5)


@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
def test_gradients(mode, padding):
    flambeau.manual_seed(0)
    x = flambeau.randn(2, 2, 4, 3, dtype=flambeau.float64, requires_grad=True)
    grid = (flambeau.rand(2, 2, 3, 2, dtype=flambeau.float64) * 2.6 - 1.3).requires_grad_()
    assert flambeau.autograd.gradcheck(lambda a, b: F.grid_sample(a, b, mode, padding, False), (x, grid))


def test_places_that_are_no_numbers_are_outside():
    grid = flambeau.tensor([float("nan"), float("inf")]).reshape(1, 1, 1, 2)
    assert F.grid_sample(flambeau.ones(1, 1, 2, 2), grid, align_corners=False).item() == 0


def test_refused():
    x, grid = flambeau.zeros(1, 1, 2, 2), flambeau.zeros(1, 1, 1, 2)
    for call, error in (
        (lambda: F.grid_sample(x, grid, "cubic", align_corners=False), ValueError),
        (lambda: F.grid_sample(x, grid, padding_mode="mirror", align_corners=False), ValueError),
        (lambda: F.grid_sample(x, grid.double(), align_corners=False), RuntimeError),
        (lambda: F.grid_sample(x, grid[..., :1], align_corners=False), RuntimeError),
        (lambda: F.grid_sample(x[None], flambeau.zeros(1, 1, 1, 1, 3), "bicubic", align_corners=False), RuntimeError),
        (lambda: F.affine_grid(flambeau.zeros(1, 2, 3), (1, 1, 2), align_corners=False), NotImplementedError),
        (lambda: F.affine_grid(flambeau.zeros(1, 2, 2), (1, 1, 2, 2), align_corners=False), ValueError),
        (lambda: F.affine_grid(flambeau.zeros(1, 2, 3), (1, 1, 0, 2), align_corners=False), ValueError),
    ):
        with pytest.raises(error):
            call()
    with pytest.warns(UserWarning, match="align_corners=False"):
        F.grid_sample(x, grid)


@pytest.mark.parametrize("mode", ["bilinear", "nearest", "bicubic"])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
def test_channels_last(mode, padding):
    """Images whose channels lie last are read so, and give the same numbers, in planes as in PyTorch."""
    for dtype in (flambeau.float32, flambeau.float64):
        x = flambeau.randn(2, 11, 9, 7, dtype=dtype)
        x[0, 0, 0, 0] = float("inf")
        grid = flambeau.rand(2, 300, 1, 2, dtype=dtype) * 3 - 1.5
        last = F.grid_sample(x.contiguous(memory_format=flambeau.channels_last), grid, mode, padding, False)
        plain = F.grid_sample(x, grid, mode, padding, False)
        assert flambeau.equal(last.nan_to_num(7), plain.nan_to_num(7))
        assert last.is_contiguous()


def test_places_of_affine_grid_have_pytorchs_digits():
    """A map by 1.5 puts pixels on ties, where the last digit decides which neighbour is nearest."""
    theta = flambeau.eye(2, 3, dtype=flambeau.float64)[None]
    grid = flambeau.nn.functional.affine_grid(theta, (1, 1, 1, 24), align_corners=False)
    expected = flambeau.linspace(-1, 1, 24, dtype=flambeau.float64) * 23 / 24
    assert flambeau.equal(grid[0, 0, :, 0], expected)
    assert not flambeau.equal(expected, flambeau.linspace(-1, 1, 24, dtype=flambeau.float64) * (23 / 24))
