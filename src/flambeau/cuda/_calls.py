"""What a call on CUDA tensors looks like to the code that makes its kernel; dtypes are short names ("float32")."""

from typing import NamedTuple


class Operand(NamedTuple):
    """An operand of a pointwise call. kind: "tensor", "number" (passed by value) or "absent"; of tensors also
    "repeated" (one element for all of the innermost dimension) and "across" (it runs along a tile's other dimension).
    """
    kind: str
    dtype: str
    loop_dtype: str  # what it is converted to before the formula


class ElementwiseCall(NamedTuple):
    """The signature of a pointwise call; its sizes are no part of it.

    form: "flat" (all tensors are one run in the same order), "packed" (along the innermost dimension each is a run or
    repeated), "tiled" (operands run along another dimension than the result) or "strided" (anything else). compute,
    loop_out, result: what the formula computes in, what it gives, what is stored. scalars: the arguments behind the
    operands, each "absent", "int", "float", "complex" (passed by value), ("str", first letter) or ("bool", value).
    index: bits of offsets. aligned, of "flat": whether all addresses are multiples of 16. vector, of "packed" and
    "tiled": how many neighbours are read at once (0: one).
    """
    name: str
    form: str
    operands: tuple
    compute: str
    loop_out: str
    result: str
    scalars: tuple
    index: int
    aligned: bool
    arch: str
    vector: int = 0


class TensorInfo(NamedTuple):
    """A tensor of a call: `k` is its number in the plan's pointers; strides count elements."""
    k: int
    dtype: str
    shape: tuple
    strides: tuple
    aligned: bool


class RowCall(NamedTuple):
    """The signature of any other call: the arguments of its schema, tensors as TensorInfo, and its results; and how
    much may be asked of NVIDIA's libraries: 0 nothing, 1 single calls, 2 also what follows, on the way."""
    name: str
    args: tuple
    results: tuple
    arch: str
    libraries: int
