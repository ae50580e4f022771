// Max pooling, plain and adaptive, with or without the place of each maximum, and its gradient.
//
// The kernels take the type of places as a parameter: `None` where none are asked for, which saves most of the memory
// that is written.
#include <atomic>
#include <bit>
#include <limits>

#include "../core/channels_last.h"
#include "indices.h"
#include "pool.h"
#include "widened.h"

namespace flambeau::pool {
namespace {

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

struct None {
  None() = default;
  explicit None(int64_t) {}
  friend None operator+(None, None) { return {}; }
};
template <class I>
constexpr bool kPlaces = !std::is_same_v<I, None>;

// best and place of one output row from one source row, tap by tap.
template <class T, class I>
void max_row(const Axis& w, const T* row, I row_at, T* __restrict best, I* __restrict place) {
  if (!w.even) {
    for (int64_t o = 0; o < w.out; ++o)
      for (int64_t i = w.window(o).begin; i < w.window(o).end; ++i)
        if (beats(row[i], best[o])) {
          best[o] = row[i];
          if constexpr (kPlaces<I>) place[o] = row_at + I(i);
        }
    return;
  }
  for (const Tap& tap : w.taps) {
    const int64_t base = tap.base, first = tap.first, last = tap.last;
    auto loop = [&](auto stride) __attribute__((always_inline)) {
      for (int64_t o = first; o < last; ++o) {
        T v = row[o * stride + base];
        bool better = beats(v, best[o]);
        best[o] = better ? v : best[o];
        if constexpr (kPlaces<I>) place[o] = better ? row_at + I(o * stride + base) : place[o];
      }
    };
    if (w.stride == 1) loop(std::integral_constant<int64_t, 1>());
    else if (w.stride == 2) loop(std::integral_constant<int64_t, 2>());
    else loop(w.stride);
  }
}

template <class T>
constexpr T kLowest = std::numeric_limits<T>::has_infinity ? -std::numeric_limits<T>::infinity()
                                                           : std::numeric_limits<T>::lowest();

// A row of the result too short for vectors: one window after the other, in registers.
template <class T, class I>
void max_windows(const Shape& s, const Window& d, const Window& h, const T* plane, T* values, int64_t* indices) {
  const Axis &D = s.axis[0], &H = s.axis[1], &W = s.axis[2];
  for (int64_t o = 0; o < W.out; ++o) {
    const Window w = W.window(o);
    T top = kLowest<T>;
    I where = I((d.begin * H.in + h.begin) * W.in) + I(w.begin);
    for (int64_t i = d.begin; i < d.end; i += D.dilation)
      for (int64_t j = h.begin; j < h.end; j += H.dilation) {
        const I row = I((i * H.in + j) * W.in);
        const T* line = plane + (i * H.in + j) * W.in;
        for (int64_t q = w.begin; q < w.end; q += W.dilation) {
          T v = line[q];
          bool better = beats(v, top);
          top = chosen(better, v, top);
          if constexpr (kPlaces<I>) where = chosen(better, row + I(q), where);
        }
      }
    values[o] = top;
    if constexpr (kPlaces<I>) indices[o] = where;
  }
}
template <class T, class I>
void max_planes(const Shape& s, const T* x, T* values, int64_t* indices) {
  const Axis &D = s.axis[0], &H = s.axis[1], &W = s.axis[2];
  parallel_for(s.planes, s.grain(), [&](int64_t p, int64_t end) {
    Poll poll;
    std::vector<I> places(kPlaces<I> ? W.out : 0);
    I* place = places.data();
    for (; p < end; ++p) {
      const T* plane = x + p * s.in();
      int64_t at = p * s.out();
      for (int64_t di = 0; di < D.out; ++di)
        for (int64_t hi = 0; hi < H.out; ++hi, at += W.out) {
          row_done(poll);
          const Window d = D.window(di), h = H.window(hi);
          if (W.out < 8) {
            max_windows<T, I>(s, d, h, plane, values + at, indices + at);
            continue;
          }
          const I first = I((d.begin * H.in + h.begin) * W.in);
          T* best = values + at;
          std::fill_n(best, W.out, kLowest<T>);
          if constexpr (kPlaces<I>)
            for (int64_t o = 0; o < W.out; ++o) place[o] = first + I(W.window(o).begin);
          for (int64_t i = d.begin; i < d.end; i += D.dilation)
            for (int64_t j = h.begin; j < h.end; j += H.dilation, row_done(poll))
              max_row(W, plane + (i * H.in + j) * W.in, I((i * H.in + j) * W.in), best, place);
          if constexpr (kPlaces<I>)
            for (int64_t o = 0; o < W.out; ++o) indices[at + o] = place[o];
        }
    }
  });
}

// The channels of one place of the result, from those of the places in its window.
template <class T, class I>
struct Pixel {
  std::vector<T> best;
  std::vector<I> place;
  explicit Pixel(int64_t channels) : best(size_t(channels)), place(size_t(kPlaces<I> ? channels : 0)) {}
  void take(const T* __restrict x, I at) {
    const int64_t n = int64_t(best.size());
    T* __restrict b = best.data();
    I* __restrict p = place.data();
    for (int64_t k = 0; k < n; ++k) {
      const bool better = beats(x[k], b[k]);
      b[k] = better ? x[k] : b[k];
      if constexpr (kPlaces<I>) p[k] = better ? at : p[k];
    }
  }
};

template <class T, class I>
void max_pixels(const Shape& s, const T* x, T* values, int64_t* indices) {
  const int64_t channels = s.channels;
  const Axis &D = s.axis[0], &H = s.axis[1], &W = s.axis[2];
  const int64_t rows = s.planes / channels * D.out * H.out;
  const int64_t grain = std::max<int64_t>(1, s.grain() * D.out * H.out / channels);
  parallel_for(rows, grain, [&](int64_t row, int64_t end) {
    Poll poll;
    Pixel<T, I> pixel(channels);
    for (; row < end; ++row) {
      const Window d = D.window(row / H.out % D.out), h = H.window(row % H.out);
      const T* image = x + row / H.out / D.out * s.in() * channels;
      for (int64_t o = 0; o < W.out; ++o) {
        row_done(poll);
        const Window w = W.window(o);
        const int64_t first = (d.begin * H.in + h.begin) * W.in + w.begin, to = (row * W.out + o) * channels;
        std::ranges::fill(pixel.best, kLowest<T>);
        std::ranges::fill(pixel.place, I(first));
        for (int64_t i = d.begin; i < d.end; i += D.dilation)
          for (int64_t j = h.begin; j < h.end; j += H.dilation, row_done(poll))
            for (int64_t k = w.begin; k < w.end; k += W.dilation) {
              const int64_t at = (i * H.in + j) * W.in + k;
              pixel.take(image + at * channels, I(at));
            }
        std::ranges::copy(pixel.best, values + to);
        if constexpr (kPlaces<I>) std::ranges::copy(pixel.place, indices + to);
      }
    }
  });
}

// The results, the maxima and their places or the former alone, are laid out as the images are.
void declare_results(Call& c, Shape& s, const Tensor& x, int nd, bool places = true) {
  const bool last = x.ndim == nd + 2 && has_channels_last(x);
  if (last && sum_dtype(x.dtype) == DType::Float32 && s.in() < INT32_MAX) s.channels = x.size(1);
  const std::vector<int64_t> strides = s.channels ? channels_last_strides(s.result) : contiguous_strides(s.result);
  c.output(s.result, x.dtype, x.device, strides);
  if (places) c.output(s.result, DType::Int64, x.device, strides);
}

template <bool Places>
void run_max(Call& c, Shape& s) {
  Tensor& out = c.out(0);
  if (out.numel == 0) return;
  int64_t* indices = Places ? c.out(1).ptr<int64_t>() : nullptr;
  if (!s.channels) s.axis[2].make_taps();
  WideResult values(out, s.channels > 0);
  TensorRef x = values.operand(c.tensor(0));
  {
    LockRelease lock(s.visits());
    auto run = [&]<class T, class Place>() {
      max_planes<T, std::conditional_t<Places, Place, None>>(s, x->ptr<T>(), values.ptr<T>(), indices);
    };
    if (s.channels)
      max_pixels<float, std::conditional_t<Places, int32_t, None>>(s, x->ptr<float>(), values.ptr<float>(), indices);
    else if (values.dtype == DType::Float64) run.template operator()<double, int64_t>();
    else if (values.dtype == DType::Int64) run.template operator()<int64_t, int64_t>();
    else if (s.in() < INT32_MAX) run.template operator()<float, int32_t>();
    else run.template operator()<float, int64_t>();
  }
  values.finish();
}

void need_real(const Call& c, DType t) {
  if (is_complex(t) || is_float8(t) || t == DType::Bool)
    runtime_error(c.name(), ": not implemented for dtype ", dtype_name(t));
}

// max_pool(self, kernel_size, stride, padding, dilation, ceil_mode, dims)
Shape max_shape(const Call& c) {
  Tensor& x = c.tensor(0);
  int nd = int(c.integer(6));
  check_input(c, x, nd);
  return plain_shape(c, x.shape(), lead_of(x, nd), c.ints(1), c.ints(2), c.ints(3), c.ints(4), c.boolean(5), false);
}
void infer_max_pool(Call& c) {
  Tensor& x = c.tensor(0);
  need_real(c, x.dtype);
  declare_results(c, c.hand_over(max_shape(c)), x, int(c.integer(6)));
}
void infer_max_values(Call& c) {
  Tensor& x = c.tensor(0);
  need_real(c, x.dtype);
  declare_results(c, c.hand_over(max_shape(c)), x, int(c.integer(6)), false);
}
template <bool Places>
void cpu_max_pool(Call& c) { run_max<Places>(c, c.handed<Shape>()); }

// adaptive_max_pool(self, output_size, dims)
void infer_adaptive_max(Call& c) {
  Tensor& x = c.tensor(0);
  need_real(c, x.dtype);
  declare_results(c, c.hand_over(adaptive_of(c)), x, int(c.integer(2)));
}
void cpu_adaptive_max(Call& c) { run_max<true>(c, c.handed<Shape>()); }

// Whether gradient and indices have the channels last, and a place of an image is a number of 32 bits.
bool lie_last(const Call& c) {
  const Tensor &g = c.tensor(0), &indices = c.tensor(1);
  return sum_dtype(g.dtype) == DType::Float32 && size_t(g.ndim) == c.ints(2).size() + 2 && has_channels_last(g) &&
         has_channels_last(indices) && count(c.ints(2)) <= UINT32_MAX;
}

// max_pool_backward(grad, indices, size): zeros of the planes' `size`, grad added at indices
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
  if (lie_last(c)) c.output(shape, g.dtype, g.device, channels_last_strides(shape));
  else c.output(shape, g.dtype, g.device);
}

constexpr int64_t kOwn = 1024;  // indices that are copied at a time
// copy_within (indices.h) where channels lie last: the places of that many numbers side by side.
bool own_places(const int64_t* __restrict at, int64_t count, int64_t size, int64_t channels, int64_t* __restrict own) {
  uint64_t signs = 0;
  for (int64_t k = 0; k < count; ++k) {
    const int64_t place = at[k];
    own[k] = int64_t(uint64_t(uint32_t(place)) * uint32_t(channels)) + k;
    signs |= uint64_t(place) | (uint64_t(size - 1) - uint64_t(place));
  }
  return !(signs >> 63);
}

// What a block of indices lies between.
struct Span {
  int64_t low, high;
  bool meets(int64_t first, int64_t last) const { return low < last && high >= first; }
  bool within(int64_t first, int64_t last) const { return low >= first && high < last; }
};
Span span_of(const int64_t* at, int64_t count) {
  Span s{INT64_MAX, INT64_MIN};
  for (int64_t k = 0; k < count; ++k) {
    const int64_t place = at[k];
    s.low = std::min(s.low, place), s.high = std::max(s.high, place);
  }
  return s;
}
// The places [first, last) of a plane; false: an index lies outside of it. Without spans it is the whole plane.
template <class T>
bool scatter_range(const T* g, const int64_t* index, int64_t places, int64_t out_places, int64_t first, int64_t last,
                   const Span* spans, T* plane) {
  std::fill(plane + first, plane + last, T(0));
  int64_t own[kOwn];
  for (int64_t i = 0; i < places; i += kOwn) {
    const int64_t count = std::min(kOwn, places - i);
    const Span* span = spans ? spans + i / kOwn : nullptr;
    if (span && !span->meets(first, last)) continue;
    if (!indices::copy_within(index + i, count, 1, out_places, own)) return false;
    if (!span || span->within(first, last)) {
      for (int64_t k = 0; k < count; ++k) plane[own[k]] += g[i + k];
    } else {
      for (int64_t k = 0; k < count; ++k)
        if (own[k] >= first && own[k] < last) plane[own[k]] += g[i + k];
    }
  }
  return true;
}
// Threads share a plane: each adds what goes to its part, in the order of the indices.
template <class T>
bool scatter_plane(const T* g, const int64_t* index, int64_t places, int64_t out_places, T* plane) {
  const int64_t parts = std::clamp<int64_t>(out_places >> 14, 1, 16), blocks = (places + kOwn - 1) / kOwn;
  if (parts == 1 || num_threads() == 1)
    return scatter_range<T>(g, index, places, out_places, 0, out_places, nullptr, plane);
  std::vector<Span> spans(static_cast<size_t>(blocks));
  std::atomic<bool> good = true;
  parallel_for(blocks, 16, [&](int64_t b, int64_t end) {
    for (; b < end; ++b) {
      spans[size_t(b)] = span_of(index + b * kOwn, std::min(kOwn, places - b * kOwn));
      if (!spans[size_t(b)].within(0, out_places)) good = false;
    }
  });
  parallel_for(parts, 1, [&](int64_t u, int64_t end) {
    for (; u < end && good; ++u)
      if (!scatter_range(g, index, places, out_places, out_places * u / parts, out_places * (u + 1) / parts,
                         spans.data(), plane))
        good = false;
  });
  return good;
}
template <class T>
bool scatter_planes(const T* g, const int64_t* index, int64_t planes, int64_t places, int64_t out_places, T* to) {
  if (planes == 1) return scatter_plane(g, index, places, out_places, to);
  std::atomic<bool> good = true;
  parallel_for(planes, std::max<int64_t>(1, 32768 / (places + out_places + 1)), [&](int64_t p, int64_t end) {
    for (; p < end; ++p)
      if (!scatter_range<T>(g + p * places, index + p * places, places, out_places, 0, out_places, nullptr,
                            to + p * out_places))
        good = false;
  });
  return good;
}

// Images with the channels last: some channels of one image at a time.
bool scatter_channels(const float* g, const int64_t* index, int64_t channels, int64_t some, int64_t places,
                      int64_t out_places, float* image) {
  for (int64_t p = 0; p < out_places; ++p) std::fill_n(image + p * channels, some, 0.f);
  int64_t own[kOwn];
  for (int64_t p = 0; p < places; ++p)
    for (int64_t k = 0; k < some; k += kOwn) {
      const int64_t from = p * channels + k, count = std::min(kOwn, some - k);
      if (!own_places(index + from, count, out_places, channels, own)) return false;
      float* to = image + k;
      for (int64_t j = 0; j < count; ++j) to[own[j]] += g[from + j];
    }
  return true;
}
bool scatter_pixels(const float* g, const int64_t* index, int64_t images, int64_t channels, int64_t places,
                    int64_t out_places, float* to) {
  const int64_t at_once = images >= num_threads() ? channels : 32;
  const int64_t parts = (channels + at_once - 1) / at_once;
  std::atomic<bool> good = true;
  parallel_for(images * parts, std::max<int64_t>(1, 1024 / (places + out_places + 1)), [&](int64_t part, int64_t end) {
    for (; part < end; ++part) {
      const int64_t image = part / parts, first = part % parts * at_once;
      if (!scatter_channels(g + image * places * channels + first, index + image * places * channels + first, channels,
                            std::min(at_once, channels - first), places, out_places,
                            to + image * out_places * channels + first))
        good = false;
    }
  });
  return good;
}

void cpu_max_backward(Call& c) {
  Tensor& out = c.out();
  if (out.numel == 0) return;
  Dims size = c.ints(2);
  const bool last = lie_last(c);
  WideResult to(out, last);
  TensorRef g = to.operand(c.tensor(0)), index = last ? TensorRef::borrow(&c.tensor(1)) : contiguous(c.tensor(1));
  const int64_t out_places = count(size), planes = out.numel / out_places, places = g->numel / planes;
  bool good;
  {
    LockRelease lock(out.numel + g->numel);
    auto run = [&]<class T>() {
      return scatter_planes<T>(g->ptr<T>(), index->ptr<int64_t>(), planes, places, out_places, to.ptr<T>());
    };
    if (last)
      good = scatter_pixels(g->ptr<float>(), index->ptr<int64_t>(), out.size(0), out.size(1), places, out_places,
                            to.ptr<float>());
    else good = to.dtype == DType::Float64 ? run.operator()<double>() : run.operator()<float>();
  }
  if (!good) index_error(c.name(), ": an index lies outside a plane of size ", shape_text(size));
  to.finish();
}

const Primitives rows{
    {"max_pool", infer_max_pool, cpu_max_pool<true>, Images::Kept},
    {"max_pool_values", infer_max_values, cpu_max_pool<false>, Images::Kept},
    {"adaptive_max_pool", infer_adaptive_max, cpu_adaptive_max, Images::Kept},
    {"max_pool_backward", infer_max_backward, cpu_max_backward, Images::Kept},
};

}  // namespace
}  // namespace flambeau::pool
