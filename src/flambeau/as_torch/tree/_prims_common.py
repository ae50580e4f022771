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
