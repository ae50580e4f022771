"""Images resized: a thread for each pack of results (neighbours in planes, channels that lie last), from the taps that
pool.cuh computes; bytes in whole numbers (bytes.cuh).

Gradients are gathered from the results that read a pixel. With antialias they are added where taps overlap, atomically:
the order of these additions is not fixed.
"""

import math
import struct

from .launches import Build, Parameter, flag, nothing, number, numel, pointed_at, sizes
from .moves import accumulator
from .plans import Number
from .pools import Axes, Pool, means

_FILES = ("pool.cuh", "bytes.cuh")

_LETTERS = {"nearest": "n", "nearest-exact": "e", "linear": "l", "bilinear": "l", "trilinear": "l", "bicubic": "c",
            "lanczos": "s"}


_COVERED = """  const int64_t plane = i_ / (out2 * out1 * out0) * in0 * in1 * in2;
  for (int64_t a = 0; a < t0.many; ++a)
    for (int64_t b = 0; b < t1.many; ++b) {
      const A wide = t0.weight(a) * t1.weight(b);
      for (int64_t c = 0; c < t2.many; ++c) {
        const int64_t at = plane + ((t0.first + a) * in1 + t1.first + b) * in2 + t2.first + c;
        const A w = wide * t2.weight(c);
"""


def _asked(call):
    """(factors, mode, align_corners, antialias) of interpolate: factors are 0 where the ratio of the sizes counts."""
    _, _, factors, mode, align, recompute, antialias = call.args
    return (factors if factors and not recompute else (0,) * 3), mode, bool(align), antialias


def _steps(inside, outside, factor, corners):
    """How far two results lie apart in the source: of linear and cubic, and of nearest."""
    step = 1 / factor if factor > 0 else inside / outside
    return ((inside - 1) / (outside - 1) if outside > 1 else 0.0) if corners else step, step


def _covered(small, large, factors, mode, align, body, parameters, build):
    """With antialias, a thread for each element of `large`; `body` gets taps t0 to t2 and the offset in the source."""
    letter, rank = _LETTERS[mode], len(small.shape) - 2
    wide = "double" if small.dtype == "float64" else "float"
    corners = align and letter in "lc"
    texts, given = [], []
    for d in range(3):
        own = d - (3 - rank)
        inside, outside = (small.shape[2 + own], large.shape[2 + own]) if own >= 0 else (1, 1)
        scale, _ = _steps(inside, outside, factors[own] if own >= 0 else 0, corners)
        way = letter if own >= 0 else "n"
        given += [*sizes(**{f"in{d}": inside, f"out{d}": outside}), number("double", f"scale{d}", scale)]
        at = {0: "i_ / (out2 * out1) % out0", 1: "i_ / out2 % out1", 2: "i_ % out2"}[d]
        texts.append(f"  const Covered<A, '{way}'> t{d}({at}, in{d}, A(scale{d}));\n")
    before, inner, after = body
    build.each(numel(large), f"  typedef {wide} A;\n{''.join(texts)}{before}{_COVERED}        {inner}\n      }}\n"
               f"    }}\n{after}",
               [*parameters, *given], index="int64_t", files=("indexing.cuh", *_FILES))


def _direct(build, way, small, large, given, factors, mode, align, settled):
    """Without antialias: `way` is the function of pool.cuh; given: operands, the last of which is made."""
    letter, dims = _LETTERS[mode], len(small.shape) - 2
    inside, outside = small.shape[2:], large.shape[2:]
    corners = align and letter in "lc"
    axes, made = Axes(inside, outside, (1,)), given[-1][1]
    pool = Pool(build, axes, dims, made, given, packed=True)
    if not pool.last:
        pool.pack = math.gcd(pool.pack, 4, made.shape[-1]) if way == "resize" else 1
    steps = [(1.0, 1.0)] * (3 - dims) + [_steps(inside[d], outside[d], factors[d], corners) for d in range(dims)]
    data = struct.pack("<3d3f4x", *(scale for scale, _ in steps), *(step for _, step in steps))
    ways = ", ".join(f"'{c}'" for c in ["n"] * (3 - dims) + [letter] * dims)
    wide = "double" if small.dtype == "float64" else "float"
    value = settled.format(kind=build.type(made), value="v")
    pool.each(numel(made), f"  {way}<V, {flag(pool.last)}, {ways}, {flag(corners)}, {wide}>(axes, steps, i_, x, out, "
              f"[&]({wide} v) {{ return {value}; }});\n", [Parameter("const Steps steps", Number(data))])


def _settled(out):
    """A result's element from a sum: whole numbers are rounded, and bytes end at 0 and 255."""
    if out.dtype == "uint8":
        return "cast<{kind}>(fmin(fmax(floor({value} + 0.5f), 0.f), 255.f))"
    return "cast<{kind}>(floor({value} + 0.5f))" if "int" in out.dtype else "cast<{kind}>({value})"


def _resize(call):
    x, (factors, mode, align, antialias) = call.args[0], _asked(call)
    build, out = Build(call), call.results[0]
    if numel(out) == 0:
        return nothing()
    if mode == "area":
        return means(call, len(x.shape) - 2)
    if x.dtype == "uint8" and _LETTERS[mode] in "lcs" and len(x.shape) == 4:
        return _resize_bytes(call)
    if not antialias:
        _direct(build, "resize", x, out, [("x", x, False), ("out", out, True)], factors, mode, align, _settled(out))
        return build.plan()
    value = _settled(out).format(kind=build.type(out), value="sum")
    body = ("  A sum = A(0);\n", "sum += w * cast<A>(x[at]);", f"  out[i_] = {value};\n")
    if _LETTERS[mode] in "ne":
        body = ("", "out[i_] = x[at];", "")
    _covered(x, out, factors, mode, align, body, [build.input("x", x), build.output("out", out)], build)
    return build.plan()


def _resize_backward(call):
    grad, _, factors, mode, align, antialias = call.args
    build, out, factors = Build(call), call.results[0], factors or (0,) * 3
    if numel(grad) == 0:
        return nothing()
    if not antialias:
        _direct(build, "resize_back", out, grad, [("x", grad, False), ("out", out, True)], factors, mode, align,
                _settled(out))
        return build.plan()
    data, kind = build.input("grad", grad), build.type(out)
    sums, finish = accumulator(build, out, _settled(out), () if kind in ("float", "double") else (kind,))
    body = ("", f"atomic_add(sums + at, cast<{pointed_at(sums)}>(w * cast<A>(grad[i_])));", "")
    _covered(out, grad, factors, mode, align, body, [data, sums], build)
    finish()
    return build.plan()


# --- bytes: one axis after the other, each time to bytes again -------------------------------------------------------

def _byte_weights(build, d, call, outside):
    """(weights, places, bits, how many there are for each result) along axis d of the image, made by one block."""
    x, (factors, mode, align, antialias) = call.args[0], _asked(call)
    letter, inside = _LETTERS[mode], x.shape[2 + d]
    corners = align and letter in "lc"
    scale, step = _steps(inside, outside, factors[d], corners)
    reach = {"l": 1, "c": 2, "s": 3}[letter]
    most = math.ceil(reach * max(scale, 1.0)) * 2 + 1 if antialias else 2 * reach
    wide = build.room("wide", "double", outside * most, 8)
    weights = build.room("weights", "int16_t", outside * most, 2)
    places, bits = build.room("places", "int64_t", outside * most, 8), build.room("bits", "int", 1, 4)
    kind = f"CoveredAlong<'{letter}'> taps{{in, scale}}" if antialias else (
        f"TapsAlong<'{letter}'> taps{{in, out, scale, step, {flag(corners)}}}")
    build.run(f"  const {kind};\n  byte_weights(taps, out, most, wide, weights, places, bits);\n",
              [wide, weights, places, bits, *sizes(**{"in": inside, "out": outside, "most": most}),
               number("double", "scale", scale), number("float", "step", step)], 1, 256, _FILES)
    return weights, places, bits, most


def _resize_bytes(call):
    x, out = call.args[0], call.results[0]
    build = Build(call)
    (rows, columns), (high, wide) = x.shape[2:], out.shape[2:]
    planes = x.shape[0] * x.shape[1]
    half = build.room("half", "uint8_t", planes * rows * wide, 1)
    at = "weights + o * most, places + o * most, most, bits[0]"
    weights, places, bits, most = _byte_weights(build, 1, call, wide)
    build.each(planes * rows * wide, f"""  const int64_t o = i_ % wide;
  half[i_] = byte_sum(x + i_ / wide * columns, 1, {at});
""", [half, build.input("x", x), weights, places, bits, *sizes(wide=wide, columns=columns, most=most)],
               files=_FILES, index="int64_t")
    weights, places, bits, most = _byte_weights(build, 0, call, high)
    build.each(numel(out), f"""  const int64_t o = i_ / wide % high;
  out[i_] = byte_sum(half + i_ / (wide * high) * rows * wide + i_ % wide, wide, {at});
""", [build.output("out", out), half, weights, places, bits, *sizes(wide=wide, high=high, rows=rows, most=most)],
               files=_FILES, index="int64_t")
    return build.plan()


RULES = {"interpolate": _resize, "resize_backward": _resize_backward}
