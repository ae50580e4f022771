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
    """The texts of these files, one after the other; `#include`s of ours are put in their place, each file once."""
    seen = set()

    def read(path):
        if path in seen:
            return ""
        seen.add(path)
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
        self.tensors, self.kinds, self.numbers, self.lines_before = [], [], [], []
        for name, operand in zip(names, call.operands, strict=False):
            wide = "bool" if operand.loop_dtype == "bool" else self.wide
            if operand.kind == "number":
                self._pass(name, of(operand.loop_dtype, call.name)[0], wide)
            elif operand.kind == "absent":
                self.lines_before.append(f"const Absent {name};")
            else:
                self.tensors.append((name, of(operand.dtype, call.name), wide))
                self.kinds.append(operand.kind)
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
#: elements or packs a block's width apart
_SCATTERED = """{opening}  const Index first_ = Index(blockIdx.x) * {width} + Index(threadIdx.x) * {pack};
  Index to_[{times}];
  {kept}
#pragma unroll
  for (int k_ = 0; k_ < {times}; ++k_) {{
    const Index i_ = least<Index>(first_ + k_ * {step}, n_ - {pack});
    {find}
    {loads}
  }}
#pragma unroll
  for (int k_ = 0; k_ < {times}; ++k_) {{
    if (first_ + k_ * {step} >= n_) break;
    {compute}
  }}
}}
"""
_ONE = """{each}
    out_ptr[to_[k_]] = cast<{out}>(settled_);"""
_PACK = """Pack<{out}, {pack}> out_pack;
#pragma unroll
    for (int v_ = 0; v_ < {pack}; ++v_) {{
      {each}
      out_pack.v[v_] = cast<{out}>(settled_);
    }}
    store<{pack}>(out_ptr + to_[k_], out_pack);"""
#: lanes run along the second dimension of a tile while operands go to shared memory, else along the first
_TILED = """{opening}  const Tile<Index, {count}, {side}> tile_(g_);
  const int lane_ = threadIdx.x % 32, warp_ = threadIdx.x / 32;
  {kept}
#pragma unroll
  for (int k_ = 0; k_ < {times}; ++k_) {{
    const int a_ = warp_ + k_ / {across} * {warps}, b_ = (lane_ + k_ % {across} * 32) * {pack};
    if (tile_.has(a_, b_)) {{
      {loads}
    }}
  }}
#pragma unroll
  for (int k_ = 0; k_ < {times}; ++k_) {{
    const int a_ = (lane_ + k_ % {across} * 32) * {pack}, b_ = warp_ + k_ / {across} * {warps};
    if (tile_.has(a_, b_)) {{
      {direct}
    }}
  }}
#pragma unroll
  for (int k_ = 0; k_ < {times}; ++k_) {{
    const int a_ = warp_ + k_ / {across} * {warps}, b_ = (lane_ + k_ % {across} * 32) * {pack};
    {puts}
  }}
  __syncthreads();
#pragma unroll
  for (int k_ = 0; k_ < {times}; ++k_) {{
    const int a_ = (lane_ + k_ % {across} * 32) * {pack}, b_ = warp_ + k_ / {across} * {warps};
    if (tile_.has(a_, b_)) {{
      Pack<{out}, {pack}> out_pack;
#pragma unroll
      for (int v_ = 0; v_ < {pack}; ++v_) {{
        {each}
        out_pack.v[v_] = cast<{out}>(settled_);
      }}
      store<{pack}>(out_ptr + tile_.offset(g_, 0, a_, b_), out_pack);
    }}
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
    if not aligned:
        return _scattered(s, name, index, 1, vector, "to_[k_] = i_;", lambda k: "i_")
    one = "\n      ".join(s.lines(lambda a: f"{a}_ptr[i_]"))
    loads = "\n    ".join(f"const Pack<{of[0]}, {vector}> {a}_pack = load<{vector}>({a}_ptr + first_);"
                          for a, of, _ in s.tensors)
    each = "\n      ".join(s.lines(lambda a: f"{a}_pack.v[k_]"))
    return _filled(_VECTOR, s, name, index, vector, one=one, loads=loads, each=each)


def _strided(s, name, index, pack, times):
    """Any layout: a thread finds the offsets of `times` elements, or packs of neighbours."""
    count = 1 + len(s.tensors)
    find = "walk_.go(g_, i_);\n    to_[k_] = walk_.at[0];"
    return _scattered(s, name, index, pack, times, find, lambda k: f"walk_.at[{k}]", ("Geometry g_",),
                      f"StridedWalk<Index, {count}> walk_(g_, least<Index>(first_, n_ - {pack}));\n  ")


def _scattered(s, name, index, pack, times, find, place, more=(), begin=""):
    """`times` elements or packs a thread, a block's width apart; `find` is where they are, place(k) in operand k."""
    kept, loads, at = [], [], {}
    for k, ((a, of, _), kind) in enumerate(zip(s.tensors, s.kinds, strict=True), 1):
        whole = pack > 1 and kind != "repeated"
        kept.append(f"Pack<{of[0]}, {pack}> {a}_kept[{times}];" if whole else f"{of[0]} {a}_kept[{times}];")
        loads.append(f"{a}_kept[k_] = load<{pack}>({a}_ptr + {place(k)});" if whole else
                     f"{a}_kept[k_] = {a}_ptr[{place(k)}];")
        at[a] = f"{a}_kept[k_].v[v_]" if whole else f"{a}_kept[k_]"
    each = ("\n      " if pack > 1 else "\n    ").join(s.lines(at.get))
    compute = (_PACK if pack > 1 else _ONE).format(each=each, out=s.result[0], pack=pack)
    return _filled(_SCATTERED, s, name, index, pack * times, more, find=find, pack=pack, times=times,
                   step=THREADS * pack, kept=begin + "\n  ".join(kept), loads="\n    ".join(loads), compute=compute)


def _tiled(s, name, index, side, pack):
    """A block for each tile: what runs along its second dimension is read so, and turned in shared memory. pack: how
    many neighbours are read and written at once."""
    times = side * side // (THREADS * pack)
    kept, loads, direct, puts, at = [], [], [], [], {}
    for k, ((a, of, _), kind) in enumerate(zip(s.tensors, s.kinds, strict=True), 1):
        many = 1 if kind == "repeated" else pack
        kept.append(f"Pack<{of[0]}, {many}> {a}_kept[{times}];")
        read = f"{a}_kept[k_] = load<{many}>({a}_ptr + tile_.offset(g_, {k}, a_, b_));"
        if kind == "across":  # rows of the room lie an odd number of words, or of halves, apart: no two lanes meet
            row = side + (1 if pack > 1 else max(1, 4 // of[2]))
            kept.append(f"__shared__ Pack<{of[0]}, 1> {a}_room[{side}][{row}];")
            loads.append(read)
            puts += [f"{a}_room[a_][b_ + {v}].v[0] = {a}_kept[k_].v[{v}];" for v in range(pack)]
            at[a] = f"{a}_room[a_ + v_][b_].v[0]"
        else:
            direct.append(read)
            at[a] = f"{a}_kept[k_].v[{'v_' if many > 1 else 0}]"
    lines = {"kept": "\n  ".join(kept), "puts": "\n    ".join(puts)}
    for part, inside in (("loads", loads), ("direct", direct)):
        lines[part] = "\n      ".join(inside)
    lines["each"] = "\n        ".join(s.lines(at.get))
    return _filled(_TILED, s, name, index, times, ("Geometry g_",), count=1 + len(s.tensors), side=side, times=times,
                   across=side // (32 * pack), warps=THREADS // 32, pack=pack, **lines)


#: packs of so many elements: how many of them a thread takes
_TIMES = {1: 4, 2: 4, 4: 2, 8: 2, 16: 1}


def kernel(name, call):
    """(the kernel's text without the files it stands on, elements per thread or along a tile's side)."""
    s = _Signature(call)
    if call.form == "tiled":
        turned = sum(of[2] for (_, of, _), kind in zip(s.tensors, s.kinds, strict=True) if kind == "across")
        side = 64 if turned <= 4 else 32
        return _tiled(s, name, call.index, side, max(call.vector, 1) if side == 64 else 1), side
    if call.form != "flat":
        pack = max(call.vector, 1)
        widest = max(of[2] for of in (s.result, *(of for _, of, _ in s.tensors)))
        times = 8 if pack * widest <= 2 else _TIMES[pack]
        return _strided(s, name, call.index, pack, times), pack * times
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
    with `kind` ("tensor", "number", "absent", "repeated", "across"), `dtype` and `loop_dtype`. result: the dtype of the
    tensor written. scalars: the other arguments, "int", "float" or "complex" (passed at launch), "absent", ("str",
    first letter) or ("bool", value). form: "flat" (all contiguous), "packed", "tiled" or "strided" (_calls.py says
    which). index: 32 or 64 bits for offsets. aligned, vector: what may be read at once. arch: "sm_90".
    Raises NotImplementedError where the operator or a dtype has no kernel.
    """
    function = function_of(call.name)
    body, vector = kernel(function, call)
    image = compile(text(*files_of(call.name)) + body, call.arch, call.name)
    return Pointwise(image, function, vector, THREADS)
