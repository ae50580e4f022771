// The passes of a convolution: its result, the gradient of its input (and the transposed convolution), and that of its
// weights; and which of tiles, oneDNN and plain loops computes each.
//
// A convolution is a matrix product whose right operand is the image read at shifted places: every tap is one offset.
// The gradient of the input is the same correlation with turned weights, one per phase of the stride; the gradient of
// the weights is dots along the plane.
#include <algorithm>
#include <array>
#include <numeric>

#include "../core/parallel.h"
#include "correlate.h"
#include "gemm.h"

namespace flambeau {

using Geometry = ConvGeometry;

namespace {

Three contiguous_steps(const Three& shape) { return {shape[1] * shape[2], shape[2], 1}; }

// The definition, for what the tiles are not made for: dilation so wide that the padded image would dwarf the image
// itself. Adds to the wanted one of x, w and y.
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
         onednn_convolution(g, DType::Float32, const_cast<float*>(x), const_cast<float*>(w), bias,
                            const_cast<float*>(y), which);
}
#else
bool by_onednn(const Geometry&, const float*, const float*, const float*, const float*, ConvResult) { return false; }
#endif

// The taps of the kernel as places of a padded image.
std::vector<Three> taps_of(const Geometry& g) {
  std::vector<Three> taps;
  for (int64_t t = 0; t < volume(g.kernel); ++t)
    taps.push_back({t / (g.kernel[1] * g.kernel[2]) * g.dilation[0], t / g.kernel[2] % g.kernel[1] * g.dilation[1],
                    t % g.kernel[2] * g.dilation[2]});
  return taps;
}

// The padded image that the forward pass reads.
PhaseLayout padded(const Geometry& g) {
  PhaseLayout l;
  for (int d = 0; d < 3; ++d) {
    l.source[d] = g.in[d], l.start[d] = -g.pad[d], l.step[d] = g.stride[d];
    l.count[d] = g.out[d] + (g.kernel[d] - 1) * g.dilation[d] / g.stride[d];
  }
  return l;
}

using Shifts = std::vector<std::pair<int64_t, int64_t>>;  // (kernel index, shift of y)

// Input places that are `r` modulo the stride along one axis: how many there are, which taps reach them, and which
// stretch of y these read.
Shifts phase_axis(const Geometry& g, int d, int64_t r, int64_t& out, PhaseLayout& layout) {
  Shifts shifts;
  int64_t low = 0, high = 0;
  for (int64_t k = 0; k < g.kernel[d]; ++k) {
    int64_t z = r + g.pad[d] - k * g.dilation[d];
    if (z % g.stride[d]) continue;
    int64_t shift = z / g.stride[d];
    low = shifts.empty() ? shift : std::min(low, shift), high = shifts.empty() ? shift : std::max(high, shift);
    shifts.push_back({k, shift});
  }
  out = g.in[d] > r ? (g.in[d] - r + g.stride[d] - 1) / g.stride[d] : 0;
  layout.source[d] = g.out[d], layout.start[d] = low, layout.step[d] = 1;
  layout.count[d] = out + high - low;
  return shifts;
}

template <class T>
void backward_phase(const Geometry& g, const Three& r, const T* y, const T* w, const T* bias, T* x) {
  const int64_t kv = volume(g.kernel);
  const Three steps = contiguous_steps(g.in);
  Correlation<T> c;
  std::array<Shifts, 3> axis;
  c.y_start = 0;
  for (int d = 0; d < 3; ++d) {
    axis[d] = phase_axis(g, d, r[d], c.out[d], c.layout);
    c.out_stride[d] = steps[d] * g.stride[d];
    c.y_start += r[d] * steps[d];
  }
  if (volume(c.out) == 0) return;
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

// The gradient of the weights while it is computed: both arrays in chunks of images on one grid.
template <class T>
struct WeightPass {
  const Geometry& g;
  const std::vector<Three> taps = taps_of(g);
  const PhaseLayout l = padded(g), lg = grid_of_results();
  const int64_t plane = l.plane(), per_image = (g.ic * l.phases() + g.oc) * plane * int64_t(sizeof(T));
  const int64_t chunk = std::min(g.n, std::max<int64_t>(1, (3 << 20) / per_image));
  const int64_t slack = l.place_of({(g.kernel[0] - 1) * g.dilation[0], (g.kernel[1] - 1) * g.dilation[1],
                                    (g.kernel[2] - 1) * g.dilation[2]}) + 64;
  const int64_t phase_step = chunk * plane + slack, channel = l.phases() * phase_step;
  const int64_t g_channel = (chunk * plane + 15) / 16 * 16;  // aligned rows
  T* const xs = scratch<T>(kScratchA, g.ic * channel);
  T* const gs = scratch<T>(kScratchB, g.oc * g_channel);
  std::vector<char> used = std::vector<char>(size_t(l.phases()), 0), all_used = std::vector<char>(1, 1);
  std::vector<int64_t> offset;

  explicit WeightPass(const Geometry& g) : g(g) {
    for (const Three& z : taps) used[l.phase_of(z)] = 1;
    for (int64_t k = 0; k < g.icg(); ++k)
      for (const Three& z : taps) offset.push_back(k * channel + l.phase_of(z) * phase_step + l.place_of(z));
  }
  PhaseLayout grid_of_results() const {
    PhaseLayout grid;
    for (int d = 0; d < 3; ++d)
      grid.source[d] = g.out[d], grid.start[d] = 0, grid.step[d] = 1, grid.count[d] = l.count[d];
    return grid;
  }
  void lay_out_chunk(const T* x, const T* gy, int64_t first, int64_t images) const;
  void add_products(int64_t length, T* gw) const;
};

template <class T>
void WeightPass<T>::lay_out_chunk(const T* x, const T* gy, int64_t first, int64_t images) const {
  const int64_t length = images * plane;
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
}

template <class T>
void WeightPass<T>::add_products(int64_t length, T* gw) const {
  const auto& kernels = conv_kernels<T>();
  const int64_t icg = g.icg(), ocg = g.ocg(), depth = icg * volume(g.kernel);
  const int64_t mr = kernels.mr, nt = kernels.nt, panels = (ocg + mr - 1) / mr, columns = (depth + nt - 1) / nt;
  const int64_t units = g.groups * panels * columns;
  constexpr int64_t kRun = 1024;
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

// Kernels of one place over few channels of large planes: the gradient of the weights is a few dot products, of
// stretches of the planes that stay in the cache meanwhile. Nothing is laid out anew.
template <class T>
bool by_dot_products(const Geometry& g, const T* x, const T* gy, T* gw) {
  constexpr int64_t kFew = 8, kMostFilters = 16, kMostChannels = 64, kLargePlane = 4096, kStretch = 2048;
  const int64_t places = volume(g.in);
  if (g.groups != 1 || volume(g.kernel) != 1 || g.in != g.out || volume(g.stride) != 1) return false;
  if (std::min(g.ic, g.oc) > kFew || g.ic > kMostChannels || g.oc > kMostFilters) return false;
  if (g.n == 0 || places < kLargePlane) return false;
  Epilogue<T> e;
  for (int64_t i = 0; i < g.n; ++i)
    for (int64_t p = 0; p < places; p += kStretch, e.beta = 1)
      for (int64_t o = 0; o < g.oc; ++o)
        gemm<T>(1, g.ic, std::min(kStretch, places - p), gy + (i * g.oc + o) * places + p, 1, 1,
                x + i * g.ic * places + p, 1, places, gw + o * g.ic, g.ic, e, false);
  return true;
}

}  // namespace

template <class T>
void conv_forward(const Geometry& g, const T* x, const T* w, const T* bias, T* y) {
  if (trimmed_forward(g, x, w, bias, y)) return;
  if constexpr (std::is_same_v<T, float>)
    if (by_onednn(g, x, w, bias, y, ConvResult::Output)) return;
  if (sprawls(g)) {
    fill_bias(y, bias, g.n, g.oc, volume(g.out));
    return plain_loops(g, const_cast<T*>(x), const_cast<T*>(w), y, ConvResult::Output);
  }
  Correlation<T> c;
  c.layout = padded(g);
  c.out = g.out, c.out_stride = contiguous_steps(g.out);
  c.n = g.n, c.groups = g.groups, c.channels = g.icg(), c.rows = g.ocg();
  c.x_channel = volume(g.in), c.y_channel = volume(g.out), c.y_start = 0;
  c.bias = bias;
  c.taps = taps_of(g);
  const int64_t kv = volume(g.kernel);
  std::vector<int64_t> tap_at(static_cast<size_t>(kv));
  std::iota(tap_at.begin(), tap_at.end(), 0);
  pack_filters(c, w, g.ocg() * g.icg() * kv, g.icg() * kv, kv, tap_at);
  correlate(c, x, y);
}

// x from y: the gradient of the input, and the transposed convolution. Input place i receives y[o] through tap k where
// i + pad = o stride + k dilation; places with the same i mod stride share their taps.
template <class T>
void conv_backward_data(const Geometry& g, const T* y, const T* w, const T* bias, T* x) {
  if (trimmed_backward_data(g, y, w, bias, x)) return;
  if constexpr (std::is_same_v<T, float>)
    if (!bias && by_onednn(g, x, w, nullptr, y, ConvResult::Input)) return;
  if (sprawls(g)) {
    fill_bias(x, bias, g.n, g.ic, volume(g.in));
    return plain_loops(g, x, const_cast<T*>(w), const_cast<T*>(y), ConvResult::Input);
  }
  for (int64_t phase = 0; phase < volume(g.stride); ++phase) {
    Three r = {phase / (g.stride[1] * g.stride[2]), phase / g.stride[2] % g.stride[1], phase % g.stride[2]};
    backward_phase(g, r, y, w, bias, x);
  }
}

// w[oc, ic, tap] = sum over images and places of gy x. Images go through in chunks that fit the cache, gy on the same
// grid as x with zeros where there is no result.
template <class T>
void conv_backward_weight(const Geometry& g, const T* x, const T* gy, T* gw) {
  if (trimmed_backward_weight(g, x, gy, gw) || by_dot_products(g, x, gy, gw)) return;
  if constexpr (std::is_same_v<T, float>)
    if (by_onednn(g, x, gw, nullptr, gy, ConvResult::Weights)) return;
  std::fill_n(gw, g.oc * g.icg() * volume(g.kernel), T(0));
  if (sprawls(g)) return plain_loops(g, const_cast<T*>(x), gw, const_cast<T*>(gy), ConvResult::Weights);
  const WeightPass<T> pass(g);
  for (int64_t first = 0; first < g.n; first += pass.chunk) {
    const int64_t images = std::min(pass.chunk, g.n - first);
    pass.lay_out_chunk(x, gy, first, images);
    pass.add_products(images * pass.plane, gw);
  }
}

// gb[c] = sum of gy over images and places, image by image.
template <class T>
void conv_backward_bias(const T* gy, int64_t n, int64_t channels, int64_t places, T* gb) {
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

#define FLAMBEAU_PASSES(T)                                                          \
  template void conv_forward<T>(const Geometry&, const T*, const T*, const T*, T*); \
  template void conv_backward_data<T>(const Geometry&, const T*, const T*, const T*, T*);
FLAMBEAU_PASSES(float)
FLAMBEAU_PASSES(double)
FLAMBEAU_PASSES(uint64_t)
#undef FLAMBEAU_PASSES

#define FLAMBEAU_SUMS(T)                                                          \
  template void conv_backward_weight<T>(const Geometry&, const T*, const T*, T*); \
  template void conv_backward_bias<T>(const T*, int64_t, int64_t, int64_t, T*);
FLAMBEAU_SUMS(float)
FLAMBEAU_SUMS(double)
#undef FLAMBEAU_SUMS

}  // namespace flambeau
