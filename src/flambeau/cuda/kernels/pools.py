"""Pooling, a thread for each result. See pool.cuh.

Gradients are added where windows overlap, atomically: the order of these additions is not fixed.
"""

import struct

from .launches import Build, Parameter, flag, number, numel, pointed_at, sizes
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
    build.each(numel(grad), f"  const int64_t place = places[i_];\n  if (place >= 0 && place < inside) "
               f"atomic_add(sums + i_ / outside * inside + place, cast<{pointed_at(sums)}>(grad[i_]));\n",
               [build.input("grad", grad), build.input("places", places), sums,
                *sizes(inside=inside, outside=outside)], files=("indexing.cuh",))
    finish()
    return build.plan()


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


def _avg_pool(call):
    x, kernel, stride, padding, _, padded, *divisor = call.args
    dims = len(kernel)
    axes = _axes(x.shape[-dims:], call.results[0].shape[-dims:], kernel, stride or kernel, padding)
    return _mean(call, axes, "true", flag(padded), *(divisor or (None,)))


def _avg_pool_backward(call):
    grad, _, kernel, stride, padding, _, padded, divisor = call.args
    dims = len(kernel)
    axes = _axes(call.results[0].shape[-dims:], grad.shape[-dims:], kernel, stride or kernel, padding)
    return _mean_backward(call, axes, "true", flag(padded), divisor)


def means(call, dims):
    """As many means along the last dimensions as the result has."""
    return _mean(call, _axes(call.args[0].shape[-dims:], call.results[0].shape[-dims:]), "false", "false", None)


def _adaptive_avg_pool(call):
    return means(call, call.args[2])


def _adaptive_avg_pool_backward(call):
    grad, _, dims = call.args
    return _mean_backward(call, _axes(call.results[0].shape[-dims:], grad.shape[-dims:]), "false", "false", None)


RULES = {
    "max_pool": _max_pool, "max_pool_values": _max_pool, "fractional_max_pool": _fractional_max_pool,
    "adaptive_max_pool": _adaptive_max_pool, "max_pool_backward": _max_pool_backward,
    "avg_pool1d": _avg_pool, "avg_pool2d": _avg_pool, "avg_pool3d": _avg_pool,
    "avg_pool_backward": _avg_pool_backward, "adaptive_avg_pool": _adaptive_avg_pool,
    "adaptive_avg_pool_backward": _adaptive_avg_pool_backward,
}
