"""Images resized: nearest, linear and cubic interpolation, and averages over the pixels one output covers."""

from math import floor
from operator import index, mul

from .._shown import shown
from .kinds import OPS, composite, primitive

resize_backward = primitive(
    "resize_backward(Tensor grad, int[] input_size, int[] size, float[] factors, str mode, bool align_corners, "
    "bool antialias) -> Tensor", namespace=None, samples="resize_backward",
    d={"grad": lambda g, size, factors, mode, align_corners, antialias:
       resize(g, size, factors, mode, align_corners, antialias)},
    doc="The gradient of resize for an input of input_size: the adjoint of its linear map.")

resize = primitive(
    "resize(Tensor self, int[] size, float[] factors, str mode, bool align_corners, bool antialias) -> Tensor",
    keeps_format=True, namespace=None, samples="resize",
    d={"self": lambda g, self_shape, size, factors, mode, align_corners, antialias:
       resize_backward(g, self_shape[2:], size, factors, mode, align_corners, antialias)},
    doc="Planes of an image [n, channels, ...] at another size; a factor 0 is the ratio of the sizes.")


def _sizes(shape, size, scale_factor, recompute):
    """Output sizes of images of spatial `shape`, and the scales to use (0: the ratio of sizes)."""
    nd = len(shape)
    if scale_factor is None:
        return _given_sizes(shape, size, recompute), [0.0] * nd
    if size is not None:
        raise ValueError(f"interpolate: size={shown(size)} and scale_factor={shown(scale_factor)} both set the size "
                         "of the result; "
                         "pass one of them")
    if not isinstance(scale_factor, (list, tuple)):
        sizes, factors = [floor(n * scale_factor) for n in shape], [float(scale_factor)] * nd
    elif len(scale_factor) == nd:
        sizes, factors = [*map(floor, map(mul, shape, scale_factor))], [*map(float, scale_factor)]
    else:
        raise ValueError("interpolate: scale_factor must hold one number per spatial dimension of input, "
                         f"{list(shape)}, got {shown(scale_factor)}")
    return sizes, [0.0] * nd if recompute else factors


def _given_sizes(shape, size, recompute):
    """`size` as one number per spatial dimension."""
    if size is None:
        raise ValueError("interpolate: the size of the result is missing; pass size or scale_factor")
    if recompute:
        raise ValueError("interpolate: recompute_scale_factor belongs to scale_factor; leave it out with "
                         f"size={shown(size)}")
    sizes = size if isinstance(size, (list, tuple)) else (size,) * len(shape)
    if len(sizes) != len(shape):
        raise ValueError("interpolate: size must hold one number per spatial dimension of input, "
                         f"{list(shape)}, got {shown(size)}")
    try:
        return [*map(index, sizes)]
    except TypeError:
        raise TypeError(f"interpolate: size must be an int or a tuple of ints, got {shown(size)}") from None


#: mode -> the numbers of spatial dimensions it is for, and the kernel's name for it
_MODES = {"nearest": ((1, 2, 3), "nearest"), "nearest-exact": ((1, 2, 3), "nearest-exact"), "area": ((1, 2, 3), None),
          "linear": ((1,), "linear"), "bilinear": ((2,), "linear"), "trilinear": ((3,), "linear"),
          "bicubic": ((2,), "cubic"), "lanczos": ((2,), "lanczos")}


@composite("interpolate(Tensor input, any size=None, any scale_factor=None, str mode='nearest', "
           "any align_corners=None, any recompute_scale_factor=None, bool antialias=False) -> Tensor",
           namespace="nn.functional", samples="interpolate")
def interpolate(input, size, scale_factor, mode, align_corners, recompute_scale_factor, antialias):
    """Images [n, channels, ...] resized to `size` or by `scale_factor`.

    Modes: nearest, nearest-exact, linear (3D input), bilinear and bicubic (4D), trilinear (5D), area. `antialias=True`
    (bilinear, bicubic and lanczos) averages over the pixels that one output covers, as image libraries do.
    `recompute_scale_factor` uses the ratio of the sizes instead of scale_factor itself.

    >>> import flambeau
    >>> flambeau.nn.functional.interpolate(flambeau.tensor([[[1., 2.]]]), scale_factor=2)
    tensor([[[1., 1., 2., 2.]]])
    """
    shape = input.shape[2:]
    nd = input.ndim - 2
    if align_corners is not None and mode in ("nearest", "nearest-exact", "area"):
        raise ValueError(f"interpolate: align_corners means nothing for mode={shown(mode)}; leave it out, or use "
                         "linear, "
                         "bilinear, bicubic or trilinear")
    sizes, factors = _sizes(shape, size, scale_factor, recompute_scale_factor)
    if antialias and (mode not in ("bilinear", "bicubic", "lanczos") or nd != 2):
        raise ValueError("interpolate: antialias needs 4-d input and mode 'bilinear', 'bicubic' or 'lanczos', got "
                         f"{input.ndim} dimensions and {shown(mode)}")
    dims, kernel = _MODES.get(mode, ((), None))
    if nd not in dims:
        raise NotImplementedError(f"interpolate: mode '{mode}' is not available for a {input.ndim}D input; the modes "
                                  f"are {', '.join(_MODES)}")
    if mode == "lanczos" and align_corners:
        raise ValueError("interpolate: mode='lanczos' works with align_corners=False only")
    if mode == "area":
        return OPS[f"adaptive_avg_pool{nd}d"](input, sizes)
    return resize(input, sizes, factors, kernel, bool(align_corners), antialias)
