// Convolution, its transpose and both gradients, in one, two or three dimensions, with groups, strides and dilation.
//
// A convolution is a matrix product whose right operand is the image read at shifted places. The image is padded once
// (and split by stride into planes whose neighbours are adjacent); then every tap is one offset, and register tiles run
// along the flattened plane, over the few garbage columns between rows. The gradient of the input is the same
// correlation with turned weights, one per phase of the stride; the gradient of the weights is dots along the plane.
#include "conv.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>

#include "../core/machine.h"
#include "elementwise.h"
#include "gemm.h"

namespace flambeau {

const ConvKernels<float>* conv_kernels_f32[2];
const ConvKernels<double>* conv_kernels_f64[2];

namespace {

template <class T>
const ConvKernels<T>& conv_kernels() {
  static const auto* chosen = [] {
    if constexpr (std::is_same_v<T, float>) return conv_kernels_f32[cpu_level()] ? conv_kernels_f32[cpu_level()]
        : conv_kernels_f32[0];
    else return conv_kernels_f64[cpu_level()] ? conv_kernels_f64[cpu_level()] : conv_kernels_f64[0];
  }();
  return *chosen;
}

int64_t volume(const Three& t) { return t[0] * t[1] * t[2]; }

using Geometry = ConvGeometry;

// How an image is laid out for a correlation. Along each axis the place z >= 0 means source index z + start;
// places with the same remainder by `step` (a phase) lie next to each other, `count` of them.
struct Layout {
  Three source, start, step, count;
  int64_t plane() const { return volume(count); }
  int64_t phases() const { return volume(step); }
  bool in_place() const {
    return phases() == 1 && start == Three{0, 0, 0} && count == source;
  }
  bool covered() const {  // every place of the layout is a place of the source
    for (int d = 0; d < 3; ++d)
      if (start[d] < 0 || count[d] * step[d] + start[d] > source[d]) return false;
    return true;
  }
  int64_t phase_of(const Three& z) const {
    return (z[0] % step[0] * step[1] + z[1] % step[1]) * step[2] + z[2] % step[2];
  }
  int64_t place_of(const Three& z) const {
    return (z[0] / step[0] * count[1] + z[1] / step[1]) * count[2] + z[2] / step[2];
  }
};

// Rows of images are short: a call of memcpy costs more than their bytes.
template <class T>
void copy_row(T* to, const T* from, int64_t n) {
  constexpr int64_t W = 32 / sizeof(T);
  if (n < W) {
    for (int64_t i = 0; i < n; ++i) {
      to[i] = from[i];
      asm volatile("" ::: "memory");  // keeps the compiler from making it that call
    }
    return;
  }
  for (int64_t i = 0; i + W < n; i += W) std::memcpy(to + i, from + i, 32);
  std::memcpy(to + n - W, from + n - W, 32);
}

// One channel into planes `phase_stride` apart; places outside the source are zero. Phases nobody reads are skipped.
template <class T>
void lay_out(const Layout& l, const T* source, T* to, int64_t phase_stride, const std::vector<char>& used) {
  for (int64_t phase = 0; phase < l.phases(); ++phase) {
    if (!used[phase]) continue;
    Three r = {phase / (l.step[1] * l.step[2]), phase / l.step[2] % l.step[1], phase % l.step[2]};
    T* plane = to + phase * phase_stride;
    // columns whose source index s = q * step + r + start lies in the row
    int64_t base = r[2] + l.start[2], step = l.step[2];
    int64_t first = base >= 0 ? 0 : (-base + step - 1) / step;
    int64_t last = l.source[2] > base ? (l.source[2] - base + step - 1) / step : 0;
    first = std::min(first, l.count[2]), last = std::max(first, std::min(last, l.count[2]));
    if (!l.covered()) std::fill_n(plane, l.plane(), T(0));
    for (int64_t d = 0; d < l.count[0]; ++d) {
      int64_t sd = d * l.step[0] + r[0] + l.start[0];
      for (int64_t h = 0; h < l.count[1]; ++h, plane += l.count[2]) {
        int64_t sh = h * l.step[1] + r[1] + l.start[1];
        if (sd < 0 || sd >= l.source[0] || sh < 0 || sh >= l.source[1]) continue;
        const T* row = source + (sd * l.source[1] + sh) * l.source[2] + base;
        if (step == 1) copy_row(plane + first, row + first, last - first);
        else if (step == 2) for (int64_t q = first; q < last; ++q) plane[q] = row[2 * q];
        else for (int64_t q = first; q < last; ++q) plane[q] = row[step * q];
      }
    }
  }
}

// A correlation of `channels` planes per group with `rows` filters per group: y[r, o] = bias[r] + sum of
// a[r, k] x[o + tap k].
template <class T>
struct Correlation {
  Layout layout;
  Three out, out_stride;        // the result's extents, and strides between its elements
  int64_t n, groups, channels, rows;
  int64_t x_channel;            // distance of source channels
  int64_t y_channel, y_start;   // distance of result channels; where the first element lies
  std::vector<Three> taps;
  std::vector<T> filters;       // packed [group][panel][k][mr]
  const T* bias = nullptr;

  int64_t depth() const { return channels * int64_t(taps.size()); }
  // A lone filter (depthwise) gains nothing from tiles: whole lines of the result, as many vectors as they are long.
  bool by_lines() const { return rows == 1 && out_stride[2] == 1 && out[2] >= 8; }
};

// Which columns of each tile are results, as runs; the same for every image and group. Empty: the plane has no gaps.
struct Cuts {
  std::vector<Segment> segments;
  std::vector<int32_t> first;  // of each tile, and the end
};

template <class T>
Cuts cuts_of(const Correlation<T>& c, int64_t length, int64_t tiles, int64_t nr) {
  const int64_t q1 = c.layout.count[1], q2 = c.layout.count[2];
  const bool dense = c.out_stride[2] == 1 && (q2 == c.out[2] || c.out[0] * c.out[1] == 1) &&
                     (c.out_stride[1] == q2 || c.out[1] == 1) && (c.out[0] == 1 || c.out_stride[0] == q1 * q2);
  Cuts cuts;
  if (dense) return cuts;
  for (int64_t t = 0; t < tiles; ++t) {
    cuts.first.push_back(int32_t(cuts.segments.size()));
    const int64_t stop = std::min((t + 1) * nr, length);
    for (int64_t at = t * nr; at < stop;) {
      int64_t w = at % q2, row = at / q2, h = row % q1, d = row / q1, run = std::min(stop - at, q2 - w);
      if (h < c.out[1] && w < c.out[2])
        cuts.segments.push_back({int32_t(at - t * nr), int32_t(std::min(run, c.out[2] - w)),
                                 d * c.out_stride[0] + h * c.out_stride[1] + w * c.out_stride[2]});
      at += run;
    }
  }
  cuts.first.push_back(int32_t(cuts.segments.size()));
  return cuts;
}

template <class T>
void correlate_tiles(const Correlation<T>& c, const std::vector<int64_t>& offset, const Cuts& cuts, int64_t length,
                     const T* x, T* y, int64_t group, int64_t begin, int64_t end) {
  const auto& kernels = conv_kernels<T>();
  const int64_t mr = kernels.mr, nr = kernels.nr, k = c.depth();
  const int64_t panels = (c.rows + mr - 1) / mr;
  const T* filters = c.filters.data() + group * panels * mr * k;
  if (c.by_lines()) {
    for (int64_t t = begin; t < end; ++t) {
      int64_t d = t / c.out[1], h = t % c.out[1];
      kernels.line(k, filters, mr, x + (d * c.layout.count[1] + h) * c.layout.count[2], offset.data(),
                   y + c.y_start + d * c.out_stride[0] + h * c.out_stride[1], c.out[2], c.bias ? c.bias[group] : T(0));
    }
    return;
  }
  alignas(64) T tile[8 * 48];
  auto run = [&](int64_t p, int64_t t) {
    int rows = int(std::min(mr, c.rows - p * mr)), cols = int(std::min(nr, length - t * nr));
    const T* bias = c.bias ? c.bias + group * c.rows + p * mr : nullptr;
    T* to = y + p * mr * c.y_channel + c.y_start;
    const T* a = filters + p * mr * k;
    if (cuts.first.empty()) return kernels.tile(k, a, x + t * nr, offset.data(), to + t * nr, c.y_channel, rows, cols,
        bias);
    kernels.tile(k, a, x + t * nr, offset.data(), tile, nr, rows, cols, bias);
    kernels.scatter(tile, nr, rows, to, c.y_channel, c.out_stride[2], cuts.segments.data() + cuts.first[t],
                    cuts.first[t + 1] - cuts.first[t]);
  };
  if (panels * mr * k * int64_t(sizeof(T)) <= (512 << 10)) {
    for (int64_t t = begin; t < end; ++t)
      for (int64_t p = 0; p < panels; ++p) run(p, t);
  } else {  // filters larger than the cache: each panel of them passes once
    for (int64_t p = 0; p < panels; ++p)
      for (int64_t t = begin; t < end; ++t) run(p, t);
  }
}

template <class T>
void correlate(const Correlation<T>& c, const T* x, T* y) {
  const auto& kernels = conv_kernels<T>();
  const Layout& l = c.layout;
  const bool in_place = l.in_place();
  const int64_t all = c.groups * c.channels, channel = in_place ? c.x_channel : l.phases() * l.plane();
  std::vector<char> used(l.phases(), 0);
  std::vector<int64_t> offset;
  offset.reserve(c.depth());
  for (const Three& z : c.taps) used[l.phase_of(z)] = 1;
  for (int64_t k = 0; k < c.channels; ++k)
    for (const Three& z : c.taps) offset.push_back(k * channel + l.phase_of(z) * l.plane() + l.place_of(z));
  const int64_t length = ((c.out[0] - 1) * l.count[1] + c.out[1] - 1) * l.count[2] + c.out[2];
  const int64_t tiles = c.by_lines() ? c.out[0] * c.out[1] : (length + kernels.nr - 1) / kernels.nr;
  const Cuts cuts = c.by_lines() ? Cuts() : cuts_of(c, length, tiles, kernels.nr);
  const int64_t work = c.n * c.groups * c.rows * c.depth() * length;  // multiplications
  const int64_t y_image = c.groups * c.rows * c.y_channel, x_image = all * c.x_channel;
  auto prepare = [&](int64_t image, int64_t k, T* to) { lay_out(l, x + image * x_image + k * c.x_channel, to,
      l.plane(), used); };
  if (c.n >= 2 * num_threads() || work < (1 << 18) || (in_place && c.n >= num_threads())) {
    int64_t grain = std::max<int64_t>(1, (1 << 18) / std::max<int64_t>(1, work / c.n));
    parallel_for(c.n, grain, [&](int64_t i, int64_t end) {
      T* mine = in_place ? nullptr : scratch<T>(kScratchA, all * channel);
      for (; i < end; ++i) {
        for (int64_t k = 0; k < all && !in_place; ++k) prepare(i, k, mine + k * channel);
        const T* image = in_place ? x + i * x_image : mine;
        for (int64_t g = 0; g < c.groups; ++g)
          correlate_tiles(c, offset, cuts, length, image + g * c.channels * channel,
              y + i * y_image + g * c.rows * c.y_channel, g, 0, tiles);
      }
    });
    return;
  }
  const T* images = x;
  if (!in_place) {
    T* to = scratch<T>(kScratchA, c.n * all * channel);
    parallel_for(c.n * all, std::max<int64_t>(1, 16384 / channel), [&](int64_t i, int64_t end) {
      for (; i < end; ++i) prepare(i / all, i % all, to + i * channel);
    });
    images = to;
  }
  const int64_t pieces = std::min(tiles, std::max<int64_t>(1, 4 * num_threads() / (c.n * c.groups)));
  parallel_for(c.n * c.groups * pieces, 1, [&](int64_t i, int64_t end) {
    for (; i < end; ++i) {
      int64_t piece = i % pieces, g = i / pieces % c.groups, image = i / pieces / c.groups;
      correlate_tiles(c, offset, cuts, length, images + (image * all + g * c.channels) * channel,
                      y + image * y_image + g * c.rows * c.y_channel, g, tiles * piece / pieces,
                          tiles * (piece + 1) / pieces);
    }
  });
}

Three contiguous_steps(const Three& shape) { return {shape[1] * shape[2], shape[2], 1}; }

// Weights [group][row][channel][tap]: strides say where; packed for the tiles.
template <class T>
void pack_filters(Correlation<T>& c, const T* w, int64_t group_step, int64_t row_step, int64_t channel_step,
                  const std::vector<int64_t>& tap_at) {
  const int64_t mr = conv_kernels<T>().mr, taps = int64_t(tap_at.size()), k = c.depth();
  const int64_t panels = (c.rows + mr - 1) / mr;
  c.filters.resize(size_t(c.groups * panels * mr * k));
  T* to = c.filters.data();
  for (int64_t g = 0; g < c.groups; ++g)
    for (int64_t p = 0; p < panels; ++p)
      for (int64_t ch = 0; ch < c.channels; ++ch)
        for (int64_t t = 0; t < taps; ++t, to += mr)
          for (int64_t r = 0; r < mr; ++r)
            to[r] = p * mr + r < c.rows ? w[g * group_step + (p * mr + r) * row_step + ch * channel_step + tap_at[t]]
                : T(0);
}

// The definition, for what the tiles are not made for: integers (T is unsigned, whose wrapping is that of int64) and
// dilation so wide that the padded image would dwarf the image itself. Adds to the wanted one of x, w and y.
template <class T>
void plain_loops(const Geometry& g, T* x, T* w, T* y, ConvResult which) {
  const int64_t kv = volume(g.kernel), iv = volume(g.in), ov = volume(g.out);
  for (int64_t n = 0; n < g.n; ++n)
    for (int64_t oc = 0; oc < g.oc; ++oc)
      for (int64_t c = 0; c < g.icg(); ++c)
        for (int64_t k = 0; k < kv; ++k) {
          const int64_t ic = oc / g.ocg() * g.icg() + c;
          const Three tap = {k / (g.kernel[1] * g.kernel[2]), k / g.kernel[2] % g.kernel[1], k % g.kernel[2]};
          T& weight = w[(oc * g.icg() + c) * kv + k];
          for (int64_t o = 0; o < ov; ++o) {
            const Three place = {o / (g.out[1] * g.out[2]), o / g.out[2] % g.out[1], o % g.out[2]};
            int64_t at = 0;
            bool inside = true;
            for (int d = 0; d < 3; ++d) {
              int64_t i = place[d] * g.stride[d] - g.pad[d] + tap[d] * g.dilation[d];
              inside &= i >= 0 && i < g.in[d];
              at = at * g.in[d] + i;
            }
            if (!inside) continue;
            T &from = x[(n * g.ic + ic) * iv + at], &to = y[(n * g.oc + oc) * ov + o];
            if (which == ConvResult::Output) to += weight * from;
            else if (which == ConvResult::Input) from += weight * to;
            else weight += from * to;
          }
        }
}

template <class T>
void fill_bias(T* to, const T* bias, int64_t n, int64_t channels, int64_t places) {
  for (int64_t i = 0; i < n * channels; ++i) std::fill_n(to + i * places, places, bias ? bias[i % channels] : T(0));
}

// Whether padding the image, as the tiles want it, costs out of proportion.
bool sprawls(const Geometry& g) {
  double padded = 1;
  for (int d = 0; d < 3; ++d)
    padded *=
        double(g.out[d]) * double(g.stride[d]) + double(g.kernel[d] - 1) * double(g.dilation[d]) + double(g.stride[d]);
  return padded > 64.0 * double(volume(g.in) + volume(g.out)) + double(1 << 16);
}

#ifdef FLAMBEAU_ONEDNN
// Where oneDNN's blocked layouts win in spite of the reordering (measured on Zen 5, 1 thread): rows of the
// plane shorter than about two tiles, enough channels to fill its blocks, and work that outweighs its 10 microseconds
// of preparation.
bool onednn_pays(const Geometry& g, ConvResult which) {
  const int64_t kv = volume(g.kernel);
  if (sprawls(g)) return false;
  if (g.groups != 1 || g.n * g.oc * g.ic * kv * volume(g.out) < (1 << 20)) return false;
  if (which == ConvResult::Weights) return true;
  if (kv == 1) return false;
  return which == ConvResult::Output ? g.ic > 4 && g.out[2] < 40 : g.ic > 8 && g.oc > 4 && g.in[2] < 40;
}
bool by_onednn(const Geometry& g, const float* x, const float* w, const float* bias, const float* y, ConvResult which) {
  return onednn_pays(g, which) &&
         onednn_convolution(g, const_cast<float*>(x), const_cast<float*>(w), bias, const_cast<float*>(y), which);
}
#else
bool by_onednn(const Geometry&, const float*, const float*, const float*, const float*, ConvResult) { return false; }
#endif

template <class T>
void forward(const Geometry& g, const T* x, const T* w, const T* bias, T* y) {
  if constexpr (std::is_same_v<T, float>)
    if (by_onednn(g, x, w, bias, y, ConvResult::Output)) return;
  if (sprawls(g)) {
    fill_bias(y, bias, g.n, g.oc, volume(g.out));
    return plain_loops(g, const_cast<T*>(x), const_cast<T*>(w), y, ConvResult::Output);
  }
  Correlation<T> c;
  for (int d = 0; d < 3; ++d) {
    c.layout.source[d] = g.in[d];
    c.layout.start[d] = -g.pad[d];
    c.layout.step[d] = g.stride[d];
    c.layout.count[d] = g.out[d] + (g.kernel[d] - 1) * g.dilation[d] / g.stride[d];
  }
  c.out = g.out, c.out_stride = contiguous_steps(g.out);
  c.n = g.n, c.groups = g.groups, c.channels = g.icg(), c.rows = g.ocg();
  c.x_channel = volume(g.in), c.y_channel = volume(g.out), c.y_start = 0;
  c.bias = bias;
  std::vector<int64_t> tap_at;
  const int64_t kv = volume(g.kernel);
  for (int64_t t = 0; t < kv; ++t) {
    c.taps.push_back({t / (g.kernel[1] * g.kernel[2]) * g.dilation[0], t / g.kernel[2] % g.kernel[1] * g.dilation[1],
                      t % g.kernel[2] * g.dilation[2]});
    tap_at.push_back(t);
  }
  pack_filters(c, w, g.ocg() * g.icg() * kv, g.icg() * kv, kv, tap_at);
  correlate(c, x, y);
}

// x from y: the gradient of the input, and the transposed convolution. Input place i receives y[o] through tap k where
// i + pad = o stride + k dilation; places with the same i mod stride share their taps.
template <class T>
void backward_data(const Geometry& g, const T* y, const T* w, const T* bias, T* x) {
  if constexpr (std::is_same_v<T, float>)
    if (!bias && by_onednn(g, x, w, nullptr, y, ConvResult::Input)) return;
  if (sprawls(g)) {
    fill_bias(x, bias, g.n, g.ic, volume(g.in));
    return plain_loops(g, x, const_cast<T*>(w), const_cast<T*>(y), ConvResult::Input);
  }
  const int64_t kv = volume(g.kernel);
  for (int64_t phase = 0; phase < volume(g.stride); ++phase) {
    Three r = {phase / (g.stride[1] * g.stride[2]), phase / g.stride[2] % g.stride[1], phase % g.stride[2]};
    Correlation<T> c;
    std::array<std::vector<std::pair<int64_t, int64_t>>, 3> axis;  // (kernel index, shift of y)
    Three steps = contiguous_steps(g.in);
    c.y_start = 0;
    for (int d = 0; d < 3; ++d) {
      c.out[d] = g.in[d] > r[d] ? (g.in[d] - r[d] + g.stride[d] - 1) / g.stride[d] : 0;
      c.out_stride[d] = steps[d] * g.stride[d];
      c.y_start += r[d] * steps[d];
      int64_t low = 0, high = 0;
      for (int64_t k = 0; k < g.kernel[d]; ++k) {
        int64_t z = r[d] + g.pad[d] - k * g.dilation[d];
        if (z % g.stride[d]) continue;
        int64_t shift = z / g.stride[d];
        low = axis[d].empty() ? shift : std::min(low, shift), high = axis[d].empty() ? shift : std::max(high, shift);
        axis[d].push_back({k, shift});
      }
      c.layout.source[d] = g.out[d];
      c.layout.start[d] = low;
      c.layout.step[d] = 1;
      c.layout.count[d] = c.out[d] + high - low;
    }
    if (volume(c.out) == 0) continue;
    c.n = g.n, c.groups = g.groups, c.channels = g.ocg(), c.rows = g.icg();
    c.x_channel = volume(g.out), c.y_channel = volume(g.in);
    c.bias = bias;
    std::vector<int64_t> tap_at;
    for (auto [k0, s0] : axis[0])
      for (auto [k1, s1] : axis[1])
        for (auto [k2, s2] : axis[2]) {
          c.taps.push_back({s0 - c.layout.start[0], s1 - c.layout.start[1], s2 - c.layout.start[2]});
          tap_at.push_back((k0 * g.kernel[1] + k1) * g.kernel[2] + k2);
        }
    pack_filters(c, w, g.ocg() * g.icg() * kv, kv, g.icg() * kv, tap_at);
    correlate(c, y, x);
  }
}

// w[oc, ic, tap] = sum over images and places of gy x. Images go through in chunks that fit the cache, gy on the same
// grid as x with zeros where there is no result.
template <class T>
void backward_weight(const Geometry& g, const T* x, const T* gy, T* gw) {
  if constexpr (std::is_same_v<T, float>)
    if (by_onednn(g, x, gw, nullptr, gy, ConvResult::Weights)) return;
  if (sprawls(g)) {
    std::fill_n(gw, g.oc * g.icg() * volume(g.kernel), T(0));
    return plain_loops(g, const_cast<T*>(x), gw, const_cast<T*>(gy), ConvResult::Weights);
  }
  const auto& kernels = conv_kernels<T>();
  const int64_t kv = volume(g.kernel), icg = g.icg(), ocg = g.ocg(), depth = icg * kv;
  std::fill_n(gw, g.oc * depth, T(0));
  Layout l, lg;
  for (int d = 0; d < 3; ++d) {
    l.source[d] = g.in[d], l.start[d] = -g.pad[d], l.step[d] = g.stride[d];
    l.count[d] = g.out[d] + (g.kernel[d] - 1) * g.dilation[d] / g.stride[d];
    lg.source[d] = g.out[d], lg.start[d] = 0, lg.step[d] = 1, lg.count[d] = l.count[d];
  }
  std::vector<Three> taps;
  std::vector<char> used(l.phases(), 0), all_used(1, 1);
  for (int64_t t = 0; t < kv; ++t) {
    taps.push_back({t / (g.kernel[1] * g.kernel[2]) * g.dilation[0], t / g.kernel[2] % g.kernel[1] * g.dilation[1],
                    t % g.kernel[2] * g.dilation[2]});
    used[l.phase_of(taps.back())] = 1;
  }
  const int64_t plane = l.plane(), per_image = (g.ic * l.phases() + g.oc) * plane * int64_t(sizeof(T));
  const int64_t chunk = std::min(g.n, std::max<int64_t>(1, (3 << 20) / per_image));
  const int64_t slack = l.place_of({(g.kernel[0] - 1) * g.dilation[0], (g.kernel[1] - 1) * g.dilation[1],
      (g.kernel[2] - 1) * g.dilation[2]}) + 64;
  const int64_t phase_step = chunk * plane + slack, channel = l.phases() * phase_step,
      g_channel = (chunk * plane + 15) / 16 * 16;  // aligned rows
  T* xs = scratch<T>(kScratchA, g.ic * channel);
  T* gs = scratch<T>(kScratchB, g.oc * g_channel);
  std::vector<int64_t> offset;
  for (int64_t k = 0; k < icg; ++k)
    for (const Three& z : taps) offset.push_back(k * channel + l.phase_of(z) * phase_step + l.place_of(z));
  const int64_t mr = kernels.mr, nt = kernels.nt, panels = (ocg + mr - 1) / mr, columns = (depth + nt - 1) / nt;
  const int64_t units = g.groups * panels * columns;
  constexpr int64_t kRun = 1024;
  for (int64_t first = 0; first < g.n; first += chunk) {
    const int64_t images = std::min(chunk, g.n - first), length = images * plane;
    parallel_for(g.ic + g.oc, std::max<int64_t>(1, 16384 / length), [&](int64_t k, int64_t end) {
      for (; k < end; ++k) {
        if (k < g.ic) {
          T* to = xs + k * channel;
          for (int64_t i = 0; i < images; ++i)
            lay_out(l, x + ((first + i) * g.ic + k) * volume(g.in), to + i * plane, phase_step, used);
          for (int64_t p = 0; p < l.phases(); ++p) std::fill_n(to + p * phase_step + length, phase_step - length, T(0));
        } else {
          for (int64_t i = 0; i < images; ++i)
            lay_out(lg, gy + ((first + i) * g.oc + k - g.ic) * volume(g.out), gs + (k - g.ic) * g_channel + i * plane,
                plane, all_used);
        }
      }
    });
    parallel_for(units, std::max<int64_t>(1, (1 << 18) / (length * mr * nt)), [&](int64_t begin, int64_t end) {
      for (int64_t t = 0; t < length; t += kRun)
        for (int64_t u = begin; u < end; ++u) {
          int64_t column = u % columns * nt, panel = u / columns % panels * mr, group = u / columns / panels;
          int64_t row = group * ocg + panel;
          kernels.taps(std::min(kRun, length - t), gs + row * g_channel + t, g_channel, xs + group * icg * channel + t,
                       offset.data() + column, gw + row * depth + column, depth, int(std::min(mr, ocg - panel)),
                       int(std::min(nt, depth - column)));
        }
    });
  }
}

// gb[c] = sum of gy over images and places, image by image.
template <class T>
void backward_bias(const T* gy, int64_t n, int64_t channels, int64_t places, T* gb) {
  for (int64_t k = 0; k < channels; ++k) {
    double total = 0;
    for (int64_t i = 0; i < n; ++i) {
      const T* row = gy + (i * channels + k) * places;
      T lanes[16] = {};
      int64_t p = 0;
      for (; p + 16 <= places; p += 16)
        for (int j = 0; j < 16; ++j) lanes[j] += row[p + j];
      for (; p < places; ++p) lanes[0] += row[p];
      for (int j = 0; j < 16; ++j) total += lanes[j];
    }
    gb[k] = T(total);
  }
}

void forward_integers(const Geometry& g, const int64_t* x, const int64_t* w, const int64_t* bias, int64_t* y,
    bool transposed) {
  auto u = [](const int64_t* p) { return reinterpret_cast<uint64_t*>(const_cast<int64_t*>(p)); };
  fill_bias(y, bias, g.n, transposed ? g.ic : g.oc, volume(transposed ? g.in : g.out));
  if (transposed) plain_loops(g, u(y), u(w), u(x), ConvResult::Input);
  else plain_loops(g, u(x), u(w), u(y), ConvResult::Output);
}

// --- convolution(input, weight, bias, stride, padding, dilation, transposed, output_padding, groups)
// ------------------

enum { kInput, kWeight, kBias, kStride, kPadding, kDilation, kTransposed, kOutputPadding, kGroups };

Three three(Dims given, int nd, const char* op, const char* what, int64_t least, int64_t otherwise) {
  Three result = {otherwise, otherwise, otherwise};
  if (int(given.size()) != nd && given.size() != 1)
    runtime_error(op, ": ", what, " must be an int or ", nd, " ints, one per spatial dimension, got ",
                  shape_text(given));
  for (int d = 0; d < nd; ++d) {
    int64_t v = given.size() == 1 ? given[0] : given[d];
    if (v < least) runtime_error(op, ": ", least > 0 ? "non-positive " : "negative ", what, " is not supported, got ",
        what, "=", shape_text(given));
    if (v > (int64_t(1) << 40)) runtime_error(op, ": ", what, "=", shape_text(given), " is too large");
    result[3 - nd + d] = v;
  }
  return result;
}

struct Problem {
  Geometry g;
  bool transposed;
  std::vector<int64_t> result;  // shape of the output
};

// Checks everything. `first` is the position of `stride` among the arguments.
Problem describe(const Call& c, const Tensor& x, const Tensor& w, const Tensor* bias, int first) {
  const char* op = "convolution";
  int nd = w.ndim - 2;
  if (nd < 1 || nd > 3)
    runtime_error(op, ": expected a 3D, 4D or 5D weight, got weight of size ", shape_text(w.shape()));
  if (x.ndim != w.ndim)
    runtime_error(op, ": input must have ", nd + 2, " dimensions, or ", nd + 1, " without a batch, got shape ",
                  shape_text(x.shape()));
  Problem p;
  p.transposed = c.boolean(first + 3);
  Geometry& g = p.g;
  g.stride = three(c.ints(first), nd, op, "stride", 1, 1);
  g.pad = three(c.ints(first + 1), nd, op, "padding", 0, 0);
  g.dilation = three(c.ints(first + 2), nd, op, "dilation", 1, 1);
  Three extra = three(c.ints(first + 4), nd, op, "output_padding", 0, 0);
  g.groups = c.integer(first + 5);
  if (g.groups <= 0) runtime_error(op, ": groups must be positive, got ", g.groups);
  if (x.dtype != w.dtype)
    runtime_error(op, ": input is ", dtype_name(x.dtype), " and weight is ", dtype_name(w.dtype),
                  "; convert one of them");
  if (bias && bias->dtype != x.dtype)
    runtime_error(op, ": input type (", dtype_name(x.dtype), ") and bias type (", dtype_name(bias->dtype),
        ") should be the same");
  if (x.dtype == DType::Bool || is_float8(x.dtype))
    runtime_error(op, ": not implemented for dtype ", dtype_name(x.dtype));
  auto shapes = [&] { return concat(op, ": weight ", shape_text(w.shape()), " with groups=", g.groups); };
  int64_t out_channels = p.transposed ? size_product(op, {w.size(1), g.groups}) : w.size(0);
  int64_t in_channels = p.transposed ? w.size(0) : size_product(op, {w.size(1), g.groups});
  if (w.size(0) < g.groups)
    runtime_error(shapes(), ": has fewer output channels, ", w.size(0), ", than groups");
  if (w.size(0) % g.groups)
    runtime_error(shapes(), ": its ", w.size(0), " output channels cannot be divided into the groups");
  if (x.size(1) != in_channels)
    runtime_error(shapes(), " takes ", in_channels, " input channels, got input ", shape_text(x.shape()), " with ",
                  x.size(1));
  if (bias && (bias->ndim != 1 || bias->size(0) != out_channels))
    runtime_error(shapes(), ": the bias must hold one number per output channel, ", out_channels,
                  ", in 1 dimension, got "
                  "shape ",
                  shape_text(bias->shape()));
  g.n = x.size(0);
  g.ic = p.transposed ? out_channels : in_channels;
  g.oc = p.transposed ? in_channels : out_channels;
  g.in = g.out = g.kernel = {1, 1, 1};
  p.result = {x.size(0), out_channels};
  for (int d = 3 - nd; d < 3; ++d) {
    int axis = d - 3 + nd + 2;
    int64_t size = x.size(axis), k = w.size(axis), span;
    if (k < 1) runtime_error(op, ": kernel size must be positive, got weight of size ", shape_text(w.shape()));
    if (__builtin_mul_overflow(k - 1, g.dilation[d], &span) || span > (int64_t(1) << 40))
      runtime_error(op, ": the dilated kernel is too large: weight of size ", shape_text(w.shape()));
    g.kernel[d] = k;
    if (p.transposed) {
      if (extra[d] >= g.stride[d] && extra[d] >= g.dilation[d])
        runtime_error("output_padding ", extra[d], " must be below stride ", g.stride[d], " or dilation ",
                      g.dilation[d]);
      int64_t result = size_sum(op, {size_product(op, {size - 1, g.stride[d]}), -2 * g.pad[d], span, extra[d], 1});
      if (result < 0 || (result == 0 && size > 0))
        runtime_error(op, ": dimension ", axis, " of the result would get size ", result, " from input ",
            shape_text(x.shape()), " and weight ", shape_text(w.shape()));
      g.out[d] = size, g.in[d] = result;
      p.result.push_back(result);
    } else {
      int64_t room = size_sum(op, {size, 2 * g.pad[d], -span, -1});
      if (room < 0)
        runtime_error("the kernel is larger than the input: it spans ", span + 1, ", dimension ", axis, " of input ",
                      shape_text(x.shape()), " has ", size + 2 * g.pad[d], " with its padding");
      g.in[d] = size, g.out[d] = room / g.stride[d] + 1;
      p.result.push_back(g.out[d]);
    }
  }
  count(p.result);
  // the padded image must be addressable
  int64_t padded = sizeof(double);
  for (int64_t v : {std::max<int64_t>(g.n, 1), std::max(g.ic, g.oc) + 1, g.in[0] + 2 * g.pad[0] + 1,
      g.in[1] + 2 * g.pad[1] + 1, g.in[2] + 2 * g.pad[2] + 1})
    if (__builtin_mul_overflow(padded, v, &padded) || padded > (int64_t(1) << 46))
      runtime_error(op, ": sizes overflow (input ", shape_text(x.shape()), ", padding ", shape_text(c.ints(first + 1)),
          ")");
  return p;
}

void infer_convolution(Call& c) {
  Problem p = describe(c, c.tensor(kInput), c.tensor(kWeight), c.optional_tensor(kBias), kStride);
  c.output(p.result, c.tensor(kInput).dtype, c.tensor(kInput).device);
}

template <class T>
void run_forward(const Problem& p, const Tensor& x, const Tensor& w, const Tensor* bias, T* y) {
  const T* b = bias ? bias->ptr<T>() : nullptr;
  if (p.transposed) backward_data<T>(p.g, x.ptr<T>(), w.ptr<T>(), b, y);
  else forward<T>(p.g, x.ptr<T>(), w.ptr<T>(), b, y);
}

int64_t work_of(const Geometry& g) { return g.n * g.oc * g.icg() * volume(g.kernel) * volume(g.out) / 16; }

// Real and imaginary parts as tensors of their own.
template <class R>
std::pair<TensorRef, TensorRef> parts(const Tensor& t) {
  DType real = real_of(t.dtype);
  TensorRef re = empty(t.shape(), real, t.device), im = empty(t.shape(), real, t.device);
  for (int64_t i = 0; i < t.numel; ++i) {
    std::complex<R> v = t.ptr<std::complex<R>>()[i];
    re->ptr<R>()[i] = v.real(), im->ptr<R>()[i] = v.imag();
  }
  return {re, im};
}

// z = f(a, b) for a bilinear f of complex arguments, as four real ones; `conj` conjugates the second.
template <class R, class F>
void complex_parts(const Tensor& a, const Tensor& b, bool conj, std::complex<R>* z, int64_t n, F&& f) {
  auto [ar, ai] = parts<R>(a);
  auto [br, bi] = parts<R>(b);
  std::vector<R> rr(n), ii(n), ri(n), ir(n);
  f(*ar, *br, rr.data()), f(*ai, *bi, ii.data()), f(*ar, *bi, ri.data()), f(*ai, *br, ir.data());
  R s = conj ? -1 : 1;
  for (int64_t i = 0; i < n; ++i) z[i] = {rr[i] - s * ii[i], s * ri[i] + ir[i]};
}

template <class R>
void add_bias(std::complex<R>* y, const std::complex<R>* bias, int64_t n, int64_t channels, int64_t places) {
  for (int64_t i = 0; i < n * channels; ++i)
    for (int64_t p = 0; p < places; ++p) y[i * places + p] += bias[i % channels];
}

void cpu_convolution(Call& c) {
  Tensor& out = c.out();
  if (out.numel == 0) return;
  Problem p = describe(c, c.tensor(kInput), c.tensor(kWeight), c.optional_tensor(kBias), kStride);
  DType dtype = out.dtype, compute = is_half(dtype) ? DType::Float32 : is_integral(dtype) ? DType::Int64 : dtype;
  TensorRef x = contiguous(*to_dtype(c.tensor(kInput), compute)), w = contiguous(*to_dtype(c.tensor(kWeight),
      compute)), bias, wide;
  if (Tensor* b = c.optional_tensor(kBias)) bias = contiguous(*to_dtype(*b, compute));
  Tensor* y = &out;
  if (compute != dtype) wide = empty(out.shape(), compute, out.device), y = wide.get();
  if (is_complex(dtype)) {
    int64_t channels = out.size(1), places = out.numel / (out.size(0) * channels);
    auto both = [&]<class R>() {
      complex_parts<R>(*x, *w, false, y->ptr<std::complex<R>>(), y->numel,
                       [&](const Tensor& a, const Tensor& b, R* to) { run_forward<R>(p, a, b, nullptr, to); });
      if (bias) add_bias(y->ptr<std::complex<R>>(), bias->ptr<std::complex<R>>(), out.size(0), channels, places);
    };
    if (dtype == DType::Complex64) both.operator()<float>();
    else both.operator()<double>();
    return;
  }
  {
    LockRelease lock(work_of(p.g));
    if (compute == DType::Float32) run_forward<float>(p, *x, *w, bias.get(), y->ptr<float>());
    else if (compute == DType::Float64) run_forward<double>(p, *x, *w, bias.get(), y->ptr<double>());
    else forward_integers(p.g, x->ptr<int64_t>(), w->ptr<int64_t>(), bias ? bias->ptr<int64_t>() : nullptr,
        y->ptr<int64_t>(), p.transposed);
  }
  trim_scratch();
  if (wide) copy_into(out, *wide);
}

// --- convolution_backward(grad, input, weight, stride, padding, dilation, transposed, output_padding, groups, mask)
// -----
// -> gradients of input, weight, bias; bits 1, 2, 4 of mask say which are wanted, the others come back empty.

Problem describe_backward(const Call& c) {
  Problem p = describe(c, c.tensor(1), c.tensor(2), nullptr, 3);
  if (!std::ranges::equal(c.tensor(0).shape(), p.result))
    runtime_error("convolution_backward: expected a gradient of shape ", shape_text(p.result), ", got ",
        shape_text(c.tensor(0).shape()));
  if (c.tensor(0).dtype != c.tensor(1).dtype)
    runtime_error("convolution_backward: expected a gradient of dtype ", dtype_name(c.tensor(1).dtype), ", got ",
        dtype_name(c.tensor(0).dtype));
  if (!is_differentiable(c.tensor(0).dtype) || is_float8(c.tensor(0).dtype))
    runtime_error("convolution_backward: not offered for dtype ", dtype_name(c.tensor(0).dtype));
  return p;
}

void infer_backward(Call& c) {
  Problem p = describe_backward(c);
  Tensor &x = c.tensor(1), &w = c.tensor(2);
  int64_t mask = c.integer(9), nothing[] = {0}, channels[] = {p.result[1]};
  c.output(mask & 1 ? x.shape() : Dims(nothing), x.dtype, x.device);
  c.output(mask & 2 ? w.shape() : Dims(nothing), x.dtype, x.device);
  c.output(mask & 4 ? Dims(channels) : Dims(nothing), x.dtype, x.device);
}

template <class T>
void grad_input(const Problem& p, const Tensor& g, const Tensor& w, T* to) {
  if (p.transposed) forward<T>(p.g, g.ptr<T>(), w.ptr<T>(), nullptr, to);
  else backward_data<T>(p.g, g.ptr<T>(), w.ptr<T>(), nullptr, to);
}
template <class T>
void grad_weight(const Problem& p, const Tensor& g, const Tensor& x, T* to) {
  if (p.transposed) backward_weight<T>(p.g, g.ptr<T>(), x.ptr<T>(), to);
  else backward_weight<T>(p.g, x.ptr<T>(), g.ptr<T>(), to);
}

void cpu_backward(Call& c) {
  Problem p = describe_backward(c);
  int64_t mask = c.integer(9);
  DType dtype = c.tensor(0).dtype, compute = is_half(dtype) ? DType::Float32 : dtype;
  Device device = c.tensor(0).device;
  TensorRef g = contiguous(*to_dtype(c.tensor(0), compute)), x, w, results[3];
  for (int k = 0; k < 3; ++k)
    results[k] = compute == dtype ? TensorRef::borrow(&c.out(k)) : empty(c.out(k).shape(), compute, device);
  if (g->numel == 0) {  // no results: no gradients either
    for (int k = 0; k < 3; ++k) if (c.out(k).numel) fill(c.out(k), 0);
    return;
  }
  if (mask & 2) x = contiguous(*to_dtype(c.tensor(1), compute));
  if (mask & 1) w = contiguous(*to_dtype(c.tensor(2), compute));
  const int64_t channels = g->size(1), places = g->numel / (g->size(0) * channels);
  auto complex = [&]<class R>() {
    using C = std::complex<R>;
    if (mask & 1) complex_parts<R>(*g, *w, true, results[0]->ptr<C>(), results[0]->numel, [&](const Tensor& a,
        const Tensor& b, R* to) { grad_input<R>(p, a, b, to); });
    if (mask & 2) complex_parts<R>(*g, *x, true, results[1]->ptr<C>(), results[1]->numel, [&](const Tensor& a,
        const Tensor& b, R* to) { grad_weight<R>(p, a, b, to); });
    if (mask & 4) {
      auto [re, im] = parts<R>(*g);
      std::vector<R> sr(channels), si(channels);
      backward_bias<R>(re->template ptr<R>(), g->size(0), channels, places, sr.data());
      backward_bias<R>(im->template ptr<R>(), g->size(0), channels, places, si.data());
      for (int64_t k = 0; k < channels; ++k) results[2]->ptr<C>()[k] = C(sr[k], si[k]);
    }
  };
  auto real = [&]<class T>() {
    LockRelease lock(2 * work_of(p.g));
    if (mask & 1) grad_input<T>(p, *g, *w, results[0]->ptr<T>());
    if (mask & 2) grad_weight<T>(p, *g, *x, results[1]->ptr<T>());
    if (mask & 4) backward_bias<T>(g->ptr<T>(), g->size(0), channels, places, results[2]->ptr<T>());
  };
  switch (compute) {
    case DType::Float32: real.operator()<float>(); break;
    case DType::Float64: real.operator()<double>(); break;
    case DType::Complex64: complex.operator()<float>(); break;
    default: complex.operator()<double>();
  }
  trim_scratch();
  if (compute != dtype)
    for (int k = 0; k < 3; ++k) if (c.out(k).numel) copy_into(c.out(k), *results[k]);
}

const Primitives rows{
    {"convolution", infer_convolution, cpu_convolution},
    {"convolution_backward", infer_backward, cpu_backward},
};

}  // namespace
}  // namespace flambeau
