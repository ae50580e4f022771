"""Sequences of different lengths, padded or packed; sparse rows; rows of tables that shrink; small numeric rules."""

import math
import struct
from itertools import accumulate

from .launches import Build, Parameter, contiguous, layout, nothing, number, numel, refuse, scalar, sizes
from .plans import Number
from .sorting import Sorted

_MANY = 250  # steps of one launch: where they begin are parameters, of which there are 4 KB


def steps_of(batch_sizes):
    """(first step, parameter `steps` of where its rows begin and how many there are) for each launch."""
    begins = [0, *accumulate(batch_sizes)]
    for first in range(0, len(batch_sizes), _MANY):
        part = list(zip(begins[first:], batch_sizes[first:first + _MANY], strict=False))
        data = [v for pair in part + [(0, 0)] * (_MANY - len(part)) for v in pair]
        yield first, len(part), Parameter(f"const __grid_constant__ Steps<{_MANY}> steps",
                                          Number(struct.pack(f"<{len(data)}q", *data)))


STEPS_TEXT = "template <int N> struct Steps {\n  struct { int64_t begin, count; } of[N];\n};\n"


def _pack(call):
    x, batch_sizes, batch_first = call.args
    build, out = Build(call), call.results[0]
    width, sequences, longest = math.prod(out.shape[1:]), x.shape[not batch_first], x.shape[batch_first]
    steps, lines = (longest, 1) if batch_first else (1, sequences)  # how far apart sequences and steps lie
    source, to = build.input("x", x), build.output("out", out)
    for first, many, table in steps_of(batch_sizes):
        build.each(many * sequences * width, """  const int64_t e = i_ % width, k = i_ / width % sequences;
  const int64_t t = i_ / (width * sequences);
  const int64_t from = (k * each + (first + t) * apart) * width + e;
  if (k < steps.of[t].count) out[(steps.of[t].begin + k) * width + e] = x[from];
""", [source, to, table, *sizes(width=width, sequences=sequences, first=first, each=steps, apart=lines)],
                   index="int64_t", before=STEPS_TEXT)
    return build.plan()


def _pad(call):
    x, batch_sizes, sequences, batch_first, value, longest = call.args
    build, out = Build(call), call.results[0]
    if numel(out) == 0:
        return nothing()
    width, kind = math.prod(x.shape[1:]), build.type(out)
    each, apart = (longest, 1) if batch_first else (1, sequences)
    source, to = build.input("x", x), build.output("out", out)
    batch_sizes = [*batch_sizes, *[0] * (longest - len(batch_sizes))]
    for first, many, table in steps_of(batch_sizes):
        build.each(many * sequences * width, f"""  const int64_t e = i_ % width, k = i_ / width % sequences;
  const int64_t t = i_ / (width * sequences);
  const bool inside = k < steps.of[t].count;
  out[(k * each + (first + t) * apart) * width + e] =
      inside ? x[(steps.of[t].begin + k) * width + e] : cast<{kind}>(value);
""", [source, to, table, scalar("value", value),
      *sizes(width=width, sequences=sequences, first=first, each=each, apart=apart)], index="int64_t",
                   before=STEPS_TEXT)
    return build.plan()


# --- sparse rows ------------------------------------------------------------------------------------------------------

def _csr_mm(call):
    crow, col, values, dense = call.args
    build, out = Build(call), call.results[0]
    wide = build.wide(out)
    wide = "int64_t" if wide.endswith("_t") else wide
    build.each(numel(out), f"""  const int64_t r = i_ / columns, c = i_ % columns;
  {wide} sum = {wide}(0);
  for (int64_t k = crow[r]; k < crow[r + 1]; ++k)
    if (k >= 0 && k < entries && col[k] >= 0 && col[k] < inner)
      sum = sum + cast<{wide}>(values[k]) * cast<{wide}>(dense[int64_t(col[k]) * columns + c]);
  out[i_] = cast<{build.type(out)}>(sum);
""", [build.input("crow", crow), build.input("col", col), build.input("values", values), build.input("dense", dense),
      build.output("out", out), *sizes(columns=dense.shape[1], inner=dense.shape[0], entries=numel(col))],
               index="int64_t")
    return build.plan()


def _csr_max(call):
    crow, col, dense = call.args
    build, (out, places) = Build(call), call.results
    kind = build.type(out)
    build.each(numel(out), f"""  const int64_t r = i_ / columns, c = i_ % columns;
  int64_t place = -1;
  {kind} best = cast<{kind}>(0);
  for (int64_t k = crow[r]; k < crow[r + 1]; ++k) {{
    if (k < 0 || k >= entries || col[k] < 0 || col[k] >= inner) continue;
    const {kind} v = dense[int64_t(col[k]) * columns + c];
    if (place < 0 || v > best || (v != v && best == best)) best = v, place = col[k];
  }}
  out[i_] = best;
  places[i_] = place;
""", [build.input("crow", crow), build.input("col", col), build.input("dense", dense), build.output("out", out),
      build.output("places", places), *sizes(columns=dense.shape[1], inner=dense.shape[0], entries=numel(col))],
               index="int64_t")
    return build.plan()


#: the row of value i_: the last one that begins at or before it
_ROW = """  int64_t begin = 0, end = rows;
  while (begin < end) {
    const int64_t middle = (begin + end) / 2;
    if (crow[middle + 1] <= {place}) begin = middle + 1;
    else end = middle;
  }
"""


def _csr_sampled(call):
    crow, col, a, b = call.args
    build, out = Build(call), call.results[0]
    wide = build.wide(out)
    build.each(numel(out), f"""{_ROW.replace('{place}', 'i_')}  {wide} sum = {wide}(0);
  if (begin < rows && col[i_] >= 0 && col[i_] < others)
    for (int64_t k = 0; k < width; ++k)
      sum = sum + cast<{wide}>(a[begin * width + k]) * cast<{wide}>(b[int64_t(col[i_]) * width + k]);
  out[i_] = cast<{build.type(out)}>(sum);
""", [build.input("crow", crow), build.input("col", col), build.input("a", a), build.input("b", b),
      build.output("out", out), *sizes(rows=crow.shape[0] - 1, width=a.shape[1], others=b.shape[0])], index="int64_t")
    return build.plan()


def _csr_transpose(call):
    """A stable order of the columns; where each begins is a search in it."""
    crow, col, columns = call.args
    build, (pointers, row, was) = Build(call), call.results
    if numel(col) == 0:
        build.zeros(build.output("pointers", pointers), numel(pointers) * build.size(pointers))
        return build.plan()
    found = Sorted(build, col, 0, False)
    build.each(columns + 1, """  pointers[i_] = count_before<false>(items, 0, n, decltype(items->key)(i_), false);
""", [found.items, build.output("pointers", pointers), *sizes(n=numel(col))], index="int64_t", files=("sort.cuh",))
    build.each(numel(col), f"""  const int64_t own = items[i_].place;
{_ROW.replace('{place}', 'own')}  row[i_] = begin;
  was[i_] = own;
""", [found.items, build.input("crow", crow), build.output("row", row), build.output("was", was),
      *sizes(rows=crow.shape[0] - 1)], index="int64_t", files=("sort.cuh",))
    return build.plan()


# --- others -----------------------------------------------------------------------------------------------------------

def _renorm(call):
    """Rows that are used: noted first, so that each shrinks once; a block for each row of the table."""
    weight, index, most, order = call.args
    build, out = Build(call), call.results[0]
    rows, width = weight.shape
    if not contiguous(out):
        refuse(call, "for tables that are not contiguous")
    seen = build.room("seen", "int32_t", rows, 4)
    build.zeros(seen, rows * 4)
    build.each(numel(index), "  const int64_t r = index[i_];\n  if (r >= 0 && r < rows) seen[r] = 1;\n",
               [build.input("index", index), seen, *sizes(rows=rows)])
    operation = f"Norm<{build.type(out)}, double>"
    build.run(f"""  typedef Lanes<{operation}> Op;
  __shared__ Op::Acc room[32];
  if (!seen[blockIdx.x]) return;
  Op op;
  op.order = order;
  Op::Acc acc = op.init();
  const auto row = out + int64_t(blockIdx.x) * width;
  for (int64_t k = threadIdx.x; k < width; k += blockDim.x) acc = op.add(acc, row[k], k);
  const double norm = op.finish(combine_block(op, acc, room), width);
  if (norm <= most) return;
  for (int64_t k = threadIdx.x; k < width; k += blockDim.x)
    row[k] = cast<{build.type(out)}>(cast<double>(row[k]) * (most / (norm + 1e-7)));
""", [build.output("out", out), seen, number("double", "most", most), number("double", "order", order),
      *sizes(width=width)], rows, 128, ("reduce.cuh",))
    return build.plan()


def _frexp(call):
    x, (mantissa, exponent) = call.args[0], call.results
    build = Build(call)
    build.each(numel(x), f"""  typedef {build.wide(x)} A;
  const A v = cast<A>(x[i_]);
  const bool plain = v != A(0) && is_finite(v);
  const int power = plain ? int(ilogb(v)) + 1 : 0;
  mantissa[i_] = cast<{build.type(mantissa)}>(plain ? scalbn(v, -power) : v);
  exponent[i_] = power;
""", [build.input("x", x), build.output("mantissa", mantissa), build.output("exponent", exponent)])
    return build.plan()


def _xor_rows(call):
    x, out = call.args[0], call.results[0]
    build = Build(call)
    build.each(numel(out), """  int64_t all = 0;
  for (int64_t k = 0; k < n; ++k) all ^= x[i_ * n + k];
  out[i_] = all;
""", [build.input("x", x), build.output("out", out), *sizes(n=x.shape[1])], index="int64_t")
    return build.plan()


def _strided_backward(call):
    """The memory that a view has read, rebuilt as a row: gradients are added there, and read back as self. Elements
    of self that share an address share its gradient evenly."""
    grad, shape, strides, offset, size, stride, start = call.args
    build, out = Build(call), call.results[0]
    if numel(out) == 0:
        return nothing()
    start = offset if start is None else start
    reaches = [_reach(shape, strides, offset), *([_reach(size, stride, start)] if numel(grad) else [])]
    low, high = min(r[0] for r in reaches), max(r[1] for r in reaches)
    kind = build.type(out)
    wide, width = (build.wide(out), build.size(out)) if kind not in ("float16", "bfloat16") else ("float", 4)
    sums, uses = build.room("sums", wide, high - low + 1, width), build.room("uses", "int32_t", high - low + 1, 4)
    build.zeros(sums, (high - low + 1) * width)
    build.zeros(uses, (high - low + 1) * 4)
    seen = layout("seen", shape, strides)
    build.each(numel(grad), f"  atomic_add(sums + first + offset_of<int64_t>(i_, read), cast<{wide}>(grad[i_]));\n",
               [build.input("grad", grad), sums, layout("read", size, stride), *sizes(first=start - low)],
               index="int64_t", files=("indexing.cuh",))
    build.each(numel(out), "  atomicAdd(uses + first + offset_of<int64_t>(i_, seen), 1);\n",
               [uses, seen, *sizes(first=offset - low)], index="int64_t")
    build.each(numel(out), f"""  const int64_t at = first + offset_of<int64_t>(i_, seen);
  out[i_] = cast<{kind}>(uses[at] > 1 ? sums[at] / cast<{wide}>(uses[at]) : sums[at]);
""", [build.output("out", out), sums, uses, seen, *sizes(first=offset - low)], index="int64_t")
    return build.plan()


def _reach(size, stride, offset):
    steps = [(n - 1) * s for n, s in zip(size, stride, strict=True)]
    return offset + sum(s for s in steps if s < 0), offset + sum(s for s in steps if s > 0)


RULES = {
    "pack_rows": _pack, "pad_rows": _pad, "csr_mm": _csr_mm, "csr_max": _csr_max, "csr_sampled": _csr_sampled,
    "csr_transpose": _csr_transpose, "embedding_renorm_": _renorm, "frexp": _frexp, "xor_rows": _xor_rows,
    "as_strided_backward": _strided_backward,
}
