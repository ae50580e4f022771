"""Images resized: nearest, linear and cubic interpolation, and averages over the pixels one output covers."""

from .kinds import primitive
from .pooling import adaptive_avg_pool_backward

resize_backward = primitive(
    "resize_backward(Tensor grad, int[] input_size, float[4]? scale_factor, str mode, bool align_corners, "
    "bool antialias) -> Tensor", namespace=None, samples="resize_backward",
    d={"grad": lambda g, grad_shape, scale_factor, mode, align_corners, antialias:
       interpolate(g, None if scale_factor else grad_shape[2:], scale_factor, mode, align_corners or None, None,
                   antialias)},
    doc="The gradient of interpolate for an input of input_size: the adjoint of its linear map. Without scale_factor "
        "the ratio of the sizes counts.")


def _pull(g, input_shape, scale_factor, mode, align_corners, recompute_scale_factor, antialias):
    if mode == "area":
        return adaptive_avg_pool_backward(g, input_shape, len(input_shape) - 2)
    return resize_backward(g, input_shape[2:], None if recompute_scale_factor else scale_factor, mode,
                           bool(align_corners), antialias)


# a number that stands for all dimensions is read as four of them: more than any list has (resize_plan.cpp)
interpolate = primitive(
    "interpolate(Tensor input, int[4]? size=None, float[4]? scale_factor=None, str mode='nearest', "
    "bool? align_corners=None, bool? recompute_scale_factor=None, bool antialias=False) -> Tensor",
    d={"input": _pull}, keeps_format=True, namespace="nn.functional", samples="interpolate",
    doc="""Images [n, channels, ...] resized to `size` or by `scale_factor`.

    Modes: nearest, nearest-exact, linear (3D input), bilinear and bicubic (4D), trilinear (5D), area. `antialias=True`
    (bilinear, bicubic and lanczos) averages over the pixels that one output covers, as image libraries do.
    `recompute_scale_factor` uses the ratio of the sizes instead of scale_factor itself.

    >>> import flambeau
    >>> flambeau.nn.functional.interpolate(flambeau.tensor([[[1., 2.]]]), scale_factor=2)
    tensor([[[1., 1., 2., 2.]]])
    """)
