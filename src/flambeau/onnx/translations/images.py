"""Images resized and sampled, and regions of them."""

from ... import _C
from ..._shown import shown
from ..._tensor.creation import tensor
from .._emitter import Unavailable
from .._graph import Value
from ._table import translates
from .pooling import adaptive_avg_pool

_MODES = {"nearest": "nearest", "nearest-exact": "nearest", "linear": "linear", "bilinear": "linear",
          "trilinear": "linear", "bicubic": "cubic"}


@translates("interpolate")
def interpolate(g, input, size=None, scale_factor=None, mode="nearest", align_corners=None,
                recompute_scale_factor=None, antialias=False):
    """Resize, by the factors that the program gives or to its sizes; of integers in float32, rounded."""
    nd = input.rank - 2
    if not input.dtype.is_floating_point and mode not in ("nearest", "nearest-exact"):
        wide = g.shaped(g.cast(input, _C.float32), input.shape)
        made = interpolate(g, wide, size, scale_factor, mode, align_corners, recompute_scale_factor, antialias)
        return g.op("Floor", g.op("Add", made, g.scalar(0.5, _C.float32)))  # halves go up
    if size is not None:
        size = list(size) if isinstance(size, (tuple, list)) else [size]
        size = (size * nd)[:nd] if len(size) == 1 else size[:nd]
    if mode == "area":
        wanted = size if size is not None else list(g.shape[2:])
        return adaptive_avg_pool(g, input, wanted, nd)
    if mode not in _MODES:
        raise Unavailable(f"interpolate: mode={shown(mode)} is not in ONNX; use bilinear or bicubic")
    given = {"mode": _MODES[mode], "antialias": int(antialias) if antialias else None}
    if mode == "nearest":
        given |= {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    elif mode == "nearest-exact":
        given |= {"coordinate_transformation_mode": "half_pixel", "nearest_mode": "round_prefer_ceil"}
    else:
        given["coordinate_transformation_mode"] = "align_corners" if align_corners else "half_pixel"
    if antialias:
        given["exclude_outside"] = 1
    if mode == "bicubic":
        given["cubic_coeff_a_f"] = -0.5 if antialias else -0.75
    if size is None and not recompute_scale_factor:
        factors = list(scale_factor)[:nd]
        return g.op("Resize", input, None, g.const(_floats([1.0, 1.0, *factors])), **given)
    if size is None:
        known = g.shape[2:]
        if not all(isinstance(n, int) for n in known):
            raise Unavailable("interpolate: recompute_scale_factor with open sides is not written; give size")
        size = list(known)
    front = [g.size(input, d) for d in range(2)]
    return g.op("Resize", input, None, None, g.listed([*front, *size]), **given)


def _floats(numbers):
    return tensor(numbers, dtype=_C.float32)


@translates("grid_sampler")
def grid_sampler(g, input, grid, interpolation_mode, padding_mode, align_corners):
    modes = ("linear", "nearest", "cubic") if g.opset >= 20 else ("bilinear", "nearest", "bicubic")
    if input.rank == 5 and g.opset < 20:
        raise Unavailable("grid_sample of volumes needs opset 20; give a newer opset_version")
    return g.op("GridSample", input, grid, mode=modes[interpolation_mode],
                padding_mode=("zeros", "border", "reflection")[padding_mode], align_corners=int(align_corners))


@translates("nms")
def nms(g, dets, scores, iou_threshold):
    """NonMaxSuppression of one image and one class: its rows are (image, class, box)."""
    boxes = g.unsqueeze(g.cast(dets, _C.float32), 0)
    count = g.scalar(2 ** 31 - 1, _C.int64)
    threshold = g.const(_floats([iou_threshold]))
    found = g.op("NonMaxSuppression", boxes, g.unsqueeze(g.cast(scores, _C.float32), 0, 1), g.reshape(count, [1]),
                 threshold)
    return g.op("Gather", found, 2, axis=1)


def _regions(g, rois):
    """(boxes, the image of each)."""
    boxes = g.slice(rois, 1, 5, 1)
    return boxes, g.cast(g.op("Gather", rois, 0, axis=1), _C.int64)


@translates("roi_align")
def roi_align(g, input, rois, spatial_scale, pooled_height, pooled_width, sampling_ratio, aligned):
    boxes, images = _regions(g, rois)
    return g.op("RoiAlign", input, boxes, images, spatial_scale_f=spatial_scale, output_height=pooled_height,
                output_width=pooled_width, sampling_ratio=max(sampling_ratio, 0), mode="avg",
                coordinate_transformation_mode="half_pixel" if aligned else None if g.opset < 16 else
                "output_half_pixel")


@translates("roi_pool")
def roi_pool(g, input, rois, spatial_scale, pooled_height, pooled_width):
    """The first result; the places, which only derivatives need, are not written."""
    return [g.op("MaxRoiPool", input, rois, pooled_shape=[pooled_height, pooled_width],
                 spatial_scale_f=spatial_scale), None]


@translates("_fake_quantize")
def fake_quantize(g, self, scale, zero_point, low, high, factor=1):
    """Rounded to codes within [low, high], and back."""
    if factor != 1:
        raise Unavailable("fake quantization with a gradient factor is for training; export in eval mode")
    scale, zero = (g.cast(v, self.dtype) if isinstance(v, Value) else g.scalar(v, self.dtype)
                   for v in (scale, zero_point))
    codes = g.op("Add", g.op("Round", g.op("Div", self, scale)), zero)
    codes = g.op("Min", g.op("Max", codes, g.scalar(low, self.dtype)), g.scalar(high, self.dtype))
    return g.op("Mul", g.op("Sub", codes, zero), scale)
