// Images resized: every axis gets a table of taps (places and weights), and a plane is resized by the product of its
// axes' tables. Nearest, linear and cubic, plain or averaged over the pixels that one output covers (antialias).
//
// The order of the sums, and which products are fused with one, are PyTorch's (the compiler fuses none here): a picture
// of bytes is rounded after it was resized in floats, and exact ties are common in it.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "../core/call.h"
#include "../core/channels_last.h"

namespace flambeau {
namespace {

enum class Mode : uint8_t { Nearest, NearestExact, Linear, Cubic, Lanczos };

// Output o of an axis is the sum of weight[o * taps + k] * input[place[o * taps + k]]; unused taps have weight 0.
template <class T>
struct Axis {
  int64_t in = 1, out = 1, taps = 1;
  bool copies = true;  // output o is input o
  std::vector<int64_t> place;
  std::vector<T> weight;
  std::vector<int64_t> count;  // of an averaging axis: how many taps of each output are used
  void add(int64_t o, int64_t k, int64_t at, T w) {
    place[o * taps + k] = std::clamp<int64_t>(at, 0, in - 1);
    weight[o * taps + k] = w;
  }
};

struct Plan {
  Mode mode;
  bool align, antialias;
  int nd;
  Dims size;              // of the result
  const double* factors;  // what the user scaled by, 0 where the ratio of the sizes counts
};

template <class T>
T near_weight(T x, T a) { return std::fma(std::fma(a + 2, x, -(a + 3)) * x, x, T(1)); }
template <class T>
T far_weight(T x, T a) { return std::fma(std::fma(std::fma(a, x, -5 * a), x, 8 * a), x, -4 * a); }

template <class T>
T smooth(Mode mode, T x) {  // the averaging kernels: a triangle, Keys' cubic with a = -1/2, or three lobes of a sinc
  x = std::fabs(x);
  if (mode == Mode::Lanczos) {
    if (x == 0 || x >= 3) return x == 0 ? T(1) : T(0);
    const T pi = T(3.14159265358979323846) * x;
    return 3 * std::sin(pi) * std::sin(pi / 3) / (pi * pi);
  }
  if (mode == Mode::Linear) return x < 1 ? 1 - x : T(0);
  return x < 1 ? near_weight(x, T(-0.5)) : x < 2 ? far_weight(x, T(-0.5)) : T(0);
}

// Each output is the mean, weighted by `smooth`, of the pixels it covers.
template <class T>
void average(Axis<T>& a, Mode mode, T scale) {
  const T wide = std::max(scale, T(1)), shrink = 1 / wide;
  const T reach = T(mode == Mode::Linear ? 1 : mode == Mode::Cubic ? 2 : 3) * wide;
  const T half = T(0.5);
  a.taps = int64_t(std::ceil(reach)) * 2 + 1;
  a.place.assign(size_t(a.out * a.taps), 0);
  a.weight.assign(size_t(a.out * a.taps), 0);
  a.count.resize(size_t(a.out));
  for (int64_t o = 0; o < a.out; ++o) {
    const T center = scale * (T(o) + half);
    const int64_t first = std::max<int64_t>(int64_t(center - reach + half), 0);
    const int64_t count =
        std::clamp<int64_t>(std::min<int64_t>(int64_t(center + reach + half), a.in) - first, 0, a.taps);
    a.count[o] = count;
    T total = 0;
    for (int64_t k = 0; k < count; ++k) total += smooth(mode, (T(k + first) - center + half) * shrink);
    for (int64_t k = 0; k < count; ++k) {
      const T w = smooth(mode, (T(k + first) - center + half) * shrink);
      a.add(o, k, first + k, total != 0 ? w / total : w);
    }
  }
}

// The tap of output o that repeats a pixel, and the taps that lie on both sides of it.
template <class T>
void nearest_tap(Axis<T>& a, Mode mode, int64_t o, float step) {
  const float at = mode == Mode::Nearest ? float(o) * step : (float(o) + 0.5f) * step;
  a.add(o, 0, a.in == a.out ? o : std::min(int64_t(std::floor(at)), a.in - 1), 1);
}
template <class T>
void mixing_taps(Axis<T>& a, Mode mode, int64_t o, T at) {
  if (mode == Mode::Linear) at = a.in == a.out ? T(o) : std::max(at, T(0));
  const int64_t low = std::min(int64_t(std::floor(at)), a.in - 1);
  const T t = std::clamp(at - T(low), T(0), T(1));
  if (mode == Mode::Linear) {
    a.add(o, 0, low, 1 - t);
    a.add(o, 1, low + 1, t);
    return;
  }
  const T c = T(-0.75), w[] = {far_weight(t + 1, c), near_weight(t, c), near_weight(1 - t, c), far_weight(2 - t, c)};
  for (int k = 0; k < 4; ++k) a.add(o, k, low - 1 + k, w[k]);
}
// Taps that only repeat their own pixel become copies.
template <class T>
void find_copies(Axis<T>& a) {
  for (int64_t o = 0; o < a.out; ++o)
    for (int64_t k = 0; k < a.taps; ++k)
      a.copies = a.copies && a.in == a.out &&
                 (a.weight[o * a.taps + k] == 0 || (a.place[o * a.taps + k] == o && a.weight[o * a.taps + k] == 1));
  if (!a.copies) return;
  a.taps = 1;
  a.place.resize(size_t(a.out));
  a.weight.assign(size_t(a.out), T(1));
  for (int64_t o = 0; o < a.out; ++o) a.place[o] = o;
}
template <class T>
Axis<T> axis_of(const Plan& p, int64_t in, int64_t out, double factor) {
  Axis<T> a;
  a.in = in, a.out = out;
  const bool corners = p.align && p.mode >= Mode::Linear;
  const T scale = corners ? (out > 1 ? T(in - 1) / T(out - 1) : T(0)) : factor > 0 ? T(1 / factor) : T(in) / T(out);
  if (p.antialias) {
    average(a, p.mode, scale);
    a.copies = in == out && scale == 1;
    return a;
  }
  a.taps = p.mode == Mode::Cubic ? 4 : p.mode == Mode::Linear ? 2 : 1;
  a.place.resize(size_t(out * a.taps));
  a.weight.resize(size_t(out * a.taps));
  const float step = factor > 0 ? float(1 / factor) : float(in) / float(out);
  for (int64_t o = 0; o < out; ++o) {
    if (p.mode <= Mode::NearestExact) nearest_tap(a, p.mode, o, step);
    else mixing_taps(a, p.mode, o, corners ? scale * T(o) : std::fma(scale, T(o) + T(0.5), T(-0.5)));
  }
  find_copies(a);
  return a;
}

// The three axes; missing ones have one pixel.
template <class T>
std::vector<Axis<T>> axes_of(const Plan& p, const int64_t* in) {
  std::vector<Axis<T>> axes(3);
  for (int d = 0; d < 3; ++d) {
    const int k = d - (3 - p.nd);
    axes[d] = k < 0 ? axis_of<T>({Mode::Nearest, false, false, 0, {}, nullptr}, 1, 1, 0)
                    : axis_of<T>(p, in[k], p.size[k], p.factors[k]);
  }
  return axes;
}

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
  std::vector<T> half(size_t(planes * H.in * W.out));
  average_rows(W, x, half.data(), planes * H.in);
  average_columns(H, half.data(), y, planes, W.out);
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

// What each pixel of a row gets of the gradient of a row of the result.
template <class T>
void spread_row(const Axis<T>& W, const T* row, std::vector<T>& spread, int64_t channels) {
  std::fill(spread.begin(), spread.end(), T(0));
  for (int64_t q = 0; q < W.out; ++q, row += channels)
    for (int64_t k = q * W.taps; k < (q + 1) * W.taps; ++k) {
      T* to = &spread[W.place[k] * channels];
      for (int64_t c = 0; c < channels; ++c) to[c] += W.weight[k] * row[c];
    }
}
template <class T>
void backward(const std::vector<Axis<T>>& axes, const T* g, T* to, int64_t planes, int64_t channels) {
  const Axis<T> &D = axes[0], &H = axes[1], &W = axes[2];
  const int64_t width = W.in * channels, in = D.in * H.in * width, rows = D.out * H.out;
  const int64_t work = rows * (width * D.taps * H.taps + W.out * W.taps * channels);
  parallel_for(planes, std::max<int64_t>(1, 32768 / std::max<int64_t>(1, work)), [&](int64_t p, int64_t end) {
    std::vector<T> spread(static_cast<size_t>(width));
    for (; p < end; ++p) {
      T* plane = to + p * in;
      std::fill_n(plane, in, T(0));
      for (int64_t r = 0; r < rows; ++r) {
        spread_row(W, g + (p * rows + r) * W.out * channels, spread, channels);
        const int64_t d = r / H.out, h = r % H.out;
        for (int64_t i = 0; i < D.taps; ++i)
          for (int64_t j = 0; j < H.taps; ++j) {
            const T w = D.weight[d * D.taps + i] * H.weight[h * H.taps + j];
            if (w == 0) continue;
            T* target = plane + (D.place[d * D.taps + i] * H.in + H.place[h * H.taps + j]) * width;
            for (int64_t q = 0; q < width; ++q) target[q] += w * spread[q];
          }
      }
    }
  });
}

// Bytes are resized along one axis after the other, each time to bytes again, with weights of 16 bits: as image
// libraries and PyTorch do, so that the numbers are theirs.
struct ByteAxis {
  std::vector<int16_t> weight;
  int64_t taps;
  int bits = 0;
};
ByteAxis byte_axis(const Axis<double>& a) {
  ByteAxis b;
  b.taps = a.taps;
  std::vector<double> whole = a.weight;
  for (size_t k = 1; k < whole.size(); ++k)  // at the edges several taps are one pixel: rounded together
    if (int64_t(k) % a.taps && a.place[k] == a.place[k - 1]) whole[k] += std::exchange(whole[k - 1], 0.0);
  double most = 0;
  for (double w : whole) most = std::max(most, w);
  while (b.bits < 22 && int(0.5 + most * double(1 << (b.bits + 1))) < (1 << 15)) ++b.bits;
  for (double w : whole) b.weight.push_back(int16_t(int(w * double(1 << b.bits) + (w < 0 ? -0.5 : 0.5))));
  return b;
}

// Bytes are computed side by side, in registers.
constexpr int64_t kAbreast = 32;
typedef uint8_t Bytes __attribute__((vector_size(8)));
typedef int32_t Ints __attribute__((vector_size(32)));

// kAbreast bytes: the sums over `taps` of weight x the bytes at from + place x step.
inline void byte_sums(const int16_t* weight, const int64_t* place, int64_t taps, const uint8_t* from, int64_t step,
                      int bits, uint8_t* to) {
  const int half = bits ? 1 << (bits - 1) : 0;
  Ints sums[4];
  for (Ints& s : sums) s = Ints{} + half;
  for (int64_t k = 0; k < taps; ++k) {
    if (!weight[k]) continue;
    const uint8_t* row = from + place[k] * step;
    for (int i = 0; i < 4; ++i) {
      Bytes bytes;
      std::memcpy(&bytes, row + 8 * i, 8);
      sums[i] += __builtin_convertvector(bytes, Ints) * int(weight[k]);
    }
  }
  for (int i = 0; i < 4; ++i) {
    Ints s = sums[i] >> bits;
    s = s < 0 ? Ints{} : s;
    const Bytes bytes = __builtin_convertvector(s > 255 ? Ints{} + 255 : s, Bytes);
    std::memcpy(to + 8 * i, &bytes, 8);
  }
}

// Eight rows of eight bytes become columns: halves of rows are exchanged, then quarters, then bytes.
inline void turn_block(uint64_t (&row)[8]) {
  auto exchange = [](uint64_t& a, uint64_t& b, int shift, uint64_t mask) {
    const uint64_t t = ((a >> shift) ^ b) & mask;
    a ^= t << shift;
    b ^= t;
  };
  for (int i : {0, 1, 2, 3}) exchange(row[i], row[i + 4], 32, 0xffffffff);
  for (int i : {0, 1, 4, 5}) exchange(row[i], row[i + 2], 16, 0xffff0000ffff);
  for (int i : {0, 2, 4, 6}) exchange(row[i], row[i + 1], 8, 0xff00ff00ff00ff);
}
// to[column, row] = from[row, column]
void turn(const uint8_t* from, int64_t from_step, int64_t rows, int64_t columns, uint8_t* to, int64_t to_step) {
  for (int64_t j = 0; j < rows; j += 8)
    for (int64_t q = 0; q < columns; q += 8) {
      if (j + 8 <= rows && q + 8 <= columns) {
        uint64_t row[8];
        for (int i = 0; i < 8; ++i) std::memcpy(&row[i], from + (j + i) * from_step + q, 8);
        turn_block(row);
        for (int i = 0; i < 8; ++i) std::memcpy(to + (q + i) * to_step + j, &row[i], 8);
        continue;
      }
      for (int64_t y = j; y < std::min(j + 8, rows); ++y)
        for (int64_t x = q; x < std::min(q + 8, columns); ++x) to[x * to_step + y] = from[y * from_step + x];
    }
}

// from [rows, in] to [rows, out]: kAbreast rows at a time, turned so that their bytes lie side by side.
void byte_rows(const Axis<double>& a, const uint8_t* from, uint8_t* to, int64_t rows) {
  const ByteAxis b = byte_axis(a);
  const int64_t stripes = (rows + kAbreast - 1) / kAbreast;
  parallel_for(stripes, std::max<int64_t>(1, 32768 / (a.out * a.taps * kAbreast)), [&](int64_t stripe, int64_t end) {
    std::vector<uint8_t> turned(size_t(a.in * kAbreast)), made(size_t(a.out * kAbreast));
    for (; stripe < end; ++stripe) {
      const int64_t first = stripe * kAbreast, n = std::min(kAbreast, rows - first);
      turn(from + first * a.in, a.in, n, a.in, turned.data(), kAbreast);
      for (int64_t o = 0; o < a.out; ++o)
        byte_sums(&b.weight[o * a.taps], &a.place[o * a.taps], a.taps, turned.data(), kAbreast, b.bits,
                  &made[o * kAbreast]);
      turn(made.data(), kAbreast, a.out, n, to + first * a.out, a.out);
    }
  });
}
// from [planes, in, columns] to [planes, out, columns]; what is left of a row is computed in a buffer
void byte_columns(const Axis<double>& a, const uint8_t* from, uint8_t* to, int64_t planes, int64_t columns) {
  const ByteAxis b = byte_axis(a);
  const int64_t whole = columns / kAbreast * kAbreast;
  parallel_for(planes * a.out, std::max<int64_t>(1, 32768 / (columns * a.taps)), [&](int64_t r, int64_t end) {
    std::vector<uint8_t> rest(size_t(a.taps * kAbreast));
    std::vector<int64_t> order(static_cast<size_t>(a.taps));
    for (int64_t k = 0; k < a.taps; ++k) order[k] = k;
    for (; r < end; ++r) {
      const uint8_t* plane = from + r / a.out * a.in * columns;
      const int64_t o = r % a.out * a.taps;
      uint8_t* row = to + r * columns;
      for (int64_t q = 0; q < whole; q += kAbreast)
        byte_sums(&b.weight[o], &a.place[o], a.taps, plane + q, columns, b.bits, row + q);
      if (whole == columns) continue;
      for (int64_t k = 0; k < a.taps; ++k)
        std::memcpy(&rest[k * kAbreast], plane + a.place[o + k] * columns + whole, size_t(columns - whole));
      uint8_t made[kAbreast];
      byte_sums(&b.weight[o], order.data(), a.taps, rest.data(), kAbreast, b.bits, made);
      std::memcpy(row + whole, made, size_t(columns - whole));
    }
  });
}
void resize_bytes(const Plan& p, const Tensor& x, Tensor& y) {
  const std::vector<Axis<double>> axes = axes_of<double>(p, x.sizes + 2);
  const int64_t planes = x.size(0) * x.size(1), rows = axes[1].in, columns = axes[2].out;
  TensorRef dense = contiguous(x);
  std::vector<uint8_t> half(size_t(planes * rows * columns));
  LockRelease lock((x.numel + y.numel) * 4);
  byte_rows(axes[2], dense->ptr<uint8_t>(), half.data(), planes * rows);
  byte_columns(axes[1], half.data(), y.ptr<uint8_t>(), planes, columns);
}

// --- resize(self, size, factors, mode, align_corners, antialias) and resize_backward(grad, input_size, size, …)

Plan plan_of(const Call& c, int at, int nd) {
  static const char* const names[] = {"nearest", "nearest-exact", "linear", "cubic", "lanczos"};
  const auto found = std::find(std::begin(names), std::end(names), c.str(at + 2));
  if (found == std::end(names)) value_error(c.name(), ": unknown mode ", std::string(c.str(at + 2)));
  Plan p{Mode(found - names), c.boolean(at + 3), c.boolean(at + 4), nd, c.ints(at), c.args[at + 1].floats.data};
  if (p.mode == Mode::Lanczos && !p.antialias) value_error(c.name(), ": mode lanczos requires antialias=True");
  if (int(p.size.size()) != nd || c.args[at + 1].floats.size != nd || nd < 1 || nd > 3)
    runtime_error(c.name(), ": expected one size and one factor for each of ", nd, " dimensions");
  return p;
}
void check_sizes(const Call& c, const Tensor& x, Dims in, Dims out) {
  bool good = true;
  for (int64_t n : in) good = good && n > 0;
  for (int64_t n : out) good = good && n > 0 && n < (int64_t(1) << 31);
  if (!good)
    runtime_error(c.name(), ": input ", shape_text(in), " and output ", shape_text(out), " must both have positive "
                  "sizes");
  if (is_complex(x.dtype) || x.dtype == DType::Bool)
    runtime_error(c.name(), ": not implemented for dtype ", dtype_name(x.dtype));
}

// The channels of images that lie last and are computed so, else 1.
int64_t together(const Plan& p, const Tensor& x) {
  const bool plain = x.dtype == DType::Float32 || x.dtype == DType::Float64;
  return plain && !(p.antialias && p.nd == 2) && has_channels_last(x) ? x.size(1) : 1;
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
  TensorRef x = last ? with_channels_last(given) : contiguous(*to_dtype(given, compute)), wide;
  Tensor* to = &out;
  if (compute != out.dtype) wide = empty(out.shape(), compute, out.device), to = wide.get();
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

void infer_resize(Call& c) {
  Tensor& x = c.tensor(0);
  const int nd = x.ndim - 2;
  const Plan& p = c.hand_over(plan_of(c, 1, nd));
  check_sizes(c, x, x.shape().subspan(2), p.size);
  std::vector<int64_t> shape(x.sizes, x.sizes + 2);
  shape.insert(shape.end(), p.size.begin(), p.size.end());
  declare(c, p, x, shape);
}
void cpu_resize(Call& c) {
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
  const Plan& p = c.hand_over(plan_of(c, 2, g.ndim - 2));
  if (in.size() != p.size.size() || !std::ranges::equal(g.shape().subspan(2), p.size))
    runtime_error(c.name(), ": gradient of shape ", shape_text(g.shape()), " does not fit the size ",
                  shape_text(p.size));
  check_sizes(c, g, in, p.size);
  std::vector<int64_t> shape(g.sizes, g.sizes + 2);
  shape.insert(shape.end(), in.begin(), in.end());
  declare(c, p, g, shape);
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
    {"resize", infer_resize, cpu_resize, Images::Kept},
    {"resize_backward", infer_resize_backward, cpu_resize_backward, Images::Kept},
};

}  // namespace
}  // namespace flambeau
