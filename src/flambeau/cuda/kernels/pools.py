"""Pooling and resizing of images, a thread for each result. See pool.cuh.

Gradients are added where windows overlap, atomically: the order of these additions is not fixed.
"""

import struct

from .launches import Build, Parameter, nothing, number, numel, refuse, sizes
from .moves import accumulator
from .plans import Number

_FILES = ("pool.cuh",)


def _axes(inside, outside, kernel=(), stride=(), padding=(), dilation=()):
    """The struct Axes; fewer dimensions are filled up in front with axes of one element."""
    rank, rows = len(inside), []
    for d in range(rank):
        take = [values[d] if len(values) == rank else values[0] if values else default
                for values, default in ((kernel, 1), (stride, 1), (padding, 0), (dilation, 1))]
        rows.append((inside[d], outside[d], *take))
    rows = [(1, 1, 1, 1, 0, 1)] * (3 - rank) + rows
    return Parameter("const Axes axes", Number(struct.pack("<18q", *(v for row in rows for v in row))))


def _max(call, axes, even):
    x, values = call.args[0], call.results[0]
    build = Build(call)
    second = [build.output("places", call.results[1])] if len(call.results) > 1 else []
    wide = build.wide(x)
    build.each(numel(values), f"""  typedef {wide} A;
  const Windows<{even}, false> w(axes, i_);
  A best = Limits<A>::lowest();
  int64_t place = (w.w[0].begin * axes.axis[1].in + w.w[1].begin) * axes.axis[2].in + w.w[2].begin;
  w.each(axes, [&](int64_t at) {{
    const A v = cast<A>(x[w.plane + at]);
    if (v > best || v != v) best = v, place = at;
  }});
  out[i_] = cast<{build.type(values)}>(best);
  {'places[i_] = place;' if second else ''}
""", [build.input("x", x), build.output("out", values), *second, axes], files=_FILES)
    return build.plan()


def _max_pool(call):
    x, kernel, stride, padding, dilation, _, dims = call.args
    out = call.results[0]
    return _max(call, _axes(x.shape[-dims:], out.shape[-dims:], kernel, stride or kernel, padding, dilation), "true")


def _fractional_max_pool(call):
    """Windows of one size, whose steps along each axis come from one drawn number for each plane."""
    x, kernel, size, samples, dims = call.args
    build, (values, places) = Build(call), call.results
    wide, order = build.wide(x), (2, 1) if dims == 2 else (0, 1, 2)  # which axis each of the numbers is for
    draw = "".join(f"  const A u{axis} = cast<A>(samples[plane * {dims} + {k}]);\n" for k, axis in enumerate(order))
    draw += "  const A u0 = A(0);\n" if dims == 2 else ""
    build.each(numel(values), f"""  typedef {wide} A;
  const Axis &d = axes.axis[0], &h = axes.axis[1], &w = axes.axis[2];
  const int64_t plane = i_ / (d.out * h.out * w.out);
{draw}  const int64_t i0 = drawn_start(d, i_ / (h.out * w.out) % d.out, u0);
  const int64_t j0 = drawn_start(h, i_ / w.out % h.out, u1), k0 = drawn_start(w, i_ % w.out, u2);
  const int64_t from = plane * d.in * h.in * w.in;
  A best = Limits<A>::lowest();
  int64_t place = (i0 * h.in + j0) * w.in + k0;
  for (int64_t i = i0; i < i0 + d.kernel; ++i)
    for (int64_t j = j0; j < j0 + h.kernel; ++j)
      for (int64_t k = k0; k < k0 + w.kernel; ++k) {{
        const int64_t at = (i * h.in + j) * w.in + k;
        const A v = cast<A>(x[from + at]);
        if (v > best || v != v) best = v, place = at;
      }}
  out[i_] = cast<{build.type(values)}>(best);
  places[i_] = place;
""", [build.input("x", x), build.input("samples", samples), build.output("out", values),
      build.output("places", places), _axes(x.shape[-dims:], size, kernel)], files=_FILES, index="int64_t")
    return build.plan()


def _adaptive_max_pool(call):
    x, _, dims = call.args
    return _max(call, _axes(x.shape[-dims:], call.results[0].shape[-dims:]), "false")


def _max_pool_backward(call):
    grad, places, size = call.args
    build, out = Build(call), call.results[0]
    sums, finish = accumulator(build, out)
    inside, outside = 1, 1
    for d in range(len(size)):
        inside, outside = inside * out.shape[-1 - d], outside * grad.shape[-1 - d]
    build.each(numel(grad), f"  atomic_add(sums + i_ / outside * inside + places[i_], "
               f"cast<{_kind(sums)}>(grad[i_]));\n",
               [build.input("grad", grad), build.input("places", places), sums,
                *sizes(inside=inside, outside=outside)], files=("indexing.cuh",))
    finish()
    return build.plan()


def _kind(parameter):
    return parameter.declaration.split("*")[0]


def _mean(call, axes, even, padded, divisor):
    x, out = call.args[0], call.results[0]
    build = Build(call)
    wide = build.wide(x)
    wide = "int64_t" if wide in ("uint8_t", "int8_t", "int16_t", "int32_t", "int64_t") else wide
    by = f"{wide}(divisor)" if divisor else f"{wide}(w.w[0].extent * w.w[1].extent * w.w[2].extent)"
    build.each(numel(out), f"""  typedef {wide} A;
  const Windows<{even}, {padded}> w(axes, i_);
  A sum = A(0);
  w.each(axes, [&](int64_t at) {{ sum += cast<A>(x[w.plane + at]); }});
  out[i_] = cast<{build.type(out)}>(w.empty() ? A(0) : A(sum / {by}));
""", [build.input("x", x), build.output("out", out), axes, number("int64_t", "divisor", divisor or 0)], files=_FILES)
    return build.plan()


def _mean_backward(call, axes, even, padded, divisor):
    grad, out = call.args[0], call.results[0]
    build = Build(call)
    wide = build.wide(grad)
    sums, finish = accumulator(build, out)
    by = f"{wide}(divisor)" if divisor else f"{wide}(w.w[0].extent * w.w[1].extent * w.w[2].extent)"
    build.each(numel(grad), f"""  const Windows<{even}, {padded}> w(axes, i_);
  const {wide} share = cast<{wide}>(grad[i_]) / {by};
  w.each(axes, [&](int64_t at) {{ atomic_add(sums + w.plane + at, share); }});
""", [build.input("grad", grad), sums, axes, number("int64_t", "divisor", divisor or 0)],
               files=("indexing.cuh", *_FILES))
    finish()
    return build.plan()


def _flag(value):
    return "true" if value else "false"


def _avg_pool(call):
    x, kernel, stride, padding, _, padded, divisor, dims = call.args
    axes = _axes(x.shape[-dims:], call.results[0].shape[-dims:], kernel, stride or kernel, padding)
    return _mean(call, axes, "true", _flag(padded), divisor)


def _avg_pool_backward(call):
    grad, _, kernel, stride, padding, _, padded, divisor = call.args
    dims = len(kernel)
    axes = _axes(call.results[0].shape[-dims:], grad.shape[-dims:], kernel, stride or kernel, padding)
    return _mean_backward(call, axes, "true", _flag(padded), divisor)


def _adaptive_avg_pool(call):
    x, _, dims = call.args
    return _mean(call, _axes(x.shape[-dims:], call.results[0].shape[-dims:]), "false", "false", None)


def _adaptive_avg_pool_backward(call):
    grad, _, dims = call.args
    return _mean_backward(call, _axes(call.results[0].shape[-dims:], grad.shape[-dims:]), "false", "false", None)


# --- resize -----------------------------------------------------------------------------------------------------------

_LETTERS = {"nearest": "n", "nearest-exact": "e", "linear": "l", "bilinear": "l", "trilinear": "l", "cubic": "c",
            "bicubic": "c", "lanczos": "s"}


_COVERED = """  const int64_t plane = i_ / (out2 * out1 * out0) * in0 * in1 * in2;
  for (int64_t a = 0; a < t0.many; ++a)
    for (int64_t b = 0; b < t1.many; ++b) {
      const A wide = t0.weight(a) * t1.weight(b);
      for (int64_t c = 0; c < t2.many; ++c) {
        const int64_t at = plane + ((t0.first + a) * in1 + t1.first + b) * in2 + t2.first + c;
        const A w = wide * t2.weight(c);
"""


def _resized(small, large, factors, mode, align, antialias, body, parameters, build):
    """A thread for each element of `large`; `body` gets taps t0, t1, t2 and the plane's offset in the source."""
    letter, rank = _LETTERS[mode], len(small.shape) - 2
    wide = "double" if small.dtype == "float64" else "float"
    corners = align and letter in "lc"
    texts, given = [], []
    for d in range(3):
        own = d - (3 - rank)
        inside, outside = (small.shape[2 + own], large.shape[2 + own]) if own >= 0 else (1, 1)
        factor = factors[own] if own >= 0 and len(factors) == rank else 0
        scale = ((inside - 1) / (outside - 1) if outside > 1 else 0.0) if corners else (
            1 / factor if factor > 0 else inside / outside)
        step = 1 / factor if factor > 0 else inside / outside
        way = letter if own >= 0 else "n"
        given += [*sizes(**{f"in{d}": inside, f"out{d}": outside}), number("double", f"scale{d}", scale),
                  number("float", f"step{d}", step)]
        at = {0: "i_ / (out2 * out1) % out0", 1: "i_ / out2 % out1", 2: "i_ % out2"}[d]
        more = f"in{d}, A(scale{d})" if antialias else f"in{d}, out{d}, A(scale{d}), step{d}, {_flag(corners)}"
        texts.append(f"  const {'Covered' if antialias else 'Taps'}<A, '{way}'> t{d}({at}, {more});\n")
    loops = _COVERED if antialias else """  const int64_t plane = i_ / (out2 * out1 * out0) * in0 * in1 * in2;
#pragma unroll
  for (int a = 0; a < t0.many; ++a)
#pragma unroll
    for (int b = 0; b < t1.many; ++b)
#pragma unroll
      for (int c = 0; c < t2.many; ++c) {
        const int64_t at = plane + (t0.place[a] * in1 + t1.place[b]) * in2 + t2.place[c];
        const A w = t0.weight[a] * t1.weight[b] * t2.weight[c];
"""
    before, inner, after = body
    build.each(numel(large), f"  typedef {wide} A;\n{''.join(texts)}{before}{loops}        {inner}\n      }}\n"
               f"{'    }' if antialias else ''}\n{after}",
               [*parameters, *given], index="int64_t", files=("indexing.cuh", *_FILES))


def _resize(call):
    x, _, factors, mode, align, antialias = call.args
    build, out = Build(call), call.results[0]
    if numel(out) == 0:
        return nothing()
    if x.dtype not in ("float32", "float64", "float16", "bfloat16") and _LETTERS.get(mode) not in ("n", "e"):
        refuse(call, f"for dtype {x.dtype}")
    kind = build.type(out)
    body = ("  A sum = A(0);\n", "sum += w * cast<A>(x[at]);", f"  out[i_] = cast<{kind}>(sum);\n")
    if _LETTERS.get(mode) in ("n", "e"):
        body = ("", "out[i_] = x[at];", "")
    _resized(x, out, factors, mode, align, antialias, body,
             [build.input("x", x), build.output("out", out)], build)
    return build.plan()


def _resize_backward(call):
    grad, _, _, factors, mode, align, antialias = call.args
    build, out = Build(call), call.results[0]
    if numel(grad) == 0:
        return nothing()
    if grad.dtype not in ("float32", "float64", "float16", "bfloat16"):
        refuse(call, f"for dtype {grad.dtype}")
    data = build.input("grad", grad)
    sums, finish = accumulator(build, out)
    body = ("", f"atomic_add(sums + at, cast<{_kind(sums)}>(w * cast<A>(grad[i_])));", "")
    _resized(out, grad, factors, mode, align, antialias, body, [data, sums], build)
    finish()
    return build.plan()


RULES = {
    "max_pool": _max_pool, "max_pool_values": _max_pool, "fractional_max_pool": _fractional_max_pool,
    "adaptive_max_pool": _adaptive_max_pool, "max_pool_backward": _max_pool_backward,
    "avg_pool": _avg_pool, "avg_pool_backward": _avg_pool_backward, "adaptive_avg_pool": _adaptive_avg_pool,
    "adaptive_avg_pool_backward": _adaptive_avg_pool_backward, "resize": _resize, "resize_backward": _resize_backward,
}
