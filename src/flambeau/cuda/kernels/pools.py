"""Pooling, a thread for each result, or for a pack of channels where these lie last; large windows by more of them.

Gradients are gathered from the windows that hold an element. Those of maxima are added atomically, in no fixed order,
where windows are not known (fractional pools) or too many hold one element. See pool.cuh.
"""

import math
import struct

from .launches import Build, Parameter, begin_aligned, blocks, flag, number, numel, pointed_at, sizes
from .layouts import Placed, channels_last
from .moves import accumulator
from .plans import Number

_FILES = ("pool.cuh",)
_WHOLE = ("uint8_t", "int8_t", "int16_t", "int32_t", "int64_t")


def divider(n):
    """(factor, shift) of the struct Divider."""
    shift = (n - 1).bit_length() if n > 1 else 0
    return (-(-(1 << 31 + shift) // max(n, 1)), shift) if n <= 2**31 else (0, 0)


class Axes:
    """The struct Axes; fewer dimensions are filled up in front with axes of one element."""

    def __init__(self, inside, outside, kernel=(), stride=(), padding=(), dilation=()):
        rank, rows = len(inside), []
        for d in range(rank):
            take = [values[d] if len(values) == rank else values[0] if values else default
                    for values, default in ((kernel, 1), (stride, 1), (padding, 0), (dilation, 1))]
            rows.append((inside[d], outside[d], *take))
        self.rows = [(1, 1, 1, 1, 0, 1)] * (3 - rank) + rows
        self.even = bool(kernel)

    def furthest(self):
        """The largest number that is computed along an axis."""
        if not self.even:
            return max((n + 1) * (m + 1) for n, m, *_ in self.rows)
        return max(n + m * step + kernel * gap * 5 + 2 * pad for n, m, kernel, step, pad, gap in self.rows)

    def parameter(self, channels=1, packs=1):
        data = b"".join(struct.pack("<6q6I", *row, *divider(row[0]), *divider(row[1]), *divider(row[3]))
                        for row in self.rows)
        return Parameter("const Axes axes", Number(data + struct.pack("<2q2I", channels, packs, *divider(packs))))


class Pool:
    """What a call's tensors have in common: their order, in place or copied, how wide their packs are, what indexes
    them. given: (name, tensor, whether it is written), `like` decides the order."""

    def __init__(self, build, axes, dims, like, given, most=16, packed=False):
        self.build, self.axes = build, axes
        self.last = len(like.shape) == dims + 2 and channels_last(like)
        placed = [Placed(build, name, info, True, written) if self.last else _Flat(build, name, info, written)
                  for name, info, written in given]
        self.parameters = [p.parameter for p in placed]
        self.pack = min(16 // build.size(like), most) if all(p.alignment == 16 for p in placed) else 1
        self.channels = like.shape[1] if self.last else 1
        self.pack = math.gcd(self.pack, self.channels) if self.last else self.pack if packed else 1
        far = max(axes.furthest(), *(numel(info) for _, info, _ in given))
        self.index = "int32_t" if far < 2**30 else "int64_t"
        self.axes_given = axes.parameter(self.channels, self.channels // self.pack if self.last else 1)

    def windows(self, padded="false", pack=None):
        return f"Windows<{flag(self.axes.even)}, {padded}, {flag(self.last)}, {pack or self.pack}, Index>"

    def results(self, last, beside, first, padded, rest, *written):
        """The statement of a thread for a pack of results; in planes of two in a row where rows have even lengths."""
        if self.last:
            way = f"{last}<V, {first}, {self.windows(padded)}>"
        else:
            self.pack = math.gcd(2, self.axes.rows[2][1]) if begin_aligned(*written) else 1
            way = f"{beside}<V, {first}, Beside<V, {flag(self.axes.even)}, {padded}, Index>>"
        return f"  {way}({rest});\n"

    def blocks(self, out, statement, more=()):
        """A launch with a thread for each block of two rows and some columns of the source; the statement knows i_."""
        *_, (height, *_), (width, *_) = self.axes.rows
        if not self.last:
            self.pack = math.gcd(self.pack, width)
        across, packs = (2, self.channels // self.pack) if self.last else (self.pack, 1)
        counts = self.axes.rows[0][0], blocks(height, 2), blocks(width, across)
        cells = Axes(counts, (1, 1, 1)).parameter(self.channels, packs)._replace(declaration="const Axes cells")
        planes = numel(out) // max(math.prod(row[0] for row in self.axes.rows), 1) // self.channels
        self.build.each(planes * math.prod(counts) * packs, f"  constexpr int V = {self.pack};\n{statement}",
                        [*self.parameters, *more, self.axes_given, cells], index=self.index, files=_FILES)

    def each(self, count, statement, more=(), files=_FILES):
        """A launch with a thread for each pack of `count` elements; the statement knows i_ and V."""
        self.build.each(count // self.pack, f"  constexpr int V = {self.pack};\n{statement}",
                        [*self.parameters, *more, self.axes_given], index=self.index, files=files)


class _Flat:
    """An operand in row-major order."""

    def __init__(self, build, name, info, written):
        self.parameter = (build.output if written else build.input)(name, info)
        self.alignment = 16 if begin_aligned(info) else build.size(info)


def _max(call, axes, dims):
    x, values = call.args[0], call.results[0]
    build, second = Build(call), call.results[1:]
    pool = Pool(build, axes, dims, x, [("x", x, False), ("out", values, True), *(("places", p, True) for p in second)],
                 4 if second else 16)
    pool.each(numel(values), pool.results("largest_of", "largest_beside", flag(second), "false", "axes, i_, x, out, "
                                          + ("places" if second else "(int64_t*)0"), *call.results))
    return build.plan()


def _max_pool(call):
    x, kernel, stride, padding, dilation, _, dims = call.args
    out = call.results[0]
    return _max(call, Axes(x.shape[-dims:], out.shape[-dims:], kernel, stride or kernel, padding, dilation), dims)


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
      build.output("places", places), Axes(x.shape[-dims:], size, kernel).parameter()], files=_FILES, index="int64_t")
    return build.plan()


def _adaptive_max_pool(call):
    x, _, dims = call.args
    return _max(call, Axes(x.shape[-dims:], call.results[0].shape[-dims:]), dims)


#: where more windows than these hold one element, the gradients of maxima are not gathered
_MANY_WINDOWS = 32


def _windows_back(inside, outside, kernel, stride, padding, dilation):
    """The axes of windows without gaps that hold those of a pool, and at most how many of them hold one element."""
    if not kernel:
        return Axes(inside, outside), math.prod(out // max(n, 1) + 2 for n, out in zip(inside, outside, strict=True))
    kernel, stride, padding, dilation = (
        list(v) * (len(inside) if len(v) == 1 else 1)
        for v in (kernel, stride or kernel, padding or (0,), dilation or (1,)))
    reach = [(k - 1) * gap + 1 for k, gap in zip(kernel, dilation, strict=True)]
    return Axes(inside, outside, reach, stride, padding), math.prod(map(blocks, reach, stride))


def _max_pool_gathered(call, axes, dims):
    grad, places = call.args[:2]
    build, out = Build(call), call.results[0]
    pool = Pool(build, axes, dims, out, [("grad", grad, False), ("places", places, False), ("out", out, True)], 4, True)
    pool.blocks(out, f"  given_back<V, {flag(axes.even)}, {flag(pool.last)}>(axes, cells, i_, grad, places, out);\n")
    return build.plan()


def _max_pool_backward(call):
    grad, places, size, *windows = call.args
    out, dims = call.results[0], len(size)
    if windows[0] is not None and numel(out):
        axes, many = _windows_back(out.shape[-dims:], grad.shape[-dims:], *windows)
        if many <= _MANY_WINDOWS:
            return _max_pool_gathered(call, axes, dims)
    build, axes = Build(call), Axes(out.shape[-dims:], grad.shape[-dims:])
    pool = Pool(build, axes, dims, out, [("out", out, True), ("grad", grad, False), ("places", places, False)], 4)
    made, *pool.parameters = pool.parameters
    inside, outside = math.prod(out.shape[-dims:]), math.prod(grad.shape[-dims:])
    if not pool.last and outside % 4 == 0 and begin_aligned(grad, places):
        pool.pack = math.gcd(4, 16 // build.size(grad))
    sums, finish = accumulator(build, out, made=made)
    # an element's plane, or its image and channel
    of = "i_ * V / Index(channels * outside) * Index(channels * inside) + i_ * V % Index(channels)" if pool.last else \
        "i_ * V / Index(outside) * Index(inside)"
    pool.each(numel(grad), f"""  const Pack<{build.type(grad)}, V> g = load<V>(grad + i_ * V);
  const Pack<int64_t, V> at = load<V>(places + i_ * V);
  auto* to = sums + ({of});
#pragma unroll
  for (int j = 0; j < V; ++j)
    if (at.v[j] >= 0 && at.v[j] < inside)
      atomic_add(to + {'(at.v[j] * channels + j)' if pool.last else 'at.v[j]'}, cast<{pointed_at(sums)}>(g.v[j]));
""", [sums, *sizes(inside=inside, outside=outside, channels=pool.channels)], files=("indexing.cuh", *_FILES))
    finish()
    return build.plan()


# --- means ------------------------------------------------------------------------------------------------------------

def _mean(call, axes, dims, padded, divisor):
    x, out = call.args[0], call.results[0]
    build = Build(call)
    wide = "int64_t" if build.wide(x) in _WHOLE else build.wide(x)
    planes = all(row[1] == 1 for row in axes.rows)
    if planes and all((row[0], 0) == (row[2], row[4]) for row in axes.rows):  # each window is a whole plane
        axes = Axes([row[0] for row in axes.rows], (1, 1, 1))
    pool = Pool(build, axes, dims, x, [("x", x, False), ("out", out, True)])
    largest = math.prod(min(row[2], row[0]) if axes.even else _widest(*row[:2]) for row in axes.rows)
    by = number("int64_t", "divisor", divisor or 0)
    few = numel(out) // pool.pack < 2**18
    if numel(out) and largest >= 32 and (few or (planes and not pool.last)):
        return _large_means(build, pool, x, out, wide, padded, largest, by)
    pool.each(numel(out), pool.results("mean_of", "mean_beside", wide, padded, "axes, i_, x, out, divisor", out), [by])
    return build.plan()


def _widest(inside, outside):
    """At most so many elements has a window of an axis that is cut into `outside` of them."""
    return min(inside, inside // max(outside, 1) + (2 if inside % max(outside, 1) else 0))


def _large_means(build, pool, x, out, wide, padded, largest, divisor):
    """Several threads for each window, and several blocks where there are few."""
    n, kind, pack, axes = numel(out), build.type(out), pool.pack, pool.axes_given
    if not pool.last and all(row[1] == 1 for row in pool.axes.rows) and not pool.axes.even:  # planes are runs
        pack = 16 // build.size(x) if begin_aligned(x) else 1
        pack = math.gcd(pack, math.prod(row[0] for row in pool.axes.rows))
        axes = Axes((math.prod(row[0] for row in pool.axes.rows) // pack,), (1,)).parameter()
        largest //= pack
    windows = pool.windows(padded, None if pool.last else 1)
    shift = min(5, (pool.channels // pool.pack - 1).bit_length()) if pool.last else 0
    threads = 256 >> shift if pool.last else 32 if largest <= 512 else 256
    across = blocks(pool.channels // pool.pack, 1 << shift)
    grid = n // pool.channels * across if pool.last else blocks(n, 256 // threads)
    chunks = max(1, min(blocks(largest, threads * 4), 1024 // grid))
    width = blocks(largest, chunks)
    chunks = blocks(largest, width)
    by = f"(divisor ? {wide}(divisor) : {wide}(w.extent() * {1 if pool.last else pack}))"
    mean = f"w.empty() ? {wide}(0) : {wide}(sum / {by})"
    put = f"out[i] = cast<{kind}>({mean})" if chunks == 1 else "partial[Index(blockIdx.y) * Index(n) + i] = sum"
    way = f"sum_last<{pack}, {wide}, W>(axes, Index(across), Index(width), shift, x" if pool.last else (
        f"sum_planes<{pack}, {threads}, {wide}, W>(axes, Index(n), Index(width), x")
    partial = Parameter(f"{wide}* partial", build.scratch(n * chunks * 8) if chunks > 1 else Number(bytes(8)))
    head = f"  typedef {pool.index} Index;\n  typedef {windows} W;\n"
    build.run(f"{head}  {way}, [&](Index i, {wide} sum, const W& w) {{ {put}; }});\n",
              [*pool.parameters, partial, divisor, axes, *sizes(n=n, width=width, across=across, shift=shift)],
              (grid, chunks), 256, _FILES)
    if chunks > 1:
        build.each(n, f"""  typedef {windows} W;
  const W w(axes, i_ / {pool.pack if pool.last else 1});
  {wide} sum = {wide}(0);
  for (Index k = 0; k < Index(chunks); ++k) sum += partial[k * Index(n_) + i_];
  out[i_] = cast<{kind}>({mean});
""", [pool.parameters[1], partial, divisor, axes, *sizes(chunks=chunks)], index=pool.index, files=_FILES)
    return build.plan()


def _mean_backward(call, axes, dims, padded, divisor):
    grad, out = call.args[0], call.results[0]
    build = Build(call)
    pool = Pool(build, axes, dims, out, [("grad", grad, False), ("out", out, True)], packed=True)
    way = f"shares_of<V, {flag(axes.even)}, {padded}, {flag(pool.last)}, {build.wide(grad)}>"
    pool.blocks(out, f"  {way}(axes, cells, i_, grad, out, divisor);\n", [number("int64_t", "divisor", divisor or 0)])
    return build.plan()


def _avg_pool(call):
    x, kernel, stride, padding, _, padded, *divisor = call.args
    dims = len(kernel)
    axes = Axes(x.shape[-dims:], call.results[0].shape[-dims:], kernel, stride or kernel, padding)
    return _mean(call, axes, dims, flag(padded), *(divisor or (None,)))


def _avg_pool_backward(call):
    grad, _, kernel, stride, padding, _, padded, divisor = call.args
    dims = len(kernel)
    axes = Axes(call.results[0].shape[-dims:], grad.shape[-dims:], kernel, stride or kernel, padding)
    return _mean_backward(call, axes, dims, flag(padded), divisor)


def means(call, dims):
    """As many means along the last dimensions as the result has."""
    return _mean(call, Axes(call.args[0].shape[-dims:], call.results[0].shape[-dims:]), dims, "false", None)


def _adaptive_avg_pool(call):
    return means(call, call.args[2])


def _adaptive_avg_pool_backward(call):
    grad, _, dims = call.args
    axes = Axes(call.results[0].shape[-dims:], grad.shape[-dims:])
    return _mean_backward(call, axes, dims, "false", None)


RULES = {
    "max_pool": _max_pool, "max_pool_values": _max_pool, "fractional_max_pool": _fractional_max_pool,
    "adaptive_max_pool": _adaptive_max_pool, "max_pool_backward": _max_pool_backward,
    "avg_pool1d": _avg_pool, "avg_pool2d": _avg_pool, "avg_pool3d": _avg_pool,
    "avg_pool_backward": _avg_pool_backward, "adaptive_avg_pool": _adaptive_avg_pool,
    "adaptive_avg_pool_backward": _adaptive_avg_pool_backward,
}
