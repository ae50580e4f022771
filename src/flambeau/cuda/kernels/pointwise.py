"""Pointwise operators as CUDA kernels: one formula each, from its record, in a loop that is the same for all."""

import re
from functools import cache
from pathlib import Path

from ...ops.kinds import FACTS, FORMULAS
from .compiling import compile
from .plans import Pointwise

#: dtype -> (C++ type in memory, C++ type it is computed in, bytes)
TYPES = {
    "bool": ("bool", "bool", 1), "uint8": ("uint8_t", "uint8_t", 1), "int8": ("int8_t", "int8_t", 1),
    "int16": ("int16_t", "int16_t", 2), "uint16": ("uint16_t", "uint16_t", 2), "int32": ("int32_t", "int32_t", 4),
    "uint32": ("uint32_t", "uint32_t", 4), "int64": ("int64_t", "int64_t", 8), "uint64": ("uint64_t", "uint64_t", 8),
    "float16": ("float16", "float", 2), "bfloat16": ("bfloat16", "float", 2), "float32": ("float", "float", 4),
    "float64": ("double", "double", 8), "complex64": ("complex64", "complex64", 8),
    "complex128": ("complex128", "complex128", 16), "float8_e4m3fn": ("float8_e4m3fn", "float", 1),
    "float8_e5m2": ("float8_e5m2", "float", 1), "float8_e4m3fnuz": ("float8_e4m3fnuz", "float", 1),
    "float8_e5m2fnuz": ("float8_e5m2fnuz", "float", 1), "float8_e8m0fnu": ("float8_e8m0fnu", "float", 1),
    "complex32": ("complex32", "complex64", 4),
}
THREADS = 256
_FOLDER = Path(__file__).parent


@cache
def text(*names):
    """The texts of these files, one after the other; `#include`s of ours are put in their place."""
    def read(path):
        return re.sub(r'#include "(.*)"\n', lambda m: read(path.parent / m[1]), path.read_text())
    return "".join(read(_FOLDER / name) for name in names)


def names_of(op):
    """The names of an operator's arguments, in order."""
    inside = FACTS[op][1].partition("(")[2].rpartition(") ->")[0]
    parts = [p.strip() for p in re.split(r",(?![^\[\(]*[\]\)])", inside)]
    return [p.split("=")[0].split()[-1] for p in parts if p and p != "*"]


def formula_of(op):
    """The record's formula. Raises NotImplementedError where the record has none."""
    try:
        return FORMULAS[op]
    except KeyError:
        raise NotImplementedError(f"{op} has no CUDA kernel yet: its record in flambeau.ops has no formula "
                                  "(`cuda=`); move the tensor to the CPU by .cpu()") from None


def type_of(dtype, op):
    """The row of TYPES. Raises NotImplementedError for dtypes that no kernel computes with."""
    try:
        return TYPES[dtype]
    except KeyError:
        raise NotImplementedError(f"{op} has no CUDA kernel yet for dtype {dtype}; convert the tensor to another "
                                  "dtype first") from None


#: what native code asks for beside operators: name -> (arguments, formula)
_MOVES = {"copy": (["self"], "self"), "fill": (["value"], "value")}
_PASSED = {"int": "int64_t", "float": "double", "complex": "complex128"}


def _bits(dtype, op):
    """The type that moves elements of a dtype unchanged."""
    if dtype == "float4_e2m1fn_x2":  # two numbers in a byte, which nothing computes with one by one
        dtype = "uint8"
    storage, wide, size = type_of(dtype, op)
    whole = f"uint{8 * size}_t"
    return (storage, wide, size) if size > 8 else (whole, whole, size)


class _Signature:
    """A pointwise call without its shapes: what is read, what is passed, what is compiled in."""

    def __init__(self, call):
        names, self.formula = _MOVES.get(call.name) or (names_of(call.name), formula_of(call.name))
        moved = call.name in _MOVES and call.compute == call.result  # no arithmetic: any dtype, bit by bit
        of = _bits if moved else type_of
        self.storage, self.wide, _ = of(call.compute, call.name)
        self.result = of(call.result, call.name)
        self.tensors, self.numbers, self.lines_before = [], [], []
        for name, operand in zip(names, call.operands, strict=False):
            wide = "bool" if operand.loop_dtype == "bool" else self.wide
            if operand.kind == "tensor":
                self.tensors.append((name, of(operand.dtype, call.name), wide))
            elif operand.kind == "number":
                self._pass(name, of(operand.loop_dtype, call.name)[0], wide)
            else:
                self.lines_before.append(f"const Absent {name};")
        for name, scalar in zip(names[len(call.operands):], call.scalars, strict=True):
            self._scalar(name, scalar)

    def _pass(self, name, storage, wide):
        self.numbers.append((name, storage))
        self.lines_before.append(f"const {wide} {name} = cast<{wide}>({name}_number);")

    def _scalar(self, name, scalar):
        if scalar == "absent":  # a string that the formula takes as a constant is the letter 0
            letter = f"<{name}>" in self.formula
            self.lines_before.append(f"constexpr char {name} = 0;" if letter else f"const Absent {name};")
        elif scalar in _PASSED:
            self._pass(name, _PASSED[scalar], self.wide)
        else:
            kind, value = scalar
            self.lines_before.append(f"constexpr char {name} = '{value}';" if kind == "str" else
                                     f"constexpr bool {name} = {str(bool(value)).lower()};")

    def lines(self, load):
        """The body for one element: operands read by load(name), then the formula's value."""
        for name, _, wide in self.tensors:
            yield f"const {wide} {name} = cast<{wide}>({load(name)});"
        yield f"auto value_ = {self.formula};"
        yield "auto settled_ = settle<T>(value_);"

    def parameters(self, *more):
        pointers = [f"{self.result[0]}* out_ptr", *(f"const {of[0]}* {name}_ptr" for name, of, _ in self.tensors)]
        numbers = [f"{storage} {name}_number" for name, storage in self.numbers]
        return ", ".join([*pointers, *more, "int64_t count_", *numbers])


_OPENING = """extern "C" __global__ void __launch_bounds__({threads}) {name}({parameters}) {{
  typedef {wide} T;
  typedef {storage} S;
  typedef {index} Index;
  const Index n_ = Index(count_);
{before}"""
_SINGLE = """{opening}  const Index first_ = Index(blockIdx.x) * {width} + threadIdx.x;
#pragma unroll
  for (int k_ = 0; k_ < {vector}; ++k_) {{
    const Index i_ = first_ + k_ * {threads};
    if (i_ < n_) {{
      {one}
      out_ptr[i_] = cast<{out}>(settled_);
    }}
  }}
}}
"""
_VECTOR = """{opening}  const Index first_ = (Index(blockIdx.x) * {threads} + threadIdx.x) * {vector};
  if (first_ + {vector} <= n_) {{
    {loads}
    Pack<{out}, {vector}> out_pack;
#pragma unroll
    for (int k_ = 0; k_ < {vector}; ++k_) {{
      {each}
      out_pack.v[k_] = cast<{out}>(settled_);
    }}
    store<{vector}>(out_ptr + first_, out_pack);
  }} else {{
    for (Index i_ = first_; i_ < n_; ++i_) {{
      {one}
      out_ptr[i_] = cast<{out}>(settled_);
    }}
  }}
}}
"""
_STRIDED = """{opening}  const Index first_ = Index(blockIdx.x) * {width} + threadIdx.x;
#pragma unroll
  for (int k_ = 0; k_ < {vector}; ++k_) {{
    const Index i_ = first_ + k_ * {threads};
    if (i_ >= n_) break;
    Index at_[{count}];
    offsets_of<Index, {count}>(g_, i_, at_);
    {each}
    out_ptr[at_[0]] = cast<{out}>(settled_);
  }}
}}
"""


def _filled(template, s, name, index, vector, more=(), **parts):
    out = s.result[0]
    opening = _OPENING.format(threads=THREADS, name=name, parameters=s.parameters(*more), wide=s.wide,
                              storage=s.storage, index=f"int{index}_t",
                              before="".join(f"  {line}\n" for line in s.lines_before))
    return template.format(opening=opening, out=out, vector=vector, threads=THREADS, width=THREADS * vector, **parts)


def _flat(s, name, index, aligned, vector):
    """All operands contiguous: a vector of each per thread, or single elements a block's width apart."""
    one = "\n      ".join(s.lines(lambda a: f"{a}_ptr[i_]"))
    if not aligned:
        return _filled(_SINGLE, s, name, index, vector, one=one)
    loads = "\n    ".join(f"const Pack<{of[0]}, {vector}> {a}_pack = load<{vector}>({a}_ptr + first_);"
                          for a, of, _ in s.tensors)
    each = "\n      ".join(s.lines(lambda a: f"{a}_pack.v[k_]"))
    return _filled(_VECTOR, s, name, index, vector, one=one, loads=loads, each=each)


def _strided(s, name, index, vector):
    """Any layout: each element's offsets come from its place, `vector` of them a block's width apart per thread."""
    place = {a: f"{a}_ptr[at_[{k + 1}]]" for k, (a, *_) in enumerate(s.tensors)}
    count = 1 + len(s.tensors)
    each = "\n    ".join(s.lines(place.get))
    return _filled(_STRIDED, s, name, index, vector, ("Geometry g_",), each=each, count=count)


def kernel(name, call):
    """(the kernel's text without the files it stands on, elements per thread)."""
    s = _Signature(call)
    if call.form == "strided":
        return _strided(s, name, call.index, 4), 4
    vector = max(1, 16 // max(of[2] for of in (s.result, *(of for _, of, _ in s.tensors))))
    return _flat(s, name, call.index, call.aligned, vector), vector


#: what formulas of special functions begin with -> the file that has them
_SPECIAL = ("polygamma_", "digamma_", "zeta_", "ndtri_", "log_ndtr_", "erfcx_", "modified_", "scaled_i", "bessel_",
            "spherical_", "airy", "incomplete_", "chebyshev", "hermite", "laguerre", "legendre", "gamma_slope",
            "share_slope")


def files_of(op):
    """The files whose functions the formula uses."""
    formula = FORMULAS.get(op, "")
    special = ("special.cuh",) if any(word in formula for word in _SPECIAL) else ()
    return ("prelude.cuh", "functions.cuh", "complex.cuh", *special, "pointwise.cuh")


def function_of(name):
    """What the kernel of an operator is called, as profilers show it."""
    return re.sub(r"\W", "_", name).strip("_") + "_kernel"


def lower_pointwise(call):
    """The kernel of a pointwise call, whose signature `call` is:

    name: the operator, or "copy" and "fill". compute: the dtype it computes in (halves: in float32). operands: each
    with `kind` ("tensor", "number", "absent"), `dtype` and `loop_dtype`. result: the dtype of the tensor written.
    scalars: the other arguments, "int", "float" or "complex" (passed at launch), "absent", ("str", first letter) or
    ("bool", value). form: "flat" (all contiguous) or "strided". index: 32 or 64 bits for offsets. aligned: whether
    all addresses are multiples of 16 bytes. arch: "sm_90".
    Raises NotImplementedError where the operator or a dtype has no kernel.
    """
    function = function_of(call.name)
    body, vector = kernel(function, call)
    image = compile(text(*files_of(call.name)) + body, call.arch, call.name)
    return Pointwise(image, function, vector, THREADS)
