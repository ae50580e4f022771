"""The processor's instruction set."""

from .. import _C


def get_cpu_capability():
    """The best set of loops this processor runs: 'AVX512' or 'AVX2'."""
    return _C.cpu_capability()
