// The taps of a resized axis: which places of the input an output is made of, and with what weights.
#include <algorithm>
#include <cmath>

#include "resize.h"

namespace flambeau::resizing {
namespace {

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

}  // namespace

template <class T>
std::vector<Axis<T>> axes_of(const Plan& p, const int64_t* in) {
  std::vector<Axis<T>> axes(3);
  for (int d = 0; d < 3; ++d) {
    const int k = d - (3 - p.nd);
    axes[d] = k < 0 ? axis_of<T>({Mode::Nearest, false, false, 0, {}, {}}, 1, 1, 0)
                    : axis_of<T>(p, in[k], p.size[k], p.factors[k]);
  }
  return axes;
}
template std::vector<Axis<float>> axes_of(const Plan&, const int64_t*);
template std::vector<Axis<double>> axes_of(const Plan&, const int64_t*);

}  // namespace flambeau::resizing
