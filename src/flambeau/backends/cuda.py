"""CUDA: not used; its switches can be set and change nothing here."""

from types import SimpleNamespace

matmul = SimpleNamespace(allow_tf32=False, allow_fp16_reduced_precision_reduction=True,
                         allow_bf16_reduced_precision_reduction=True)


def is_built():
    """Whether this build can use CUDA."""
    return False
