"""The processor's instruction set."""

from .. import _C


def get_cpu_capability():
    """The best set of loops this processor runs: 'AVX512', 'AVX2' or 'DEFAULT'."""
    return _C.cpu_capability() if hasattr(_C, "cpu_capability") else "DEFAULT"
