"""The processor's instruction set."""

from .. import _C


def get_cpu_capability():
    """The set of loops in use: 'AVX512' or 'AVX2', the best that this processor runs.

    `ATEN_CPU_CAPABILITY=avx2` (or `default`) in the environment keeps the process to AVX2, to see
    what a program does on a processor that has no more.
    """
    return _C.cpu_capability()
