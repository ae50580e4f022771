"""Images read at given places: grid_sample, and the grids of affine maps   (Jaderberg et al. 2015)."""

import warnings

from .._shown import shown
from .kinds import OPS, composite, primitive

_grid_sampler_backward = primitive(
    "_grid_sampler_backward(Tensor grad, Tensor input, Tensor grid, int interpolation_mode, int padding_mode, "
    "bool align_corners) -> (Tensor, Tensor)", namespace=None,
    skip="the derivative of grid_sampler, reached through it",
    doc="The gradients of grid_sampler by the input and by the grid.")

grid_sampler = primitive(
    "grid_sampler(Tensor input, Tensor grid, int interpolation_mode, int padding_mode, bool align_corners) -> Tensor",
    node="GridSampler2DBackward0",
    d={("input", "grid"): lambda g, input, grid, interpolation_mode, padding_mode, align_corners, needs: tuple(
        share if need else None for share, need in zip(
            _grid_sampler_backward(g, input, grid, interpolation_mode, padding_mode, align_corners), needs))},
    method=False, skip="grid_sample by numbers of modes; tested by name",
    doc="grid_sample with its modes as numbers: 0 bilinear, 1 nearest, 2 bicubic; 0 zeros, 1 border, 2 reflection.")

_INTERPOLATION = ("bilinear", "nearest", "bicubic")
_PADDING = ("zeros", "border", "reflection")


def _warn_default():
    warnings.warn("grid_sample and affine_grid use align_corners=False where nothing is said (PyTorch before 1.3: "
                  "True); pass align_corners=True or False to say which", stacklevel=3)


@composite("grid_sample(Tensor input, Tensor grid, str mode='bilinear', str padding_mode='zeros', "
           "bool? align_corners=None) -> Tensor", autocast="float32", namespace="nn.functional", samples="grid_sample")
def grid_sample(input, grid, mode, padding_mode, align_corners):
    """The image [n, c, h, w] at the places of grid [n, oh, ow, 2] (or [n, c, d, h, w] and [n, od, oh, ow, 3]).

    A place is (x, y) (or (x, y, z)): -1 and 1 are the centres of the edge pixels (`align_corners=True`) or the edges
    of the image. Beyond the image stand zeros, the border's pixels, or the image mirrored (padding_mode "zeros",
    "border", "reflection"). Modes: bilinear, nearest, bicubic (4D only).

    >>> import flambeau
    >>> image = flambeau.tensor([[[[0., 1.], [2., 3.]]]])
    >>> flambeau.nn.functional.grid_sample(image, flambeau.zeros(1, 1, 1, 2), align_corners=True)
    tensor([[[[1.5000]]]])
    """
    for name, value, known in (("mode", mode, _INTERPOLATION), ("padding_mode", padding_mode, _PADDING)):
        if value not in known:
            raise ValueError(f"grid_sample: {name} must be one of {', '.join(map(repr, known))}, got {shown(value)}")
    if align_corners is None:
        _warn_default()
    return grid_sampler(input, grid, _INTERPOLATION.index(mode), _PADDING.index(padding_mode), bool(align_corners))


@composite("affine_grid_generator(Tensor theta, int[] size, bool align_corners) -> Tensor", method=False,
           skip="affine_grid without its checks")
def affine_grid_generator(theta, size, align_corners):
    """The grid of affine_grid, without its checks."""
    rows = size[2:]
    axes = []
    for n in rows:
        at = OPS["linspace"](-1, 1, n, dtype=theta.dtype, device=theta.device) if n > 1 else theta.new_zeros(n)
        axes.append(at if align_corners else at * (n - 1) / n)  # in this order: PyTorch's digits, which decide ties
    places = OPS["meshgrid"](axes, indexing="ij")
    places = OPS["stack"]([*reversed(places), OPS["ones_like"](places[0])], -1)
    flat = places.reshape(1, -1, len(rows) + 1).expand(size[0], -1, -1)
    return flat.bmm(theta.transpose(1, 2)).reshape(size[0], *rows, len(rows))


@composite("affine_grid(Tensor theta, int[] size, bool? align_corners=None) -> Tensor",
           namespace="nn.functional", samples="affine_grid")
def affine_grid(theta, size, align_corners):
    """Where an affine map theta [n, 2, 3] (or [n, 3, 4]) puts the pixels of an image of `size`, for grid_sample.

    >>> import flambeau
    >>> identity = flambeau.tensor([[[1., 0., 0.], [0., 1., 0.]]])
    >>> flambeau.nn.functional.affine_grid(identity, (1, 1, 1, 2), align_corners=False)
    tensor([[[[-0.5000,  0.0000],
              [ 0.5000,  0.0000]]]])
    """
    if align_corners is None:
        _warn_default()
    if not theta.is_floating_point():
        raise ValueError(f"affine_grid: theta must be floating point, got {theta.dtype}")
    if len(size) not in (4, 5):
        raise NotImplementedError("affine_grid: size must be (N, C, H, W) with a 2x3 theta or (N, C, D, H, W) with a "
                                  f"3x4 one, got {list(size)}")
    n = len(size) - 2
    if theta.ndim != 3 or tuple(theta.shape[1:]) != (n, n + 1):
        raise ValueError(f"affine_grid: theta must be [batch, {n}, {n + 1}] for size {list(size)}, got "
                         f"{list(theta.shape)}")
    if min(size) <= 0:
        raise ValueError(f"affine_grid: sizes must be positive, got {list(size)}")
    return affine_grid_generator(theta, size, bool(align_corners))
