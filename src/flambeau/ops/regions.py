"""Regions of images: non-maximum suppression, pooling of regions to a fixed size, deformable convolution.

They are public as `flambeau.ops.torchvision.<name>`, under the names and with the arguments that programs call by
`torch.ops.torchvision`; `flambeau.vision.ops` is the friendlier way to them.
"""

from .kinds import composite, primitive

_PLACE = {"namespace": "ops.torchvision", "method": False, "skip": "tested by name in tests/vision",
          "autocast": "float32"}
_HIDDEN = {"namespace": None, "skip": "a part of another operator, reached through it"}

nms = primitive(
    "nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor", **_PLACE,
    doc="The indices of the boxes [x1, y1, x2, y2] that stay, best first: those that overlap no better one by more "
        "than iou_threshold.")

_roi_align_backward = primitive(
    "_roi_align_backward(Tensor grad, Tensor rois, float spatial_scale, int pooled_height, int pooled_width, "
    "int batch_size, int channels, int height, int width, int sampling_ratio, bool aligned) -> Tensor",
    d={"grad": lambda g, rois, spatial_scale, pooled_height, pooled_width, sampling_ratio, aligned:
       roi_align(g, rois, spatial_scale, pooled_height, pooled_width, sampling_ratio, aligned)}, **_HIDDEN)
roi_align = primitive(
    "roi_align(Tensor input, Tensor rois, float spatial_scale, int pooled_height, int pooled_width, "
    "int sampling_ratio, bool aligned) -> Tensor",
    d={"input": lambda g, input_shape, rois, spatial_scale, pooled_height, pooled_width, sampling_ratio, aligned:
       _roi_align_backward(g, rois, spatial_scale, pooled_height, pooled_width, *input_shape, sampling_ratio, aligned)},
    **_PLACE, doc="Each region (image, x1, y1, x2, y2) as bins of averaged bilinear samples   (He et al. 2017).")

_ps_roi_align_backward = primitive(
    "_ps_roi_align_backward(Tensor grad, Tensor rois, float spatial_scale, int pooled_height, int pooled_width, "
    "int batch_size, int channels, int height, int width, int sampling_ratio) -> Tensor",
    d={"grad": lambda g, rois, spatial_scale, pooled_height, pooled_width, sampling_ratio:
       ps_roi_align(g, rois, spatial_scale, pooled_height, pooled_width, sampling_ratio)[0]}, **_HIDDEN)
ps_roi_align = primitive(
    "ps_roi_align(Tensor input, Tensor rois, float spatial_scale, int pooled_height, int pooled_width, "
    "int sampling_ratio) -> (Tensor, Tensor)",
    d={"input": lambda g0, input_shape, rois, spatial_scale, pooled_height, pooled_width, sampling_ratio:
       _ps_roi_align_backward(g0, rois, spatial_scale, pooled_height, pooled_width, *input_shape, sampling_ratio)},
    **_PLACE, doc="roi_align where each bin reads input channels of its own, and which channel each number was read "
                  "from   (Li et al. 2017).")

_ps_roi_pool_backward = primitive(
    "_ps_roi_pool_backward(Tensor grad, Tensor rois, float spatial_scale, int pooled_height, int pooled_width, "
    "int batch_size, int channels, int height, int width) -> Tensor",
    d={"grad": lambda g, rois, spatial_scale, pooled_height, pooled_width:
       ps_roi_pool(g, rois, spatial_scale, pooled_height, pooled_width)[0]}, **_HIDDEN)
ps_roi_pool = primitive(
    "ps_roi_pool(Tensor input, Tensor rois, float spatial_scale, int pooled_height, int pooled_width) -> "
    "(Tensor, Tensor)",
    d={"input": lambda g0, input_shape, rois, spatial_scale, pooled_height, pooled_width:
       _ps_roi_pool_backward(g0, rois, spatial_scale, pooled_height, pooled_width, *input_shape)},
    **_PLACE, doc="The mean of each bin's whole pixels, each bin from input channels of its own, and which channel "
                  "each number was read from   (Dai et al. 2016).")

_roi_pool_backward = primitive(
    "_roi_pool_backward(Tensor grad, Tensor rois, Tensor argmax, float spatial_scale, int pooled_height, "
    "int pooled_width, int batch_size, int channels, int height, int width) -> Tensor",
    d={"grad": lambda g, rois, argmax: _at_maxima(g, rois, argmax)}, **_HIDDEN)
roi_pool = primitive(
    "roi_pool(Tensor input, Tensor rois, float spatial_scale, int pooled_height, int pooled_width) -> (Tensor, Tensor)",
    d={"input": lambda g0, input_shape, rois, result1, spatial_scale, pooled_height, pooled_width:
       _roi_pool_backward(g0, rois, result1, spatial_scale, pooled_height, pooled_width, *input_shape)},
    **_PLACE, doc="The largest pixel of each bin, and where in its plane it is (-1: the bin is empty)   "
                  "(Girshick 2015).")


def _at_maxima(images, rois, argmax):
    """The pixels that roi_pool took: those at `argmax`, zero for empty bins."""
    planes = images.flatten(2)[rois[:, 0].long()]
    found = planes.gather(2, argmax.flatten(2).long().clamp(min=0)).reshape(argmax.shape)
    return found.masked_fill(argmax < 0, 0)


_deform_columns_backward = primitive(
    "_deform_columns_backward(Tensor grad, Tensor input, Tensor offset, Tensor mask, int[2] kernel_size, "
    "int[2] stride, int[2] padding, int[2] dilation, int offset_groups, bool use_mask) -> (Tensor, Tensor, Tensor)",
    **_HIDDEN)
_deform_columns = primitive(
    "_deform_columns(Tensor input, Tensor offset, Tensor mask, int[2] kernel_size, int[2] stride, int[2] padding, "
    "int[2] dilation, int offset_groups, bool use_mask) -> Tensor",
    d={("input", "offset", "mask"):
       lambda g, input, offset, mask, kernel_size, stride, padding, dilation, offset_groups, use_mask, needs: tuple(
           share if need else None for share, need in zip(
               _deform_columns_backward(g, input, offset, mask, kernel_size, stride, padding, dilation, offset_groups,
                                        use_mask), needs))}, **_HIDDEN)


@composite(
    "deform_conv2d(Tensor input, Tensor weight, Tensor offset, Tensor mask, Tensor bias, int stride_h, int stride_w, "
    "int pad_h, int pad_w, int dilation_h, int dilation_w, int groups, int offset_groups, bool use_mask) -> Tensor",
    **_PLACE)
def deform_conv2d(input, weight, offset, mask, bias, stride_h, stride_w, pad_h, pad_w, dilation_h, dilation_w, groups,
                  offset_groups, use_mask):
    """A convolution whose kernel positions read where `offset` moves them, times `mask`   (Zhu et al. 2019)."""
    outputs, inputs, *kernel = weight.shape
    if groups < 1 or inputs * groups != input.shape[1] or outputs % groups:
        raise RuntimeError(f"deform_conv2d: weight {list(weight.shape)} does not fit input {list(input.shape)} in "
                           f"{groups} groups")
    columns = _deform_columns(input, offset, mask, kernel, (stride_h, stride_w), (pad_h, pad_w),
                              (dilation_h, dilation_w), offset_groups, use_mask)
    n, rows, places = columns.shape
    product = weight.reshape(groups, outputs // groups, -1) @ columns.reshape(n, groups, rows // groups, places)
    return product.reshape(n, outputs, *offset.shape[2:]) + bias.reshape(1, -1, 1, 1)
