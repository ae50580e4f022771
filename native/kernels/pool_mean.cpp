// Mean pooling, plain and adaptive, and its gradient.
#include "pool.h"
#include "rows.h"
#include "widened.h"

namespace flambeau::pool {
namespace {

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

// A row of the result too short for vectors: one window after the other.
template <class T>
void mean_windows(const Shape& s, const Window& d, const Window& h, const T* plane, double divisor, T* to) {
  const Axis &H = s.axis[1], &W = s.axis[2];
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
    to[o] = seen && n > 0 ? total / by : T(0);
  }
}
// One row of the source added to the sums of a row of the result.
template <class T>
__attribute__((always_inline)) inline void add_row(const Axis& W, const T* row, T* to) {
  if (!W.even) {
    for (int64_t o = 0; o < W.out; ++o) {
      const Window w = W.window(o);
      to[o] += sum(row + w.begin, w.end - w.begin);
    }
    return;
  }
  for (const Tap& tap : W.taps) {
    const int64_t base = tap.base, first = tap.first, last = tap.last;
    if (W.stride == 1) for (int64_t o = first; o < last; ++o) to[o] += row[o + base];
    else if (W.stride == 2) for (int64_t o = first; o < last; ++o) to[o] += row[2 * o + base];
    else for (int64_t o = first; o < last; ++o) to[o] += row[o * W.stride + base];
  }
}
// Whether the only window of an axis is the whole of it.
bool covers(const Axis& a) {
  const Window w = a.out == 1 ? a.window(0) : Window{0, 0, -1};
  return w.begin == 0 && w.end == a.in && w.extent == a.in;
}
template <class T>
void mean_planes(const Shape& s, const T* x, T* y, double divisor) {
  const Axis &D = s.axis[0], &H = s.axis[1], &W = s.axis[2];
  const bool whole = covers(D) && covers(H) && covers(W);
  parallel_for(s.planes, s.grain(), [&](int64_t p, int64_t end) {
    Poll poll;
    for (; p < end; ++p) {
      const T* plane = x + p * s.in();
      T* to = y + p * s.out();
      if (whole) {  // one mean per plane
        *to = T(row_sum(plane, s.in()) / (divisor ? divisor : double(s.in())));
        continue;
      }
      for (int64_t di = 0; di < D.out; ++di)
        for (int64_t hi = 0; hi < H.out; ++hi, to += W.out) {
          row_done(poll);
          const Window d = D.window(di), h = H.window(hi);
          if (W.even && W.out < 8) {
            mean_windows(s, d, h, plane, divisor, to);
            continue;
          }
          std::fill_n(to, W.out, T(0));
          for (int64_t i = d.begin; i < d.end; ++i)
            for (int64_t j = h.begin; j < h.end; ++j, row_done(poll)) add_row(W, plane + (i * H.in + j) * W.in, to);
          for (int64_t o = 0; o < W.out; ++o) {
            T by = divisor ? T(divisor) : T(d.extent * h.extent * W.window(o).extent);
            to[o] = d.begin < d.end && h.begin < h.end && W.window(o).begin < W.window(o).end ? to[o] / by : T(0);
          }
        }
    }
  });
}

template <class T>
void mean_backward_planes(const Shape& s, const T* g, T* x, double divisor) {
  const Axis &D = s.axis[0], &H = s.axis[1], &W = s.axis[2];
  parallel_for(s.planes, s.grain(), [&](int64_t p, int64_t end) {
    Poll poll;
    std::vector<T> share(W.out);
    for (; p < end; ++p) {
      T* plane = x + p * s.in();
      const T* from = g + p * s.out();
      std::fill_n(plane, s.in(), T(0));
      for (int64_t di = 0; di < D.out; ++di)
        for (int64_t hi = 0; hi < H.out; ++hi) {
          row_done(poll);
          const Window d = D.window(di), h = H.window(hi);
          for (int64_t o = 0; o < W.out; ++o) share[o] = from[o] / (divisor ? T(divisor)
              : T(d.extent * h.extent * W.window(o).extent));
          from += W.out;
          for (int64_t i = d.begin; i < d.end; ++i)
            for (int64_t j = h.begin; j < h.end; ++j, row_done(poll)) {
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
void run_mean(Call& c, Shape& s, double divisor) {
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
    {"avg_pool", infer_avg_pool, cpu_avg_pool, Images::Kept},
    {"avg_pool_backward", infer_avg_backward, cpu_avg_backward, Images::Kept},
    {"adaptive_avg_pool", infer_adaptive_avg, cpu_adaptive_avg, Images::Kept},
    {"adaptive_avg_pool_backward", infer_adaptive_backward, cpu_adaptive_backward, Images::Kept},
};

}  // namespace
}  // namespace flambeau::pool
