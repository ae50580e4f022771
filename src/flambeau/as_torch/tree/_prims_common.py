"""torch._prims_common: questions about tensors that packages take from there."""

import flambeau

from ..._absent import say_once


def is_contiguous_or_false(a):
    """Whether a tensor is contiguous: always known here."""
    return a.is_contiguous()


def alert_not_deterministic(caller):
    """Says that an operation is not deterministic, where the program asks for such ones only."""
    if flambeau.is_deterministic_algorithms_warn_only_enabled():
        say_once(f"{caller} is not deterministic, and use_deterministic_algorithms(True) is set")
    elif flambeau.are_deterministic_algorithms_enabled():
        raise RuntimeError(f"{caller} is not deterministic, and use_deterministic_algorithms(True) is set; switch it "
                           "off, or pass warn_only=True")


def make_contiguous_strides_for(shape, row_major=True):
    """The strides of a contiguous tensor; of one whose last two dimensions are exchanged in memory, unless
    `row_major`."""
    if not row_major and len(shape) > 1:
        *front, m, n = shape
        return (*make_contiguous_strides_for((*front, n, m))[:-2], 1, max(m, 1))
    strides = [1]
    for size in reversed(shape[1:]):
        strides.append(strides[-1] * max(size, 1))
    return tuple(reversed(strides)) if shape else ()


def suggest_memory_format(x):
    """The memory format in which a tensor lies: that of channels last, where its strides say so."""
    for dim, kept in ((4, flambeau.channels_last), (5, flambeau.channels_last_3d)):
        if x.dim() == dim and x.is_contiguous(memory_format=kept) and not x.is_contiguous():
            return kept
    return flambeau.contiguous_format
