// Images read at given places: every place of the grid becomes a few taps (offset and weight) into the planes of its
// image, which the result sums, its gradient scatters, and whose slopes give the gradient of the place.
#include <algorithm>
#include <cmath>
#include <memory>
#include <vector>

#include "../core/call.h"
#include "../core/channels_last.h"

namespace flambeau {
namespace {

enum Interpolation { Linear, Nearest, Cubic };
enum Padding { Zeros, Border, Reflection };

struct Plan {
  int nd;  // 2 or 3
  int64_t batch, channels, places;
  int64_t in[3] = {1, 1, 1};  // depth, height, width
  int64_t interpolation, padding;
  bool align;
  int64_t plane() const { return in[0] * in[1] * in[2]; }
  int taps() const { return interpolation == Nearest ? 1 : interpolation == Cubic ? 16 : 1 << nd; }
};

constexpr int64_t kBlock = 256;  // places whose taps are held at once

// Taps of a block of places, tap by tap so that loops over places are vector loops; offset -1 reads zero. slope[d] is
// the derivative of the weight by the grid's number d.
template <class T>
struct Taps {
  int32_t offset[16][kBlock];
  T weight[16][kBlock], slope[3][16][kBlock];
};

template <class T>
struct Along {
  T at, slope;  // the place in pixels, and its derivative by the grid's number
};

template <class T>
Along<T> reflected(T x, T low2, T high2) {
  if (low2 == high2) return {0, 0};
  const T low = low2 / 2, span = (high2 - low2) / 2;
  const T sign = x < low ? T(-1) : T(1), away = std::fabs(x - low);
  const T extra = std::fmod(away, span);
  const bool even = std::fmod(std::floor(away / span), T(2)) == 0;
  return even ? Along<T>{extra + low, sign} : Along<T>{span - extra + low, -sign};
}

template <class T>
Along<T> padded(const Plan& p, T x, int64_t size) {
  Along<T> a{x, 1};
  if (p.padding == Zeros) return a;
  if (p.padding == Reflection)
    a = p.align ? reflected<T>(x, 0, T(2 * (size - 1))) : reflected<T>(x, -1, T(2 * size - 1));
  if (a.at <= 0) return {0, 0};
  if (a.at >= T(size - 1)) return {T(size - 1), 0};
  return a;
}

template <class T>
Along<T> in_pixels(const Plan& p, T x, int64_t size) {
  return p.align ? Along<T>{(x + 1) / 2 * T(size - 1), T(size - 1) / 2}
                 : Along<T>{std::fma(x + 1, T(size), T(-1)) / 2, T(size) / 2};
}

// Beyond what an integer holds, or not a number: outside.
template <class T>
T safe(T x) { return x > T(-2147483000) && x < T(2147483000) ? x : T(-100); }

inline int32_t offset_of(const Plan& p, int64_t d, int64_t h, int64_t w) {
  const bool inside =
      (uint64_t(d) < uint64_t(p.in[0])) & (uint64_t(h) < uint64_t(p.in[1])) & (uint64_t(w) < uint64_t(p.in[2]));
  return inside ? int32_t((d * p.in[1] + h) * p.in[2] + w) : -1;
}

template <class T>
void cubic_weights(T t, T* w, T* slope) {
  const T a = T(-0.75), x[] = {t + 1, t, 1 - t, 2 - t};
  w[0] = ((a * x[0] - 5 * a) * x[0] + 8 * a) * x[0] - 4 * a;
  w[1] = ((a + 2) * x[1] - (a + 3)) * x[1] * x[1] + 1;
  w[2] = ((a + 2) * x[2] - (a + 3)) * x[2] * x[2] + 1;
  w[3] = ((a * x[3] - 5 * a) * x[3] + 8 * a) * x[3] - 4 * a;
  slope[0] = (3 * a * x[0] - 10 * a) * x[0] + 8 * a;
  slope[1] = (3 * (a + 2) * x[1] - 2 * (a + 3)) * x[1];
  slope[2] = -((3 * (a + 2) * x[2] - 2 * (a + 3)) * x[2]);
  slope[3] = -((3 * a * x[3] - 10 * a) * x[3] + 8 * a);
}

template <bool Slopes, class T>
void cubic_taps(const Plan& p, const T* grid, Taps<T>& t, int64_t n) {
  const Along<T> x = in_pixels(p, grid[0], p.in[2]), y = in_pixels(p, grid[1], p.in[1]);
  const T left = std::floor(safe(x.at)), top = std::floor(safe(y.at));
  T wx[4], wy[4], sx[4], sy[4];
  cubic_weights(x.at - left, wx, sx);
  cubic_weights(y.at - top, wy, sy);
  for (int i = 0; i < 4; ++i)
    for (int j = 0; j < 4; ++j) {
      const int k = i * 4 + j;
      const int64_t h = int64_t(safe(padded(p, top - 1 + T(i), p.in[1]).at)),
                    w = int64_t(safe(padded(p, left - 1 + T(j), p.in[2]).at));
      t.offset[k][n] = offset_of(p, 0, h, w);
      t.weight[k][n] = wy[i] * wx[j];
      if constexpr (Slopes) {
        t.slope[0][k][n] = wy[i] * sx[j] * x.slope;
        t.slope[1][k][n] = sy[i] * wx[j] * y.slope;
      }
    }
}

// grid holds x, y (, z): the last axis first.
template <bool Slopes, class T>
void taps_of(const Plan& p, const T* grid, Taps<T>& t, int64_t n) {
  if (p.interpolation == Cubic) return cubic_taps<Slopes>(p, grid, t, n);
  Along<T> a[3] = {{0, 0}, {0, 0}, {0, 0}};  // width, height, depth
  for (int d = 0; d < p.nd; ++d) {
    const int64_t size = p.in[2 - d];
    const Along<T> raw = in_pixels(p, grid[d], size), kept = padded(p, raw.at, size);
    a[d] = {safe(kept.at), raw.slope * kept.slope};
  }
  if (p.interpolation == Nearest) {
    const int64_t w = int64_t(std::nearbyint(a[0].at)), h = int64_t(std::nearbyint(a[1].at)),
                  d = int64_t(std::nearbyint(a[2].at));
    t.offset[0][n] = offset_of(p, d, h, w);
    t.weight[0][n] = 1;
    if constexpr (Slopes)
      for (int k = 0; k < 3; ++k) t.slope[k][0][n] = 0;
    return;
  }
  int64_t low[3];
  T part[3][2], sign[2] = {-1, 1};
  for (int d = 0; d < 3; ++d) {
    const T floor = std::floor(a[d].at);
    low[d] = int64_t(floor);
    part[d][1] = a[d].at - floor;
    part[d][0] = 1 - part[d][1];
  }
  for (int k = 0; k < p.taps(); ++k) {
    const int i = k & 1, j = k >> 1 & 1, q = k >> 2 & 1;
    t.offset[k][n] = offset_of(p, low[2] + q, low[1] + j, low[0] + i);
    const T wx = part[0][i], wy = part[1][j], wz = p.nd == 3 ? part[2][q] : T(1);
    t.weight[k][n] = wx * wy * wz;
    if constexpr (Slopes) {
      t.slope[0][k][n] = sign[i] * wy * wz * a[0].slope;
      t.slope[1][k][n] = wx * sign[j] * wz * a[1].slope;
      if (p.nd == 3) t.slope[2][k][n] = wx * wy * sign[q] * a[2].slope;
    }
  }
}

// The four pixels around each place of a plane, in vectors: the numbers are those of taps_of.
template <bool Align, bool Clamps, class T>
void plane_taps(int32_t height, int32_t width, const T* grid, int64_t count, Taps<T>& t) {
  const auto place = [](T g, T size) {
    const T raw = Align ? (g + 1) / 2 * (size - 1) : std::fma(g + 1, size, T(-1)) / 2, last = size - 1;
    return safe(!Clamps ? raw : raw <= 0 ? T(0) : raw >= last ? last : raw);
  };
#pragma GCC ivdep
  for (int64_t i = 0; i < count; ++i) {
    const T x = place(grid[2 * i], T(width)), y = place(grid[2 * i + 1], T(height));
    const T left = std::floor(x), top = std::floor(y), wx = x - left, wy = y - top;
    const int32_t w = int32_t(left), h = int32_t(top);
    const auto tap = [&](int k, int32_t at_w, int32_t at_h, T weight) {
      const bool inside = (uint32_t(at_w) < uint32_t(width)) & (uint32_t(at_h) < uint32_t(height));
      const int32_t at = int32_t(uint32_t(at_h) * uint32_t(width) + uint32_t(at_w));
      t.offset[k][i] = inside ? at : -1;
      t.weight[k][i] = weight;
    };
    tap(0, w, h, (1 - wx) * (1 - wy));
    tap(1, w + 1, h, wx * (1 - wy));
    tap(2, w, h + 1, (1 - wx) * wy);
    tap(3, w + 1, h + 1, wx * wy);
  }
}
template <class T>
void plane_taps(const Plan& p, const T* grid, int64_t count, Taps<T>& t) {
  const auto run = p.align ? p.padding == Border ? plane_taps<true, true, T> : plane_taps<true, false, T>
                           : p.padding == Border ? plane_taps<false, true, T> : plane_taps<false, false, T>;
  run(int32_t(p.in[1]), int32_t(p.in[2]), grid, count, t);
}

template <bool Slopes, class T>
void fill(const Plan& p, const T* grid, int64_t n, int64_t first, int64_t count, Taps<T>& t) {
  if (!Slopes && p.nd == 2 && p.interpolation == Linear && p.padding != Reflection)
    return plane_taps(p, grid + (n * p.places + first) * 2, count, t);
  for (int64_t i = 0; i < count; ++i) taps_of<Slopes>(p, grid + (n * p.places + first + i) * p.nd, t, i);
}

template <int K, class T>
void read_block(const Taps<T>& t, const T* __restrict plane, int64_t count, T* __restrict to) {
  for (int64_t i = 0; i < count; ++i) {
    T total = 0;
    for (int k = 0; k < K; ++k) {
      const int32_t o = t.offset[k][i];
      const T v = plane[o < 0 ? 0 : o];
      total = std::fma(t.weight[k][i], o < 0 ? T(0) : v, total);  // which products are fused: as in PyTorch
    }
    to[i] = total;
  }
}
// f.operator()<K>() for the number of taps.
template <class F>
void with_taps(int taps, F&& f) {
  switch (taps) {
    case 1: return f.template operator()<1>();
    case 4: return f.template operator()<4>();
    case 8: return f.template operator()<8>();
    default: return f.template operator()<16>();
  }
}

template <class T>
void read(const Plan& p, const T* x, const T* grid, T* y) {
  const int64_t blocks = (p.places + kBlock - 1) / kBlock;
  with_taps(p.taps(), [&]<int K>() {
    parallel_for(
        p.batch * blocks, std::max<int64_t>(1, 65536 / (kBlock * K * (p.channels + 4))), [&](int64_t b, int64_t end) {
          auto t = std::make_unique_for_overwrite<Taps<T>>();
          for (; b < end; ++b) {
            const int64_t n = b / blocks, first = b % blocks * kBlock, count = std::min(kBlock, p.places - first);
            fill<false>(p, grid, n, first, count, *t);
            for (int64_t c = n * p.channels; c < (n + 1) * p.channels; ++c)
              read_block<K>(*t, x + c * p.plane(), count, y + c * p.places + first);
          }
        });
  });
}

// The same of images with the channels last: those of a place together, tap by tap.
template <class T>
void read_last(const Plan& p, const T* x, const T* grid, T* y) {
  const int64_t blocks = (p.places + kBlock - 1) / kBlock, channels = p.channels;
  const int taps = p.taps();
  const int64_t grain = std::max<int64_t>(1, 65536 / (kBlock * taps * (channels + 4)));
  parallel_for(p.batch * blocks, grain, [&](int64_t b, int64_t end) {
    auto t = std::make_unique_for_overwrite<Taps<T>>();
    for (; b < end; ++b) {
      const int64_t n = b / blocks, first = b % blocks * kBlock, count = std::min(kBlock, p.places - first);
      fill<false>(p, grid, n, first, count, *t);
      const T* image = x + n * p.plane() * channels;
      for (int64_t i = 0; i < count; ++i) {
        T* __restrict to = y + (n * p.places + first + i) * channels;
        std::fill_n(to, channels, T(0));
        for (int k = 0; k < taps; ++k) {
          if (t->offset[k][i] < 0) continue;
          const T* from = image + t->offset[k][i] * channels;
          const T weight = t->weight[k][i];
          for (int64_t c = 0; c < channels; ++c) to[c] = std::fma(weight, from[c], to[c]);
        }
      }
    }
  });
}

template <class T>
void to_image(const Plan& p, const T* g, const T* grid, T* to) {
  const int taps = p.taps();
  const int64_t work = p.places * taps + p.plane();
  parallel_for(p.batch * p.channels, std::max<int64_t>(1, 65536 / work), [&](int64_t begin, int64_t end) {
    std::fill(to + begin * p.plane(), to + end * p.plane(), T(0));
    auto t = std::make_unique_for_overwrite<Taps<T>>();
    while (begin < end) {  // the planes of one image share their taps
      const int64_t n = begin / p.channels, stop = std::min(end, (n + 1) * p.channels);
      for (int64_t first = 0; first < p.places; first += kBlock) {
        const int64_t count = std::min(kBlock, p.places - first);
        fill<false>(p, grid, n, first, count, *t);
        for (int64_t c = begin; c < stop; ++c) {
          T* plane = to + c * p.plane();
          const T* from = g + c * p.places + first;
          for (int k = 0; k < taps; ++k)
            for (int64_t i = 0; i < count; ++i)
              if (t->offset[k][i] >= 0) plane[t->offset[k][i]] += t->weight[k][i] * from[i];
        }
      }
      begin = stop;
    }
  });
}

template <class T>
void to_grid(const Plan& p, const T* g, const T* x, const T* grid, T* to) {
  const int taps = p.taps();
  const int64_t blocks = (p.places + kBlock - 1) / kBlock;
  parallel_for(
      p.batch * blocks, std::max<int64_t>(1, 65536 / (kBlock * taps * (p.channels + 4))), [&](int64_t b, int64_t end) {
        auto t = std::make_unique_for_overwrite<Taps<T>>();
        T share[kBlock], sum[3][kBlock];
        for (; b < end; ++b) {
          const int64_t n = b / blocks, first = b % blocks * kBlock, count = std::min(kBlock, p.places - first);
          fill<true>(p, grid, n, first, count, *t);
          for (auto& row : sum) std::fill_n(row, kBlock, T(0));
          for (int k = 0; k < taps; ++k) {
            const int32_t* offset = t->offset[k];
            std::fill_n(share, kBlock, T(0));
            for (int64_t c = n * p.channels; c < (n + 1) * p.channels; ++c) {
              const T *plane = x + c * p.plane(), *from = g + c * p.places + first;
              for (int64_t i = 0; i < count; ++i) {
                const T v = plane[offset[i] < 0 ? 0 : offset[i]];
                share[i] += offset[i] < 0 ? T(0) : from[i] * v;
              }
            }
            for (int d = 0; d < p.nd; ++d)
              for (int64_t i = 0; i < count; ++i) sum[d][i] += share[i] * t->slope[d][k][i];
          }
          for (int64_t i = 0; i < count; ++i)
            for (int d = 0; d < p.nd; ++d) to[(n * p.places + first + i) * p.nd + d] = sum[d][i];
        }
      });
}

// --- grid_sampler(input, grid, interpolation_mode, padding_mode, align_corners); its gradient has `grad` before them

Plan plan_of(const Call& c, int at) {
  Tensor &x = c.tensor(at), &grid = c.tensor(at + 1);
  if (x.dtype != grid.dtype || !is_floating(x.dtype))
    runtime_error(c.name(), ": input and grid must have one floating-point dtype, got ", dtype_name(x.dtype), " and ",
                  dtype_name(grid.dtype));
  if ((x.ndim != 4 && x.ndim != 5) || grid.ndim != x.ndim)
    runtime_error(c.name(), ": input must have 4 or 5 dimensions and grid as many, got ", shape_text(x.shape()),
                  " and ", shape_text(grid.shape()));
  if (x.size(0) != grid.size(0))
    runtime_error(c.name(), ": input holds ", x.size(0), " images and grid ", grid.size(0), " grids");
  Plan p{x.ndim - 2, x.size(0), x.size(1), 1, {1, 1, 1}, c.integer(at + 2), c.integer(at + 3), c.boolean(at + 4)};
  if (grid.size(p.nd + 1) != p.nd)
    runtime_error(c.name(), ": the last dimension of grid must hold ", p.nd, " coordinates, got shape ",
                  shape_text(grid.shape()));
  for (int d = 0; d < p.nd; ++d) {
    p.in[3 - p.nd + d] = x.size(2 + d);
    p.places *= grid.size(1 + d);
    if (x.size(2 + d) <= 0) runtime_error(c.name(), ": the spatial dimensions of input must not be empty, got ",
                                          shape_text(x.shape()));
  }
  if (p.interpolation < 0 || p.interpolation > 2 || p.padding < 0 || p.padding > 2)
    runtime_error(c.name(), ": modes are 0, 1 and 2, got ", p.interpolation, " and ", p.padding);
  if (p.plane() > INT32_MAX)
    runtime_error(c.name(), ": images of more than 2^31 pixels are not supported, got ", shape_text(x.shape()));
  if (p.interpolation == Cubic && p.nd == 3) runtime_error(c.name(), ": mode='bicubic' needs 4-dimensional input, got "
                                                           "5 dimensions");
  return p;
}

DType width_of(const Tensor& t) { return t.dtype == DType::Float64 ? DType::Float64 : DType::Float32; }
// Whether images are read as they lie, with the channels last: few channels are read faster plane by plane.
bool lies_last(const Tensor& x) { return width_of(x) == x.dtype && x.size(1) >= 8 && has_channels_last(x); }

void infer(Call& c) {
  const Plan& p = c.hand_over(plan_of(c, 0));
  Tensor &x = c.tensor(0), &grid = c.tensor(1);
  std::vector<int64_t> shape{x.size(0), x.size(1)};
  for (int d = 0; d < p.nd; ++d) shape.push_back(grid.size(1 + d));
  c.output(shape, x.dtype, x.device);
}
TensorRef dense(const Tensor& t) { return contiguous(*to_dtype(t, width_of(t))); }
// Where a result is computed: itself, or a tensor that is wider or has the channels last, copied into it at last.
struct Result {
  Tensor& out;
  TensorRef other;
  explicit Result(Tensor& t, bool last = false) : out(t) {
    if (last) other = empty_strided(t.shape(), channels_last_strides(t.shape()), t.dtype, t.device);
    else if (t.dtype != width_of(t)) other = empty(t.shape(), width_of(t), t.device);
  }
  Tensor& to() { return other ? *other : out; }
  void finish() { if (other) copy_into(out, *other); }
};

void cpu(Call& c) {
  const Plan& p = c.handed<Plan>();
  if (c.out().numel == 0) return;
  const bool last = lies_last(c.tensor(0));
  TensorRef grid = dense(c.tensor(1)), x = last ? TensorRef::borrow(&c.tensor(0)) : dense(c.tensor(0));
  Result y(c.out(), last);
  {
    LockRelease lock(c.out().numel * p.taps());
    auto run = [&]<class T>() {
      (last ? read_last<T> : read<T>)(p, x->ptr<T>(), grid->ptr<T>(), y.to().ptr<T>());
    };
    if (x->dtype == DType::Float64) run.operator()<double>();
    else run.operator()<float>();
  }
  y.finish();
}

void infer_backward(Call& c) {
  const Plan& p = c.hand_over(plan_of(c, 1));
  if (c.tensor(0).numel != p.batch * p.channels * p.places || c.tensor(0).dtype != c.tensor(1).dtype)
    runtime_error(c.name(), ": gradient of shape ", shape_text(c.tensor(0).shape()), " does not fit");
  c.output_like(c.tensor(1));
  c.output_like(c.tensor(2));
}
void cpu_backward(Call& c) {
  const Plan& p = c.handed<Plan>();
  TensorRef g = dense(c.tensor(0)), x = dense(c.tensor(1)), grid = dense(c.tensor(2));
  Result image(c.out(0)), place(c.out(1));
  {
    LockRelease lock(g->numel * p.taps());
    if (x->dtype == DType::Float64) {
      to_image(p, g->ptr<double>(), grid->ptr<double>(), image.to().ptr<double>());
      to_grid(p, g->ptr<double>(), x->ptr<double>(), grid->ptr<double>(), place.to().ptr<double>());
    } else {
      to_image(p, g->ptr<float>(), grid->ptr<float>(), image.to().ptr<float>());
      to_grid(p, g->ptr<float>(), x->ptr<float>(), grid->ptr<float>(), place.to().ptr<float>());
    }
  }
  image.finish();
  place.finish();
}

const Primitives rows{
    {"grid_sampler", infer, cpu},
    {"_grid_sampler_backward", infer_backward, cpu_backward},
};

}  // namespace
}  // namespace flambeau
