"""Attention: choosing the kernel, causal biases, and flex_attention."""

import contextlib
import importlib

from ... import _attention_ways
from ..._absent import refusals
from ..._attention_ways import SDPBackend as SDPBackend
from ..._shown import shown
from . import bias as bias


def __getattr__(name):  # flex_attention needs vmap, which most programs do not
    if name == "flex_attention":
        return importlib.import_module(__name__ + ".flex_attention")
    raise AttributeError(f"module {__name__!r} has no attribute {shown(name)}")


#: whether to warn where the fused kernel cannot serve a bias; it always serves here
WARN_FOR_UNFUSED_KERNELS = False


@contextlib.contextmanager
def sdpa_kernel(backends, set_priority=False):
    """Inside, scaled_dot_product_attention may be computed only in the given ways (one SDPBackend or a list).

    Of those that serve and are allowed cuDNN comes first, then the fused kernel; `set_priority` makes the list's order
    count.

    >>> import flambeau
    >>> from flambeau.nn.attention import SDPBackend, sdpa_kernel
    >>> x = flambeau.zeros(1, 2, 4)
    >>> with sdpa_kernel(SDPBackend.MATH):
    ...     flambeau.nn.functional.scaled_dot_product_attention(x, x, x).shape
    torch.Size([1, 2, 4])
    """
    backends = [backends] if isinstance(backends, SDPBackend) else backends
    if not isinstance(backends, list) or not all(isinstance(b, SDPBackend) for b in backends):
        raise AssertionError(f"sdpa_kernel: expected an SDPBackend or a list of them, got {shown(backends)}")
    names = tuple(dict.fromkeys(backend.name for backend in backends))
    if not set_priority:
        names = tuple(sorted(names, key=lambda name: -SDPBackend[name]))  # MATH last
    before, _attention_ways.allowed = _attention_ways.allowed, names
    try:
        yield {}
    finally:
        _attention_ways.allowed = before


globals().update(refusals("nn.attention", "other implementations of flash attention are for GPUs", """
    activate_flash_attention_impl(impl) register_flash_attention_impl(impl, register_fn)
    restore_flash_attention_impl(_raise_warn)
"""))


def list_flash_attention_impls():
    """The names of further implementations of flash attention: none.

    >>> from flambeau.nn.attention import list_flash_attention_impls
    >>> list_flash_attention_impls()
    []
    """
    return []


def current_flash_attention_impl():
    """The name of the implementation in use, None for Flambeau's own."""
    return None
