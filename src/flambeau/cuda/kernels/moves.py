"""Elements that change places or come from nowhere: joining, turning, padding, triangles, ranges."""

import math
import struct
from typing import NamedTuple

from ...ops.dims import wrap_dim, wrap_dims
from .launches import (
    Build,
    Parameter,
    Place,
    blocks,
    collapse,
    index_type,
    layout,
    nothing,
    number,
    numel,
    row_major,
    scalar,
    sizes,
    tensor,
)
from .places import row_shift
from .plans import Number, Pointer

_WHOLE = ("bool", "uint8", "int8", "int16", "uint16", "int32", "uint32", "int64", "uint64")


#: tensors that one launch joins at most
_TOGETHER = 16


class _Piece(NamedTuple):
    """A tensor that is joined, as rows that are runs both there and in the result: how many, how long, how far apart
    there and here. offset: where it begins in the result."""
    info: object
    offset: int
    rows: int
    run: int
    step: int
    to: int


def _joined(stack):
    def rule(call):
        tensors, dim = call.args
        build, out = Build(call), call.results[0]
        dim, at, pieces = wrap_dim(dim, len(out.shape), call.name), 0, []
        for info in tensors:
            if stack:
                shape = [*info.shape[:dim], 1, *info.shape[dim:]]
                strides = [*info.strides[:dim], 0, *info.strides[dim:]]
            else:
                shape, strides = list(info.shape), list(info.strides)
            if 0 in shape:  # also one of no elements and one dimension among others, which joins anything
                continue
            if (piece := _piece(info, at * out.strides[dim], shape, out.strides, strides)) and info.dtype == out.dtype:
                pieces.append(piece)
            else:
                _join_one(build, out, at * out.strides[dim], info, shape, strides)
            at += shape[dim]
        for k in range(0, len(pieces), _TOGETHER):
            _join(build, out, pieces[k:k + _TOGETHER])
        return build.plan()
    return rule


def _piece(info, offset, shape, to, source):
    """None where its rows do not lie at one distance."""
    merged, to, source = collapse(shape, to, source)
    run = merged.pop() if merged and to[-1] == source[-1] == 1 else 1
    if len(merged) > 1:
        return None
    return _Piece(info, offset, merged[0] if merged else 1, run, source[0] if merged else 0, to[0] if merged else 0)


def _join_one(build, out, offset, info, shape, strides):
    """A tensor of any strides and dtype."""
    size, kind = build.size(out), build.type(out)
    where = Pointer(out.k, offset * size)
    if info.dtype == out.dtype:
        build._copy(Place(where, out.dtype, out.strides, out.aligned and offset * size % 16 == 0),
                    Place(Pointer(info.k), info.dtype, strides, info.aligned), shape)
        return
    merged, to, source = collapse(shape, out.strides, strides)
    build.each(math.prod(shape), f"  out[offset_of(i_, to)] = cast<{kind}>(x[offset_of(i_, source)]);\n",
               [tensor("out", out, build.call.name, True)._replace(value=where), tensor("x", info, build.call.name),
                layout("to", merged, to), layout("source", merged, source)], index_type(out, info))


def _join(build, out, pieces):
    """One launch: blocks go by rows, by parts of long rows, and by tensors."""
    kind, size = build.type(out), build.size(out)
    pack = math.gcd(16 // size, *(n for p in pieces for n in (p.run, p.offset, p.step, p.to)),
                    16 if all(info.aligned for info in (out, *(p.info for p in pieces))) else 1)
    packs = [p.run // pack for p in pieces]
    shifts = [row_shift(n) for n in packs]
    across = max(blocks(p.rows, 256 >> shift) for p, shift in zip(pieces, shifts, strict=True))
    parts = max(blocks(n, 4 << shift) for n, shift in zip(packs, shifts, strict=True))
    many = 1 << (len(pieces) - 1).bit_length()  # of which kernels have a text
    rows = [[p.offset for p in pieces], [p.rows for p in pieces], packs, [p.step for p in pieces],
            [p.to for p in pieces], shifts]
    data = b"".join(struct.pack(f"<{many}q", *row, *[0] * (many - len(row))) for row in rows)
    given = [Parameter(f"const {kind}* x{k}", Pointer(pieces[min(k, len(pieces) - 1)].info.k)) for k in range(many)]
    build.run(f"""  typedef {index_type(out, *(p.info for p in pieces))} Index;
  const int k_ = blockIdx.z;
  const {kind}* x = x0;
{"".join(f"  if (k_ == {k}) x = x{k};{chr(10)}" for k in range(1, many))}\
  const RowWalk<Index> walk(joined.packs[k_], joined.shift[k_]);
  if (walk.row >= Index(joined.rows[k_])) return;
  copy_row<{pack}>(walk, x + walk.row * Index(joined.step[k_]),
                   out + Index(joined.offset[k_]) + walk.row * Index(joined.to[k_]), true);
""", [tensor("out", out, build.call.name, True), *given,
      Parameter(f"const __grid_constant__ Joined<{many}> joined", Number(data))],
              (across, min(parts, 2**16 - 1), len(pieces)), 256, ("indexing.cuh", "moves.cuh"))


def _places(call, x, out, text, more=()):
    """out[place] = x[text], where `text` are statements that change the coordinates `place`."""
    build, rank = Build(call), max(len(x.shape), 1)
    if numel(out) == 0:
        return nothing()
    build.each(numel(out), f"""  Index place[{rank}];
  unravel(i_, shape, place);
  const Index own = offset(to, place);
{text}  out[own] = x[offset(from, place)];
""", [tensor("x", x, call.name), tensor("out", out, call.name, True), layout("shape", out.shape, out.strides),
      layout("to", out.shape, out.strides), layout("from", x.shape, x.strides), *more], index_type(x, out))
    return build.plan()


def _flip(call):
    x, dims = call.args
    dims = wrap_dims(dims, len(x.shape), call.name) if x.shape else []
    return _places(call, x, call.results[0],
                   "".join(f"  place[{d}] = Index(shape.size[{d}]) - 1 - place[{d}];\n" for d in dims))


def _roll(call):
    x, shifts, dims = call.args
    if not x.shape or numel(x) == 0:
        return _places(call, x, call.results[0], "")
    if not dims:  # as one row
        build, n = Build(call), numel(x)
        build.each(n, "  out[i_] = x[(i_ + by) % n];\n",
                   [build.input("x", x), build.output("out", call.results[0]), *sizes(by=-sum(shifts) % n, n=n)],
                   index="int64_t")
        return build.plan()
    by = {}
    for shift, d in zip(shifts, dims, strict=True):
        d = wrap_dim(d, len(x.shape), call.name)
        by[d] = (by.get(d, 0) - shift) % x.shape[d]
    text = "".join(f"  place[{d}] = Index((place[{d}] + by{d}) % shape.size[{d}]);\n" for d in by)
    return _places(call, x, call.results[0], text, sizes(**{f"by{d}": v for d, v in by.items()}))


def _triangle(upper):
    def rule(call):
        x, diagonal = call.args
        build, out = Build(call), call.results[0]
        keeps = "column - row >= diagonal" if upper else "column - row <= diagonal"
        build.each(numel(out), f"""  const int64_t row = i_ / columns % rows, column = i_ % columns;
  out[i_] = {keeps} ? x[i_] : {build.type(x)}();
""", [build.input("x", x), build.output("out", out), *sizes(rows=x.shape[-2], columns=x.shape[-1], diagonal=diagonal)])
        return build.plan()
    return rule


def _triangle_indices(upper):
    """Row-major order: each row's first element is found by a search over how many come before it."""
    def rule(call):
        rows, columns, offset = call.args[:3]
        build, out = Build(call), call.results[0]
        n = out.shape[1]
        first = "(r + offset > 0 ? r + offset : 0)" if upper else "0"
        last = "columns" if upper else "(r + offset < 0 ? 0 : r + offset + 1 < columns ? r + offset + 1 : columns)"
        build.each(n, f"""  int64_t rest = i_, r = 0;
  for (; r < rows; ++r) {{
    const int64_t first = {first}, last = {last};
    const int64_t many = last > first ? last - first : 0;
    if (rest < many) {{
      out[i_] = r;
      out[n + i_] = first + rest;
      return;
    }}
    rest -= many;
  }}
""", [build.output("out", out), *sizes(rows=rows, columns=columns, offset=offset, n=n)])
        return build.plan()
    return rule


# --- padding ----------------------------------------------------------------------------------------------------------

def _pads(pad, ndim):
    """Elements before each padded dimension, by dimension."""
    return {ndim - 1 - k: pad[2 * k] for k in range(len(pad) // 2)}


def _constant_pad(call):
    x, pad, value = call.args
    build, out = Build(call), call.results[0]
    rank, before = max(len(x.shape), 1), _pads(pad, len(x.shape))
    if numel(out) == 0:
        return nothing()
    kind = build.type(out)
    test = " && ".join(f"place[{d}] >= 0 && place[{d}] < Index(from.size[{d}])" for d in range(len(x.shape))) or "true"
    build.each(numel(out), f"""  Index place[{rank}];
  unravel(i_, to, place);
  const Index own = offset(to, place);
{"".join(f"  place[{d}] -= Index(before{d});" + chr(10) for d in before)}\
  out[own] = {test} ? x[offset(from, place)] : cast<{kind}>(value);
""", [tensor("x", x, call.name), tensor("out", out, call.name, True), layout("to", out.shape, out.strides),
      layout("from", x.shape, x.strides), scalar("value", value),
      *sizes(**{f"before{d}": v for d, v in before.items()})], index_type(x, out))
    return build.plan()


_MODES = {
    "circular": "(at % n + n) % n", "replicate": "at < 0 ? 0 : at < n ? at : n - 1",
    "reflect": "n - 1 - abs_of(n - 1 - abs_of(at))",
}


def _border(backward):
    """Padding by the tensor's own elements: each output element has a place it comes from, and goes back to."""
    def rule(call):
        given, pad, mode = call.args[0], call.args[-2], call.args[-1]
        build, result = Build(call), call.results[0]
        wide_shape, own_shape = (given.shape, result.shape) if backward else (result.shape, given.shape)
        rank, before = len(wide_shape), _pads(pad, len(wide_shape))
        if numel(result) == 0 or numel(given) == 0:
            return nothing()
        text = "".join(f"  {{\n    const int64_t at = place[{d}] - before{d}, n = own.size[{d}];\n"
                       f"    place[{d}] = Index({_MODES[mode]});\n  }}\n" for d in before)
        own = layout("own", own_shape, row_major(own_shape))
        head = f"  Index place[{rank}];\n  unravel(i_, wide, place);\n{text}"
        given_at = [layout("wide", wide_shape, [0] * rank), own,
                    *sizes(**{f"before{d}": v for d, v in before.items()})]
        if not backward:
            build.each(numel(result), f"{head}  out[i_] = x[offset(own, place)];\n",
                       [build.input("x", given), build.output("out", result), *given_at], files=("moves.cuh",))
            return build.plan()
        sums, finish = accumulator(build, result)
        build.each(numel(given), f"{head}  atomic_add(sums + offset(own, place), "
                   f"cast<{sums.declaration.split('*')[0]}>(x[i_]));\n",
                   [build.input("x", given), sums, *given_at], files=("indexing.cuh", "moves.cuh"))
        finish()
        return build.plan()
    return rule


def accumulator(build, info, settled="cast<{kind}>({value})", narrow=("float16", "bfloat16"), made=None):
    """(zeroed memory named `sums` of the shape of a result, what puts it there): halves are summed in float, and what
    else is `narrow`; `settled` makes an element of a sum. made: where the result goes, in the order of the sums."""
    kind = build.type(info)
    if kind not in narrow:
        out = Parameter(f"{kind}* sums", (made or build.output("sums", info)).value)
        build.zeros(out, numel(info) * build.size(info))
        return out, lambda: None
    room = build.room("sums", "float", numel(info), 4)
    build.zeros(room, numel(info) * 4)
    return room, lambda: _settle(build, info, room, kind, settled, made or build.output("out", info))


def _settle(build, info, room, kind, settled, out):
    """Sums in float become elements of a result, eight at a time where it can take them so."""
    n = numel(info)
    aligned = info.aligned or not isinstance(out.value, Pointer)
    if kind not in ("float16", "bfloat16") or n % 8 or not aligned:
        build.each(n, f"  out[i_] = {settled.format(kind=kind, value='sums[i_]')};\n", [out, room])
        return
    build.each(n // 8, f"""  const Pack<float, 4> low = load<4>(sums + i_ * 8), high = load<4>(sums + i_ * 8 + 4);
  Pack<{kind}, 8> own;
#pragma unroll
  for (int j = 0; j < 8; ++j) {{
    const float v = j < 4 ? low.v[j & 3] : high.v[j & 3];
    own.v[j] = {settled.format(kind=kind, value='v')};
  }}
  store<8>(out + i_ * 8, own);
""", [out, room])


def _unfold_backward(call):
    """Windows of `size` elements, `step` apart along `dim`, are added to where they came from."""
    grad, _, dim, _, step = call.args
    build, out, rank = Build(call), call.results[0], max(len(call.results[0].shape), 1)
    sums, finish = accumulator(build, out)
    dim = wrap_dim(dim, rank, call.name)
    strides = [*row_major(out.shape), 1] if out.shape else [1, 1]
    strides[dim] *= step
    strides[-1] = row_major(out.shape)[dim] if out.shape else 1
    build.each(numel(grad), f"  atomic_add(sums + offset_of(i_, to), cast<{sums.declaration.split('*')[0]}>(x[i_]));\n",
               [build.input("x", grad), sums, layout("to", grad.shape, strides[:len(grad.shape)])],
               index_type(out, numel=max(numel(grad), numel(out))), files=("indexing.cuh",))
    finish()
    return build.plan()


# --- ranges -----------------------------------------------------------------------------------------------------------

def _arange(call):
    start, end, step = call.args[:3]
    if end is None:
        start = 0
    out, build = call.results[0], Build(call)
    if isinstance(start, complex) or isinstance(step, complex):
        raise NotImplementedError("arange has no CUDA kernel yet for complex numbers")
    of = "double"
    if out.dtype in _WHOLE:  # both are truncated first; beyond 2**63 the bits are those of uint64
        of, start, step = "int64_t", *((int(v) + 2**63) % 2**64 - 2**63 for v in (start, step))
    build.each(numel(out), f"  out[i_] = cast<{build.type(out)}>(start + {of}(i_) * step);\n",
               [build.output("out", out), number(of, "start", start), number(of, "step", step)])
    return build.plan()


def _linspace(log):
    """From both ends inwards, so that the last element is exactly `end`."""
    def rule(call):
        start, end = call.args[:2]
        out, build = call.results[0], Build(call)
        whole, is_complex = out.dtype in _WHOLE, out.dtype.startswith("complex")
        if whole and not log:
            start, end = int(start), int(end)
        wide = "double" if whole or out.dtype in ("float64", "complex128") else "float"

        def given(name, value):
            return scalar(name, complex(value)) if is_complex else number("double", name, value)
        power = "power" if is_complex else "pow"
        value = f"{power}(A(cast<A>(base)), v)" if log else "v"
        build.each(numel(out), f"""  typedef {f"Complex<{wide}>" if is_complex else wide} A;
  const A from = cast<A>(start), to = cast<A>(end), step = n > 1 ? (to - from) / A({wide}(n - 1)) : A(0);
  const A v = i_ < n / 2 || n == 1 ? from + step * A({wide}(i_)) : to - step * A({wide}(n - 1 - i_));
  out[i_] = cast<{build.type(out)}>({value});
""", [build.output("out", out), given("start", start), given("end", end), *sizes(n=numel(out)),
      *([given("base", call.args[3])] if log else [])])
        return build.plan()
    return rule


def _same(call):
    """Whether all elements are equal: a flag that any difference clears. C++ finds the common type of real numbers."""
    a, b = call.args
    if a.dtype.startswith("complex") != b.dtype.startswith("complex"):
        raise NotImplementedError("equal has no CUDA kernel yet for complex numbers beside real ones; convert these")
    build, out = Build(call), call.results[0]
    flag = build.output("out", out)
    if tuple(a.shape) != tuple(b.shape):
        build.each(1, "  out[0] = false;\n", [flag])
        return build.plan()
    build.each(1, "  out[0] = true;\n", [flag])
    build.each(numel(a), "  if (widen(x[i_]) != widen(y[i_])) out[0] = false;\n",
               [build.input("x", a), build.input("y", b), flag])
    return build.plan()


def _among(call):
    """Each element beside all of the few."""
    x, few, invert = call.args
    if x.dtype.startswith("complex") != few.dtype.startswith("complex"):
        raise NotImplementedError("isin has no CUDA kernel yet for complex numbers beside real ones; convert these")
    build, out = Build(call), call.results[0]
    build.each(numel(out), f"""  bool found = false;
  for (int64_t j = 0; j < many; ++j) found |= widen(x[i_]) == widen(few[j]);
  out[i_] = found != {'true' if invert else 'false'};
""", [build.input("x", x), build.input("few", few), build.output("out", out), *sizes(many=numel(few))])
    return build.plan()


def _dropout_scale(call):
    x, mask, p = call.args
    build, out = Build(call), call.results[0]
    kind, wide = build.type(out), build.wide(out)
    build.each(numel(out), f"""  const {wide} scale = {wide}(1) / {wide}(keep);
  out[i_] = mask[i_] ? cast<{kind}>(widen(x[i_]) * scale) : cast<{kind}>(widen(x[i_]) * {wide}(0));
""", [build.input("x", x), build.input("mask", mask), build.output("out", out), number("double", "keep", 1 - p)])
    return build.plan()


RULES = {
    "cat": _joined(False), "stack": _joined(True), "flip": _flip, "roll": _roll, "tril": _triangle(False),
    "triu": _triangle(True), "tril_indices": _triangle_indices(False), "triu_indices": _triangle_indices(True),
    "constant_pad_nd": _constant_pad, "_border": _border(False), "_border_backward": _border(True),
    "unfold_backward": _unfold_backward, "arange": _arange, "linspace": _linspace(False), "logspace": _linspace(True),
    "_same": _same, "_among": _among, "dropout_scale": _dropout_scale,
}
