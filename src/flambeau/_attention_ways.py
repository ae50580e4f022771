"""Which ways to compute scaled_dot_product_attention may be taken, and which can be."""

from . import _C
from ._libraries import SWITCHES, cudnn_library
from ._shown import NamedNumber

#: all of them, in the order in which they are tried
ALL = ("CUDNN_ATTENTION", "FLASH_ATTENTION", "EFFICIENT_ATTENTION", "MATH")
#: those that are allowed, in that order or, with nn.attention.sdpa_kernel, in another
allowed = ALL

_FUSED = (_C.float32, _C.float16, _C.bfloat16)
_HALVES = (_C.float16, _C.bfloat16)
_LARGEST_HEAD = 256  # of cuDNN's


class SDPBackend(NamedNumber):
    """Ways to compute scaled_dot_product_attention: CUDNN_ATTENTION is NVIDIA's library, for halves on CUDA;
    FLASH_ATTENTION the fused kernel, which on CUDA is EFFICIENT_ATTENTION too; MATH ordinary operators.
    """

    ERROR = -1
    MATH = 0
    FLASH_ATTENTION = 1
    EFFICIENT_ATTENTION = 2
    CUDNN_ATTENTION = 3
    OVERRIDEABLE = 4


def allow(switches):
    """Turns ways on or off, {way: on}; those that were on keep their order."""
    global allowed
    on = (set(allowed) | {way for way, value in switches.items() if value}) \
        - {way for way, value in switches.items() if not value}
    order = (*allowed, *ALL) if on <= set(allowed) else ALL
    allowed = tuple(dict.fromkeys(way for way in order if way in on))


def fused(way, query, key, value, mask, dropout_p):
    """Whether that way is one operator here and takes these tensors. Dropout draws per weight, and a mask that wants a
    gradient needs the weights."""
    if way == "MATH" or dropout_p or (way == "CUDNN_ATTENTION" and not query.is_cuda) or query.dtype not in _FUSED:
        return False
    if mask is not None and (mask.requires_grad or not (mask.dtype == _C.bool or mask.is_floating_point())):
        return False
    if way == "CUDNN_ATTENTION":
        return _by_cudnn(query, key, value) and (mask is None or mask.dtype in (_C.bool, query.dtype))
    return way == "FLASH_ATTENTION" or (way == "EFFICIENT_ATTENTION" and query.is_cuda)  # one kernel is both there


def by_parts(way, query, mask, dropout_p):
    """Whether ordinary operators compute that way: MATH, and what PyTorch's FLASH_ATTENTION takes on the CPU and the
    fused kernel here does not, float64."""
    return way == "MATH" or (way == "FLASH_ATTENTION" and query.dtype is _C.float64 and not query.is_cuda
                             and not dropout_p and not (mask is not None and mask.requires_grad))


def _by_cudnn(query, key, value):
    heads = query.shape[-1], value.shape[-1]
    return (query.dtype in _HALVES and 0 not in query.shape and 0 not in key.shape
            and all(0 < n <= _LARGEST_HEAD and n % 8 == 0 for n in heads)
            and not _C._cuda.library_switches() & SWITCHES["cudnn"][0] and cudnn_library())
