"""Products on the CPU: whether oneDNN is there, and how float32 is multiplied."""

from . import _switches

enabled = True
#: `matmul.fp32_precision`: with "ieee" float32 numbers are multiplied as they are. Otherwise large products may split
#: each into bfloat16 numbers, where the processor has instructions for matrices of these: with "none" into three, whose
#: sums are as exact (but results below 2**-126 become zero, and factors below 2**-110 lose digits); with "tf32" into
#: two (16 bits of a factor count, where TF32 has 11), with "bf16" into one (8 bits). Convolutions and the steps of
#: recurrent layers keep three.
matmul = _switches.Precision("cpu")


def is_available():
    """Whether it is used."""
    return True
