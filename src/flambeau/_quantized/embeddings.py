"""Embeddings whose rows are codes of 8, 4 or 2 bits, each row with a scale and a least number of its own.

A fused row holds its codes and then scale and least number: two float32 after bytes, two float16 after smaller codes.
"""

from .. import _C
from .._shown import shown
from ..ops.kinds import OPS
from .packed import Packed
from .schemes import per_channel_affine_float_qparams
from .tensor import is_quantized, values_of

#: bits of a code -> dtype of a row's scale and least number
ENDS = {8: _C.float32, 4: _C.float16, 2: _C.float16}


class PackedEmbedding(Packed):
    """A weight with one scale and one zero point per row, and its rows fused."""

    def __init__(self, weight):
        super().__init__(weight, None)
        self.scales, self.zeros = weight.q_per_channel_scales(), weight.q_per_channel_zero_points()

    def unpack(self):
        """The quantized weight."""
        return self.weight_

    def rows(self, indices):
        """The rows of these indices as numbers: code * scale + what 0 stands for."""
        scales, zeros = self.scales[indices].unsqueeze(-1), self.zeros[indices].unsqueeze(-1)
        return self.weight_._codes[indices].float() * scales - scales * zeros

    def __deepcopy__(self, memo):
        return PackedEmbedding(self.weight_.clone())


def embedding_bag_prepack(weight):
    """Packs a weight with a scale and a floating-point zero point for each row."""
    if not is_quantized(weight) or weight.ndim != 2 or weight.dtype is not _C.quint8 or \
            weight.qscheme() is not per_channel_affine_float_qparams or weight.q_per_channel_axis() != 0:
        raise RuntimeError("embedding_bag_prepack: the weight must be a matrix of dtype quint8 with a scale and a "
                           "floating-point zero point for each row (quantize_per_channel with float zero points)")
    return PackedEmbedding(weight.contiguous())


def embedding_bag_unpack(W_prepack):
    """The quantized weight."""
    return W_prepack.unpack()


# --- fused rows -------------------------------------------------------------------------------------------------------

def _matrix(name, weight):
    weight = values_of(weight) if is_quantized(weight) else weight
    if weight.ndim < 1 or weight.dtype not in (_C.float32, _C.float16):
        raise RuntimeError(f"{name}: expected rows of float32 or float16, got {weight.dtype} {list(weight.shape)}")
    return weight.detach().float()


def prepack(bits):
    """The function that makes fused rows with codes of so many bits."""
    name = f"embedding_bag_{'byte' if bits == 8 else f'{bits}bit'}_prepack"

    def pack(weight, optimized_qparams=False, nbins=200, ratio=0.16):
        if optimized_qparams:
            raise NotImplementedError(f"{name}: optimized_qparams=True is not supported; rows span their least and "
                                      "largest number")
        rows = _matrix(name, weight)
        return _fused(bits, rows, rows.amin(-1, keepdim=True), rows.amax(-1, keepdim=True))

    def pack_bytes(weight):
        return pack(weight)

    def pack_with_ends(weight, rowwise_min_max, optimized_qparams=False, nbins=200, ratio=0.16):
        if optimized_qparams:
            raise NotImplementedError(f"{name}: optimized_qparams=True is not supported")
        return _fused(bits, _matrix(name, weight), rowwise_min_max[..., :1].float(), rowwise_min_max[..., 1:].float())

    found = pack_bytes if bits == 8 else pack
    found.__doc__ = f"Fused rows with codes of {bits} bits, each over the range of its numbers."
    pack_with_ends.__doc__ = f"Fused rows with codes of {bits} bits, each over a given range."
    return found, pack_with_ends


def _fused(bits, rows, least, most):
    top = 2 ** bits - 1
    if bits == 8:
        scale, inverse = (most - least) / top, top / (most - least + 1e-8)
    else:
        least = least.half().float()
        scale = ((most - least) / top).half().float()
        scale = OPS["where"](scale == 0, OPS["ones_like"](scale), scale)
        inverse = 1 / scale
    codes = ((rows - least) * inverse).round().clamp(0, top).to(_C.uint8)
    ends = OPS["cat"]([scale, least], -1).to(ENDS[bits])
    return OPS["cat"]([_squeezed(bits, codes), ends.view(_C.uint8)], -1)


def _squeezed(bits, codes):
    """Several codes in a byte, the first in its lowest bits."""
    each = 8 // bits
    if each == 1:
        return codes
    missing = -codes.shape[-1] % each
    if missing:
        codes = OPS["cat"]([codes, OPS["zeros"]([*codes.shape[:-1], missing], dtype=_C.uint8)], -1)
    parts = codes.reshape(*codes.shape[:-1], -1, each)
    found = parts[..., 0]
    for k in range(1, each):
        found = found | (parts[..., k] << (bits * k))
    return found


def _spread(bits, packed):
    each = 8 // bits
    if each == 1:
        return packed
    parts = [(packed >> (bits * k)) & (2 ** bits - 1) for k in range(each)]
    return OPS["stack"](parts, -1).flatten(-2)


def unpack(bits):
    """The function that turns fused rows into numbers."""
    def numbers(weight):
        ends = 2 * ENDS[bits].itemsize
        if weight.dtype is not _C.uint8 or weight.ndim < 1 or weight.shape[-1] < ends:
            raise RuntimeError(f"embedding_bag unpack: expected fused rows of uint8 with at least {ends} bytes, got "
                               f"{weight.dtype} {list(weight.shape)}")
        line = weight[..., -ends:].contiguous().view(ENDS[bits]).float()
        return _spread(bits, weight[..., :-ends]).float() * line[..., :1] + line[..., 1:]
    numbers.__doc__ = f"The numbers of fused rows with codes of {bits} bits."
    return numbers


# --- look-ups ---------------------------------------------------------------------------------------------------------

def _checked_indices(name, indices, count):
    if indices.dtype not in (_C.int32, _C.int64):
        raise RuntimeError(f"{name}: indices must be int32 or int64, got {indices.dtype}")
    if indices.numel() and not 0 <= indices.min().item() <= indices.max().item() < count:
        raise RuntimeError(f"{name}: an index is not from 0 to {count - 1}")
    return indices.long()


def _packed(name, weight):
    if not isinstance(weight, PackedEmbedding):
        raise RuntimeError(f"{name}: expected what embedding_bag_prepack makes, got {shown(weight)}")
    return weight


def embedding(name):
    """Rows of a packed weight."""
    def look_up(weight, indices, pruned_weights=False):
        if pruned_weights:
            raise NotImplementedError(f"{name}: pruned weights are not supported")
        packed = _packed(name, weight)
        return packed.rows(_checked_indices(name, indices, packed.weight_.shape[0]))
    look_up.__doc__ = "The rows of these indices, as numbers."
    return look_up


def bag(name, bits=None):
    """Sums of rows; bits: of fused rows with codes of so many bits, otherwise of a packed weight."""
    def add_up(weight, indices, offsets=None, scale_grad_by_freq=False, mode=0, pruned_weights=False,
               per_sample_weights=None, compressed_indices_mapping=None, include_last_offset=False):
        if mode != 0 or pruned_weights or compressed_indices_mapping is not None:
            raise NotImplementedError(f"{name}: only sums (mode 0) of weights that are not pruned are supported")
        count = weight.shape[0] if bits else _packed(name, weight).weight_.shape[0]
        chosen = _checked_indices(name, indices, count)
        if indices.ndim == 2 and offsets is not None:
            raise RuntimeError(f"{name}: indices of two dimensions are bags already; offsets must be None")
        if indices.ndim == 1 and offsets is None:
            raise RuntimeError(f"{name}: indices of one dimension need offsets")
        rows = unpack(bits)(weight[chosen.flatten()]) if bits else weight.rows(chosen.flatten())
        places = OPS["arange"](chosen.numel()).reshape(chosen.shape)
        each = None if per_sample_weights is None else per_sample_weights.detach().float()
        return OPS["embedding_bag"](places, rows, None if offsets is None else offsets.long(), mode="sum",
                                    per_sample_weights=each, include_last_offset=include_last_offset)
    add_up.__doc__ = "The sum of the rows of each bag, as numbers."
    return add_up
