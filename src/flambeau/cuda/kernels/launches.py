"""What lowering functions share: layouts and numbers as kernel parameters, and one launch from its text."""

import math
import struct
from typing import NamedTuple

from .._calls import ElementwiseCall, Operand
from .arranging import DIMS, arrange, geometry
from .arranging import collapse as collapse
from .compiling import compile
from .plans import Fill, Launch, Number, Plan, Pointer, Pointwise, Scratch, Seed
from .pointwise import THREADS, files_of, function_of, kernel, text, type_of

#: files that kernels of rows stand on
FILES = ("prelude.cuh", "functions.cuh", "complex.cuh", "blocks.cuh")


class Parameter(NamedTuple):
    """One kernel parameter: its declaration, and what is passed."""
    declaration: str
    value: object


def number(kind, name, value):
    """A number of a C++ type: int64_t, int32_t, double or float."""
    code = {"int64_t": "<q", "int32_t": "<i", "double": "<d", "float": "<f", "uint64_t": "<Q"}[kind]
    return Parameter(f"{kind} {name}", Number(struct.pack(code, value)))


def scalar(name, value):
    """A number of the call: whole (of 2**63 and more, too), double or complex."""
    if isinstance(value, complex):
        return Parameter(f"complex128 {name}", Number(struct.pack("<2d", value.real, value.imag)))
    if isinstance(value, int):
        return number("int64_t" if value < 2**63 else "uint64_t", name, int(value))
    return number("double", name, value)


def layout(name, sizes, strides):
    """A Layout<N>; without dimensions it has one of size 1."""
    sizes, strides = list(sizes) or [1], list(strides) or [0]
    data = struct.pack(f"<{2 * len(sizes)}q", *sizes, *strides)
    return Parameter(f"const Layout<{len(sizes)}> {name}", Number(data))


def tensor(name, info, op, written=False):
    """A tensor's address, as a pointer to its elements."""
    const = "" if written else "const "
    return Parameter(f"{const}{type_of(info.dtype, op)[0]}* {name}", Pointer(info.k))


def launch(call, body, parameters, grid, threads, files=(), before="", name=None):
    """The launch of `body`, whose text must not depend on sizes: as parameters they let one image serve all shapes."""
    function = function_of(name or call.name)
    declarations = ",\n    ".join(p.declaration for p in parameters)
    if any(isinstance(p.value, Seed) for p in parameters):
        body = f"  const Drawn from(given_);\n{body}"
    source = (f'{text(*FILES, *files)}{before}extern "C" __global__ void __launch_bounds__({threads}) {function}(\n'
              f"    {declarations}) {{\n{body}}}\n")
    grid = (grid,) if isinstance(grid, int) else tuple(grid)
    if grid[0] >= 2**31 or any(n >= 2**16 for n in grid[1:]):
        refuse(call, "for so many rows: a launch has up to 2**31 - 1 blocks")
    return Launch(compile(source, call.arch, call.name), function, (*grid, 1, 1)[:3], (threads, 1, 1), 0,
                  tuple(p.value for p in parameters))


def index_type(*infos, numel=0):
    """int32_t where every offset in elements fits, else int64_t."""
    def reach(info):
        return sum((size - 1) * abs(stride) for size, stride in zip(info.shape, info.strides, strict=True)) + 1
    far = max([numel, *(reach(info) for info in infos if 0 not in info.shape)])
    return "int32_t" if far < 2**30 else "int64_t"


def blocks(n, threads):
    return max(1, math.ceil(n / threads))


def power_of_two(x):
    """The smallest that is not less."""
    return 1 << max(0, math.ceil(math.log2(x))) if x > 1 else 1


def contiguous(info):
    """Whether elements lie in row-major order without gaps."""
    step = 1
    for size, stride in zip(reversed(info.shape), reversed(info.strides), strict=True):
        if size != 1 and stride != step:
            return False
        step *= size
    return True


def begin_aligned(*infos):
    """Whether all operands, in place or copied into row-major order, begin at a multiple of 16 bytes."""
    return all(info.aligned or not contiguous(info) for info in infos)  # copies do


def numel(info):
    return math.prod(info.shape)


def nothing():
    """The plan of a call without elements."""
    return Plan(())


def refuse(call, why):
    raise NotImplementedError(f"{call.name} has no CUDA kernel yet {why}; move the tensors to the CPU by .cpu()")


class Place(NamedTuple):
    """Where elements are that are copied: a Pointer or Scratch, their dtype, strides, and whether it is a multiple of
    16."""
    value: object
    dtype: str
    strides: tuple
    aligned: bool


def _place(info):
    return Place(Pointer(info.k), info.dtype, info.strides, info.aligned)


#: what moves elements of a size unchanged
_PLAIN = {1: "uint8", 2: "int16", 4: "int32", 8: "int64", 16: "complex128"}


#: each thread of such a launch computes element i_
_EACH = """  typedef {index} Index;
  const Index i_ = Index(blockIdx.x) * {threads} + threadIdx.x;
  if (i_ >= Index(n_)) return;
{body}"""


class Build:
    """A plan as it grows: operands laid out contiguously for kernels that want them so, results put in their places."""

    def __init__(self, call):
        self.call, self.steps, self.scratch_sizes, self._after = call, [], [], []

    def scratch(self, nbytes):
        self.scratch_sizes.append(max(int(nbytes), 1))
        return Scratch(len(self.scratch_sizes) - 1)

    def room(self, name, kind, count, size):
        """Scratch memory for `count` elements of a C++ type of `size` bytes, as a parameter."""
        return Parameter(f"{kind}* {name}", self.scratch(count * size))

    def zeros(self, parameter, nbytes):
        self.steps.append(Fill(parameter.value, 0, nbytes))

    def type(self, info):
        return type_of(info.dtype, self.call.name)[0]

    def wide(self, info):
        return type_of(info.dtype, self.call.name)[1]

    def size(self, info):
        return type_of(info.dtype, self.call.name)[2]

    def input(self, name, info):
        """A pointer to the operand's elements in row-major order: the tensor itself, or a copy."""
        return tensor(name, info, self.call.name) if contiguous(info) else self.packed(name, info)

    def packed(self, name, info):
        """A pointer to a copy of the operand's elements in row-major order."""
        return self.input_as(name, info, row_major(info.shape))

    def input_as(self, name, info, strides):
        """A pointer to a copy of the operand's elements by strides that leave no gaps."""
        kind = self.type(info)
        packed = self.room(name, kind, numel(info), self.size(info))
        self._copy(Place(packed.value, info.dtype, strides, True), _place(info), info.shape)
        return Parameter(f"const {kind}* {name}", packed.value)

    def optional(self, name, info, like):
        """The same for an operand that may be absent: a null pointer of the type of `like`."""
        if info is not None:
            return self.input(name, info)
        return Parameter(f"const {self.type(like)}* {name}", Number(bytes(8)))

    def output(self, name, info):
        """A pointer where the result's elements are written in row-major order."""
        if contiguous(info):
            return tensor(name, info, self.call.name, True)
        return self.output_as(name, info, row_major(info.shape))

    def _copy(self, out, x, shape):
        """Elements of a dtype from one Place to another."""
        if 0 in shape:
            return
        dtype = _PLAIN[type_of(x.dtype, self.call.name)[2]]
        item = type_of(dtype, self.call.name)[2]
        made = arrange(shape, [out.strides, x.strides], [item] * 2, [0 if p.aligned else item for p in (out, x)])
        call = ElementwiseCall("copy", made.form, (Operand(made.kinds[0], dtype, dtype),), dtype, dtype, dtype, (),
                               made.index, out.aligned and x.aligned, self.call.arch, made.vector)
        function = function_of(call.name)
        body, vector = kernel(function, call)
        image = compile(text(*files_of(call.name)) + body, call.arch, self.call.name)
        self._launch_copy(Pointwise(image, function, vector, THREADS), made, out.value, x.value, item)

    def _launch_copy(self, kernel, made, out, x, item):
        """Once for each place of the dimensions that a Geometry does not hold."""
        *inner, outer = made.sizes
        if len(inner) >= DIMS:
            steps = [s[-1] * item for s in made.strides]
            made = made._replace(sizes=inner, strides=[s[:-1] for s in made.strides])
            for k in range(outer):
                to, source = (p._replace(byte_offset=p.byte_offset + k * step)
                              for p, step in zip((out, x), steps, strict=True))
                self._launch_copy(kernel, made, to, source, item)
            return
        walk = [] if made.form == "flat" else [Number(geometry(made.sizes, made.strides))]
        n, blocks = math.prod(made.sizes), made.blocks(kernel.vector, kernel.threads)
        if blocks >= 2**31:
            refuse(self.call, "for so many elements: a launch has up to 2**31 - 1 blocks")
        self.steps.append(Launch(kernel.image, kernel.function, (blocks, 1, 1), (kernel.threads, 1, 1), 0,
                                 (out, x, *walk, Number(struct.pack("<q", n)))))

    def move(self, out, x):
        """The elements of a tensor into another of its shape and dtype, whatever their strides."""
        self._copy(_place(out), _place(x), x.shape)

    def spread(self, out, strides, x):
        """The elements of a tensor into memory that a parameter points to, by these strides."""
        aligned = isinstance(out.value, Scratch) and out.value.byte_offset % 16 == 0
        self._copy(Place(out.value, x.dtype, strides, aligned), _place(x), x.shape)

    def output_as(self, name, info, strides):
        """A pointer where the result's elements are written by strides that leave no gaps, to be moved afterwards."""
        kind = self.type(info)
        packed = self.room(name, kind, numel(info), self.size(info))
        self._after.append((_place(info), Place(packed.value, info.dtype, strides, True), info.shape))
        return packed

    def copy(self, out, x, n, to, source):
        """Elements of one C++ type to another, both in row-major order."""
        self.each(n, f"  out[i_] = cast<{to}>(x[i_]);\n", [Parameter(f"{to}* out", out),
                                                         Parameter(f"const {source}* x", x)])

    def each(self, n, body, parameters, index=None, files=(), threads=256, before="", name=None):
        """A launch whose threads compute one element each; `body` knows it as i_."""
        if n == 0:
            return
        index = index or ("int32_t" if n < 2**30 else "int64_t")
        body = _EACH.format(index=index, threads=threads, body=body)
        self.run(body, [number("int64_t", "n_", n), *parameters], blocks(n, threads), threads, files, before, name)

    def run(self, body, parameters, grid, threads, files=(), before="", name=None):
        """A launch of `body`; profilers see it under the operator's name, or another."""
        self.steps.append(launch(self.call, body, parameters, grid, threads, files, before, name))

    def plan(self):
        for copied in self._after:
            self._copy(*copied)
        return Plan(tuple(self.steps), tuple(self.scratch_sizes))


def row_major(shape):
    """The strides of a contiguous tensor."""
    strides, step = [], 1
    for size in reversed(shape):
        strides.append(step)
        step *= max(size, 1)
    return strides[::-1]


def sizes(**named):
    """int64_t parameters by name."""
    return [number("int64_t", name, value) for name, value in named.items()]


def flag(value):
    """A truth value as C++ writes it."""
    return "true" if value else "false"


def pointed_at(parameter):
    """The C++ type of what a parameter points to."""
    return parameter.declaration.split("*")[0]
