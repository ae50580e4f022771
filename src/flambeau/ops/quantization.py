"""Codes of quantized numbers, what training sees of them, and linear layers whose weights are bytes."""

from .kinds import elementwise, primitive

_SKIP = "tested with quantized tensors, by name"

_quantized_codes = elementwise(
    "_quantized_codes(Tensor self, Tensor scale, Tensor zero_point, float low, float high) -> Tensor",
    namespace=None, inplace=False, out=False, skip=_SKIP,
    doc="round(self / scale + zero_point), not below low and not above high.",
    cuda="clip(rint(fma(self, T(1) / scale, zero_point)), low, high)")


def _code(x, scale, zero_point):
    whole = zero_point.floor()
    return (x * (1 / scale) + (zero_point - whole)).round() + whole


def _to_scale(g, x, scale, zero_point, low, high, factor):
    """Inside the range what rounding added, per scale; outside the end's distance from the zero point."""
    code = _code(x, scale, zero_point)
    inside = code.clamp(low, high) - zero_point - x / scale
    outside = code.clamp(low, high) - zero_point
    return g * inside.where((code >= low) & (code <= high), outside) * factor


def _inside(g, x, scale, zero_point, low, high):
    code = _code(x, scale, zero_point)
    return g * ((code >= low) & (code <= high))


def _to_zero_point(g, x, scale, zero_point, low, high, factor):
    return (_inside(g, x, scale, zero_point, low, high) - g) * scale * factor


_fake_quantize = elementwise(
    "_fake_quantize(Tensor self, Tensor scale, Tensor zero_point, float low, float high, float factor=1) -> Tensor",
    d={"self": lambda g, self, scale, zero_point, low, high: _inside(g, self, scale, zero_point, low, high),
       "scale": lambda g, self, scale, zero_point, low, high, factor:
       _to_scale(g, self, scale, zero_point, low, high, factor),
       "zero_point": lambda g, self, scale, zero_point, low, high, factor:
       _to_zero_point(g, self, scale, zero_point, low, high, factor)},
    namespace=None, inplace=False, out=False, skip=_SKIP,
    doc="The number that the code round(self / scale) + zero_point stands for, between low and high. Its gradient goes "
        "straight through the rounding, where the code is in the range; `factor` scales those of scale and zero_point.",
    cuda="fake_quantize(self, scale, zero_point, low, high)")

_choose_affine = primitive(
    "_choose_affine(Tensor self, bool reduce_range) -> (Tensor, Tensor)", namespace=None, skip=_SKIP,
    doc="Scale and zero point with which all numbers, 0 among them, have codes from 0 to 255, or to 127.")

_int8_linear = primitive(
    "_int8_linear(Tensor input, Tensor weight, Tensor scales, Tensor zero_points, Tensor sums, Tensor? bias, "
    "bool reduce_range) -> Tensor", namespace=None, skip=_SKIP,
    doc="A linear layer of int8 weights: the input is quantized for the call, products are summed in int32.")

_weight_int8pack_mm = primitive(
    "_weight_int8pack_mm(Tensor self, Tensor mat2, Tensor scales) -> Tensor", method=False, skip=_SKIP,
    doc="self @ mat2.T * scales, where mat2 is int8 with one scale per row, and self stays as it is.")

_quantized_pack = primitive(
    "_quantized_pack(Tensor self, Tensor zero_points, int groups, bool rows) -> Tensor", namespace=None, skip=_SKIP,
    doc="Codes [out, in / groups, *kernel] without their zero points, in the order in which _quantized_conv reads.")

_quantized_conv = primitive(
    "_quantized_conv(Tensor input, int zero_point, float scale, Tensor weight, int out_channels, int[] kernel_size, "
    "Tensor scales, Tensor? bias, int[] stride, int[] padding, int[] dilation, int groups, int[]? output_padding, "
    "float output_scale, int output_zero_point, bool relu, Tensor? added=None, int added_zero_point=0, "
    "float added_scale=1) -> Tensor", namespace=None, skip=_SKIP,
    doc="A convolution of codes whose result is codes, with channels last: sums of products in int32, then bias, "
        "scale, what is added, zero point. output_padding: a transposed one, whose weight is turned round already.")

_code_pair = primitive(
    "_code_pair(Tensor self, float scale, int zero_point, Tensor other, float other_scale, int other_zero_point, "
    "float output_scale, int output_zero_point, bool multiply, bool relu) -> Tensor", namespace=None, skip=_SKIP,
    doc="The sum or product of two tensors of codes of one shape, as codes of another scale.")

_code_table = primitive(
    "_code_table(Tensor self, Tensor table) -> Tensor", namespace=None, skip=_SKIP,
    doc="table[code] for codes of 8 bits; the entry of the least code comes first.")

_code_values = primitive(
    "_code_values(Tensor self, float scale, int zero_point) -> Tensor", namespace=None, skip=_SKIP,
    doc="(code - zero_point) * scale in float32, of codes of 8 bits.")

_code_max_pool2d = primitive(
    "_code_max_pool2d(Tensor self, int[] kernel_size, int[] stride, int[] padding, int[] dilation, int[] output_size) "
    "-> Tensor", namespace=None, skip=_SKIP, doc="The largest code in each window of images with channels last.")
