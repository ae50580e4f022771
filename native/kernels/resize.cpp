// interpolate and its gradient: planes, or images whose channels lie last, by the tables of resize_axes.cpp.
#include "resize.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "../core/channels_last.h"
#include "pool.h"
#include "scratch.h"

namespace flambeau::resizing {
namespace {

// A row in which output row (d, h) is found: one of the plane, or `mixed`, the sum of several.
template <class T>
const T* mixed_row(const Axis<T>& D, const Axis<T>& H, int64_t width, const T* plane, int64_t d, int64_t h,
                   std::vector<T>& mixed) {
  if (D.taps * H.taps == 1) return plane + (D.place[d] * H.in + H.place[h]) * width;
  std::fill(mixed.begin(), mixed.end(), T(0));
  for (int64_t i = 0; i < D.taps; ++i)
    for (int64_t j = 0; j < H.taps; ++j) {
      const T w = D.weight[d * D.taps + i] * H.weight[h * H.taps + j];
      if (w == 0) continue;
      const T* from = plane + (D.place[d * D.taps + i] * H.in + H.place[h * H.taps + j]) * width;
      for (int64_t q = 0; q < width; ++q) mixed[q] += w * from[q];
    }
  return mixed.data();
}
template <class T>
void stretch(const Axis<T>& W, const T* row, T* to) {
  const int64_t* at = W.place.data();
  const T* w = W.weight.data();
  if (W.copies)
    std::copy_n(row, W.out, to);
  else if (W.taps == 1)
    for (int64_t q = 0; q < W.out; ++q) to[q] = row[at[q]];
  else if (W.taps == 2)
    for (int64_t q = 0; q < W.out; ++q) to[q] = row[at[2 * q]] * w[2 * q] + row[at[2 * q + 1]] * w[2 * q + 1];
  else
    for (int64_t q = 0; q < W.out; ++q) {
      T total = 0;
      for (int64_t k = q * W.taps; k < (q + 1) * W.taps; ++k) total += row[at[k]] * w[k];
      to[q] = total;
    }
}
// The same of pixels whose channels lie together.
template <class T>
void stretch_pixels(const Axis<T>& W, const T* row, T* to, int64_t channels) {
  for (int64_t q = 0; q < W.out; ++q, to += channels) {
    const int64_t* at = &W.place[q * W.taps];
    const T *w = &W.weight[q * W.taps], *first = row + at[0] * channels;
    if (W.taps == 1) {
      std::copy_n(first, channels, to);
    } else if (W.taps == 2) {
      const T* second = row + at[1] * channels;
      for (int64_t c = 0; c < channels; ++c) to[c] = first[c] * w[0] + second[c] * w[1];
    } else {
      std::fill_n(to, channels, T(0));
      for (int64_t k = 0; k < W.taps; ++k)
        for (int64_t c = 0; c < channels; ++c) to[c] += row[at[k] * channels + c] * w[k];
    }
  }
}
// Planes, or images of so many channels that lie last.
template <class T>
void forward(const std::vector<Axis<T>>& axes, const T* x, T* y, int64_t planes, int64_t channels) {
  const Axis<T> &D = axes[0], &H = axes[1], &W = axes[2];
  const int64_t width = W.in * channels, in = D.in * H.in * width, rows = D.out * H.out;
  const int64_t work = width * D.taps * H.taps + W.out * W.taps * channels;
  parallel_for(planes * rows, std::max<int64_t>(1, 32768 / std::max<int64_t>(1, work)),
               [&](int64_t begin, int64_t end) {
    std::vector<T> mixed(static_cast<size_t>(width));
    for (int64_t r = begin; r < end; ++r) {
      const T* row = mixed_row(D, H, width, x + r / rows * in, r % rows / H.out, r % H.out, mixed);
      if (channels == 1) stretch(W, row, y + r * W.out);
      else stretch_pixels(W, row, y + r * W.out * channels, channels);
    }
  });
}

// --- averages: along the rows, then along the columns

// to[c] = the sum of weight[k] * from[k * columns + c]: the first product, then four at a time without fusing, then the
// others fused.
template <class T>
void sum_rows(const T* weight, int64_t count, const T* from, int64_t columns, T* __restrict to) {
  if (count == 0) return std::fill_n(to, columns, T(0)), void();
  for (int64_t c = 0; c < columns; ++c) to[c] = from[c] * weight[0];
  int64_t k = 1;
  for (; count - k >= 4; k += 4) {
    const T *row = from + k * columns, *w = weight + k;
    const T *second = row + columns, *third = second + columns, *fourth = third + columns;
    for (int64_t c = 0; c < columns; ++c)
      to[c] = to[c] + row[c] * w[0] + second[c] * w[1] + third[c] * w[2] + fourth[c] * w[3];
  }
  for (; k < count; ++k) {
    const T* row = from + k * columns;
    for (int64_t c = 0; c < columns; ++c) to[c] = std::fma(row[c], weight[k], to[c]);
  }
}

// from [rows, in] to [rows, out]: kSide rows at a time, turned so that their values lie side by side.
template <class T>
void average_rows(const Axis<T>& a, const T* from, T* to, int64_t rows) {
  constexpr int64_t kSide = 64 / sizeof(T);
  const int64_t stripes = (rows + kSide - 1) / kSide;
  parallel_for(stripes, std::max<int64_t>(1, 32768 / ((a.in + a.out * a.taps) * kSide)), [&](int64_t s, int64_t end) {
    std::vector<T> turned(size_t(a.in * kSide)), made(size_t(a.out * kSide));
    for (; s < end; ++s) {
      const int64_t first = s * kSide, n = std::min(kSide, rows - first);
      for (int64_t r = 0; r < n; ++r)
        for (int64_t q = 0; q < a.in; ++q) turned[q * kSide + r] = from[(first + r) * a.in + q];
      for (int64_t o = 0; o < a.out; ++o)
        sum_rows(&a.weight[o * a.taps], a.count[o], &turned[a.place[o * a.taps] * kSide], kSide, &made[o * kSide]);
      for (int64_t r = 0; r < n; ++r)
        for (int64_t o = 0; o < a.out; ++o) to[(first + r) * a.out + o] = made[o * kSide + r];
    }
  });
}
template <class T>
void average_columns(const Axis<T>& a, const T* from, T* to, int64_t planes, int64_t columns) {
  parallel_for(planes * a.out, std::max<int64_t>(1, 32768 / (columns * a.taps)), [&](int64_t r, int64_t end) {
    for (; r < end; ++r) {
      const int64_t o = r % a.out;
      sum_rows(&a.weight[o * a.taps], a.count[o], from + (r / a.out * a.in + a.place[o * a.taps]) * columns, columns,
               to + r * columns);
    }
  });
}
template <class T>
void averages(const std::vector<Axis<T>>& axes, const T* x, T* y, int64_t planes) {
  const Axis<T> &H = axes[1], &W = axes[2];
  if (W.copies && H.copies) return std::copy_n(x, planes * H.in * W.in, y), void();
  if (W.copies) return average_columns(H, x, y, planes, W.in);
  if (H.copies) return average_rows(W, x, y, planes * H.in);
  T* half = scratch<T>(kScratchA, planes * H.in * W.out);
  average_rows(W, x, half, planes * H.in);
  average_columns(H, half, y, planes, W.out);
  trim_scratch();
}

// --- pictures resized linearly: four products for each pixel (PyTorch's order of one thread; with more it has another)

// The left and the right neighbor in one row of the input of every pixel of an output row.
template <class T>
struct Neighbors {
  int64_t row = -1;
  std::vector<T> left, right;
  void read(const Axis<T>& W, const T* plane, int64_t wanted) {
    if (row == wanted) return;
    row = wanted;
    const T* from = plane + wanted * W.in;
    for (int64_t q = 0; q < W.out; ++q) left[q] = from[W.place[2 * q]], right[q] = from[W.place[2 * q + 1]];
  }
};
template <class T>
void bilinear(const std::vector<Axis<T>>& axes, const T* x, T* y, int64_t planes) {
  const Axis<T> &H = axes[1], &W = axes[2];
  const int64_t columns = W.out;
  std::vector<T> near(static_cast<size_t>(columns)), far(static_cast<size_t>(columns));
  for (int64_t q = 0; q < columns; ++q) near[q] = W.weight[2 * q], far[q] = W.weight[2 * q + 1];
  parallel_for(planes * H.out, std::max<int64_t>(1, 32768 / (8 * columns)), [&](int64_t r, int64_t end) {
    Neighbors<T> above, below;
    for (auto* n : {&above, &below}) n->left.resize(size_t(columns)), n->right.resize(size_t(columns));
    for (int64_t plane = -1; r < end; ++r) {
      const int64_t h = r % H.out, top = H.place[2 * h], bottom = H.place[2 * h + 1];
      if (r / H.out != plane) plane = r / H.out, above.row = below.row = -1;
      if (below.row == top) std::swap(above, below);
      above.read(W, x + plane * H.in * W.in, top);
      below.read(W, x + plane * H.in * W.in, bottom);
      const T upper = H.weight[2 * h], lower = H.weight[2 * h + 1];
      const T *a = above.left.data(), *b = above.right.data(), *c = below.left.data(), *d = below.right.data();
      T* __restrict to = y + r * columns;
      for (int64_t q = 0; q < columns; ++q) {
        const T sum = std::fma(a[q], upper * near[q], b[q] * (upper * far[q]));
        to[q] = std::fma(d[q], lower * far[q], std::fma(c[q], lower * near[q], sum));
      }
    }
  });
}
// The same sums of images whose channels lie last.
template <class T>
void bilinear_pixels(const std::vector<Axis<T>>& axes, const T* x, T* y, int64_t images, int64_t channels) {
  const Axis<T> &H = axes[1], &W = axes[2];
  const int64_t width = W.in * channels;
  const int64_t grain = std::max<int64_t>(1, 32768 / (8 * W.out * channels));
  parallel_for(images * H.out, grain, [&](int64_t r, int64_t end) {
    for (; r < end; ++r) {
      const int64_t h = r % H.out;
      const T *image = x + r / H.out * H.in * width, *top = image + H.place[2 * h] * width,
              *bottom = image + H.place[2 * h + 1] * width;
      const T upper = H.weight[2 * h], lower = H.weight[2 * h + 1];
      for (int64_t q = 0; q < W.out; ++q) {
        const int64_t left = W.place[2 * q] * channels, right = W.place[2 * q + 1] * channels;
        const T near = W.weight[2 * q], far = W.weight[2 * q + 1];
        const T w[] = {upper * near, upper * far, lower * near, lower * far};
        const T *a = top + left, *b = top + right, *c = bottom + left, *d = bottom + right;
        T* __restrict to = y + (r * W.out + q) * channels;
        for (int64_t k = 0; k < channels; ++k)
          to[k] = std::fma(d[k], w[3], std::fma(c[k], w[2], std::fma(a[k], w[0], b[k] * w[1])));
      }
    }
  });
}
// Whether an axis has the two taps of linear interpolation.
template <class T>
bool mixes(const Axis<T>& a) { return a.taps == 2; }

template <class T>
void resize_plane(const Plan& p, const std::vector<Axis<T>>& axes, const T* x, T* y, int64_t planes,
                  int64_t channels) {
  if (p.antialias && p.nd == 2) return averages(axes, x, y, planes);
  const bool linear = p.mode == Mode::Linear && p.nd == 2 && mixes(axes[1]) && mixes(axes[2]);
  if (linear && channels > 1) return bilinear_pixels(axes, x, y, planes, channels);
  if (linear) return bilinear(axes, x, y, planes);
  forward(axes, x, y, planes, channels);
}

// --- the gradient

// The table of the gradient: pixel q is the sum of what the outputs that read it were given, which lie side by side.
template <class T>
Axis<T> adjoint(const Axis<T>& a) {
  Axis<T> t;
  t.in = a.out, t.out = a.in, t.copies = a.copies;
  std::vector<int64_t> first(size_t(a.in), a.out), end(size_t(a.in), 0);
  auto each_tap = [&](auto&& f) {
    for (int64_t o = 0; o < a.out; ++o)
      for (int64_t k = o * a.taps; k < (o + 1) * a.taps; ++k)
        if (a.weight[k] != 0) f(o, a.place[k], a.weight[k]);
  };
  each_tap([&](int64_t o, int64_t q, T) { first[q] = std::min(first[q], o), end[q] = o + 1; });
  t.count.resize(size_t(a.in));
  for (int64_t q = 0; q < a.in; ++q) t.count[q] = std::max<int64_t>(0, end[q] - first[q]);
  t.taps = std::max<int64_t>(1, *std::ranges::max_element(t.count));
  t.place.assign(size_t(a.in * t.taps), 0);
  t.weight.assign(size_t(a.in * t.taps), T(0));
  for (int64_t q = 0; q < a.in; ++q)
    if (t.count[q]) t.place[q * t.taps] = first[q];
  each_tap([&](int64_t o, int64_t q, T w) { t.weight[q * t.taps + o - first[q]] += w; });
  return t;
}
// Along one axis after the other, the rows last: enlarging is what most programs do, and its gradient shrinks.
template <class T>
void backward(const std::vector<Axis<T>>& axes, const T* g, T* to, int64_t planes, int64_t channels) {
  int64_t rows = planes, columns = channels, left = 0;  // before the axis and behind it; how many axes are not done
  for (const Axis<T>& a : axes) columns *= a.out, left += !a.copies;
  if (!left) return std::copy_n(g, planes * columns, to), void();
  for (const Axis<T>& a : axes) {
    columns /= a.out;
    if (!a.copies) {
      T* result = --left ? scratch<T>(left == 1 ? kScratchA : kScratchB, rows * a.in * columns) : to;
      if (columns == 1) average_rows(adjoint(a), g, result, rows);
      else average_columns(adjoint(a), g, result, rows, columns);
      g = result;
    }
    rows *= a.in;
  }
  trim_scratch();
}

// --- interpolate(input, size, scale_factor, mode, …) and resize_backward(grad, input_size, …)

// The channels of images that lie last and are computed so, else 1.
int64_t together(const Plan& p, const Tensor& x) {
  return is_floating(x.dtype) && !(p.antialias && p.nd == 2) && has_channels_last(x) ? x.size(1) : 1;
}
void declare(Call& c, const Plan& p, const Tensor& x, Dims shape) {
  if (together(p, x) > 1) c.output(shape, x.dtype, x.device, channels_last_strides(shape));
  else c.output(shape, x.dtype, x.device);
}

template <class F>
void computed(Call& c, const Tensor& given, bool last, F&& f) {
  Tensor& out = c.out();
  if (out.numel == 0) return;
  const DType compute = out.dtype == DType::Float64 ? DType::Float64 : DType::Float32;
  TensorRef x = to_dtype(given, compute), wide;
  x = last ? with_channels_last(*x) : contiguous(*x);
  Tensor* to = &out;
  if (compute != out.dtype) wide = empty_strided(out.shape(), out.stride(), compute, out.device), to = wide.get();
  {
    LockRelease lock((x->numel + out.numel) * 2);
    if (compute == DType::Float64) f(x->ptr<double>(), to->ptr<double>());
    else f(x->ptr<float>(), to->ptr<float>());
  }
  if (!wide) return;
  if (is_integral(out.dtype)) {  // images of bytes: rounded, and what overshoots is cut
    float* v = wide->ptr<float>();
    const float top = out.dtype == DType::UInt8 ? 255.f : 3e38f, bottom = out.dtype == DType::UInt8 ? 0.f : -3e38f;
    for (int64_t i = 0; i < wide->numel; ++i) v[i] = std::clamp(std::floor(v[i] + 0.5f), bottom, top);
  }
  copy_into(out, *wide);
}

void infer_interpolate(Call& c) {
  Tensor& x = c.tensor(0);
  const Plan p = plan_of(c);
  if (p.mode == Mode::Area) return pool::infer_adaptive_mean(c, x, p.sizes(), p.nd);
  check_sizes(c, x.dtype, x.shape().subspan(2), p.sizes());
  int64_t shape[5] = {x.size(0), x.size(1)};
  std::ranges::copy(p.sizes(), shape + 2);
  declare(c, c.hand_over(p), x, Dims{shape, size_t(p.nd + 2)});
}
void cpu_interpolate(Call& c) {
  if (c.str(3) == "area") return pool::cpu_adaptive_mean(c);
  Tensor& x = c.tensor(0);
  const Plan& p = c.handed<Plan>();
  if (x.dtype == DType::UInt8 && p.mode >= Mode::Linear && p.nd == 2 && c.out().numel)
    return resize_bytes(p, x, c.out());
  const int64_t channels = together(p, x);
  computed(c, x, channels > 1, [&]<class T>(const T* from, T* to) {
    resize_plane<T>(p, axes_of<T>(p, x.sizes + 2), from, to, x.size(0) * x.size(1) / channels, channels);
  });
}

void infer_resize_backward(Call& c) {
  Tensor& g = c.tensor(0);
  Dims in = c.ints(1);
  const Plan& p = c.hand_over(plan_of_backward(c));
  check_sizes(c, g.dtype, in, p.sizes());
  int64_t shape[5] = {g.size(0), g.size(1)};
  std::ranges::copy(in, shape + 2);
  declare(c, p, g, Dims{shape, size_t(p.nd + 2)});
}
void cpu_resize_backward(Call& c) {
  Tensor& g = c.tensor(0);
  const Plan& p = c.handed<Plan>();
  const int64_t channels = together(p, g);
  computed(c, g, channels > 1, [&]<class T>(const T* from, T* to) {
    backward<T>(axes_of<T>(p, c.ints(1).data()), from, to, g.size(0) * g.size(1) / channels, channels);
  });
}

const Primitives rows{
    {"interpolate", infer_interpolate, cpu_interpolate, Images::Kept},
    {"resize_backward", infer_resize_backward, cpu_resize_backward, Images::Kept},
};

}  // namespace
}  // namespace flambeau::resizing
