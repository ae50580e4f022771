"""CUDA: whether it can be used, switches of its matrix products, and switches that have no effect here."""

import warnings
from contextlib import contextmanager
from enum import Enum

from .. import _C, _attention_ways
from .._attention_ways import SDPBackend as SDPBackend
from .._shown import shown
from . import _switches

cuBLASModule = _switches.Products
matmul = cuBLASModule("matmul")

#: switch -> the way to compute attention that it allows
_WAYS = {"flash_sdp": "FLASH_ATTENTION", "mem_efficient_sdp": "EFFICIENT_ATTENTION", "math_sdp": "MATH",
         "cudnn_sdp": "CUDNN_ATTENTION"}
_on = {"fp16_bf16_reduction_math_sdp": False}


def is_built():
    """Whether CUDA can be used here: a driver is found when it is asked for, and nothing is built for it."""
    return _C._cuda.available()


def _switch(name):
    def enabled():
        return _WAYS[name] in _attention_ways.allowed if name in _WAYS else _on[name]

    def enable(enabled):
        if name in _WAYS:
            _attention_ways.allow({_WAYS[name]: enabled})
        else:
            _on[name] = bool(enabled)

    enabled.__doc__, enable.__doc__ = f"Whether {name} is allowed.", f"Allows {name}, or not."
    return enabled, enable


flash_sdp_enabled, enable_flash_sdp = _switch("flash_sdp")
mem_efficient_sdp_enabled, enable_mem_efficient_sdp = _switch("mem_efficient_sdp")
math_sdp_enabled, enable_math_sdp = _switch("math_sdp")
cudnn_sdp_enabled, enable_cudnn_sdp = _switch("cudnn_sdp")
fp16_bf16_reduction_math_sdp_allowed, allow_fp16_bf16_reduction_math_sdp = _switch("fp16_bf16_reduction_math_sdp")


@contextmanager
def sdp_kernel(enable_flash=True, enable_math=True, enable_mem_efficient=True, enable_cudnn=True):
    """Sets the four switches of attention inside."""
    before = _attention_ways.allowed
    _attention_ways.allow({"FLASH_ATTENTION": enable_flash, "MATH": enable_math, "CUDNN_ATTENTION": enable_cudnn,
                           "EFFICIENT_ATTENTION": enable_mem_efficient})
    try:
        yield
    finally:
        _attention_ways.allowed = before


class SDPAParams:
    """A call of scaled_dot_product_attention, for `can_use_cudnn_attention` and its kin."""

    def __init__(self, query, key, value, attn_mask=None, dropout=0.0, is_causal=False, enable_gqa=False):
        self.query, self.key, self.value, self.attn_mask = query, key, value, attn_mask
        self.dropout, self.is_causal, self.enable_gqa = dropout, is_causal, enable_gqa


def _asks(name, way):
    def can_use(params, debug=False):
        usable = params.query.is_cuda and _attention_ways.fused(
            way, params.query, params.key, params.value, params.attn_mask, params.dropout)
        if debug and not usable:
            warnings.warn(f"{name}: not on {params.query.device} with {params.query.dtype}, heads of "
                          f"{params.query.shape[-1]} columns, dropout {params.dropout} and what is installed",
                          stacklevel=2)
        return usable
    can_use.__name__ = can_use.__qualname__ = name
    can_use.__doc__ = f"""Whether {way} can compute the call that `params`, an SDPAParams, describes; `debug` warns
    where it cannot. Whether it is allowed is another question: see `sdp_kernel`."""
    return can_use


can_use_flash_attention = _asks("can_use_flash_attention", "FLASH_ATTENTION")
can_use_efficient_attention = _asks("can_use_efficient_attention", "EFFICIENT_ATTENTION")
can_use_cudnn_attention = _asks("can_use_cudnn_attention", "CUDNN_ATTENTION")


def is_flash_attention_available():
    """Whether CUDA's fused attention can be used: wherever there is a GPU, since its kernel is made here."""
    return is_built()


def is_ck_sdpa_available():
    """Whether attention by AMD's library can be used: no."""
    return False


def _preference(name, default, others):
    kind = Enum(f"_{name.capitalize()}Backend", ["Default", *others], start=0)

    def preferred(backend=None):
        if isinstance(backend, str):
            chosen = next((member for member in kind if member.name.lower() == backend.lower()), None)
        else:
            chosen = backend
        if backend is not None and not isinstance(chosen, kind):
            raise RuntimeError(f"preferred_{name}_library: expected one of "
                               f"{', '.join(member.name.lower() for member in kind)}, got {shown(backend)}")
        if chosen not in (None, kind.Default, kind[default]):
            raise RuntimeError(f"preferred_{name}_library: {chosen.name} is a library of GPUs and not available in "
                               "this build; leave the preference at 'default'")
        return kind[default]

    preferred.__name__ = preferred.__qualname__ = f"preferred_{name}_library"
    preferred.__doc__ = f"The {name} library of GPUs that is preferred: the default; others are not available."
    return preferred


preferred_linalg_library = _preference("linalg", "Default", ["Cusolver", "Magma"])
preferred_blas_library = _preference("blas", "Cublas", ["Cublas", "Cublaslt", "Hipblas", "Hipblaslt", "Ck"])
preferred_rocm_fa_library = _preference("rocm_fa", "Default", ["AOTriton", "Ck"])


def blas_workspace_size(size=None, backend=None):
    """Bytes of working memory that CUDA's products keep: none, since each plan takes what its call needs from the
    allocator. RuntimeError where some are asked for."""
    if size:
        raise RuntimeError(f"blas_workspace_size: products take what they need with each call, so {shown(size)} bytes "
                           "are of no use; leave it out")
    return 0


def cublas_workspace_size(size=None):
    """`blas_workspace_size` of one library."""
    return blas_workspace_size(size)


cublaslt_workspace_size = cublas_workspace_size


class cuFFTPlanCache:
    """Plans of Fourier transforms that a CUDA device keeps by themselves: none."""

    size = max_size = 0

    def __init__(self, device_index):
        self.device_index = device_index

    def clear(self):
        """Nothing is kept."""


class cuFFTPlanCacheManager(cuFFTPlanCache):
    """The caches of all devices, `cufft_plan_cache[0]`: empty, since transforms are kept with all other plans."""

    def __init__(self):
        super().__init__(-1)

    def __getitem__(self, device):
        return cuFFTPlanCache(_C.device(device).index if not isinstance(device, int) else device)


cufft_plan_cache = cuFFTPlanCacheManager()
