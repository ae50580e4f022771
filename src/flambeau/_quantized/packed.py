"""Weights of quantized layers as their operators take them: quantized weight, bias, and how they are applied."""

from functools import cached_property

from .. import _C
from ..ops.kinds import OPS
from .schemes import per_channel_affine, per_tensor_affine
from .tensor import is_quantized


class Packed:
    """What all packed weights have: the quantized weight and the bias, which `unpack` gives back."""

    def __init__(self, weight, bias):
        self.weight_, self.bias_ = weight, bias

    def unpack(self):
        """(weight, bias)."""
        return self.weight_, self.bias_

    def bias(self):
        """The bias, or None."""
        return self.bias_

    def __deepcopy__(self, memo):
        made = type(self).__new__(type(self))
        made.__dict__.update(self.__dict__)
        made.weight_ = self.weight_.clone()
        made.bias_ = None if self.bias_ is None else self.bias_.clone()
        return made


def _channels_of(name, weight, axis):
    """Checks that a weight is qint8, with one scale or with one for each index of `axis`."""
    if not is_quantized(weight) or weight.dtype is not _C.qint8:
        raise RuntimeError(f"{name}: the weight must be quantized with dtype qint8, got {weight.dtype}")
    scheme = weight.qscheme()
    if scheme is not per_tensor_affine and (scheme is not per_channel_affine or weight.q_per_channel_axis() != axis):
        raise RuntimeError(f"{name}: the weight needs one scale, or one for each index of dimension {axis} with "
                           f"integers as zero points; got {scheme}")


def _float_bias(name, bias, count):
    if bias is None:
        return None
    if is_quantized(bias):
        bias = bias.dequantize()
    if bias.ndim != 1 or len(bias) != count:
        raise RuntimeError(f"{name}: the bias must have shape [{count}], got {list(bias.shape)}")
    return bias.detach().to(_C.float32).clone()


def scales_of(weight):
    """(scales, zero points) of a quantized weight: one of each, or one per channel."""
    if weight.qscheme() is per_tensor_affine:
        return (OPS["full"]([1], weight.q_scale(), dtype=_C.float32),
                OPS["full"]([1], weight.q_zero_point(), dtype=_C.int32))
    return weight.q_per_channel_scales().to(_C.float32), weight.q_per_channel_zero_points().to(_C.int32)


# --- linear layers ----------------------------------------------------------------------------------------------------

class PackedLinear(Packed):
    """A quantized weight with what the int8 kernels need beside its codes, or a weight of halves; and the bias."""

    def __init__(self, weight, bias):
        super().__init__(weight, bias)
        if weight.dtype is _C.float16:
            return
        self.codes = weight._codes
        self.sums = self.codes.sum(1, dtype=_C.int32)
        self.scales, self.zeros = (t.contiguous() for t in scales_of(weight))

    @cached_property
    def geometry(self):
        """What a convolution of no dimensions, which a linear layer of codes is, takes."""
        return (OPS["_quantized_pack"](self.codes, self.zeros, 1, True), len(self.codes), (), self.scales, self.bias_,
                (), (), (), 1, None)

    @property
    def halves(self):
        """Whether the weight is one of halves."""
        return self.weight_.dtype is _C.float16

    def dynamic(self, x, reduce_range=True):
        """The layer on numbers, which get codes for this call."""
        if self.halves:
            return OPS["linear"](x, self.weight_.float(), self.bias_)
        return OPS["_int8_linear"](x, self.codes, self.scales, self.zeros, self.sums, self.bias_, reduce_range)

    def __deepcopy__(self, memo):
        return PackedLinear(self.weight_.clone(), None if self.bias_ is None else self.bias_.clone())


def pack_linear(weight, bias=None):
    """Packs a weight of dtype qint8 (one scale, or one per row) or float16, with its bias."""
    if weight.ndim != 2 or weight.dtype not in (_C.qint8, _C.float16):
        raise RuntimeError(f"linear_prepack: a packed weight is a matrix of dtype qint8 or float16, got {weight.dtype} "
                           f"{list(weight.shape)}")
    if weight.dtype is _C.qint8:
        _channels_of("linear_prepack", weight, 0)
    return PackedLinear(weight.contiguous(), _float_bias("linear_prepack", bias, weight.shape[0]))


# --- convolutions -----------------------------------------------------------------------------------------------------

class PackedConv(Packed):
    """A quantized weight, the bias, and how a convolution of `dims` dimensions goes over its input."""

    def __init__(self, weight, bias, dims, stride, padding, dilation, groups, transpose=False, output_padding=None):
        super().__init__(weight, bias)
        self.dims, self.groups_, self.transpose_ = dims, groups, transpose
        self.stride_, self.padding_, self.dilation_ = stride, padding, dilation
        self.output_padding_ = output_padding if transpose else None
        self.scales, self.zeros = scales_of(weight)
        codes, kernel = weight._codes, weight.shape[2:]
        if transpose:
            codes = _turned(codes, groups)
        rows = dims == 0 or dilation[-1] == 1
        self.geometry = (OPS["_quantized_pack"](codes.contiguous(), self.zeros.contiguous(), groups, rows),
                         self.out_channels, kernel, self.scales.contiguous(), self.bias_, stride, padding, dilation,
                         groups, self.output_padding_)

    @property
    def out_channels(self):
        """How many channels the result has."""
        return self.weight_.shape[1] * self.groups_ if self.transpose_ else self.weight_.shape[0]

    @property
    def in_channels(self):
        """How many channels the input has."""
        return self.weight_.shape[0] if self.transpose_ else self.weight_.shape[1] * self.groups_

    def stride(self):
        """The stride in each dimension."""
        return list(self.stride_)

    def padding(self):
        """The padding in each dimension."""
        return list(self.padding_)

    def dilation(self):
        """The dilation in each dimension."""
        return list(self.dilation_)

    def output_padding(self):
        """What a transposed convolution adds at the end of each dimension."""
        return list(self.output_padding_ or (0,) * self.dims)

    def groups(self):
        """How many groups the channels fall into."""
        return self.groups_

    def transpose(self):
        """Whether it is a transposed convolution."""
        return self.transpose_


def _turned(codes, groups):
    """The weight [in, out / groups, *kernel] of a transposed convolution as that [out, in / groups, *kernel] of the one
    that computes it."""
    spatial = tuple(codes.shape[2:])
    grouped = codes.reshape(groups, codes.shape[0] // groups, codes.shape[1], *spatial).transpose(1, 2)
    return grouped.reshape(-1, codes.shape[0] // groups, *spatial).flip(list(range(2, codes.ndim)))


def pack_conv(dims, name, weight, bias, stride, padding, dilation, groups, output_padding=None):
    """Packs the weight of a convolution (qint8) with its bias; a transposed one has an `output_padding`."""
    transpose = output_padding is not None
    if weight.ndim != dims + 2:
        raise RuntimeError(f"{name}: the weight of a convolution in {dims} dimensions has {dims + 2} dimensions, got "
                           f"{list(weight.shape)}")
    _channels_of(name, weight, 1 if transpose else 0)
    sizes = {"stride": stride, "padding": padding, "dilation": dilation}
    if transpose:
        sizes["output_padding"] = output_padding
    for what, values in sizes.items():
        least = 0 if "padding" in what else 1
        if len(values) != dims or min(values) < least:
            raise RuntimeError(f"{name}: {what} must be {dims} numbers of at least {least}, got {list(values)}")
    if groups < 1 or weight.shape[0] % groups:
        raise RuntimeError(f"{name}: {groups} groups do not divide the weight {list(weight.shape)}")
    sizes = {what: tuple(int(v) for v in values) for what, values in sizes.items()}
    count = weight.shape[1] * groups if transpose else weight.shape[0]
    return PackedConv(weight.contiguous(), _float_bias(name, bias, count), dims, groups=groups, transpose=transpose,
                      **sizes)
