// Pooling in one to three dimensions: max (plain and adaptive, with the place of each maximum), mean (plain and
// adaptive), and their gradients.
//
// Every axis is described by the windows of its outputs; plain pooling, whose windows are evenly spaced, works tap by
// tap on whole rows so that the inner loop is a vector loop.
#include <algorithm>
#include <atomic>
#include <bit>
#include <limits>
#include <vector>

#include "widened.h"

namespace flambeau {
namespace {

struct Window {
  int64_t begin, end;  // clipped to the source
  int64_t extent;      // what it counts for in a mean
};

// One place of an evenly spaced window: output o reads o * stride + base, for first <= o < last.
struct Tap {
  int64_t base, first, last;
};

struct Axis {
  int64_t in = 1, out = 1;
  int64_t kernel = 1, stride = 1, pad = 0, dilation = 1;
  bool even = true;             // windows are kernel long and stride apart
  bool include_pad = false;
  std::vector<Window> windows;  // one per output, unless they are so many that they are better made when needed
  std::vector<Tap> taps;        // of the last axis, when it is even

  Window window(int64_t i) const { return windows.empty() ? make_window(i) : windows[i]; }
  Window make_window(int64_t i) const {
    if (!even) {
      int64_t begin = i / out * in + i % out * in / out,
          end = (i + 1) / out * in + ((i + 1) % out * in + out - 1) / out;
      return {begin, end, end - begin};
    }
    int64_t begin = i * stride - pad, end = std::min(begin + (kernel - 1) * dilation + 1, in + pad);
    int64_t skipped = begin < 0 ? (-begin + dilation - 1) / dilation : 0;
    Window w{begin + skipped * dilation, std::min(end, in), end - begin};
    if (!include_pad) w.extent = std::max<int64_t>(0, w.end - w.begin);
    return w;
  }
  int64_t reach() const {
    return even ? std::min(kernel, (in - 1) / dilation + 1) : in / std::max<int64_t>(out, 1) + 2;
  }  // places of the source that a window visits at most
  // The places that lie inside the source for some output: windows may be far longer than the source, all in padding.
  void make_taps() {
    int64_t done = 0;
    for (int64_t o = out - 1; even && o >= 0; --o) {  // later outputs read earlier places
      int64_t before = pad - o * stride;              // places of the window ahead of the source
      int64_t k = std::max(done, before > 0 ? (before + dilation - 1) / dilation : 0);
      done = std::max(k, std::min(kernel, before + in > 0 ? (before + in - 1) / dilation + 1 : 0));
      for (; k < done; ++k) {
        int64_t base = k * dilation - pad;
        int64_t first = base >= 0 ? 0 : (-base + stride - 1) / stride;
        int64_t last = in > base ? std::min(out, (in - base + stride - 1) / stride) : 0;
        if (first < last) taps.push_back({base, first, last});
      }
    }
  }
  void tabulate() {
    if (out > (1 << 16)) return;
    windows.resize(out);
    for (int64_t i = 0; i < out; ++i) windows[i] = make_window(i);
  }
};

struct Shape {
  Axis axis[3];
  int64_t planes = 1;
  std::vector<int64_t> result;
  int64_t in() const { return axis[0].in * axis[1].in * axis[2].in; }
  int64_t out() const { return axis[0].out * axis[1].out * axis[2].out; }
  void check(const char* op) const {
    size_product(op, {axis[0].in, axis[1].in, axis[2].in});
    size_product(op, {axis[0].out, axis[1].out, axis[2].out});
  }
  // Visits of source elements per plane, and the planes that make a piece.
  double work() const {
    return double(out()) * double(axis[0].reach()) * double(axis[1].reach()) * double(axis[2].reach()) + double(in());
  }
  int64_t grain() const { return std::max<int64_t>(1, int64_t(32768 / std::max(1., work()))); }
  int64_t visits() const { return int64_t(std::min(1e15, double(planes) * work())); }
};

void check_pooled(const Call& c, int64_t nd, int64_t lead = 0) {
  if (nd < 1 || nd > 3 || lead < 0) runtime_error(c.name(), ": expected 1 to 3 pooled dimensions, got ", nd);
}
void check_input(const Call& c, const Tensor& x, int nd) {
  check_pooled(c, nd);
  bool good = x.ndim == nd + 1 || x.ndim == nd + 2;
  for (int d = x.ndim == nd + 2 ? 1 : 0; good && d < x.ndim; ++d) good = x.size(d) > 0;
  if (!good)
    runtime_error(c.name(), ": input must have ", nd + 2, " dimensions, or ", nd + 1, " without a batch, and only the "
                  "batch may be empty, got shape ", shape_text(x.shape()));
}

int64_t pick(Dims given, int nd, int d, const Call& c, const char* what, int64_t least) {
  if (given.size() != 1 && int(given.size()) != nd)
    runtime_error(c.name(), ": ", what, " must be an int or ", nd, " ints, got ", shape_text(given));
  int64_t v = given.size() == 1 ? given[0] : given[d];
  if (v < least) runtime_error(c.name(), ": ", what, " should be ", least ? "greater than zero" : "zero or more",
      ", but got ", shape_text(given));
  if (v > (int64_t(1) << 40)) runtime_error(c.name(), ": ", what, "=", shape_text(given), " is too large");
  return v;
}

int64_t pooled(const Axis& a, bool ceil_mode) {
  int64_t room = a.in + 2 * a.pad - a.dilation * (a.kernel - 1) - 1;
  int64_t n = room < 0 && !ceil_mode ? 0 : (room + (ceil_mode ? a.stride - 1 : 0)) / a.stride + 1;
  if (room + (ceil_mode ? a.stride - 1 : 0) < 0) n = 0;
  if (ceil_mode && (n - 1) * a.stride >= a.in + a.pad) --n;
  return n;
}

// What the first `lead` sizes say: so many planes, each pooled on its own.
void lead_planes(const Call& c, Shape& s, Dims sizes, int lead) {
  if (std::ranges::any_of(sizes, [](int64_t n) { return n < 0; }))
    runtime_error(c.name(), ": sizes must not be negative, got ", shape_text(sizes));
  s.planes = size_product(c.name(), sizes.first(size_t(lead)));
  s.result.assign(sizes.begin(), sizes.begin() + lead);
}

// nd axes from (kernel, stride, padding, dilation); dilation may be empty.
Shape plain_shape(const Call& c, Dims sizes, int lead, Dims kernel, Dims stride, Dims pad, Dims dilation,
                  bool ceil_mode, bool include_pad) {
  Shape s;
  int nd = int(sizes.size()) - lead;
  check_pooled(c, nd, lead);
  lead_planes(c, s, sizes, lead);
  for (int d = 0; d < nd; ++d) {
    Axis& a = s.axis[3 - nd + d];
    a.in = sizes[lead + d];
    a.kernel = pick(kernel, nd, d, c, "kernel_size", 1);
    a.stride = stride.empty() ? a.kernel : pick(stride, nd, d, c, "stride", 1);
    a.pad = pick(pad, nd, d, c, "padding", 0);
    a.dilation = dilation.empty() ? 1 : pick(dilation, nd, d, c, "dilation", 1);
    int64_t span;
    if (__builtin_mul_overflow(a.kernel - 1, a.dilation, &span) || span > (int64_t(1) << 41))
      runtime_error(c.name(), ": the dilated kernel is too large");
    if (a.pad > (span + 1) / 2)
      runtime_error(c.name(), ": padding ", a.pad, " is more than half of the kernel (kernel_size=", a.kernel,
                    ", dilation=", a.dilation, "), so a window could lie in it entirely");
    a.out = pooled(a, ceil_mode);
    if (a.out < 1)
      runtime_error(c.name(), ": the kernel is larger than the input: of input ", shape_text(sizes), " dimension ",
                    lead + d, " would get size ", a.out);
    s.result.push_back(a.out);
  }
  for (Axis& a : s.axis) {
    a.include_pad = include_pad;
    a.tabulate();
  }
  s.check(c.name());
  return s;
}

Shape adaptive_shape(const Call& c, Dims sizes, int lead, Dims output) {
  Shape s;
  int nd = int(sizes.size()) - lead;
  check_pooled(c, nd, lead);
  lead_planes(c, s, sizes, lead);
  for (int d = 0; d < nd; ++d) {
    Axis& a = s.axis[3 - nd + d];
    a.in = sizes[lead + d];
    a.out = pick(output, nd, d, c, "output_size", 0);
    s.result.push_back(a.out);
  }
  count(s.result);
  for (Axis& a : s.axis) {
    a.even = false;
    a.tabulate();
  }
  s.check(c.name());
  return s;
}

int lead_of(const Tensor& x, int nd) { return x.ndim - nd; }

template <class T>
bool beats(T v, T best) {
  return (v > best) | (v != v);  // a NaN wins, as does any NaN after it
}

// yes ? a : b without a branch: which of two numbers is larger is not predictable.
template <class T>
T chosen(bool yes, T a, T b) {
  using Bits = std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>;
  Bits mask = -Bits(yes), bits = (std::bit_cast<Bits>(a) & mask) | (std::bit_cast<Bits>(b) & ~mask);
  return std::bit_cast<T>(bits);
}

// best and place of one output row from one source row, tap by tap.
template <class T, class I>
void max_row(const Axis& w, const T* row, I row_at, T* __restrict best, I* __restrict place) {
  if (!w.even) {
    for (int64_t o = 0; o < w.out; ++o)
      for (int64_t i = w.window(o).begin; i < w.window(o).end; ++i)
        if (beats(row[i], best[o])) best[o] = row[i], place[o] = row_at + I(i);
    return;
  }
  for (const Tap& tap : w.taps) {
    const int64_t base = tap.base, first = tap.first, last = tap.last;
    auto loop = [&](auto stride) __attribute__((always_inline)) {
      for (int64_t o = first; o < last; ++o) {
        T v = row[o * stride + base];
        bool better = beats(v, best[o]);
        best[o] = better ? v : best[o];
        place[o] = better ? row_at + I(o * stride + base) : place[o];
      }
    };
    if (w.stride == 1) loop(std::integral_constant<int64_t, 1>());
    else if (w.stride == 2) loop(std::integral_constant<int64_t, 2>());
    else loop(w.stride);
  }
}

// An interruption point after every 256th row: a row of one window takes a nanosecond.
struct RowsDone {
  uint32_t rows = 0;
  void operator()() {
    if (++rows % 256 == 0) interruption_point();
  }
};

// long because: one loop nest; the inner window has a fast form and a general one
template <class T, class I>
void max_planes(const Shape& s, const T* x, T* values, int64_t* indices) {
  const Axis &D = s.axis[0], &H = s.axis[1], &W = s.axis[2];
  const T lowest = std::numeric_limits<T>::has_infinity ? -std::numeric_limits<T>::infinity()
      : std::numeric_limits<T>::lowest();
  parallel_for(s.planes, s.grain(), [&](int64_t p, int64_t end) {
    RowsDone rows_done;
    std::vector<T> best(W.out);
    std::vector<I> place(W.out);
    for (; p < end; ++p) {
      const T* plane = x + p * s.in();
      int64_t at = p * s.out();
      for (int64_t di = 0; di < D.out; ++di)
        for (int64_t hi = 0; hi < H.out; ++hi) {
          rows_done();
          const Window d = D.window(di), h = H.window(hi);
          const I first = I((d.begin * H.in + h.begin) * W.in);
          if (W.out < 8) {  // rows too short for vectors: one window after the other, in registers
            for (int64_t o = 0; o < W.out; ++o, ++at) {
              const Window w = W.window(o);
              T top = lowest;
              I where = first + I(w.begin);
              for (int64_t i = d.begin; i < d.end; i += D.dilation)
                for (int64_t j = h.begin; j < h.end; j += H.dilation) {
                  const I row = I((i * H.in + j) * W.in);
                  for (int64_t q = w.begin; q < w.end; q += W.dilation) {
                    T v = plane[row + q];
                    bool better = beats(v, top);
                    top = chosen(better, v, top);
                    where = chosen(better, row + I(q), where);
                  }
                }
              values[at] = top, indices[at] = where;
            }
            continue;
          }
          for (int64_t o = 0; o < W.out; ++o) best[o] = lowest, place[o] = first + I(W.window(o).begin);
          for (int64_t i = d.begin; i < d.end; i += D.dilation)
            for (int64_t j = h.begin; j < h.end; j += H.dilation, rows_done())
              max_row(W, plane + (i * H.in + j) * W.in, I((i * H.in + j) * W.in), best.data(), place.data());
          for (int64_t o = 0; o < W.out; ++o) values[at + o] = best[o], indices[at + o] = place[o];
          at += W.out;
        }
    }
  });
}

void run_max(Call& c, Shape s) {
  Tensor &out = c.out(0), &indices = c.out(1);
  if (out.numel == 0) return;
  s.axis[2].make_taps();
  WideResult values(out);
  TensorRef x = values.operand(c.tensor(0));
  {
    LockRelease lock(s.visits());
    auto run = [&]<class T, class Place>() {
      max_planes<T, Place>(s, x->ptr<T>(), values.ptr<T>(), indices.ptr<int64_t>());
    };
    if (values.dtype == DType::Float64) run.operator()<double, int64_t>();
    else if (values.dtype == DType::Int64) run.operator()<int64_t, int64_t>();
    else if (s.in() < INT32_MAX) run.operator()<float, int32_t>();
    else run.operator()<float, int64_t>();
  }
  values.finish();
}

void need_real(const Call& c, DType t) {
  if (is_complex(t) || is_float8(t) || t == DType::Bool)
    runtime_error(c.name(), ": not implemented for dtype ", dtype_name(t));
}
void need_floating(const Call& c, DType t) {
  if (!is_floating(t) || is_float8(t)) runtime_error(c.name(), ": not implemented for dtype ", dtype_name(t));
}

// --- max_pool(self, kernel_size, stride, padding, dilation, ceil_mode, dims)
// ------------------------------------------

Shape max_shape(const Call& c) {
  Tensor& x = c.tensor(0);
  int nd = int(c.integer(6));
  check_input(c, x, nd);
  return plain_shape(c, x.shape(), lead_of(x, nd), c.ints(1), c.ints(2), c.ints(3), c.ints(4), c.boolean(5), false);
}
void infer_max_pool(Call& c) {
  Tensor& x = c.tensor(0);
  need_real(c, x.dtype);
  const Shape& s = c.hand_over(max_shape(c));
  c.output(s.result, x.dtype, x.device);
  c.output(s.result, DType::Int64, x.device);
}
void cpu_max_pool(Call& c) { run_max(c, c.handed<Shape>()); }

// --- adaptive_max_pool(self, output_size, dims)
// -----------------------------------------------------------------------

Shape adaptive_of(const Call& c) {
  Tensor& x = c.tensor(0);
  int nd = int(c.integer(2));
  check_input(c, x, nd);
  return adaptive_shape(c, x.shape(), lead_of(x, nd), c.ints(1));
}
void infer_adaptive_max(Call& c) {
  Tensor& x = c.tensor(0);
  need_real(c, x.dtype);
  const Shape& s = c.hand_over(adaptive_of(c));
  c.output(s.result, x.dtype, x.device);
  c.output(s.result, DType::Int64, x.device);
}
void cpu_adaptive_max(Call& c) { run_max(c, c.handed<Shape>()); }

// --- max_pool_backward(grad, indices, size): zeros of the planes' `size`, grad added at indices
// -----------------------

void infer_max_backward(Call& c) {
  Tensor &g = c.tensor(0), &indices = c.tensor(1);
  Dims size = c.ints(2);
  if (!std::ranges::equal(g.shape(), indices.shape()) || size.size() > g.ndim)
    runtime_error(c.name(), ": expected a gradient of the shape of indices ", shape_text(indices.shape()), ", got ",
        shape_text(g.shape()));
  if (indices.dtype != DType::Int64) runtime_error(c.name(), ": expected int64 indices, got ",
      dtype_name(indices.dtype));
  need_floating(c, g.dtype);
  std::vector<int64_t> shape(g.sizes, g.sizes + g.ndim - size.size());
  shape.insert(shape.end(), size.begin(), size.end());
  c.output(shape, g.dtype, g.device);
}

template <class T>
bool scatter_planes(const T* g, const int64_t* index, int64_t planes, int64_t places, int64_t out_places, T* to) {
  std::atomic<bool> good = true;
  parallel_for(planes, std::max<int64_t>(1, 32768 / (places + out_places + 1)), [&](int64_t p, int64_t end) {
    for (; p < end; ++p) {
      T* plane = to + p * out_places;
      std::fill_n(plane, out_places, T(0));
      for (int64_t i = p * places; i < (p + 1) * places; ++i) {
        const int64_t at = __atomic_load_n(index + i, __ATOMIC_RELAXED);
        if (uint64_t(at) >= uint64_t(out_places)) { good = false; continue; }
        plane[at] += g[i];
      }
    }
  });
  return good;
}

void cpu_max_backward(Call& c) {
  Tensor& out = c.out();
  if (out.numel == 0) return;
  Dims size = c.ints(2);
  WideResult to(out);
  TensorRef g = to.operand(c.tensor(0)), index = contiguous(c.tensor(1));
  int64_t out_places = count(size), planes = out.numel / out_places, places = g->numel / planes;
  bool good;
  {
    LockRelease lock(out.numel + g->numel);
    auto run = [&]<class T>() {
      return scatter_planes<T>(g->ptr<T>(), index->ptr<int64_t>(), planes, places, out_places, to.ptr<T>());
    };
    good = to.dtype == DType::Float64 ? run.operator()<double>() : run.operator()<float>();
  }
  if (!good) index_error(c.name(), ": an index lies outside a plane of size ", shape_text(size));
  to.finish();
}

// --- means -----------------------------------------------------------------------------------------------------------

template <class T>
T sum(const T* p, int64_t n) {
  T total = 0;
  int64_t i = 0;
  if (n >= 32) {
    T lanes[16] = {};
    for (; i + 16 <= n; i += 16)
      for (int j = 0; j < 16; ++j) lanes[j] += p[i + j];
    for (int j = 0; j < 16; ++j) total += lanes[j];
  }
  for (; i < n; ++i) total += p[i];
  return total;
}

// long because: one loop nest; the inner window has a fast form and a general one
template <class T>
void mean_planes(const Shape& s, const T* x, T* y, double divisor) {
  const Axis &D = s.axis[0], &H = s.axis[1], &W = s.axis[2];
  auto covers = [](const Axis& a) { return a.out == 1 && a.window(0).begin == 0 && a.window(0).end == a.in &&
      a.window(0).extent == a.in; };
  const bool whole = covers(D) && covers(H) && covers(W);
  parallel_for(s.planes, s.grain(), [&](int64_t p, int64_t end) {
    RowsDone rows_done;
    for (; p < end; ++p) {
      const T* plane = x + p * s.in();
      T* to = y + p * s.out();
      if (whole) {  // one mean per plane
        *to = sum(plane, s.in()) / T(divisor ? divisor : double(s.in()));
        continue;
      }
      for (int64_t di = 0; di < D.out; ++di)
        for (int64_t hi = 0; hi < H.out; ++hi) {
          rows_done();
          const Window d = D.window(di), h = H.window(hi);
          if (W.even && W.out < 8) {  // rows too short for vectors
            const bool seen = d.begin < d.end && h.begin < h.end;
            const int64_t share = d.extent * h.extent;
            for (int64_t o = 0; o < W.out; ++o) {
              const Window w = W.window(o);
              const int64_t n = w.end - w.begin;
              T total = 0;
              for (int64_t i = d.begin; i < d.end; ++i) {
                const T* row = plane + (i * H.in + h.begin) * W.in + w.begin;
                for (int64_t j = h.begin; j < h.end; ++j, row += W.in) {
                  if (n == 2) total = (total + row[0]) + row[1];
                  else for (int64_t q = 0; q < n; ++q) total += row[q];
                }
              }
              T by = divisor ? T(divisor) : T(share * w.extent);
              *to++ = seen && n > 0 ? total / by : T(0);
            }
            continue;
          }
          std::fill_n(to, W.out, T(0));
          for (int64_t i = d.begin; i < d.end; ++i)
            for (int64_t j = h.begin; j < h.end; ++j, rows_done()) {
              const T* row = plane + (i * H.in + j) * W.in;
              if (!W.even) {
                for (int64_t o = 0; o < W.out; ++o) {
                  const Window w = W.window(o);
                  to[o] += sum(row + w.begin, w.end - w.begin);
                }
                continue;
              }
              for (const Tap& tap : W.taps) {
                const int64_t base = tap.base, first = tap.first, last = tap.last;
                if (W.stride == 1) for (int64_t o = first; o < last; ++o) to[o] += row[o + base];
                else if (W.stride == 2) for (int64_t o = first; o < last; ++o) to[o] += row[2 * o + base];
                else for (int64_t o = first; o < last; ++o) to[o] += row[o * W.stride + base];
              }
            }
          for (int64_t o = 0; o < W.out; ++o) {
            T by = divisor ? T(divisor) : T(d.extent * h.extent * W.window(o).extent);
            to[o] = d.begin < d.end && h.begin < h.end && W.window(o).begin < W.window(o).end ? to[o] / by : T(0);
          }
          to += W.out;
        }
    }
  });
}

template <class T>
void mean_backward_planes(const Shape& s, const T* g, T* x, double divisor) {
  const Axis &D = s.axis[0], &H = s.axis[1], &W = s.axis[2];
  parallel_for(s.planes, s.grain(), [&](int64_t p, int64_t end) {
    RowsDone rows_done;
    std::vector<T> share(W.out);
    for (; p < end; ++p) {
      T* plane = x + p * s.in();
      const T* from = g + p * s.out();
      std::fill_n(plane, s.in(), T(0));
      for (int64_t di = 0; di < D.out; ++di)
        for (int64_t hi = 0; hi < H.out; ++hi) {
          rows_done();
          const Window d = D.window(di), h = H.window(hi);
          for (int64_t o = 0; o < W.out; ++o) share[o] = from[o] / (divisor ? T(divisor)
              : T(d.extent * h.extent * W.window(o).extent));
          from += W.out;
          for (int64_t i = d.begin; i < d.end; ++i)
            for (int64_t j = h.begin; j < h.end; ++j, rows_done()) {
              T* row = plane + (i * H.in + j) * W.in;
              for (int64_t o = 0; o < W.out; ++o)
                for (int64_t q = W.window(o).begin; q < W.window(o).end; ++q) row[q] += share[o];
            }
        }
    }
  });
}

template <bool Backward, class T>
void mean(const Shape& s, const Tensor& from, Tensor& to, double divisor) {
  if constexpr (Backward) mean_backward_planes<T>(s, from.ptr<T>(), to.ptr<T>(), divisor);
  else mean_planes<T>(s, from.ptr<T>(), to.ptr<T>(), divisor);
}

template <bool Backward>
void run_mean(Call& c, Shape s, double divisor) {
  Tensor& out = c.out();
  if (out.numel == 0) return;
  if (!Backward) s.axis[2].make_taps();
  if (c.tensor(0).numel == 0) return fill(out, 0);
  WideResult to(out);
  TensorRef from = to.operand(c.tensor(0));
  {
    LockRelease lock(s.visits());
    if (to.dtype == DType::Float64) mean<Backward, double>(s, *from, *to.memory, divisor);
    else mean<Backward, float>(s, *from, *to.memory, divisor);
  }
  to.finish();
}

// avg_pool(self, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override, dims)
double divisor_of(const Call& c, int k) {
  if (!c.has(k)) return 0;
  if (c.integer(k) == 0) runtime_error(c.name(), ": divisor_override must not be 0");
  return double(c.integer(k));
}
Shape mean_shape(const Call& c) {
  Tensor& x = c.tensor(0);
  int nd = int(c.integer(7));
  check_input(c, x, nd);
  return plain_shape(c, x.shape(), lead_of(x, nd), c.ints(1), c.ints(2), c.ints(3), {}, c.boolean(4), c.boolean(5));
}
void infer_avg_pool(Call& c) {
  need_floating(c, c.tensor(0).dtype);
  divisor_of(c, 6);
  c.output(c.hand_over(mean_shape(c)).result, c.tensor(0).dtype, c.tensor(0).device);
}
void cpu_avg_pool(Call& c) { run_mean<false>(c, c.handed<Shape>(), divisor_of(c, 6)); }

// avg_pool_backward(grad, size, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override):
// `size` is
// that of the whole input; grad has as many leading dimensions as kernel_size leaves.
Shape mean_backward_shape(const Call& c) {
  Tensor& g = c.tensor(0);
  Dims size = c.ints(1);
  int nd = int(c.ints(2).size());
  Shape s = plain_shape(c, size, int(size.size()) - nd, c.ints(2), c.ints(3), c.ints(4), {}, c.boolean(5),
      c.boolean(6));
  if (!std::ranges::equal(s.result, g.shape()))
    runtime_error(c.name(), ": expected a gradient of shape ", shape_text(s.result), ", got ", shape_text(g.shape()));
  return s;
}
void infer_avg_backward(Call& c) {
  need_floating(c, c.tensor(0).dtype);
  c.hand_over(mean_backward_shape(c));
  c.output(c.ints(1), c.tensor(0).dtype, c.tensor(0).device);
}
void cpu_avg_backward(Call& c) { run_mean<true>(c, c.handed<Shape>(), divisor_of(c, 7)); }

// adaptive_avg_pool(self, output_size, dims); adaptive_avg_pool_backward(grad, size, dims)
void infer_adaptive_avg(Call& c) {
  need_floating(c, c.tensor(0).dtype);
  c.output(c.hand_over(adaptive_of(c)).result, c.tensor(0).dtype, c.tensor(0).device);
}
void cpu_adaptive_avg(Call& c) { run_mean<false>(c, c.handed<Shape>(), 0); }

Shape adaptive_backward_shape(const Call& c) {
  Tensor& g = c.tensor(0);
  Dims size = c.ints(1);
  int nd = int(c.integer(2));
  check_pooled(c, nd);
  if (size.size() != g.ndim || g.ndim < nd || !std::ranges::equal(size.first(g.ndim - nd),
      g.shape().first(g.ndim - nd)))
    runtime_error(c.name(), ": the gradient's shape ", shape_text(g.shape()), " does not fit input size ",
        shape_text(size));
  return adaptive_shape(c, size, g.ndim - nd, g.shape().last(nd));
}
void infer_adaptive_backward(Call& c) {
  need_floating(c, c.tensor(0).dtype);
  c.hand_over(adaptive_backward_shape(c));
  c.output(c.ints(1), c.tensor(0).dtype, c.tensor(0).device);
}
void cpu_adaptive_backward(Call& c) { run_mean<true>(c, c.handed<Shape>(), 0); }

const Primitives rows{
    {"max_pool", infer_max_pool, cpu_max_pool},
    {"adaptive_max_pool", infer_adaptive_max, cpu_adaptive_max},
    {"max_pool_backward", infer_max_backward, cpu_max_backward},
    {"avg_pool", infer_avg_pool, cpu_avg_pool},
    {"avg_pool_backward", infer_avg_backward, cpu_avg_backward},
    {"adaptive_avg_pool", infer_adaptive_avg, cpu_adaptive_avg},
    {"adaptive_avg_pool_backward", infer_adaptive_backward, cpu_adaptive_backward},
};

}  // namespace
}  // namespace flambeau
