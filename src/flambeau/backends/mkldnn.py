"""Products on the CPU: whether oneDNN is there, and how float32 is multiplied."""

from . import _switches

enabled = True
#: `matmul.fp32_precision`: with "ieee" float32 numbers are multiplied as they are. Otherwise large products may split
#: each into three bfloat16 numbers, where the processor has instructions for matrices of these. Sums are as exact; but
#: results below 2**-126 become zero, and factors below 2**-110 lose digits. "tf32" and "bf16" would allow less, which
#: nothing makes use of.
matmul = _switches.Precision("cpu")


def is_available():
    """Whether it is used."""
    return True
