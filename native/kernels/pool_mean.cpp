// Mean pooling, plain and adaptive, and its gradient.
#include "../core/channels_last.h"
#include "folds.h"
#include "pool.h"
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
  parallel_for(s.planes, s.grain(), [&](int64_t p, int64_t end) {
    Poll poll;
    for (; p < end; ++p) {
      const T* plane = x + p * s.in();
      T* to = y + p * s.out();
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

// Images whose channels lie last: the channels of one place of the result, from those of the places in its window.
void add_pixel(const float* __restrict x, float* __restrict to, int64_t channels) {
  for (int64_t k = 0; k < channels; ++k) to[k] += x[k];
}
// The share of a window in its mean; 0 where it lies outside.
float share_of(const Window& d, const Window& h, const Window& w, double divisor) {
  if (d.begin >= d.end || h.begin >= h.end || w.begin >= w.end) return 0;
  return divisor ? float(divisor) : float(d.extent * h.extent * w.extent);
}
void mean_pixels(const Shape& s, const float* x, float* y, double divisor) {
  const int64_t channels = s.channels;
  const Axis &D = s.axis[0], &H = s.axis[1], &W = s.axis[2];
  const int64_t rows = s.planes / channels * D.out * H.out;
  const int64_t grain = std::max<int64_t>(1, s.grain() * D.out * H.out / channels);
  parallel_for(rows, grain, [&](int64_t row, int64_t end) {
    Poll poll;
    std::vector<float> line(static_cast<size_t>(channels));  // of a window's row: long sums are made of short ones
    for (; row < end; ++row) {
      const Window d = D.window(row / H.out % D.out), h = H.window(row % H.out);
      const float* image = x + row / H.out / D.out * s.in() * channels;
      for (int64_t o = 0; o < W.out; ++o) {
        const Window w = W.window(o);
        const bool wide = w.end - w.begin >= 8;
        float* to = y + (row * W.out + o) * channels;
        std::fill_n(to, channels, 0.f);
        for (int64_t i = d.begin; i < d.end; ++i)
          for (int64_t j = h.begin; j < h.end; ++j, row_done(poll)) {
            const float* from = image + (i * H.in + j) * W.in * channels;
            float* sum = wide ? line.data() : to;
            if (wide) std::ranges::fill(line, 0.f);
            for (int64_t q = w.begin; q < w.end; ++q) add_pixel(from + q * channels, sum, channels);
            if (wide) add_pixel(sum, to, channels);
          }
        const float share = share_of(d, h, w, divisor);
        for (int64_t k = 0; k < channels; ++k) to[k] = share ? to[k] / share : 0.f;
      }
    }
  });
}
void mean_backward_pixels(const Shape& s, const float* g, float* x, double divisor) {
  const int64_t channels = s.channels, blocks = (channels + 63) / 64;
  const Axis &D = s.axis[0], &H = s.axis[1], &W = s.axis[2];
  const int64_t grain = std::max<int64_t>(1, s.grain() / std::min<int64_t>(64, channels));
  parallel_for(s.planes / channels * blocks, grain, [&](int64_t piece, int64_t end) {
    Poll poll;
    float share[64];
    for (; piece < end; ++piece) {  // some channels of one image
      const int64_t first = piece % blocks * 64, n = std::min<int64_t>(64, channels - first);
      float* image = x + piece / blocks * s.in() * channels + first;
      const float* from = g + piece / blocks * s.out() * channels + first;
      for (int64_t at = 0; at < s.in(); ++at) std::fill_n(image + at * channels, n, 0.f);
      for (int64_t o = 0; o < s.out(); ++o, from += channels, row_done(poll)) {
        const Window d = D.window(o / W.out / H.out), h = H.window(o / W.out % H.out), w = W.window(o % W.out);
        const float by = share_of(d, h, w, divisor);
        for (int64_t k = 0; k < n; ++k) share[k] = by ? from[k] / by : 0.f;
        for (int64_t i = d.begin; i < d.end; ++i)
          for (int64_t j = h.begin; j < h.end; ++j)
            for (int64_t q = w.begin; q < w.end; ++q)
              add_pixel(share, image + ((i * H.in + j) * W.in + q) * channels, n);
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
              for (int64_t o = 0; o < W.out; ++o) {
                const Window w = W.window(o);
                const T one = share[o];
                for (int64_t q = w.begin; q < w.end; ++q) row[q] += one;
              }
            }
        }
    }
  });
}

// One mean for each plane, of any strides.
void mean_whole(const Shape& s, const Tensor& x, Tensor& out, double divisor) {
  uint64_t mask = 0;
  for (int64_t n = 1, d = x.ndim; n < s.in(); n *= x.sizes[d]) mask |= uint64_t(1) << --d;
  const int64_t count = divisor ? int64_t(divisor) : s.in();
  if (x.dtype == DType::Float64) fold<Add<double, double, Same>>(x, out, mask, Finish::Divide, count);
  else fold<Add<float, double, Same>>(x, out, mask, Finish::Divide, count);
}
template <bool Backward, class T>
void mean(const Shape& s, const Tensor& from, Tensor& to, double divisor) {
  if constexpr (Backward) mean_backward_planes<T>(s, from.ptr<T>(), to.ptr<T>(), divisor);
  else mean_planes<T>(s, from.ptr<T>(), to.ptr<T>(), divisor);
}

template <bool Backward>
void run_mean(Shape& s, const Tensor& given, Tensor& out, double divisor) {
  if (out.numel == 0) return;
  if (given.numel == 0) return fill(out, 0);
  if (!Backward && !s.channels) {
    if (std::ranges::all_of(s.axis, covers)) return mean_whole(s, given, out, divisor);
    s.axis[2].make_taps();
  }
  WideResult to(out, s.channels > 0);
  TensorRef from = to.operand(given);
  {
    LockRelease lock(s.visits());
    if (s.channels && Backward) mean_backward_pixels(s, from->ptr<float>(), to.ptr<float>(), divisor);
    else if (s.channels) mean_pixels(s, from->ptr<float>(), to.ptr<float>(), divisor);
    else if (to.dtype == DType::Float64) mean<Backward, double>(s, *from, *to.memory, divisor);
    else mean<Backward, float>(s, *from, *to.memory, divisor);
  }
  to.finish();
}

// The result of shape `size`, laid out as the images are.
void declare(Call& c, Shape& s, const Tensor& from, Dims size, int nd) {
  if (from.ndim == nd + 2 && sum_dtype(from.dtype) == DType::Float32 && has_channels_last(from))
    s.channels = from.size(1);
  if (s.channels) c.output(size, from.dtype, from.device, channels_last_strides(size));
  else c.output(size, from.dtype, from.device);
}

double divisor_of(const Call& c, int k) {
  if (c.nargs <= k || !c.has(k)) return 0;
  if (c.integer(k) == 0) runtime_error(c.name(), ": divisor_override must not be 0");
  return double(c.integer(k));
}

// avg_pool2d(input, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override), and 1d, which has no
// divisor_override, and 3d. Of int64 the sums are exact in float64, and the quotient is cut off.
template <int nd>
void infer_avg_pool(Call& c) {
  const Tensor& x = c.tensor(0);
  if (x.dtype != DType::Int64) need_floating(c, x.dtype);
  divisor_of(c, 6);
  check_input(c, x, nd);
  Shape& s = c.hand_over(plain_shape(c, x.shape(), lead_of(x, nd), c.ints(1), c.ints(2), c.ints(3), {}, c.boolean(4),
                                     c.boolean(5)));
  declare(c, s, x, s.result, nd);
}
void cpu_avg_pool(Call& c) {
  Shape& s = c.handed<Shape>();
  Tensor& out = c.out();
  if (out.dtype != DType::Int64) return run_mean<false>(s, c.tensor(0), out, divisor_of(c, 6));
  TensorRef x = to_dtype(c.tensor(0), DType::Float64), mean = empty(out.shape(), DType::Float64);
  run_mean<false>(s, *x, *mean, divisor_of(c, 6));
  copy_into(out, *mean);
}

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
  declare(c, c.hand_over(mean_backward_shape(c)), c.tensor(0), c.ints(1), int(c.ints(2).size()));
}
void cpu_avg_backward(Call& c) { run_mean<true>(c.handed<Shape>(), c.tensor(0), c.out(), divisor_of(c, 7)); }

// adaptive_avg_pool(self, output_size, dims); adaptive_avg_pool_backward(grad, size, dims)
void infer_adaptive_avg(Call& c) { infer_adaptive_mean(c, c.tensor(0), c.ints(1), int(c.integer(2))); }

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
  declare(c, c.hand_over(adaptive_backward_shape(c)), c.tensor(0), c.ints(1), int(c.integer(2)));
}
void cpu_adaptive_backward(Call& c) { run_mean<true>(c.handed<Shape>(), c.tensor(0), c.out(), 0); }

const Primitives rows{
    {"avg_pool1d", infer_avg_pool<1>, cpu_avg_pool, Images::Kept},
    {"avg_pool2d", infer_avg_pool<2>, cpu_avg_pool, Images::Kept},
    {"avg_pool3d", infer_avg_pool<3>, cpu_avg_pool, Images::Kept},
    {"avg_pool_backward", infer_avg_backward, cpu_avg_backward, Images::Kept},
    {"adaptive_avg_pool", infer_adaptive_avg, cpu_adaptive_mean, Images::Kept},
    {"adaptive_avg_pool_backward", infer_adaptive_backward, cpu_adaptive_backward, Images::Kept},
};

}  // namespace

void infer_adaptive_mean(Call& c, const Tensor& x, Dims output, int nd) {
  need_floating(c, x.dtype);
  check_input(c, x, nd, true);
  Shape& s = c.hand_over(adaptive_shape(c, x.shape(), lead_of(x, nd), output));
  declare(c, s, x, s.result, nd);
}
void cpu_adaptive_mean(Call& c) { run_mean<false>(c.handed<Shape>(), c.tensor(0), c.out(), 0); }

}  // namespace flambeau::pool
