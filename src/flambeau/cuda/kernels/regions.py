"""Regions of images in bins, and deformable convolution's columns: a thread for each element. See regions.cuh.

Gradients are added where regions overlap, atomically: the order of these additions is not fixed.
"""

import struct

from .launches import Build, Parameter, numel
from .moves import accumulator
from .plans import Number

_FILES = ("regions.cuh",)
_ALIGN, _PLACED_ALIGN, _PLACED_POOL, _MAX = range(4)


def _regions(kind, shape, scale, rows, columns, sampling=0, aligned=False):
    return Parameter("const Regions r", Number(struct.pack("<9qd", *shape, rows, columns, sampling, aligned, kind,
                                                           scale)))


def _pool(kind):
    def rule(call):
        x, rois, scale, rows, columns, *more = call.args
        build, out = Build(call), call.results[0]
        wide = build.wide(x)
        given = [build.input("x", x), build.input("rois", rois), build.output("out", out)]
        second = ""
        if len(call.results) > 1:
            given.append(build.output("channel", call.results[1]))
            second = "  channel[i_] = e.channel;\n"
        build.each(numel(out), f"""  typedef {wide} A;
  const Element<A, {build.type(rois)}> e(r, rois, i_);
  A sum = A(0);
  e.each(r, [&](int64_t at, A w) {{ sum += w * cast<A>(x[e.plane * r.height * r.width + at]); }});
  out[i_] = cast<{build.type(out)}>(sum);
{second}""", [*given, _regions(kind, x.shape, scale, rows, columns, *more)], index="int64_t", files=_FILES)
        return build.plan()
    return rule


def _pool_backward(kind):
    def rule(call):
        grad, rois, scale, rows, columns, *shape = call.args
        build, out = Build(call), call.results[0]
        sums, finish = accumulator(build, out)
        build.each(numel(grad), f"""  typedef {build.wide(grad)} A;
  const Element<A, {build.type(rois)}> e(r, rois, i_);
  const A v = cast<A>(grad[i_]);
  e.each(r, [&](int64_t at, A w) {{
    atomic_add(sums + e.plane * r.height * r.width + at, cast<{sums.declaration.split('*')[0]}>(w * v));
  }});
""", [build.input("grad", grad), build.input("rois", rois), sums,
      _regions(kind, shape[:4], scale, rows, columns, *shape[4:])], index="int64_t", files=("indexing.cuh", *_FILES))
        finish()
        return build.plan()
    return rule


def _largest(call):
    """The first largest pixel of every bin, and where it is (-1: the bin is empty)."""
    x, rois, scale, rows, columns = call.args
    build, (out, places) = Build(call), call.results
    build.each(numel(out), f"""  typedef {build.wide(x)} A;
  const Element<A, {build.type(rois)}> e(r, rois, i_);
  A best = Limits<A>::lowest();
  int64_t place = -1;
  const bool empty = !e.exists || e.y.low >= e.y.high || e.x.low >= e.x.high;
  for (int64_t i = e.y.low; i < e.y.high && !empty; ++i)
    for (int64_t j = e.x.low; j < e.x.high; ++j) {{
      const A v = cast<A>(x[e.plane * r.height * r.width + i * r.width + j]);
      if (v > best) best = v, place = i * r.width + j;
    }}
  out[i_] = cast<{build.type(out)}>(empty ? A(0) : best);
  places[i_] = place;
""", [build.input("x", x), build.input("rois", rois), build.output("out", out), build.output("places", places),
      _regions(_MAX, x.shape, scale, rows, columns)], index="int64_t", files=_FILES)
    return build.plan()


def _largest_backward(call):
    grad, rois, places, scale, rows, columns, *shape = call.args
    build, out = Build(call), call.results[0]
    sums, finish = accumulator(build, out)
    build.each(numel(grad), f"""  typedef {build.wide(grad)} A;
  const Element<A, {build.type(rois)}> e(r, rois, i_);
  const int64_t at = places[i_];
  if (e.exists && at >= 0 && at < r.height * r.width)
    atomic_add(sums + e.plane * r.height * r.width + at, cast<{sums.declaration.split('*')[0]}>(grad[i_]));
""", [build.input("grad", grad), build.input("rois", rois), build.input("places", places), sums,
      _regions(_MAX, shape, scale, rows, columns)], index="int64_t", files=("indexing.cuh", *_FILES))
    finish()
    return build.plan()


# --- deformable convolution -------------------------------------------------------------------------------------------

def _deformed(x, kernel, stride, padding, dilation, groups, masked):
    sides = [v[d] for v in (kernel, stride, padding, dilation) for d in (0, 1)]
    out = [(x.shape[2 + d] + 2 * padding[d] - dilation[d] * (kernel[d] - 1) - 1) // stride[d] + 1 for d in (0, 1)]
    return Parameter("const Deformed s", Number(struct.pack("<15q", *x.shape[1:], *sides, *out, groups, masked)))


#: element i_ of the columns [image, channel, tap, place]
_COLUMN = """  const int64_t places = s.oh * s.ow, taps = s.kh * s.kw, each = s.channels / s.groups;
  const int64_t place = i_ % places, tap = i_ / places % taps, plane = i_ / (places * taps);
  const Moved<A, {kind}> m(s, offset, mask, plane / s.channels, plane % s.channels / each, tap, place);
"""


def _columns(call):
    x, offset, mask, *how = call.args
    build, out = Build(call), call.results[0]
    build.each(numel(out), f"""  typedef {build.wide(x)} A;
{_COLUMN.format(kind=build.type(x))}  A sum = A(0);
  four_taps(s, m.y, m.x, [&](int64_t at, A w, A, A) {{
    sum += w * m.mask * cast<A>(x[plane * s.height * s.width + at]);
  }});
  out[i_] = cast<{build.type(out)}>(sum);
""", [build.input("x", x), build.input("offset", offset), build.input("mask", mask), build.output("out", out),
      _deformed(x, *how)], index="int64_t", files=_FILES)
    return build.plan()


def _columns_backward(call):
    grad, x, offset, mask, *how = call.args
    build, (to_x, to_offset, to_mask) = Build(call), call.results
    kind, shape = build.type(x), _deformed(x, *how)
    given = [build.input("grad", grad), build.input("x", x), build.input("offset", offset), build.input("mask", mask)]
    sums, finish = accumulator(build, to_x)
    build.each(numel(grad), f"""  typedef {build.wide(x)} A;
{_COLUMN.format(kind=kind)}  const A v = cast<A>(grad[i_]) * m.mask;
  four_taps(s, m.y, m.x, [&](int64_t at, A w, A, A) {{
    atomic_add(sums + plane * s.height * s.width + at, cast<{sums.declaration.split('*')[0]}>(w * v));
  }});
""", [given[0], *given[2:], sums, shape], index="int64_t", files=("indexing.cuh", *_FILES))
    finish()
    masked = how[-1]
    to = build.output("to_mask", to_mask)
    if not masked:
        build.zeros(to, numel(to_mask) * build.size(to_mask))
    build.each(numel(to_offset) // 2, f"""  typedef {build.wide(x)} A;
  const int64_t places = s.oh * s.ow, taps = s.kh * s.kw, each = s.channels / s.groups;
  const int64_t place = i_ % places, tap = i_ / places % taps, group = i_ / (places * taps) % s.groups;
  const int64_t image = i_ / (places * taps * s.groups), first = image * s.channels + group * each;
  const Moved<A, {kind}> m(s, offset, mask, image, group, tap, place);
  A by_row = A(0), by_column = A(0), by_mask = A(0);
  four_taps(s, m.y, m.x, [&](int64_t at, A w, A dy, A dx) {{
    A share = A(0);
    for (int64_t c = first; c < first + each; ++c)
      share += cast<A>(grad[(c * taps + tap) * places + place]) * cast<A>(x[c * s.height * s.width + at]);
    by_row += share * dy;
    by_column += share * dx;
    by_mask += share * w;
  }});
  to_offset[2 * m.row * places + place] = cast<{kind}>(by_row * m.mask);
  to_offset[(2 * m.row + 1) * places + place] = cast<{kind}>(by_column * m.mask);
  if (s.masked) to_mask[m.row * places + place] = cast<{kind}>(by_mask);
""", [*given, build.output("to_offset", to_offset), to, shape], index="int64_t", files=_FILES)
    return build.plan()


RULES = {
    "roi_align": _pool(_ALIGN), "ps_roi_align": _pool(_PLACED_ALIGN), "ps_roi_pool": _pool(_PLACED_POOL),
    "roi_pool": _largest, "_roi_align_backward": _pool_backward(_ALIGN),
    "_ps_roi_align_backward": _pool_backward(_PLACED_ALIGN), "_ps_roi_pool_backward": _pool_backward(_PLACED_POOL),
    "_roi_pool_backward": _largest_backward, "_deform_columns": _columns, "_deform_columns_backward": _columns_backward,
}
