"""Products on the CPU: whether oneDNN is there, and how float32 is multiplied."""

import sys
from contextlib import contextmanager

from . import _switches

#: Kept and reported back. Which library computes never changes what a result means, and results on the CPU are the same
#: in every run anyway.
enabled, deterministic, allow_tf32 = True, False, None
#: `matmul.fp32_precision`: with "ieee" float32 numbers are multiplied as they are. Otherwise large products may split
#: each into bfloat16 numbers, where the processor has instructions for matrices of these: with "none" into three, whose
#: sums are as exact (but results below 2**-126 become zero, and factors below 2**-110 lose digits); with "tf32" into
#: two (16 bits of a factor count, where TF32 has 11), with "bf16" into one (8 bits). Convolutions and the steps of
#: recurrent layers keep three.
matmul = _switches.Precision("cpu")


def is_available():
    """Whether it is used."""
    return True


def set_flags(_enabled=None, _deterministic=None, _allow_tf32=None, _fp32_precision="none"):
    """Sets the switches that are given; returns the values before."""
    module = sys.modules[__name__]
    wanted = {"enabled": _enabled, "deterministic": _deterministic, "allow_tf32": _allow_tf32}
    before = tuple(getattr(module, name) for name in wanted) + (matmul.fp32_precision,)
    with _switches.thawed():
        for name, value in wanted.items():
            if value is not None:
                setattr(module, name, value)
    if _fp32_precision != "none":
        matmul.fp32_precision = _fp32_precision
    return before


@contextmanager
def flags(enabled=False, deterministic=False, allow_tf32=True, fp32_precision="none"):
    """Context in which the switches have these values.

    >>> import flambeau
    >>> with flambeau.backends.mkldnn.flags(enabled=False):
    ...     flambeau.backends.mkldnn.enabled
    False
    """
    with _switches.restored(sys.modules[__name__], ("enabled", "deterministic", "allow_tf32")):
        set_flags(enabled, deterministic, allow_tf32, fp32_precision)
        yield


sys.modules[__name__].__class__ = _switches.Module
