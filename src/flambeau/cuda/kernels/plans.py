"""What native code launches: a plan is a list of steps, made once for a call's signature."""

from typing import NamedTuple


class Pointer(NamedTuple):
    """The address of operand k (the call's tensors in schema order, lists flattened, then its results)."""
    k: int
    byte_offset: int = 0


class Scratch(NamedTuple):
    """An address in the plan's i-th block of scratch memory."""
    i: int
    byte_offset: int = 0


class Number(NamedTuple):
    """Constant bytes, passed by value."""
    data: bytes


class Seed(NamedTuple):
    """Seed and offset of the device's generator and, in recorded graphs, the address where they lie; the offset is
    advanced by `count`."""
    count: int


class Launch(NamedTuple):
    """One kernel launch: `image` holds the kernel called `function`."""
    image: bytes
    function: str
    grid: tuple
    block: tuple
    shared: int
    params: tuple


class Fill(NamedTuple):
    """`nbytes` bytes of `value_byte` to a Pointer or Scratch."""
    target: object
    value_byte: int
    nbytes: int


class Copy(NamedTuple):
    """`nbytes` bytes from device memory to device memory."""
    dst: object
    src: object
    nbytes: int


class Library(NamedTuple):
    """A call of one of NVIDIA's libraries: what native/cuda/libraries knows as `function`, in the library at `path`."""
    function: str
    path: str
    operands: tuple
    constants: dict


class Check(NamedTuple):
    """The CPU waits for `count` numbers of 32 bits at a Pointer or Scratch, and raises LinAlgError for the first that
    is not 0: what `api` says of it. In recorded work nobody looks."""
    place: object
    count: int
    api: str
    batched: bool


class Plan(NamedTuple):
    """What one call does, in order; `scratch` lists byte counts of temporary memory."""
    steps: tuple
    scratch: tuple = ()


class Pointwise(NamedTuple):
    """A kernel for every call of one signature, whatever the shapes: each thread computes `vector` elements; of tiles,
    a block computes `vector` x `vector` elements."""
    image: bytes
    function: str
    vector: int
    threads: int
